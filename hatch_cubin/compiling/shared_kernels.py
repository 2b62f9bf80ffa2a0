"""Report kernels that are in several modules, so that the loader cannot choose between the modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from ..cache.entries import Compiled
from ..errors import Location, problem
from ..planning.unit_plan import Unit

_SHOWN = 3  # The largest numbers of modules and of kernels that a message names.


def shared_kernel_notes(done: Mapping[Unit, Compiled]) -> list[str]:
    """Return a message for each group of modules that have kernels of the same name.

    Groups of which producers returned all modules are left out: programs find such modules by their names.
    """
    paths: dict[str, str] = {}
    of_files: set[str] = set()
    modules: dict[str, set[str]] = defaultdict(set)
    for unit, compiled in done.items():
        module = unit.module
        # The loader does not load object files, and finds the kernels of a library's call by a key.
        if not (module.part_of or module.front):
            paths[module.base] = module.source.path
            if module.source.produced is None:
                of_files.add(module.base)
            for kernel in compiled.kernels:
                modules[kernel].add(module.base)
    groups: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for kernel, having in modules.items():
        if len(having) > 1 and having & of_files:
            groups[tuple(sorted(having))].append(kernel)
    notes = []
    for bases, kernels in sorted(groups.items()):
        what = f"the modules {_listed(bases)} have kernels of the same name: {_listed(sorted(kernels))}"
        hint = (
            f"load such a kernel with module={bases[0]!r}; if a source is a copy of another source, or is "
            "included in another source, list it in 'exclude'"
        )
        notes.append(problem("kernel-in-two-modules", what, Location(paths[bases[-1]]), hint).with_code())
    return notes


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
