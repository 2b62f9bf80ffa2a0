"""How much is read and unpacked of what others wrote: each limit where it holds, and what is said there."""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from hatch_cubin import loader
from hatch_cubin.bundle import layout, packs
from hatch_cubin.bundle.manifest import module_line, read_manifest, write_manifest
from hatch_cubin.cache import records
from hatch_cubin.cli.main import main
from hatch_cubin.common import file_access, read_limits, user_folders
from hatch_cubin.errors import BundleError, HatchCubinError
from hatch_cubin.wheels.reading import bundles
from tests.cubins import cubin, inside, make_wheel
from tests.helpers import (
    bundle,
    load_bundle,
    made,
    pack,
    packed_bundle,
    pyproject,
    sha256,
    wheel_files,
    write_tree,
)

SPARSE, LARGE = 1 << 40, (1 << 24) + 0x5A5A


def sparse(path: Path, count: int = SPARSE) -> Path:
    """Make a file that has many bytes, and takes no room."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "ab") as file:
        file.truncate(count)
    return path


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*arguments])
    assert ended.value.code == 1
    return capsys.readouterr().err


def test_the_loader_has_the_same_limits() -> None:
    assert (loader._LARGEST, loader._part("_packs")._ROOM, loader._part("_packs")._RATIO) == (
        read_limits.INDEX,
        read_limits.ROOM,
        read_limits.RATIO,
    )


@pytest.mark.parametrize("most", [0, 3, 4])
def test_a_file_is_read_if_it_is_not_too_large(tmp_path: Path, most: int) -> None:
    path = write_tree(tmp_path, {"f": b"four"}) / "f"
    if most == 4:
        assert file_access.read(path, most) == b"four"
        return
    with pytest.raises(OSError, match=f"the file has 4 B, but hatch-cubin reads at most {most} B"):
        file_access.read(path, most)


@pytest.mark.parametrize(("make", "what"), [(os.mkfifo, "is a pipe"), (os.mkdir, "is a folder")])
def test_what_is_no_file_is_not_opened(tmp_path: Path, make: Callable[[Path], None], what: str) -> None:
    make(tmp_path / "f")
    with pytest.raises(OSError, match=f"it {what}"):
        file_access.read(tmp_path / "f", 10)


def test_what_was_kept_may_have_a_limit_of_its_own(tmp_path: Path) -> None:
    path = write_tree(tmp_path, {"f": b"four"}) / "f"
    with pytest.raises(OSError, match="hatch-cubin reads at most 3 B"):
        user_folders.open_retained(path, 3)
    with user_folders.open_retained(path, 4) as file:
        assert file.read() == b"four"


# Projects


@pytest.mark.parametrize("name", ["pyproject.toml", "hatch.toml", "cubin.lock", "demo/k.cu", "demo/k.cuh"])
@pytest.mark.parametrize("verb", ["plan", "bake", "lock", "explain", "init"])
def test_a_file_of_a_project_that_is_larger_than_memory_is_told_as_that(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, name: str, verb: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    files = {
        "pyproject.toml": pyproject('archs = ["sm_90"]'),
        "demo/__init__.py": "",
        "demo/k.cu": '#include "k.cuh"\nextern "C" __global__ void k() {}\n',
        "demo/k.cuh": "",
    }
    sparse(write_tree(tmp_path, files) / name)
    arguments = ["demo/k.cu"] if verb == "explain" else []
    if verb == "init" and name not in ("pyproject.toml", "hatch.toml"):
        pytest.skip("init does not read it")
    if verb in ("lock", "explain") and name == "cubin.lock":
        pytest.skip(f"{verb} does not read it")
    said = refusal(capsys, verb, *arguments, "--project", str(tmp_path))
    assert re.search(rf"{re.escape(name)}: .*the file has 1024.0 GiB, but hatch-cubin reads at most ", said)


# Wheels and folders


FILES = bundle(made("k", data=cubin("k")))


@pytest.mark.parametrize("name", ["manifest.json", "keys.json", "__init__.py", "k.sm_90.cubin"])
def test_a_file_of_a_bundle_that_is_larger_than_memory_is_not_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    sparse(write_tree(tmp_path / "demo/_cubins", FILES) / name)
    said = refusal(capsys, "verify", str(tmp_path))
    assert f"{name}: cannot be read: the file has 1024.0 GiB, but hatch-cubin reads at most" in said


@pytest.mark.parametrize("name", ["manifest.json", "k.sm_90.cubin"])
def test_the_loader_reads_no_more_than_a_manifest_can_have(tmp_path: Path, name: str) -> None:
    loader = load_bundle(tmp_path / "_cubins", FILES)
    sparse(tmp_path / "_cubins" / name)
    with pytest.raises(loader.CubinDamagedError, match=f"it has {SPARSE} bytes"):
        loader.read("k", cc=(9, 0))


def forged(size: int, claimed: int | None = None) -> dict[str, bytes]:
    """Return a packed bundle that holds together, and whose block is unpacked to so many bytes."""
    files = packed_bundle(made("k", data=cubin("k")))
    fields = read_manifest(files["manifest.json"])
    block = pack(bytes(size))
    values = json.loads(files["manifest.json"])
    (name,) = fields.blocks or {}
    values["blocks"][name] = {
        "packed": len(block) if claimed is None else claimed,
        "sha256": sha256(block),
        "size": size,
    }
    (module,) = values["modules"].values()
    module["entries"][0].update(size=size, offset=0, sha256=sha256(bytes(size)))
    module.pop("check")
    header = {key: each for key, each in values.items() if key not in ("check", "kernels", "modules")}
    manifest = write_manifest(header, values["kernels"], [module_line("k", module)])
    return {**files, "manifest.json": b"".join(manifest), name: block}


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> int:
    """Make the limits small, so that no test needs the memory that they are about."""
    monkeypatch.setattr(read_limits, "ROOM", 1 << 12)
    monkeypatch.setattr(read_limits, "RATIO", 10)
    return 1 << 16


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("claimed", [None, 1 << 40])
def test_a_block_that_is_a_bomb_is_not_unpacked_whatever_its_manifest_claims(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], claimed: int | None
) -> None:
    write_tree(tmp_path / "demo/_cubins", forged(1 << 16, claimed))
    assert "would become 64.0 KiB" in refusal(capsys, "inspect", str(tmp_path))


def test_the_loader_does_not_unpack_it_either(tmp_path: Path) -> None:
    loader = load_bundle(tmp_path / "_cubins", forged(1 << 16))
    assert loader.read("k", cc=(9, 0)) == bytes(1 << 16)
    again = load_bundle(tmp_path / "again", forged(1 << 16))
    again._part("_packs")._ROOM, again._part("_packs")._RATIO = 1 << 12, 10
    with pytest.raises(again.CubinDamagedError, match="would unpack to 65536 bytes, more than code can have"):
        again.read("k", cc=(9, 0))


@pytest.mark.usefixtures("small")
def test_no_build_packs_what_no_loader_unpacks() -> None:
    with pytest.raises(BundleError, match=r"the code of k for sm_90 has 64\.0 KiB, but is packed into only"):
        packed_bundle(made("k", data=bytes(1 << 16)))


def test_no_build_writes_an_index_that_no_loader_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_limits, "INDEX", 100)
    with pytest.raises(
        BundleError, match=r"manifest.json of 1 modules has a size of .*, but loaders read at most 100 B"
    ):
        bundle(made("k"))


def test_the_largest_bundle_that_was_measured_is_far_from_the_limits() -> None:
    few = [made(f"k{number}", arch) for number in range(50) for arch in ("sm_80", "sm_90", "compute_90")]
    files = layout.bundle_files(few, {"data_model": "lp64", "toolchain": {}}, 13)
    each = sum(map(len, files["manifest.json"])) / 150
    assert each * 70_000 < read_limits.INDEX
    assert packs.MOST < read_limits.ROOM


def wheel_with(path: Path, members: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in {**inside("demo/_cubins", FILES), **members}.items():
            archive.writestr(name, data)
    return path


@pytest.mark.parametrize("verb", ["inspect", "verify", "check"])
@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_would_be_unpacked_without_a_limit_is_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str, method: int
) -> None:
    wheel = wheel_with(tmp_path / "demo-1.0-py3-none-any.whl", {}, method)
    assert "is compressed with a method that wheels do not use" in refusal(capsys, verb, str(wheel))


@pytest.mark.parametrize("verb", ["inspect", "verify"])
def test_an_archive_that_says_less_than_there_is_gives_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    wheel = wheel_with(tmp_path / "demo-1.0-py3-none-any.whl", {"demo/_cubins/manifest.json": bytes(LARGE)})
    data = wheel.read_bytes()
    assert data.count(struct.pack("<I", LARGE)) == 2
    wheel.write_bytes(data.replace(struct.pack("<I", LARGE), struct.pack("<I", 100)))
    asked = list[int]()
    real = zipfile.ZipExtFile._read1  # type: ignore[attr-defined]

    def counted(self: zipfile.ZipExtFile, count: int) -> bytes:
        asked.append(count)
        piece: bytes = real(self, count)
        return piece

    monkeypatch.setattr(zipfile.ZipExtFile, "_read1", counted)
    assert "cannot be unpacked" in refusal(capsys, verb, str(wheel))
    assert asked
    assert max(asked) <= 1 << 20  # bytes that may be unpacked at once


@pytest.mark.parametrize("zip64", [False, True])
def test_an_archive_with_a_list_that_fills_the_memory_is_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *, zip64: bool
) -> None:
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", inside("demo/_cubins", FILES))
    if zip64:  # what an archive of more than 65 535 members has before its end
        data = wheel.read_bytes()
        end = data.rindex(b"PK\5\6")
        count = int.from_bytes(data[end + 12 : end + 16], "little")
        more = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 6, 6, count, end - count)
        wheel.write_bytes(data[:end] + more + struct.pack("<4sIQI", b"PK\6\7", 0, end, 1) + data[end:])
    assert len(wheel_files(wheel)) >= len(FILES)
    with bundles.open_archive(str(wheel)) as archive:
        assert archive.namelist()
    monkeypatch.setattr(read_limits, "DIRECTORY", 100)
    assert "but the limit is 100 B" in refusal(capsys, "inspect", str(wheel))


def test_what_has_no_list_is_no_archive(tmp_path: Path) -> None:
    path = write_tree(tmp_path, {"x.whl": b"x" * 100_000}) / "x.whl"
    with pytest.raises(HatchCubinError, match="cannot be read as a wheel"), bundles.open_archive(str(path)):
        pass


def test_a_large_member_is_compared_with_record_piece_by_piece(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_limits, "INDEX", 1 << 16)
    large = os.urandom(1 << 17)
    record = "demo/large.so,sha256=x,1\n"
    members = {"demo/large.so": large, "demo-1.0.dist-info/RECORD": record.encode()}
    wheel = wheel_with(tmp_path / "demo-1.0-py3-none-any.whl", members)
    assert "demo/large.so: its sha256 is" in refusal(capsys, "verify", str(wheel))


def test_a_record_of_the_cache_claims_no_more_than_code_can_have() -> None:
    for size, is_taken in ((read_limits.CODE, True), (read_limits.CODE + 1, False), (-1, False)):
        record = records.Record("00", sha256(b""), size, {"k": "k"}, [])
        assert (records.decode(record.encode()) is not None) is is_taken
