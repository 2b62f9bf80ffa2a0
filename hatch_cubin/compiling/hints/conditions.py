"""Hints about text that preprocessor conditions hide from the compiler, and host code that none hides."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from ...config import toml_lines
from ...errors import Location, Problem, problem
from ...planning.unit_plan import Module
from ...project.scan import IDENTIFIER, join_continued_lines
from ...project.source import may_have_kernel, without_comments
from .failed_compile import FailedCompile
from .host_code import APART
from .kernel_declarations import GAP, declared, examples
from .other_sources import called_elsewhere

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*(ifdef|ifndef|if|elif|else|endif|define)\b(.*)")
_ONE_MACRO = re.compile(r"(?:defined[ \t]*\(?[ \t]*)?([^\W\d]\w*)[ \t]*\)?")
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_VALUE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
_NOT_DEFINED = re.compile(r"(?:ifndef|if[ \t]+![ \t]*defined)[ \t]*\(?[ \t]*(\w+)[ \t]*\)?")
_OF_NVRTC = frozenset({"__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__", "__cplusplus"})
_MAIN = re.compile(r"^[ \t]*(?:(?:static|inline|extern|\"C\")\s+)*(?:int|void|auto)\s+main\s*\(")
_LAUNCH = re.compile(r"[\w>]\s*<<<(?!<)")
_GLOBAL = re.compile(r"\b__global__\b")
_NEVER = "(?!)"
MOST_EXAMPLES = 10
_NO_SOURCE_BUT_THIS = (
    "functions alone are not a kernel: write one with __global__; "
    "a project without kernels does not need a table of hatch-cubin"
)
_BY_NAME = "a template is compiled only where 'instantiate' names it"
FILLED = f", with a type or a value for each {GAP}"


class Condition(NamedTuple):
    """A preprocessor condition around a piece of text, and the line of its branch's directive."""

    kind: str
    operand: str
    line: int

    def lacking(self, given: AbstractSet[str]) -> tuple[str, ...] | None:
        """Return the macros that it still needs, () if it holds, None if only a compiler can tell."""
        if self.kind in {"elif", "else"}:  # they depend on every branch before them
            return None
        if self.operand == "1":
            return ()
        if match := _NOT_DEFINED.fullmatch(f"{self.kind} {self.operand}"):
            return None if match[1] in given else ()
        matches = [_ONE_MACRO.fullmatch(part.strip()) for part in self.operand.split("&&")]
        if not all(matches):
            return None
        return tuple(match[1] for match in matches if match and match[1] not in given)


def about_no_kernel(failed: FailedCompile) -> str | None:
    """Return a hint for a source without a kernel in its result."""
    module = failed.module
    left_out = f"functions alone are not a kernel: {failed.line('exclude', [failed.path])}"
    if failed.sources.keys() == {failed.path}:
        left_out = _NO_SOURCE_BUT_THIS
    elif (call := called_elsewhere(failed)) is not None:
        left_out = call
    if module.source.is_ptx:
        return left_out.replace("write one with __global__", "write one as .visible .entry")
    texts = [*map(failed.text_of, (failed.path, *failed.headers))]
    unnamed = _about_templates(failed, left_out)
    written = {name for text in texts for name in _DEFINED.findall(text)}
    given = _OF_NVRTC | written | {name for name, value in module.macros if value != "0"}
    for condition in _around_kernels(module.source.text):
        shown = f"#{condition.kind} {condition.operand}".rstrip()
        kept = f"'{shown}' ({Location(failed.path, condition.line)})"
        lacking = condition.lacking(given)
        if lacking is None:
            return f"{kept} may keep its kernels from the compiler; {unnamed}"
        if lacking:
            pasted = failed.pasted("define", dict.fromkeys(lacking, True))
            return f"{kept} keeps its kernels from the compiler:{pasted}"
    return unnamed


def _about_templates(failed: FailedCompile, left_out: str) -> str:
    """Return a hint at how to instantiate the kernel templates of a source, or else of its headers."""
    found = declared({path: failed.text_of(path) for path in (failed.path, *failed.headers)})
    templates = [kernel for kernel in found.kernels if kernel.parameters]
    own = [kernel for kernel in templates if kernel.where.path == failed.path]
    # A source with functions of its own may include a header with a template only for its types.
    is_for_headers = "__device__" not in failed.text_of(failed.path)
    if entries := examples(found, own or templates)[:MOST_EXAMPLES]:
        filled = FILLED if any(GAP in each for each in entries) else ""
        if own or is_for_headers:
            path = failed.module.source.path_for_globs
            table = toml_lines.source_table(failed.module.tables, path, instantiate=entries)
            return f"{_BY_NAME}{filled}; for example:{table}"
        return left_out
    if _GLOBAL.search(without_comments(failed.text_of(failed.path))):  # in a macro, or hidden by conditions
        return f"{_BY_NAME} with its arguments"
    macros = [text for macro in failed.module.macros for text in macro]
    texts = [*map(failed.text_of, failed.headers), *macros, failed.text_of(failed.path)]
    if failed.config.header_packages or any(map(may_have_kernel, texts)):
        return f"{_BY_NAME} with its arguments; {left_out}"
    return left_out


def surely_read(text: str, given: AbstractSet[str]) -> Iterator[tuple[str, int]]:
    """Yield each line, with its number, that no condition hides from a compiler with the macros *given*."""
    known = _OF_NVRTC | given
    for line, number, around in _lines(text):
        if all(condition.lacking(known) == () for condition in around):
            yield line, number


def _around_kernels(text: str) -> tuple[Condition, ...]:
    """Return the conditions around the first kernel, if every kernel has conditions around it."""
    found = [(line, around) for line, _number, around in _lines(text) if line.strip()]
    kernels = [around for line, around in found if "__global__" in line]
    every = kernels or [around for _line, around in found]
    return every[0] if every and all(every) else ()


def host_code(module: Module, texts: Mapping[str, str]) -> Problem | None:
    """Return a warning about a host's main function or launch that compiles as uncalled device code.

    *texts* are the texts of the source and of the project's headers, by path.
    """
    if not module.options.get("device_as_default_execution_space"):
        return None
    by_macro = _main_by_macro(texts.values())
    for path, text in texts.items():
        before = ""
        for line, number, around in _lines(join_continued_lines(text)):
            is_main = _MAIN.match(line) or _MAIN.match(f"{before} {line}") or by_macro.match(line)
            # A kernel that launches kernels cannot be loaded. Library headers have launches for other uses.
            launches = path == module.source.path and _LAUNCH.search(line)
            found = "main()" if is_main else "a launch" if launches else None
            if found and not any("__CUDACC_RTC__" in each.operand for each in around):
                option = "device-as-default-execution-space"
                what = f"{found} is taken as device code, as {option!r} says, and left out"
                return problem("host-code-left-out", what, Location(path, number), APART)
            before = line
    return None


def _main_by_macro(texts: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern for lines in which a macro makes a main function, or gets its name as an argument."""
    macros = [match.groups() for text in texts for match in _VALUE.finditer(join_continued_lines(text))]
    named, before = {"main"}, 0
    while len(named) > before:
        before = len(named)
        named |= {name for name, value in macros if named & {*IDENTIFIER.findall(value)}}
    every = "|".join(name for name, _value in macros)
    return re.compile(
        rf".*\b(?:{'|'.join(named - {'main'}) or _NEVER})\b|\s*(?:{every or _NEVER})\s*\([^()]*\bmain\b"
    )


def _lines(text: str) -> Iterator[tuple[str, int, tuple[Condition, ...]]]:
    """Yield each line except conditions, its number, and the conditions around it but include guards."""
    around: list[Condition | None] = []
    guard = ""  # the macro of the last #ifndef, if nothing has followed it yet
    for number, line in enumerate(without_comments(text).splitlines(), start=1):
        match = _DIRECTIVE.fullmatch(line)
        kind, operand = (match[1], match[2].strip()) if match else ("", "")
        if kind == "define":
            if operand.split()[:1] == [guard]:
                around[-1] = None
        elif kind == "endif":
            around[-1:] = []
        elif kind:
            around[len(around) - (kind in {"else", "elif"}) :] = [Condition(kind, operand, number)]
        else:
            yield line, number, tuple(each for each in around if each is not None)
        if kind or line.strip():
            guard = operand if kind == "ifndef" else ""
