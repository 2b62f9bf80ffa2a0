"""What linkers take: its kind, whether it is whole, and its symbols."""

from __future__ import annotations

import struct

import pytest

from hatch_cubin.cubin import elf, objects
from hatch_cubin.cubin.elf import Shape
from hatch_cubin.cubin.objects import Symbols
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
HAS = Symbols(
    strong=["_Z1fi", "c", "k"], weak=["_Z5twiceIfET_S0_"], needed=["_Z1gd", "counter"], functions=["_Z1fi"]
)
PTX = b".version 8.0\n.target sm_80\n.address_size 64\n"


def compiled(kind: str, *options: bytes, code: bytes = CODE) -> bytes:
    """Return what NVRTC makes of *code*."""
    _ = Toolkit(None).nvjitlink
    task = {"id": 0, "kind": kind, "code": code, "name": b"k.cu", "instantiate": [], "ptx": True}
    done = worker.compile_task({**task, "options": list(options), "searches": False})
    assert done["ok"], done["log"]
    return bytes(done["output"] or done["ptx"])


def in_order(symbols: Symbols | None) -> Symbols:
    assert symbols is not None
    return symbols._replace(
        **{field: sorted(getattr(symbols, field)) for field in Symbols._fields[:4]}, shapes={}
    )


def damaged(data: bytes, at: int, *values: int) -> bytes:
    return data[:at] + bytes(values) + data[at + len(values) :]


@pytest.fixture(scope="module")
def cubin() -> bytes:
    return compiled("c++", b"-arch=sm_90", b"-rdc=true")


@pytest.mark.nvrtc
def test_a_relocatable_cubin_and_the_ptx_of_the_same_source_have_the_same_symbols(cubin: bytes) -> None:
    ptx = compiled("c++", b"-arch=compute_90", b"-rdc=true")
    assert (objects.kind_of(cubin), objects.kind_of(ptx)) == ("cubin", "ptx")
    assert in_order(objects.symbols_of("cubin", cubin)) == HAS
    assert in_order(objects.symbols_of("ptx", ptx)) == HAS


@pytest.mark.nvrtc
def test_lto_ir_is_known_and_shows_no_symbols() -> None:
    data = compiled("lto", b"-arch=sm_90", b"-dlto")
    assert (objects.kind_of(data), objects.symbols_of("lto", data)) == ("lto", None)
    newer = damaged(data, 5, data[5] + 1)
    assert objects.is_newer_lto(newer, data)
    assert not objects.is_newer_lto(data, data)


@pytest.mark.nvrtc
def test_a_cubin_that_can_be_loaded_cannot_be_linked() -> None:
    with pytest.raises(ValueError, match="is a finished cubin, which nothing can be linked to"):
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
        "sections beyond its end": damaged(cubin, 40, *[0xFF] * 7),
        "a section that is too long": damaged(cubin, headers + 64 + 32, *[0xFF] * 4),
    }
    for what, data in damages.items():
        with pytest.raises(ValueError, match="is a damaged cubin"):
            objects.kind_of(data)
        assert what
    with pytest.raises(ValueError, match="is an object for the host, and no cubin"):
        objects.kind_of(damaged(cubin, 18, 62))


@pytest.mark.nvrtc
def test_a_symbol_that_lies_in_no_section_is_damage(cubin: bytes) -> None:
    at = next(at for at in range(len(cubin)) if _is_function_of(cubin, at))
    with pytest.raises(ValueError, match="is a damaged cubin"):
        objects.kind_of(damaged(cubin, at + 6, 0xF0, 0xE0))


@pytest.mark.nvrtc
def test_what_is_weak_and_nowhere_is_not_needed(cubin: bytes) -> None:
    tables = [each.offset for each in elf._sections(cubin) if each.kind == elf._SYMTAB]
    symbols = dict(elf._shared_symbols(cubin, elf._sections(cubin)))
    at = tables[0] + 24 * symbols["_Z1gd"].number
    weak = damaged(cubin, at + 4, 2 << 4 | cubin[at + 4] & 15)
    assert in_order(objects.symbols_of("cubin", weak)).needed == ["counter"]


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
def test_memory_that_takes_no_bytes_in_the_file_is_no_damage(arch: bytes, option: bytes) -> None:
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
        "k": Shape("kernel"),
        "f": Shape("function", 0, "#lilb20"),
        "g": Shape("function", 0, "#v"),
        "c": Shape("__constant__", 16),
        "unknown": Shape("__device__"),
        "m": Shape("__managed__", 2),
        "tile": Shape("__shared__"),
    }


def test_many_inputs_may_define_a_common_symbol_of_any_size() -> None:
    """PTX calls these symbols `.common`; linkers take the largest."""
    data = elf_file(("v", 0x1D, 0x20, 0xFFF2), kind=1)
    sized = damaged(data, data.index(b"\xf2\xff") + 10, 16)
    symbols = objects.symbols_of("cubin", sized)
    assert symbols is not None
    assert symbols == Symbols([], ["v"], [], [], {"v": Shape("__device__")})


def shaped(**shapes: Shape) -> Symbols:
    return Symbols(shapes=shapes)


@pytest.mark.parametrize(
    ("shapes", "told"),
    [
        ([Shape("__device__", 4), Shape("__device__", 4)], {}),
        ([Shape("__device__"), Shape("__device__", 4), Shape("", 0)], {}),
        ([Shape("function", 0, "#v"), Shape("function")], {}),
        (
            [Shape("__device__", 4), Shape("__constant__", 8), Shape("__device__", 8)],
            {"is __device__": ["0", "2"], "is __constant__": ["1"]},
        ),
        ([Shape("kernel"), Shape("function")], {"is a kernel": ["0"], "is a function": ["1"]}),
        (
            [Shape("__device__", 1), Shape("__device__"), Shape("__device__", 8)],
            {"has 1 byte": ["0"], "has 8 bytes": ["2"]},
        ),
        (
            [Shape("function", 0, "#lib12"), Shape("function", 0, "#v")],
            {
                "returns 8 bytes and takes 4 bytes, a struct of 12 bytes": ["0"],
                "returns nothing and takes nothing": ["1"],
            },
        ),
        ([Shape("function", 0, "#v"), Shape("function", 0, "?")], {"is ?": ["1"]}),
    ],
)
def test_what_inputs_say_of_a_symbol_is_compared(shapes: list[Shape], told: dict[str, list[str]]) -> None:
    inputs = [(str(number), shaped(v=shape)) for number, shape in enumerate(shapes)]
    found = dict(objects.disagreements(inputs))
    assert {said: inputs for said, inputs in found.get("v", {}).items() if said in told} == told
    assert bool(found) == bool(told)


def _is_function_of(data: bytes, at: int) -> bool:
    """Say whether the entry of `_Z1fi` in a table of symbols begins there."""
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
def test_what_is_whole_is_known_by_what_is_in_it(data: bytes, kind: str) -> None:
    assert objects.kind_of(data) == kind
    assert (objects.symbols_of(kind, data) is None) == (kind != "ptx")


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (archive(b"abcd")[:-1], "is a damaged archive: a member reaches beyond its end"),
        (archive() + b"x" * 60, "is a damaged archive: a member has no header"),
        (archive(b"abcd")[:30], "is a damaged archive: a member has no header"),
        (fatbin(b"abc")[:-1], "is a damaged fatbin: its header tells another size"),
        (fatbin(b"abc")[:10], "is a damaged fatbin: it is cut off"),
        (damaged(fatbin(b"abc"), 24, 0xFF), "is a damaged fatbin: an entry reaches beyond its end"),
        (fatbin(b"")[:8] + struct.pack("<Q", 4) + b"\0\0\0\0", "is a damaged fatbin: it is cut off"),
        (objects.LTO_MAGIC + b"\1", "is damaged LTO-IR: it is cut off"),
        (b"BC\xc0\xde\0\0", "is NVVM bitcode, which nvJitLink does not take"),
        (b"", "is not PTX, LTO-IR, a relocatable cubin, a fatbin or an archive"),
        (PTX + b"\0", "is not PTX, LTO-IR, a relocatable cubin, a fatbin or an archive"),
        (b"\x7fELF", "is a damaged cubin"),
    ],
)
def test_what_is_damaged_or_no_input_at_all_is_refused(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        objects.kind_of(data)


def test_ptx_that_declares_what_it_defines_needs_nothing() -> None:
    text = """
    .extern .func (.param .b32 r) f(.param .b32 a);
    .visible .func (.param .b32 r) f(.param .b32 a) { ret; }
    .weak .func g() { ret; }
    .common .global .align 4 .u32 shared;
    .visible .global .align 8 .attribute(.managed) .b8 managed[16];
    .visible .global .align 4 .u32 5;
    // .visible .func commented() { ret; }
    """
    assert objects.ptx_symbols(text) == Symbols(["f", "managed"], ["g", "shared"], [], ["f"])
