"""`verify --rebuild` of the parts of a wheel: what is proven of a companion, and what is not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.bundle.manifest import canonical
from hatch_cubin.cli.main import main
from hatch_cubin.common.digest import file_digest
from tests.command_line import Command
from tests.cubins import make_wheel
from tests.helpers import Coded, wheel_files

from .test_verify import INFO, Answer, recorded
from .test_verify_rebuild import wheel_of

pytestmark = pytest.mark.nvrtc

MAIN, SM80, SM90 = (
    f"{name}-1.0-py3-none-any.whl" for name in ("demo", "demo_cubins_sm80", "demo_cubins_sm90")
)
BOUND = "demo_cubins_sm90/companion.json"
RECORD = "demo_cubins_sm90-1.0.dist-info/RECORD"
METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n"


def parts_of(project: Path) -> Path:
    """Return a folder with the parts of a project's wheel."""

    def described(files: dict[str, bytes]) -> None:
        files[f"{INFO}/METADATA"] = METADATA
        files[f"{INFO}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"

    whole = wheel_of(project, described)
    assert main(["split", str(whole), "--by", "arch", "--into", str(project / "parts")]) == 0
    return project / "parts"


def rebuilt(command: Command, project: Path, *wheels: Path) -> Answer:
    return Answer(command, *wheels, "--rebuild", "--project", project)


def test_all_parts_are_proven_together_in_any_order(tmp_path: Path, command: Command) -> None:
    parts = parts_of(tmp_path)
    answer = rebuilt(command, tmp_path, *(parts / name for name in (SM90, MAIN, SM80)))
    assert (answer.code, answer.errors) == (0, [])
    assert "of 2 units compiled again, 2 have exactly the same bytes" in answer.out


def test_a_companion_alone_is_not_proven(tmp_path: Path, command: Command) -> None:
    parts = parts_of(tmp_path)
    answer = rebuilt(command, tmp_path, parts / SM90)
    what = (
        "this companion wheel was not compared, because the main wheel demo 1.0 of the same build "
        "is missing [companion-not-compared]"
    )
    hint = "also name the main wheel that 'hatch-cubin split' wrote together with this companion"
    assert answer.err == f"hatch-cubin: error: {parts / SM90}: {what}\n  hint: {hint}\n"


def test_where_the_project_cannot_be_built_that_alone_is_told(tmp_path: Path, command: Command) -> None:
    parts = parts_of(tmp_path)
    (tmp_path / "demo/saxpy.cu").unlink()
    answer = rebuilt(command, tmp_path, *(parts / name for name in (SM90, MAIN, SM80)))
    assert answer.code == 1
    assert answer.errors == [Coded("no-sources-found", "pyproject.toml:9")]


def _forged(files: dict[str, bytes]) -> None:
    """Another cubin, and a description that fits it."""
    name = "saxpy.sm_90.cubin"
    files[f"demo_cubins_sm90/{name}"] = data = b"another"
    said = json.loads(files[BOUND])
    said["files"][name] = {"sha256": file_digest(data), "size": len(data)}
    files[BOUND] = f"{canonical(said)}\n".encode()


def _damaged(files: dict[str, bytes]) -> None:
    files["demo_cubins_sm90/saxpy.sm_90.cubin"] = b"another"


def _recorded_again(files: dict[str, bytes]) -> dict[str, bytes]:
    del files[RECORD]
    recorded_there = recorded(files)
    record = recorded_there.pop(f"{INFO}/RECORD").replace(f"{INFO}/RECORD".encode(), RECORD.encode())
    return {**recorded_there, RECORD: record}


@pytest.mark.parametrize(
    ("change", "code", "place"),
    [
        (_forged, "companion-differs", ""),
        (_damaged, "file-changed", "/demo_cubins_sm90/saxpy.sm_90.cubin"),
    ],
)
def test_a_companion_in_another_folder_is_held_against_the_manifest_that_was_proven(
    tmp_path: Path, command: Command, change: Callable[[dict[str, bytes]], None], code: str, place: str
) -> None:
    parts, elsewhere = parts_of(tmp_path), tmp_path / "elsewhere"
    elsewhere.mkdir()
    whole = (parts / SM90).rename(elsewhere / SM90)
    assert rebuilt(command, tmp_path, parts / MAIN, whole).code == 0
    files = wheel_files(whole)
    change(files)
    make_wheel(whole, _recorded_again(files))
    answer = rebuilt(command, tmp_path, parts / MAIN, whole)
    assert answer.code == 1
    assert Coded(code, f"{whole}{place}") in answer.errors


def test_a_manifest_that_is_not_the_projects_is_told_where_companions_are_not_here(
    tmp_path: Path, command: Command
) -> None:
    parts = parts_of(tmp_path)
    whole = wheel_files(parts / MAIN)
    name = "demo/_cubins/manifest.json"
    bundle = json.loads(whole[name])
    true = bundle["modules"]["saxpy"]["entries"][1]["sha256"]
    whole[name] = whole[name].replace(true.encode(), file_digest(b"another").encode())
    del whole[f"{INFO}/RECORD"]
    make_wheel(parts / MAIN, recorded(whole))
    (parts / SM80).unlink()
    (parts / SM90).unlink()
    answer = rebuilt(command, tmp_path, parts / MAIN)
    assert answer.code == 1
    assert Coded("file-differs", "demo/_cubins", "1 file ") in answer.errors
