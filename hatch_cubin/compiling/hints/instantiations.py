"""Hints about entries of `instantiate`: each at its line of the table, with the kernel that it may mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from ...config.toml_lines import source_table
from ...cubin.kernel_names import demangle
from ...errors import Location
from ...project.source import without_comments
from ..diagnostics import Diagnostic
from .failed_compile import FailedCompile
from .kernel_declarations import Declared, Kernel, declared, end_of, examples, parts
from .similar_names import nearest
from .undefined_names import undefined

_ENTRY = re.compile(r"\s*#pragma nv_mangled_name (.*)")
_FOR_THE_DEVICE = re.compile(r"cannot form address of a non-__global__")
_UNKNOWN = re.compile(r'identifier "(\w+)" is undefined|has no member "(\w+)"')
_DECLARED = re.compile(
    r"\b(?:struct|class|enum|union|using|typename|typedef[^;{}]*)\s+([A-Za-z_]\w*)\s*[:={;<]"
)
_AMBIGUOUS = re.compile(r"cannot determine which")
_INSTANTIATED = re.compile(r'detected during instantiation of "void ([\w:]+)[(<]')
_FOLLOWS = re.compile("Error in parsing name expression")
_MOST = 5  # the most templates that a hint lists
_WORD = re.compile(r"\w+")
# The text around a name where C++ declares, instantiates or launches it.
_DECORATION = re.compile(
    r"\b(?:extern|inline|static|void|typename|template(?:\s*<\s*>)?|__\w+__(?:\s*\([^()]*\))?)(?!\w)"
)
_CALLED = re.compile(r"((?:::\s*)?[A-Za-z_]\w*(?:\s*(?:::|\.)\s*\w+)*)\s*([<\[(;]|$)")
# Types of elements as NumPy, PyTorch and others call them, and their types in device code.
_ELEMENTS = {
    **dict.fromkeys(("half", "float16"), "__half"),
    "bfloat16": "__nv_bfloat16",
    "float32": "float",
    "float64": "double",
    "bool_": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
}
_ELEMENT = re.compile(
    r"(?:(?<![\w:])(?:torch|np|numpy|cp|cupy|jnp|tl|at|c10)\s*(?:\.|::)\s*|(?<![\w:.]))"
    r"(Half|BFloat16|(?:float|bfloat|u?int)\d+|bool_)\b"
)
_OF_HOSTS = re.compile(r"\b(?:std|at|c10|torch|thrust)\s*::\s*\w+")
_BUILTIN = (
    "float",
    "double",
    "int",
    "unsigned",
    "char",
    "short",
    "long",
    "bool",
    "half",
    "half2",
    "true",
    "false",
)


def entry_of(error: Diagnostic) -> str | None:
    """Return the entry of `instantiate` that an error is about; None if the error is about the source."""
    matches = filter(None, map(_ENTRY.match, error.context))
    return next((match[1].strip() for match in matches), None)


def wrong_entries(found: Sequence[Diagnostic], failed: FailedCompile) -> list[Diagnostic]:
    """Return one error for each entry that is wrong.

    If the source has errors too, an error about one of its kernels may only follow from them.
    """
    first: dict[str, Diagnostic] = {}
    for each in found:
        if (entry := entry_of(each)) is not None:
            first.setdefault(entry, each)
    located = {entry: _located(entry, error, failed) for entry, error in first.items()}
    entries = _once_for_each_product(located, first, failed)
    if all(entry_of(each) is not None for each in found):
        return [*entries.values()]
    names = {kernel.base for kernel in _declared(failed).kernels}
    return [each for entry, each in entries.items() if each.hint or names.isdisjoint(_WORD.findall(entry))]


def _once_for_each_product(
    entries: Mapping[str, Diagnostic], first: Mapping[str, Diagnostic], failed: FailedCompile
) -> dict[str, Diagnostic]:
    """Return the errors, without those that repeat an error of the same product or follow from one.

    *first* has the compiler's own errors.
    """
    kept: dict[str, Diagnostic] = {}
    told = set[tuple[Location | None, str | None]]()
    for entry, error in entries.items():
        if failed.is_of_product(entry):
            said, follows = first[entry].text, _FOLLOWS.search(first[entry].text)
            if {(error.where, said), (error.where, error.hint)} & told or (
                follows and (error.where, "") in told
            ):
                continue
            told |= {(error.where, text) for text in (said, error.hint, "") if text is not None}
        kept[entry] = error
    return kept


def with_entry(error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    """Return an error in a template with the entry that instantiates it, if only one entry does."""
    names = (match[1] for line in error.context if (match := _INSTANTIATED.search(line)))
    entries = [each for name in names for each in failed.module.instantiate if _parts(each)[0] == name]
    where = failed.place_of_entry(entries[0]) if entries and {*entries} == {entries[0]} else None
    if where is None:
        return error
    return replace(error, context=(*error.context, f"    as {entries[0]!r} asks for it ({where})"))


def _located(entry: str, error: Diagnostic, failed: FailedCompile) -> Diagnostic:
    text = error.text.removeprefix("instantiate: ")
    hint = _about(entry, error, failed)
    where = failed.place_of_entry(entry) or error.where
    return replace(error, text=f"instantiate: {entry!r}: {text}", where=where, context=(), hint=hint)


def _about(entry: str, error: Diagnostic, failed: FailedCompile) -> str | None:
    if (told := undefined([error], failed)) is not None:
        return told[0].hint
    found = _declared(failed)
    name, arguments, rest = _parts(entry)
    if _FOR_THE_DEVICE.search(error.text):
        return _about_function(name, found, failed)
    mine = _kernel_of(name, found.kernels)
    if mine is None:
        close = _of_other_source(entry, name, failed) or _another_kernel(name, arguments, found.kernels)
        return close or _about_others(entry, name, found, failed, error)
    match = _UNKNOWN.search(error.text)
    unknown = (match[1] or match[2]) if match else ""
    if unknown == mine.base and name == mine.name and not rest:
        return None  # it is declared in text that the compiler does not see
    if not arguments or _AMBIGUOUS.search(error.text):
        return _about_template(entry, mine, found)
    return _rewritten(entry, mine) or _about_arguments(entry, arguments, unknown, mine, failed)


def _rewritten(entry: str, kernel: Kernel) -> str | None:
    """Return the correct form of an entry that has other types, or text beside its name and arguments."""
    name, arguments, rest = _parts(entry)
    another = rest.startswith("<") and not rest.startswith("<<")
    if another or rest.startswith(",") or re.match(rf"{kernel.base}\b", rest):
        return "write each as an entry of its own, in quotes of its own"
    if _lacks_arguments(arguments, kernel):
        return None
    meant = f"{kernel.name}{_of_device(arguments)}"
    if _plain(meant) == _plain(entry):
        return None
    if _plain(entry) == _plain(f"{name}{arguments}"):
        return f"did you mean {meant!r}?"
    return f"write its name and its template's arguments alone: {meant}"


def _lacks_arguments(arguments: str, kernel: Kernel) -> bool:
    """Return whether an entry has fewer arguments than its template has parameters without a default."""
    needed = [each for each in kernel.parameters if not (each.has_default or each.is_pack)]
    return len(parts(arguments.strip()[1:-1])) < len(needed)


def _about_arguments(
    entry: str, arguments: str, unknown: str, kernel: Kernel, failed: FailedCompile
) -> str | None:
    if unknown and (another := _another_type(unknown, entry, failed)) is not None:
        return another
    if of_host := _OF_HOSTS.search(arguments):
        return f"{of_host[0]!r} is for host code: name a type that device code has"
    if unknown and unknown not in {each.name for each in kernel.parameters}:
        return None
    return _about_template(entry, kernel, _declared(failed))


def _plain(entry: str) -> str:
    return "".join(entry.split()).removeprefix("::")


def _parts(entry: str) -> tuple[str, str, str]:
    """Return an entry's name, its template's arguments, and the rest."""
    written = demangle(entry.strip())
    text = " ".join(_DECORATION.sub(" ", written).split()).strip(" &\"'").replace("< ", "<")
    match = _CALLED.search(text)
    if match is None:
        return text, "", ""
    name = re.sub(r"\s*(?:::|\.)\s*", "::", match[1])
    if match[2] not in {"<", "["} or text.startswith("<<<", match.start(2)):
        return name, "", text[match.end(1) :].strip()
    end = end_of(text, match.end(), match[2])
    inside = text[match.end() : end].rstrip().removesuffix(">").removesuffix("]")
    return name, f"<{inside}>", text[end:].strip()


def _kernel_of(name: str, kernels: Sequence[Kernel]) -> Kernel | None:
    """Return the kernel with that name, in the namespace given or else in another one."""
    same = [each for each in kernels if each.base == name.rpartition("::")[2]]
    exact = (each for each in same if f"::{each.name}".endswith(f"::{name.removeprefix('::')}"))
    return next(exact, same[0] if same else None)


def _of_device(arguments: str) -> str:
    """Return a template's arguments with the types of Python's libraries replaced by the types of C++."""
    return _ELEMENT.sub(lambda match: _ELEMENTS.get(match[1].lower(), match[0]), arguments)


def _about_function(name: str, found: Declared, failed: FailedCompile) -> str:
    """Return a hint for an entry that names a device function."""
    what = f"'{name}' is no kernel, and is compiled with the kernels that call it: drop the entry"
    return (
        what if found.kernels else f"{what}; a file without kernels: {failed.line('exclude', [failed.path])}"
    )


def _about_template(entry: str, kernel: Kernel, found: Declared) -> str:
    if kernel.template:
        what = f"its template is '{kernel.template}' ({kernel.where})"
        example = found.example(kernel)
        return what if "".join(example.split()) == "".join(entry.split()) else f'{what}, as in "{example}"'
    return f"'{kernel.name}' is no template ({kernel.where}), and needs no entry"


def _another_type(unknown: str, entry: str, failed: FailedCompile) -> str | None:
    types = [*_BUILTIN, *(each for text in _texts(failed).values() for each in _DECLARED.findall(text))]
    close = unknown if unknown in types else nearest(unknown, types) or unknown
    meant = re.sub(rf"\b{unknown}\b", close, entry)
    return None if meant == entry else f"did you mean {meant!r}?"


def _of_other_source(entry: str, name: str, failed: FailedCompile) -> str | None:
    """Return a hint for an entry of a table for several sources, if another one of them has the kernel."""
    having = {
        path: written
        for path, text in failed.sources.items()
        if (written := failed.shared_entry(path, entry)) and _kernel_of(name, declared({path: text}).kernels)
    }
    if not having:
        return None
    tables = "".join(
        source_table(failed.module.tables, path, instantiate=[written]) for path, written in having.items()
    )
    what = f"{failed.path} has no template {name!r}"
    return f"{what}: take the entry out of this table, and write instead:{tables}"


def _another_kernel(name: str, arguments: str, kernels: Sequence[Kernel]) -> str | None:
    """Return a guess for an entry whose kernel is unknown: a kernel with a similar name."""
    names = {each.base: each.name for each in kernels}
    close = nearest(name.rpartition("::")[2], names)
    return f"did you mean '{names[close]}{_of_device(arguments)}'?" if close else None


def _about_others(
    entry: str, name: str, found: Declared, failed: FailedCompile, error: Diagnostic
) -> str | None:
    """Return a hint for an entry without a name, or with a name that is not a kernel's."""
    words = _WORD.findall(entry)
    named = next((each for each in found.kernels if each.base in words[:1]), None)
    if named is not None:
        return _about_template(entry, named, found)
    unknown = _UNKNOWN.search(error.text)
    is_unknown = unknown is not None and (unknown[1] or unknown[2]) == name.rpartition("::")[2]
    if not (is_unknown or re.match(r"\W*<|\W*$", entry)):  # an outside header may have it
        return None
    templates = examples(found, found.kernels)[:_MOST]
    listed = ", ".join(map(repr, templates))
    return (
        f"the templates of {failed.path}, each with an example of its arguments: {listed}" if listed else None
    )


def _declared(failed: FailedCompile) -> Declared:
    """Return the declarations in the source and its headers."""
    return declared({path: failed.text_of(path) for path in (failed.path, *failed.headers)})


def _texts(failed: FailedCompile) -> dict[str, str]:
    return {path: without_comments(failed.text_of(path)) for path in (failed.path, *failed.headers)}
