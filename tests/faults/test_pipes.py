"""What stands in the place of a file or a folder and is none: every verb goes on, and none waits for ever."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.cache.records import entry_path, record_key
from hatch_cubin.cli.main import main
from hatch_cubin.common import user_folders
from tests.faults.harness.builds import Builds, Outcome
from tests.special_files import (
    a_file,
    a_folder,
    a_link_to_a_device,
    a_link_to_a_pipe,
    a_link_to_itself,
    a_pipe,
    a_socket,
)

pytestmark = [pytest.mark.linux, pytest.mark.nvrtc, pytest.mark.usefixtures("no_endless_wait")]


KINDS = [a_pipe, a_socket, a_link_to_a_pipe, a_link_to_a_device, a_link_to_itself, a_folder, a_file]
NOT_OURS = [a_link_to_a_pipe, a_link_to_a_device, a_link_to_itself, a_file]  # where a folder should stand
FOLDERS = ["tmp", "entries", "an entry's folder", "a record's folder"]
FILES = ["an entry", "a record", "a temporary file", "what is recalled", "the note"]
OWN_FOLDERS = ["the folder of what is recalled", "the folder of notes"]
CASES = [
    *((name, put) for name in (*FOLDERS, *OWN_FOLDERS) for put in KINDS if put is not a_folder),
    *((name, put) for name in FILES for put in KINDS),
]


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder."""
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def builds(tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch) -> Builds:
    """A project as the current folder, of which nothing was built."""
    builds = Builds(tmp_path / "project", tmp_path / "cache")
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path / "project")
    return builds


def where(name: str, builds: Builds, own: Path) -> Path:
    """Return the path that is meant; what a build has put there is gone."""
    cache = builds.project.cache_folder
    entry, record = (Path(entry_path(cache, key)) for key in (builds.keys[0], record_key(builds.keys[0])))
    path = {
        "tmp": cache / "tmp",
        "entries": cache / "entries",
        "an entry's folder": entry.parent,
        "a record's folder": record.parent,
        "an entry": entry,
        "a record": record,
        "a temporary file": cache / "tmp/entry-abcdefgh",
        "what is recalled": next(own.glob("recall/*")),
        "the note": next(own.glob("builds/*")),
        "the folder of what is recalled": own / "recall",
        "the folder of notes": own / "builds",
    }[name]
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize(("name", "put"), CASES)
def test_a_build_goes_on_and_heals_what_it_can(
    builds: Builds, own: Path, name: str, put: Callable[[Path], None]
) -> None:
    right = builds.build()
    os.unlink(entry_path(builds.project.cache_folder, builds.keys[1]))  # so that there is something to store
    put(where(name, builds, own))
    first, then = builds.build(), builds.build()
    assert (first.made, first.error, len(first.warnings) <= 1) == (right.made, None, True)
    if name in FOLDERS and put in NOT_OURS:
        assert (then.made, then.error, len(then.warnings)) == (right.made, None, 1)
        assert then.warnings[0].endswith(" is not a folder")
    else:
        assert then == Outcome(right.made, None, (), 0)


@pytest.mark.parametrize(("name", "put"), CASES)
def test_every_verb_goes_on(
    builds: Builds,
    own: Path,
    name: str,
    put: Callable[[Path], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    builds.build()
    put(where(name, builds, own))
    for verb in ("plan", "explain b", "cache stats", "cache gc --unused-for 1d"):
        assert main(verb.split()) == 0
        assert capsys.readouterr().err.count("warning: ") <= 1
    if name in {*FOLDERS, "an entry", "a record"} or (name == "a temporary file" and put is not a_file):
        with pytest.raises(SystemExit, match=r"^1$"):
            main(["cache", "fsck"])
    else:
        assert main(["cache", "fsck"]) == 0
    assert main(["cache", "clear"]) == 0
