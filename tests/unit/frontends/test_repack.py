"""A finished wheel, written again: what stays, what comes, what goes, and a RECORD that is right."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Content
from hatch_cubin.errors import BundleError
from hatch_cubin.frontends import repack
from hatch_cubin.wheels.checking.record_check import record_problems
from tests.helpers import refusal, wheel_files

INFO = "demo-1.0.dist-info"
DATE = (2001, 2, 3, 4, 5, 6)
FILES = {
    "demo/__init__.py": b"",
    "demo/k.cu": b"k",
    "demo-1.0.data/scripts/run": b"#!python\n",
    f"{INFO}/WHEEL": b"Wheel-Version: 1.0\r\nTag: py2-none-any\r\nTag: py3-none-any\r\n",
    f"{INFO}/RECORD": b"wrong",
    f"{INFO}/METADATA": b"Name: demo\n",
}


def make(
    folder: Path, files: Mapping[str, bytes] = FILES, name: str = "demo-1.0-py2.py3-none-any.whl"
) -> Path:
    folder.mkdir(exist_ok=True)
    with zipfile.ZipFile(folder / name, "w") as archive:
        for member, data in files.items():
            info = zipfile.ZipInfo(member, DATE)
            info.external_attr = (0o100755 if "scripts" in member else 0o100644) << 16
            archive.writestr(info, data)
    return folder / name


def rewrite(
    tmp_path: Path, added: Mapping[str, list[bytes] | str], *dropped: str, platform: str = "linux"
) -> Path:
    with repack.open_wheel(make(tmp_path / "inner")) as wheel:
        into = tmp_path / "dist"
        name = repack.write_copy(wheel, into, added, lambda each: each in dropped, platform)
    assert [path.name for path in into.iterdir()] == [name]
    return into / name


def test_what_is_not_dropped_stays_as_it_is_and_record_is_right_and_last(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 3_000_000)
    added: dict[str, list[bytes] | str] = {
        "demo/_cubins/a": [b"1", b"2"],
        "demo/_cubins/large": str(tmp_path / "large"),
        f"{INFO}/sboms/x": [b""],
    }
    wheel = rewrite(tmp_path, added, "demo/k.cu")
    assert wheel.name == "demo-1.0-py2.py3-none-any.whl"
    with zipfile.ZipFile(wheel) as archive:
        assert [*record_problems(archive)] == []
        assert archive.namelist() == [
            "demo/__init__.py",
            "demo-1.0.data/scripts/run",
            "demo/_cubins/a",
            "demo/_cubins/large",
            f"{INFO}/WHEEL",
            f"{INFO}/METADATA",
            f"{INFO}/sboms/x",
            f"{INFO}/RECORD",
        ]
        modes = {info.filename: info.external_attr >> 16 for info in archive.infolist()}
        assert {name for name, mode in modes.items() if mode != 0o100644} == {"demo-1.0.data/scripts/run"}
        assert modes["demo-1.0.data/scripts/run"] == 0o100755
        assert {info.date_time for info in archive.infolist()} == {DATE}
    files = wheel_files(wheel)
    assert (files["demo/_cubins/a"], len(files["demo/_cubins/large"])) == (b"12", 3_000_000)
    assert files[f"{INFO}/METADATA"] == b"Name: demo\n"


def test_a_member_that_comes_again_replaces_the_other(tmp_path: Path) -> None:
    assert wheel_files(rewrite(tmp_path, {"demo/k.cu": [b"new"]}))["demo/k.cu"] == b"new"


def test_a_member_may_be_as_large_as_it_likes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zipfile, "ZIP64_LIMIT", 10)  # of 2 GiB, beyond which a zip has to be told before
    large = b"0" * 20
    inner = make(tmp_path / "inner", {**FILES, "demo/large": large})
    (tmp_path / "added").write_bytes(large)
    with repack.open_wheel(inner) as wheel:
        added: dict[str, Content] = {"demo/a": [large], "demo/b": str(tmp_path / "added")}
        repack.write_copy(wheel, tmp_path / "dist", added, lambda _name: False)
    files = wheel_files(tmp_path / "dist" / inner.name)
    assert [files[f"demo/{name}"] for name in ("large", "a", "b")] == [large] * 3


def test_folders_stay(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner", {"demo/": b"", **FILES})
    with repack.open_wheel(inner) as wheel:
        name = repack.write_copy(wheel, tmp_path, {}, lambda _name: False)
    with zipfile.ZipFile(tmp_path / name) as archive:
        assert archive.namelist()[0] == "demo/"
        assert [*record_problems(archive)] == []


def test_on_windows_a_wheel_for_any_platform_is_for_that_one(tmp_path: Path) -> None:
    wheel = rewrite(tmp_path, {}, platform="win32")
    assert wheel.name == "demo-1.0-py2.py3-none-win_amd64.whl"
    tags = b"Wheel-Version: 1.0\r\nTag: py2-none-win_amd64\r\nTag: py3-none-win_amd64\r\n"
    assert wheel_files(wheel)[f"{INFO}/WHEEL"] == tags


def test_a_wheel_for_one_platform_keeps_its_tags(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner", name="demo-1.0-cp312-cp312-win_arm64.whl")
    with repack.open_wheel(inner) as wheel:
        assert repack.write_copy(wheel, tmp_path, {}, lambda _name: False, "win32") == inner.name
    assert wheel_files(tmp_path / inner.name)[f"{INFO}/WHEEL"] == FILES[f"{INFO}/WHEEL"]


def refused(wheel: Path) -> BundleError:
    return refusal(BundleError, repack.open_wheel(wheel).__enter__)


@pytest.mark.parametrize("signature", ["RECORD.jws", "RECORD.p7s"])
def test_a_signed_wheel_is_left_alone(tmp_path: Path, signature: str) -> None:
    inner = make(tmp_path / "inner", {**FILES, f"{INFO}/{signature}": b""})
    assert str(refused(inner)) == (
        f"{inner.name}: the wheel is signed ({signature}), and adding "
        "kernels would invalidate the signature\n"
        "  hint: sign the wheel after hatch-cubin has added the kernels"
    )


def test_what_is_no_wheel_is_told(tmp_path: Path) -> None:
    inner = make(tmp_path / "inner", {"demo/__init__.py": b""})
    assert str(refused(inner)) == f"{inner.name}: has 0 .dist-info/RECORD files, but a wheel has exactly one"
    inner.write_bytes(b"no archive")
    assert str(refused(inner)) == f"{inner.name}: is not a zip archive, so it is not a wheel"


def test_a_list_of_members_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    inner = tmp_path / "demo-1.0-py3-none-any.whl"
    inner.write_bytes(b"PK\x05\x06" + bytes(8) + (1 << 31).to_bytes(4, "little") + bytes(6))
    assert str(refused(inner)).startswith(f"{inner.name}: cannot be read: the archive's list of files has")


def test_packages_are_found_where_an_installer_puts_them_into_site_packages(tmp_path: Path) -> None:
    names = [
        "a/__init__.py",
        "a/b/__init__.py",
        "demo-1.0.data/platlib/c/__init__.py",
        "demo-1.0.data/purelib/n/d/__init__.py",
        "demo-1.0.data/data/e/__init__.py",
        "no-name/__init__.py",
        "module.py",
    ]
    with repack.open_wheel(make(tmp_path / "inner", {**FILES, **dict.fromkeys(names, b"")})) as wheel:
        assert wheel.packages == {
            "demo": "demo",
            "a": "a",
            "a.b": "a/b",
            "c": "demo-1.0.data/platlib/c",
            "n.d": "demo-1.0.data/purelib/n/d",
        }


def test_a_wheel_that_cannot_be_written_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    into = tmp_path / "dist"
    with repack.open_wheel(make(tmp_path / "inner")) as wheel, pytest.raises(BundleError) as caught:
        repack.write_copy(wheel, into, {"demo/x": str(tmp_path)}, lambda _name: False)
    place = into / "demo-1.0-py2.py3-none-any.whl"
    assert str(caught.value) == f"{place}: cannot be written: Is a directory"
    assert [*into.iterdir()] == []
