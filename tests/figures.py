"""How many faults the tests make, and what came of them."""

from __future__ import annotations

from typing import ClassVar


class Figures:
    """How many faults a test makes, and what it counted: told at the end of the run."""

    told: ClassVar[list[str]] = []

    def __init__(self, name: str, *, long: bool) -> None:
        self.long = long
        self._name = name

    def pick(self, short: int, long: int) -> int:
        """Return a number: the first for each day, the second with --long."""
        return long if self.long else short

    def tell(self, **counts: float) -> None:
        """Have what was counted told at the end."""
        listed = ", ".join(f"{name.replace('_', ' ')} {count:g}" for name, count in counts.items())
        self.told.append(f"{self._name}: {listed}")
