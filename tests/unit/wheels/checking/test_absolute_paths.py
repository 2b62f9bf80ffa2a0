"""No file that hatch-cubin writes contains the path of a folder: neither an index nor what was compiled."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.bundle import sbom
from hatch_cubin.wheels.checking.absolute_paths import absolute_paths, path_problems
from hatch_cubin.wheels.reading.bundles import open_wheel
from tests.cubins import PTX, cubin, inside, make_wheel
from tests.helpers import Coded, bundle, made, packed_bundle, write_tree
from tests.sample_wheels import INFO, whole_wheel

CODE = cubin("k")
SOME = [f"/home/me/{number}.cuh" for number in range(3)]


def problems(place: Path) -> list[str]:
    with open_wheel(str(place)) as opened:
        return [problem.with_code().replace(f"{place}", "W") for problem in path_problems(opened)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b'"ROOT=/home/me/src"', ["/home/me/src"]),
        (b"\0/tmp/build-env-1x/k.cu\0", ["/tmp/build-env-1x/k.cu"]),  # noqa: S108
        (b"/Users/me/a.cuh /Users/me/a.cuh", ["/Users/me/a.cuh"]),
        (b"/usr/local/cuda/include", ["/usr/local/cuda/include"]),
        (b"C:\\Users\\me\\k.cu", ["C:\\Users\\me\\k.cu"]),
        (b'"C:\\\\actions\\\\work\\\\k.cu"', ["C:\\\\actions\\\\work\\\\k.cu"]),
        (b"/proc/self/fd/77/demo/k.cu", []),
        (b"src/home/me/k.cu ../tmp/builds/k.cu", []),
        (b"https://example.org/home/me/a", []),
        (b"/dev/null/nothing /a/b/c //home/me/a", []),
        (b"a: b\\c", []),
    ],
)
def test_what_is_a_path_of_a_machine(text: bytes, found: list[str]) -> None:
    assert absolute_paths(text) == found


def test_a_wheel_without(tmp_path: Path) -> None:
    assert problems(whole_wheel(tmp_path, bundle(made("k", data=CODE)))) == []


def test_each_file_with_one_is_told(tmp_path: Path) -> None:
    paths = b"".join(b"\0/home/me/%d.cuh" % number for number in range(4))
    text = PTX.replace(b".visible", b'.file 1 "/work/me/copy.cu"\n.visible')
    files = bundle(
        made("k", data=CODE + paths, define=(("ROOT", "/home/me/root"),)),
        made("c", "compute_80", {"copy": "copy"}, data=text),
    )
    about = "from a macro or a string of the source, or from debug information"
    bill = files[sbom.NAME] = b'{"metadata":{"component":{"name":"demo"}},"of":"/builds/demo/k.cu"}'
    assert bill
    assert problems(write_tree(tmp_path / "_cubins", files)) == [
        "W/manifest.json: contains the absolute path of a folder: /home/me/root [absolute-path]",
        Coded("absolute-path", "W/c.compute_80.ptx", " /work/me/copy.cu ", about),
        Coded("absolute-path", "W/k.sm_90.cubin", f" {', '.join(SOME)}, … ", about),
        Coded("absolute-path", f"W/{sbom.NAME}", " /builds/demo/k.cu "),
    ]


def test_what_cannot_be_read_is_told_by_what_proves_it(tmp_path: Path) -> None:
    files = bundle(made("k", data=CODE))
    del files["k.sm_90.cubin"], files["__init__.pyi"]
    assert problems(write_tree(tmp_path / "a/_cubins", files)) == []
    assert problems(write_tree(tmp_path / "b/_cubins", {"manifest.json": b"{}"})) == []


def test_a_damaged_bill_too(tmp_path: Path) -> None:
    place = f"{INFO}/sboms/{sbom.NAME}"
    files = inside("demo/_cubins", bundle(made("k", data=CODE)))
    wheel = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", {**files, place: b"{}" * 9})
    data = bytearray(wheel.read_bytes())
    at = data.index(place.encode()) + len(place)
    data[at : at + 2] = b"\xff\xff"
    wheel.write_bytes(data)
    assert problems(wheel) == []


def test_what_is_packed_is_looked_into(tmp_path: Path) -> None:
    files = packed_bundle(made("k", data=CODE + b"\0/home/me/k.cuh"), made("l", data=CODE))
    place = "W/demo/_cubins/sm_90.0.xz"
    assert problems(whole_wheel(tmp_path, files)) == [Coded("absolute-path", place, " /home/me/k.cuh ")]
