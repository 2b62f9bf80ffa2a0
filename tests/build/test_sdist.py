"""What is in an sdist: all that the kernels are built from, nothing that was built."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import SAXPY, write_tree

from .projects import ONE_ARCH, build, build_sdist, demo, sdist, unpack, wheel

PLAIN = {"PKG-INFO", "pyproject.toml", "demo/__init__.py", "demo/saxpy.cu"}
WHEEL_TABLE = "[tool.hatch.build.targets.wheel.hooks.cubin]"


def _under_the_wheel(root: Path) -> Path:
    """Move the table from where every target sees it to where the wheel alone does."""
    path = root / "pyproject.toml"
    path.write_text(path.read_text().replace("[tool.hatch.build.hooks.cubin]", WHEEL_TABLE))
    return root


def test_an_sdist_holds_the_sources_and_no_bundle(tmp_path: Path) -> None:
    assert sdist(demo(tmp_path)) == PLAIN


def test_an_sdist_needs_no_compiler_and_asks_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hatchling.builders.sdist import SdistBuilder

    from hatch_cubin.toolkit import toolkit

    def no_toolkit(_version: str | None) -> None:
        raise AssertionError("an sdist loads no compiler")

    monkeypatch.setattr(toolkit.Toolkit, "__init__", no_toolkit)
    root = demo(tmp_path, ONE_ARCH + 'toolkit = "13.0"')
    assert sdist(root) == PLAIN
    assert SdistBuilder(str(root)).config.dependencies == []


@pytest.mark.parametrize(
    "selection",
    [
        'include = ["demo/*.py"]',
        'exclude = ["*.cu", "*.cuh", "include/"]',
        'only-include = ["demo/__init__.py"]',
    ],
    ids=["include", "exclude", "only-include"],
)
def test_an_sdist_holds_every_source_and_header_whatever_it_selects(tmp_path: Path, selection: str) -> None:
    files = {
        "demo/__init__.py": "",
        "demo/saxpy.cu": '#include "near.cuh"\n#include <far.cuh>\n' + SAXPY,
        "demo/near.cuh": "#pragma once\n",
        "include/far.cuh": '#include "further/away.cuh"\n',
        "include/further/away.cuh": "#pragma once\n",
        "kernels/outside.cu": SAXPY.replace("saxpy", "outside"),
    }
    options = ONE_ARCH + 'include-dirs = ["include"]\nsources = ["**/*.cu", "kernels/*.cu"]'
    root = demo(tmp_path, options, files, f"[tool.hatch.build.targets.sdist]\n{selection}\n")
    assert sdist(root) == {"PKG-INFO", "pyproject.toml", *files}


@pytest.mark.counted
@pytest.mark.nvrtc
def test_an_sdist_builds_to_the_wheel_of_its_project(tmp_path: Path) -> None:
    files = {
        "src/demo/__init__.py": "",
        "src/demo/saxpy.cu": "#include <far.cuh>\n" + SAXPY,
        "include/far.cuh": "#pragma once\n",
    }
    more = '[tool.hatch.build.targets.sdist]\nonly-include = ["src/demo/__init__.py"]\n'
    root = demo(tmp_path / "project", ONE_ARCH + 'include-dirs = ["include"]', files, more)
    unpacked = unpack(build_sdist(root), tmp_path / "unpacked")
    assert build(unpacked).read_bytes() == build(root).read_bytes()


@pytest.mark.nvrtc
@pytest.mark.parametrize("artifacts", ["", 'artifacts = ["*.cubin", "_cubins/"]'], ids=["", "artifacts"])
def test_the_bundle_of_an_editable_build_never_enters_an_sdist(tmp_path: Path, artifacts: str) -> None:
    root = demo(tmp_path, more=f"[tool.hatch.build]\n{artifacts}\n")
    build(root, "editable", hooks_only=True)
    assert (root / "demo/_cubins/manifest.json").is_file()
    assert sdist(root) == PLAIN


@pytest.mark.nvrtc
@pytest.mark.parametrize("folder", ["cache", "demo/.cache"])
def test_a_cache_inside_the_project_never_enters_an_sdist(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    root = demo(tmp_path, ONE_ARCH + f'cache-dir = "{folder}"')
    wheel(root)
    assert (root / folder / "entries").is_dir()
    assert sdist(root) == PLAIN


def test_an_editable_bundle_is_not_mistaken_for_a_package(tmp_path: Path) -> None:
    assert sdist(write_tree(demo(tmp_path), {"demo/_cubins/__init__.py": "raise ImportError"})) == PLAIN


def test_a_table_that_only_the_sdist_has_is_read(tmp_path: Path) -> None:
    root = demo(tmp_path, 'sources = ["kernels/*.cu"]', {"demo/__init__.py": "", "kernels/saxpy.cu": SAXPY})
    path = root / "pyproject.toml"
    path.write_text(path.read_text().replace("build.hooks", "build.targets.sdist.hooks"))
    assert sdist(root) == {"PKG-INFO", "pyproject.toml", "demo/__init__.py", "kernels/saxpy.cu"}


# A table under the wheel alone: hatchling runs no hook for the sdist


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("ignored", "warns"),
    [
        ({}, True),
        ({".gitignore": "_cubins/\n"}, False),
        ({".gitignore": "/demo/_cubins/\n"}, False),
        ({".gitignore": "*.cubin\n"}, True),
    ],
    ids=["nothing", "_cubins", "its path", "another pattern"],
)
def test_an_editable_build_warns_where_an_sdist_would_ship_the_bundle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ignored: dict[str, str], *, warns: bool
) -> None:
    root = _under_the_wheel(write_tree(demo(tmp_path), ignored))
    build(root, "editable", hooks_only=True)
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    warning = "hatch-cubin: warning: add '_cubins/' to .gitignore, or else sdists will contain demo/_cubins/"
    assert warnings == [warning] * warns
    assert any(name.startswith("demo/_cubins/") for name in sdist(root)) is warns


@pytest.mark.counted
@pytest.mark.nvrtc
@pytest.mark.parametrize("version", ["standard", "editable"])
def test_a_build_warns_where_an_sdist_would_ship_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], version: str
) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    root = _under_the_wheel(demo(tmp_path, ONE_ARCH + 'cache-dir = "build/cubins"'))
    write_tree(root, {".gitignore": "_cubins/\n"})
    build(root, version, hooks_only=True)
    warnings = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warnings == [
        "hatch-cubin: warning: add '/build/cubins/' to .gitignore, or else sdists will contain build/cubins/"
    ]
    write_tree(root, {".gitignore": "_cubins/\n/build/cubins/\n"})
    build(root, version, hooks_only=True)
    assert "warning" not in capsys.readouterr().err
    assert sdist(root) == {*PLAIN, ".gitignore"}


@pytest.mark.nvrtc
def test_the_global_table_needs_no_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build(demo(tmp_path), "editable", hooks_only=True)
    assert "warning" not in capsys.readouterr().err


def test_a_link_to_a_source_of_the_project_still_leads_to_it(tmp_path: Path) -> None:
    root = demo(tmp_path, files={"demo/__init__.py": "", "kernels/real.cu": SAXPY})
    (root / "demo/saxpy.cu").symlink_to("../kernels/real.cu")
    unpacked = unpack(build_sdist(root), tmp_path / "unpacked")
    assert (unpacked / "demo/saxpy.cu").read_text() == SAXPY
