"""Check one value from pyproject.toml or from an environment variable, and return the normalized value.

Pure.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .. import __version__
from ..common import arch_names
from ..common.capabilities import GPUS
from ..errors import Problem, problem
from ..loader._text_key import FRONTS
from . import nvidia_wheels
from .known_names import BACKENDS, WRAPPER, is_misnamed_wrapper

Macros = tuple[tuple[str, str], ...]
Variants = tuple[tuple[str, tuple[str | None, ...]], ...]  # None: the macro is not defined

MAX_VARIANTS = 100_000  # the most variants, and the most template instantiations, of a source
WHOLE = range(-(2**63), 2**64)  # the integers that fit into a type of the compiler
_SIZE_UNITS: Mapping[str, int] = {"B": 1} | {
    f"{letter}{infix}B": base**power
    for power, letter in enumerate("KMGT", start=1)
    for infix, base in (("i", 1024), ("", 1000))
}
_CLUSTER = re.compile(r"[a-z]+://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
_EXECUTOR = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[!-~]+|(\w+\.)*\w+:[^\W\d]\w*")
_FEW = 3  # the most paths that a hint names
_MOST_SECONDS = 86_400
HEADER_SUFFIXES = (".h", ".hh", ".hpp", ".cuh")
PRODUCED_SUFFIXES = ("cu", "ptx", "tileir")
NAME_PARTS = ("{parent}", "{stem}")  # Placeholders in the key `name` for parts of a source's path.
# The minor versions of CUDA that are published as wheels (12.7 was not), and the newest patch of each.
CUDA: Mapping[int, Mapping[int, int]] = {
    12: {0: 1, 1: 1, 2: 2, 3: 2, 4: 1, 5: 1, 6: 3, 8: 2, 9: 2},
    13: {0: 3, 1: 2, 2: 2, 3: 1, 4: 3, 5: 0},
}
# the start of a variable of a shell or a build system, such as `$HOME`
_VARIABLE = re.compile(r"\$\{?\w|%\w+%")
# The option that defines another macro, inside the value of a macro. Code of C++ cannot contain this text,
# because nothing can be assigned to the value of `-D`.
OTHER_MACRO = re.compile(r"(?:^|\s+)-D\s*([A-Za-z_]\w*)=(?!=)", re.ASCII)
# Matches a template argument in braces. C++ does not allow braces there.
_BRACED_ARGUMENT = re.compile(r"(?<=[<,])(\s*)\{\s*([\w\s,.]*?)\s*\}")
_TYPES = frozenset({"bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned"})
_SOME_ARCHS = "sm_90, sm_90a, compute_90, 90-real, 9.0+PTX or all-major"


class WrittenInstantiation(NamedTuple):
    """An entry of `instantiate`: its number, and the text or table that the user wrote."""

    entry: int
    written: str | Mapping[str, Any]


class RefusedValueError(ValueError):
    """A check rejects a value for a reason that has its own error code.

    A check raises a plain ValueError if the reason for rejecting a value does not have its own error code.
    """

    def __init__(self, found: Problem, path: str | None = None) -> None:
        super().__init__(found.what)
        self.problem = found
        self.path = path  # the rejected path, if the path leads out of the project


def guess(text: str, known: Iterable[str]) -> str | None:
    """Return "did you mean …?" with the name most similar to *text*, or None if no name is similar."""
    import difflib  # lazy import: slow to import, and needed only for mistakes

    close = difflib.get_close_matches(text, known, n=1)
    return f"did you mean {close[0]!r}?" if close else None


def guess_path(path: str, known: Sequence[str]) -> str | None:
    """Return "did you mean …?" with the paths that end like *path*, or else with the most similar path."""
    return path_elsewhere(path, known) or guess(path, known)


def path_elsewhere(path: str, known: Sequence[str]) -> str | None:
    """Return "did you mean …?" with the paths in *known* that end with *path* or with its file name.

    Return None if no path or too many paths in *known* end with this name.
    """
    for ending in (path, path.rpartition("/")[2]):
        same = [repr(each) for each in known if f"/{each}".endswith(f"/{ending}")]
        if 0 < len(same) <= _FEW:
            return f"did you mean {' or '.join(same)}?"
    return None


def archs_of_variable(text: str) -> tuple[str, ...]:
    """Check the list of archs in an environment variable."""
    if not (specs := arch_names.split_specs(text)):
        raise ValueError("must name at least one arch")
    return tuple(map(arch, specs))


def jobs_of_variable(text: str) -> int:
    """Check the number of jobs in an environment variable."""
    return jobs(int(text) if re.fullmatch(r"[0-9]{1,4}", text) else text)


def remote(value: object) -> str:
    """Check the URL of a remote store in pyproject.toml.

    The URL must not contain a password, because pyproject.toml is public.
    """
    from . import store_urls  # lazy import: few projects use a remote store

    url = store_urls.parse(value)
    if url.user is not None:
        what = "must not contain a user or a password: set HATCH_CUBIN_REMOTE to a URL with a password"
        raise RefusedValueError(problem("password-in-table", what))
    return url.shown


def remote_of_variable(text: str) -> str | None:
    """Check the URL of a remote store in an environment variable.

    Return the URL without its password, or None for "off".
    """
    from . import store_urls  # lazy import: few builds use a remote store

    if text == "off":
        return None
    url = store_urls.parse(text)
    if url.user is not None and url.scheme in store_urls.OBJECTS:
        raise ValueError(
            "must not contain a user or a password: set the environment variables of the bucket's provider"
        )
    if url.user is not None and url.scheme == "http" and not store_urls.is_here(url):
        raise ValueError("would send its password unencrypted: write https://")
    return url.shown


def executor(text: str) -> str:
    """Check the value of the key 'executor': the URL of a cluster, or the name of a function.

    If ',local' follows the URL, this machine compiles when no worker of the cluster can compile.
    """
    where = text.removesuffix(",local")
    if not (_CLUSTER if where.startswith(("dask://", "tls://")) else _EXECUTOR).fullmatch(where):
        some = "'dask://host:8786', 'tls://host:8786' or 'module:function'"
        raise ValueError(f"must be one of {some}, optionally followed by ',local', not {text!r}")
    return text


def share(text: str) -> float:
    """Return a percentage such as '1%' as a fraction."""
    try:
        part = float(text.removesuffix("%")) / 100
    except ValueError:
        part = math.nan
    if not text.endswith("%") or not 0 < part <= 1:
        raise ValueError(f"must be a percentage such as 1%, not {text!r}")
    return part


def seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise ValueError(f"must be a number of seconds above 0, not {text!r}")
    return number


def strings(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f'must be an array of strings, as in ["a", "b"], not {value!r}')
    return tuple(value)


def string(value: object) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"must be a string that is not empty, not {value!r}")
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {value!r}")
    return value


def arch(text: str) -> str:
    try:
        parsed = arch_names.parse_spec(text)
    except arch_names.NoSuchArchError as exc:
        raise RefusedValueError(problem("unknown-arch", str(exc))) from None
    except ValueError:
        raise _unknown_arch(text) from None
    if isinstance(parsed, str) or parsed[0].number in GPUS or not _has_wrong_zeros(parsed[0].number):
        return text
    raise _unknown_arch(text)


def _has_wrong_zeros(number: int) -> bool:
    from ..common import (
        gpu_names,
    )  # lazy import: only for mistakes, and for archs that this version does not know

    return bool(gpu_names.with_right_zeros(str(number)))


def _unknown_arch(text: str) -> RefusedValueError:
    """Return the error for an unknown arch, with a message that suggests archs that the user may mean."""
    from ..common import gpu_names  # lazy import: needed only to report mistakes

    what = f"{text!r} is not an arch; write {_SOME_ARCHS}"
    # groups of archs, such as all-major, have no digits
    if not any(map(str.isdigit, text)) and (question := guess(text.lower(), arch_names.GROUPS)):
        what = f"{text!r} is not an arch, {question}"
    if meant := gpu_names.archs_meant(text):
        what = f"{text!r} is not an arch, did you mean {', '.join(map(repr, meant))}?"
    return RefusedValueError(problem("unknown-arch", what))


def toolkit(value: object) -> str:
    """Check a release of CUDA: only published releases and "system" are allowed."""
    text = string(value)
    if text == "system":
        return text
    if re.fullmatch(r"[0-9]{1,2}(\.[0-9]{1,2}){0,3}", text) is None:
        raise ValueError(
            f"must be a CUDA version such as '13', '13.0', '12.9' or '13.0.2', or 'system', not {text!r}"
        )
    major, *rest = map(int, text.split("."))
    minor, patch = (*rest[:2], *(-1, 0)[len(rest[:2]) :])
    minors = CUDA.get(major, {})
    is_release = minor in minors and patch <= minors[minor] and not any(rest[2:])
    if minors and (minor < 0 or is_release):
        return text
    if major < min(CUDA):
        what = f"must be CUDA {min(CUDA)} or later, not {text!r}"
        raise RefusedValueError(problem("unknown-cuda-version", what))
    if major < max(CUDA) and minor not in minors:
        last = newest_of(major)
        what = f"must be a published CUDA version, not {text!r}: the last CUDA {major} is {last}"
        raise RefusedValueError(problem("unknown-cuda-version", what))
    newest = f"{major}.{minor}.{minors[minor]}" if minor in minors else newest_of(max(CUDA))
    what = (
        f"must be a CUDA version that hatch-cubin {__version__} knows, not {text!r}: the newest version is "
        f"{newest}, and a newer hatch-cubin may know {text}"
    )
    if minor in minors:
        what = (
            f"must be a CUDA version that hatch-cubin {__version__} knows, not {text!r}: "
            f"the newest CUDA {major}.{minor} is {newest}, and a newer hatch-cubin may know {text}"
        )
    raise RefusedValueError(problem("unknown-cuda-version", what))


def newest_of(major: int) -> str:
    """Return the newest known release of a major version."""
    return f"{major}.{max(CUDA[major])}"


def jobs(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= 1024:
        return value
    raise ValueError(f"must be a whole number from 1 to 1024, not {value!r}")


def size(value: object) -> int:
    """Return the number of bytes of a size such as '2 GiB'.

    A number without a unit is rejected: a user who writes 2 means 2 GB, but the cache would get 2 bytes.
    """
    match = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?) *([KMGT]?i?B?)", string(value))
    if match and not match[2]:
        raise ValueError(f"needs a unit, as in '{match[1]} MB' or '{match[1]} GB': {value!r}")
    unit = match and (match[2] if match[2] in _SIZE_UNITS else None)
    if not match or unit is None or float(match[1]) == 0:
        raise ValueError(f"must be a size such as '2 GiB', not {value!r}")
    return math.ceil(float(match[1]) * _SIZE_UNITS[unit])


def place(value: object) -> str:
    """Check a path that is allowed to lead out of the project."""
    text = string(value)
    if not text.isprintable():
        raise ValueError(f"{text!r} has characters that no path should have")
    if _VARIABLE.match(text):
        if _is_of_toolkit(text):
            raise ValueError(
                f"{text!r} begins with a variable, but variables inside values are not replaced; "
                "leave this path out, because the toolkit's headers are always found"
            )
        raise ValueError(f"{text!r} begins with a variable, but variables inside values are not replaced")
    return text


def leads_out(text: str) -> bool:
    """Return whether a path may lead out of the folder to which it is relative, on some operating system."""
    parts = text.replace("\\", "/").split("/")
    return text.startswith(("/", "\\", "~")) or ":" in parts[0] or ".." in parts


def path(value: object) -> str:
    """Check a path or a glob that must stay inside the project."""
    text = place(value)
    if leads_out(text):
        what = f"{text!r} must be a relative path inside the project"
        if _is_of_toolkit(text):
            what = (
                f"{text!r} must be a relative path inside the project; "
                "leave this path out, because the toolkit's headers are always found"
            )
        raise RefusedValueError(problem("path-leaves-project", what), text)
    if "\\" in text:
        plain = text.replace("\\", "/")
        raise ValueError(f"{text!r} must be written with '/', as \"{plain}\"")
    return "/".join(part for part in text.split("/") if part not in {"", "."}) or "."


def _is_of_toolkit(text: str) -> bool:
    """Return whether a path looks like the folder of the CUDA toolkit's headers."""
    return "cuda" in text.lower() and "include" in text


def python_file(value: object) -> str:
    """Check the path of one Python file in the project, which must not be an `__init__.py`."""
    text = path(value)
    if text.rpartition("/")[2] == "__init__.py":
        what = (
            f"cannot be {text!r}, because hatch-cubin does not run the __init__.py of a package: "
            "move the function into another file"
        )
        raise ValueError(what)
    is_module = text.endswith(".py") and "." not in text.rpartition("/")[2][:-3]
    if not is_module or any(mark in text for mark in "*?["):
        raise ValueError(f"must be the path of one Python module, such as 'src/demo/gen.py', not {text!r}")
    return text


def function(value: object) -> str:
    text = string(value)
    if not text.isidentifier():
        if "." in text:
            raise ValueError(
                f"must be the name of a function, such as 'sources', not {text!r}: "
                "if this is a method, define a function that calls the method"
            )
        raise ValueError(f"must be the name of a function, such as 'sources', not {text!r}")
    return text


def produced_suffix(text: str) -> str:
    if text not in PRODUCED_SUFFIXES:
        raise ValueError(f"must be 'cu', 'ptx' or 'tileir', not {text!r}")
    return text


def variable(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        raise ValueError(f"{text!r} is not the name of an environment variable")
    return text


def time_limit(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_SECONDS:
        raise ValueError(f"must be a whole number of seconds from 1 on, not {value!r}")
    return value


def folder_above(value: object) -> str:
    """Check the relative path of a folder above the project."""
    text = place(value)
    if "\\" in text:
        raise ValueError(f"{text!r} must be written with '/'")
    parts = [part for part in text.split("/") if part not in {"", "."}]
    inner = [*itertools.dropwhile("..".__eq__, parts)]
    if inner in ([], parts) or text.startswith("/") or ".." in inner:
        raise ValueError(f"must be a path to a folder above the project, such as '../csrc', not {text!r}")
    return "/".join(parts)


def root_name(text: str, others: Iterable[str]) -> str:
    """Check the name of a source root; the name must not be in *others*."""
    if not re.fullmatch(r"[^\W_](?:[\w.-]*[\w-])?", text):
        raise ValueError("must be a name of letters, digits, '_', '.' and '-', such as 'csrc'")
    if text.casefold() in map(str.casefold, others):
        raise ValueError("differs from another name only in case, and some file systems ignore case")
    return text


def package(value: object) -> str:
    text = string(value)
    if not all(part.isidentifier() for part in text.split(".")):
        raise ValueError(f"must be a dotted name such as 'mypkg' or 'mypkg.gpu', not {text!r}")
    return text


def backend(value: object) -> str:
    text = string(value)
    module, colon, inside = text.partition(":")
    parts = [*module.split("."), *(inside.split(".") if colon else ())]
    is_backend = all(part.isidentifier() for part in parts) and BACKENDS.get(text, text) == text
    if text == WRAPPER or is_misnamed_wrapper(text) or not is_backend:
        raise ValueError(f"must be another build backend, such as 'mesonpy', not {text!r}")
    return text


def distribution(text: str) -> str:
    name = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
    pin = r"(?:===?|!=|~=|[<>]=?) *[A-Za-z0-9.*+!_-]+"
    if not re.fullmatch(rf"{name} *(?:{pin}(?: *, *{pin})*)?", text):
        if ";" in text:
            raise ValueError(
                f"{text!r} is not the name of a distribution, such as 'nvidia-cutlass': "
                "remove the marker, which begins with ';'"
            )
        raise ValueError(f"{text!r} is not the name of a distribution, such as 'nvidia-cutlass'")
    return text


def requirement(text: str) -> str:
    """Check a build requirement: a distribution, optionally with extras and versions."""
    distribution(re.sub(r" *\[[A-Za-z0-9._, -]*\]", "", text, count=1))
    return text


def header_package(text: str) -> str:
    """Check the name of a distribution with headers."""
    name = re.split(r"[\s<>=!~]", distribution(text), maxsplit=1)[0]
    if name.endswith(HEADER_SUFFIXES):
        what = (
            f"{text!r} is a header: write the name of the wheel that contains this header "
            "(headers of the CUDA toolkit are found without an entry)"
        )
        raise RefusedValueError(problem("not-a-header-package", what))
    if (meant := nvidia_wheels.without_headers(name)) is not None:
        what = f"{text!r} is not a distribution with headers for kernels: {meant}"
        raise RefusedValueError(problem("not-a-header-package", what))
    return text


def front(value: object) -> str:
    if value not in FRONTS:
        raise ValueError(f"must be {' or '.join(map(repr, FRONTS))}, not {value!r}")
    return str(value)


def mode(value: object) -> str:
    if value not in ("lto", "rdc"):
        raise ValueError(f"must be 'lto' or 'rdc', not {value!r}")
    return str(value)


def link(text: str) -> str:
    """Check an entry of `link`: a file of the project, or a wheel with a glob of files in the wheel."""
    wheel, colon, files = text.partition(":")
    if not colon:
        return path(text)
    return f"{distribution(wheel.strip())}:{path(files.strip())}"


def is_secret(value: object) -> bool:
    """Return whether a value contains a private key, also in nested arrays and tables."""
    from ..common.ed25519_keys import PRIVATE  # lazy import: needed only for some keys

    return f"{PRIVATE}:" in repr(value)


def trusted_key(text: str) -> str:
    from ..common.ed25519_keys import read_public

    try:
        read_public(text)
    except ValueError as exc:
        # `from None`: the original error would show the text, which may be secret.
        raise RefusedValueError(problem("bad-public-key", f"a key {exc}")) from None
    return text


def name(value: object) -> str:
    text = string(value)
    if not text.isprintable() or any(char in text for char in '/\\[]<>"'):
        raise ValueError(f"must be a plain name, not {text!r}")
    return text


def name_of_sources(value: object) -> str:
    """Check the `name` in a [[source]] table, which may contain the placeholders `{parent}` and `{stem}`."""
    text = name(value)
    for part in re.findall(r"\{[^{}]*\}", text):
        if part not in NAME_PARTS:
            raise ValueError(f"has {part}, but only {{parent}} and {{stem}} are replaced by parts of a path")
    return text


def macro_name(text: str) -> None:
    match = re.fullmatch(r"([A-Za-z_]\w*)(\([\w ,.]*\))?", text, re.ASCII)
    if not match:
        right = text.replace("-", "_")
        if right != text and right.isidentifier() and not text.startswith("-"):
            raise ValueError(f"is not a macro's name: did you mean {right}?")
        raise ValueError("is not a macro's name")
    from . import reserved_macros

    if match[1] in (reserved_macros.CALLED if match[2] else reserved_macros.NAMES):
        what = "cannot be a macro: NVRTC's built-in header uses this name, and no source would compile"
        raise RefusedValueError(problem("reserved-macro", what))
    if reserved_macros.PREDEFINED.fullmatch(match[1]):
        what = "cannot be a macro, because NVRTC itself defines this macro"
        if key := reserved_macros.BY_KEY.get(match[1]):
            what = f"cannot be a macro, because NVRTC itself defines this macro from '{key}'"
        raise RefusedValueError(problem("reserved-macro", what))


def macro_text(value: object) -> str | None:
    """Return a macro's value as text, such as "1" for true; None for false (the macro is undefined)."""
    if isinstance(value, bool):
        return "1" if value else None
    if value in WHOLE if isinstance(value, int) else isinstance(value, float) and math.isfinite(value):
        return repr(value)
    if not isinstance(value, str) or not all(char.isprintable() or char == "\t" for char in value):
        raise ValueError(f"must be a boolean, a number or a one-line string, not {value!r}")
    if OTHER_MACRO.search(value):
        raise ValueError(f"must be the value of one macro, but contains the option -D: {value!r}")
    return value


def once(items: Sequence[object]) -> tuple[str | None, ...]:
    """Check the values that `variants` lists for a macro, and return them as texts.

    Equal texts raise ValueError.
    """
    values = [*map(macro_text, items)]
    if len({*values}) < len(values):
        twice = next(value for value in values if values.count(value) > 1)
        what = f"has {'false' if twice is None else repr(twice)} twice"
        if twice == "1" and any(item is True for item in items):
            what = "has '1' twice, because true means 1"
        raise RefusedValueError(problem("repeated-value", what))
    return tuple(values)


def product_meant(text: str) -> str | None:
    """Return a hint to write an entry such as `scale<{T}>` as a table; None if the entry names a kernel."""
    values: dict[str, Sequence[str | int]] = {}

    def placeholder(match: re.Match[str]) -> str:
        words = [word.strip() for word in match[2].split(",")]
        name = match[2] if match[2].isidentifier() else f"T{len(values) or ''}"
        is_type = name.startswith("T") or "type" in name.lower()
        values[name] = words if len(words) > 1 else ["float", "double"] if is_type else [1, 2]
        return f"{match[1]}{{{name}}}"

    from . import toml_lines  # lazy import: needed only to report mistakes

    named = _BRACED_ARGUMENT.sub(placeholder, text)
    return f"write a table: {toml_lines.literal({'kernel': named, **values})}" if values else None


def kernel(text: str) -> str:
    if not text.strip() or not text.isprintable():
        raise ValueError(f"{text!r} is not the name of a kernel, such as 'scale<float, 4>'")
    if _TYPES.issuperset(text.split()):
        raise ValueError(f"{text!r} is a type: write the kernel's name too, as in 'scale<{text.strip()}>'")
    return text.strip()
