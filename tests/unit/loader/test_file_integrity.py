"""The files of a bundle: never bytes that the build did not make, wherever the package lies."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, refusal, write_tree

FILES = bundle(made("k"), made("other"))


def test_read_gives_the_bytes_of_the_build(tmp_path: Path) -> None:
    assert load_bundle(tmp_path, FILES).read("k", cc=(9, 0)) == FILES["k.sm_90.cubin"]


def test_one_wrong_bit_of_a_file_is_damage_that_names_file_and_digest(tmp_path: Path) -> None:
    cubins, data = load_bundle(tmp_path, FILES), FILES["k.sm_90.cubin"]
    sha = cubins.find("k", cc=(9, 0)).sha256
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "k.sm_90.cubin").write_bytes(flipped)
        with pytest.raises(
            cubins.CubinDamagedError, match=rf"k\.sm_90\.cubin is damaged: .* the manifest says {sha}"
        ):
            cubins.read("k", cc=(9, 0))
    assert cubins.read("other", cc=(9, 0)) == FILES["other.sm_90.cubin"]


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(FILES["k.sm_90.cubin"][:-1], id="cut"),
        pytest.param(FILES["k.sm_90.cubin"] + b"\0", id="longer"),
        pytest.param(FILES["other.sm_90.cubin"], id="another's"),
    ],
)
def test_other_contents_are_damage(tmp_path: Path, data: bytes) -> None:
    cubins = load_bundle(tmp_path, {**FILES, "k.sm_90.cubin": data})
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("k", cc=(9, 0))


@pytest.mark.parametrize("name", ["manifest.json", "k.sm_90.cubin"])
@pytest.mark.parametrize(
    ("instead", "reason"), [("nothing", "No such file or directory"), ("folder", "not a plain file")]
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, name: str, instead: str, reason: str) -> None:
    cubins = load_bundle(tmp_path, FILES)
    (tmp_path / name).unlink()
    if instead == "folder":
        (tmp_path / name).mkdir()
    error = refusal(cubins.CubinDamagedError, cubins.read, "k", cc=(9, 0))
    assert f"{tmp_path / name} is damaged: it cannot be read ({reason}); reinstall the package" in str(error)
    assert isinstance(error.__cause__, (OSError, ValueError))


READ = (
    "import sys; sys.path.insert(0, sys.argv[1]);"
    "from pkg import _cubins as cubins; sys.stdout.buffer.write(cubins.read('k', cc=(9, 0)))"
)


def read_in_a_process(place: Path, **environ: str) -> bytes:
    command = [sys.executable, "-I", "-S", "-c", READ, str(place)]
    return subprocess.run(command, env={**os.environ, **environ}, capture_output=True, check=True).stdout


def package(root: Path, files: dict[str, bytes] = FILES) -> Path:
    write_tree(root, {"pkg/__init__.py": ""})
    return write_tree(root, {f"pkg/_cubins/{name}": data for name, data in files.items()})


@pytest.mark.parametrize("folder", ["plain", "with space", "ünï", "漢字", "שלום", "%41'\"", "a\nb", "-x"])
def test_the_package_may_lie_anywhere(tmp_path: Path, folder: str) -> None:
    assert read_in_a_process(package(tmp_path / folder)) == b"k for sm_90"


def test_the_working_directory_may_change_after_import(tmp_path: Path) -> None:
    package(tmp_path)
    code = (
        "import os, sys; sys.path.insert(0, ''); from pkg import _cubins as cubins;"
        "os.chdir('/'); sys.stdout.buffer.write(cubins.read('k', cc=(9, 0)))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path) == b"k for sm_90"


def zipped(tmp_path: Path, files: dict[str, bytes] = FILES) -> Path:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("pkg/__init__.py", "")
        for name, data in files.items():
            file.writestr(f"pkg/_cubins/{name}", data)
    return archive


def test_the_package_may_lie_in_a_zip_archive(tmp_path: Path) -> None:
    assert read_in_a_process(zipped(tmp_path)) == b"k for sm_90"


@pytest.mark.parametrize(
    "files",
    [
        pytest.param({name: data for name, data in FILES.items() if name != "k.sm_90.cubin"}, id="missing"),
        pytest.param({**FILES, "k.sm_90.cubin": b"x"}, id="wrong"),
        pytest.param({**FILES, "manifest.json": b"x"}, id="no manifest"),
    ],
)
def test_damage_in_an_archive_is_damage(tmp_path: Path, files: dict[str, bytes]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        read_in_a_process(zipped(tmp_path, files))
    assert b"CubinDamagedError" in caught.value.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        pytest.param("data", b"(Error -3 while decompressing data: invalid block type)", id="data"),
        pytest.param("header", b"(bad local file header: ", id="header"),
    ],
)
def test_what_is_broken_in_an_archive_is_told_as_its_importer_does(
    tmp_path: Path, damage: str, reason: bytes
) -> None:
    archive = zipped(tmp_path)
    with zipfile.ZipFile(archive) as file:
        member = file.getinfo("pkg/_cubins/k.sm_90.cubin")
    begin = member.header_offset
    if damage == "data":
        begin += 30 + len(member.filename)
    whole = archive.read_bytes()
    archive.write_bytes(whole[:begin] + b"\xff" * 4 + whole[begin + 4 :])
    said = refusal(subprocess.CalledProcessError, read_in_a_process, archive).stderr.splitlines()[-1]
    assert b"CubinDamagedError" in said
    assert b"k.sm_90.cubin is damaged: it cannot be read " + reason in said


def test_what_the_importer_of_an_archive_gives_is_taken(tmp_path: Path) -> None:
    cubins: Any = load_bundle(tmp_path, {})

    class Importer:
        def get_data(self, path: str) -> bytes:
            return FILES[os.path.basename(path)]

    cubins.__spec__.loader = Importer()
    assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"


@pytest.mark.parametrize("folder", ["there", "elsewhere"])
def test_a_zip_that_is_relative_on_the_path_is_read_whatever_folder_is_current(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    import zipimport

    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("app.zip", "w") as archive:
        for name, data in bundle(made("k")).items():
            archive.writestr(f"pkg/_cubins/{name}", data)
    cubins = load_bundle(tmp_path / "unpacked", {})
    cubins._HERE = str(tmp_path / "app.zip/pkg/_cubins")
    cubins.__spec__.loader = zipimport.zipimporter("app.zip")
    (tmp_path / "elsewhere").mkdir()
    if folder == "elsewhere":
        monkeypatch.chdir(folder)
    assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"
    (tmp_path / "app.zip").unlink()
    cubins._own.clear()
    with pytest.raises(cubins.CubinDamagedError):
        cubins.names()
