"""A program cache returns right bytes or none: with many processes, kills, power cuts, damage, full disks.

--long runs as many rounds as before a release.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from hatch_cubin.program_cache import statements
from hatch_cubin.program_cache.database import Database
from tests.capabilities import namespace
from tests.fault_counts import Figures
from tests.helpers import run

from . import builders, cache_users

pytestmark = [pytest.mark.linux, pytest.mark.counted]

CAP = 200_000  # a fifth of what is stored
SMALL = 40  # entries, of the files that are damaged


def files_set_aside(path: Path) -> list[str]:
    return [name for name in os.listdir(path.parent) if ".aside-" in name]


# --- at once ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("cap", [None, CAP], ids=["without a cap", "with a cap"])
def test_many_processes_at_once_read_only_what_was_stored(
    tmp_path: Path, figures: Figures, cap: int | None
) -> None:
    path, turns = tmp_path / "cache", figures.pick(300, 20_000)
    users = [
        builders.start(cache_users.use, path, seed, turns, cap, tmp_path / f"{seed}.json")
        for seed in range(16)
    ]
    for user in users:
        user.join()
        assert user.exitcode == 0
    results = [json.loads((tmp_path / f"{seed}.json").read_text()) for seed in range(16)]
    counts = {name: sum(each.get(name, 0) for each in results) for name in ("right", "wrong")}
    figures.tell(
        reads=counts["right"], wrong=counts["wrong"], warnings=sum(len(each["said"]) for each in results)
    )
    assert counts["right"] > 0
    assert (counts["wrong"], [each["said"] for each in results]) == (0, [[]] * 16)


def start_writer(path: Path, seed: int) -> BaseProcess:
    heard, spoken = builders.pipe()
    process = builders.start(cache_users.write_until_killed, path, seed, CAP, spoken)
    spoken.close()
    assert heard.recv_bytes() == b"ready"
    heard.close()
    return process


@pytest.mark.usefixtures("unmeasured")
def test_killed_writers_leave_an_undamaged_file(tmp_path: Path, figures: Figures) -> None:
    path, kills = tmp_path / "cache", figures.pick(40, 1000)
    chance = random.Random(0)  # noqa: S311 - a test wants the same moments each time
    writers = [start_writer(path, 0), start_writer(path, 1)]
    counts: Counter[str] = Counter()
    said: list[str] = []
    for number in range(kills):
        time.sleep(chance.uniform(0, 0.03))
        writers[number % 2].kill()
        writers[number % 2].join()
        assert writers[number % 2].exitcode == -signal.SIGKILL
        cache = Database(str(path), None, said.append)
        counts += cache_users.look(cache)
        cache.close()
        writers[number % 2] = start_writer(path, number + 2)
    for writer in writers:
        writer.kill()
        writer.join()
    cache = Database(str(path), CAP, said.append)
    cache.write(b"0", cache_users.value(b"0"))
    counts += cache_users.look(cache)
    cache.close()
    figures.tell(kills=kills, right=counts["right"], wrong=counts["wrong"], warnings=len(said))
    assert counts["right"] > kills
    assert (counts["wrong"], said, files_set_aside(path)) == (0, [], [])
    assert path.stat().st_size < 2 * CAP


# --- power cuts -------------------------------------------------------------------------------------


def cut_log(path: Path, chance: random.Random) -> None:
    """Lose the end of the log."""
    log = path.with_name(f"{path.name}-wal")
    os.truncate(log, chance.randrange(log.stat().st_size))


def zero_log(path: Path, chance: random.Random) -> None:
    """Fill the end of the log with zeros."""
    log = path.with_name(f"{path.name}-wal")
    data = log.read_bytes()
    at = chance.randrange(len(data))
    log.write_bytes(data[:at] + bytes(len(data) - at))


def lose_pages(path: Path, chance: random.Random) -> None:
    """Lose pages of the file and the whole log, which no sound disk does."""
    path.with_name(f"{path.name}-wal").unlink()
    with path.open("r+b") as file:
        for _ in range(3):
            file.seek(4096 * chance.randrange(path.stat().st_size // 4096))
            file.write(bytes(4096))


def cut_file(path: Path, chance: random.Random) -> None:
    os.truncate(path, chance.randrange(path.stat().st_size))


def partly_checkpointed(folder: Path) -> Path:
    """Return a copy of a file in use, with its log: half of the entries are in the log only."""
    said: list[str] = []
    cache = Database(str(folder / "used"), None, said.append)
    for number in range(SMALL // 2):
        cache.write(b"%d" % number, cache_users.value(b"%d" % number))
    cache.close()
    for number in range(SMALL // 2, SMALL):
        cache.write(b"%d" % number, cache_users.value(b"%d" % number))
    (folder / "cut").mkdir()
    for end in ("", "-wal"):
        shutil.copyfile(folder / f"used{end}", folder / "cut" / f"cache{end}")
    cache.close()
    assert said == []
    return folder / "cut" / "cache"


@pytest.mark.parametrize("cut", [cut_log, zero_log, lose_pages, cut_file])
def test_a_power_cut_loses_whole_entries_only(
    tmp_path: Path, figures: Figures, cut: Callable[[Path, random.Random], None]
) -> None:
    chance = random.Random(1)  # noqa: S311 - a test wants the same cuts each time
    path = partly_checkpointed(tmp_path)
    counts: Counter[str] = Counter()
    for number in range(figures.pick(30, 500)):
        folder = shutil.copytree(path.parent, tmp_path / "again")
        cut(folder / "cache", chance)
        said: list[str] = []
        cache = Database(str(folder / "cache"), None, said.append)
        counts += cache_users.look(cache, SMALL)
        cache.write(b"%d" % number, cache_users.value(b"%d" % number))
        assert cache.read(b"%d" % number) == cache_users.value(b"%d" % number)
        cache.close()
        if cut in {cut_log, zero_log}:
            assert (said, files_set_aside(folder / "cache")) == ([], [])
        shutil.rmtree(folder)
    figures.tell(right=counts["right"], wrong=counts["wrong"])
    assert counts["right"] > 0
    assert counts["wrong"] == 0


# --- damage -----------------------------------------------------------------------------------------


def test_a_damaged_byte_is_neither_returned_nor_an_exception(tmp_path: Path, figures: Figures) -> None:
    """Flip one bit at a time, all over the file, and use the cache each time."""
    path = partly_checkpointed(tmp_path)
    said: list[str] = []
    Database(str(path), None, said.append).close()
    whole, counts, moved = path.read_bytes(), Counter[str](), 0
    for at in range(figures.pick(7, 0), len(whole), figures.pick(499, 17)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        cache = Database(str(path), CAP, said.append)
        counts += cache_users.look(cache, SMALL)
        cache.write(b"new", b"code")
        assert cache.read(b"new") == b"code"
        cache.remove(b"7")
        cache.close()
        for name in files_set_aside(path):
            moved += 1
            (path.parent / name).unlink()
    figures.tell(right=counts["right"], wrong=counts["wrong"], files_set_aside=moved, warnings=len(said))
    assert counts["right"] > 0
    assert counts["wrong"] == 0
    assert {text.partition("/cache ")[2].partition(":")[0] for text in said} <= {
        "has a damaged entry, which counts as a cache miss",
        "was renamed to cache.aside-1",
        "cannot be used fully",
    }


def test_damage_while_processes_use_the_file_is_never_returned(tmp_path: Path, figures: Figures) -> None:
    path, turns = tmp_path / "cache", figures.pick(300, 10_000)
    chance = random.Random(2)  # noqa: S311 - a test wants the same damage each time
    users = [
        builders.start(cache_users.use, path, seed, turns, CAP, tmp_path / f"{seed}.json")
        for seed in range(6)
    ]
    flips = 0
    while any(user.is_alive() for user in users):
        with (
            contextlib.suppress(FileNotFoundError),
            path.open("r+b") as file,
        ):  # another process may have set it aside
            at = chance.randrange(max(1, os.fstat(file.fileno()).st_size))
            file.seek(at)
            file.write(b"\xff")
            flips += 1
    for user in users:
        user.join()
        assert user.exitcode == 0
    results = [json.loads((tmp_path / f"{seed}.json").read_text()) for seed in range(6)]
    wrong = sum(each.get("wrong", 0) for each in results)
    figures.tell(flips=flips, right=sum(each.get("right", 0) for each in results), wrong=wrong)
    assert wrong == 0
    said: list[str] = []
    cache = Database(str(path), CAP, said.append)
    cache.write(b"k", b"code")
    assert (cache.read(b"k"), statements.is_open(str(path))) == (b"code", True), said
    cache.close()


# --- disks ------------------------------------------------------------------------------------------

SCRIPT = """
import sys
from hatch_cubin.program_cache.database import Database
said = []
cache = Database(sys.argv[1], None, said.append)
print(cache.read(b"k"))
for number in range(40):
    cache.write(b"%d" % number, bytes(100_000))
print(cache.read(b"k"))
cache.close()
for text in dict.fromkeys(said):
    print(text)
"""
FULL = 'mount -t tmpfs -o size=1m none "$1"; cp "$1.before/cache" "$1/cache"'
READ_ONLY = 'mount --bind "$1.before" "$1"; mount -o remount,bind,ro "$1"'


@pytest.mark.mounts
@pytest.mark.parametrize(
    ("script", "why"),
    [(FULL, "database or disk is full"), (READ_ONLY, "attempt to write a readonly database")],
    ids=["full", "read-only"],
)
def test_a_full_or_read_only_disk_can_still_be_read(tmp_path: Path, script: str, why: str) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    before = Database(f"{folder}.before/cache", None, pytest.fail)
    before.write(b"k", b"code")
    before.close()
    done = run(
        *namespace(),
        "sh",
        "-ec",
        f'{script}\nexec "$0" -c "$2" "$1/cache"',
        sys.executable,
        str(folder),
        SCRIPT,
        cwd=tmp_path,
    )
    assert done.stdout.splitlines() == [
        "b'code'",
        "b'code'",
        f"the program cache {folder}/cache cannot be used fully: {why}; an entry was not stored",
    ]
