"""The arch of a result, read from the file and not from its name."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cubin.target import arch_of, differing_arch, is_for_debugger, oldest_toolkit
from tests.cubins import FUNC, KERNEL, REGISTERS, elf
from tests.helpers import COPY_PTX, SAXPY, SCALE, make_project

ARCHS = ["sm_75", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103", "sm_120", "sm_120f"]
VIRTUAL = ["compute_80", "compute_90a", "compute_100", "compute_100f"]


def with_header(data: bytes, abi: int, flags: int) -> bytes:
    return data[:8] + bytes([abi]) + data[9:48] + struct.pack("<I", flags) + data[52:]


def of_13(number: int, *commands: str, release: str = "13.5", kernel: str = "") -> bytes:
    """Return a cubin in the layout of CUDA 13, made with these command lines of tools."""
    symbols = [(kernel, FUNC, KERNEL, 3)] if kernel else []
    notes = "".join(f"NVIDIA Corp\0ptxas\0tools, release {release}, V1\0{each} \0" for each in commands)
    more = (
        [(".note.nv.tkinfo", 7, notes.encode(), 0), REGISTERS]
        if kernel
        else [(".note.nv.tkinfo", 7, notes.encode(), 0)]
    )
    return with_header(elf(*symbols, more=more), 8, 0x06000002 | number << 8)


def of_12(number: int, *, exact: bool = False) -> bytes:
    """Return a cubin in the layout of CUDA 12, which has no notes."""
    return with_header(elf(), 7, 0x500 | number | 0x800 * exact)


@pytest.mark.nvrtc
def test_results_of_nvrtc_and_nvjitlink_have_their_arch(tmp_path: Path) -> None:
    """Compiled, assembled from PTX, and linked in both modes."""
    listed = ", ".join(f'"{each}"' for each in [*ARCHS, *VIRTUAL])
    real = ", ".join(f'"{each}"' for each in ARCHS)
    assembled = ", ".join(f'"{each}"' for each in ARCHS[1:])  # its .target is sm_80
    tables = "".join(
        f"[[tool.hatch.build.hooks.cubin.module]]\nname = '{mode}'\nmode = '{mode}'\n"
        f"sources = ['demo/k.cu']\narchs = [{real}]\n"
        for mode in ("rdc", "lto")
    )
    ptx = f"[[tool.hatch.build.hooks.cubin.source]]\npath = 'demo/copy.ptx'\narchs = [{assembled}]\n"
    sources = {"k.cu": SAXPY, "saxpy.cu": SAXPY, "copy.ptx": COPY_PTX}
    files = pipeline.build(make_project(tmp_path, sources, f"archs = [{listed}]\n{ptx}{tables}"))
    units = [name for name in files if name.endswith((".cubin", ".ptx"))]
    assert {name: arch_of(files[name]) for name in units} == {name: name.split(".")[-2] for name in units}
    assert len(units) > 3 * len(ARCHS)
    assert not any(is_for_debugger(files[name]) for name in units)
    release = max(oldest_toolkit(files[name]) for name in units if name.endswith("cubin"))
    assert release in {12, 13}


@pytest.mark.nvrtc
def test_lto_ir_has_its_arch_except_for_the_suffix_of_families(tmp_path: Path) -> None:
    found = {}
    for arch in ("sm_75", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f"):
        project = make_project(
            tmp_path / arch,
            {"k.cu": SAXPY, "scale.cu": SCALE},
            f"archs = ['{arch}']\n[[tool.hatch.build.hooks.cubin.module]]\n"
            "name = 'm'\nmode = 'lto'\nsources = ['demo/k.cu']\n"
            "[[tool.hatch.build.hooks.cubin.source]]\npath = 'demo/scale.cu'\n"
            "instantiate = ['scale<int, 1>']\n",
            HATCH_CUBIN_CACHE_DIR=str(tmp_path / arch / "cache"),
        )
        pipeline.build(project)
        entries = [path.read_bytes() for path in (tmp_path / arch / "cache").glob("entries/*/*")]
        (lto,) = (data for data in entries if data.startswith(b"\xedCN\x7f"))
        found[arch] = arch_of(lto)
        assert differing_arch(lto, arch) is None
        assert differing_arch(lto, "sm_120") == found[arch]
    assert found == {each: each.removesuffix("f") for each in found}


@pytest.mark.nvrtc
@pytest.mark.parametrize(("option", "debug"), [("debug", True), ("lineinfo", False)])
def test_code_for_a_debugger_differs_from_code_with_line_numbers(
    tmp_path: Path, option: str, *, debug: bool
) -> None:
    table = f'archs = ["sm_75", "sm_100", "compute_90"]\noptions = {{ {option} = true }}\n'
    files = pipeline.build(make_project(tmp_path, {"k.cu": SAXPY}, table))
    units = [data for name, data in files.items() if name.endswith((".cubin", ".ptx"))]
    assert [is_for_debugger(data) for data in units] == [debug] * 3


FILES = {
    "CUDA 12": (of_12(75), "sm_75"),
    "CUDA 12 for one arch": (of_12(90, exact=True), "sm_90a"),
    "CUDA 12.9 for one arch": (with_header(elf(), 8, 0x0600640A), "sm_100a"),
    "without a note": (of_13(100), "sm_100"),
    "options before": (of_13(100, "-O 3 -arch sm_100a"), "sm_100a"),
    "options after": (of_13(100, "-arch=sm_100f -c"), "sm_100f"),
    "linked with one arch's code": (of_13(100, "-arch sm_100", "-arch sm_100a"), "sm_100a"),
    "linked with a family's code": (of_13(100, "-arch sm_100f", "-arch sm_100"), "sm_100f"),
    "linked with an older family's": (of_13(103, "-arch sm_100f", "-arch sm_103"), "sm_103"),
    "linked with code that cannot run there": (of_13(103, "-arch sm_100a"), "sm_100a"),
    "a name that looks like it": (of_13(90, "-o k-arch sm_90a", "-arch sm_90 -v"), "sm_90"),
    "a layout that is not known": (elf(), None),
    "LTO-IR that is cut off": (b"\xedCN\x7f", None),
    "LTO-IR without attributes": (b"\xedCN\x7f" + bytes(60), None),
    "PTX": (b".version 9.0\n.target sm_90a, debug\n", "compute_90a"),
    "PTX in one line": (b".version 9.0 .target sm_90 .address_size 64", "compute_90"),
    "PTX with comments": (b"// .target sm_80\n/* .target sm_70 */.target sm_90", "compute_90"),
    "PTX with a string": (b'.file 1 ".target sm_80"\n.target sm_90', "compute_90"),
    "two targets": (b".target sm_80\n.target sm_100, texmode_independent", "compute_100"),
    "two targets, one of them exact": (b".target sm_90\n.target sm_90a", "compute_90a"),
    "PTX in Latin-1": ("// \xe4\n.target sm_90".encode("latin-1"), "compute_90"),
}


@pytest.mark.parametrize(
    ("data", "arch"),
    FILES.values(),
    ids=FILES,
)
def test_the_arch_is_read_from_the_file(data: bytes, arch: str | None) -> None:
    assert arch_of(data) == arch


def test_an_unknown_arch_does_not_differ() -> None:
    assert differing_arch(elf(), "sm_100a") is None
    assert differing_arch(of_13(100), "sm_100a") == "sm_100"
    assert differing_arch(of_13(90, "-arch sm_90a"), "sm_90") == "sm_90a"
    assert differing_arch(of_13(90, "-arch sm_90a"), "sm_90a") is None


NOT_RESULTS = [b"", b"no code", b"\x7fELF\x02\x01", b"\x80" * 100, b".version 8.0\n", of_13(90)[:70]]


@pytest.mark.parametrize("data", NOT_RESULTS, ids=range(len(NOT_RESULTS)))
def test_a_file_that_no_compiler_made_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"is neither a cubin nor PTX|is a damaged cubin"):
        arch_of(data)


@pytest.mark.parametrize(
    ("data", "major"),
    [
        pytest.param(of_12(90), 0, id="CUDA 12 does not write it"),
        pytest.param(of_13(90), 13, id="the layout of CUDA 13"),
        pytest.param(of_13(100), 0, id="a layout of CUDA 12 and 13"),
        pytest.param(of_13(100, "-arch sm_100", release="12.9"), 12, id="a note of CUDA 12"),
        pytest.param(of_13(100, "-arch sm_100"), 13, id="a note of CUDA 13"),
        pytest.param(elf(), 0, id="a layout that is not known"),
    ],
)
def test_the_oldest_cuda_that_a_cubin_needs(data: bytes, major: int) -> None:
    assert oldest_toolkit(data) == major
