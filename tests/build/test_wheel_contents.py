"""What is in a wheel, what is not, and that it is the same one every time."""

from __future__ import annotations

import email
import stat
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers import SAXPY, codes, refusal, run, wheel_files, write_tree

from .projects import (
    BILL,
    LOADER,
    METADATA,
    NOTES,
    ONE_ARCH,
    add_hook,
    build,
    demo,
    in_bundle,
    tree,
    wheel,
    without_table,
)

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("warm")]

WITH_HEADER = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": '#include "private.cuh"\n' + SAXPY,
    "demo/private.cuh": "#pragma once\n",
    "demo/public.cuh": "#pragma once\n",
}


def test_a_wheel_is_the_package_and_the_bundle(tmp_path: Path) -> None:
    built = build(demo(tmp_path, 'archs = ["sm_90", "compute_90"]'))
    assert built.name == "demo-1.0-py3-none-any.whl"
    assert wheel_files(built).keys() == {
        "demo/__init__.py",
        *in_bundle("saxpy.sm_90.cubin", "saxpy.compute_90.ptx"),
        *METADATA,
        BILL,
    }


def test_a_wheel_asks_for_nothing_of_hatch_cubin(tmp_path: Path) -> None:
    root = demo(tmp_path)
    table = "[tool.hatch.build.hooks.cubin]"
    text = (root / "pyproject.toml").read_text().replace(table, f'dependencies = ["numpy"]\n\n{table}')
    (root / "pyproject.toml").write_text(text)
    files = wheel(root)
    metadata = email.message_from_bytes(files["demo-1.0.dist-info/METADATA"])
    tags = email.message_from_bytes(files["demo-1.0.dist-info/WHEEL"])
    assert metadata.get_all("Requires-Dist") == ["numpy"]
    assert (tags["Root-Is-Purelib"], tags["Tag"]) == ("true", "py3-none-any")


@pytest.mark.parametrize("reproducible", ["true", "false"])
def test_every_file_can_be_read_by_everyone_and_executed_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reproducible: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    root = demo(tmp_path / "project")
    with (root / "pyproject.toml").open("a") as file:
        file.write(f"\n[tool.hatch.build]\nreproducible = {reproducible}\n")
    for _ in ("compiled", "cached"):  # a cache's own files are for their owner alone
        with zipfile.ZipFile(build(root)) as archive:
            modes = {stat.S_IMODE(info.external_attr >> 16) for info in archive.infolist()}
        assert modes == {0o644}


def test_sources_and_their_headers_stay_out_other_files_do_not(tmp_path: Path) -> None:
    assert wheel(demo(tmp_path, files=WITH_HEADER)).keys() == {
        "demo/__init__.py",
        "demo/public.cuh",
        *in_bundle("saxpy.sm_90.cubin"),
        *METADATA,
        BILL,
    }


def test_ship_sources_leaves_them_in(tmp_path: Path) -> None:
    assert wheel(demo(tmp_path, ONE_ARCH + "ship-sources = true", WITH_HEADER)).keys() == {
        *WITH_HEADER,
        *in_bundle("saxpy.sm_90.cubin"),
        *METADATA,
        BILL,
    }


@pytest.mark.parametrize(
    "selection",
    [
        "",
        '[tool.hatch.build]\nartifacts = ["_cubins/", "*.cubin"]\n',
        '[tool.hatch.build.targets.wheel]\nartifacts = ["demo/_cubins/*"]\n',
        '[tool.hatch.build.targets.wheel]\ninclude = ["demo/**"]\n',
        '[tool.hatch.build.targets.wheel]\nonly-include = ["demo", "demo/_cubins"]\n',
        '[tool.hatch.build.targets.wheel]\nexclude = ["nothing"]\npackages = ["demo"]\n',
    ],
    ids=["default", "artifacts of all targets", "artifacts", "include", "only-include", "exclude"],
)
def test_a_stale_bundle_in_the_tree_never_ships(tmp_path: Path, selection: str) -> None:
    root = demo(tmp_path, more=selection)
    stale = {"demo/_cubins/old.sm_90.cubin": "old", "demo/_cubins/manifest.json": "old"}
    files = wheel(write_tree(root, stale))
    assert files.keys() == {"demo/__init__.py", *in_bundle("saxpy.sm_90.cubin"), *METADATA, BILL}
    assert files["demo/_cubins/manifest.json"] != b"old"
    assert (root / "demo/_cubins/manifest.json").read_text() == "old"


def test_a_stale_bundle_does_not_ship_either_when_an_editable_version_is_built_before(
    tmp_path: Path,
) -> None:
    root = demo(tmp_path, more='[tool.hatch.build.targets.wheel]\ndev-mode-dirs = ["."]\n')
    (root / "pyproject.toml").write_text(
        (root / "pyproject.toml").read_text().replace("build.hooks", "build.targets.wheel.hooks")
    )
    write_tree(root, {"demo/_cubins/sub/old.cubin": "old"})
    files = wheel_files(build(root, "editable", "standard"))
    assert files.keys() == {"demo/__init__.py", *in_bundle("saxpy.sm_90.cubin"), *METADATA, BILL}


@pytest.mark.parametrize("folder", ["cache", ".cache/cubins", "demo/cache", "demo"])
def test_a_cache_inside_the_project_never_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    more = '[tool.hatch.build.targets.wheel]\ninclude = ["/**"]\nexclude = ["*.toml"]\n'
    root = demo(tmp_path, f'{ONE_ARCH}cache-dir = "{folder}"', more=more)
    expected = {"demo/__init__.py", *in_bundle("saxpy.sm_90.cubin"), *METADATA, BILL}
    assert [wheel(root).keys(), wheel(root).keys()] == [expected, expected]
    assert tree(root / folder / "entries")


def test_a_cache_reached_through_a_link_in_the_project_never_ships(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", "demo/link")
    root = demo(tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    (root / "demo/link").symlink_to(tmp_path / "elsewhere")
    expected = {"demo/__init__.py", *in_bundle("saxpy.sm_90.cubin"), *METADATA, BILL}
    assert [wheel(root).keys(), wheel(root).keys()] == [expected, expected]
    assert tree(tmp_path / "elsewhere")


# Layouts

LAYOUTS = {
    "flat": ({"demo": "demo"}, "", "demo"),
    "src": ({"src/demo": "demo"}, "", "demo"),
    "packages": ({"lib/python/demo": "demo"}, 'packages = ["lib/python/demo"]', "demo"),
    "namespace": ({"acme/demo": "acme/demo"}, "", "acme/demo"),
    "namespace in src": ({"src/acme/gpu": "acme/gpu"}, 'packages = ["src/acme"]', "acme/gpu"),
    "folder renamed": (
        {"kernels": "demo"},
        'packages = ["kernels"]\nsources = { "kernels" = "demo" }',
        "demo",
    ),
    "whole project as a package": (
        {".": "demo"},
        'include = ["*.py", "*.cu"]\nsources = { "" = "demo" }',
        "demo",
    ),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_bundle_lands_in_the_package_of_each_layout(tmp_path: Path, layout: str) -> None:
    folders, selection, package = LAYOUTS[layout]
    (folder, inside), *_ = folders.items()
    root = demo(
        tmp_path,
        files={f"{folder}/__init__.py": "", f"{folder}/deep/saxpy.cu": SAXPY},
        more=f"[tool.hatch.build.targets.wheel]\n{selection}\n",
    )
    # hatchling itself moves a bill to where it moves the project's own files.
    bill = BILL.replace("sboms/", f"sboms/{inside}/") if folder == "." else BILL
    assert wheel(root).keys() == {
        f"{inside}/__init__.py",
        *in_bundle("saxpy.sm_90.cubin", package=package),
        *METADATA,
        bill,
    }
    build(root, "editable", hooks_only=True)
    assert tree(root / folder / "_cubins") == LOADER | NOTES | {"saxpy.sm_90.cubin"}


# Where the table stands


def test_the_table_may_be_in_hatch_toml(tmp_path: Path) -> None:
    root = demo(tmp_path)
    write_tree(root, {"hatch.toml": '[build.hooks.cubin]\narchs = ["sm_80"]\n'})
    without_table(root)
    assert in_bundle("saxpy.sm_80.cubin") < wheel(root).keys()


def test_a_table_under_the_wheel_replaces_an_empty_global_one(tmp_path: Path) -> None:
    more = '[tool.hatch.build.targets.wheel.hooks.cubin]\narchs = ["sm_80"]\n'
    root = demo(tmp_path, "", more=more)
    assert wheel(root).keys() == {"demo/__init__.py", *in_bundle("saxpy.sm_80.cubin"), *METADATA, BILL}


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_keys_in_two_tables_of_hatch_end_the_build(
    tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    root = demo(tmp_path, ONE_ARCH, more=f"[tool.hatch.build.targets.{target}.hooks.cubin]\njobs = 1\n")
    refusal(SystemExit, build, root)
    assert codes(capsys.readouterr().err) == ["two-tables"]


# The environment


def test_skip_builds_an_empty_bundle_whose_loader_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    files = wheel(demo(tmp_path / "project"))
    assert files.keys() == {"demo/__init__.py", *in_bundle(), *METADATA}
    assert capsys.readouterr().err == (
        "hatch-cubin: warning: HATCH_CUBIN_SKIP is set, so the wheel will not contain kernels\n"
    )
    write_tree(tmp_path / "installed", files)
    code = "from demo import _cubins\nprint(_cubins.names())\n_cubins.find('saxpy', cc=(9, 0))"
    done = run(sys.executable, "-c", code, cwd=tmp_path / "installed", check=False)
    assert done.stdout == "()\n"
    assert "CubinNotFoundError: " in done.stderr
    assert "HATCH_CUBIN_SKIP" in done.stderr


# Beside other hooks


@pytest.mark.parametrize(
    ("before", "body", "tag"),
    [
        (True, "build_data['tag'] = 'cp39-abi3-linux_x86_64'", "cp39-abi3-linux_x86_64"),
        (False, "build_data['tag'] = 'cp39-abi3-linux_x86_64'", "cp39-abi3-linux_x86_64"),
        (True, "build_data.update(infer_tag=True, pure_python=False)", None),
        (False, "build_data.update(infer_tag=True, pure_python=False)", None),
        (True, "pass", "py3-none-any"),
    ],
    ids=["a tag before", "a tag after", "an inferred tag before", "an inferred tag after", "none"],
)
def test_another_hooks_tag_stands(tmp_path: Path, *, before: bool, body: str, tag: str | None) -> None:
    root = demo(tmp_path)
    add_hook(root, body, before=before)
    name = build(root).name
    assert name == f"demo-1.0-{tag}.whl" if tag else "none-any" not in name


def test_what_another_hook_includes_stays(tmp_path: Path) -> None:
    root = write_tree(demo(tmp_path), {"extra.txt": "extra"})
    add_hook(root, "build_data['force_include']['extra.txt'] = 'demo/extra.txt'", before=True)
    assert wheel(root).keys() == {
        "demo/__init__.py",
        "demo/extra.txt",
        *in_bundle("saxpy.sm_90.cubin"),
        *METADATA,
        BILL,
    }
