"""What a disk can do to the blocks of a packed bundle: all of it is found, and nothing wrong is handed out.

With --long the numbers are those of a release.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fault_counts import Figures
from tests.faults.harness.damage import flip, swap, truncate
from tests.helpers import load_bundle, made, packed_bundle

UNITS = [
    made(name, arch, data=f"{name} {arch} ".encode() * 20 + random.Random(name + arch).randbytes(200))  # noqa: S311
    for name in (f"k{number}" for number in range(10))
    for arch in ("sm_80", "sm_90")
]
FILES = packed_bundle(*UNITS)
BLOCKS = [name for name in FILES if name.endswith(".xz")]
QUESTIONS = [
    (item.unit.module.name, (8, 0) if str(item.unit.arch) == "sm_80" else (9, 0), item.compiled.data)
    for item in UNITS
]


def ask_all(cubins: Any) -> tuple[int, int]:
    """Ask for everything, with nothing unpacked; count wrong answers, and errors of damage."""
    cubins._part("_packs")._unpacked.clear()
    wrong = damaged = 0
    for name, cc, right in QUESTIONS:
        try:
            wrong += cubins.read(name, cc=cc) != right
        except cubins.CubinDamagedError:
            damaged += 1
    return wrong, damaged


@pytest.mark.parametrize(
    ("damage", "short", "long"), [(flip, 200, 10_000), (truncate, 50, 2_000), (swap, 20, 1_000)]
)
def test_damaged_blocks_give_no_bytes(
    memory: Path,
    damage: Callable[..., list[Path]],
    short: int,
    long: int,
    *,
    chance: random.Random,
    figures: Figures,
) -> None:
    cubins = load_bundle(memory / "bundle", FILES)
    paths = [memory / "bundle" / name for name in BLOCKS]
    counts: Counter[str] = Counter()
    for _ in range(figures.pick(short, long)):
        damage(paths, chance)
        wrong, damaged = ask_all(cubins)
        counts.update(faults=1, wrong=wrong, detected=damaged > 0)
        for path in paths:
            path.write_bytes(FILES[path.name])
    assert (counts["wrong"], counts["detected"]) == (0, counts["faults"])
    assert ask_all(cubins) == (0, 0)
    figures.tell(**counts)
