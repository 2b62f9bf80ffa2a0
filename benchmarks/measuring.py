"""How a command is measured, and how a row of the table is made of it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_ROUNDS = ((0.2, 21), (5.0, 5), (20.0, 3))  # what takes less than so many seconds is run so often
_QUICK_ROUNDS = ((0.2, 5), (2.0, 3))


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds on the wall, seconds of all processors, MiB at the peak of one process."""

    wall: float
    cpu: float = 0.0
    memory: float = 0.0


@dataclass(frozen=True)
class Goal:
    """What ours may be at most: so many times theirs, and so much more."""

    factor: float
    extra: float = 0.0

    def allowed(self, theirs: float | None) -> float | None:
        """Return the limit; None where it depends on what was not measured."""
        if theirs is None and self.factor:
            return None
        return self.factor * (theirs or 0.0) + self.extra

    def text(self, unit: str) -> str:
        """Return how the table says it."""
        parts = [f"{self.factor:g} ×"] * bool(self.factor) + [f"{self.extra:g} {unit}"] * bool(self.extra)
        return f"≤ {' + '.join(parts)}"


@dataclass(frozen=True)
class Row:
    """One comparison of one run."""

    what: str
    against: str
    ours: float | None
    theirs: float | None
    goal: Goal | None = None
    unit: str = "s"
    peer: str = ""  # what a user would have without us, where this row tells what is gained

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.ours is not None and self.theirs else None

    @property
    def allowed(self) -> float | None:
        return self.goal.allowed(self.theirs) if self.goal else None

    @property
    def reached(self) -> bool | None:
        """Whether the goal is; None where there is none, or nothing to tell it by."""
        return None if self.allowed is None or self.ours is None else self.ours <= self.allowed

    def facts(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        told = {"allowed": self.allowed, "ratio": self.ratio, "reached": self.reached}
        return {**asdict(self), **told}

    def cells(self) -> tuple[str, ...]:
        """Return the row as the table has it."""
        return (
            self.what,
            self.against,
            *(_number(value, self.unit) for value in (self.ours, self.theirs)),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            self.goal.text(self.unit) if self.goal else "",
            {True: "yes", False: "no", None: ""}[self.reached],
        )


_WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this environment as users have it, with nothing set that hatch-cubin reads, and some more."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_CUBIN_")}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)
    return {**clean, **(more or {})}


def cost(command: Sequence[str | Path], cwd: Path, environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end, its processes included, and return what it took."""
    watched = [sys.executable, "-S", "-c", _WATCH, *map(str, command)]
    done = subprocess.run(
        watched, cwd=cwd, env=environment(environ), capture_output=True, text=True, check=True
    )
    code, wall, cpu, memory = done.stdout.split()
    if code != "0":
        raise RuntimeError(f"{command} ended with {code}\n{done.stderr}")
    return Cost(float(wall), float(cpu), float(memory))


def in_turn(*actions: Callable[[], Cost], quick: bool = False) -> list[Cost]:
    """Return the median cost of each action; they are run in turn, so that a slow minute hits all."""
    rounds = [[action() for action in actions]]
    longest = max(each.wall for each in rounds[0])
    wanted = next((count for below, count in (_QUICK_ROUNDS if quick else _ROUNDS) if longest < below), 1)
    rounds += [[action() for action in actions] for _ in range(wanted - 1)]
    return [
        Cost(
            *(statistics.median(getattr(each, name) for each in costs) for name in ("wall", "cpu", "memory"))
        )
        for costs in zip(*rounds, strict=True)
    ]


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float, float]:
    """Return the least-squares line through the points: where it starts, its slope, how far one is off."""
    slope, fixed = statistics.linear_regression(*zip(*points, strict=True))
    return fixed, slope, max(abs(y - fixed - slope * x) for x, y in points)


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    head = ("what", "against", "ours", "theirs", "ratio", "goal", "reached")
    rule = ("---", "---", "---:", "---:", "---:", "---", "---")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, rule, *(row.cells() for row in rows)))
