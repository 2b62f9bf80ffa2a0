"""Links with the real compilers: what they give, and every way in which one can be wrong, told at once."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.compiling import linking
from hatch_cubin.compiling.executor import Result
from hatch_cubin.compiling.linking import Links
from hatch_cubin.compiling.results import Results
from hatch_cubin.cubin import elf
from hatch_cubin.cubin.target import arch_of
from hatch_cubin.errors import CompileError
from hatch_cubin.project.project import Project
from hatch_cubin.toolkit import worker
from tests.helpers import SAXPY, TABLE, make_project, run, write_tree

pytestmark = pytest.mark.nvrtc

MODULE = f"\n[[{'.'.join(TABLE)}.module]]\n"
RULE = f"\n[[{'.'.join(TABLE)}.source]]\n"
ONE = 'archs = ["sm_90"]\n'

KERNELS = """\
__device__ float f(float);
extern __constant__ float c;
extern __device__ int counter;
template <class T> __device__ T twice(T x);
namespace n { __device__ int g(int); }
extern "C" __global__ void k(float *x) { *x = f(*x) * c + twice<float>(x[1]) + n::g(3); counter++; }
template <class T> __global__ void scale(T *x) { *x = twice<T>(*x); }
"""
FUNCTIONS = """\
__device__ float f(float x) { return x + STEP; }
__constant__ float c = 2;
__device__ int counter;
template <class T> __device__ T twice(T x) { return x + x; }
template __device__ float twice<float>(float);
namespace n { __device__ int g(int a) { return a * 7; } }
"""
USER = '__device__ int f(int); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'
ADD = "__device__ int f(int a) { return a + 1; }\n"
ADD_PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .func (.param .b32 r) _Z1fi(.param .b32 a) {
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [a];
  add.s32 %r2, %r1, 1;
  st.param.b32 [r], %r2;
  ret;
}
"""


def module(name: str, *sources: str, mode: str, **more: object) -> str:
    rest = "".join(f"{key} = {json.dumps(value)}\n" for key, value in more.items())
    return f'{MODULE}name = "{name}"\nsources = {json.dumps(sources)}\nmode = "{mode}"\n{rest}'


def project_of(root: Path, files: Mapping[str, str | bytes], options: str, **environ: str) -> Project:
    return make_project(root, files, ONE + options, **environ)


def report(project: Project, root: Path) -> dict[str, Any]:
    path = root / "report.json"
    pipeline.build(dataclasses.replace(project, environ={**project.environ, "HATCH_CUBIN_REPORT": str(path)}))
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def compiled_again(project: Project, root: Path) -> list[str]:
    return [unit["module"] for unit in report(project, root)["units"] if unit["state"] == "compiled"]


def failure(root: Path, files: Mapping[str, str | bytes], options: str) -> list[str]:
    with pytest.raises(CompileError) as caught:
        pipeline.build(project_of(root, files, options))
    return [re.sub(r" \((?:nvJitLink|NVRTC) [\d.]+\)", "", str(problem)) for problem in caught.value.problems]


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_what_a_link_gives_are_the_kernels_of_all_sources_by_the_names_that_were_asked_for(
    tmp_path: Path, mode: str
) -> None:
    options = module("solver", "a.cu", "b.cu", mode=mode) + "define = { STEP = 1 }\n"
    options += f'{RULE}path = "demo/a.cu"\ninstantiate = ["scale< float >"]\n'
    files = pipeline.build(
        project_of(tmp_path, {"a.cu": KERNELS, "b.cu": FUNCTIONS, "saxpy.cu": SAXPY}, options)
    )
    cubins = {name: elf.read_cubin(data) for name, data in files.items() if name.endswith(".cubin")}
    assert cubins.keys() == {"solver.sm_90.cubin", "saxpy.sm_90.cubin"}
    assert cubins["solver.sm_90.cubin"].kernels == ("_Z5scaleIfEvPT_", "k")
    assert cubins["solver.sm_90.cubin"].loadable
    line = next(each for each in files["manifest.json"].decode().splitlines() if each.startswith('"solver":'))
    entry = json.loads(f"{{{line.rstrip(',')}}}")["solver"]
    assert entry["kernels"] == {"k": "k", "scale<float>": "_Z5scaleIfEvPT_"}
    assert (entry["source"], entry["sources"]) == ("demo/a.cu", ["demo/a.cu", "demo/b.cu"])
    assert [each[-1] for each in entry["parameters"]["k"]] == ["float *"]


def test_one_source_of_ten_that_changed_is_one_compile_and_one_link(tmp_path: Path) -> None:
    calls = "".join(f"__device__ int f{n}(int);\n" for n in range(1, 10))
    sums = " + ".join(f"f{n}(*p)" for n in range(1, 10))
    files = {f"f{n}.cu": f"__device__ int f{n}(int a) {{ return a + {n}; }}\n" for n in range(1, 10)}
    files["k.cu"] = f'{calls}extern "C" __global__ void k(int *p) {{ *p = {sums}; }}\n'
    project = project_of(tmp_path, files, module("ten", *files, mode="lto") + module("r", *files, mode="rdc"))
    first = report(project, tmp_path)
    assert (first["hits"], first["compiled"]) == (0, 22)
    again = report(project, tmp_path)
    assert (again["hits"], again["compiled"]) == (22, 0)
    write_tree(tmp_path, {"demo/f3.cu": "__device__ int f3(int a) { return a - 3; }\n"})
    assert compiled_again(project, tmp_path) == ["r", "r/demo/f3.cu", "ten", "ten/demo/f3.cu"]
    reordered = [*files][::-1]
    turned = module("ten", *reordered, mode="lto") + module("r", *files, mode="rdc")
    assert compiled_again(project_of(tmp_path, {}, turned), tmp_path) == ["ten"]
    registers = module("ten", *reordered, mode="lto") + "options = { max-register-count = 32 }\n"
    only = registers + module("r", *files, mode="rdc")
    assert compiled_again(project_of(tmp_path, {}, only), tmp_path) == ["ten", *_objects(files)]
    fewer = module("ten", *reordered, mode="lto") + module("r", *[*files][1:], mode="rdc")
    write_tree(tmp_path, {"demo/k.cu": files["k.cu"].replace("f1(*p) + ", "")})
    assert compiled_again(project_of(tmp_path, {}, fewer), tmp_path) == [
        "r",
        "r/demo/k.cu",
        "ten",
        "ten/demo/k.cu",
    ]


def _objects(files: Mapping[str, str]) -> list[str]:
    return sorted(f"ten/demo/{name}" for name in files)


def test_the_same_sources_give_the_same_keys_and_bytes_in_any_folder(tmp_path: Path) -> None:
    options = module("m", "a.cu", "b.cu", mode="lto", archs=["90"]) + "options = { lineinfo = true }\n"
    options += module("r", "a.cu", "h.ptx", mode="rdc")
    files = {"a.cu": USER, "b.cu": ADD, "h.ptx": ADD_PTX}
    one, other = (
        pipeline.build(
            project_of(tmp_path / name, files, options, HATCH_CUBIN_CACHE_DIR=str(tmp_path / cache))
        )
        for name, cache in (("one", "c1"), ("a/deep/er/one", "c2"))
    )
    assert one == other
    assert {"m.sm_90.cubin", "m.compute_90.ptx", "r.sm_90.cubin"} <= one.keys()
    assert b".visible .entry k(" in one["m.compute_90.ptx"]


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_kernels_without_linkage_have_names_of_their_own_in_sources_that_are_called_alike(
    tmp_path: Path, mode: str
) -> None:
    text = """
    namespace {
    template <class T> __global__ void fill(T *p) { *p = NUMBER; }
    template __global__ void fill<int>(int *);
    }
    """
    files = {f"{folder}/util.cu": text.replace("NUMBER", folder[1:]) for folder in ("f1", "f2")}
    built = pipeline.build(project_of(tmp_path, files, module("m", *files, mode=mode)))
    kernels = elf.read_cubin(built["m.sm_90.cubin"]).kernels
    assert len({*kernels}) == len(kernels) == 2
    assert not any("$" in name for name in kernels)


ONE_KERNEL = "__global__ void k(int *p) { *p = 1; }\n"
OTHER_KERNEL = "__global__ void k(int *p) { *p = 2; }\n"


@pytest.mark.parametrize("mode", ["lto", "rdc"])
@pytest.mark.parametrize(
    ("files", "places"),
    [
        ({"a.cu": ONE_KERNEL, "b.cu": OTHER_KERNEL}, "by demo/a.cu:1 and by demo/b.cu:1"),
        ({"a.cu": ONE_KERNEL, "b.cu": f"inline {OTHER_KERNEL}"}, "by demo/a.cu:1 and by demo/b.cu:1"),
        (
            {"a.cu": f"static {ONE_KERNEL}", "b.cu": f"static {OTHER_KERNEL}"},
            "by demo/a.cu:1 and by demo/b.cu:1",
        ),
        (
            {"k.cuh": f"static {ONE_KERNEL}", "a.cu": '#include "k.cuh"\n', "b.cu": '#include "k.cuh"\n'},
            "probably by a header that several sources include",
        ),
    ],
)
def test_a_kernel_that_two_sources_of_a_module_define_is_an_error(
    tmp_path: Path, files: Mapping[str, str], places: str, mode: str
) -> None:
    (told,) = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode=mode))
    first, *_rest, hint = told.splitlines()
    assert first.endswith(f"'k(int*)' (_Z1kPi) is defined more than once, {places}")
    assert "rename" in hint
    assert "static" not in hint


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_kernels_that_only_seem_to_be_defined_twice_are_linked(tmp_path: Path, mode: str) -> None:
    shared = "inline __global__ void shared(int *p) { *p = 7; }\n"
    files = {
        "h.cuh": f"#pragma once\n{shared}",
        "a.cu": f'#include "h.cuh"\n{ONE_KERNEL}',
        "b.cu": (
            '#include "h.cuh"\n__global__ void k(float *p) { *p = 1; }\n'
            f"#ifdef NEVER\n{OTHER_KERNEL}#endif\n"
        ),
        "c.cu": "__global__ void k(int *p);\n",
    }
    built = pipeline.build(project_of(tmp_path, files, module("m", "a.cu", "b.cu", "c.cu", mode=mode)))
    kernels = elf.read_cubin(built["m.sm_90.cubin"]).kernels
    assert sorted(kernels) == ["_Z1kPf", "_Z1kPi", "_Z6sharedPi"]


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_the_hint_for_a_kernel_in_a_header_does_not_propose_a_variable(tmp_path: Path, mode: str) -> None:
    files = dict.fromkeys(("a.cu", "b.cu"), '#include "k.cuh"\n')
    (told,) = failure(tmp_path, {"k.cuh": ONE_KERNEL, **files}, module("m", *files, mode=mode))
    assert "by demo/a.cu and by demo/b.cu\n" in told
    assert "rename" in told


SIGNATURE = "__device__ float f(float a) { return a; }\n"
KERNEL = 'extern "C" __global__ void k(int *p) {{ *p = {}; }}\n'
LAUNCH = """\
extern "C" __global__ void c(int *p) { *p = 1; }
extern "C" __global__ void k(int *p) { c<<<1, 1>>>(p); }
"""
NVSHMEM = """\
extern "C" __device__ int nvshmem_my_pe();
extern "C" __global__ void k(int *p) { *p = nvshmem_my_pe(); }
"""
ELSEWHERE = "has a definition of this name, perhaps in another scope or with other parameters: "
WRONG: Mapping[str, tuple[Mapping[str, str], str, str]] = {  # sources, then what is told of rdc, and of LTO
    "twice": (
        {"a": USER, "b": ADD, "c": f"\n{ADD}"},
        (
            "'f(int)' (_Z1fi) is defined more than once, by demo/twice_b.cu:1 and by demo/twice_c.cu:2\n"
            "  while linking MODULE for sm_90\n"
            "  hint: define the symbol in one source and declare it in the others, or make it "
            "static or inline"
        ),
        "",
    ),
    "namespace": (
        {"a": USER, "b": f"namespace q {{\n{ADD}}}\n"},
        (
            "nothing defines 'f(int)' (_Z1fi), which is used in demo/namespace_a.cu\n"
            "  demo/namespace_b.cu has 'q::f(int)' (_ZN1q1fEi)\n"
            "  demo/namespace_b.cu:2 has a definition of this name, "
            "perhaps in another scope or with other parameters: __device__ int f(int a)\n"
            "  while linking MODULE for sm_90"
        ),
        "  demo/namespace_b.cu has 'q::f(int)' (_ZN1q1fEi)\n",
    ),
    "static": (
        {"a": USER, "b": f"static {ADD}__device__ int g(int a) {{ return f(a); }}\n"},
        (
            "nothing defines 'f(int)' (_Z1fi), which is used in demo/static_a.cu\n"
            "  the definition in demo/static_b.cu:1 is static, so other sources cannot use the definition: "
            "static __device__ int f(int a)\n"
            "  while linking MODULE for sm_90"
        ),
        "",
    ),
    "template": (
        {"a": USER, "b": "template <class T> __device__ T f(T a) { return a; }\n__device__ int w;\n"},
        (
            "nothing defines 'f(int)' (_Z1fi), which is used in demo/template_a.cu\n"
            "  demo/template_b.cu:1 has a template of this name, which needs an explicit instantiation "
            "(template …;) in the same file: template <class T> __device__ T f(T a)\n"
            "  while linking MODULE for sm_90"
        ),
        "",
    ),
    "signature": (
        {"a": USER, "b": SIGNATURE},
        (
            "nothing defines 'f(int)' (_Z1fi), which is used in demo/signature_a.cu\n"
            "  demo/signature_b.cu has 'f(float)' (_Z1ff)\n"
            "  demo/signature_b.cu:1 has a definition of this name, "
            "perhaps in another scope or with other parameters: __device__ float f(float a)\n"
            "  while linking MODULE for sm_90"
        ),
        "  demo/signature_b.cu has 'f(float)' (_Z1ff)\n",
    ),
    "variable": (
        {"a": 'extern __device__ int v;\nextern "C" __global__ void k(int *p) { *p = v; }\n', "b": ADD},
        (
            "nothing defines 'v', which is used in demo/variable_a.cu\n"
            f"  demo/other.cu:2 {ELSEWHERE}__device__ int v\n"
            "  while linking MODULE for sm_90\n"
            "  hint: if this definition fits, add 'demo/other.cu' to 'sources' of this module"
        ),
        "",
    ),
    "runtime": (
        {"a": LAUNCH},
        (
            "nothing defines '__cudaCDP2GetParameterBufferV2', which is used in demo/runtime_a.cu\n"
            "  while linking MODULE for sm_90\n"
            "  hint: add the library to the table of this module: link = "
            '["nvidia-cuda-runtime:**/libcudadevrt.a"]'
        ),
        "",
    ),
    "nvshmem": (
        {"a": NVSHMEM},
        (
            "nothing defines 'nvshmem_my_pe', which is used in demo/nvshmem_a.cu\n"
            "  while linking MODULE for sm_90\n"
            "  hint: add the library to the table of this module: link = "
            '["nvidia-nvshmem-cu13:**/libnvshmem_device.a"]'
        ),
        "",
    ),
    "empty": (
        {"a": ADD},
        "the compiled code does not contain a kernel\n  while linking MODULE for sm_90",
        "",
    ),
}


def test_each_wrong_way_to_link_is_told_in_one_build(tmp_path: Path) -> None:
    files = {"other.cu": f"{SAXPY.splitlines()[0]} }}\n__device__ int v;\n"}
    options, expected = "", []
    for name, (sources, told, but_of_lto) in WRONG.items():
        own = {f"{name}_{part}.cu": _renamed(text, name) for part, text in sources.items()}
        files |= own
        for mode in ("rdc", "lto"):
            options += module(f"{mode}_{name}", *own, mode=mode)
            text = told.replace(but_of_lto, "") if but_of_lto and mode == "lto" else told
            expected.append(_renamed(text, name).replace("MODULE", f"{mode}_{name}"))
    found = failure(tmp_path, files, options)
    assert sorted(each.partition(": ")[2] for each in found) == sorted(expected)
    assert all(re.fullmatch(r"pyproject\.toml:\d+", each.partition(": ")[0]) for each in found)


def _renamed(text: str, name: str) -> str:
    """Return a text whose function `f` has a name of its own, in symbols too."""
    return text.replace("f(", f"{name}_f(").replace("1f", f"{len(name) + 2}{name}_f")


def test_all_that_is_missing_is_told_though_lto_stops_at_the_first(tmp_path: Path) -> None:
    user = """
    extern __device__ int v;
    __device__ int f(int);
    __device__ float h(float *);
    extern "C" __global__ void k(float *p) { printf("%d", v); *p = f(2) + h(p); }
    """
    found = failure(tmp_path, {"a.cu": user}, module("m", "a.cu", mode="lto"))
    assert sorted(each.splitlines()[0].partition(": ")[2] for each in found) == [
        "nothing defines 'f(int)' (_Z1fi), which is used in demo/a.cu",
        "nothing defines 'h(float*)' (_Z1hPf), which is used in demo/a.cu",
        "nothing defines 'v', which is used in demo/a.cu",
    ]


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_a_variable_that_a_header_defines_is_told_with_all_that_include_it(tmp_path: Path, mode: str) -> None:
    files = {"v.cuh": "__constant__ float v[2];\n", "a.cu": f'#include "v.cuh"\n{USER}'}
    files["b.cu"] = f'#include "v.cuh"\n{ADD}'
    (told,) = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode=mode))
    assert "'v' is defined more than once, by demo/a.cu and by demo/b.cu\n" in told
    assert "static" not in told  # each source would have its own variable


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_what_stands_on_its_namespaces_line_is_nearly_what_is_missing(tmp_path: Path, mode: str) -> None:
    files = {"a.cu": USER, "b.cu": f"namespace inner {{ {ADD.strip()} }}\n"}
    (told,) = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode=mode))
    assert (
        "demo/b.cu:1 has a definition of this name, perhaps in another scope or with other parameters: "
        "__device__ int f(int a)\n"
    ) in told


def test_several_sources_that_could_define_what_is_missing_are_shown(tmp_path: Path) -> None:
    others = {"b": f"namespace inner {{ {ADD.strip()} }}\n", "c": SIGNATURE, "d": ADD, "e": f"static {ADD}"}
    kernel = 'extern "C" __global__ void kernel_{}() {{}}\n'
    files = {f"{name}.cu": text + kernel.format(name) for name, text in others.items()} | {"a.cu": USER}
    (told,) = failure(tmp_path, files, module("m", "a.cu", mode="rdc"))
    assert [line.split(":")[0].strip() for line in told.splitlines() if ELSEWHERE in line] == [
        "demo/b.cu",
        "demo/c.cu",
        "demo/d.cu",
    ]
    assert told.endswith("  hint: add the source whose definition fits to 'sources' of this module")


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_a_function_of_c_that_is_defined_twice_gets_no_hint_about_variables(
    tmp_path: Path, mode: str
) -> None:
    files = dict.fromkeys(("b.cu", "c.cu"), f'extern "C" {ADD}') | {"a.cu": f'extern "C" {USER}'}
    (told,) = failure(tmp_path, files, module("m", *files, mode=mode))
    assert "'f' is defined more than once" in told
    assert "variable" not in told


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_what_ptx_and_a_source_both_define_is_told(tmp_path: Path, mode: str) -> None:
    text = f"{ADD_PTX}.visible .global .align 4 .u32 v;\n"
    files = {"a.cu": USER, "b.cu": f"{ADD}__device__ int v;\n", "h.ptx": text}
    told = failure(tmp_path, files, module("m", "a.cu", "b.cu", "h.ptx", mode=mode))
    assert sorted(re.findall(r"'\S+' .*?more than once", "".join(told))) == [
        "'f(int)' (_Z1fi) is defined more than once",
        "'v' is defined more than once",
    ]


@pytest.mark.parametrize("mode", ["lto", "rdc"])
def test_ptx_that_no_assembler_takes_is_told_at_its_line(tmp_path: Path, mode: str) -> None:
    files = {"a.cu": USER, "h.ptx": ADD_PTX.replace("add.s32", "bogus")}
    (told,) = failure(tmp_path, files, module("m", "a.cu", "h.ptx", mode=mode))
    assert told == ("demo/h.ptx:7: Not a name of any known instruction: 'bogus'\n  while linking m for sm_90")


def test_what_fails_to_compile_is_told_and_its_link_is_not(tmp_path: Path) -> None:
    files = {"a.cu": USER, "b.cu": "__device__ int f(int a) { return b; }\n"}
    (told,) = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode="lto"))
    assert told.startswith('demo/b.cu:1: identifier "b" is undefined\n')


def test_a_link_and_a_source_that_needs_a_gpu_of_its_own_fail_in_one_build(tmp_path: Path) -> None:
    source = 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }\n'
    files = {"a.cu": USER, "b.cu": ADD, "c.cu": USER, "h.cu": source}
    linked = module("m", "a.cu", "b.cu", mode="rdc") + module("n", "c.cu", mode="rdc")
    of_source = (
        "demo/h.cu:1: Instruction 'wgmma.fence' not supported on .target 'sm_90'\n"
        "      wgmma.fence.sync.aligned;\n"
        "  while compiling h for sm_90\n"
        "  hint: the source compiles with these archs:\n"
        "    [[tool.hatch.build.hooks.cubin.source]]\n"
        '    path = "demo/h.cu"\n'
        '    archs = ["sm_90a"]'
    )
    of_link = (
        "pyproject.toml:19: nothing defines 'f(int)' (_Z1fi), which is used in demo/c.cu\n"
        f"  demo/b.cu:1 {ELSEWHERE}__device__ int f(int a)\n"
        "  while linking n for sm_90\n"
        "  hint: if this definition fits, add 'demo/b.cu' to 'sources' of this module"
    )
    assert failure(tmp_path, files, linked) == [of_source, of_link]


def test_a_variants_macro_that_a_source_defines_again_is_told(tmp_path: Path) -> None:
    files = {"a.cu": f"#define N 5\n{USER}", "b.cu": ADD}
    found = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode="rdc") + "variants = { N = [1, 2] }\n")
    assert found[0].startswith(
        "demo/a.cu:1: the source defines the macro N again, so all variants of the source would be equal\n"
    )


def test_an_arch_that_a_source_cannot_be_compiled_for_is_told_for_its_module(tmp_path: Path) -> None:
    body = 'asm volatile("tcgen05.fence::before_thread_sync;"); return a; }\n'
    files = {"a.cu": USER, "b.cu": "__device__ int f(int a) { " + body}
    found = failure(tmp_path, files, module("m", "a.cu", "b.cu", mode="rdc", archs=["sm_90", "sm_100a"]))
    assert 'the source compiles with these archs in the table of m:\n    archs = ["sm_100a"]' in found[0]


def test_macros_that_change_one_source_of_a_module_are_no_vain_variants(tmp_path: Path) -> None:
    said: list[str] = []
    options = module("m", "a.cu", "b.cu", mode="lto") + "variants = { STEP = [1, 2] }\n"
    files = {"a.cu": USER, "b.cu": ADD.replace("1", "STEP")}
    project = dataclasses.replace(project_of(tmp_path, files, options), inform=said.append)
    pipeline.build(project)
    assert len(said) == 1
    write_tree(tmp_path, {"demo/b.cu": ADD})
    pipeline.build(project)
    assert said[1] == "m: STEP has no effect: its 2 variants have the same code"


def test_an_ordinary_source_that_needs_another_is_told_which_table_links_the_two(tmp_path: Path) -> None:
    files = {"a.cu": USER, "b.cu": f"{ADD}{SAXPY}"}
    (told,) = failure(tmp_path, files, "")
    assert told.splitlines()[2:] == [
        "  hint: the definition is in demo/b.cu:1: link both sources with this table:",
        f"    {MODULE.strip()}",
        '    name = "a"',
        '    sources = ["demo/a.cu", "demo/b.cu"]',
        '    mode = "lto"',
    ]
    pasted = "\n".join(line.strip() for line in told.splitlines()[3:])
    files_again = pipeline.build(project_of(tmp_path, {"b.cu": ADD}, f"\n{pasted}\n"))
    assert "a.sm_90.cubin" in files_again


# What inputs say differently of a symbol: nvlink refuses these, and nvJitLink links them.

K = 'extern "C" __global__ void k(int *p) {{ *p = {}; }}\n'
LINES = "\n\n"
UNLIKE: Mapping[str, tuple[str, str, str]] = {  # the two sources, and what is told of them
    "constant against device": (
        "extern __constant__ int v[4];\n" + K.format("v[*p]"),
        f"{LINES}__device__ int v[4];\n",
        "'v' is declared differently: it is __constant__ in A:1, and is __device__ in B:3",
    ),
    "device against constant": (
        "extern __device__ int v[4];\n" + K.format("v[*p]"),
        "__constant__ int v[4] = {1};\n",
        "'v' is declared differently: it is __device__ in A:1, and is __constant__ in B:1",
    ),
    "managed against device": (
        "extern __managed__ int v;\n" + K.format("v"),
        "__device__ int v;\n",
        "'v' is declared differently: it is __managed__ in A:1, and is __device__ in B:1",
    ),
    "size": (
        f"{LINES}extern __device__ int v[8];\n" + K.format("v[*p]"),
        "__device__ int v[4];\n",
        "'v' is declared differently: it has 32 bytes in A:3, and has 16 bytes in B:1",
    ),
    "type": (
        "extern __constant__ double v;\n" + K.format("v"),
        "__constant__ float v;\n",
        "'v' is declared differently: it has 8 bytes in A:1, and has 4 bytes in B:1",
    ),
    "weak": (
        "inline __device__ int v[8];\n" + K.format("v[*p]++"),
        "inline __device__ int v[4];\n__device__ int g(int i) { return v[i]++; }\n",
        "'v' is declared differently: it has 32 bytes in A:1, and has 16 bytes in B:1",
    ),
    "shared": (
        "extern __shared__ int v[4];\n" + K.format("v[*p]++"),
        "__device__ int v[4];\n",
        "'v' is declared differently: it is __shared__ in A:1, and is __device__ in B:1",
    ),
    "variable against function": (
        'extern "C" { extern __device__ int v; }\n' + K.format("v"),
        'extern "C" __device__ int v(int a) { return a; }\n',
        "'v' is declared differently: it is __device__ in A:1, and is a function in B:1",
    ),
    "function against kernel": (
        'extern "C" __device__ void v(int *);\n' + K.format("(v(p), 1)"),
        'extern "C" __global__ void v(int *p) { *p = 1; }\n',
        "'v' is declared differently: it is a function in A:1, and is a kernel in B:1",
    ),
    "parameters": (
        'extern "C" __device__ int v(int, double);\n' + K.format("v(1, 2)"),
        'extern "C" __device__ int v(int a) { return a; }\n',
        (
            "'v' is declared differently: it returns 4 bytes and takes 4 bytes, 8 bytes in A:1, "
            "and returns 4 bytes and takes 4 bytes in B:1"
        ),
    ),
    "result": (
        "__device__ int4 v();\n" + K.format("v().x"),
        "__device__ int v() { return 1; }\n",
        (
            "'v()' (_Z1vv) is declared differently: "
            "it returns a struct of 16 bytes and takes nothing in A:1, "
            "and returns 4 bytes and takes nothing in B:1"
        ),
    ),
}
# What nvlink links, as nvcc's users know it.
ALIKE: Mapping[str, tuple[str, str]] = {
    "incomplete": ("extern __device__ int v[];\n" + K.format("v[*p]"), "__device__ int v[4];\n"),
    "another type": ("extern __device__ int v;\n" + K.format("v"), "__device__ float v;\n"),
    "alignment": (
        "extern __device__ __align__(64) int v[16];\n" + K.format("v[*p]"),
        "__device__ int v[16];\n",
    ),
    "const": ("extern const __device__ int v;\n" + K.format("v"), "__device__ int v = 3;\n"),
    "unused": ("extern __constant__ int v[8];\n" + K.format("1"), "__device__ int v[4];\n"),
    "static": ("static __constant__ int v[4];\n" + K.format("v[*p]"), "__device__ int v[8];\n"),
    "weak": (
        "inline __device__ __noinline__ int v(int a) { return a; }\n" + K.format("v(1)"),
        "inline __device__ __noinline__ int v(int a) { return -a; }\n__device__ int g() { return v(2); }\n",
    ),
    "same sizes": (
        'extern "C" __device__ float v(float, int *);\n' + K.format("v(1, p)"),
        'extern "C" __device__ int v(unsigned a, long long b) { return a + b; }\n',
    ),
    "shared": (
        "extern __shared__ int v[];\n" + K.format("v[*p]++"),
        "extern __shared__ double v[];\n__device__ double g() { return v[2]; }\n",
    ),
}


def pairs(of: Mapping[str, tuple[str, ...]], options: str = "") -> tuple[dict[str, str], str]:
    """Return the sources of pairs, and the tables that link them."""
    files = dict[str, str]()
    for number, (a, b, *_told) in enumerate(of.values()):
        own = {f"a{number}.cu": a, f"b{number}.cu": b}
        files |= own
        options += module(f"m{number}", *own, mode="rdc")
    return files, options


def test_objects_that_do_not_agree_about_a_symbol_are_told_with_both_places(tmp_path: Path) -> None:
    found = failure(tmp_path, *pairs(UNLIKE))
    expected = [
        told.replace("A:", f"demo/a{number}.cu:").replace("B:", f"demo/b{number}.cu:")
        + (
            f"\n  while linking m{number} for sm_90\n"
            "  hint: use the same declaration as in the definition, in all inputs"
        )
        for number, (_a, _b, told) in enumerate(UNLIKE.values())
    ]
    assert sorted(each.partition(": ")[2] for each in found) == sorted(expected)


def test_what_nvlink_takes_is_linked(tmp_path: Path) -> None:
    files = pipeline.build(project_of(tmp_path, *pairs(ALIKE)))
    assert sum(name.endswith(".cubin") for name in files) == len(ALIKE)


def test_what_is_defined_twice_and_differently_is_told_once(tmp_path: Path) -> None:
    files = {"a.cu": "__device__ int v[4];\n" + K.format("v[*p]"), "b.cu": "__device__ int v[8];\n"}
    (told,) = failure(tmp_path, files, module("m", *files, mode="rdc"))
    assert "'v' is defined more than once, by demo/a.cu:1 and by demo/b.cu:1\n" in told


SIZED = "extern __device__ int v[8];\n" + K.format("v[*p]")
V_PTX = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .global .align 4 .b8 v[16];\n"


@pytest.mark.parametrize(
    ("mode", "told"),
    [
        ("rdc", "these inputs do not declare the same size of 'v': demo/a.cu:1, demo/h.ptx:4"),
        ("lto", "these inputs do not declare the same size of 'v': demo/a.cu:1, demo/h.ptx:4"),
    ],
)
def test_what_only_the_linker_sees_is_told_with_the_inputs_that_it_can_be(
    tmp_path: Path, mode: str, told: str
) -> None:
    files = {"a.cu": SIZED, "h.ptx": V_PTX}
    (found,) = failure(tmp_path, files, module("m", "a.cu", "h.ptx", mode=mode))
    assert found.splitlines()[0].partition(": ")[2] == told


def test_sizes_that_lto_finds_to_differ_are_told_with_both_places(tmp_path: Path) -> None:
    files = {"a.cu": SIZED, "b.cu": f"{LINES}__device__ int v[4];\n"}
    (found,) = failure(tmp_path, files, module("m", *files, mode="lto"))
    assert found.splitlines()[0].partition(": ")[2] == (
        "'v' is declared differently: it has 32 bytes in demo/a.cu:1, and has 16 bytes in demo/b.cu:3"
    )


def fatbin(cubin: bytes, arch: int) -> bytes:
    """Return a fatbin with one cubin, as `fatbinary` writes it."""
    entry = struct.pack("<HHIQQHHIQQQQ", 2, 0x101, 64, len(cubin), 0, 7, 1, arch, 0, 0x11, 0, 0)
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(entry) + len(cubin)) + entry + cubin


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (SIZED, "these inputs do not declare the same size of 'v': demo/a.cu:1, lib/v.fatbin"),
        (
            "__device__ int v[4];\n" + K.format("v[*p]"),
            "'v' is defined more than once, by demo/a.cu:1 and by lib/v.fatbin",
        ),
        (SIZED.replace("8", "4"), None),
    ],
)
def test_what_a_fatbin_defines_is_compared_too(tmp_path: Path, text: str, told: str | None) -> None:
    sources = {"a.cu": K.format("1"), "b.cu": "__device__ int v[4];\n"}
    project = project_of(tmp_path, sources, module("m", *sources, mode="rdc"))
    results = pipeline.attempt(project, pipeline.make_plan(project))
    cubin = next(hit.data for unit, hit in results.done.items() if unit.module.name == "m/demo/b.cu")
    write_tree(tmp_path, {"lib/v.fatbin": fatbin(cubin, 90)})
    options = module("m", "a.cu", mode="rdc", link=["lib/v.fatbin"])
    files = {"a.cu": text, "b.cu": SAXPY}
    if told is None:
        assert "m.sm_90.cubin" in pipeline.build(project_of(tmp_path, files, options))
        return
    (found,) = failure(tmp_path, files, options)
    assert found.splitlines()[0].partition(": ")[2] == told


@pytest.mark.parametrize("by", ["", ", by demo/a.cu:1"])
def test_inputs_whose_symbols_cannot_be_read_are_named_as_what_may_define_a_symbol(
    tmp_path: Path, by: str
) -> None:
    sources = {"a.cu": K.format("1"), "b.cu": "__device__ int v[4];\n"}
    project = project_of(tmp_path, sources, module("m", *sources, mode="rdc"))
    results = pipeline.attempt(project, pipeline.make_plan(project))
    cubin = next(hit.data for unit, hit in results.done.items() if unit.module.name == "m/demo/b.cu")
    files = ["lib/v.fatbin", "lib/w.fatbin"]
    write_tree(tmp_path, dict.fromkeys(files, fatbin(cubin, 90)))
    text = f"{'' if by else 'extern '}__device__ int v[4];\n" + K.format("v[*p]")
    (told,) = failure(tmp_path, {"a.cu": text, "b.cu": SAXPY}, module("m", "a.cu", mode="rdc", link=files))
    assert told.splitlines()[0].partition(": ")[2] == (
        f"'v' is defined more than once{by}; these inputs may define it: {', '.join(files)}"
    )


def test_a_symbol_that_no_source_names_is_told_with_its_inputs(tmp_path: Path) -> None:
    _project, found, _results = links(
        tmp_path, {"a.cu": USER, "b.cu": ADD}, module("m", "a.cu", "b.cu", mode="rdc")
    )
    log = "error   : Size doesn't match for '_Z1fi' in 'x', first specified in 'x'"
    assert told_of(found, Result(0, ok=False, log=log)) == [
        "these inputs do not declare the same size of 'f(int)' (_Z1fi): demo/a.cu:1, demo/b.cu:1"
    ]
    assert told_of(found, Result(0, ok=False, log=log.replace("_Z1fi", "k"))) == [
        "these inputs do not declare the same size of 'k': demo/a.cu:1"
    ]
    assert linking._place(found.ready[0], "nowhere", "demo/a.cu") == "demo/a.cu"


@pytest.mark.parametrize(
    ("catches", "said"),
    [("", "False "), ("del os.memfd_create", "True")],
    ids=["caught", "not caught"],
)
def test_what_the_linker_prints_is_heard_where_the_system_can_catch_it(
    tmp_path: Path, catches: str, said: str
) -> None:
    """In a process of its own, as in builds: it was seen to end one in which many tests had run."""
    files = {"a.cu": SIZED, "h.ptx": V_PTX}
    _project, found, _results = links(tmp_path, files, module("m", *files, mode="rdc"))
    (job,) = found.ready
    _ = job.toolkit.nvjitlink
    inputs = [*found.contents(job.unit)]
    script = (
        f"import os\nfrom hatch_cubin.toolkit import worker\n{catches}\n"
        f"outcome = worker._linked([b'-arch=sm_90'], {inputs!r})\n"
        "print(outcome.ok, outcome.log.decode())\n"
    )
    (tmp_path / "link.py").write_text(script)
    done = run(sys.executable, "link.py", cwd=tmp_path)
    assert done.stdout.startswith(said)
    assert ("Size doesn't match for 'v'" in done.stdout) is (not catches)
    assert "Size doesn't match for 'v'" in done.stderr


def test_where_nothing_can_be_caught_nothing_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "memfd_create")
    with worker._caught_stderr() as printed:
        os.write(2, b"a word of the test for the terminal\n")
    assert printed == b""


# What hardly a build meets: what was proven changes before it is linked, the linker says what nobody knows.


def links(root: Path, files: Mapping[str, str | bytes], options: str) -> tuple[Project, Links, Results]:
    """Return the one link of a project whose objects are compiled, before it is made."""
    project = project_of(root, files, options)
    plan = pipeline.make_plan(project)
    results = pipeline.attempt(project, plan)
    (job,) = (job for job in plan.jobs if job.linked)
    results.done.pop(job.unit, None)
    results.failed.clear()
    return project, Links(project, [job], results), results


def told_of(found: Links, result: Result) -> list[str]:
    (job,) = found.ready
    outcome = found.outcome_of(job, result)
    assert isinstance(outcome, list)
    return [each.text for each in outcome]


def test_whatever_the_linker_says_is_told(tmp_path: Path) -> None:
    _project, found, _results = links(
        tmp_path, {"a.cu": USER, "b.cu": ADD}, module("m", "a.cu", "b.cu", mode="rdc")
    )

    def failed(log: str) -> list[str]:
        return told_of(found, Result(0, ok=False, log=log))

    assert failed("") == ["the linker failed without a message"]
    assert failed("something odd") == ["something odd"]
    assert failed("fatal: the compiler crashed (signal 11)") == ["the compiler crashed (signal 11)"]
    assert failed("ERROR 4: bad input: lib/x.cubin") == [
        "nvJitLink cannot read lib/x.cubin: check that this file was built for sm_90"
    ]
    assert failed("ERROR in LTOIR arch newer than target arch") == [
        "an input of this link contains LTO-IR of a newer compiler, or for a newer arch"
    ]
    assert failed("error: Multiple definition of 'nowhere'") == [
        "'nowhere' is defined more than once, probably by a header that several sources include"
    ]
    assert failed("error: Undefined reference to 'nowhere' in 'x'") == ["nothing defines 'nowhere'"]
    assert told_of(found, Result(0, ok=True, output=b"no cubin")) == ["the linker's result is not a cubin"]


def test_an_object_whose_bytes_are_not_those_that_were_proven_is_not_linked(tmp_path: Path) -> None:
    project, found, results = links(
        tmp_path, {"a.cu": USER, "b.cu": ADD}, module("m", "a.cu", "b.cu", mode="rdc")
    )
    (job,) = found.ready
    unit = job.linked[1].unit
    assert unit is not None
    swapped = Compiled(results.done[unit].data[:-1], {})
    vars(swapped)["sha256"] = results.done[unit].sha256
    results.done[unit] = swapped
    again = Links(project, [job], results)
    assert again.ready == []
    assert [each.text for each in results.failed[0][1]] == [
        ("the compiled result of demo/b.cu was changed during the build")
    ]


def test_a_file_that_changes_while_the_build_runs_is_not_linked(tmp_path: Path) -> None:
    options = module("m", "a.cu", mode="rdc", link=["lib/add.ptx"])
    write_tree(tmp_path, {"lib/add.ptx": ADD_PTX})
    project, found, results = links(tmp_path, {"a.cu": USER}, options)
    for change in (
        lambda: write_tree(tmp_path, {"lib/add.ptx": f"{ADD_PTX} "}),
        (tmp_path / "lib/add.ptx").unlink,
    ):
        results.failed.clear()
        change()
        assert Links(project, found.ready, results).ready == []
        assert [each.text for each in results.failed[0][1]] == ["lib/add.ptx was changed during the build"]


def test_lto_ir_of_a_newer_compiler_is_told_before_it_is_linked(tmp_path: Path) -> None:
    project = project_of(tmp_path, {"a.cu": USER, "b.cu": ADD}, module("m", "a.cu", "b.cu", mode="lto"))
    results = pipeline.attempt(project, pipeline.make_plan(project))
    data = next(hit.data for unit, hit in results.done.items() if unit.module.name == "m/demo/b.cu")
    write_tree(tmp_path, {"lib/old.ltoir": data, "lib/new.ltoir": data[:5] + bytes([data[5] + 1]) + data[6:]})
    options = module("m", "a.cu", mode="lto", link=["lib/old.ltoir"])
    options += module("newer", "a.cu", mode="lto", link=["lib/new.ltoir"])
    options += module("r", "a.cu", mode="rdc", link=["lib/old.ltoir"])
    told = failure(tmp_path, {"a.cu": USER, "b.cu": SAXPY}, options)
    assert [re.sub(r"nvJitLink [\d.]+", "nvJitLink", each.splitlines()[0]) for each in told] == [
        "pyproject.toml:20: lib/new.ltoir contains LTO-IR of a compiler that is newer than nvJitLink",
        "pyproject.toml:26: lib/old.ltoir contains LTO-IR, which can be linked only with mode = 'lto'",
    ]


def object_for(root: Path, arch: str) -> bytes:
    """Return `f` as a relocatable cubin for one arch, as a build has cached it."""
    cache = root / arch / "cache"
    options = module("m", "a.cu", "b.cu", mode="rdc", archs=[arch])
    project = make_project(
        root / arch, {"a.cu": USER, "b.cu": ADD}, f"{ONE}{options}", HATCH_CUBIN_CACHE_DIR=str(cache)
    )
    pipeline.build(project)
    entries = [path.read_bytes() for path in cache.glob("entries/*/*")]
    (found,) = (
        data
        for data in entries
        if data.startswith(b"\x7fELF")
        and not elf.read_cubin(data).loadable
        and not elf.read_cubin(data).kernels
    )
    return found


@pytest.mark.parametrize(
    ("own", "arch"),
    [("sm_90a", "sm_90"), ("sm_100f", "sm_100"), ("sm_100a", "sm_100f")],
)
def test_code_that_other_gpus_lack_is_no_part_of_code_for_them(tmp_path: Path, own: str, arch: str) -> None:
    files: dict[str, str | bytes] = {"a.cu": USER, "../lib/f.cubin": object_for(tmp_path, own)}
    options = module("m", "a.cu", mode="rdc", link=["lib/f.cubin"], archs=[arch])
    (told,) = failure(tmp_path / "project", files, options)
    assert told.splitlines()[0].endswith(
        f"lib/f.cubin contains code for {own}, which cannot be linked into code for {arch}"
    )
    assert told.splitlines()[-1] == f"  hint: use a file that was built for {arch}, or list {own} in 'archs'"


@pytest.mark.parametrize(("own", "arch"), [("sm_90a", "sm_90a"), ("sm_90", "sm_90a"), ("sm_100f", "sm_100a")])
def test_code_that_runs_wherever_the_result_runs_is_linked(tmp_path: Path, own: str, arch: str) -> None:
    files: dict[str, str | bytes] = {"a.cu": USER, "../lib/f.cubin": object_for(tmp_path, own)}
    options = module("m", "a.cu", mode="rdc", link=["lib/f.cubin"], archs=[arch])
    built = pipeline.build(project_of(tmp_path / "project", files, options))
    assert arch_of(built[f"m.{arch}.cubin"]) == arch


def test_a_linkers_result_for_another_arch_is_refused(tmp_path: Path) -> None:
    options = module("m", "a.cu", "b.cu", mode="rdc", archs=["sm_90", "sm_90a"])
    files = {"a.cu": USER, "b.cu": ADD}
    other = pipeline.build(project_of(tmp_path / "other", files, options))["m.sm_90a.cubin"]
    _project, found, _results = links(tmp_path, files, module("m", "a.cu", "b.cu", mode="rdc"))
    assert told_of(found, Result(0, ok=True, output=other)) == [
        "the linker's result is for sm_90a, not for sm_90"
    ]
