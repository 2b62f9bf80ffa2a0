"""Damage files at rest: each function damages some of them and returns which."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path


def flip(paths: Sequence[Path], chance: random.Random) -> list[Path]:
    """Flip one bit of one file."""
    path = chance.choice(paths)
    data = bytearray(path.read_bytes())
    bit = chance.randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return [path]


def truncate(paths: Sequence[Path], chance: random.Random) -> list[Path]:
    """Cut one file anywhere."""
    path = chance.choice(paths)
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data))])
    return [path]


def zero(paths: Sequence[Path], chance: random.Random) -> list[Path]:
    """Make one file zeros from anywhere on, its size kept."""
    path = chance.choice(paths)
    data = path.read_bytes()
    at = chance.randrange(len(data.rstrip(b"\0")))  # so that it makes a difference
    path.write_bytes(data[:at] + bytes(len(data) - at))
    return [path]


def swap(paths: Sequence[Path], chance: random.Random) -> list[Path]:
    """Exchange two files."""
    one, other = chance.sample(paths, 2)
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    return [one, other]
