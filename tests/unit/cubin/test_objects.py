"""Inputs of a link: their kind, whether they are complete, and their symbols."""

from __future__ import annotations

import struct

import pytest

from hatch_cubin.cubin import elf, objects
from hatch_cubin.cubin.elf import SymbolShape
from hatch_cubin.cubin.objects import LinkSymbols
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.cubins import elf as elf_file

CODE = b"""
__device__ int f(int x) { return x + 1; }
__constant__ float c = 2;
extern __device__ int counter[];
template <class T> __device__ T twice(T x) { return x + x; }
template __device__ float twice(float);
__device__ double g(double);
static __device__ __noinline__ int own(int x) { return x * 3; }
extern "C" __global__ void k(double *x) { *x = g(*x) + counter[1] + own(2); }
"""
HAS = LinkSymbols(
    strong=["_Z1fi", "c", "k"], weak=["_Z5twiceIfET_S0_"], needed=["_Z1gd", "counter"], functions=["_Z1fi"]
)
PTX = b".version 8.0\n.target sm_80\n.address_size 64\n"


def compiled(kind: str, *options: bytes, code: bytes = CODE) -> bytes:
    """Return the result of NVRTC for *code*."""
    _ = Toolkit(None).nvjitlink
    task = {"id": 0, "kind": kind, "code": code, "name": b"k.cu", "instantiate": [], "ptx": True}
    done = worker.compile_task({**task, "options": list(options), "searches": False})
    assert done["ok"], done["log"]
    return bytes(done["output"] or done["ptx"])


def sorted_symbols(symbols: LinkSymbols | None) -> LinkSymbols:
    assert symbols is not None
    return symbols._replace(
        **{field: sorted(getattr(symbols, field)) for field in LinkSymbols._fields[:4]}, shapes={}
    )


def with_bytes(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values) :]


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compiled("c++", b"-arch=sm_90", b"-rdc=true")


@pytest.mark.nvrtc
def test_a_relocatable_cubin_and_the_ptx_of_the_same_source_have_the_same_symbols(cubin: bytes) -> None:
    ptx = compiled("c++", b"-arch=compute_90", b"-rdc=true")
    assert (objects.kind_of(cubin), objects.kind_of(ptx)) == ("cubin", "ptx")
    assert sorted_symbols(objects.symbols_of("cubin", cubin)) == HAS
    assert sorted_symbols(objects.symbols_of("ptx", ptx)) == HAS


@pytest.mark.nvrtc
def test_lto_ir_is_known_and_shows_no_symbols() -> None:
    data = compiled("lto", b"-arch=sm_90", b"-dlto")
    assert (objects.kind_of(data), objects.symbols_of("lto", data)) == ("lto", None)
    newer = with_bytes(data, 5, data[5] + 1)
    assert objects.is_newer_lto(newer, data)
    assert not objects.is_newer_lto(data, data)


@pytest.mark.nvrtc
def test_a_cubin_that_can_be_loaded_cannot_be_linked() -> None:
    with pytest.raises(ValueError, match="is a finished cubin: only relocatable cubins can be linked"):
        objects.kind_of(finished())


def finished() -> bytes:
    _ = Toolkit(None).nvjitlink
    inputs = [("ptx", b"k.ptx", PTX + b".visible .entry k() { ret; }\n")]
    task = {"id": 0, "kind": "link", "code": b"", "name": b"k", "inputs": inputs, "ptx": False}
    done = worker.compile_task({**task, "options": [b"-arch=sm_90"], "searches": False})
    return bytes(done["output"])


@pytest.mark.nvrtc
def test_a_damaged_cubin_is_never_given_to_a_linker(cubin: bytes) -> None:
    headers = struct.unpack_from("<Q", cubin, 40)[0]
    damages = {
        "cut off": cubin[:-1],
        "without most of its header": cubin[:20],
        "sections beyond its end": with_bytes(cubin, 40, *[0xFF] * 7),
        "a section that is too long": with_bytes(cubin, headers + 64 + 32, *[0xFF] * 4),
    }
    for what, data in damages.items():
        with pytest.raises(ValueError, match="is a damaged cubin"):
            objects.kind_of(data)
        assert what
    with pytest.raises(ValueError, match="is an object file for the host, not a cubin"):
        objects.kind_of(with_bytes(cubin, 18, 62))


@pytest.mark.nvrtc
def test_a_symbol_outside_of_all_sections_is_damage(cubin: bytes) -> None:
    at = next(at for at in range(len(cubin)) if _is_function_of(cubin, at))
    with pytest.raises(ValueError, match="is a damaged cubin"):
        objects.kind_of(with_bytes(cubin, at + 6, 0xF0, 0xE0))


@pytest.mark.nvrtc
def test_a_weak_symbol_that_no_input_defines_is_not_needed(cubin: bytes) -> None:
    tables = [each.offset for each in elf._sections(cubin) if each.kind == elf._SYMTAB]
    symbols = dict(elf._shared_symbols(cubin, elf._sections(cubin)))
    at = tables[0] + 24 * symbols["_Z1gd"].number
    weak = with_bytes(cubin, at + 4, 2 << 4 | cubin[at + 4] & 15)
    assert sorted_symbols(objects.symbols_of("cubin", weak)).needed == ["counter"]


LARGE = b"""
__device__ float uninitialised[64000];
__managed__ float managed[64000];
template <int N> __device__ float *block() { __shared__ float own[N]; return own; }
extern "C" __global__ void k(float *x) {
  __shared__ float tile[8000];
  tile[threadIdx.x] = x[0] + managed[1];
  block<3000>()[threadIdx.x] = tile[1];
  __syncthreads();
  x[0] = block<3000>()[7] + tile[9] + uninitialised[threadIdx.x]++;
}
"""


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", [b"-arch=sm_75", b"-arch=sm_90", b"-arch=sm_120"])
@pytest.mark.parametrize("option", [b"-lineinfo", b"-G"])
def test_sections_without_bytes_in_the_file_are_not_damage(arch: bytes, option: bytes) -> None:
    data = compiled("c++", arch, b"-rdc=true", option, code=LARGE)
    assert objects.kind_of(data) == "cubin"
    sections = elf._sections(data)
    absent = [each for each in sections if not each.is_in_file]
    assert sum(each.size for each in absent) > 300_000 > len(data)
    end = max(each.offset + each.size for each in sections if each.is_in_file)
    for size in (*range(64, len(data), 997), end - 1, len(data) - 1):
        with pytest.raises(ValueError, match="is a damaged cubin"):
            objects.kind_of(data[:size])


@pytest.mark.nvrtc
def test_every_symbol_of_a_relocatable_cubin_has_its_shape() -> None:
    code = b"""
    struct S { int a[5]; };
    extern "C" __device__ double f(int, double, S);
    extern "C" __device__ void g() {}
    extern __constant__ int c[4];
    extern __device__ int unknown[];
    __managed__ short m;
    extern __shared__ float tile[];
    extern "C" __global__ void k(double *x) { *x = f(c[(int)*x], unknown[2], S{}) + m + tile[3]; g(); }
    """
    symbols = objects.symbols_of("cubin", compiled("c++", b"-arch=sm_90", b"-rdc=true", code=code))
    assert symbols is not None
    assert symbols.shapes == {
        "k": SymbolShape("kernel"),
        "f": SymbolShape("function", 0, "#lilb20"),
        "g": SymbolShape("function", 0, "#v"),
        "c": SymbolShape("__constant__", 16),
        "unknown": SymbolShape("__device__"),
        "m": SymbolShape("__managed__", 2),
        "tile": SymbolShape("__shared__"),
    }


def test_many_inputs_may_define_a_common_symbol_of_any_size() -> None:
    """PTX calls these symbols `.common`; linkers take the largest."""
    data = elf_file(("v", 0x1D, 0x20, 0xFFF2), kind=1)
    sized = with_bytes(data, data.index(b"\xf2\xff") + 10, 16)
    symbols = objects.symbols_of("cubin", sized)
    assert symbols is not None
    assert symbols == LinkSymbols([], ["v"], [], [], {"v": SymbolShape("__device__")})


def with_shapes(**shapes: SymbolShape) -> LinkSymbols:
    return LinkSymbols(shapes=shapes)


@pytest.mark.parametrize(
    ("shapes", "descriptions"),
    [
        ([SymbolShape("__device__", 4), SymbolShape("__device__", 4)], {}),
        ([SymbolShape("__device__"), SymbolShape("__device__", 4), SymbolShape("", 0)], {}),
        ([SymbolShape("function", 0, "#v"), SymbolShape("function")], {}),
        (
            [SymbolShape("__device__", 4), SymbolShape("__constant__", 8), SymbolShape("__device__", 8)],
            {"is __device__": ["0", "2"], "is __constant__": ["1"]},
        ),
        ([SymbolShape("kernel"), SymbolShape("function")], {"is a kernel": ["0"], "is a function": ["1"]}),
        (
            [SymbolShape("__device__", 1), SymbolShape("__device__"), SymbolShape("__device__", 8)],
            {"has 1 byte": ["0"], "has 8 bytes": ["2"]},
        ),
        (
            [SymbolShape("function", 0, "#lib12"), SymbolShape("function", 0, "#v")],
            {
                "returns 8 bytes and takes 4 bytes, a struct of 12 bytes": ["0"],
                "returns nothing and takes nothing": ["1"],
            },
        ),
        ([SymbolShape("function", 0, "#v"), SymbolShape("function", 0, "?")], {"is ?": ["1"]}),
    ],
)
def test_the_shapes_that_inputs_give_a_symbol_are_compared(
    shapes: list[SymbolShape], descriptions: dict[str, list[str]]
) -> None:
    inputs = [(str(number), with_shapes(v=shape)) for number, shape in enumerate(shapes)]
    found = dict(objects.shape_conflicts(inputs))
    assert {
        text: inputs for text, inputs in found.get("v", {}).items() if text in descriptions
    } == descriptions
    assert bool(found) == bool(descriptions)


def _is_function_of(data: bytes, at: int) -> bool:
    """Return whether the entry of `_Z1fi` in a symbol table begins at *at*."""
    entry = data[at : at + 24]
    if len(entry) < 24 or entry[4:6] != b"\x12\x00" or entry[6:8] == b"\0\0":
        return False
    name = int.from_bytes(entry[:4], "little")
    return b"\0_Z1fi\0" in data and any(
        data[table + name : table + name + 6] == b"_Z1fi\0"
        for table in (data.find(b"\0.shstrtab"), data.find(b"\0_Z1fi") + 1 - name)
        if table >= 0
    )


def archive(*members: bytes) -> bytes:
    parts = (b"%-48s%-10d`\n" % (b"m.o/", len(data)) + data + b"\n" * (len(data) & 1) for data in members)
    return b"".join([b"!<arch>\n", *parts])


def fatbin(*payloads: bytes) -> bytes:
    entries = b"".join(struct.pack("<HHIQ", 2, 0x101, 16, len(data)) + data for data in payloads)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entries)) + entries


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (archive(), "library"),
        (archive(b"abc", b"defg"), "library"),
        (fatbin(), "fatbin"),
        (fatbin(b"abc", b"d"), "fatbin"),
        (PTX, "ptx"),
        (b"// a comment\n" + PTX, "ptx"),
    ],
)
def test_the_kind_of_a_complete_input_is_read_from_its_bytes(data: bytes, kind: str) -> None:
    assert objects.kind_of(data) == kind
    assert (objects.symbols_of(kind, data) is None) == (kind != "ptx")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (archive(b"abcd")[:-1], "is a damaged archive: a member extends beyond the end of the file"),
        (archive() + b"x" * 60, "is a damaged archive: the header of a member is missing"),
        (archive(b"abcd")[:30], "is a damaged archive: the header of a member is missing"),
        (fatbin(b"abc")[:-1], "is a damaged fatbin: the size in its header is not the size of the file"),
        (fatbin(b"abc")[:10], "is a damaged fatbin: the end is missing"),
        (
            with_bytes(fatbin(b"abc"), 24, 0xFF),
            "is a damaged fatbin: an entry extends beyond the end of the file",
        ),
        (fatbin(b"")[:8] + struct.pack("<Q", 4) + b"\0\0\0\0", "is a damaged fatbin: the end is missing"),
        (objects.LTO_MAGIC + b"\1", "is damaged LTO-IR: the end is missing"),
        (b"BC\xc0\xde\0\0", "is NVVM bitcode, which nvJitLink cannot link"),
        (b"", "is not PTX, LTO-IR, a relocatable cubin, a fatbin or an archive"),
        (PTX + b"\0", "is not PTX, LTO-IR, a relocatable cubin, a fatbin or an archive"),
        (b"\x7fELF", "is a damaged cubin"),
    ],
)
def test_damaged_inputs_and_other_files_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        objects.kind_of(data)


def test_ptx_that_declares_and_defines_a_symbol_does_not_need_it() -> None:
    text = """
    .extern .func (.param .b32 r) f(.param .b32 a);
    .visible .func (.param .b32 r) f(.param .b32 a) { ret; }
    .weak .func g() { ret; }
    .common .global .align 4 .u32 shared;
    .visible .global .align 8 .attribute(.managed) .b8 managed[16];
    .visible .global .align 4 .u32 5;
    // .visible .func commented() { ret; }
    """
    assert objects.ptx_symbols(text) == LinkSymbols(["f", "managed"], ["g", "shared"], [], ["f"])
