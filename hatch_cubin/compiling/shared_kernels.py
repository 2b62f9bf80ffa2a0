"""Report kernels that are in several modules, because the loader cannot choose between the modules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..cache.entries import Compiled
from ..errors import Location, problem
from ..planning.unit_plan import Unit

if TYPE_CHECKING:
    from .hints.kernel_declarations import Kernel

_SHOWN = 3  # How many modules, and how many kernels, a message lists at most.


def shared_kernel_notes(
    done: Mapping[Unit, Compiled], texts_of: Callable[[Unit], Mapping[str, str]]
) -> list[str]:
    """Return a message for each group of modules that have kernels of the same name.

    If producers generate the sources of all modules in a group, there is no message, because programs always
    name the module when they look up a kernel of a generated source. *texts_of* returns a mapping from path
    to text for a unit's source and the project's headers.
    """
    units: dict[str, Unit] = {}
    of_files: set[str] = set()
    modules: dict[str, set[str]] = defaultdict(set)
    for unit, compiled in done.items():
        module = unit.module
        # The loader does not load object files, and finds the kernels of a library's call by a key.
        if not (module.part_of or module.front):
            units[module.base] = unit
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
        shared = _in_header(kernels, [units[base] for base in bases], texts_of)
        advice = (
            "if a source is a copy of another source, or is included in another source, list it in 'exclude'"
            if shared is None
            else f"or move {shared.base} from {shared.where} to a source of its own"
        )
        hint = f"load such a kernel with module={bases[0]!r}; {advice}"
        where = Location(units[bases[-1]].module.source.path)
        notes.append(problem("kernel-in-two-modules", what, where, hint).with_code())
    return notes


def _in_header(
    kernels: Sequence[str], units: Sequence[Unit], texts_of: Callable[[Unit], Mapping[str, str]]
) -> Kernel | None:
    """If all *units* include a header that declares one of the *kernels*, return this kernel."""
    # lazy import: needed only if modules share a kernel
    from .definitions import base_of
    from .hints.kernel_declarations import declared

    sources = {unit.module.source.path for unit in units}
    first, *others = map(texts_of, units)
    common = (first.keys() - sources).intersection(*others)
    names = {*map(base_of, kernels)}
    found = declared({path: first[path] for path in sorted(common)})
    return next((each for each in found if each.base in names), None)


def _listed(names: tuple[str, ...] | list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{', '.join(names[:_SHOWN])}{more}"
