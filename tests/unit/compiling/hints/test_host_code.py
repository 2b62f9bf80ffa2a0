"""Host code, and headers for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.compiling.hints import host_code
from hatch_cubin.errors import Location
from hatch_cubin.headers.resolve import SearchFolder
from tests.helpers import write_tree

from .failed_compiles import APART, TABLES, error, setting, table

AS_DEVICE = (
    "to compile functions without an annotation as device code: "
    "options = { device-as-default-execution-space = true }"
)
UNANNOTATED = (
    "A function without execution space annotations (__host__/__device__/__global__) is considered a host one"
)
ONLY_DEVICE = f"this is host code, but NVRTC compiles only device code: {APART}"
ONLY_HOSTS = (
    "only host code can contain this line: remove the line from the kernels; "
    f"or, if the line is in a host function, {APART}"
)
FOR_HOSTS = "is for host code, which NVRTC does not compile:"


def test_host_code_is_one_error_that_counts_the_others(tmp_path: Path) -> None:
    main = error(UNANNOTATED, "demo/a.cu", 7, "int main() {")
    told = host_code.unannotated([error("x"), main, error("y")], setting(tmp_path))
    assert told is not None
    assert told[0].where == Location("demo/a.cu", 7)
    assert told[0].context == ("int main() {", "and 2 more errors after this error")
    marks = "mark kernels with __global__, and the functions that they call with __device__"
    assert told[0].hint == f"{marks}; if the file has host code, {APART}; {AS_DEVICE}"
    assert told[1] == []


@pytest.mark.parametrize(
    "call", ["k<<<1, 1>>>(x);", "cudaMalloc(&x, 4);", "std::cout << 1;", "torch::zeros(3);", "int main() {}"]
)
def test_where_only_a_host_can_do_it_no_device_code_is_offered(tmp_path: Path, call: str) -> None:
    """Taken as device code, it would fail for another reason, or be left out."""
    told = host_code.unannotated([error(UNANNOTATED)], setting(tmp_path, text=f"void run() {{ {call} }}\n"))
    assert told is not None
    assert told[0].hint == ONLY_DEVICE


def test_a_header_wheel_written_for_hosts_too_asks_for_the_option(tmp_path: Path) -> None:
    of_cute = error(UNANNOTATED, "<nvidia-cutlass/include>/cute/a.hpp")
    found = [of_cute, error("x", "<nvidia-cutlass/include>/cute/b.hpp")]
    told = host_code.unannotated(found, setting(tmp_path, 'options = { std = "c++20" }'))
    assert told is not None
    assert told[0].context == ("and 1 more error after this error",)
    assert told[0].hint == (
        "to compile functions without an annotation as device code: "
        'options = { std = "c++20", device-as-default-execution-space = true }'
    )


def test_an_option_that_a_rule_of_the_source_sets_is_asked_for_in_its_lines(tmp_path: Path) -> None:
    rule = f"{TABLES}\npath = 'demo/a.cu'\noptions = {{ device-as-default-execution-space = false }}"
    told = host_code.unannotated([error(UNANNOTATED, "<cccl>/a.h")], setting(tmp_path, rule))
    assert told is not None
    assert told[0].hint == (
        "to compile functions without an annotation as device code:"
        + table("options = { device-as-default-execution-space = true }")
    )


def test_a_header_of_the_toolkit_for_hosts_is_named_as_host_code(tmp_path: Path) -> None:
    of_cccl = error(UNANNOTATED, "<nvrtc/cccl>/cuda/memory_resource")
    told = host_code.unannotated([of_cccl], setting(tmp_path))
    assert told is not None
    assert told[0].hint == ONLY_DEVICE


def test_of_errors_alike_the_projects_own_is_told_and_what_else_is_its_own_stays(tmp_path: Path) -> None:
    of_cub, main = error(UNANNOTATED, "<cuda/cu13/include>/cub/a.cuh"), error(UNANNOTATED, "demo/a.cu", 9)
    own = error('expected a ";"', "demo/a.cu", 3)
    told = host_code.unannotated([of_cub, main, own, of_cub], setting(tmp_path))
    assert told is not None
    assert (told[0].where, told[0].context) == (main.where, ("and 2 more errors after this error",))
    assert told[1] == [own]


@pytest.mark.parametrize(
    "text",
    [
        'namespace "std" has no member "vector"',
        "A function explicitly marked as a __host__ function is not allowed",
        'identifier "cudaGetLastError" is undefined',
        'identifier "fprintf" is undefined',
        'identifier "stderr" is undefined',
    ],
)
def test_calls_of_the_host_are_named_as_host_code(tmp_path: Path, text: str) -> None:
    told = host_code.calls([error(text)], setting(tmp_path))
    assert told is not None
    assert (told[0].hint, told[0].context) == (ONLY_HOSTS, ())


LAUNCHES = error("device-side kernel launch could not be processed as the required runtime APIs are …")
STREAM = 'identifier "cudaStreamCreateWithFlags" is undefined'


@pytest.mark.parametrize(
    ("found", "text", "needs_runtime"),
    [
        ([LAUNCHES], "", True),
        ([error(STREAM), LAUNCHES], "", True),
        ([error(STREAM)], "child<<<1, 1>>>();", True),
        ([error(STREAM)], "// child<<<1, 1>>>();", False),
        ([error(STREAM), error('namespace "std" has no member "vector"')], "child<<<1, 1>>>();", False),
    ],
)
def test_a_kernel_that_launches_kernels_is_told_the_table_that_links_the_device_runtime(
    tmp_path: Path, found: list[Diagnostic], text: str, *, needs_runtime: bool
) -> None:
    told = host_code.calls(found, setting(tmp_path, text=text))
    assert told is not None
    assert told[0].hint is not None
    assert ("libcudadevrt.a" in told[0].hint) == needs_runtime
    told = host_code.calls(found, setting(tmp_path, "options = { device-as-default-execution-space = true }"))
    assert told is not None
    assert told[0].hint == ONLY_HOSTS


def test_other_errors_are_no_host_code(tmp_path: Path) -> None:
    found = [error('expected a ";"'), error("x", "<nvrtc/cccl>/cub/a.cuh")]
    there = setting(tmp_path)
    assert [
        cause(found, there)
        for cause in (host_code.included_for_hosts, host_code.unannotated, host_code.calls)
    ] == [None] * 3


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("thrust/complex.h", "use <cuda/std/complex> for device code"),
        ("thrust/sort.h", f"use <cuda/std/…> and <cub/block/…> for device code; {APART}"),
        ("cub/cub.cuh", f"use the parts in <cub/block/…> and <cub/warp/…> for device code; {APART}"),
        ("cub/device/a.cuh", f"use the parts in <cub/block/…> and <cub/warp/…> for device code; {APART}"),
    ],
)
def test_errors_below_a_header_for_hosts_are_one_about_that_header(
    tmp_path: Path, name: str, instead: str
) -> None:
    write_tree(tmp_path / "cccl", {name: '#include "../inner.h"\n', "inner.h": "", "thrust/inner.h": ""})
    found = [
        error("own", line=5),
        error("first", "<nvrtc/cccl>/inner.h"),
        error("second", f"<nvrtc/cccl>/{name}"),
        error("elsewhere", "<nvrtc/cccl>/thrust/inner.h"),
    ]
    if name.startswith("cub/device"):
        write_tree(tmp_path / "cccl", {"cub/inner.h": ""})
        found[1] = error("first", "<nvrtc/cccl>/cub/inner.h")
    there = setting(
        tmp_path / "project",
        text='#include "h.h"\n',
        files={"demo/h.h": f"#include <{name}>\n"},
        search=(SearchFolder(tmp_path / "cccl", "nvrtc/cccl", "NVRTC"),),
    )
    told = host_code.included_for_hosts(found, there)
    assert told is not None
    assert (told[0].text, told[0].context) == ("first", ("and 1 more error after this error",))
    assert told[0].hint == f"<{name}> {FOR_HOSTS} {instead}"
    assert [each.text for each in told[1]] == ["own", "elsewhere"]


VARIABLE = (
    "A namespace scope variable without memory space annotations (__device__) is considered a host variable"
)
MEMBER = "A class static data member with non-const type is considered a host variable"


def test_variables_of_the_host_are_one_error(tmp_path: Path) -> None:
    there = setting(tmp_path)
    told, other = advise([error(VARIABLE), error(MEMBER, line=3), error("x", line=4)], there)
    as_device = (
        "to compile all such variables as __device__: options = { device-as-default-execution-space = true }"
    )
    assert told.hint == f"mark the variable with __device__ or __constant__; {as_device}"
    assert (told.context, other.hint) == (("and 1 more error after this error",), None)
    assert advise([error(MEMBER)], there)[0].hint == as_device


@pytest.mark.parametrize("line", ["__entry__ void k() {}", "global void k(float *x) {}", 'import "h.cuh"'])
def test_a_line_that_the_compiler_takes_for_a_variable_has_no_hint(tmp_path: Path, line: str) -> None:
    found = [error(VARIABLE, "demo/a.cu", 1, line), error('expected a ";"', "demo/a.cu", 1, line)]
    assert advise(found, setting(tmp_path)) == found


def test_a_kernel_whose_parameters_cannot_be_read_is_not_taken_for_host_code(tmp_path: Path) -> None:
    kernel = 'extern "C" __global__ void k(flaot *x) {}'
    found = [
        error(UNANNOTATED, "demo/a.cu", 1, kernel, f"{' ' * kernel.index('k(')}^"),
        error('identifier "flaot" is undefined'),
    ]
    assert advise(found, setting(tmp_path)) == found
