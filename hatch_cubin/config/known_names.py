"""The names that a project uses for hatch-cubin, and likely misspellings of these names. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..common.distribution_names import comparable_name

WRAPPER = "hatch_cubin.backend"  # our build backend: it calls another build backend, which the table names
HOOK = "cubin"
BACKENDS = {  # the tested build backends, by their requirement in [build-system]
    "flit-core": "flit_core.buildapi",
    "hatchling": "hatchling.build",
    "maturin": "maturin",
    "meson-python": "mesonpy",
    "pdm-backend": "pdm.backend",
    "poetry-core": "poetry.core.masonry.api",
    "scikit-build-core": "scikit_build_core.build",
    "setuptools": "setuptools.build_meta",
    "uv-build": "uv_build",
}
MISNAMED_HOOKS = ("cubins", "hatch-cubin", "hatch_cubin")

# The names that other tools use for the keys of the table.
_KEYS = {
    "options": "cflags compile-args compile-flags compile-options cuda-flags extra-compile-args flags "
    "nvcc-args nvcc-flags nvcc-options",
    "define": "defs definitions macros",
    "sources": "src files kernels kernel-sources",
    "include-dirs": "header-dirs include include-path include-paths include-directories headers",
    "archs": "architecture architectures arch-list capabilities capability compute-capabilities "
    "compute-capability cuda-arch cuda-archs cuda-arch-list cuda-architectures gencode gpu gpus gpu-arch "
    "gpu-archs gpu-architecture gpu-code sm target targets torch-cuda-arch-list",
    "toolkit": "cuda cuda-version cuda-toolkit version",
    "[[source]] with instantiate": "instantiate-templates template templates instantiations",
}
_INNER_KEYS = {
    "source": {
        "path": "file files glob source sources src",
        "name": "module",
        "instantiate": "instantiate-templates template templates instantiations",
    },
    "module": {
        "link": "lib libs libraries library link-libraries objects",
        "name": "module",
        "sources": "files path source src",
    },
}
_ALIKE = {"cubin", "cubins", "hatchcubin", "hatchcubins"}
_NAME = re.compile(r"[\w.-]+")
_NEARLY = 0.84  # share of equal letters: it accepts misspellings, but not the names of other projects
_REQUIREMENT = re.compile(r"hatch[-_.]+cubin(?![\w.-])", re.IGNORECASE)


def inside(tables: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the TOML table at *path*, or an empty table if there is no table.

    For a value that is not a table, the result is an empty table too: other code reports the mistake.
    """
    value: Any = tables
    for key in path:
        value = value.get(key, {}) if isinstance(value, Mapping) else {}
    return value if isinstance(value, Mapping) else {}


def backend_meant(text: str) -> str | None:
    """Return the build backend of a tool or distribution, such as 'flit_core', or None if it is unknown."""
    name = {"hatch": "hatchling"}.get(text, comparable_name(text))
    for tool, right in BACKENDS.items():
        if f"{tool}-".startswith(f"{name}-") or name.startswith(f"{tool}-"):
            return right
    return None


def backend_of_tool(text: str) -> str:
    """Return the build backend that the name of a tool, or a misspelled name, means; otherwise *text*."""
    if not re.search("[.:]", text):
        return backend_meant(text) or text
    alike = (right for right in BACKENDS.values() if right.count(".") == text.count("."))
    return next((right for right in alike if right not in text and _is_near(text, right)), text)


def is_misnamed_wrapper(text: str) -> bool:
    """Return whether a name is a likely misspelling of our build backend, as in 'hatch_cubin.build'."""
    module, name = (re.sub("[-_.:]", "", part).lower() for part in (re.split("[.:]", text)[0], text))
    return text != WRAPPER and (module in _ALIKE or _is_near(name, "hatchcubinbackend"))


def key_meant(key: str, table: object = "") -> str | None:
    """Return a hint with the table's key for a name that setup scripts or CMake use for the same setting.

    *table*: "source" or "module" if the name was found in a `[[source]]` or `[[module]]` table.
    """
    name = key.lower().replace("_", "-")
    known = {**_INNER_KEYS.get(str(table), {}), **_KEYS}
    return next((f"did you mean {right!r}?" for right, names in known.items() if name in names.split()), None)


def misnamed(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each TOML table whose name is hatch-cubin or cubin, or nearly: correct tables too.

    Outside Hatch's settings, only the three upper levels are searched: in deeper tables, such a name may be a
    requirement.
    """
    tools = (("tool", name) for name in inside(pyproject, "tool") if name != "hatch")
    for outer in ((), ("tool",), *tools):
        tables = inside(pyproject, *outer)
        yield from ((*outer, name) for name in tables if _is_alike(name, tables))
    yield from _misnamed_in(("tool", "hatch"), {**hatch, "envs": None})


def misnamed_in_hatch_toml(tables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the path of hatch-cubin's table in hatch.toml if its header is written as for pyproject.toml."""
    outer = {name: tables[name] for name in ("tool", "hatch") if name in tables}
    return next(_misnamed_in((), outer), None)


def _misnamed_in(path: tuple[str, ...], tables: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    for name in tables:
        if _is_alike(name, tables):
            yield (*path, name)
        else:
            yield from _misnamed_in((*path, name), inside(tables, name))


def _is_alike(name: str, tables: Mapping[str, Any]) -> bool:
    bare = re.sub("[-_. ]", "", name).lower()
    return isinstance(tables[name], Mapping) and any(map(functools.partial(_is_near, bare), _ALIKE))


def _is_near(name: str, right: str) -> bool:
    import difflib  # lazy import: slow to import, and needed only for mistakes

    return difflib.SequenceMatcher(None, name, right).ratio() >= _NEARLY


def is_required(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> bool:
    """Return whether a build of the project requires hatch-cubin: in [build-system] or in Hatch's tables."""
    return any(is_own(each) for each in required(pyproject, hatch))


def required(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> list[object]:
    """Return the project's requirements for a build: from [build-system], and from Hatch's tables."""
    tables = (
        ("build", *target, *hook) for target in ((), ("targets", "wheel")) for hook in ((), ("hooks", HOOK))
    )
    listed = [inside(hatch, *table).get("dependencies") for table in tables]
    listed.append(inside(pyproject, "build-system").get("requires"))
    return [each for place in listed if isinstance(place, list) for each in place]


def build_tables(pyproject: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the tables [build-system] and [tool.hatch-cubin]."""
    return inside(pyproject, "build-system"), inside(pyproject, "tool", "hatch-cubin")


def with_hatch_cubin(requires: object, usual: Iterable[str] = ("setuptools",)) -> list[object]:
    """Return build requirements that include hatch-cubin: correct a misspelling, or add a missing entry."""
    listed = [requires] if isinstance(requires, str) else requires if isinstance(requires, list) else [*usual]
    right = [_NAME.sub("hatch-cubin", each, count=1) if is_nearly_own(each) else each for each in listed]
    return [*dict.fromkeys(map(str, right)), *([] if any(map(is_own, right)) else ["hatch-cubin"])]


def is_nearly_own(requirement: object) -> bool:
    """Return whether a requirement is a likely misspelling of hatch-cubin.

    A misspelling is dangerous: another person may have published a malicious package of that name.
    """
    match = _NAME.match(str(requirement))
    name = re.sub("[-_.]", "", match[0]).lower() if match else ""
    if is_own(requirement) or name in _ALIKE:
        return not is_own(requirement)
    return _is_near(name, "hatchcubin")


def is_own(requirement: object) -> bool:
    """Return whether a requirement names hatch-cubin."""
    return _REQUIREMENT.match(str(requirement)) is not None
