"""The names under which a project asks for hatch-cubin, and what some write instead of them. Pure."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..common.distribution_names import comparable_name

WRAPPER = "hatch_cubin.backend"  # a build backend, around another one that the table names
HOOK = "cubin"
BACKENDS = {  # those that were tried, by what [build-system] requires for them
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

# What other tools call the keys of the table.
_KEYS = {
    "options": "cflags compile-args compile-flags compile-options cuda-flags extra-compile-args flags "
    "nvcc-args nvcc-flags nvcc-options",
    "define": "defs definitions macros",
    "sources": "src files kernels kernel-sources",
    "include-dirs": "include include-path include-paths include-directories headers",
    "archs": "architecture architectures arch-list capabilities capability compute-capabilities "
    "compute-capability cuda-arch cuda-archs cuda-arch-list cuda-architectures gencode gpu gpus gpu-arch "
    "gpu-archs gpu-architecture gpu-code sm target targets torch-cuda-arch-list",
    "toolkit": "cuda cuda-version cuda-toolkit version",
    "[[source]] with instantiate": "instantiate-templates template templates instantiations",
}
_INNER_KEYS = {
    "source": {"path": "file files glob source sources src", "name": "module"},
    "module": {
        "link": "lib libs libraries library link-libraries objects",
        "name": "module",
        "sources": "files path source src",
    },
}
_ALIKE = {"cubin", "cubins", "hatchcubin", "hatchcubins"}
_NAME = re.compile(r"[\w.-]+")
_NEARLY = 0.85  # of the letters: a slip of the pen, but no name of another project
_REQUIREMENT = re.compile(r"hatch[-_.]+cubin(?![\w.-])", re.IGNORECASE)


def inside(tables: Mapping[str, Any], *path: str) -> Mapping[str, Any]:
    """Return a table inside others; an empty one where it is absent, or where something else stands.

    What else stands there is for others to complain of.
    """
    value: Any = tables
    for key in path:
        value = value.get(key, {}) if isinstance(value, Mapping) else {}
    return value if isinstance(value, Mapping) else {}


def backend_meant(text: str) -> str | None:
    """Return the build backend whose tool, distribution or module is named here, as in 'flit_core'."""
    name = comparable_name(text)
    for tool, right in BACKENDS.items():
        if f"{tool}-".startswith(f"{name}-") or name.startswith(f"{tool}-"):
            return right
    return None


def is_misnamed_wrapper(text: str) -> bool:
    """Say whether a build backend's name is nearly that of ours, as in 'hatch_cubin.build'."""
    module, name = (re.sub("[-_.:]", "", part).lower() for part in (re.split("[.:]", text)[0], text))
    return text != WRAPPER and (module in _ALIKE or _is_near(name, "hatchcubinbackend"))


def key_meant(key: str, table: object = "") -> str | None:
    """Return the key of the table that another name may mean, as in setup scripts and in CMake.

    *table* is "source" or "module" for the tables inside it.
    """
    name = key.lower().replace("_", "-")
    known = {**_KEYS, **_INNER_KEYS.get(str(table), {})} if table else _KEYS
    return next(
        (f"did you mean {right!r}?" for right, others in known.items() if name in others.split()), None
    )


def misnamed(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Yield the paths of tables with nearly our name, or with our name in another place, right ones too.

    Outside of Hatch's settings only the upper tables count: below, a name such as ours may be a requirement.
    """
    for outer, tables in (((), pyproject), (("tool",), inside(pyproject, "tool"))):
        yield from ((*outer, name) for name in tables if _is_alike(name, tables))
    yield from _misnamed_in(("tool", "hatch"), {**hatch, "envs": None})


def misnamed_in_hatch_toml(tables: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return the path of a table of ours that hatch.toml has under a name for pyproject.toml."""
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
    import difflib  # slow to import, and needed only where something is wrong

    return difflib.SequenceMatcher(None, name, right).ratio() >= _NEARLY


def is_required(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> bool:
    """Say whether a front end is asked to install hatch-cubin: by the build system, or by Hatch's tables."""
    return any(is_own(each) for each in required(pyproject, hatch))


def required(pyproject: Mapping[str, Any], hatch: Mapping[str, Any]) -> list[object]:
    """Return what a front end is asked to install for a build: by the build system, and by Hatch's tables."""
    homes = (
        ("build", *target, *hook) for target in ((), ("targets", "wheel")) for hook in ((), ("hooks", HOOK))
    )
    listed = [inside(hatch, *home).get("dependencies") for home in homes]
    listed.append(inside(pyproject, "build-system").get("requires"))
    return [each for place in listed if isinstance(place, list) for each in place]


def asked(pyproject: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return what a project says of its build, and of its kernels."""
    return inside(pyproject, "build-system"), inside(pyproject, "tool", "hatch-cubin")


def with_us(requires: object, usual: Iterable[str] = ("setuptools",)) -> list[object]:
    """Return build requirements with hatch-cubin among them, in the place of what nearly has its name."""
    listed = requires if isinstance(requires, list) else [*usual]
    right = [_NAME.sub("hatch-cubin", each, count=1) if is_nearly_own(each) else each for each in listed]
    return [*dict.fromkeys(map(str, right)), *([] if any(map(is_own, right)) else ["hatch-cubin"])]


def is_nearly_own(requirement: object) -> bool:
    """Say whether a requirement has nearly our name, as others may who hope for a slip of the pen."""
    match = _NAME.match(str(requirement))
    name = re.sub("[-_.]", "", match[0]).lower() if match else ""
    if is_own(requirement) or name in _ALIKE:
        return not is_own(requirement)
    return _is_near(name, "hatchcubin")


def is_own(requirement: object) -> bool:
    """Say whether that is a requirement of hatch-cubin."""
    return _REQUIREMENT.match(str(requirement)) is not None
