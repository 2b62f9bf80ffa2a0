"""Companions: the index alone chooses an entry; where its package is missing or another's, that is told."""

from __future__ import annotations

import importlib
import json
import sys
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.cubins import PTX, cubin
from tests.helpers import bundle, load_bundle, made, refusal, sha256
from tests.split_wheels import PACKED, PARTS, PLAIN, install, split_wheel

from .doubles import Driver

MAIN, SM80, SM90 = PARTS
FORMS = pytest.mark.parametrize("files", [PLAIN, PACKED], ids=["plain", "packed"])


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of `sys.path`."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    return folder


def loader_of(site: Path) -> Any:
    """Return the loader of the package that is installed there."""
    importlib.invalidate_caches()
    return load_bundle(site / "demo/_cubins", {})


@FORMS
def test_units_are_read_from_the_companion_that_has_them(
    tmp_path: Path, site: Path, files: dict[str, bytes]
) -> None:
    parts = split_wheel(tmp_path, files)
    install(site, *(parts / name for name in PARTS))
    cubins = loader_of(site)
    assert [
        cubins.read(name, cc=cc)
        for name, cc in [("a", (9, 0)), ("a", (8, 0)), ("c", (9, 0)), ("copy", (10, 0))]
    ] == [
        cubin("a", 50),
        cubin("a"),
        cubin("c"),
        PTX,
    ]
    assert not [name for name in sys.modules if name.startswith("the_demo")]  # which nothing imports
    assert cubins.find("a", cc=(9, 0)).path is None


@FORMS
def test_a_companion_that_is_missing_is_named_with_its_install_line(
    tmp_path: Path, site: Path, files: dict[str, bytes]
) -> None:
    install(site, split_wheel(tmp_path, files) / MAIN)
    cubins = loader_of(site)
    assert cubins.find("b", cc=(9, 0)).arch == "sm_90"  # which is never PTX instead
    assert (
        str(refusal(cubins.CubinNotFoundError, cubins.read, "b", cc=(9, 0), module="b"))
        .partition(": ")[2]
        .startswith(
            "'b' for sm_90 is in the-demo-cubins-sm90, which is not installed:"
            " pip install 'The.Demo[sm90]==1.0' (bundle of hatch-cubin "
        )
    )
    assert cubins.read("copy", cc=(10, 0)) == PTX


def test_a_companion_that_is_installed_meanwhile_is_found(tmp_path: Path, site: Path) -> None:
    parts = split_wheel(tmp_path)
    install(site, parts / MAIN)
    cubins = loader_of(site)
    with pytest.raises(cubins.CubinNotFoundError):
        cubins.read("a", cc=(9, 0))
    install(site, parts / SM90)
    importlib.invalidate_caches()
    assert cubins.read("a", cc=(9, 0)) == cubin("a", 50)


def test_a_folder_that_an_uninstall_has_left_is_no_companion(tmp_path: Path, site: Path) -> None:
    install(site, split_wheel(tmp_path) / MAIN)
    (site / "the_demo_cubins_sm90" / "__pycache__").mkdir(parents=True)
    cubins = loader_of(site)
    with pytest.raises(cubins.CubinNotFoundError, match="which is not installed"):
        cubins.read("a", cc=(9, 0))


@FORMS
def test_a_companion_of_another_version_is_no_damage(
    tmp_path: Path, site: Path, files: dict[str, bytes]
) -> None:
    other = bundle(made("a", "sm_90", data=cubin("a", 60)), folder="demo/_cubins")
    install(site, split_wheel(tmp_path / "b", other) / SM90)
    install(site, split_wheel(tmp_path / "a", files) / MAIN)
    companion = site / "the_demo_cubins_sm90"
    what = f"the installed the-demo-cubins-sm90 in {companion} belongs to another"
    cubins = loader_of(site)
    error = refusal(cubins.CubinNotFoundError, cubins.read, "a", cc=(9, 0))
    again = (
        "build of '1.0': pip install --force-reinstall 'The.Demo[sm90]==1.0' "  # as it is installed already
    )
    assert f"{what} {again}" in str(error)
    bound = (companion / "companion.json").read_text("utf-8")
    (companion / "companion.json").write_text(bound.replace('"version":"1.0"', '"version":"0.9"'), "utf-8")
    with pytest.raises(cubins.CubinNotFoundError) as caught:
        cubins.read("a", cc=(9, 0))
    assert f"{what} version, '0.9': pip install 'The.Demo[sm90]==1.0' " in str(caught.value)


def test_a_finder_of_old_that_finds_no_specs_is_passed_over(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = split_wheel(tmp_path)
    install(site, parts / MAIN, parts / SM90)
    monkeypatch.setattr(sys, "meta_path", [object(), *sys.meta_path])
    assert loader_of(site).read("a", cc=(9, 0)) == cubin("a", 50)


@FORMS
def test_damage_in_a_companion_is_damage(tmp_path: Path, site: Path, files: dict[str, bytes]) -> None:
    parts = split_wheel(tmp_path, files)
    install(site, *(parts / name for name in PARTS))
    for file in (site / "the_demo_cubins_sm90").glob("*s*_90.*"):
        file.write_bytes(b"x")
    cubins = loader_of(site)
    with pytest.raises(cubins.CubinDamagedError, match="its digest is"):
        cubins.read("a", cc=(9, 0))


def test_a_companion_in_a_zip_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, site: Path) -> None:
    parts = split_wheel(tmp_path)
    install(site, parts / MAIN)
    archive = tmp_path / "companions.zip"
    with zipfile.ZipFile(parts / SM90) as wheel, zipfile.ZipFile(archive, "w") as file:
        for name in wheel.namelist():
            file.writestr(name, wheel.read(name))
    monkeypatch.syspath_prepend(str(archive))
    assert loader_of(site).read("a", cc=(9, 0)) == cubin("a", 50)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (b'"companion":"the_demo_cubins_sm90"', b'"companion":"the demo"', "'the demo'"),
        (b'"companion":"the_demo_cubins_sm90"', b'"companion":5', "it has a int where a str belongs"),
        (b'"project":"the-demo-cubins-sm90"', b'"project":5', "it has a int where a str belongs"),
    ],
)
def test_a_manifest_that_names_no_package(
    tmp_path: Path,
    site: Path,
    before: bytes,
    after: bytes,
    said: str,
    *,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = split_wheel(tmp_path)
    install(site, *(parts / name for name in PARTS))
    path = site / "demo/_cubins/manifest.json"
    path.write_bytes(path.read_bytes().replace(before, after))
    cubins = loader_of(site)
    monkeypatch.setattr(cubins, "_checked", lambda data, _name=b"": data[76:])  # as if all checks held
    with pytest.raises(cubins.CubinDamagedError, match=said):
        cubins.read("a", cc=(9, 0))


def test_is_available_asks_for_companions_too(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = split_wheel(tmp_path)
    install(site, parts / MAIN)
    cubins = loader_of(site)
    monkeypatch.setattr(cubins._part("_loading"), "_driver_library", lambda: True)
    monkeypatch.setattr(cubins._part("_loading"), "_ask_nvml", lambda **_how: [("", ((9, 0), 13000))])
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert (cubins.is_available(), cubins.is_available("a")) == (True, False)
    install(site, parts / SM90)
    importlib.invalidate_caches()
    assert cubins.is_available("a")


def test_preload_tells_all_companions_that_are_missing_before_anything_is_loaded(
    tmp_path: Path, site: Path, core: types.ModuleType
) -> None:
    parts = split_wheel(tmp_path)
    install(site, parts / MAIN)
    cubins = loader_of(site)
    cubins._part("_loading")._driver_library = Driver
    with pytest.raises(cubins.CubinNotFoundError, match="which is not installed"):
        cubins.preload("a")
    assert core.ObjectCode.made == []
    install(site, parts / SM80, parts / SM90)
    importlib.invalidate_caches()
    assert [each.entry.arch for each in cubins.preload("a", device=[0, 1]).loaded] == ["sm_90", "sm_80"]


def test_a_companion_says_to_which_index_it_belongs(tmp_path: Path, site: Path) -> None:
    parts = split_wheel(tmp_path)
    install(site, *(parts / name for name in PARTS))
    bound = json.loads((site / "the_demo_cubins_sm90/companion.json").read_bytes())
    assert bound["index"] == sha256((site / "demo/_cubins/manifest.json").read_bytes())
    assert sorted(bound) == ["files", "index", "project", "version"]
