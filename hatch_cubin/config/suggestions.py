"""Suggest the correct line for a wrong line of pyproject.toml. Pure."""

from __future__ import annotations

import contextlib
import functools
import glob
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from ..common import gpu_names
from ..common.distribution_names import comparable_name
from ..common.environment import SWITCHES
from . import (
    compiler_flags,
    known_names,
    nvidia_wheels,
    nvrtc_options,
    ptxas_options,
    toml_lines,
    value_checks,
)
from .toml_positions import loads

_ARRAYS = frozenset(
    {
        "archs",
        "environment",
        "exclude",
        "header-packages",
        "include-dirs",
        "inputs",
        "instantiate",
        "produces",
        "recorded",
        "requires",
        "sources",
        "trusted-keys",
    }
)
_LONGEST = 100
_LONGEST_LINE = 200
_OFF = frozenset({"false", "no", "off", "0", "none"})
_SWITCHES = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(_OFF, False)
_STRINGS = frozenset(
    {
        "backend",
        "call",
        "remote-cache",
        "toolkit",
        "package",
        "cache-dir",
        "cache-size",
        "max-size",
        "path",
        "name",
        "mode",
    }
)
_AUTOMATIC = {
    "archs": "a build compiles for 'all-major'",
    "toolkit": "a build uses the installed NVRTC, or else the newest CUDA",
    "jobs": "a build compiles on all cores of the processor",
    "cache-size": "the cache has no size limit",
    "max-size": "a wheel may have any size",
    "timeout_s": "the compile of a unit may take up to 30 minutes",
}
_NO_CHOICE = re.compile(
    r"|auto.*|default|true|false|none|null|all|max.*|unlimited|inf.*|cores|cpus?|\$.*|0|-1", re.IGNORECASE
)
_MACRO = re.compile(r"(?:-D *)?([A-Za-z_]\w*)(?:=(.*))?", re.ASCII)
_NUMBER_OF_STD = re.compile(r"(?:-{0,2}std=)?(?:c|gnu|cpp)?(?:\+\+)?(11|14|17|20|23)", re.IGNORECASE)
_MODES = {"lto": ("lto", "link-time"), "rdc": ("rdc", "relocatable", "dc", "separable")}
_VERSION = re.compile(r"(?:cuda|cu|v|[\s=~>-])*([0-9]{1,2}(?:\.[0-9.]*[0-9])?)(?:\.[*x])?")
_FOLDER = "a folder is not a remote cache: remove this setting, and set HATCH_CUBIN_CACHE_DIR to the folder"
_SCHEMES = (
    "write 'https://' before the name of a server, or 's3://', 'gs://' or 'az://' before the name of a bucket"
)
_WHEELS = re.compile(r"cu([0-9]{2})([0-9])")  # as in the version of a PyTorch wheel: cu130


def line(key: str, value: object) -> str | None:
    """Return a hint for a key with a wrong value: the likely correct line, or other advice."""
    meant = None
    with contextlib.suppress(TypeError, ValueError):  # a number that has too many digits to be printed
        meant = _meant(key, value)
    elsewhere = _flags_of_other_keys(value) if key == "options" else []
    if key == "options" and meant == {}:  # none of the flags is an option of NVRTC
        return "; ".join(elsewhere) or "these flags would change nothing: leave 'options' out"
    if meant is not None:
        shown = _line(key, meant)
        return f"{'; '.join(elsewhere)}; for the other flags: {shown}" if shown and elsewhere else shown
    is_short = isinstance(value, (str, bool)) or value in (0, -1)  # Python refuses to print long numbers
    if key == "remote-cache" and isinstance(value, str):
        return _scheme(value)
    if key in _AUTOMATIC and is_short and _NO_CHOICE.fullmatch(str(value)[:_LONGEST]):
        return f"remove {key!r}: without this key, {_AUTOMATIC[key]}"
    return None


def _line(key: str, meant: object) -> str | None:
    try:
        shown = toml_lines.setting(key, meant)
        loads(shown)
    except (TypeError, ValueError):  # a date, or a number that has too many digits to be printed
        return None
    return shown if shown.isprintable() and 0 < len(shown) <= _LONGEST_LINE else None


def option(key: str, values: Mapping[str, object], *, below: bool) -> str | None:
    """Return a hint for an unknown option, or for an option with a wrong value: the likely correct line.

    The suggested line contains all options of the table that are correct or can be corrected. If the options
    have their own header, as in `[….options]` (*below*), the suggested line contains only the option *key*.
    """
    correct = _correctable(values, _correct_option)
    shown = _suggested_line("options", key, correct, below=below)
    if _shows_registers(key, values[key]):
        return f"{shown}; {compiler_flags.INSPECT}" if shown else compiler_flags.REGISTERS
    return shown or compiler_flags.meaning(key)


def variable(name: str, field: str, text: str, check: Callable[[str], Any] | None) -> str | None:
    """Return a hint for an environment variable with a wrong value: the likely correct value.

    *field* is the field of `Config` that the variable sets. *check* is the function that checks the value;
    None for a variable that can only be on or off.
    """
    if name in SWITCHES:
        switch = _SWITCHES.get(text.strip().strip("'\"").lower())
        return None if switch is None else f"{name}={int(switch)}"
    if field == "remote_cache" and text.strip("'\" []").lower() not in _OFF:
        return _scheme(text)
    if field in _AUTOMATIC and _NO_CHOICE.fullmatch(text[:_LONGEST]):
        return f"unset {name}: without this variable, {_AUTOMATIC[field]}"
    bare = re.sub(r"[\s'\"\[\]]+", "", text[:_LONGEST])
    number = re.fullmatch(r"(?:-j|--jobs=?)?([0-9]{1,4})[a-z]*", bare)
    # Other values are not shown: they may be secret.
    meant = {
        "archs": ",".join(_array("archs", bare.split(",")) or gpu_names.archs_meant(text)),
        "jobs": number and number[1],
        "remote_cache": "off" if bare.lower() in _OFF else None,
        "toolkit": _toolkit(bare),
        "timeout_s": _seconds(bare),
    }.get(field)
    try:
        if meant and check is not None:
            check(meant)
    except ValueError:
        return None
    return f"{name}={meant}" if meant else None


def _scheme(text: str) -> str | None:
    """Return a hint if the address of a remote store is a folder or has no scheme.

    The hint does not repeat the address, because the address may be secret.
    """
    if text.startswith(("/", "~", ".", "file:", "\\")):
        return _FOLDER
    return None if "://" in text else _SCHEMES


def _seconds(text: str) -> str | None:
    match = re.fullmatch(r"([0-9]{1,6})([smh])[a-z]*", text.lower())
    return str(int(match[1]) * {"s": 1, "m": 60, "h": 3600}[match[2]]) if match else None


def macro(key: str, values: Mapping[str, object], *, below: bool) -> str | None:
    """Return a hint for a macro that cannot be defined: the likely correct line.

    If the value contains several macros, as in `4 -DM=3`, the suggested line contains each of them.
    """
    separate = {name: dict(_separate_macros(name, value)) for name, value in values.items()}
    correct = _correctable(
        {name: each for found in separate.values() for name, each in found.items()}, _correct_macro
    )
    if below and len(separate[key]) > 1 and correct.keys() >= separate[key].keys():
        lines = [toml_lines.setting(name, value) for name, value in separate[key].items()]
        return f"write one line for each macro: {' and '.join(lines)}"
    wrong = next((name for name in separate[key] if name not in correct), None)
    return _suggested_line("define", wrong or next(iter(separate[key])), correct, below=below)


def _separate_macros(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield the name and value of the macro *name*, and of each macro that an option -D in *value* sets."""
    if not isinstance(value, str):
        yield name, value
        return
    first, *others = value_checks.OTHER_MACRO.split(value)
    if first or not others:
        yield name, first
    yield from zip(others[::2], others[1::2], strict=True)


def _suggested_line(
    table: str, key: str, correct: Mapping[str, tuple[str, object]], *, below: bool
) -> str | None:
    if key not in correct:
        return None
    name, value = correct[key]
    return _line(name, value) if below else _line(table, dict(correct.values()))


def _correctable(
    values: Mapping[str, object], right: Callable[[str, object], tuple[str, object] | None]
) -> dict[str, tuple[str, object]]:
    """Return the key and value for each key that is correct, or that can be corrected."""
    pairs = ((key, right(key, value)) for key, value in values.items())
    return {key: pair for key, pair in pairs if pair is not None}


def _correct_macro(key: str, value: object) -> tuple[str, object] | None:
    match = _MACRO.fullmatch(key)
    name, inside = (match[1], match[2]) if match else (key, None)
    try:
        value_checks.macro_name(name)
        right = value if inside is None else _typed(inside)
        value_checks.macro_text(right)
    except ValueError:
        return None
    return name, right


def _correct_option(key: str, value: object) -> tuple[str, object] | None:
    """Return the correct name and value of an option; None if they are wrong and no correction is known."""
    name = compiler_flags.option_meant(key)
    if (kind := name.replace("-", "_")) not in nvrtc_options.ALLOWED:
        return None
    shown = key if compiler_flags.bare(key) == name and not key.startswith("-") and "=" not in key else name
    if "=" in key:
        value = key.partition("=")[2]
    for each in (value, _option(kind, value)):
        try:
            right = _of_ptxas(each) if kind == "ptxas_options" else each
            nvrtc_options.check_option(kind, right)
        except (TypeError, ValueError):
            continue
        return shown, right
    return None


def _of_ptxas(value: object) -> object:
    """Return the options of ptxas in *value* as a list in which each item is one option.

    Options that only print registers are left out. Raise ValueError if *value* contains an option that is not
    allowed, or contains nothing but options that print registers.
    """
    each = value if isinstance(value, list) else [value]
    texts = [item for item in each if isinstance(item, str)]
    if all(map(ptxas_options.is_allowed, texts)):
        return value
    texts = [item for item in texts if item not in ptxas_options.NVCC_PREFIXES]
    written = [*map(ptxas_options.split_options, texts)]
    kept = [item for items in written for item in items if not ptxas_options.prints_registers(item)]
    if not all(written) or not kept:
        raise ValueError
    return kept


def _option(name: str, value: object) -> object:
    if nvrtc_options.ALLOWED[name] == "an integer or an array of integers":
        return _numbers(value)
    text = str(value[0] if isinstance(value, list) and len(value) == 1 else value)
    if name == "std" and (match := _NUMBER_OF_STD.fullmatch(text)):
        return f"c++{match[1]}"
    if name == "std" and text.lower() in {"c++98", "c++03", "c++26", "c++2c", "c++latest", "latest"}:
        return "c++20"
    if nvrtc_options.ALLOWED[name] == "a boolean" and (switch := _SWITCHES.get(text.lower())) is not None:
        return switch
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _numbers(value: object) -> list[int] | None:
    """Return the numbers in names of diagnostics; compilers print these names as '#177-D'."""
    items = value if isinstance(value, list) else re.split(r"[\s,]+", str(value))
    matches = [re.fullmatch(r"#?([0-9]{1,9})(?:-D)?", str(item), re.IGNORECASE) for item in items]
    return [int(match[1]) for match in matches if match] if all(matches) else None


def _meant(key: str, value: object) -> Any:
    if key == "instantiate" and isinstance(value, dict):
        return [value]
    if isinstance(value, dict):  # users write archs = { sm_90 = true } and toolkit = { version = "13.0" }
        value = [*(value.values() if key in _STRINGS else value)] if key in _STRINGS | _ARRAYS else value
    if key in _STRINGS and isinstance(value, list) and len(value) == 1:
        value = value[0]
        if key not in _READERS:
            return value if isinstance(value, str) and value else None
    if key == "trusted-keys" and isinstance(value, str):
        value = value_checks.trusted_key(value)
    if key in _ARRAYS:
        return _array(key, [value] if isinstance(value, (str, int, float)) else value)
    if key in {"pack", "ship-sources", "provenance"}:
        return _SWITCHES.get(str(value).lower())
    known = _READERS.get(key)
    return None if known is None else known(value)


def _call(value: object) -> str | None:
    """Return the function's name in a text such as 'make()' or 'src/demo/gen.py:make'; None for a method."""
    name = re.sub(r"^(def )?(.*:)?\s*|\s*\(\)$", "", str(value))
    return name if name.isidentifier() else None


def _backend(value: object) -> str | None:
    return known_names.backend_meant(str(value))


def backend_required(text: str) -> str:
    """Return the line that sets `backend` to the build backend that [build-system] requires."""
    requires = known_names.inside(loads(text), "build-system").get("requires")
    listed = requires if isinstance(requires, list) else ()
    names = (comparable_name(re.split(r"[^\w.-]", str(each), maxsplit=1)[0]) for each in listed)
    for right in filter(None, map(known_names.BACKENDS.get, names)):
        return toml_lines.setting("backend", right)
    return "set 'backend' to the project's former build backend, as in backend = \"mesonpy\""


def _jobs(value: object) -> int | None:
    return int(value) if isinstance(value, str) and re.fullmatch(r"[1-9][0-9]{0,2}", value) else None


def _mode(value: object) -> str | None:
    text = str(value).lower()
    return next((mode for mode, words in _MODES.items() if any(word in text for word in words)), None)


def _package(value: object) -> str | None:
    path = str(value).removeprefix("./").strip("/")
    in_src = path.removeprefix("src/")
    name = (in_src.replace("/", ".") if in_src != path else path).replace("-", "_")
    return name if all(map(str.isidentifier, name.split("."))) else None


def _size(value: object, unit: str) -> str | None:
    match = re.fullmatch(
        r"([0-9]{1,15}(?:[.,][0-9]{1,3})?) *(?:([kmgt])(?:ilo|ega|iga|era)?(i?)(?:b|bytes?)?|b|bytes?|)",
        _plain(value),
    )
    if match is None:
        return None
    number = match[1].replace(",", ".")
    if match[2]:
        meant = f"{number} {match[2].upper()}{match[3]}B"
    elif float(number) >= 1_000_000_000:  # the user wrote a number of bytes: suggest it in MB, rounded up
        meant = f"{math.ceil(float(number) / 1_000_000)} MB"
    elif float(number) >= 100_000 or not _plain(value).endswith(number):  # a number of bytes
        meant = f"{number} B"
    else:
        meant = f"{number} {unit}"
    return meant if value_checks.size(meant) else None


def _plain(value: object) -> str:
    return str(value).lower().strip().replace("_", "")


def _define(value: object) -> dict[str, Any] | None:
    """Return the macros that are defined by texts such as `-DN=4`, or by an array of tables."""
    items = [value] if isinstance(value, str) else value
    if not isinstance(items, list) or not items:
        return None
    if all(isinstance(item, dict) for item in items):
        return {name: item for table in items for name, item in table.items()}
    separate = [each for item in items for each in re.split(r"\s+(?=-D)", str(item))]
    matches = [_MACRO.fullmatch(each) for each in separate]
    return {match[1]: _typed(match[2]) for match in matches if match} if all(matches) else None


def _options(value: object) -> dict[str, Any] | None:
    """Return the options for pyproject.toml that have the same effect as flags of nvcc."""
    items = value if isinstance(value, list) else []
    if items and all(isinstance(item, dict) for item in items):  # an array of tables, in place of one table
        merged = {name: each for item in items for name, each in item.items()}
        return merged if _are_options(merged) else None
    if not isinstance(value, (str, list)):
        return None
    found: dict[str, Any] = {}
    for flag in _flags(value):
        if flag.startswith("-") and _other_meaning(flag):
            continue
        match = re.fullmatch(r"-{0,2}([A-Za-z][\w-]*)(?:=(.*))?", flag, re.ASCII)
        name = compiler_flags.option_meant(match[1]) if match else ""
        if match is None or not _are_options([name]):
            return None
        given = _typed(match[2])
        found[name] = [*found.get(name, []), given] if name == "ptxas-options" else given
    corrected = [_correct_option(name, each) for name, each in found.items()]
    return dict(filter(None, corrected)) if all(corrected) else None


def _flags(value: object) -> list[str]:
    """Return the flags of nvcc in a command line or a list, each with its value, as in `-std=c++20`."""
    items = value.split() if isinstance(value, str) else value if isinstance(value, list) else []
    texts = map(str, items)
    words = (word for text in texts for word in (text.split() if re.match(r"-[\w-]+\s", text) else [text]))
    return compiler_flags.with_values(words, lambda word: _are_options([compiler_flags.option_meant(word)]))


def _are_options(names: Iterable[str]) -> bool:
    return all(name.replace("-", "_") in nvrtc_options.ALLOWED for name in names)


def _flags_of_other_keys(value: object) -> list[str]:
    """Return hints for flags of nvcc that correspond to keys of pyproject.toml other than `options`."""
    flags = [flag for flag in _flags(value) if flag.startswith("-")]
    meanings = [
        compiler_flags.REGISTERS if _shows_registers(each, "") else _other_meaning(each)
        for each in flags
        if not compiler_flags.has_no_effect(each)
    ]
    return [*dict.fromkeys(filter(None, meanings))]


def _shows_registers(key: str, value: object) -> bool:
    """Return whether a value of `ptxas-options` makes ptxas print the registers of each kernel."""
    return any(map(ptxas_options.prints_registers, _words_for_ptxas(key, value)))


def _words_for_ptxas(key: str, value: object) -> list[str]:
    """Return the options for ptxas in an option such as `-Xptxas=-v,-O3`, or in a key and its value."""
    if compiler_flags.option_meant(key) != "ptxas-options":
        return []
    texts = value if isinstance(value, list) else [key.partition("=")[2] or value]
    return [word for text in texts if isinstance(text, str) for word in ptxas_options.split_options(text)]


def _other_meaning(flag: str) -> str | None:
    """Return a hint for a flag of nvcc that corresponds to a key other than `options`, or else None."""
    words = _words_for_ptxas(flag, "")
    if words and all(map(ptxas_options.prints_registers, words)):
        return compiler_flags.REGISTERS
    return None if _are_options([compiler_flags.option_meant(flag)]) else compiler_flags.meaning(flag)


def _typed(text: str | None) -> Any:
    if text is None:
        return True
    return int(text) if re.fullmatch(r"[0-9]{1,9}", text) else text


def _variants(value: object) -> dict[str, list[Any]] | None:
    """Guess each macro's values from a `variants` setting in a wrong form; return None if no guess works."""
    tables = value if isinstance(value, list) else [value]
    found: dict[str, list[Any]] = {}
    for table in tables:
        named = _define(table) if isinstance(table, str) else table
        if not isinstance(named, dict):
            return None
        for name, each in named.items():
            value_checks.macro_name(name)
            values = each if isinstance(each, list) else _listed(each)
            value_checks.once(values)
            found.setdefault(name, []).extend(values)
    return found if found and all(found.values()) else None


def _listed(value: object) -> list[Any]:
    """Return the values of a macro in a text such as '128,256'."""
    parts = value.split(",") if isinstance(value, str) else []
    return [_typed(part.strip()) for part in parts] if parts[1:] and all(map(str.strip, parts)) else [value]


def _array(key: str, items: object) -> list[str] | None:
    if not isinstance(items, list) or any(isinstance(item, bool) for item in items):
        return None
    if key != "archs":
        return items if items and all(isinstance(item, str) and item for item in items) else None
    found = [_archs(str(item)) for item in items]
    return [arch for archs in found for arch in archs] if found and all(found) else None


def _archs(text: str) -> tuple[str, ...]:
    try:
        return (value_checks.arch(text),)
    except ValueError:
        return gpu_names.archs_meant(text)


def _toolkit(value: object) -> str | None:
    """Return the value for 'toolkit' that a wrong value probably means, such as the nearest CUDA release."""
    text = str(value).lower()
    if text in {"latest", "newest", "cuda", "*", "pip", "wheel", "wheels"}:
        return str(max(value_checks.CUDA))
    if re.search(r"[/\\$]|conda|local|nvcc|installed", text):
        return "system"
    match = _WHEELS.fullmatch(text) or _VERSION.fullmatch(text)
    if match is None:
        return None
    named = ".".join(filter(None, match.groups()))
    try:
        return value_checks.toolkit(named)
    except ValueError:
        major, minor = (*map(int, named.split(".")[:2]), None)[:2]
        assert major is not None
        if minor in value_checks.CUDA.get(major, {}):  # only the patch version of the CUDA release is unknown
            return f"{major}.{minor}"
        return value_checks.newest_of(min(max(major, min(value_checks.CUDA)), max(value_checks.CUDA)))


def _source_roots(value: object) -> dict[str, str] | None:
    """Return a named source root for each listed folder: the name of the root is the name of the folder."""
    folders = [value] if isinstance(value, str) else value
    if not isinstance(folders, list) or not folders:
        return None
    roots: dict[str, str] = {}
    for folder in map(value_checks.folder_above, folders):
        roots[value_checks.root_name(folder.rpartition("/")[2], roots)] = folder
    return roots


def above(path: str, root: str | None, *, is_file: bool = False) -> str | None:
    """Return a hint for a path that leads out of the project's folder *root*.

    If the path's folder exists, the hint says how to add the folder to `source-roots`. Otherwise, the path
    was probably written relative to a source, so the hint names the path relative to *root*.
    """
    match = re.fullmatch(r"((?:\.\./)+([^\W_][\w.-]*))(/.*)?", path)
    if match is None:
        return None
    there, name, rest = match.groups()
    if root is not None and not os.path.exists(os.path.join(root, there)):
        anywhere = f"**/{name}{rest or ''}"
        found = sorted(glob.glob(anywhere, root_dir=root, recursive=True), key=len)
        if not found:
            return f"there is no {there!r} here: paths must be relative to the project's folder"
        meant = anywhere if "*" in path else found[0].replace(os.sep, "/")
        return f"did you mean {meant!r}? Paths must be relative to the project's folder"
    if is_file and not rest and "." in name:
        return f"move {name} into the project, or into a folder that 'source-roots' lists"
    return f'add {name} = "{there}" to \'source-roots\', then write this path as "{name}{rest or ""}"'


def header_package(text: str) -> str | None:
    """Return a hint for an entry of `header-packages` that is not the name of a distribution."""
    if match := re.fullmatch(r"([\w.-]+?)\s*(?:\[.*\])?\s*(?:=|:|@|\s)\s*v?([0-9][\w.*+!-]*)", text):
        return f'write "{match[1]}=={match[2]}"'
    if match := re.fullmatch(r"([\w.-]+)\s*[\[;@].*", text):
        return f'write "{match[1]}"'
    if "://" in text:
        return (
            "put the headers into a folder of the project, for example as a git submodule, and list this "
            "folder in 'include-dirs'"
        )
    if "/" in text or "\\" in text:
        library = text.partition("/")[0]
        if text.endswith(value_checks.HEADER_SUFFIXES) and (meant := nvidia_wheels.without_headers(library)):
            return meant
        folder = text.replace("\\", "/").removeprefix("./").rstrip("/")
        folder = folder.rpartition("/")[0] if folder.endswith(value_checks.HEADER_SUFFIXES) else folder
        what = "include-dirs" if not value_checks.leads_out(folder) else None
        return (
            f"for headers in a folder of the project, write: {toml_lines.setting(what, [folder])}"
            if what
            else None
        )
    return None


def producer(file: str, call: str) -> str:
    """Return a hint with the lines for a producer: its Python file, and the function's name if known."""
    lines = {"path": file, "call": call} if call else {"path": file}
    shown = "".join(f"\n    {toml_lines.setting(key, text)}" for key, text in lines.items())
    return f"in this table, write:{shown}"


def link(entry: str, major: int | None, root: str | None = None) -> str | None:
    """Return a hint for an entry of a module's `link` that is not a file of the project."""
    if entry.endswith(".cu"):
        return f"move \"{entry}\" to 'sources' of the same table"
    if not nvidia_wheels.may_be_device_runtime(entry):
        is_for_host = nvidia_wheels.may_be_host_library(entry)
        return nvidia_wheels.HOST_LIBRARY if is_for_host else above(entry, root, is_file=True)
    found = {each: toml_lines.setting("link", [nvidia_wheels.device_runtime(each)]) for each in (12, 13)}
    return found[major] if major in found else f"{found[13]}; with CUDA 12 {found[12]}"


_READERS: dict[str, Callable[[object], Any]] = {
    "as": lambda value: "cuda.core" if "core" in str(value) else "cupy",
    "backend": _backend,
    "call": _call,
    "cache-size": functools.partial(_size, unit="GB"),
    "max-size": functools.partial(_size, unit="MB"),
    "define": _define,
    "jobs": _jobs,
    "mode": _mode,
    "options": _options,
    "package": _package,
    "seconds": _jobs,
    "source-roots": _source_roots,
    "toolkit": _toolkit,
    "variants": _variants,
}
