"""Report macros in `variants` whose value does not change the compiled code."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

from ..cache.entries import Compiled
from ..planning.unit_plan import Unit

# The arch of a variant, and the values of all its macros except one. Variants that differ only in this macro
# have the same value of _Same.
_Same = tuple[str, tuple[tuple[str, str], ...]]


def identical_variant_notes(done: Mapping[Unit, Compiled]) -> list[str]:
    """Return a message for each macro in `variants` whose value does not change the code of any variant."""
    results: dict[tuple[str, str], dict[_Same, list[str]]] = defaultdict(lambda: defaultdict(list))
    for unit, compiled in done.items():
        # Two equal object files are not reported, because their linked modules may still differ.
        if unit.module.part_of:
            continue
        for name, _value in unit.module.variant:
            others = tuple(item for item in unit.module.variant if item[0] != name)
            same = (str(unit.arch), others)
            is_one_of_several = unit.module.link or unit.module.source.variant
            path = unit.module.base if is_one_of_several else unit.module.source.path
            results[path, name][same].append(compiled.sha256)
    return sorted(_notes(results))


def _notes(results: Mapping[tuple[str, str], Mapping[_Same, list[str]]]) -> Iterator[str]:
    for (path, name), found in results.items():
        count = max(map(len, found.values()))
        if count > 1 and all(len({*digests}) == 1 for digests in found.values()):
            yield f"{path}: {name} has no effect: its {count} variants have the same code"
