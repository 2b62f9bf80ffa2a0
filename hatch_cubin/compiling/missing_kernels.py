"""Report kernels that a module has for only some archs, usually because of an `#if` in the source."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ..cache.entries import Compiled
from ..planning.unit_plan import Module, Unit

_SHOWN = 3  # The most kernel names that a message lists; `hatch-cubin inspect` lists all kernel names.


def missing_kernel_notes(done: Mapping[Unit, Compiled]) -> list[str]:
    """Return messages about kernels that a module has for only some archs."""
    modules: dict[Module, list[Unit]] = defaultdict(list)
    for unit in done:
        modules[unit.module].append(unit)
    return sorted({note for module, units in modules.items() for note in _notes(module, units, done)})


def _notes(module: Module, units: list[Unit], done: Mapping[Unit, Compiled]) -> Iterator[str]:
    having = {unit: done[unit].kernels for unit in units} if units[1:] else {}
    # Usually, a module has the same kernels for all archs.
    if all(names == having[units[0]] for names in having.values()):
        return
    every = set[str]().union(*having.values())
    lacking: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for unit in sorted(units, key=lambda unit: unit.arch):
        lacking[tuple(sorted(every - having[unit].keys()))].append(str(unit.arch))
    for names, archs in lacking.items():
        if names:
            shown = ", ".join(names[:_SHOWN]) + ", …" * (len(names) > _SHOWN)
            targets, count = ", ".join(archs), f"{len(names)} of its {len(every)}"
            name = module.base if module.link else module.source.path
            yield f"{name}: the code for {targets} does not contain {count} kernels: {shown}"
