"""Texts of producers are kept for the next build, and only for it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.cache import signing
from hatch_cubin.common import ed25519_keys, user_folders
from hatch_cubin.common.digest import file_digest
from hatch_cubin.producing import memo
from hatch_cubin.project.project import Project
from tests.producers import producer_project

TEXTS = [("a.cu", "text"), ("b.cu", {"text": "x"})]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(user_folders, "own_folder", lambda: tmp_path / "own")
    return tmp_path / "own/recall"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return producer_project(tmp_path / "project")


def only(own: Path) -> Path:
    (path,) = own.glob("*.texts")
    return path


def test_texts_are_kept_for_their_key_and_project(tmp_path: Path, project: Project, own: Path) -> None:
    memo.write(project, "key", TEXTS)
    assert memo.read(project, "key") == TEXTS
    assert memo.read(project, "other") is None
    assert memo.read(replace(project, root=tmp_path), "key") is None
    assert os.stat(only(own)).st_mode & 0o077 == 0


def forged(path: Path) -> bytes:
    body = path.read_bytes().split(b"\n")[1].replace(b"text", b"evil")
    return file_digest(body).encode() + b"\n" + body + b"\n"


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.read_bytes().replace(b"text", b"evil"),
        lambda path: path.read_bytes()[:-20],
        lambda _path: b"",
        lambda path: b"\xff" + path.read_bytes(),
    ],
)
def test_damaged_texts_are_not_used(project: Project, own: Path, damage: Callable[[Path], bytes]) -> None:
    memo.write(project, "key", TEXTS)
    only(own).write_bytes(damage(only(own)))
    assert memo.read(project, "key") is None


def test_texts_of_another_key_under_this_name_are_not_used(project: Project, own: Path) -> None:
    memo.write(project, "key", TEXTS)
    other = memo._path(project, "other")
    only(own).rename(other)
    assert memo.read(project, "other") is None


def test_a_user_without_a_folder_keeps_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError

    monkeypatch.setattr(user_folders, "own_folder", none)
    memo.write(project, "key", TEXTS)
    assert memo.read(project, "key") is None


def signed(project: Project, *, required: bool) -> Project:
    """Return the project with a key that its builds sign with, and that it trusts."""
    private, public = signing.new_key()
    environ = {**project.environ, "HATCH_CUBIN_SIGNING_KEY": private}
    if required:
        environ["HATCH_CUBIN_REQUIRE_SIGNED"] = "1"
    return replace(project, environ=environ, config=replace(project.config, trusted_keys=(public,)))


def test_texts_are_signed_and_only_signed_ones_count_if_that_is_required(project: Project, own: Path) -> None:
    strict = signed(project, required=True)
    memo.write(strict, "key", TEXTS)
    line = only(own).read_bytes().split(b"\n")[2]
    assert line.startswith(ed25519_keys.PUBLIC.encode())
    assert memo.read(strict, "key") == TEXTS
    unsigned = forged(only(own))
    only(own).write_bytes(unsigned)
    assert memo.read(strict, "key") is None
    only(own).write_bytes(unsigned + line + b"\n")
    assert memo.read(strict, "key") is None


def test_a_signature_of_a_result_is_no_signature_of_texts(project: Project, own: Path) -> None:
    strict = signed(project, required=True)
    memo.write(strict, "key", TEXTS)
    record = forged(only(own))
    signer = signing.signer_of(strict)
    assert signer is not None
    only(own).write_bytes(record + signer.sign(signing.RECORD, record))
    assert memo.read(strict, "key") is None


def test_unsigned_texts_of_this_machine_count_if_no_signature_is_required(
    project: Project, own: Path
) -> None:
    memo.write(project, "key", TEXTS)
    lenient = signed(project, required=False)
    assert memo.read(lenient, "key") == TEXTS
    only_signing = replace(lenient, config=project.config)
    assert memo.read(only_signing, "key") == TEXTS
    assert own.is_dir()
