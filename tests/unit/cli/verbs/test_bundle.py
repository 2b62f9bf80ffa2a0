"""`hatch-cubin bundle`: where the bundle goes, and what is no place for one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.cli.main import main
from tests.build.projects import in_bundle, tree
from tests.command_line import Command
from tests.helpers import SAXPY, codes, load_bundle, make_project, write_tree

PYPROJECT = """\
[build-system]
requires = ["flit_core"]
build-backend = "flit_core.buildapi"

[tool.hatch-cubin]
archs = ["sm_90"]
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is built with another backend, as the current folder."""
    root = write_tree(
        tmp_path / "project",
        {
            "pyproject.toml": PYPROJECT,
            "python/demo/__init__.py": "",
            "python/demo/saxpy.cu": SAXPY,
            "python/demo/gpu/__init__.py": "",
            "python/demo/data/table.txt": "",
        },
    )
    monkeypatch.chdir(root)
    return root


def refusal(command: Command, *arguments: str) -> str:
    ended = command("bundle", "--into", *arguments)
    assert ended.code == 1
    return ended.err


@pytest.mark.nvrtc
def test_the_bundle_is_that_of_a_wheel_in_the_folder_that_was_named(
    project: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = tree(project)
    assert main(["bundle", "--into", "python/demo"]) == 0
    files = {path.name: path.read_bytes() for path in (project / "python/demo/_cubins").iterdir()}
    named = in_bundle("saxpy.sm_90.cubin", sbom.NAME)  # no backend has a place of its own for the bill
    assert tree(project) - before == {f"python/{name}" for name in named}
    assert load_bundle(tmp_path / "bundle", files).find("saxpy", cc=(9, 0)).source == "python/demo/saxpy.cu"
    printed = capsys.readouterr()
    assert (
        printed.out
        == f"{len(files)} files, {sum(map(len, files.values())) / 1024:.1f} KiB, are in python/demo/_cubins\n"
    )
    assert "1 unit: 0 cached, 1 compiled" in printed.err

    other = make_project(tmp_path / "hatch", {"saxpy.cu": SAXPY}, 'archs = ["sm_90"]')
    assert pipeline.build(other)["saxpy.sm_90.cubin"] == files["saxpy.sm_90.cubin"]


@pytest.mark.nvrtc
def test_a_package_inside_a_package_can_receive_the_bundle(
    project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project / "python")
    assert main(["bundle", "--into", "demo/gpu", "--project", "..", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    folder = project / "python/demo/gpu/_cubins"
    sizes = [{"file": path.name, "bytes": path.stat().st_size} for path in sorted(folder.iterdir())]
    assert facts == {
        "format": 1,
        "verb": "bundle",
        "errors": [],
        "package": "demo.gpu",
        "folder": "python/demo/gpu/_cubins",
        "bytes": sum(path.stat().st_size for path in folder.iterdir()),
        "files": sizes,
    }
    assert json.loads((folder / "manifest.json").read_text("utf-8"))["folder"] == facts["folder"]


@pytest.mark.nvrtc
def test_what_is_right_already_is_left_alone_and_what_is_stale_goes(project: Path) -> None:
    folder = project / "python/demo/_cubins"
    main(["bundle", "--into", "python/demo"])
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    write_tree(folder, {"old.sm_80.cubin": b"old"})
    main(["bundle", "--into", "python/demo"])
    assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == times


@pytest.mark.nvrtc
def test_where_the_bundle_goes_stands_over_the_table(project: Path) -> None:
    """Also where the table names a package that is not there, as one without --into would find out."""
    (project / "pyproject.toml").write_text(f'{PYPROJECT}package = "elsewhere"\n')
    assert main(["bundle", "--into", "python/demo"]) == 0
    assert (project / "python/demo/_cubins/saxpy.sm_90.cubin").is_file()


def test_a_folder_that_is_no_package_is_refused(project: Path, command: Command) -> None:
    assert refusal(command, "python/demo/data") == (
        "hatch-cubin: error: python/demo/data: is not a package: it does not contain __init__.py"
        " [not-a-package]\n"
        "  hint: --into must be the folder of the package whose code imports _cubins\n"
    )


@pytest.mark.parametrize(("into", "right"), [("python/demo/_cubins", "python/demo"), (".", "..")])
def test_a_bundle_is_not_written_into_a_bundle(
    project: Path, command: Command, monkeypatch: pytest.MonkeyPatch, into: str, right: str
) -> None:
    folder = project / "python/demo/_cubins"
    write_tree(folder, {"__init__.py": "", "manifest.json": ""})
    monkeypatch.chdir(folder if into == "." else project)
    what = "is a folder of compiled kernels, and not the package whose code imports it"
    assert refusal(command, into, "--project", str(project)) == (
        f"hatch-cubin: error: {into}: {what} [not-a-package]\n  hint: --into {right}\n"
    )


@pytest.mark.parametrize("place", [".", "../elsewhere"])
def test_a_package_outside_the_project_is_refused(project: Path, command: Command, place: str) -> None:
    write_tree(project / place, {"__init__.py": ""})
    assert refusal(command, place) == (
        f"hatch-cubin: error: {place}: is outside the project {project} [package-outside-project]\n"
        "  hint: name another project with --project DIR, or copy _cubins into the package\n"
    )
    assert not (project / place / "_cubins").exists()


@pytest.mark.nvrtc
def test_a_package_of_that_name_is_left_alone(project: Path, command: Command) -> None:
    write_tree(project, {"python/demo/_cubins/__init__.py": "MINE = 1\n"})
    assert codes(refusal(command, "python/demo")) == ["foreign-files-in-bundle"]
    assert (project / "python/demo/_cubins/__init__.py").read_text("utf-8") == "MINE = 1\n"
