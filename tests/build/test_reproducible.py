"""The same inputs give the same bytes, wherever and whenever they are built."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.fault_counts import Figures
from tests.helpers import COPY_PTX, SAXPY, run, sha256, wheel_files
from tests.python_matrix import VERSIONS

from . import test_setuptools
from .projects import build, build_sdist, demo, unpack

pytestmark = pytest.mark.nvrtc

MANY: Mapping[str, str | bytes] = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": "#include <shared.cuh>\n__device__ const char *file = __FILE__;\n" + SAXPY,
    "demo/copy.ptx": COPY_PTX,
    "include/shared.cuh": "#pragma once\n",
}
MANY_OPTIONS = 'archs = ["sm_90", "compute_90"]\ninclude-dirs = ["include"]\noptions = { lineinfo = true }'


def _cold(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(folder))


@dataclass(frozen=True)
class Way:
    """How the same project is built another time."""

    folder: str = "b"
    backwards: bool = False
    umask: int = 0o022
    jobs: str = "1"
    time: int = 0  # of all files; 0 is now
    cold: bool = True
    sdist: bool = False


WAYS = {
    "in another folder": Way(folder="another folder/ünder"),
    "16 jobs": Way(jobs="16"),
    "files of 1990": Way(time=86400 * 365 * 20),
    "files of the future": Way(time=4_000_000_000),
    "a strict umask": Way(umask=0o077),
    "written in another order": Way(backwards=True),
    "warm": Way(cold=False),
    "through an sdist": Way(sdist=True),
    "through an sdist, warm, of 1990, with 16 jobs": Way(
        sdist=True, cold=False, jobs="16", time=86400 * 365 * 20
    ),
}
Writer = Callable[[Path, str, Mapping[str, str | bytes]], Path]


@contextlib.contextmanager
def _written(
    way: Way, into: Path, write: Writer, options: str, files: Mapping[str, str | bytes]
) -> Iterator[Path]:
    """Write a project, and have it built, in one of the ways."""
    before = os.umask(way.umask)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("HATCH_CUBIN_JOBS", way.jobs)
            if way.cold:
                _cold(patch, into / "cache")
            root = write(
                into / way.folder, options, dict(reversed([*files.items()])) if way.backwards else files
            )
            for path in root.rglob("*") if way.time else ():
                os.utime(path, (way.time, way.time))
            yield root
    finally:
        os.umask(before)


@pytest.mark.parametrize("way", WAYS)
def test_every_way_gives_the_same_wheel(tmp_path: Path, way: str) -> None:
    first = build(demo(tmp_path / "a", MANY_OPTIONS, MANY)).read_bytes()
    with _written(WAYS[way], tmp_path, demo, MANY_OPTIONS, MANY) as root:
        tree = unpack(build_sdist(root), tmp_path / "unpacked") if WAYS[way].sdist else root
        assert sha256(build(tree).read_bytes()) == sha256(first)


@pytest.fixture(scope="module")
def by_setuptools(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The files of a wheel that setuptools made."""
    folder = tmp_path_factory.mktemp("setuptools")
    with pytest.MonkeyPatch.context() as patch:
        _cold(patch, folder / "cache")
        return test_setuptools.wheel(
            test_setuptools.project(folder / "project", test_setuptools.OPTIONS, test_setuptools.FILES)
        )


# setuptools writes each file's own time and permissions into the archive: those are the user's to fix.
@pytest.mark.parametrize("way", ["16 jobs", "a strict umask", "files of 1990", "through an sdist"])
def test_every_way_gives_the_same_files_through_setuptools(
    tmp_path: Path, by_setuptools: Mapping[str, bytes], way: str
) -> None:
    write, options, files = test_setuptools.project, test_setuptools.OPTIONS, test_setuptools.FILES
    with _written(WAYS[way], tmp_path, write, options, files) as root:
        tree = test_setuptools.sdist(root, tmp_path / "unpacked") if WAYS[way].sdist else root
        assert test_setuptools.wheel(tree) == by_setuptools


def _pythons() -> dict[str, Path]:
    """Return the interpreters of this machine by their versions."""
    found = {
        ".".join(path.parts[-3].split(".")[:2]): path for path in sorted(VERSIONS.glob("3.*[0-9]/bin/python"))
    }
    return {version: found[version] for version in ("3.10", "3.11", "3.12", "3.13") if version in found}


@pytest.mark.linux
@pytest.mark.usefixtures("isolated")
def test_every_python_gives_the_same_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, figures: Figures
) -> None:
    pythons = _pythons()
    if len(pythons) < 2:
        pytest.skip("this machine has no two Pythons")
    chosen = pythons if figures.long else {version: pythons[version] for version in (min(pythons), "3.13")}
    wheels = {}
    for version, python in chosen.items():
        root = demo(tmp_path / version, f'toolkit = "13.0"\n{MANY_OPTIONS}', MANY)
        _cold(monkeypatch, tmp_path / f"cache of {version}")
        run(sys.executable, "-m", "uv", "build", "--wheel", "--python", python, cwd=root)
        wheels[version] = sha256((root / "dist/demo-1.0-py3-none-any.whl").read_bytes())
    assert wheels == dict.fromkeys(chosen, wheels["3.13"])


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
