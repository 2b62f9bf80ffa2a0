"""What becomes of the entries of other cache folders."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.audit import Finding
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.merging import MergeResult, merge, why_not_mergeable
from hatch_cubin.cache.records import entry_path, record_key
from hatch_cubin.cache.signing import RECORD, Signer
from tests.faults.harness import damage
from tests.helpers import write_tree

pytest.importorskip("cuda.core")

KEYS = {name: name.encode() * 32 for name in "abc"}


def write(folder: Path, **entries: bytes) -> Path:
    with Cache(folder, None, pytest.fail) as cache:
        for name, data in entries.items():
            cache.put(KEYS[name], Compiled(data, {name: data[:2].decode()}, ("a warning",)), {"source": name})
    return folder


def merged(into: Path, other: Path) -> MergeResult:
    with Cache(into, None, pytest.fail) as cache:
        return merge(cache, other)


def found(folder: Path) -> dict[str, bytes]:
    """Return what a build finds."""
    with Cache(folder, None, pytest.fail) as cache:
        results = {name: cache.get(key) for name, key in KEYS.items()}
    return {name: result.data for name, result in results.items() if result is not None}


def files(folder: Path, name: str) -> list[bytes]:
    return [Path(entry_path(folder, key)).read_bytes() for key in (KEYS[name], record_key(KEYS[name]))]


def test_an_entry_is_copied_with_its_record_to_the_byte(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", a=b"code"), write(tmp_path / "other", b=b"more code")
    size = housekeeping.stats(other).bytes
    assert merged(one, other) == MergeResult(1, 0, size, [])
    assert files(one, "b") == files(other, "b")
    assert found(one) == {"a": b"code", "b": b"more code"}


def test_a_folder_that_does_not_exist_is_made(tmp_path: Path) -> None:
    other = write(tmp_path / "other", a=b"code")
    merged(tmp_path / "new", other)
    assert found(tmp_path / "new") == {"a": b"code"}


def test_what_is_there_and_proven_stays(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", a=b"mine"), write(tmp_path / "other", a=b"theirs")
    assert merged(one, other) == MergeResult(0, 1, 0, [])
    assert found(one) == {"a": b"mine"}


def sign(folder: Path, name: str, signer: Signer) -> None:
    record = Path(entry_path(folder, record_key(KEYS[name])))
    record.write_bytes(record.read_bytes() + signer.sign(RECORD, record.read_bytes()))


def test_a_signature_is_added_to_what_has_none_and_is_else_the_same(tmp_path: Path) -> None:
    one = write(tmp_path / "one", a=b"code", b=b"mine", c=b"signed")
    other = write(tmp_path / "other", a=b"code", b=b"theirs", c=b"signed")
    sign(one, "c", Signer(bytes([1]) * 32))
    for name in KEYS:
        sign(other, name, Signer(bytes([2]) * 32))
    before = {name: files(one, name) for name in "bc"}
    assert (merged(one, other).entries, merged(one, other).entries) == (1, 0)
    assert files(one, "a") == files(other, "a")
    assert {name: files(one, name) for name in "bc"} == before


def test_what_is_there_and_damaged_is_made_whole(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one", a=b"code"), write(tmp_path / "other", a=b"code")
    Path(entry_path(one, KEYS["a"])).write_bytes(b"oops")
    assert merged(one, other).entries == 1
    assert found(one) == {"a": b"code"}


def test_the_other_folder_stays_as_it_is(tmp_path: Path) -> None:
    other = write(tmp_path / "other", a=b"code", b=b"more code")
    before = {path: path.stat() for path in other.rglob("*") if path.is_file()}
    merged(tmp_path / "one", other)
    after = {path: path.stat() for path in other.rglob("*") if path.is_file()}
    assert {path: (each.st_mtime_ns, each.st_size) for path, each in after.items()} == {
        path: (each.st_mtime_ns, each.st_size) for path, each in before.items()
    }


def test_what_is_not_proven_is_left_out_and_told(tmp_path: Path) -> None:
    other = write(tmp_path / "other", a=b"code", b=b"more code", c=b"most")
    Path(entry_path(other, KEYS["a"])).write_bytes(b"CODE")
    Path(entry_path(other, record_key(KEYS["b"]))).unlink()
    write_tree(other, {"notes": ""})
    told = merged(tmp_path / "one", other)
    assert (told.entries, told.found) == (
        1,
        [
            Finding(
                "damaged", os.path.relpath(entry_path(other, KEYS["a"]), other), "does not match its record"
            ),
            Finding("foreign", "notes", "is a file that no build writes"),
            Finding("orphaned", os.path.relpath(entry_path(other, KEYS["b"]), other), "has no record"),
        ],
    )
    assert found(tmp_path / "one") == {"c": b"most"}


@pytest.mark.parametrize("harm", [damage.flip, damage.truncate, damage.zero, damage.swap])
def test_no_damage_is_copied(tmp_path: Path, harm: object) -> None:
    chance = random.Random(3)  # noqa: S311 - a test wants the same damage each time
    right = {"a": b"code", "b": b"more code"}
    for number in range(40):
        other = write(tmp_path / f"{number}", **right)
        harm([path for path in other.rglob("*/*/*") if path.is_file()], chance)  # type: ignore[operator]
        told = merged(tmp_path / f"{number} merged", other)
        there = found(tmp_path / f"{number} merged")
        assert {*there.items()} <= {*right.items()}
        assert (told.entries, bool(told.found)) == (len(there), True)


@pytest.mark.parametrize("name", ["cache", "./cache", "link"])
def test_a_folder_is_not_merged_into_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "cache", a=b"code")
    (tmp_path / "link").symlink_to("cache")
    assert (
        why_not_mergeable(tmp_path / "cache", Path(name))
        == "is the cache's own folder, which cannot be merged into itself"
    )


def test_an_empty_cache_can_be_merged(tmp_path: Path) -> None:
    (tmp_path / "other/entries").mkdir(parents=True)
    assert why_not_mergeable(tmp_path / "cache", tmp_path / "other") is None
    assert merged(tmp_path / "cache", tmp_path / "other") == MergeResult(0, 0, 0, [])
