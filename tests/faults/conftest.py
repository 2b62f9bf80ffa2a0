"""Where the tests of faults work, and by which chance."""

from __future__ import annotations

import os
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Return the chance that makes faults: the same each time unless --seed says another."""
    return random.Random(request.config.getoption("--seed"))  # noqa: S311 - a test wants the same each time


@pytest.fixture
def memory() -> Iterator[Path]:
    """Return a folder in memory, where there is such a thing: a disk takes milliseconds for each fsync."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108 - by a name of its own
    with tempfile.TemporaryDirectory(dir=place, prefix="hatch-cubin-faults-") as folder:
        yield Path(folder)
