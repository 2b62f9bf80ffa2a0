"""What processes do with a program cache that others use, too. A value is made of its key, so all know it."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from multiprocessing.connection import Connection
from pathlib import Path

from hatch_cubin.program_cache.database import Database

KEYS = 300


def value(key: bytes) -> bytes:
    return hashlib.sha256(key).digest() * (8 + hashlib.sha256(key).digest()[0])


def look(cache: Database, keys: int = KEYS) -> Counter[str]:
    """Count what is right and what is wrong."""
    found = [(cache.read(b"%d" % number), value(b"%d" % number)) for number in range(keys)]
    return Counter("wrong" if data != right else "right" for data, right in found if data is not None)


def use(path: Path, seed: int, turns: int, cap: int | None, log: Path) -> None:
    """Read often and write sometimes; say what was not right."""
    chance = random.Random(seed)  # noqa: S311 - every process has an order of its own
    figures: Counter[str] = Counter()
    said: list[str] = []
    cache = Database(str(path), cap, said.append)
    for _ in range(turns):
        key = b"%d" % chance.randrange(KEYS)
        if chance.random() < 0.1:
            cache.write(key, value(key))
        elif (data := cache.read(key)) is not None:
            figures["right" if data == value(key) else "wrong"] += 1
    cache.close()
    log.write_text(json.dumps({**figures, "said": said}))


def write_until_killed(path: Path, seed: int, cap: int, ready: Connection) -> None:
    chance = random.Random(seed)  # noqa: S311 - every process has an order of its own
    said: list[str] = []
    cache = Database(str(path), cap, said.append)
    ready.send_bytes(b"ready")
    while not said:
        key = b"%d" % chance.randrange(KEYS)
        cache.write(key, value(key))
        cache.read(b"%d" % chance.randrange(KEYS))
        if chance.random() < 0.02:
            cache.close()
    raise AssertionError(said)
