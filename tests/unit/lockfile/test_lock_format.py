"""The file `cubin.lock`: it is for people to read, and whoever changes it by hand is told."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from hatch_cubin.errors import ConfigError
from hatch_cubin.lockfile.lock_format import NAME, LockFile, decode, encode, read
from tests.helpers import refusal

LOCK = LockFile(
    generator="1.0",
    data_model="lp64",
    toolkit=None,
    header_packages=[],
    builds={
        "core": "1.2.2",
        "major": 13,
        "nvjitlink": None,
        "nvrtc": "13.0.88",
        "supported": [75, 80],
        "tileiras": None,
    },
    wheels={"nvidia-cuda-nvrtc": "13.0.88", "cuda-core": "1.2.2"},
    headers={"shims": None},
    files={"demo/ä.cu": "aa"},
    of_parts={},
    absent={"include": ["crt", "math.h"]},
    producers={},
    parts={},
    unsure=[],
    modules={
        "red[BLOCK=64]": {"source": "demo/ä.cu", "headers": "", "units": {"sm_90": ["01", None, "02" * 32]}}
    },
)
TEXT = """\
{
 "about": "written by 'hatch-cubin lock': commit it, do not edit it",
 "check": "CHECK",
 "format": 1,
 "generator": "1.0",
 "data-model": "lp64",
 "toolkit": null,
 "header-packages": [],
 "builds": {
  "core": "1.2.2",
  "major": 13,
  "nvjitlink": null,
  "nvrtc": "13.0.88",
  "supported": [75, 80],
  "tileiras": null
 },
 "wheels": {
  "cuda-core": "1.2.2",
  "nvidia-cuda-nvrtc": "13.0.88"
 },
 "headers": {
  "shims": null
 },
 "files": {
  "demo/\\u00e4.cu": "aa"
 },
 "of-parts": {},
 "absent": {
  "include": ["crt", "math.h"]
 },
 "producers": {},
 "parts": {},
 "unsure": [],
 "modules": {
  "red[BLOCK=64]": {
   "headers": "",
   "source": "demo/\\u00e4.cu",
   "units": {
    "sm_90": ["01", null, "RESULT"]
   }
  }
 }
}
"""


def test_what_can_change_by_itself_has_a_line_of_its_own() -> None:
    lines = encode(LOCK).splitlines()
    check = lines[2].split('"')[3]
    assert (len(check), lines) == (64, TEXT.replace("CHECK", check).replace("RESULT", "02" * 32).splitlines())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / NAME).write_bytes(encode(LOCK).replace("\n", "\r\n").encode())  # as git may check it out
    assert read(tmp_path) == LOCK


MERGED = (
    "is not a valid lock, perhaps because of a merge\n  hint: run 'hatch-cubin lock' to write the lock again"
)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (encode(LOCK).replace(' "format"', '<<<<<<< HEAD\n "format"'), f":4: {MERGED}"),
        (encode(LOCK)[:60], f":2: {MERGED}"),
        ("", f":1: {MERGED}"),
        ("[]", f": {MERGED}"),
        ("{}", f": {MERGED}"),
        ("[" * 100_000, f": {MERGED}"),
        (encode(LOCK).replace('"aa"', '"ab"'), ": was edited, or merged from two different locks"),
    ],
    ids=["conflict", "cut off", "empty", "array", "object", "bomb", "edited"],
)
def test_a_lock_that_is_damaged_is_told(text: str, problem: str) -> None:
    assert str(refusal(ConfigError, decode, text)).startswith(f"{NAME}{problem}")


def test_two_branches_that_both_change_it_never_merge_in_silence() -> None:
    ours = encode(LOCK._replace(files={"demo/ä.cu": "ab"})).splitlines()
    theirs = encode(LOCK._replace(generator="1.1")).splitlines()
    base = encode(LOCK).splitlines()
    both = [o != b != t and o != t for b, o, t in zip(base, ours, theirs, strict=True)]
    assert both.index(True) == 2  # the line of its digest, and a merge tool asks


def test_a_lock_of_another_format_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hatch_cubin.lockfile.lock_format._FORMAT", 7)
    newer = encode(LOCK)
    monkeypatch.undo()
    with pytest.raises(
        ConfigError, match="has format 7, but this version of hatch-cubin reads only format 1"
    ):
        decode(newer)


def test_what_is_no_file_of_text_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"cubin\.lock: is not a text file"):
        read(tmp_path)
    (tmp_path / NAME).unlink()
    (tmp_path / NAME).mkdir()
    with pytest.raises(ConfigError, match=r"cubin\.lock: cannot be read: it is a folder"):
        read(tmp_path)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="links are another matter")
def test_a_lock_that_cannot_be_reached_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).symlink_to(NAME)
    with pytest.raises(ConfigError, match=r"cubin\.lock: cannot be read: Too many levels"):
        read(tmp_path)


UNIT = ("modules", "red[BLOCK=64]", "units", "sm_90")
DELETED = object()
SHAPES = {
    "a field that no lock has": (("\n::error::x",), 1),
    "a field is missing": (("files",), DELETED),
    "a table is an array": (("modules",), []),
    "a table is null": (("builds",), None),
    "an array is a number": (("unsure",), 5),
    "archs are a text": (("builds", "supported"), "90"),
    "archs are empty": (("builds", "supported"), []),
    "an arch is a boolean": (("builds", "supported"), [True]),
    "an arch is not a number of an arch": (("builds", "supported"), [10**30]),
    "a build without all of its numbers": (("builds", "nvrtc"), "13"),
    "a build that is not known": (("builds", "nvlink"), "13.0.88"),
    "a build that is missing": (("builds", "core"), DELETED),
    "a wheel that is more than a name": (("wheels",), {"x @ https://a.invalid/x.whl": "1"}),
    "a version that is more than a version": (("wheels", "cuda-core"), "1 ; 0"),
    "no units": ((*UNIT[:2], "units"), DELETED),
    "a unit without a key": (UNIT, [None, None, None]),
    "a unit with two values": (UNIT, ["01", None]),
    "a unit that is null": (UNIT, None),
    "a key that is not hexadecimal": (UNIT, ["zz", None, None]),
    "a digest of another length": (UNIT, ["01", None, "02"]),
    "types that are not texts": ((*UNIT[:2], "types"), {"k": [5]}),
    "types that are null": ((*UNIT[:2], "types"), None),
    "an option that is a table": ((*UNIT[:2], "options"), {"std": {}}),
    "an option that is null": ((*UNIT[:2], "options"), {"std": [None]}),
    "a setting that no module has": ((*UNIT[:2], "zzz"), 1),
    "NUL in a path": (("files", "a\0b"), "aa"),
    "half a character in a path": (("files", "\ud800"), "aa"),
    "half a character in a name": (("headers", "\udc80"), None),
    "a number as a path": (("absent", "include"), [5]),
    "a number as a digest": (("of-parts", "k.cu"), 5),
}


@pytest.mark.parametrize(("path", "value"), SHAPES.values(), ids=SHAPES)
def test_a_lock_whose_check_fits_has_the_shape_of_a_lock(path: tuple[str, ...], value: object) -> None:
    error = refusal(ConfigError, decode, forged(LOCK, path, value))
    assert [each.code for each in error.problems] == ["lock-damaged"]
    assert "\n::" not in str(error)


def test_a_name_that_is_not_unicode_is_one_in_a_lock_too() -> None:
    lock = LOCK._replace(absent={"include": [os.fsdecode(b"\xff.h")]}, of_parts={os.fsdecode(b"\xff"): "aa"})
    assert decode(encode(lock)) == lock


def test_a_lock_without_the_sentence_about_it_is_read() -> None:
    text = encode(LOCK).split("\n")
    assert decode("\n".join([text[0], "", *text[2:]])) == LOCK


def test_every_setting_of_a_module_is_read() -> None:
    settings = {
        "define": ["A=1"],
        "include-dirs": ["include"],
        "instantiate": ["k<int>"],
        "link": ["libs/a.a"],
        "mode": "rdc",
        "options": {"debug": True, "diag_suppress": [1, 2], "std": "c++17"},
        "sources": ["demo/ä.cu"],
        "types": {"k": ["int *", None]},
    }
    (name, module), *_others = LOCK.modules.items()
    lock = LOCK._replace(modules={name: {**module, **settings}})
    assert decode(encode(lock)) == lock


def forged(lock: LockFile, path: tuple[str, ...], value: object) -> str:
    """Return the text of a lock with another value at *path*, and the check that fits it."""
    values = json.loads(encode(lock))
    inner = values
    for name in path[:-1]:
        inner = inner[name]
    if value is DELETED:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    return checked({name: each for name, each in values.items() if name not in {"about", "check"}})


def checked(values: dict[str, object]) -> str:
    """Return the text of a lock that has these values, whatever they are, and the check that fits them."""
    rest = json.dumps(values, indent=1)[2:] + "\n"
    return f'{{\n "about": "",\n "check": "{hashlib.sha256(rest.encode()).hexdigest()}",\n{rest}'
