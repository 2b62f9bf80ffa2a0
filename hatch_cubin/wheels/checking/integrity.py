"""All that `verify` proves of what was found: its RECORD, its bundles, its bills of materials."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import Problem
from ..reading.bundles import Found
from ..reading.companions import companion_problems
from .record_check import record_problems
from .sbom_check import bill_problems
from .variant_check import variant_problems
from .verify import bundle_problems


def proof_problems(found: Found) -> Iterator[Problem]:
    """Yield everything that does not hold together."""
    if found.wheel is not None:
        yield from record_problems(found.wheel)
    for bundle in found.bundles:
        yield from bundle_problems(bundle, in_wheel=found.wheel is not None)
    yield from variant_problems(found)
    if found.companion is not None and found.wheel is not None:
        yield from companion_problems(found)
    else:
        yield from bill_problems(found)
