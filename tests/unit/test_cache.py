"""Entries that prove themselves, over cuda.core's own cache."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hatch_cubin._cache import Cache, Compiled
from tests.helpers import sha256

pytest.importorskip("cuda.core")

KEY = bytes(range(32))
RESULT = Compiled(b"\x7fELF code", {"scale<float, 4>": "_Z5scale"}, ("a warning",))
INPUTS = {"source": "abc", "define": ["N=4"], "headers": {"project/größe.h": "def"}}


def open_cache(folder: Path, cap: int | None = None, said: list[str] | None = None) -> Cache:
    return Cache(folder, cap, ([] if said is None else said).append)


def fill(folder: Path, *names: str, size: int = 100) -> None:
    with open_cache(folder) as cache:
        for name in names:
            cache.put(name.encode() * 32, Compiled(name.encode() * size, {}), {})


def held(folder: Path, *names: str) -> str:
    with open_cache(folder) as cache:
        return "".join(name for name in names if cache.get(name.encode() * 32) is not None)


def files(folder: Path) -> dict[str, bytes]:
    entries = folder / "entries"
    return {
        str(path.relative_to(entries)): path.read_bytes() for path in entries.rglob("*") if path.is_file()
    }


def test_what_was_stored_is_found_by_the_next_build(tmp_path: Path) -> None:
    said: list[str] = []
    with open_cache(tmp_path / "cache", said=said) as cache:
        assert cache.get(KEY) is None
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    with open_cache(tmp_path / "cache", said=said) as cache:
        assert cache.get(KEY) == RESULT
        assert cache.damaged == 0
    assert said == []


def test_an_entry_is_the_raw_bytes_beside_a_record_that_says_what_went_in(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.put(KEY, RESULT, INPUTS)
    raw, record = sorted(files(tmp_path).values(), key=len)
    assert raw == RESULT.data
    digest, text = record.decode().splitlines()
    assert digest == sha256(text.encode())
    assert json.loads(text) == {
        "format": 1,
        "inputs": INPUTS,
        "kernels": RESULT.kernels,
        "key": KEY.hex(),
        "warnings": ["a warning"],
        "sha256": sha256(RESULT.data),
        "size": len(RESULT.data),
    }


def test_cuda_core_reads_the_entry_as_its_own(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    with open_cache(tmp_path) as cache:
        cache.put(KEY, RESULT, INPUTS)
    assert FileStreamProgramCache(tmp_path)[KEY] == RESULT.data


def test_nothing_but_entries_lives_in_the_folder(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    assert {path.name for path in tmp_path.iterdir()} - {"entries", "tmp", "SCHEMA_VERSION"} == set()


def signed(value: object) -> bytes:
    return signed_text(json.dumps(value))


def signed_text(text: str) -> bytes:
    return f"{sha256(text.encode())}\n{text}\n".encode()


PROVEN = {
    "key": KEY.hex(),
    "sha256": sha256(b"x"),
    "size": 1,
    "kernels": {},
    "warnings": [],
    "inputs": {},
    "format": 1,
}


@pytest.mark.parametrize(
    "record",
    [
        signed([]),
        signed({**PROVEN, "format": 2}),
        signed({**PROVEN, "more": 1}),
        signed({name: value for name, value in PROVEN.items() if name != "warnings"}),
        signed({**PROVEN, "kernels": []}),
        signed({**PROVEN, "warnings": 1}),
        signed({**PROVEN, "key": "00" * 32}),
        signed({**PROVEN, "size": 2}),
        signed({**PROVEN, "sha256": sha256(b"y")}),
        signed(PROVEN).removesuffix(b"\n"),
        signed(PROVEN) + b"\n",
        b"",
        signed_text("not JSON"),
        signed_text("[" * 100_000 + "]" * 100_000),
    ],
    ids=[
        "list",
        "format",
        "more",
        "less",
        "kernels",
        "warnings",
        "key",
        "size",
        "digest",
        "cut",
        "longer",
        "empty",
        "no json",
        "deep",
    ],
)
def test_a_record_that_does_not_fit_is_a_miss(tmp_path: Path, record: bytes) -> None:
    from cuda.core.utils import FileStreamProgramCache

    store = FileStreamProgramCache(tmp_path)
    store[KEY] = b"x"
    store[KEY + b".record"] = record
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        assert cache.get(KEY) is None
        assert cache.damaged == 1
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    assert said == []


def as_a_pipe(path: Path) -> None:
    os.mkfifo(path)


def as_a_folder(path: Path) -> None:
    path.mkdir()
    (path / "file").write_text("")


def as_a_link_to_a_folder(path: Path) -> None:
    path.symlink_to(path.parent, target_is_directory=True)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="has no pipes with names")
@pytest.mark.parametrize("number", [0, 1], ids=["entry", "record"])
@pytest.mark.parametrize("put", [as_a_pipe, as_a_folder, as_a_link_to_a_folder])
def test_what_stands_in_an_entrys_place_and_is_no_file_is_a_miss_and_is_healed(
    tmp_path: Path, put: Callable[[Path], None], number: int
) -> None:
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        cache.put(KEY, RESULT, INPUTS)
        place = tmp_path / "entries" / sorted(files(tmp_path))[number]
        place.unlink()
        put(place)
        assert (cache.get(KEY), cache.damaged) == (None, 1)
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    assert said == []


def test_a_record_that_fits_is_a_hit(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    store = FileStreamProgramCache(tmp_path)
    store[KEY], store[KEY + b".record"] = b"x", signed(PROVEN)
    with open_cache(tmp_path) as cache:
        assert cache.get(KEY) == Compiled(b"x", {})


def make_old(folder: Path, ages: Mapping[str, float]) -> None:
    """Give entries of `fill` an age in seconds, by their content; records share it."""
    for path in (folder / "entries").rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            for name, age in ages.items():
                if data.startswith(name.encode() * 9) or (name.encode() * 32).hex().encode() in data:
                    then = path.stat().st_mtime - age
                    os.utime(path, (then, then))


def test_a_cap_drops_what_was_used_longest_ago(tmp_path: Path) -> None:
    fill(tmp_path, *"abcd")
    one = sum(map(len, files(tmp_path).values())) / 4
    make_old(tmp_path, {"a": 100, "b": 400, "c": 300, "d": 200})
    with open_cache(tmp_path, cap=int(2.5 * one)):
        pass
    assert held(tmp_path, *"abcd") == "ad"


def test_a_cap_never_drops_what_the_build_itself_used(tmp_path: Path) -> None:
    fill(tmp_path, *"abc")
    make_old(tmp_path, {"a": 300, "b": 200, "c": 100})
    with open_cache(tmp_path, cap=1) as cache:
        assert cache.get(b"a" * 32) is not None
        cache.put(b"d" * 32, Compiled(b"d" * 1000, {}), {})
    assert held(tmp_path, *"abcd") == "ad"


def test_half_an_entry_left_by_a_cap_is_a_plain_miss(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    next(
        path for path in (tmp_path / "entries").rglob("*") if path.is_file() and path.stat().st_size == 100
    ).unlink()
    with open_cache(tmp_path) as cache:
        assert cache.get(b"a" * 32) is None
        assert cache.damaged == 0


def test_a_cap_that_is_kept_drops_nothing(tmp_path: Path) -> None:
    fill(tmp_path, *"ab")
    make_old(tmp_path, {"a": 300, "b": 200})
    with open_cache(tmp_path, cap=1 << 20):
        pass
    assert held(tmp_path, *"ab") == "ab"


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "ab/notes.txt", "ab/" + "0" * 61, "ab/" + "g" * 62, "ab/" + "A" * 62, "abc/" + "0" * 62],
)
def test_a_cap_drops_nothing_that_the_store_did_not_make(tmp_path: Path, name: str) -> None:
    fill(tmp_path, "a")
    other = tmp_path / "entries" / name
    other.parent.mkdir(exist_ok=True)
    other.write_bytes(b"x" * 1000)
    os.utime(other, (0, 0))
    with open_cache(tmp_path, cap=1):
        pass
    assert other.exists()


def test_files_that_another_process_removes_first_are_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, *"ab")
    make_old(tmp_path, {"a": 300, "b": 200})
    said: list[str] = []
    real_stat, real_unlink = os.stat, os.unlink

    def look_too_late(path: str, **options: bool) -> os.stat_result:
        status = real_stat(path, **options)
        if status.st_size == 100:
            real_unlink(path)
            raise FileNotFoundError(path)
        return status

    def remove_too_late(path: str) -> None:
        real_unlink(path)
        raise FileNotFoundError(path)

    cache = open_cache(tmp_path, cap=1, said=said)
    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", look_too_late)
        patched.setattr(os, "unlink", remove_too_late)
        cache.__exit__(None, None, None)
    assert (files(tmp_path), said) == ({}, [])
