"""The file `cubin.lock`: it is for people to read, and whoever changes it by hand is told."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hatch_cubin.errors import ConfigError
from hatch_cubin.keys.lock import NAME, Lock, decode, encode, read

LOCK = Lock(
    generator="1.0",
    data_model="lp64",
    toolkit=None,
    header_packages=[],
    builds={"core": "1.2.2", "nvrtc": "13.0.88", "supported": [75, 80]},
    wheels={"nvidia-cuda-nvrtc": "13.0.88", "cuda-core": "1.2.2"},
    headers={"shims": None},
    files={"demo/ä.cu": "aa"},
    of_parts={},
    absent={"include": ["crt", "math.h"]},
    parts={},
    unsure=[],
    modules={"red[BLOCK=64]": {"source": "demo/ä.cu", "units": {"sm_90": ["01", None, "02"]}}},
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
  "nvrtc": "13.0.88",
  "supported": [75, 80]
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
 "parts": {},
 "unsure": [],
 "modules": {
  "red[BLOCK=64]": {
   "source": "demo/\\u00e4.cu",
   "units": {
    "sm_90": ["01", null, "02"]
   }
  }
 }
}
"""


def test_what_can_change_by_itself_has_a_line_of_its_own() -> None:
    lines = encode(LOCK).splitlines()
    check = lines[2].split('"')[3]
    assert (len(check), lines) == (64, TEXT.replace("CHECK", check).splitlines())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read(tmp_path) is None
    (tmp_path / NAME).write_bytes(encode(LOCK).replace("\n", "\r\n").encode())  # as git may check it out
    assert read(tmp_path) == LOCK


MERGED = "is no lock, perhaps because of a merge\n  hint: 'hatch-cubin lock' writes it anew"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (encode(LOCK).replace(' "format"', '<<<<<<< HEAD\n "format"'), f":4: {MERGED}"),
        (encode(LOCK)[:60], f":2: {MERGED}"),
        ("", f":1: {MERGED}"),
        ("[]", f": {MERGED}"),
        ("{}", f": {MERGED}"),
        ("[" * 100_000, f": {MERGED}"),
        (encode(LOCK).replace('"aa"', '"ab"'), ": was edited, or merged from two that differ"),
    ],
    ids=["conflict", "cut off", "empty", "array", "object", "bomb", "edited"],
)
def test_a_lock_that_is_damaged_is_told(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        decode(text)
    assert str(caught.value).startswith(f"{NAME}{problem}")


def test_two_branches_that_both_change_it_never_merge_in_silence() -> None:
    ours = encode(LOCK._replace(files={"demo/ä.cu": "ab"})).splitlines()
    theirs = encode(LOCK._replace(generator="1.1")).splitlines()
    base = encode(LOCK).splitlines()
    both = [o != b != t and o != t for b, o, t in zip(base, ours, theirs, strict=True)]
    assert both.index(True) == 2  # the line of its digest, and a merge tool asks


def test_a_lock_of_another_format_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hatch_cubin.keys.lock._FORMAT", 7)
    newer = encode(LOCK)
    monkeypatch.undo()
    with pytest.raises(ConfigError, match="has format 7, this hatch-cubin reads 1"):
        decode(newer)


def test_what_is_no_file_of_text_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"cubin\.lock: is no text"):
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
