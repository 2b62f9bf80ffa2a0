"""The same inputs give the same bytes, wherever and whenever they are built."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers import COPY_PTX, SAXPY, sha256, wheel_files

from .projects import (
    build,
    build_sdist,
    demo,
    unpack,
)

pytestmark = pytest.mark.nvrtc

MANY = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": "#include <shared.cuh>\n__device__ const char *file = __FILE__;\n" + SAXPY,
    "demo/copy.ptx": COPY_PTX,
    "include/shared.cuh": "#pragma once\n",
}
MANY_OPTIONS = 'archs = ["sm_90", "compute_90"]\ninclude-dirs = ["include"]\noptions = { lineinfo = true }'


def _cold(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(folder))


def test_two_folders_give_identical_wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = []
    for name in ("a", "another folder"):
        _cold(monkeypatch, tmp_path / f"cache of {name}")
        wheels.append(build(demo(tmp_path / name, MANY_OPTIONS, MANY)).read_bytes())
    assert sha256(wheels[0]) == sha256(wheels[1])


def test_an_sdist_gives_the_wheel_that_its_project_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = demo(tmp_path / "project", MANY_OPTIONS, MANY)
    unpacked = unpack(build_sdist(root), tmp_path / "unpacked")
    direct = build(root).read_bytes()
    _cold(monkeypatch, tmp_path / "cache")
    assert sha256(build(unpacked).read_bytes()) == sha256(direct)


def test_umask_file_times_and_order_do_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = build(demo(tmp_path / "a", MANY_OPTIONS, MANY)).read_bytes()
    old = os.umask(0o077)
    try:
        root = demo(tmp_path / "b", MANY_OPTIONS, dict(reversed(MANY.items())))
        for path in root.rglob("*"):
            os.utime(path, (86400 * 365 * 20,) * 2)
        _cold(monkeypatch, tmp_path / "cache")
        after = build(root).read_bytes()
    finally:
        os.umask(old)
    assert sha256(after) == sha256(before)


def test_source_date_epoch_dates_the_archive_and_changes_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = demo(tmp_path / "project", MANY_OPTIONS, MANY)
    first = build(root, into=tmp_path / "one")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    _cold(monkeypatch, tmp_path / "cache")
    second, third = (build(root, into=tmp_path / name) for name in ("two", "three"))
    assert wheel_files(second) == wheel_files(first)
    assert sha256(third.read_bytes()) == sha256(second.read_bytes()) != sha256(first.read_bytes())
