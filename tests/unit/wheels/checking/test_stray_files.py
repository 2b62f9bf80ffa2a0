"""What lies in a wheel, is code for GPUs, and is in no bundle; and bundles that are not where they belong."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.wheels.checking.stray_files import stray_problems
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.cubins import cubin, inside, make_wheel
from tests.helpers import bundle, made, wheel_files, write_tree
from tests.sample_wheels import whole_wheel

FILES = bundle(made("k", data=cubin("k")))
FATBIN = bytes.fromhex("50ed55ba") + bytes(60)


def problems(tmp_path: Path, more: dict[str, bytes], *spared: str) -> list[str]:
    wheel = whole_wheel(tmp_path, FILES)
    make_wheel(wheel, wheel_files(wheel) | more)
    with open_wheel(str(wheel)) as opened:
        return [f"{each.where}".removeprefix(f"{wheel}/") for each in stray_problems(opened, spared)]


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("demo/k.sm_90.cubin", cubin("k"), id="a cubin"),
        pytest.param("demo/K.CUBIN", b"", id="by its name"),
        pytest.param("demo/k.fatbin", b"", id="a fatbin by its name"),
        pytest.param("demo/data.bin", cubin("k"), id="a cubin by its content"),
        pytest.param("lib/data.bin", FATBIN, id="a fatbin by its content"),
        pytest.param("demo-1.0.data/data/k.bin", cubin("k"), id="in the data of the wheel"),
    ],
)
def test_code_that_is_in_no_bundle(tmp_path: Path, name: str, data: bytes) -> None:
    assert problems(tmp_path, {name: data}) == [name]
    assert problems(tmp_path, {name: data}, "elsewhere/*") == [name]
    assert problems(tmp_path, {name: data}, name) == []


@pytest.mark.parametrize(
    ("name", "data"),
    [
        pytest.param("demo/_cubins/k.cubin", cubin("k"), id="in the bundle, whose proof tells"),
        pytest.param("demo/copy.ptx", b".version 8.0", id="a source"),
        pytest.param("demo/copy.txt", b".version 8.0\n.target sm_80\n", id="PTX under another name"),
        pytest.param("demo/host.so", b"\x7fELF" + bytes(60), id="a library for the host"),
        pytest.param("demo/short.so", b"\x7fELF", id="a short file"),
        pytest.param("demo/empty/", b"", id="a folder"),
    ],
)
def test_what_is_no_code_for_gpus(tmp_path: Path, name: str, data: bytes) -> None:
    assert problems(tmp_path, {name: data}) == []


def test_what_cannot_be_unpacked_is_told_by_what_proves_it(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "demo-1.0-py3-none-any.whl", {**inside("demo/_cubins", FILES), "a": b"a" * 99}
    )
    data = bytearray(wheel.read_bytes())
    at = data.rindex(b"PK\x03\x04")
    data[at + 31 : at + 33] = b"\xff\xff"  # which no packed file begins with
    wheel.write_bytes(data)
    with open_wheel(str(wheel)) as opened:
        assert [*stray_problems(opened)] == []


def test_bundles_in_a_wrong_place(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "w.whl",
        {
            **inside("demo/_cubins", FILES),
            **inside("_cubins", FILES),
            **inside("x/_cubins", {"keys.json": b""}),
        },
    )
    with open_wheel(str(wheel)) as opened:
        assert [(str(each.where), each.what) for each in stray_problems(opened)] == [
            (f"{wheel}/_cubins", "is not in a package: it would be installed as the module _cubins"),
            (f"{wheel}/demo/_cubins", "has the same manifest as _cubins: one of the two folders is a copy"),
        ]


def test_a_folder_has_what_it_has(tmp_path: Path) -> None:
    write_tree(tmp_path, {**inside("demo/_cubins", FILES), "demo/k.cubin": b""})
    with open_wheel(str(tmp_path)) as opened:
        assert [*stray_problems(opened)] == []
