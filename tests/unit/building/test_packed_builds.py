"""Whole builds with `pack`: what the cache keeps of them, and that they hold what other builds do."""

from __future__ import annotations

import dataclasses
import json
import lzma
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import layout
from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.cache import history, housekeeping
from hatch_cubin.cache.audit import audit
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.cache.records import BLOCK
from hatch_cubin.cli.main import main
from hatch_cubin.compiling import executor
from hatch_cubin.errors import BundleError, ToolchainError
from hatch_cubin.lockfile import lock_format
from hatch_cubin.project.project import Project
from hatch_cubin.wheels.reading.bundles import Bundle
from hatch_cubin.wheels.reading.compiled_code import read_results
from tests.helpers import SAXPY, load_bundle, make_project, refusal, write_tree

pytestmark = pytest.mark.nvrtc

TABLE = 'archs = ["sm_80", "sm_90", "compute_90"]\n'
FILES = {"saxpy.cu": SAXPY, "other.cu": SAXPY.replace("saxpy", "other")}
BLOCKS = ["sm_80.0.xz", "sm_90.0.xz", "compute_90.0.xz"]


def project_of(root: Path, table: str = f"pack = true\n{TABLE}", **environ: str) -> tuple[Project, list[str]]:
    """Return a project, and what its builds say."""
    said: list[str] = []
    project = make_project(root, FILES, table, **environ)
    return dataclasses.replace(project, inform=said.append, warn=said.append), said


def codes(files: dict[str, bytes]) -> dict[tuple[str, str], object]:
    bundle = Bundle("", dict.fromkeys(files), files.__getitem__)
    read = read_results(bundle, read_manifest(files["manifest.json"]))
    return {(module.name, entry.arch): data for module, entry, data in read}


def test_a_packed_bundle_holds_what_one_of_files_holds(tmp_path: Path) -> None:
    (packed, said), (plain, _) = project_of(tmp_path / "a"), project_of(tmp_path / "b", TABLE)
    files, other = pipeline.build(packed), pipeline.build(plain)
    assert [name for name in files if name.endswith((".xz", ".cubin", ".ptx"))] == BLOCKS
    assert codes(files) == codes(other)
    assert len(codes(files)) == 6
    assert said[0].startswith("3 blocks: 0 cached, 3 packed, ")
    assert load_bundle(tmp_path / "c", files).read("saxpy", cc=(9, 0)) == other["saxpy.sm_90.cubin"]


def test_blocks_are_cached_and_an_edit_packs_its_own_again(tmp_path: Path) -> None:
    project, said = project_of(tmp_path, f"jobs = 1\npack = true\n{TABLE}")
    first = pipeline.build(project)
    assert pipeline.build(project) == first
    only_90 = f"#if __CUDA_ARCH__ == 900\n{SAXPY.replace('saxpy', 'more')}#endif\n"
    write_tree(tmp_path, {"demo/other.cu": FILES["other.cu"] + only_90})
    again = pipeline.build(project)
    assert [line.rpartition(", ")[0] for line in said if "block" in line] == [
        "3 blocks: 0 cached, 3 packed",
        "3 blocks: 3 cached, 0 packed",
        "3 blocks: 1 cached, 2 packed",
    ]
    assert again["sm_80.0.xz"] == first["sm_80.0.xz"]


def test_another_folder_gives_the_same_bundle(tmp_path: Path) -> None:
    both = []
    for name in "ab":
        project, _ = project_of(tmp_path / name, HATCH_CUBIN_CACHE_DIR=str(tmp_path / f"cache-{name}"))
        both.append(pipeline.build(project))
    assert both[0] == both[1]


@pytest.mark.parametrize("environ", [{}, {"HATCH_CUBIN_LOCKED": "1"}], ids=["free", "locked"])
@pytest.mark.parametrize("forgets", ["recalled", "forgotten"])
def test_a_block_that_does_not_hold_the_units_is_packed_again_whatever_its_record_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], forgets: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    project, said = project_of(tmp_path / "p")
    if environ:
        (project.root / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(project)))
        project, said = project_of(tmp_path / "p", **environ)
    right = pipeline.build(project)
    if forgets == "forgotten":
        shutil.rmtree(tmp_path / "home")
    with pipeline.open_cache(project) as cache:
        records = [record for record in housekeeping.records(cache.folder) if BLOCK in record.inputs]
        for number, record in enumerate(records):
            key = bytes.fromhex(record.key)
            found = cache.get(key)
            assert found is not None
            content = bytearray(lzma.decompress(found.data))
            content[len(content) * number // len(records)] ^= 1
            # The first one asks for more memory than the loader would give it.
            small = [{"id": lzma.FILTER_LZMA2, "dict_size": 1 << 16}] if number else None
            cache.put(key, Compiled(lzma.compress(content, filters=small), {}), record.inputs)
    said.clear()
    assert pipeline.build(project) == right
    assert [line.rpartition(", ")[0] for line in said if line.startswith("3 blocks")] == [
        "3 blocks: 0 cached, 3 packed"
    ]
    told = "wrong blocks in the cache, which are packed again: 3"
    assert (told in said) == (forgets == "forgotten")
    assert pipeline.build(project) == right


@pytest.mark.parametrize("blocks", ["never packed", "forgotten", "other bytes", "a folder"])
def test_a_locked_build_packs_and_keeps_blocks_without_cuda_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    locked, _ = project_of(tmp_path / "p", HATCH_CUBIN_CACHE_DIR=str(tmp_path / "cache"))
    (locked.root / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(locked)))
    shutil.copytree(tmp_path / "cache", tmp_path / "only units")
    right = pipeline.build(locked)
    if blocks == "never packed":
        shutil.rmtree(tmp_path / "cache")
        (tmp_path / "only units").rename(tmp_path / "cache")
    for path in (tmp_path / "cache").glob("entries/*/*"):
        if path.read_bytes().startswith(b"\xfd7zXZ"):
            path.unlink()
            if blocks == "other bytes":
                path.write_bytes(lzma.compress(b"other"))
            elif blocks == "a folder":
                path.mkdir()
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuda", None)
    for switches, counts in [({}, "0 cached, 3 packed"), ({"HATCH_CUBIN_LOCKED": "1"}, "3 cached, 0 packed")]:
        cache = str(tmp_path / "cache")
        project, said = project_of(tmp_path / "p", HATCH_CUBIN_CACHE_DIR=cache, **switches)
        assert pipeline.build(project) == right
        assert [line.rpartition(", ")[0] for line in said if "block" in line] == [f"3 blocks: {counts}"]
    assert audit(tmp_path / "cache").found == []


def test_blocks_that_are_held_are_files(tmp_path: Path) -> None:
    project, _ = project_of(tmp_path / "p")
    for number in range(2):
        (hold := tmp_path / f"hold{number}").mkdir()
        files, _sources = pipeline.build_held(project, hold)
        assert all(isinstance(files[name], str) for name in BLOCKS)


def test_the_cache_holds_them_as_any_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    project, said = project_of(tmp_path / "p")
    right = pipeline.build(project)
    cache = Path(os.environ["HATCH_CUBIN_CACHE_DIR"])
    found = audit(cache)
    assert (found.entries, found.found) == (9, [])
    assert len(history.keys(cache) or ()) == 9
    assert main(["cache", "gc", "--project", str(project.root), "--max-size", "1B", "--keep-last-build"]) == 0
    assert audit(cache).entries == 9
    for path in cache.glob("entries/*/*"):
        if path.read_bytes().startswith(b"\xfd7zXZ"):
            path.write_bytes(path.read_bytes()[:-1] + b"x")
    del said[:]
    assert pipeline.build(project) == right
    assert said[0].startswith("3 blocks: 0 cached, 3 packed, ")


def test_an_editable_install_leaves_a_package_alone_that_is_not_a_bundle(tmp_path: Path) -> None:
    project, _said = project_of(tmp_path)
    mine = write_tree(tmp_path, {"demo/_cubins/__init__.py": "MINE = 1\n", "demo/_cubins/util.py": ""})
    with pytest.raises(BundleError) as caught:
        pipeline.build_in_place(project, layout.HATCH_REBUILD)
    assert [problem.code for problem in caught.value.problems] == ["foreign-files-in-bundle"] * 2
    assert sorted(path.name for path in (mine / "demo/_cubins").iterdir()) == ["__init__.py", "util.py"]


def test_an_editable_install_is_not_packed(tmp_path: Path) -> None:
    project, said = project_of(tmp_path)
    pipeline.build_in_place(project, layout.HATCH_REBUILD)
    there = {path.name for path in (tmp_path / "demo/_cubins").iterdir()}
    assert {"saxpy.sm_90.cubin", "editable.json"} <= there
    assert not there & {*BLOCKS}
    assert json.loads((tmp_path / "demo/_cubins/manifest.json").read_bytes())["format"] == 1
    assert not [line for line in said if "block" in line]


def test_an_editable_install_of_a_project_that_packs_can_be_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    project, _ = project_of(tmp_path)
    pipeline.build_in_place(project, layout.HATCH_REBUILD)
    assert main(["verify", str(tmp_path / "demo"), "--rebuild", "--project", str(tmp_path)]) == 0
    assert "of 6 units compiled again, 6 have exactly the same bytes\n" in capsys.readouterr().out


def test_a_packed_bundle_is_verified_by_a_rebuild(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project, _ = project_of(tmp_path)
    assert main(["bundle", "--project", str(tmp_path), "--into", str(tmp_path / "demo")]) == 0
    assert main(["verify", str(tmp_path / "demo"), "--rebuild", "--project", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "of 6 units compiled again, 6 have exactly the same bytes\n" in out
    assert "of 11 other files made again, 11 have exactly the same bytes\n" in out
    write_tree(project.root, {"demo/other.cu": FILES["other.cu"].replace("a * x", "a / x")})
    with pytest.raises(SystemExit):
        main(["verify", str(tmp_path / "demo"), "--rebuild", "--project", str(tmp_path)])
    assert (
        "the inputs of 3 units differ in the rebuild: a source, a header, an option or the compiler"
        in capsys.readouterr().err
    )


def test_nothing_is_packed_where_a_unit_failed(tmp_path: Path) -> None:
    project, said = project_of(tmp_path)
    write_tree(tmp_path, {"demo/other.cu": "wrong"})
    plan = pipeline.make_plan(project)
    assert pipeline.attempt(project, plan, packs=True).packed is None
    assert not [line for line in said if "block" in line]


def test_a_build_without_kernels_is_not_packed(tmp_path: Path) -> None:
    project, _ = project_of(tmp_path, HATCH_CUBIN_SKIP="1")
    assert json.loads(pipeline.build(project)["manifest.json"])["format"] == 1


def test_a_python_without_lzma_cannot_pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lzma", None)
    project, said = project_of(tmp_path)
    assert str(refusal(ToolchainError, pipeline.build, project)) == (
        "pyproject.toml:10: 'pack' needs lzma, which this Python does not have\n"
        "  hint: build with a Python that has liblzma"
    )
    assert said == []


def test_a_packer_that_fails_fails_the_build_and_nothing_else_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    project, said = project_of(tmp_path, HATCH_CUBIN_REPORT=str(report))
    run = executor.run

    def fails(tasks: Any, setup: executor.Setup, *more: Any) -> Any:
        if setup.libraries:  # a compile
            return run(tasks, setup, *more)
        log = "fatal: took longer than 1 s and was stopped"
        return (executor.Result(number, ok=False, log=log) for number in range(1))

    monkeypatch.setattr(executor, "run", fails)
    assert str(refusal(BundleError, pipeline.build, project)) == (
        "pyproject.toml:10: the block sm_80.0.xz cannot be packed: took longer than 1 s and was stopped\n"
        "  hint: use HATCH_CUBIN_JOBS=1 to pack one block at a time with less memory, or build without 'pack'"
    )
    units = len(json.loads(report.read_text("utf-8"))["units"])
    assert units
    assert not [line for line in said if line.endswith(" s")]  # that all went well
    jobs = pipeline.make_plan(project).jobs
    assert [job.recorded is not None for job in jobs] == [True] * units
