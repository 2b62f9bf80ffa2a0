"""How many faults each test makes, and what they led to."""

from __future__ import annotations

KEY = "figures"  # of a test's report, which reaches whoever sums up


class Figures:
    """How many faults a test makes, and what it counted: told at the end of the run."""

    def __init__(self, name: str, properties: list[tuple[str, object]], *, long: bool) -> None:
        self.long = long
        self._name, self._properties = name, properties

    def pick(self, short: int, long: int) -> int:
        """Return a number: the first for each day, the second with --long."""
        return long if self.long else short

    def tell(self, **counts: float) -> None:
        """Have what was counted told at the end."""
        listed = ", ".join(f"{name.replace('_', ' ')} {count:g}" for name, count in counts.items())
        self._properties.append((KEY, f"{self._name}: {listed}"))
