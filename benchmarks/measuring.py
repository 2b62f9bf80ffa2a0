"""How a command is measured, and how a row of the table is made of it."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What a command took: seconds on the wall, seconds of all processors, MiB at the peak."""

    wall: float
    cpu: float
    memory: float


@dataclass(frozen=True)
class Row:
    """One comparison of one run."""

    what: str
    against: str
    ours: float | None
    theirs: float | None
    goal: str
    unit: str = "s"

    @property
    def ratio(self) -> float | None:
        return self.ours / self.theirs if self.ours is not None and self.theirs else None

    def facts(self) -> dict[str, Any]:
        """Return the row as JSON has it."""
        return {**asdict(self), "ratio": self.ratio}


_WATCH = """
import resource, subprocess, sys, time
start = time.perf_counter()
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
wall = time.perf_counter() - start
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


def cost(command: Sequence[str | Path], cwd: Path, environ: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end in a process group of its own and return what it took."""
    watched = [sys.executable, "-S", "-c", _WATCH, *map(str, command)]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("HATCH_CUBIN_")}
    clean.pop("PYTHONDONTWRITEBYTECODE", None)  # as users have it
    done = subprocess.run(
        watched, cwd=cwd, env={**clean, **(environ or {})}, capture_output=True, text=True, check=True
    )
    code, wall, cpu, memory = done.stdout.split()
    if code != "0":
        raise RuntimeError(f"{command} ended with {code}\n{done.stderr}")
    return Cost(float(wall), float(cpu), float(memory))


def in_turn(repeat: int, *actions: Callable[[], Cost]) -> list[Cost]:
    """Return the median cost of each action; they are run in turn, so that a slow minute hits all."""
    rounds = [[action() for action in actions] for _ in range(repeat)]
    return [
        Cost(
            *(statistics.median(getattr(each, name) for each in costs) for name in ("wall", "cpu", "memory"))
        )
        for costs in zip(*rounds, strict=True)
    ]


def seconds(action: Callable[[], object]) -> float:
    """Return how long an action of this process takes."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown."""
    head = ("what", "against", "ours", "theirs", "ratio", "goal")
    cells = [
        (
            row.what,
            row.against,
            _number(row.ours, row.unit),
            _number(row.theirs, row.unit),
            _ratio(row),
            row.goal,
        )
        for row in rows
    ]
    lines = [
        f"| {' | '.join(line)} |" for line in (head, ("---", "---", "---:", "---:", "---:", "---"), *cells)
    ]
    return "\n".join(lines)


def _number(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.3g} {unit}"


def _ratio(row: Row) -> str:
    return "" if row.ratio is None else f"{row.ratio:.2f}"
