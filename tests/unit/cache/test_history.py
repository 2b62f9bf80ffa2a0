"""What is remembered of builds: the last ones, of the last caches, and never a build's fault."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from hatch_cubin.cache import history
from hatch_cubin.common import user_folders

KEYS = [b"\2" * 32, b"\1" * 32]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder."""
    folder = tmp_path / "own"
    monkeypatch.setattr(user_folders, "own_folder", lambda: folder)
    return folder


def note(cache: Path, hits: int = 1) -> None:
    history.note(cache, Path("/project"), {"hits": hits, "misses": 0}, KEYS)


def test_a_build_is_remembered_with_what_it_used(tmp_path: Path) -> None:
    note(tmp_path / "cache", hits=7)
    (build,) = history.builds(tmp_path / "cache")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", build.pop("time"))
    assert build == {"project": "/project", "hits": 7, "misses": 0, "fetched": 0, "seconds": 0.0}
    assert history.keys(tmp_path / "cache") == {*KEYS}


def test_the_last_builds_are_remembered_the_latest_first(tmp_path: Path) -> None:
    for hits in range(13):
        note(tmp_path / "cache", hits)
    assert [build["hits"] for build in history.builds(tmp_path / "cache")] == [*range(12, 2, -1)]


def test_each_cache_has_its_own_builds_whatever_leads_to_it(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "link").symlink_to("cache")
    note(tmp_path / "link", hits=1)
    note(tmp_path / "other", hits=2)
    assert [build["hits"] for build in history.builds(tmp_path / "cache")] == [1]


def test_of_a_cache_that_no_build_used_nothing_is_known(tmp_path: Path) -> None:
    assert (history.builds(tmp_path), history.keys(tmp_path)) == ([], None)


def test_caches_that_were_not_used_for_long_are_forgotten(tmp_path: Path, own: Path) -> None:
    for number in range(50):
        note(tmp_path / str(number))
    for path in own.glob("builds/*"):
        os.utime(path, (2e9, 2e9))
    (oldest,) = own.glob(f"builds/{history._path(tmp_path / '7').name}")
    os.utime(oldest, (1e9, 1e9))
    note(tmp_path / "new")
    assert len([*own.glob("builds/*")]) == 50
    assert not oldest.exists()


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", "7", '{"format": 99, "builds": [1]}', '{"format": 1}'),
        *('{"format": 1, "builds": 5, "keys": []}', '{"format": 1, "builds": [5], "keys": []}'),
        *('{"format": 1, "builds": [{}], "keys": []}', '{"format": 1, "builds": [], "keys": ["zz"]}'),
        '{"format": 1, "builds": [], "keys": [1]}',
        '{"format": 1, "builds": [{"time": "", "project": "", "hits": Infinity, "misses": 0}], "keys": []}',
        "[" * 100_000,
    ],
)
def test_a_note_that_is_none_is_as_good_as_absent(tmp_path: Path, own: Path, text: str) -> None:
    note(tmp_path)
    (path,) = own.glob("builds/*")
    path.write_text(text)
    assert (history.builds(tmp_path), history.keys(tmp_path)) == ([], None)
    note(tmp_path, hits=5)
    assert [build["hits"] for build in history.builds(tmp_path)] == [5]


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("place", ["builds", "builds/note"])
def test_a_pipe_is_no_note_and_is_replaced(tmp_path: Path, own: Path, place: str) -> None:
    note(tmp_path)
    (path,) = own.glob("builds/*")
    path.unlink()
    if place == "builds":
        path.parent.rmdir()
    os.mkfifo(path if place == "builds/note" else path.parent)
    assert (history.builds(tmp_path), history.keys(tmp_path)) == ([], None)
    note(tmp_path, hits=5)
    assert [build["hits"] for build in history.builds(tmp_path)] == [5]


def test_where_nothing_can_be_noted_nothing_is(tmp_path: Path, own: Path) -> None:
    own.write_text("a file in the folder's place")
    note(tmp_path)
    assert history.builds(tmp_path) == []


def test_a_user_without_a_home_has_no_notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setattr(user_folders, "own_folder", none)
    note(tmp_path)
    assert history.builds(tmp_path) == []


def test_what_each_tier_saved_is_told_by_what_was_compiled() -> None:
    first = {"hits": 0, "misses": 4, "fetched": 0, "seconds": 8.0}
    second = {"hits": 4, "misses": 0, "fetched": 1, "seconds": 0.0}
    assert history.tiers([first, second]) == {
        "local": {"hits": 3, "rate": 0.375, "saved_s": 6.0},
        "remote": {"hits": 1, "rate": 0.125, "saved_s": 2.0},
    }


def test_without_builds_nothing_was_saved() -> None:
    nothing = {"hits": 0, "rate": 0.0, "saved_s": 0.0}
    assert history.tiers([]) == {"local": nothing, "remote": nothing}
