"""What is found in a cache folder when all of it is read."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.audit import Audit, Finding, audit
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.records import Record, entry_path, record_key
from hatch_cubin.cache.signing import Signer, Signing
from hatch_cubin.common.file_lock import FileLock
from tests.helpers import sha256, write_tree
from tests.special_files import (
    a_folder,
    a_link_to_a_device,
    a_link_to_itself,
    a_link_to_nowhere,
    a_pipe,
    a_socket,
)

pytest.importorskip("cuda.core")
pytestmark = pytest.mark.usefixtures("no_endless_wait")

KEYS = {name: name.encode() * 32 for name in "ab"}
STRAY = f"entries/ab/{'0' * 62}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a cache with two entries, of which b is signed."""
    for (name, key), signing in zip(KEYS.items(), (Signing(), Signing(Signer(bytes(32)))), strict=True):
        with Cache(tmp_path / "cache", None, pytest.fail, signing=signing) as cache:
            cache.put(key, Compiled(f"code of {name}".encode(), {name: name}), {})
    return tmp_path / "cache"


def entry(name: str) -> str:
    """Return an entry's path in the folder."""
    return Path(entry_path(Path(), KEYS[name])).as_posix()


def record(name: str) -> str:
    return Path(entry_path(Path(), record_key(KEYS[name]))).as_posix()


def lie(folder: Path, **fields: object) -> None:
    """Put a record in the place of that of a that says something else, and proves itself."""
    data = (folder / entry("a")).read_bytes()
    said = {
        "key": KEYS["a"].hex(),
        "sha256": sha256(data),
        "size": len(data),
        "kernels": {"a": "a"},
        "warnings": [],
    }
    (folder / record("a")).write_bytes(Record(**{**said, **fields}).encode())  # type: ignore[arg-type]


def change(folder: Path, name: str, data: Callable[[bytes], bytes]) -> None:
    (folder / name).write_bytes(data((folder / name).read_bytes()))


def swap(folder: Path, one: str, other: str) -> None:
    first, second = (folder / one).read_bytes(), (folder / other).read_bytes()
    (folder / one).write_bytes(second)
    (folder / other).write_bytes(first)


CHANGED = Finding("damaged", entry("a"), "does not match its record")
UNPROVEN = Finding("orphaned", entry("a"), "has no record")
DAMAGED = Finding(
    "damaged", record("a"), "is a record that is damaged, or was written by another version of hatch-cubin"
)
OF_B = [DAMAGED._replace(file=record("b")), UNPROVEN._replace(file=entry("b"))]
LYING = Finding(
    "damaged",
    record("a"),
    "does not match its entry: the entry does not contain exactly the kernels that are listed for it",
)

DAMAGES: dict[str, tuple[Callable[[Path], object], list[Finding]]] = {
    "a bit of the entry": (
        lambda folder: change(folder, entry("a"), lambda data: data[:-1] + b"b"),
        [CHANGED],
    ),
    "an entry cut": (lambda folder: change(folder, entry("a"), lambda data: data[:-1]), [CHANGED]),
    "an entry emptied": (lambda folder: change(folder, entry("a"), lambda _data: b""), [CHANGED]),
    "a bit of the record": (
        lambda folder: change(folder, record("a"), lambda data: data.replace(b"}", b"]", 1)),
        [DAMAGED, UNPROVEN],
    ),
    "a bit of what a record begins with": (
        lambda folder: change(folder, record("a"), lambda data: b"G" + data[1:]),
        [UNPROVEN, Finding("orphaned", record("a"), "has no record")],
    ),
    "a bit of the signature": (
        lambda folder: change(
            folder, record("b"), lambda data: data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]
        ),
        OF_B,
    ),
    "a bit of the signer's key": (
        lambda folder: change(folder, record("b"), lambda data: data.replace(b"\ned25519:", b"\ned25518:")),
        OF_B,
    ),
    "the signature cut": (lambda folder: change(folder, record("b"), lambda data: data[:-1]), OF_B),
    "a record of another format": (lambda folder: lie(folder, format=1), [DAMAGED, UNPROVEN]),
    "a record that names nothing": (lambda folder: lie(folder, kernels={}), [DAMAGED, UNPROVEN]),
    "a record that names another": (lambda folder: lie(folder, kernels={"b": "b"}), [LYING]),
    "a record of another arch": (
        lambda folder: lie(folder, inputs={"arch": "sm_90"}),
        [LYING._replace(what="does not match its entry: the entry is neither a cubin nor PTX")],
    ),
    "a record of another size": (lambda folder: lie(folder, size=10**8), [CHANGED]),
    "a record of other bytes": (lambda folder: lie(folder, sha256="0" * 64), [CHANGED]),
    "no entry": (
        lambda folder: (folder / entry("a")).unlink(),
        [Finding("orphaned", record("a"), "is a record whose entry is missing")],
    ),
    "no record": (lambda folder: (folder / record("a")).unlink(), [UNPROVEN]),
    "two entries swapped": (
        lambda folder: swap(folder, entry("a"), entry("b")),
        [CHANGED, CHANGED._replace(file=entry("b"))],
    ),
    "two records swapped": (
        lambda folder: swap(folder, record("a"), record("b")),
        [
            *(
                Finding(
                    "damaged", record(name), ("is the record of a different entry than its file name says")
                )
                for name in "ab"
            ),
            *(UNPROVEN._replace(file=entry(name)) for name in "ab"),
        ],
    ),
    "an entry swapped with its record": (
        lambda folder: swap(folder, entry("a"), record("a")),
        [
            Finding("damaged", entry("a"), "is the record of a different entry than its file name says"),
            Finding("orphaned", record("a"), "has no record"),
        ],
    ),
}


def test_what_is_right_is_counted(folder: Path) -> None:
    size = sum(path.stat().st_size for path in folder.glob("entries/*/*"))
    assert audit(folder) == Audit(entries=2, bytes=size, found=[])


def test_no_folder_has_nothing_wrong(tmp_path: Path) -> None:
    assert audit(tmp_path / "gone") == Audit(0, 0, [])


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_or_orphaned_is_found(folder: Path, damage: str) -> None:
    make, found = DAMAGES[damage]
    make(folder)
    there = audit(folder)
    assert there.found == sorted(found)
    assert there.entries == (0 if "two" in damage else 1)


FOREIGN: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (a_pipe, "is a pipe"),
    "a socket": (a_socket, "is a socket"),
    "a device": (a_link_to_a_device, "is a device"),
    "a link to nowhere": (a_link_to_nowhere, "is a link to a file that does not exist"),
    "a link to itself": (a_link_to_itself, "is a link to a file that does not exist"),
    "a folder": (a_folder, "is a folder that no build makes"),
}
PLACES = ["stray", STRAY, "entries/stray", "entries/ab/stray", "tmp/entry-abcdefgh"]


@pytest.mark.linux
@pytest.mark.parametrize("kind", FOREIGN)
@pytest.mark.parametrize("name", PLACES)
def test_what_is_no_file_is_foreign_and_not_opened(folder: Path, name: str, kind: str) -> None:
    put, what = FOREIGN[kind]
    (folder / name).parent.mkdir(exist_ok=True)
    put(folder / name)
    there = audit(folder)
    assert (there.entries, there.found) == (2, [Finding("foreign", name, what)])


@pytest.mark.parametrize(
    "name",
    ["notes.txt", "entries/notes.txt", "entries/ab/notes.txt", f"{STRAY}0", STRAY.upper(), "tmp/notes.txt"],
)
def test_a_file_that_no_build_writes_is_foreign(folder: Path, name: str) -> None:
    write_tree(folder, {name: ""})
    shown = name.partition("/")[0] if name == STRAY.upper() else name
    what = "is a folder that no build makes" if shown != name else "is a file that no build writes"
    assert audit(folder).found == [Finding("foreign", shown, what)]


@pytest.mark.linux
@pytest.mark.parametrize("name", ["tmp", "entries"])
def test_a_pipe_in_a_folders_place_is_foreign(folder: Path, name: str) -> None:
    (folder / name).rename(folder.parent / name)
    os.mkfifo(folder / name)
    assert audit(folder).found == [Finding("foreign", name, "is a pipe")]


def test_what_the_store_makes_beside_entries_is_nothing_wrong(folder: Path) -> None:
    write_tree(folder, {"tmp/entry-abcdefgh": "half", "SCHEMA_VERSION": "1"})
    assert audit(folder).found == []


@pytest.mark.linux
def test_links_to_what_should_stand_there_are_nothing_wrong(folder: Path) -> None:
    for name in ("tmp", entry("a").rpartition("/")[0], record("b")):
        (folder / name).rename(folder.parent / "elsewhere")
        (folder / name).symlink_to(
            (folder.parent / "elsewhere").rename(folder.parent / name.replace("/", "-"))
        )
    assert (audit(folder).entries, audit(folder).found) == (2, [])


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("of somebody")
    assert audit(tmp_path / "cache").found == [Finding("damaged", ".", "cannot be read: Not a directory")]


def refuse(monkeypatch: pytest.MonkeyPatch, refused: Path, error: OSError, after: int = 0) -> None:
    """Let one file fail to be opened, after it was so many times."""
    times = itertools.count()

    def opened(path: str) -> BinaryIO:
        if path == str(refused) and next(times) >= after:
            raise error
        return housekeeping.open_unnoticed(path)

    monkeypatch.setattr("hatch_cubin.cache.audit.open_unnoticed", opened)


@pytest.mark.parametrize("name", [entry("a"), record("a")])
def test_what_cannot_be_read_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    refuse(monkeypatch, folder / name, PermissionError(13, "Permission denied"))
    refused = Finding("damaged", name, "cannot be read: Permission denied")
    assert audit(folder).found == [refused, *([UNPROVEN] if name == record("a") else [])]


def test_an_entry_that_cannot_be_read_to_its_end_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, folder / entry("a"), OSError(5, "Input/output error"), after=1)
    there = audit(folder)
    assert (there.entries, there.found) == (
        1,
        [Finding("damaged", entry("a"), "cannot be read: Input/output error")],
    )


@pytest.mark.linux
def test_to_be_read_is_not_to_be_used(folder: Path) -> None:
    paths = sorted(folder.glob("entries/*/*"))
    for path in paths:
        os.utime(path, (1, 1))
    audit(folder)
    assert {path.stat().st_atime for path in paths} == {1}


# --- beside builds ------------------------------------------------------------------------------


def meanwhile(monkeypatch: pytest.MonkeyPatch, work: Callable[[], object]) -> None:
    """Have a build do something between the two looks."""

    def wait(_folder: Path, _seconds: float) -> FileLock:
        work()
        return FileLock(None)

    monkeypatch.setattr("hatch_cubin.cache.audit.wait_for_lock", wait)


def test_what_a_build_is_writing_is_nothing_wrong(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = (folder / record("a")).read_bytes()
    (folder / record("a")).unlink()
    meanwhile(monkeypatch, lambda: (folder / record("a")).write_bytes(data))
    assert (audit(folder).entries, audit(folder).found) == (2, [])


def test_what_is_removed_while_it_is_listed_is_no_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = os.listdir(folder)
    monkeypatch.setattr(os, "listdir", lambda path: [*names, "gone"] if path == str(folder) else [])
    assert audit(folder) == Audit(0, 0, [])


def test_what_goes_wrong_at_the_second_look_waits_for_another(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / record("a")).unlink()
    meanwhile(monkeypatch, (folder / record("b")).unlink)
    assert audit(folder).found == [UNPROVEN]


@pytest.mark.parametrize("name", [entry("a"), record("a")])
def test_what_is_removed_while_it_is_looked_at_is_no_fault(
    folder: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    refuse(monkeypatch, folder / name, FileNotFoundError(2, "No such file or directory"))
    there = audit(folder)
    assert there.entries == 1
    assert there.found == ([UNPROVEN] if name == record("a") else [])
