"""The names by which projects refer to hatch-cubin, and likely misspellings of these names. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..common.distribution_names import comparable_name

WRAPPER = "hatch_cubin.backend"  # hatch-cubin's backend, which calls the build backend in pyproject.toml
HOOK = "cubin"
HATCHLING_KEYS = frozenset(  # keys of hatchling, which may be in the table of any hook
    ("dependencies", "enable-by-default", "require-runtime-dependencies", "require-runtime-features")
)
BACKENDS = {  # the tested build backends, each with its requirement in [build-system]
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

# The names that other tools use for our keys of pyproject.toml.
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
    "exclude": "ignore skip",
    "[[source]] with instantiate": "instantiate-templates instantiations name-expressions template templates",
}
_INNER_KEYS = {
    "source": {
        "path": "file files glob source sources src",
        "name": "module",
        "instantiate": "instantiate-templates instantiations name-expressions template templates",
    },
    "producer": {
        "call": "callable entry function func",
        "environment": "env environ variables",
        "inputs": "depends files",
        "path": "file module script source",
        "produces": "outputs suffixes",
        "requires": "dependencies packages requirements",
        "seconds": "timeout",
    },
    "module": {
        "link": "lib libs libraries library link-libraries objects",
        "name": "module",
        "sources": "files path source src",
    },
}
_SWITCHES = {"active", "disable", "disabled", "enable", "enable-by-default", "enabled"}
_ALIKE = {"cubin", "cubins", "hatchcubin", "hatchcubins"}
_NAME = re.compile(r"[\w.-]+")
_NEARLY = 0.84  # misspellings are more similar than this, and names of other projects less
_REQUIREMENT = re.compile(r"hatch[-_.]+cubin(?![\w.-])", re.IGNORECASE)


def inside(tables: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return the TOML table at *path*, or an empty table if the table does not exist.

    If the value at *path* is not a table, the function returns an empty table, because other code reports
    this mistake.
    """
    value: Any = tables
    for key in path:
        value = value.get(key, {}) if isinstance(value, Mapping) else {}
    return value if isinstance(value, Mapping) else {}


def backend_meant(text: str) -> str | None:
    """Return the build backend of a tool or distribution, such as 'flit_core' for 'flit', or None."""
    name = {"hatch": "hatchling"}.get(text, comparable_name(text))
    for tool, right in BACKENDS.items():
        if f"{tool}-".startswith(f"{name}-") or name.startswith(f"{tool}-"):
            return right
    return None


def backend_of_tables(tool: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return the header of the table in `[tool]` that configures a build backend, and the backend's name.

    Projects with any build backend may have a `[tool.uv]` or `[tool.hatch]`, so these two tables count only
    if they have settings about builds. Return None if no table configures a build backend. For a project with
    a table of setuptools, the function returns None, because the project then uses setuptools, which is pip's
    default build backend.
    """
    if "setuptools" in tool:
        return None
    parts = {"uv": {"build-backend"}, "hatch": {"build", "metadata", "version"}}
    tables = (name for name in tool if name not in parts or parts[name] & inside(tool, name).keys())
    meant = ((f"[tool.{name}]", backend_meant(name)) for name in tables)
    return next(((table, backend) for table, backend in meant if backend), None)


def backend_of_tool(text: str) -> str:
    """Return the build backend that *text* (a tool's name or a misspelled backend) means, or else *text*."""
    if not re.search("[.:]", text):
        return backend_meant(text) or text
    alike = (right for right in BACKENDS.values() if right.count(".") == text.count("."))
    return next((right for right in alike if right not in text and _is_near(text, right)), text)


def is_misnamed_wrapper(text: str) -> bool:
    """Return whether a name is a likely misspelling of `hatch_cubin.backend`, such as 'hatch_cubin.build'."""
    module, name = (re.sub("[-_.:]", "", part).lower() for part in (re.split("[.:]", text)[0], text))
    return text != WRAPPER and (module in _ALIKE or _is_near(name, "hatchcubinbackend"))


def key_meant(key: str, table: object = "") -> str | None:
    """Return a hint with the right key for a setting's name in setup scripts or CMake; None if unknown.

    *table* is "source", "module" or "producer" if the name is in a table such as `[[source]]`.
    """
    name = key.lower().replace("_", "-")
    if name in _SWITCHES and not table:
        return "HATCH_CUBIN_SKIP=1 in the environment makes wheels without kernels"
    known = {**_INNER_KEYS.get(str(table), {}), **_KEYS}
    return next((f"did you mean {right!r}?" for right, names in known.items() if name in names.split()), None)


def misnamed(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the path of each TOML table whose name is equal or similar to hatch-cubin or cubin.

    Outside Hatch's settings, the function searches only the three upper levels. A deeper table with the name
    hatch-cubin may be no mistake, because other tools name tables after requirements.
    """
    tools = (("tool", name) for name in inside(pyproject, "tool") if name != "hatch")
    for outer in ((), ("tool",), *tools):
        tables = inside(pyproject, *outer)
        yield from ((*outer, name) for name in tables if _is_alike(name, tables))
    yield from _misnamed_in(("tool", "hatch"), {**hatch, "envs": None})


def misnamed_in_hatch_toml(tables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the path of a table in hatch.toml that wrongly begins with "tool" or "hatch", or None."""
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
    """Return whether hatch-cubin is a build requirement, in [build-system] or in Hatch's tables."""
    return any(is_own(each) for each in required(pyproject, hatch))


def required(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> list[object]:
    """Return the project's build requirements: from [build-system], and from Hatch's tables."""
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
    """Return build requirements with hatch-cubin: correct a misspelled entry, or add the missing entry."""
    if isinstance(requires, str):  # several requirements in one text
        requires = re.split(r"[\s,]+(?=[A-Za-z])", requires)
    listed = requires if isinstance(requires, list) else [*usual]
    right = [_NAME.sub("hatch-cubin", each, count=1) if is_nearly_own(each) else each for each in listed]
    return [*dict.fromkeys(map(str, right)), *([] if any(map(is_own, right)) else ["hatch-cubin"])]


def is_nearly_own(requirement: object) -> bool:
    """Return whether a requirement is a likely misspelling of hatch-cubin.

    A misspelling is dangerous, because an attacker may have published a malicious package with the misspelled
    name.
    """
    match = _NAME.match(str(requirement))
    name = re.sub("[-_.]", "", match[0]).lower() if match else ""
    if is_own(requirement) or name in _ALIKE:
        return not is_own(requirement)
    return _is_near(name, "hatchcubin")


def is_own(requirement: object) -> bool:
    """Return whether a build requirement is for hatch-cubin."""
    return _REQUIREMENT.match(str(requirement)) is not None
