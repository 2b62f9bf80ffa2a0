"""What the concurrent processes do: builds with a stub compiler, and processes that disturb them.

A result is made of its key, so that each process knows what is right.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from hatch_cubin.bundle import layout
from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.compiling.claims import CompileClaims
from tests.helpers import bundle, made

LARGE = 20  # keys whose results are a hundred kilobytes

# A server without threads, which has all imports behind it and forks as often as it is asked to.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["cuda.core.utils", __name__])


def pipe() -> tuple[Connection, Connection]:
    """Return the end to hear on and the end to speak to."""
    return _PROCESSES.Pipe(duplex=False)


def start(target: Callable[..., None], *arguments: Any) -> BaseProcess:
    process = _PROCESSES.Process(target=target, args=arguments)
    process.start()
    return process


def result_of(key: bytes, size: int = 3000) -> Compiled:
    data = key.hex().encode() + hashlib.sha256(key).digest() * (size // 32 + 1)
    return Compiled(data[: size - key[0]], {f"k{key[0]}": key.hex()}, ("a warning",))


def keys(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % number).digest() for number in range(count)]


def take_all(
    cache: Cache, wanted: list[bytes], tell: Callable[[dict[str, Any]], object], size: int = 3000
) -> None:
    """Do what a build does: take what is there, compile the rest in turn; say what was not right."""
    found = {key: cache.get(key) for key in wanted}
    missing = [key for key in wanted if found[key] is None]

    def take_stored(number: int) -> bool:
        found[missing[number]] = cache.get(missing[number])
        return found[missing[number]] is not None

    claims = CompileClaims([[key] for key in missing], cache, take_stored, 60.0)
    while (number := claims.take()) is not None:
        key = missing[number]
        found[key] = result_of(key, size)
        cache.put(key, result_of(key, size), {"source": key.hex()})
        claims.done(number)
    tell({"builds": 1, "wrong": sum(found[key] != result_of(key, size) for key in wanted)})


def build_again_and_again(
    folder: Path, count: int, cap: int | None, seconds: float, log: Path, *beside: Path
) -> None:
    """Build for so long, and until the logs of those who disturb the builds are there."""
    chance = random.Random(os.getpid())  # noqa: S311 - every process has an order of its own
    figures: Counter[str] = Counter()
    said: list[str] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or not all(path.exists() for path in beside):
        wanted = chance.sample(keys(count), count)
        with Cache(folder, cap, said.append) as cache:
            take_all(cache, wanted, figures.update)
        figures["damaged"] += cache.damaged
    log.write_text(json.dumps({**figures, "warnings": len(said), "said": said[:3]}))


def build_until_killed(folder: Path, cap: int, ready: Connection) -> None:
    """Build without end in a folder too small for the results, so that there is always something to store."""
    chance = random.Random(os.getpid())  # noqa: S311 - every process has an order of its own
    said: list[str] = []
    ready.send_bytes(b"ready")
    while not said:
        with Cache(folder, cap, said.append) as cache:
            take_all(cache, chance.sample(keys(LARGE), 5), lambda _counts: None, size=100_000)
    raise AssertionError(said)


def clear_again_and_again(folder: Path, seconds: float, log: Path) -> None:
    figures: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not figures["entries"]:
        removed = housekeeping.clear(folder)
        figures.update({"clears": 1, "entries": removed.entries})
    log.write_text(json.dumps(figures))


def trim_again_and_again(folder: Path, seconds: float, log: Path) -> None:
    figures: Counter[str] = Counter()
    end = time.monotonic() + seconds
    while time.monotonic() < end or not figures["entries"]:
        removed = housekeeping.trim(folder, size=10_000, unused_for=0.01, keep=keys(3))
        figures.update({"trims": 1, "entries": removed.entries})
        assert housekeeping.stats(folder).bytes >= 0
    log.write_text(json.dumps(figures))


NAMES = [f"k{number}" for number in range(8)]
VERSIONS = (b"1", b"2")


def editable(version: bytes) -> dict[str, bytes]:
    notes = {"_editable.py": b"def look(*_): pass\n", "editable.json": b"{}"}
    return {**bundle(*(made(name, data=name.encode() + version) for name in NAMES)), **notes}


def write_again_and_again(folder: Path, version: bytes, until: str) -> None:
    while not os.path.exists(until):
        layout.write(editable(version), folder)
