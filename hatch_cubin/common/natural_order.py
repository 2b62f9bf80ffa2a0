"""Sort names in natural order, so that `k64` comes before `k128`."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"(?<![\w.])([0-9]+(?:\.[0-9]+)?)(?![\w.])")


def by_number(name: str) -> tuple[tuple[str | float, ...], str]:
    """Return a sort key that puts `k[N=64]` before `k[N=128]`, and `k[N=128]` before `k[N=all]`."""
    parts = _NUMBER.split(name)
    return tuple(float(part) if index % 2 else part for index, part in enumerate(parts)), name
