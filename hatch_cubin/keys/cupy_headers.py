"""Headers in CuPy's own wheel, and kernels whose struct arguments depend on the release of CuPy."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ..config.config import Config
from ..config.toml_lines import setting
from ..errors import Location, Problem, problem
from ..headers.includes import Closure
from ..headers.resolve import SearchFolder
from ..planning.unit_plan import Module
from ..project.scan import Include, line_of_include

_INCLUDE = "cupy/_core/include"
# CuPy searches its own copies of these libraries before all other folders.
_COPIES = ("cub", "thrust", "libcudacxx")
_STRUCTS = "cupy/carray.cuh"
_STRUCT = re.compile(r"\b(?:CArray|CIndexer)\b")


def with_folders_of_cupy(folders: Sequence[SearchFolder]) -> tuple[SearchFolder, ...]:
    """Return the *folders* of the search path; folders with CuPy's own copies of libraries come first."""
    copies = (
        SearchFolder(root.path / "cupy/_cccl" / name, f"{root.logical}/cupy/_cccl/{name}", root.tree)
        for root in folders
        if root.logical.endswith(f"/{_INCLUDE}")
        for name in _COPIES
    )
    return (*(each for each in copies if each.path.is_dir()), *folders)


def host_struct_problems(modules: Mapping[Module, Closure], config: Config) -> dict[Module, Problem]:
    """Return a problem for each module that uses structs which differ between releases of CuPy.

    At run time, the user's release of CuPy passes its own structs to the kernels, but the kernels were
    compiled with the structs of another release.
    """
    problems = {}
    for module, closure in modules.items():
        text = module.source.text
        line = line_of_include(Include(_STRUCTS, "angle"), text)
        is_reached = any(name.endswith(_STRUCTS) for name in (*closure.files, *closure.missing))
        if not is_reached or not (line or _STRUCT.search(text)):
            continue
        what = f"uses structs of {_STRUCTS}, which the user's release of CuPy may define differently"
        where = Location(module.source.path, line and module.source.line_in_file(line))
        problems[module] = problem("structs-of-host", what, where, _left_out(module, config))
    return problems


def _left_out(module: Module, config: Config) -> str:
    """Return a hint that says how to exclude a source from a build, so that CuPy compiles it at run time."""
    source = module.source
    if source.recorded:
        return "delete this recorded call, so that CuPy compiles the kernel at run time"
    if source.produced:
        return (
            f"remove this source from the texts that {source.produced.producer} returns, "
            "so that CuPy compiles the source at run time"
        )
    excluded = setting("exclude", [*config.exclude, source.path])
    return f"exclude the source, so that CuPy compiles the source at run time: {excluded}"
