"""Packed bundles: what the loader unpacks, keeps and refuses."""

from __future__ import annotations

import json
import lzma
import random
import subprocess
import sys
import threading
import tracemalloc
import types
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import loader_files
from hatch_cubin.bundle.manifest import module_line, write_manifest
from tests.helpers import load_bundle, made, pack, packed_bundle, refusal, run_threads, sha256, write_tree

from .doubles import Driver, load

MIB = 1 << 20


def code(name: str, size: int = 1000) -> bytes:
    return random.Random(name).randbytes(size)  # noqa: S311


UNITS = [
    *(made(f"k{n}", arch, data=code(f"k{n} {arch}")) for n in range(5) for arch in ("sm_80", "sm_90")),
    made("p", "compute_90"),
]
FILES = packed_bundle(*UNITS)


def block_of(number: int) -> bytes:
    """Return one MiB that no block has room for twice, and that is packed fast."""
    return code(f"block {number}", 64) * (MIB // 64 + 1)


def test_a_packed_bundle_has_blocks_in_place_of_files() -> None:
    beside = [*loader_files.OF_EVERY, "_packs.py", "__init__.pyi", "manifest.json", "keys.json"]
    assert [*FILES] == [*beside, "sm_80.0.xz", "sm_90.0.xz", "compute_90.0.xz"]


def test_read_gives_the_bytes_of_the_build(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, FILES)
    assert {
        (item.unit.module.name, str(item.unit.arch)): cubins.read(item.unit.module.name, cc=cc)
        for item in UNITS
        for cc in [(8, 0) if str(item.unit.arch) == "sm_80" else (9, 0)]
    } == {(item.unit.module.name, str(item.unit.arch)): item.compiled.data for item in UNITS}


def test_an_entry_names_its_block_and_has_no_file(tmp_path: Path) -> None:
    entry = load_bundle(tmp_path, FILES).find("k0", cc=(9, 0))
    assert (entry.block, entry.file, entry.path) == ("sm_90.0.xz", None, None)
    assert repr(entry) == "Entry(module='k0', arch='sm_90', block='sm_90.0.xz', rule='exact')"


def test_one_wrong_bit_of_a_block_is_damage_that_names_file_and_digest(tmp_path: Path) -> None:
    data = FILES["sm_90.0.xz"]
    sha = json.loads(FILES["manifest.json"])["blocks"]["sm_90.0.xz"]["sha256"]
    cubins = load_bundle(tmp_path, FILES)
    for bit in range(0, len(data) * 8, 61):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "sm_90.0.xz").write_bytes(flipped)
        with pytest.raises(
            cubins.CubinDamagedError, match=rf"sm_90\.0\.xz is damaged: .* the manifest says {sha}"
        ):
            cubins.read("k0", cc=(9, 0))
    assert cubins.read("k0", cc=(8, 0)) == code("k0 sm_80")


def test_what_is_not_as_it_was_built_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, {**FILES, "sm_90.0.xz": pack(bytes(MIB))})
    monkeypatch.setitem(sys.modules, "lzma", None)  # which would be an error of its own
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("k0", cc=(9, 0))


def test_an_interpreter_without_lzma_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setitem(sys.modules, "lzma", None)
    said = str(refusal(cubins.CubinUnavailableError, cubins.read, "k0", cc=(9, 0)))
    why = "cannot be unpacked: this Python does not have the module lzma; run a Python with"
    assert f"{tmp_path / 'sm_90.0.xz'} {why}" in said


def packed_with(window: int, data: bytes) -> bytes:
    """Return a block that asks its unpacker to keep so many bytes to look back at."""
    return lzma.compress(data, filters=[{"id": lzma.FILTER_LZMA2, "preset": 0, "dict_size": window}])


def rewritten(**changes: Any) -> dict[str, bytes]:
    """Return the bundle with a manifest whose checks hold, and that lies of `k0` for sm_90 and its block."""
    fields = json.loads(FILES["manifest.json"])
    header = {key: value for key, value in fields.items() if key not in ("check", "kernels", "modules")}
    files = dict(FILES)
    if "packed" in changes:
        data = changes.pop("packed")()
        files["sm_90.0.xz"] = data
        header["blocks"]["sm_90.0.xz"] |= {"packed": len(data), "sha256": sha256(data)}
    header["blocks"]["sm_90.0.xz"] |= changes.pop("of_block", {})
    header |= changes.pop("header", {})
    lines = []
    for name, module in fields["modules"].items():
        line = {key: value for key, value in module.items() if key != "check"}
        line["entries"] = [
            {**entry, **(changes if (name, entry["arch"]) == ("k0", "sm_90") else {})}
            for entry in line["entries"]
        ]
        lines.append(module_line(name, line))
    return {**files, "manifest.json": b"".join(write_manifest(header, fields["kernels"], lines))}


IN_BLOCK = json.loads(FILES["manifest.json"])["blocks"]["sm_90.0.xz"]["size"]
LIES: dict[str, dict[str, Any]] = {  # what takes long to pack is packed by the test that needs it
    "another's bytes": {"offset": 1000},
    "before the block": {"offset": -1},
    "beyond the block": {"offset": IN_BLOCK - 999},
    "larger than the block": {"size": IN_BLOCK + 1, "offset": 0},
    "nothing": {"size": 0},
    "offset as text": {"offset": "0"},
    "a block that is not described": {"block": "sm_90.9.xz"},
    "a block elsewhere": {"block": "../sm_90.0.xz"},
    "no blocks": {"header": {"blocks": None}},
    "a block that is no object": {"header": {"blocks": {"sm_90.0.xz": 5}}},
    "a block without digest": {"of_block": {"sha256": None}},
    "a block larger than any": {"of_block": {"size": 1 << 30}},
    "a block of other bytes": {"packed": lambda: pack(b"x" * IN_BLOCK)},
    "a block with more in it": {"packed": lambda: pack(b"x" * (IN_BLOCK + 1))},
    "a block with less in it": {"packed": lambda: pack(b"x" * (IN_BLOCK - 1))},
    "a bomb": {"packed": lambda: packed_with(1 << 12, bytes(1 << 26))},
    "a window that it has no use for": {
        "packed": lambda: packed_with(1 << 26, lzma.decompress(FILES["sm_90.0.xz"]))
    },
    "no stream": {"packed": lambda: b"\xfd7zXZ\0" + bytes(100)},
    "two streams": {"packed": lambda: FILES["sm_90.0.xz"] * 2},
}


@pytest.mark.parametrize("lie", LIES)
def test_a_manifest_that_lies_gives_no_bytes(tmp_path: Path, lie: str) -> None:
    cubins = load_bundle(tmp_path, rewritten(**LIES[lie]))
    with pytest.raises(cubins.CubinDamagedError):
        cubins.read("k0", cc=(9, 0))


@pytest.mark.parametrize("window", [1 << 12, 1 << 25])
def test_a_bomb_takes_no_memory(tmp_path: Path, window: int) -> None:
    """With a small window, nothing but the length of what it gives tells it from a block."""
    cubins = load_bundle(tmp_path, rewritten(packed=lambda: packed_with(window, bytes(1 << 25))))
    cubins.find("k0", cc=(9, 0))
    tracemalloc.start()
    try:
        with pytest.raises(cubins.CubinDamagedError):
            cubins.read("k0", cc=(9, 0))
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < MIB


# What is kept


def watched(cubins: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the blocks that a loader unpacks from now on."""
    names: list[str] = []
    unpack = cubins._part("_packs")._unpack

    def noting(path: str, **block: Any) -> bytes:
        names.append(Path(path).name)
        data: bytes = unpack(path, **block)
        return data

    monkeypatch.setattr(cubins._part("_packs"), "_unpack", noting)
    return names


def test_a_block_is_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    names = watched(cubins, monkeypatch)
    for _ in range(2):
        for number in range(5):
            cubins.read(f"k{number}", cc=(9, 0))
    assert names == ["sm_90.0.xz"]


def test_threads_unpack_a_block_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    names, start = watched(cubins, monkeypatch), threading.Barrier(8)
    found: list[bytes] = []

    def read(number: int) -> None:
        start.wait()
        found.append(cubins.read(f"k{number % 5}", cc=(9, 0)))

    threads = [threading.Thread(target=read, args=(number,)) for number in range(8)]
    run_threads(threads)
    assert sorted(found) == sorted(code(f"k{number % 5} sm_90") for number in range(8))
    assert names == ["sm_90.0.xz"]


def test_16_mib_are_kept_and_what_was_used_last_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [made(f"b{number}", data=block_of(number)) for number in range(17)]
    cubins = load_bundle(tmp_path, packed_bundle(*units))
    names = watched(cubins, monkeypatch)
    for number in [*range(15), 0]:
        assert cubins.read(f"b{number}", cc=(9, 0)) == block_of(number)
    assert len(names) == 15
    for number in (15, 16):  # for which 1 and 2 have to go
        cubins.read(f"b{number}", cc=(9, 0))
    assert sum(map(len, cubins._part("_packs")._unpacked.values())) <= 16 * MIB
    del names[:]
    cubins.read("b0", cc=(9, 0))
    cubins.read("b16", cc=(9, 0))
    assert names == []
    cubins.read("b1", cc=(9, 0))
    assert len(names) == 1


def test_a_block_that_is_larger_than_what_is_kept_is_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = code("huge", 100) * 170_000
    cubins = load_bundle(tmp_path, packed_bundle(made("huge", data=data), made("k")))
    names = watched(cubins, monkeypatch)
    assert [cubins.read("huge", cc=(9, 0)) == data for _ in range(2)] == [True, True]
    assert names == ["sm_90.1.xz"] * 2
    assert cubins._part("_packs")._unpacked == {}


def test_a_process_that_was_forked_while_another_thread_unpacked_can_unpack(tmp_path: Path) -> None:
    """Its parent's lock would never be released in it."""
    script = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); from pkg import _cubins as cubins\n"
        "cubins.read('k0', cc=(9, 0))\n"
        "(lock,) = cubins._part('_packs')._unpackers.values(); lock.acquire()\n"
        "child = os.fork()\n"
        "if not child: os._exit(len(cubins.read('k1', cc=(8, 0))) != 1000)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    )
    write_tree(tmp_path, {"pkg/__init__.py": "", **{f"pkg/_cubins/{name}": FILES[name] for name in FILES}})
    command = [sys.executable, "-W", "ignore", "-I", "-S", "-c", script, str(tmp_path)]
    subprocess.run(command, check=True, timeout=60)


# Wherever it lies, whatever loads it


def test_a_package_in_a_zip_archive(tmp_path: Path) -> None:
    archive = tmp_path / "app.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("pkg/__init__.py", "")
        for name, data in FILES.items():
            file.writestr(f"pkg/_cubins/{name}", data)
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pkg import _cubins as cubins;"
        "sys.stdout.buffer.write(cubins.read('k3', cc=(9, 0)))"
    )
    command = [sys.executable, "-I", "-S", "-c", script, str(archive)]
    assert subprocess.run(command, capture_output=True, check=True).stdout == code("k3 sm_90")


def test_nothing_of_packs_is_imported_for_a_bundle_without_them(tmp_path: Path) -> None:
    from tests.helpers import bundle

    files = bundle(made("k"))
    script = (
        "import sys; sys.path.insert(0, sys.argv[1]); from pkg import _cubins as cubins;"
        "cubins.read('k', cc=(9, 0)); print({'lzma', '_lzma', 'threading'} & set(sys.modules))"
    )
    write_tree(tmp_path, {"pkg/__init__.py": "", **{f"pkg/_cubins/{name}": files[name] for name in files}})
    command = [sys.executable, "-I", "-S", "-c", script, str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=True, text=True).stdout == "set()\n"


def test_a_kernel_is_loaded_and_its_block_is_what_an_audit_hook_hears_of(
    tmp_path: Path, core: types.ModuleType
) -> None:
    heard: list[tuple[Any, ...]] = []
    sys.addaudithook(lambda event, args: heard.append(args) if event == "hatch_cubin.load" else None)
    cubins = load(tmp_path, *UNITS)
    with cubins.use(write_tree(tmp_path / "packed", FILES)):
        kernel = cubins.kernel("k1")
        loaded = cubins.preload("k1").loaded[0]
    assert kernel.code.data == code("k1 sm_90")
    place = str(tmp_path / "packed" / "sm_90.0.xz")
    assert [args[1:4] for args in heard] == [("k1", "sm_90", place)]
    assert f"path={place!r}" in repr(loaded)
    del core


def test_preload_unpacks_each_block_once_and_tells_in_the_order_of_names(
    tmp_path: Path, core: types.ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = [made(f"b{number:02}", data=block_of(number)) for number in range(20)]
    small = [made(f"s{number}") for number in range(20)]
    cubins = load(tmp_path / "raw", driver=Driver())
    names = watched(cubins, monkeypatch)
    with cubins.use(write_tree(tmp_path / "packed", packed_bundle(*units, *small))):
        preloaded = cubins.preload()
    assert len(names) == len({*names}) > 16
    modules = [each.entry.module for each in preloaded.loaded]
    assert modules == sorted(modules)
    del core
