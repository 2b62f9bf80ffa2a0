"""Run the checks of `hatch-cubin verify`: of RECORD, of bundles, and of bills of materials."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import Problem
from ..reading.bundles import OpenedWheel
from ..reading.companions import companion_problems
from .record_check import record_problems
from .sbom_check import sbom_problems
from .variant_check import variant_problems
from .verify import bundle_problems


def integrity_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a problem for each file of a wheel that contradicts RECORD, the manifest or another file."""
    if opened.archive is not None:
        yield from record_problems(opened.archive)
    for bundle in opened.bundles:
        yield from bundle_problems(bundle, in_wheel=opened.archive is not None)
    yield from variant_problems(opened)
    if opened.companion is not None and opened.archive is not None:
        yield from companion_problems(opened)
    else:
        yield from sbom_problems(opened)
