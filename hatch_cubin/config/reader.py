"""Read the configuration key by key: return the checked values, or report every problem with its line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..common.environment import (
    REMOTE,
    REQUIRE_SIGNED,
    SIGNING_KEY,
    as_written,
    is_on,
    read_environment,
    unknown_variables,
)
from ..errors import ConfigError, Problem, problem
from . import nvrtc_options, value_checks
from .known_names import HATCHLING_KEYS, WRAPPER, key_meant
from .toml_positions import TableLocation
from .value_checks import MAX_VARIANTS, Macros, RefusedValueError, Variants, WrittenInstantiation

_PLACEHOLDER = re.compile(r"(?:^|[<,/]\s*)…\s*(?:$|[>,])")  # users must replace the "…" that hints contain
_MOST_LISTED = 32  # how many values of a range a hint lists


def read_table(table: Mapping[str, Any], place: TableLocation, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the fields of a `Config` from pyproject.toml (*table*) and environment variables.

    A ConfigError lists all mistakes in the table and in the variables.
    """
    reader = _Reader(place, _major(environ.get("HATCH_CUBIN_TOOLKIT") or table.get("toolkit")))
    own = {key: value for key, value in table.items() if key not in HATCHLING_KEYS}
    values = reader.table({**_CHECKS, **_WRAPPER_CHECKS} if place.wraps else _CHECKS, own, ())
    if place.wraps and not {"backend", "build-backend"} & own.keys():  # 'build-backend' is reported already
        what = "the key 'backend' is missing: it names the build backend that makes the wheel"
        reader.add(problem("missing-key", what, hint=_backend_required(place.text)), ())
    if is_on(environ, REQUIRE_SIGNED) and "trusted-keys" not in own:
        what = f"{REQUIRE_SIGNED} is set, but there are no 'trusted-keys' to check signatures with"
        how = _PUBLIC_KEY_HINT if environ.get(SIGNING_KEY) else _KEYGEN_HINT
        reader.add(problem("no-trusted-keys", what, hint=how), ())
    replaced, wrong = read_environment(environ, _VARIABLES)
    _report_contradictions(values, reader, ())
    values |= replaced
    for variable, what in wrong.items():  # a problem of an environment variable has no line
        hint = _variable_meant(variable, environ[variable])
        reader.problems.append(problem("invalid-variable", _short_line(what), hint=hint))
    if reader.problems:
        raise ConfigError(*reader.problems)
    names = {name: as_written(environ, variable) for variable, (name, _read) in _VARIABLES.items()}
    return {**values, "replaced": {name: names[name] for name in replaced}, "place": place}


def read_source_settings(settings: Mapping[str, Any], place: TableLocation) -> dict[str, Any]:
    """Return the fields of a `SourceRule` that a producer sets for one source. A ConfigError lists mistakes.

    *settings* may have all keys of a [[source]] table, except `path`.
    """
    reader, here = _Reader(place, None), ("source",)
    values = _with_call(reader.table(_PRODUCED_CHECKS, settings, here), reader, here)
    if not reader.problems:
        _report_contradictions(values, reader, here)
    if reader.problems:
        raise ConfigError(*reader.problems)
    return {**values, "undefined": _undefined(settings)}


def variables_unread(environ: Mapping[str, str]) -> list[str]:
    """Return a message for each unknown variable whose name is similar to a variable of hatch-cubin."""
    return unknown_variables(environ, _VARIABLES, KEYS)


class _Reader:
    """Reads tables of TOML key by key, and collects all problems."""

    def __init__(self, place: TableLocation, major: int | None) -> None:
        self.place = place
        self.major = major  # the major version of CUDA for the build, if the project sets it
        self.problems: list[Problem] = []
        self.beside: Mapping[str, Any] = {}  # the table of TOML that is read, with its keys and values

    def table(
        self,
        readers: Mapping[str, Callable[..., Any]],
        table: Mapping[str, Any],
        path: tuple[str | int, ...],
    ) -> dict[str, Any]:
        """Check the values in *table*, and return a mapping from field name to value."""
        values = {}
        for key, value in table.items():
            if (read := readers.get(key)) is None:
                self._unknown(key, readers, path)
                continue
            if self.has_placeholder(key, value, (*path, key)):
                continue
            self.beside = table
            try:
                values[key.replace("-", "_")] = read(value, self, (*path, key))
            except ValueError as exc:
                keygen = _KEYGEN_HINT if key == "trusted-keys" else None
                self.refuse(exc, f"{key} {exc}", (*path, key), _meant(key, value) or keygen)
        return values

    def has_placeholder(self, key: str, value: object, path: tuple[str | int, ...]) -> bool:
        """Report each placeholder "…" in the value of *key*; return whether the value has a placeholder.

        Hints of hatch-cubin contain placeholders, and users may copy a hint without writing a real value.
        """
        placeholders = [*_placeholders(value, path)]
        for place, text in placeholders:
            what = f"{key}: {text!r} still contains a placeholder"
            hint = f"replace the {'…' if '…' in text else '...'} by a real value"
            self.add(problem("placeholder-not-replaced", what, hint=hint), place)
        return bool(placeholders)

    def add(self, found: Problem, path: tuple[str | int, ...]) -> None:
        """Add a problem to the list, and set the problem's place to the line of the key at *path*."""
        where, what, hint = self.place.of(*path), _short_line(found.what), self.place.in_full(found.hint)
        self.problems.append(found._replace(what=what, where=where, hint=hint))

    def refuse(
        self, error: ValueError, what: str, path: tuple[str | int, ...], hint: str | None = None
    ) -> None:
        """Add a problem for a value that a check rejected with *error*.

        *what* is the text of the message.
        """
        found = problem("invalid-value", what, hint=hint)
        if isinstance(error, RefusedValueError):
            inner = None if error.path is None else self.place.path_in_project(error.path)
            found = found._replace(code=error.problem.code, hint=f'write "{inner}"' if inner else hint)
        self.add(found, path)

    def _unknown(self, key: str, known: Mapping[str, Any], path: tuple[str | int, ...]) -> None:
        inside = self.place.tables(str(path[0])) if path else str(self.place)
        hint = self.hint_for_other_table(key, path) if path[:1] != ("module",) else None
        hint = (
            hint or value_checks.guess(key, known) or self.hint_for_other_table(key, path) or _flag_meant(key)
        )
        hint = option_of_compiler(_option_called(key)) or hint
        if not path and key in _WRAPPER_CHECKS:
            hint = _WRAPPER_HINT
        if not path and key in _BUILD_SYSTEM_KEYS and not self.place.wraps:
            hint = f"{key!r} belongs in the table [build-system]"
        what = f"{key!r} is not an option of {inside}"
        hint = key_meant(key, *path[:1]) or hint or f"the known keys are: {', '.join(sorted(known))}"
        self.add(problem("unknown-key", what, hint=hint), (*path, key))

    def hint_for_other_table(self, key: str, path: tuple[str | int, ...]) -> str | None:
        """Return a hint if a *key* in the table at *path* belongs in a different table of pyproject.toml."""
        name, inner = key.replace("_", "-"), path[-1] if path and path[-1] in _INNER_TABLES else None
        own = str(path[0]) if path[: -1 if inner else None] else ""
        # the name is a misspelling of a key that this table can have
        if name in _TABLES[own] and not inner:
            return None
        for table in dict.fromkeys((own, *_TABLES) if inner != "define" else (own, "")):
            if name not in _TABLES[table]:
                continue
            header = self.place.tables(table) if table else str(self.place)
            if table != own:
                is_below = path[1:] and not inner and not table  # a producer's settings have no header
                if is_below:
                    move_the_line = self.place.moved_up(self.place.tables(own))
                    return f"{name!r} is an option of {header}: {move_the_line}"
                return f"{name!r} is an option of {header}"
            if self.place.is_header(*path):
                return f"{name!r} is an option of {header}: write it above the header of the table {inner!r}"
            return f"{name!r} is an option of {header}: write it outside of the table {inner!r}"
        return None


def option_of_compiler(name: str) -> str | None:
    """Return a hint if *name* is a key of the table 'options'; None for any other name."""
    if name.replace("-", "_") not in nvrtc_options.ALLOWED:
        return None
    option = name.replace("_", "-")
    return f"{option!r} is an option of the compiler: write the option in the table 'options'"


def _meant(key: str, value: object) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.line(key, value)


def _backend_required(text: str) -> str:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.backend_required(text)


def _variable_meant(variable: str, text: str) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    field, check = _VARIABLES.get(variable, ("", None))
    return suggestions.variable(variable, field, text, check)


def _option_called(key: str) -> str:
    from . import compiler_flags  # lazy import: needed only to report mistakes

    return compiler_flags.option_meant(key)


def _flag_meant(key: str) -> str | None:
    from . import compiler_flags  # lazy import: needed only to report mistakes

    return compiler_flags.meaning(key)


def _option_meant(
    key: str, values: Mapping[str, object], reader: _Reader, path: tuple[str | int, ...]
) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.option(key, values, below=reader.place.is_header(*path))


def _macro_meant(
    key: str, values: Mapping[str, object], reader: _Reader, path: tuple[str | int, ...]
) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.macro(key, values, below=reader.place.is_header(*path))


def _macro_in_options(name: str) -> str | None:
    """Return a hint for a name that is probably a macro's; None if *name* is not like a macro."""
    is_flag = re.fullmatch("O[0-9]", name)  # such as -O3
    if is_flag or not re.fullmatch("[A-Z][A-Z0-9_]*", name):
        return None
    return f"{name} is probably a macro: write it in the table 'define' instead of 'options'"


def _variants_meant(
    name: str, values: list[object], reader: _Reader, path: tuple[str | int, ...]
) -> str | None:
    """Return a hint to use `variants` for a macro to which `define` gives several values."""
    variants = _meant("variants", {name: values})
    if variants is None:
        return None
    table = path[0] if path[1:] else "source"
    return f"to build one module for each value, write this in {reader.place.tables(str(table))}: {variants}"


def _package_meant(item: str, reader: _Reader) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.header_package(f"{item}/" if reader.place.is_folder(item) else item)


def _producer_meant(file: str, call: str) -> str:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.producer(file, call)


def _link_meant(item: str, reader: _Reader) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.link(item, reader.major, reader.place.root)


def _major(toolkit: object) -> int | None:
    """Return the major version of a CUDA release, or None if the major version is unknown."""
    match = re.match("1[23]", str(toolkit))
    return int(match[0]) if match else None


def variable_of(key: str) -> str | None:
    """Return the environment variable that replaces a key of the table; None if there is no such variable."""
    field = key.replace("-", "_")
    return next((variable for variable, (name, _read) in _VARIABLES.items() if name == field), None)


def _above(path: str, reader: _Reader) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.above(path, reader.place.root)


def _file_above(path: str, reader: _Reader) -> str | None:
    from . import suggestions  # lazy import: needed only to report mistakes

    return suggestions.above(path, reader.place.root, is_file=True)


def _placeholders(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the path and the text of each value that still contains a placeholder copied from a hint.

    The function skips tables inside an array, because the reader checks the keys of such tables later.
    """
    if isinstance(value, str):
        is_macro = not {"define", "variants"}.isdisjoint(path)  # the text "..." is also valid C++
        if _PLACEHOLDER.search(value if is_macro else value.replace("...", "…")):
            yield path, value
    elif isinstance(value, dict):
        yield from (found for key, each in value.items() for found in _placeholders(each, (*path, key)))
    elif isinstance(value, list):
        items = (each for each in enumerate(value) if not isinstance(each[1], dict))
        yield from (found for number, each in items for found in _placeholders(each, (*path, number)))


def _short_line(text: str) -> str:
    """Return *text* as one short printable line, because values and quoted keys may contain any character."""
    return _cut("".join(char if char.isprintable() else repr(char)[1:-1] for char in _cut(text)))


def _cut(text: str) -> str:
    return text if len(text) <= 400 else f"{text[:200]} … {text[-150:]}"


class ArrayCheck:
    """Checks each string of an array. The function *about* returns the hint for a wrong string.

    The function *further* is a second check of each string, which also depends on other keys.
    """

    def __init__(
        self,
        check: Callable[[str], Any],
        about: Callable[[str, _Reader], str | None] = lambda _item, _reader: None,
        further: Callable[[str, _Reader], object] = lambda _item, _reader: None,
    ) -> None:
        self.check, self._about, self._further = check, about, further

    def __call__(self, value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[Any, ...]:
        results = []
        for index, item in enumerate(value_checks.strings(value)):
            try:
                results.append(self.check(item))
                self._further(item, reader)
            except ValueError as exc:
                reader.refuse(exc, f"{path[-1]}: {exc}", (*path, index), self._about(item, reader))
        return tuple(results)


class ValueCheck:
    """Checks one value, independently of all other keys."""

    def __init__(self, check: Callable[[Any], Any]) -> None:
        self.check = check

    def __call__(self, value: object, _reader: _Reader, _path: tuple[str | int, ...]) -> Any:
        return self.check(value)


def _has_headers_for_this_cuda(requirement: str, reader: _Reader) -> None:
    """Raise ValueError if a requirement is a folder of the project, or a wheel for another CUDA version."""
    if reader.place.is_folder(requirement):
        what = f"{requirement!r} is a folder of the project, but this key is for wheels"
        raise RefusedValueError(problem("folder-as-package", what))
    _of_this_cuda(requirement, reader)


def _of_this_cuda(requirement: str, reader: _Reader) -> None:
    """Raise ValueError if a wheel is for a different major version of CUDA than the build."""
    from . import nvidia_wheels  # lazy import: few projects name wheels of NVIDIA

    name = re.split(r"[\s<>=!~]", requirement, maxsplit=1)[0]
    if reader.major and not nvidia_wheels.is_for_major(name, reader.major):
        right = nvidia_wheels.for_major(name, reader.major)
        what = f"{name!r} is not for CUDA {reader.major}: the wheel for that version is {right!r}"
        raise RefusedValueError(problem("wheel-for-other-cuda", what))


def _linkable(entry: str, reader: _Reader) -> None:
    """Raise ValueError if an entry of `link` is a flag, a library, or a wheel for another CUDA version."""
    wheel, colon, _files = (part.strip() for part in entry.partition(":"))
    # cudadevrt is not a wheel: anybody could register a distribution with that name
    if colon and not re.fullmatch("(lib)?cudadevrt", wheel):
        _of_this_cuda(wheel, reader)
    elif not colon and entry.endswith((".cu", ".cuh", ".cpp", ".cc", ".c")):
        what = f"{entry!r} is a source, but 'link' is for files that are compiled already"
        raise RefusedValueError(problem("not-linkable", what))
    elif colon or re.fullmatch(r"-.*|(lib)?cudadevrt(\.\w+)?|nvidia-cuda-runtime[\w-]*", entry):
        what = (
            f"{entry!r} is neither a file of the project, nor the name of a wheel with a glob for files in "
            "this wheel, such as 'nvidia-nvshmem-cu13:**/*.a'"
        )
        raise RefusedValueError(problem("not-linkable", what))


def _archs(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[str, ...]:
    if value == []:
        raise ValueError("must name at least one arch")
    return ArrayCheck(value_checks.arch)(value, reader, path)


def _trusted_keys(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[str, ...]:
    # checked first, because the messages of other checks show the value, which may be secret
    if value_checks.is_secret(value):
        what = "trusted-keys contains a private key: everybody who reads the file can sign with the key"
        hint = "make a new key with 'hatch-cubin keygen', and put its public key here"
        reader.add(problem("private-key-in-table", what, hint=hint), path)
        return ()
    if value == []:
        raise ValueError("must name at least one key")
    return ArrayCheck(value_checks.trusted_key, lambda _key, _reader: _KEYGEN_HINT)(value, reader, path)


def _define(value: object, reader: _Reader, path: tuple[str | int, ...]) -> Macros:
    return tuple((name, text) for name, text in _macros(value, reader, path) if text is not None)


def _macros(value: object, reader: _Reader, path: tuple[str | int, ...]) -> list[tuple[str, str | None]]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table of macros, not {value!r}")
    macros: list[tuple[str, str | None]] = []
    for name, item in value.items():
        hint = reader.hint_for_other_table(name, path) or option_of_compiler(name)
        if hint is not None and "-" in name:
            what = f"define.{name} is not a macro's name"
            reader.add(problem("invalid-value", what, hint=hint), (*path, name))
            continue
        try:
            value_checks.macro_name(name)
            macros.append((name, value_checks.macro_text(item)))
        except ValueError as exc:
            if hint is None and isinstance(item, list):
                hint = _variants_meant(name, item, reader, path)
            hint = hint or _macro_meant(name, value, reader, path)
            reader.refuse(exc, f"define.{name} {exc}", (*path, name), hint)
    return macros


def _option_table(
    value: object, reader: _Reader, path: tuple[str | int, ...]
) -> dict[str, nvrtc_options.OptionValue]:
    if not isinstance(value, dict):
        raise ValueError(f"must be a table such as {{ use-fast-math = true }}, not {value!r}")
    values: dict[str, nvrtc_options.OptionValue] = {}
    for key, item in value.items():
        name = key.replace("-", "_")
        if reason := nvrtc_options.REFUSED.get(name):
            hint = _flag_meant(key) if reason == nvrtc_options.NOT_LOADABLE else None
            what = f"options.{key} cannot be set: {reason}"
            reader.add(problem("option-not-allowed", what, hint=hint), (*path, key))
        elif name not in nvrtc_options.ALLOWED:
            what = f"options.{key} is not an option of cuda.core.ProgramOptions"
            hint = reader.hint_for_other_table(key, path) or _option_meant(key, value, reader, path)
            hint = hint or _meant("options", item) or value_checks.guess(name, nvrtc_options.ALLOWED)
            hint = hint or _macro_in_options(key)
            hint = hint or f"the options are: {', '.join(nvrtc_options.ALLOWED).replace('_', '-')}"
            reader.add(problem("unknown-option", what, hint=hint), (*path, key))
        elif name in values:
            what = f"options.{key} is set twice, in two spellings"
            reader.add(problem("option-set-twice", what), (*path, key))
        else:
            try:
                values[name] = nvrtc_options.check_option(name, item)
                _check_further(name, item, reader, (*path, key))
            except ValueError as exc:
                hint = _option_meant(key, value, reader, path)
                reader.refuse(exc, f"options.{key} {exc}", (*path, key), hint)
    return values


def _options_of_source(
    value: object, reader: _Reader, path: tuple[str | int, ...]
) -> dict[str, nvrtc_options.OptionValue] | tuple[str, ...] | str:
    """Check the `options` of a [[source]] table: an array of strings beside the key `as`, else a table."""
    if "as" not in reader.beside:
        return _option_table(value, reader, path)
    if isinstance(value, str):
        return value  # `calls` reports this mistake, and suggests an array
    return value_checks.strings(value) if isinstance(value, list) else _option_table(value, reader, path)


def _with_call(values: dict[str, Any], reader: _Reader, path: tuple[str | int, ...]) -> dict[str, Any]:
    """Return the values of a [[source]] table.

    If the table describes a call of CuPy or cuda.core (key `as`), the call's options become settings.
    """
    if "as" not in values:
        return values
    from . import calls  # lazy import: few projects describe calls

    return calls.with_settings(
        values, reader.place, lambda found, inside: reader.add(found, (*path, *inside))
    )


def _check_further(name: str, value: Any, reader: _Reader, path: tuple[str | int, ...]) -> None:
    """Check the value of an option, after its type was checked."""
    if name == "pre_include":  # only headers of the project, because cache keys do not contain other headers
        for header in value if isinstance(value, list) else [value]:
            value_checks.path(header)
    if name == "ptxas_options":
        _ptxas_options(value, reader, path)


def _ptxas_options(value: str | list[str], reader: _Reader, path: tuple[str | int, ...]) -> None:
    from . import ptxas_options  # lazy import: few projects have such options

    for index, option in enumerate([value] if isinstance(value, str) else value):
        try:
            ptxas_options.check(option)
        except ValueError as exc:
            where = path if isinstance(value, str) else (*path, index)
            hint = ptxas_options.hint(option, alone=isinstance(value, str))
            what = f"options.{path[-1]} {exc}"
            reader.add(problem("ptxas-option-not-allowed", what, hint=hint), where)


def _variants(value: object, reader: _Reader, path: tuple[str | int, ...]) -> Variants:
    if not isinstance(value, dict) or not value:
        raise ValueError(f"must be a table of arrays such as {{ BLOCK = [128, 256] }}, not {value!r}")
    variants = []
    for name, items in value.items():
        try:
            value_checks.macro_name(name)
            if not isinstance(items, list) or not items:
                raise ValueError(f"must be an array of at least one value, not {items!r}")
            variants.append((name, value_checks.once(items)))
        except ValueError as exc:
            hint = (
                None if isinstance(items, list) else _meant_by_range(name, items) or _meant("variants", value)
            )
            reader.refuse(exc, f"variants.{name} {exc}", (*path, name), hint)
    return tuple(variants)


def _meant_by_range(name: str, value: object) -> str | None:
    """Return a hint for values of a variant that are written as a range, which only `instantiate` accepts."""
    found = re.fullmatch(r"\s*(-?\d{1,9})\s*\.\.\s*(-?\d{1,9})\s*", str(value), re.ASCII)
    if not found:
        return None
    first, last = sorted(map(int, found.groups()))
    values = range(first, last + 1) if last - first < _MOST_LISTED else (first, first + 1, "…", last)
    listed = ", ".join(map(str, values))
    return f"only 'instantiate' has ranges, so list each value: {name} = [{listed}]"


def _instantiate(
    value: object, reader: _Reader, path: tuple[str | int, ...]
) -> dict[str, WrittenInstantiation]:
    if not isinstance(value, list) or not all(isinstance(item, (str, dict)) for item in value):
        example = '{ kernel = "scale<{T}>", T = ["float", "double"] }'
        raise ValueError(f"must be an array of strings, and of tables such as {example}, not {value!r}")
    found: dict[str, WrittenInstantiation] = {}
    for index, item in enumerate(value):
        for name in _written_out(item, reader, (*path, index), MAX_VARIANTS - len(found)):
            found.setdefault(name, WrittenInstantiation(index, item))
    return found


def _written_out(
    entry: str | dict[str, Any], reader: _Reader, path: tuple[str | int, ...], most: int
) -> Iterator[str]:
    """Yield the instantiations that an entry of `instantiate` describes, at most *most* of them."""
    if isinstance(entry, str):
        hint = value_checks.product_meant(entry)
        try:
            if hint is not None:
                raise ValueError(
                    f"{entry!r} has a placeholder in braces, but only tables can have placeholders"
                )
            yield value_checks.kernel(entry)
        except ValueError as exc:
            reader.refuse(exc, f"instantiate: {exc}", path, hint)
    elif not reader.has_placeholder("instantiate", entry, path):
        from . import instantiations  # lazy import: few projects have tables in `instantiate`

        def report(error: ValueError, inside: tuple[str | int, ...], hint: str | None) -> None:
            key = ".".join(("instantiate", *map(str, inside[:1])))
            reader.refuse(error, f"{key} {error}", (*path, *inside), hint)

        yield from instantiations.written_out(entry, most, report)


def _source_roots(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict):
        raise ValueError(f'must be a table of folders such as {{ csrc = "../csrc" }}, not {value!r}')
    roots: dict[str, str] = {}
    for name, folder in value.items():
        try:
            roots[value_checks.root_name(name, roots)] = value_checks.folder_above(folder)
        except ValueError as exc:
            reader.refuse(exc, f"source-roots.{name} {exc}", (*path, name))
    return tuple(roots.items())


def _globs(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[str, ...]:
    tables = [value] if isinstance(value, dict) else value
    if isinstance(tables, list) and tables and all(isinstance(item, dict) for item in tables):
        what = f"{path[-1]} must be an array of strings"
        hint = f"did you mean {reader.place.source_tables}?"
        reader.add(problem("invalid-value", what, hint=hint), path)
        return ()
    return ArrayCheck(value_checks.path, _file_above)(value, reader, path)


def _sources(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[dict[str, Any], ...]:
    rules = _array(value, reader, path, _SOURCE_CHECKS, _REQUIRED_SOURCE_KEYS)
    if isinstance(value, list) and len(rules) == len(value):  # the tables have no mistakes
        _report_replaced_settings(rules, reader, path)
    return rules


def _report_replaced_settings(
    rules: Sequence[Mapping[str, Any]], reader: _Reader, path: tuple[str | int, ...]
) -> None:
    """Report each setting that a later [[source]] table with the same `path` replaces.

    A setting is not reported if the later table has a different `path`, because some sources may match only
    the earlier table.
    """
    from .toml_lines import literal, setting  # lazy import: needed only to report mistakes

    set_before: dict[tuple[str, ...], Any] = {}
    for index, rule in enumerate(rules):
        values: dict[tuple[str, ...], Any] = {(key,): rule[key] for key in ("name", "archs") if rule.get(key)}
        values |= {("define", name): text for name, text in rule.get("define", ())}
        values |= {("options", name): each for name, each in rule.get("options", {}).items()}
        for keys, new in values.items():
            old = set_before.setdefault((rule["path"], rule.get("front", ""), *keys), new)
            if old != new:
                hint = "keep only one table for this path"
                if keys[0] == "define":
                    variants = setting("variants", {keys[1]: [old, new]})
                    hint += f"; for one module per value, write in place of the macro: {variants}"
                earlier = literal(old)
                what = f"{'.'.join(keys)} replaces the value {earlier} of an earlier table with the same path"
                reader.add(problem("setting-replaced", what, hint=hint), (*path, index, *keys))


def _modules(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[dict[str, Any], ...]:
    return _array(value, reader, path, _MODULE_CHECKS, _REQUIRED_MODULE_KEYS)


def _producers(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[dict[str, Any], ...]:
    rules = _array(value, reader, path, _PRODUCER_CHECKS, _REQUIRED_PRODUCER_KEYS)
    return tuple({key: item for key, item in rule.items() if key != "undefined"} for rule in rules)


def _python_file(value: object, reader: _Reader, path: tuple[str | int, ...]) -> str:
    """Check the path of a producer's Python file; if it is like "demo.gen:make", suggest the right lines."""
    module, _colon, call = str(value).partition(":")
    stem = module.removesuffix(".py")
    files = [f"{top}{stem if '/' in stem else stem.replace('.', '/')}.py" for top in ("", "src/")]
    if (meant := [file for file in files if reader.place.is_file(file)]) and meant[0] != value:
        what = f"path must be the path of one Python module, such as 'src/demo/gen.py', not {value!r}"
        reader.refuse(ValueError(what), what, path, _producer_meant(meant[0], call))
        return meant[0]
    return value_checks.python_file(value)


def _array(
    value: object,
    reader: _Reader,
    path: tuple[str | int, ...],
    known: Mapping[str, Callable[..., Any]],
    required: Mapping[str, str],
) -> tuple[dict[str, Any], ...]:
    """Return the valid tables of an array of tables.

    *required* maps each mandatory key to a line that shows an example of the key.
    """
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"must be an array of tables, written as {reader.place.tables(str(path[-1]))}")
    rules = []
    for index, table in enumerate(value):
        here = (*path, index)
        before = len(reader.problems)
        values = _with_call(reader.table(known, table, here), reader, here)
        guessed = " ".join(str(each.hint) for each in reader.problems[before:])  # hints for misspelled keys
        if missing := [key for key in required if key not in table and repr(key) not in guessed]:
            what = f"this table also needs {' and '.join(map(repr, missing))}"
            examples = {**required, **_path_with_template(table, reader)}
            lines = "".join(f"\n    {examples[key]}" for key in missing)
            reader.add(problem("missing-key", what, hint=f"for example, in this table:{lines}"), here)
        if len(reader.problems) == before:
            _report_contradictions(values, reader, here)
        if len(reader.problems) == before:
            rules.append({**values, "undefined": _undefined(table)})
    return tuple(rules)


def _path_with_template(table: Mapping[str, Any], reader: _Reader) -> dict[str, str]:
    """Return the line `path = …` with the source that defines the first template of `instantiate`."""
    from .toml_lines import setting  # lazy import: needed only to report mistakes

    entries = table.get("instantiate")
    first = entries[0] if isinstance(entries, list) and entries else None
    name = re.match(r"[\w:]+", str(first.get("kernel") if isinstance(first, dict) else first))
    path = reader.place.source_with(name[0].rpartition(":")[2]) if first and name else None
    return {"path": setting("path", path)} if path else {}


def _undefined(table: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the macros that `define` sets to false."""
    return tuple(name for name, item in table.get("define", {}).items() if item is False)


def _report_contradictions(values: Mapping[str, Any], reader: _Reader, path: tuple[str | int, ...]) -> None:
    """Report each macro for which `define` has no effect.

    A macro in `define` has no effect if the option `undefine-macro` removes the macro again, or if `variants`
    gives the macro other values.
    """
    undefined = values.get("options", {}).get("undefine_macro", ())
    undefined = {undefined} if isinstance(undefined, str) else {*undefined}
    variants = dict(values.get("variants", ()))
    for name, _text in values.get("define", ()):
        if name in variants:
            what = f"define.{name} would change nothing: 'variants' gives {name} its values"
            hint = f"leave {name} out of 'define', or out of 'variants'"
            reader.add(problem("macro-without-effect", what, hint=hint), (*path, "define", name))
        if name in undefined:
            what = f"define.{name} would change nothing: the option 'undefine-macro' removes {name} again"
            hint = f"leave {name} out of 'define', or out of 'undefine-macro'"
            reader.add(problem("macro-without-effect", what, hint=hint), (*path, "define", name))


def _members(value: object, reader: _Reader, path: tuple[str | int, ...]) -> tuple[str, ...]:
    if value == []:
        raise ValueError("must name at least one source")
    return ArrayCheck(value_checks.path, _file_above)(value, reader, path)


def _cache_dir(value: object, reader: _Reader, path: tuple[str | int, ...]) -> str:
    text = value_checks.place(value)
    if not text.strip("./"):
        raise ValueError(f"must be a folder of its own, such as '.cubins', not {text!r}")
    if value_checks.leads_out(text):
        what = f"cache-dir must be a relative path inside the project, not {text!r}"
        hint = "the environment variable HATCH_CUBIN_CACHE_DIR can name any folder"
        reader.add(problem("path-leaves-project", what, hint=hint), path)
    return text


_CHECKS: dict[str, Callable[..., Any]] = {
    "archs": _archs,
    "toolkit": ValueCheck(value_checks.toolkit),
    "sources": _globs,
    "exclude": ArrayCheck(value_checks.path),
    "package": ValueCheck(value_checks.package),
    "include-dirs": ArrayCheck(value_checks.path, _above),
    "source-roots": _source_roots,
    "header-packages": ArrayCheck(value_checks.header_package, _package_meant, _has_headers_for_this_cuda),
    "define": _define,
    "options": _option_table,
    "jobs": ValueCheck(value_checks.jobs),
    "cache-dir": _cache_dir,
    "cache-size": ValueCheck(value_checks.size),
    "max-size": ValueCheck(value_checks.size),
    "trusted-keys": _trusted_keys,
    "remote-cache": ValueCheck(value_checks.remote),
    "pack": ValueCheck(value_checks.boolean),
    "ship-sources": ValueCheck(value_checks.boolean),
    "provenance": ValueCheck(value_checks.boolean),
    "source": _sources,
    "module": _modules,
    "producer": _producers,
    "recorded": ArrayCheck(value_checks.path),
}
# Each key is also a field of `SourceRule` in config.py. The docstring of `CompileSettings` says how to add a
# key.
_SOURCE_CHECKS: dict[str, Callable[..., Any]] = {
    "path": ValueCheck(value_checks.path),
    "name": ValueCheck(value_checks.name_of_sources),
    "as": ValueCheck(value_checks.front),
    "archs": _archs,
    "include-dirs": ArrayCheck(value_checks.path, _above),
    "define": _define,
    "options": _options_of_source,
    "instantiate": _instantiate,
    "variants": _variants,
}
_PRODUCED_CHECKS = {key: check for key, check in _SOURCE_CHECKS.items() if key != "path"}
_PRODUCER_CHECKS: dict[str, Callable[..., Any]] = {
    "path": _python_file,
    "call": ValueCheck(value_checks.function),
    "produces": ArrayCheck(value_checks.produced_suffix),
    "inputs": ArrayCheck(value_checks.path),
    "environment": ArrayCheck(value_checks.variable),
    "requires": ArrayCheck(value_checks.requirement),
    "seconds": ValueCheck(value_checks.time_limit),
}
_MODULE_CHECKS: dict[str, Callable[..., Any]] = {
    "name": ValueCheck(value_checks.name),
    "sources": _members,
    "mode": ValueCheck(value_checks.mode),
    "link": ArrayCheck(value_checks.link, _link_meant, _linkable),
    "archs": _archs,
    "include-dirs": ArrayCheck(value_checks.path, _above),
    "define": _define,
    "options": _option_table,
    "variants": _variants,
}
_INNER_TABLES = ("define", "options")
_TABLES: Mapping[str, Mapping[str, Any]] = {
    "": _CHECKS,
    "source": _SOURCE_CHECKS,
    "module": _MODULE_CHECKS,
    "producer": _PRODUCER_CHECKS,
}
_REQUIRED_SOURCE_KEYS = {"path": 'path = "**/*.cu"  # the sources to which the table applies'}
_REQUIRED_PRODUCER_KEYS = {"path": 'path = "src/demo/gen.py"  # the Python file that returns the sources'}
_REQUIRED_MODULE_KEYS = {
    "name": 'name = "linked"  # must differ from the name of each source',
    "sources": 'sources = ["**/*.cu"]  # the sources to link',
    "mode": 'mode = "lto"',
}
_KEYGEN_HINT = "'hatch-cubin keygen FILE' makes a key, and prints the line for pyproject.toml"
_PUBLIC_KEY_HINT = (
    f"build once without {REQUIRE_SIGNED}: a warning of this build shows the public key of {SIGNING_KEY}, "
    "which you can add to 'trusted-keys'"
)
_WRAPPER_CHECKS: dict[str, Callable[..., Any]] = {
    "backend": ValueCheck(value_checks.backend),
    "backend-path": ArrayCheck(value_checks.path),
    "package-dir": ValueCheck(value_checks.path),
}
KEYS = (*_CHECKS, *_WRAPPER_CHECKS)
_BUILD_SYSTEM_KEYS = frozenset({"build-backend", "requires"})
_WRAPPER_HINT = f'only projects with build-backend = "{WRAPPER}" can set this key, in [tool.hatch-cubin]'
_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "HATCH_CUBIN_ARCHS": ("archs", value_checks.archs_of_variable),
    "HATCH_CUBIN_TOOLKIT": ("toolkit", value_checks.toolkit),
    "HATCH_CUBIN_JOBS": ("jobs", value_checks.jobs_of_variable),
    "HATCH_CUBIN_CACHE_DIR": ("cache_dir", value_checks.place),
    REMOTE: ("remote_cache", value_checks.remote_of_variable),
    "HATCH_CUBIN_TIMEOUT": ("timeout_s", value_checks.seconds),
    "HATCH_CUBIN_EXECUTOR": ("executor", value_checks.executor),
}
