"""Reading cubins: their kernels, whether they can be loaded, and damage, which is only ever a ValueError."""

from __future__ import annotations

import re
import struct
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin.cubin.elf import (
    Cubin,
    read_cubin,
    read_kernels,
    read_limits,
    read_resources,
    read_section,
    read_sections,
    read_symbol_order,
)
from tests.capabilities import cuobjdump
from tests.cubins import FUNC, KERNEL, OBJECT, SECTION, USING, elf


def test_kernels_are_functions_marked_as_entries_in_a_section() -> None:
    data = elf(
        ("z", FUNC, KERNEL, SECTION),
        ("a", FUNC, KERNEL | 3, SECTION),
        ("device_function", FUNC, 0, SECTION),
        ("constant", OBJECT, KERNEL, SECTION),
        ("undefined", FUNC, KERNEL, 0),
        ("__nv_static_51__0afad4c0_22_cuda_device_runtime_cu_f78b5b52__Z3cpyi", FUNC, KERNEL, SECTION),
    )
    assert read_cubin(data) == Cubin(("a", "z"), loadable=True)


K = ("k", FUNC, KERNEL, SECTION)


@pytest.mark.parametrize(
    ("symbols", "order"),
    [
        ([], ()),
        ([K, ("j", FUNC, KERNEL, SECTION)], ()),
        ([K, (".nv.reservedSmem.offset0", OBJECT, 2, 0), (".text.k", 3, 0, SECTION)], ()),
        ([K, ("called", FUNC, 0, 0)], (("k", False), ("called", True), ("called", True), ("k", False))),
        (
            [K, ("v", OBJECT, 0, 2), ("f", FUNC, 0, 3)],
            (("k", False), ("v", False), ("f", True), ("v", False), ("f", True), ("k", False)),
        ),
    ],
)
def test_symbols_are_in_the_order_of_the_table_then_of_the_sections(
    symbols: list[tuple[str, int, int, int]], order: tuple[tuple[str, bool], ...]
) -> None:
    assert read_symbol_order(elf(*symbols)) == order


def test_a_cubin_without_symbols_has_no_kernels() -> None:
    assert read_cubin(elf()) == Cubin((), loadable=True)


def test_a_relocatable_cubin_cannot_be_loaded() -> None:
    assert read_cubin(elf(("k", FUNC, KERNEL, SECTION), kind=1)) == Cubin(("k",), loadable=False)


@pytest.mark.parametrize(
    "data", [b"", b"\x7fELF", b"\x7fELF\x01\x01" + bytes(100), b".version 8.0", b"PK\3\4"]
)
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="is not a cubin"):
        read_cubin(data)


WHOLE = elf(("kernel", FUNC, KERNEL, SECTION))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(WHOLE[:40], id="cut header"),
        pytest.param(WHOLE[:-1], id="cut sections"),
        pytest.param(WHOLE[:40] + b"\xff" * 8 + WHOLE[48:], id="sections beyond all memory"),
        pytest.param(WHOLE.replace(b"kernel\0", b"\xffernel\0"), id="a name that is not text"),
        pytest.param(
            WHOLE.replace(struct.pack("<QQII", 64, 48, 1, 0), struct.pack("<QQII", 64, 48, 9, 0)),
            id="no names",
        ),
        pytest.param(
            WHOLE.replace(struct.pack("<QQII", 64, 48, 1, 0), struct.pack("<QQII", 64, 1 << 63, 1, 0)),
            id="size",
        ),
        pytest.param(
            WHOLE.replace(
                struct.pack("<IBBH", 1, FUNC, KERNEL, 5), struct.pack("<IBBH", 9999, FUNC, KERNEL, 5)
            ),
            id="a name beyond",
        ),
    ],
)
def test_a_damaged_cubin_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="is a damaged cubin"):
        read_cubin(data)


def test_a_section_of_a_damaged_cubin_cannot_be_read() -> None:
    with pytest.raises(ValueError, match="is a damaged cubin"):
        read_section(WHOLE[:70], ".text")
    with pytest.raises(ValueError, match="is a damaged cubin"):
        read_sections(WHOLE[:70])


@given(st.integers(0, len(WHOLE) - 1), st.binary(min_size=1, max_size=12))
def test_damage_anywhere_raises_only_value_error(at: int, patch: bytes) -> None:
    data = WHOLE[:at] + patch + WHOLE[at + len(patch) :]
    for read in (read_cubin, read_symbol_order):
        try:
            read(data)
        except ValueError as exc:
            assert str(exc) in ("is not a cubin", "is a damaged cubin")  # noqa: PT017


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cubin of NVRTC's: two kernels, a template and a device function."""
    from cuda.core import Program, ProgramOptions

    code = """
        __device__ __noinline__ int helper(int x) { return x * 3; }
        template <class T> __global__ void scale(T *x) { *x *= 2; }
        template __global__ void scale<float>(float *);
        extern "C" __global__ void first(int *x) { *x = helper(*x); }
        namespace ns { __global__ void second(int *x) { *x = 1; } }
    """
    path = tmp_path_factory.mktemp("elf") / "real.cubin"
    path.write_bytes(bytes(Program(code, "c++", ProgramOptions(arch="sm_90")).compile("cubin").code))
    return path


@pytest.mark.nvrtc
def test_a_real_cubin(real: Path) -> None:
    kernels = ("_Z5scaleIfEvPT_", "_ZN2ns6secondEPi", "first")
    assert read_cubin(real.read_bytes()) == Cubin(kernels, loadable=True, target=90)


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
def test_cuobjdump_agrees_on_the_kernels(real: Path) -> None:
    output = subprocess.check_output([str(cuobjdump()), "-symbols", str(real)], text=True)
    entries = re.findall(r"^FUNC\s.*\sENTRY\s+(\S+)$", output, re.MULTILINE)
    assert sorted(entries) == list(read_cubin(real.read_bytes()).kernels)


@pytest.mark.nvrtc
def test_a_real_relocatable_cubin_cannot_be_loaded() -> None:
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch="sm_90", relocatable_device_code=True)
    code = Program('extern "C" __global__ void k() {}', "c++", options).compile("cubin").code
    assert read_cubin(bytes(code)) == Cubin(("k",), loadable=False, target=90)


@pytest.mark.parametrize(
    ("abi", "flags", "target"),
    [
        pytest.param(7, 0x005A055A, 90, id="CUDA 12"),
        pytest.param(8, 0x06005A04, 90, id="CUDA 13"),
        pytest.param(9, 0x06005A04, None, id="unknown"),
    ],
)
def test_the_header_of_a_cubin_has_its_target(abi: int, flags: int, target: int | None) -> None:
    data = WHOLE[:8] + bytes([abi]) + WHOLE[9:48] + struct.pack("<I", flags) + WHOLE[52:]
    assert read_cubin(data).target == target


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120"])
def test_the_target_of_a_real_cubin_is_the_arch_of_its_compile(arch: str) -> None:
    assert read_cubin(compiled(arch)).target == int(arch.strip("smaf_"))


def compiled(arch: str) -> bytes:
    from cuda.core import Program, ProgramOptions

    return bytes(Program(USING, "c++", ProgramOptions(arch=arch)).compile("cubin").code)


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120"])
def test_cuobjdump_agrees_on_the_resources_of_each_kernel(tmp_path: Path, arch: str) -> None:
    data = compiled(arch)
    (tmp_path / "k.cubin").write_bytes(data)
    usage = subprocess.check_output([str(cuobjdump()), "-res-usage", str(tmp_path / "k.cubin")], text=True)
    found = re.findall(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", usage)
    listing = subprocess.check_output([str(cuobjdump()), "-elf", str(tmp_path / "k.cubin")], text=True)
    sections = dict(re.findall(r"^\.nv\.info\.(\S+)\n(.*?)(?=^\.|\Z)", listing, re.MULTILINE | re.DOTALL))
    assert read_resources(data) == {
        name: {
            "registers": int(registers),
            "shared": int(shared),
            "spills": sections[name].count("SpillRefill"),
            "stack": int(stack),
        }
        for name, registers, stack, shared in found
    }


@pytest.mark.nvrtc
def test_resources_are_those_that_the_source_needs() -> None:
    uses = read_resources(compiled("sm_80"))
    assert uses["plain"] == {"registers": uses["plain"]["registers"], "shared": 0, "spills": 0, "stack": 0}
    assert (uses["shares"]["shared"], uses["shares"]["stack"]) == (1200, 0)
    assert (uses["stacks"]["stack"], uses["stacks"]["spills"]) == (400, 0)
    assert uses["spills"]["registers"] == 32
    assert uses["spills"]["spills"] > 0


INFO, SHARED = 0x70000000, ".nv.shared.k"
REGISTERS = struct.pack("<BBHII", 4, 0x2F, 8, 1, 40)
KERNEL_IN_7 = ("k", FUNC, KERNEL, 7)


def test_attributes_are_read_by_symbol_and_by_section() -> None:
    annotations = struct.pack("<BBHIIII", 4, 0x55, 16, 1, 0x100, 1, 0x110)
    data = elf(
        KERNEL_IN_7,
        more=[
            (".nv.info", INFO, REGISTERS + struct.pack("<BBHII", 4, 0x11, 8, 1, 24), 0),
            (".nv.info.k", INFO, struct.pack("<BBH", 3, 0x2F, 99) + annotations, 7),
            (SHARED, 8, bytes(48), 7),
            (".nv.shared.other", 8, bytes(96), 8),
        ],
    )
    assert read_resources(data) == {"k": {"registers": 40, "shared": 48, "spills": 2, "stack": 24}}


@pytest.mark.parametrize(
    ("version", "stack", "annotations", "spills"),
    [
        pytest.param(129, 24, b"", {"spills": 0}, id="12.9 would write them"),
        pytest.param(121, 24, b"", {}, id="12.1 would not write them"),
        pytest.param(121, 0, b"", {"spills": 0}, id="without a stack nothing spills"),
        pytest.param(
            121, 24, struct.pack("<BBHII", 4, 0x55, 8, 1, 0), {"spills": 1}, id="they are written down"
        ),
    ],
)
def test_spills_are_known_if_the_toolkit_wrote_them_down(
    version: int, stack: int, annotations: bytes, spills: dict[str, int]
) -> None:
    frame = struct.pack("<BBHII", 4, 0x11, 8, 1, stack)
    about = struct.pack("<BBHI", 4, 0x37, 4, version) + annotations
    data = elf(KERNEL_IN_7, more=[(".nv.info", INFO, REGISTERS + frame, 0), (".nv.info.k", INFO, about, 7)])
    assert read_resources(data) == {"k": {"registers": 40, "shared": 0, "stack": stack, **spills}}


def test_resources_without_an_attribute_are_zero() -> None:
    data = elf(KERNEL_IN_7, more=[(".nv.info", INFO, REGISTERS, 0)])
    assert read_resources(data) == {"k": {"registers": 40, "shared": 0, "spills": 0, "stack": 0}}


@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param(b"", id="no registers"),
        pytest.param(REGISTERS[:-1], id="cut"),
        pytest.param(REGISTERS + b"\x04", id="cut attribute"),
        pytest.param(struct.pack("<BBHI", 4, 0x2F, 4, 1), id="short value"),
        pytest.param(REGISTERS + struct.pack("<BBHII", 4, 0x55, 8, 2, 0), id="other annotations"),
        pytest.param(REGISTERS + struct.pack("<BBHI", 4, 0x55, 4, 1), id="half an annotation"),
    ],
)
def test_attributes_in_an_unknown_format_are_refused(attributes: bytes) -> None:
    with pytest.raises(ValueError, match="attributes cannot be read"):
        read_resources(elf(KERNEL_IN_7, more=[(".nv.info", INFO, attributes, 0)]))


@given(st.integers(0, 400), st.binary(min_size=1, max_size=12))
def test_damaged_attributes_raise_only_value_error(at: int, patch: bytes) -> None:
    data = elf(KERNEL_IN_7, more=[(".nv.info", INFO, REGISTERS, 0), (SHARED, 8, b"", 7)])
    try:
        read_resources(data[:at] + patch + data[at + len(patch) :])
    except ValueError as exc:
        assert "attributes cannot be read" in str(exc)  # noqa: PT017


WITH_PARAMETERS = """
    struct Large { char bytes[20000]; };
    struct alignas(16) Aligned { float x[4]; };
    struct Empty {};
    extern "C" __global__ void nothing() {}
    extern "C" __global__ void scalars(char a, float b, double *c, Aligned d, short e, bool f, Empty g) {}
    extern "C" __global__ void large(int a, Large b, const float *c) {}
    extern "C" __global__ void ends_with_less(double a, char b) {}
    extern "C" __global__ void in_place(const __grid_constant__ Aligned a, int b) {}
    template <class T> __global__ void made(T *a, T b) {}
    template __global__ void made<double>(double *, double);
"""


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a", "sm_120"])
def test_cuobjdump_agrees_on_the_place_of_each_parameter(tmp_path: Path, arch: str) -> None:
    """Except for kernels with large parameters: cuobjdump does not read their sizes."""
    from cuda.core import Program, ProgramOptions

    data = bytes(Program(WITH_PARAMETERS, "c++", ProgramOptions(arch=arch)).compile("cubin").code)
    (tmp_path / "k.cubin").write_bytes(data)
    listing = subprocess.check_output([str(cuobjdump()), "-elf", str(tmp_path / "k.cubin")], text=True)
    sections = dict(re.findall(r"^\.nv\.info\.(\S+)\n(.*?)(?=^\.|\Z)", listing, re.MULTILINE | re.DOTALL))
    line = r"Ordinal : 0x(\w+)\s+Offset  : 0x(\w+)\s+Size    : 0x(\w+)"
    printed = {
        name: tuple(
            place for _, *place in sorted([int(part, 16) for part in each] for each in re.findall(line, text))
        )
        for name, text in sections.items()
    }
    read = {symbol: kernel.parameters for symbol, kernel in read_kernels(data).items()}
    assert read.pop("large") == ((0, 4), (4, 20000), (20008, 8))
    del printed["large"]
    assert read == {name: tuple(map(tuple, places)) for name, places in printed.items()}
    assert read["scalars"] == ((0, 1), (4, 4), (8, 8), (16, 16), (32, 2), (34, 1), (35, 1))
    assert read["nothing"] == ()


def parameter(number: int, offset: int, size: int) -> bytes:
    return struct.pack("<BBHIHHI", 4, 0x17, 12, 0, number, offset, size << 18 | 0x1F000)


def end(offset: int) -> bytes:
    return struct.pack("<BBH", 3, 0x19, offset)


@pytest.mark.parametrize(
    ("attributes", "parameters"),
    [
        pytest.param(b"", (), id="none"),
        pytest.param(parameter(1, 8, 4) + parameter(0, 0, 8) + end(12), ((0, 8), (8, 4)), id="in any order"),
        pytest.param(parameter(0, 0, 8) + end(12), None, id="a parameter is missing at the end"),
        pytest.param(parameter(1, 8, 4) + end(12), None, id="the first is missing"),
        pytest.param(end(4), None, id="in another format"),
        pytest.param(struct.pack("<BBHI", 4, 0x17, 4, 0) + end(4), None, id="of another length"),
    ],
)
def test_parameters_that_do_not_add_up_are_unknown_and_resources_are_still_read(
    attributes: bytes, parameters: tuple[tuple[int, int], ...] | None
) -> None:
    data = elf(KERNEL_IN_7, more=[(".nv.info", INFO, REGISTERS, 0), (".nv.info.k", INFO, attributes, 7)])
    (kernel,) = read_kernels(data).values()
    assert kernel.parameters == parameters
    assert kernel.uses["registers"] == 40


def test_launch_limits_are_read_from_the_code_of_each_kernel() -> None:
    def launch(**values: bytes) -> dict[str, dict[str, tuple[int, ...]]]:
        return read_limits(
            elf(
                KERNEL_IN_7, ("j", FUNC, KERNEL, 8), more=[(".nv.info.k", INFO, b"".join(values.values()), 7)]
            )
        )

    threads = struct.pack("<BBHIII", 4, 0x05, 12, 128, 2, 1)
    short = {"registers": struct.pack("<BBH", 3, 0x1B, 40), "barriers": struct.pack("<BBH", 2, 0x4C, 4)}
    assert launch(threads=threads, **short) == {
        "k": {"max_threads": (128, 2, 1), "max_registers": (40,), "barriers": (4,)},
        "j": {},
    }
    assert launch(registers=struct.pack("<BBH", 3, 0x1B, 0xFF), other=struct.pack("<BBH", 3, 0x5F, 1)) == {
        "k": {},
        "j": {},
    }
    with pytest.raises(ValueError, match="attributes cannot be read"):
        launch(cut=b"\x04")
