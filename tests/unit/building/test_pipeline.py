"""Whole builds with the real compiler: projects in, bundles or errors out."""

from __future__ import annotations

import ctypes
import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.compiling import executor, plan_warnings
from hatch_cubin.compiling import tasks as tasks_module
from hatch_cubin.compiling.executor import Result
from hatch_cubin.config import nvrtc_options
from hatch_cubin.cubin import elf
from hatch_cubin.errors import (
    CompileError,
    ConfigError,
    HatchCubinError,
    Location,
    MissError,
    SourceError,
    ToolchainError,
)
from hatch_cubin.headers import includes
from hatch_cubin.keys.jobs import Job, expand, make_jobs
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit import toolkit as toolkit_module
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit, compiler_options
from tests.cubins import assembled
from tests.helpers import COPY_PTX, SAXPY, SCALE, TABLE, Coded, found, make_project, refusal, write_tree

pytestmark = pytest.mark.nvrtc

Files = Mapping[str, str | bytes]
RULE = "[[tool.hatch.build.hooks.cubin.source]]\n"
ONE = 'archs = ["sm_90"]\n'
TWO = 'archs = ["sm_80", "sm_90"]\n'


@pytest.fixture(scope="module")
def compiler() -> str:
    return f"NVRTC {Toolkit(None).nvrtc}"


def project_of(
    root: Path, files: Files, options: str = TWO, said: list[str] | None = None, **environ: str
) -> Project:
    project = make_project(root, files, options, **environ)
    heard: Callable[[str], object] = ([] if said is None else said).append
    return dataclasses.replace(project, warn=heard)


def build(root: Path, files: Files, options: str = TWO, **environ: str) -> dict[str, bytes]:
    return pipeline.build(project_of(root, files, options, None, **environ))


def jobs_of(project: Project) -> tuple[Job, ...]:
    return pipeline.make_plan(project).jobs


def open_and_get(project: Project, job: Job) -> bool:
    with pipeline.open_cache(project) as cache:
        return cache.get(job.keys.key) is not None


def failure(root: Path, files: Files, options: str = TWO, **environ: str) -> str:
    return str(refusal(CompileError, build, root, files, options, **environ))


def report(root: Path, files: Files, options: str = TWO, **environ: str) -> dict[str, Any]:
    path = root / "report.json"
    build(root, files, options, HATCH_CUBIN_REPORT=str(path), **environ)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def cubins(bundle: Mapping[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in bundle.items() if name.endswith((".cubin", ".ptx"))}


def test_every_kind_of_source_and_arch_is_built(tmp_path: Path) -> None:
    files = {
        "saxpy.cu": SAXPY,
        "scale.cu": SCALE,
        "copy.ptx": COPY_PTX,
        "sum.cu": "__global__ void s(SCALAR *x) {}",
    }
    options = f"""\
        archs = ["sm_90a", "compute_90"]
        {RULE}
        path = "demo/scale.cu"
        instantiate = ["scale<float,  4>", "scale<int,2>"]
        {RULE}
        path = "demo/sum.cu"
        archs = ["sm_80"]
        variants = {{ SCALAR = ["float", "double"] }}
        """
    bundle = build(tmp_path, files, options)
    assert sorted(cubins(bundle)) == [
        "copy.compute_80.ptx",
        "copy.sm_90a.cubin",
        "saxpy.compute_90.ptx",
        "saxpy.sm_90a.cubin",
        "scale.compute_90.ptx",
        "scale.sm_90a.cubin",
        "sum.SCALAR-double.sm_80.cubin",
        "sum.SCALAR-float.sm_80.cubin",
    ]
    assert bundle["copy.compute_80.ptx"] == COPY_PTX.encode()
    assert b"\0" not in bundle["saxpy.compute_90.ptx"]
    assert elf.read_cubin(bundle["scale.sm_90a.cubin"]).kernels == (
        "_Z5scaleIfLi4EEvPT_",
        "_Z5scaleIiLi2EEvPT_",
    )
    manifest = json.loads(bundle["manifest.json"])
    assert {name: sorted(module["kernels"].items()) for name, module in manifest["modules"].items()} == {
        "copy": [("copy", "copy")],
        "saxpy": [("saxpy", "saxpy")],
        "scale": [("scale<float, 4>", "_Z5scaleIfLi4EEvPT_"), ("scale<int, 2>", "_Z5scaleIiLi2EEvPT_")],
        "sum[SCALAR=double]": [("s", "_Z1sPd")],
        "sum[SCALAR=float]": [("s", "_Z1sPf")],
    }
    toolkit = Toolkit(None)
    assert manifest["toolchain"] == {
        "cuda_core": toolkit.core,
        "nvjitlink": None,
        "nvrtc": toolkit.nvrtc,
        "ptxas": toolkit.nvrtc,
    }


@pytest.mark.parametrize("comment", [b"\xe4 \xff", "ä".encode(), b"plain"], ids=["latin-1", "utf-8", "ascii"])
def test_ptx_in_any_encoding_gives_the_bytes_of_ptxas(tmp_path: Path, comment: bytes) -> None:
    # With a .loc, the cubin has a copy of the text.
    text = COPY_PTX.replace("ret;", ".loc 1 1 0\nret;").encode() + b'.file 1 "x.cu"\n/* ' + comment + b" */\n"
    text = text.replace(b"sm_80", b"sm_90").replace(b"7.0", b"8.0")
    bundle = build(tmp_path, {"copy.ptx": text}, ONE)
    assert cubins(bundle)["copy.sm_90.cubin"] == assembled(tmp_path, text)


def test_the_encoding_of_ptx_is_part_of_its_key(tmp_path: Path) -> None:
    found = [
        jobs_of(project_of(tmp_path / encoding, {"copy.ptx": f"{COPY_PTX}// ä\n".encode(encoding)}, TWO))
        for encoding in ("utf-8", "latin-1")
    ]
    assert not {job.keys.key for job in found[0]} & {job.keys.key for job in found[1]}
    assert {job.module_digest for job in found[0]}.isdisjoint(job.module_digest for job in found[1])


@pytest.mark.parametrize("option", ["-e=one", "--entry=one"])
def test_ptxas_may_be_told_which_kernels_to_make(tmp_path: Path, option: str) -> None:
    one, two = (SAXPY.replace("saxpy", name) for name in ("one", "two"))
    options = f'{ONE}options = {{ ptxas_options = ["{option}"] }}\n'
    bundle = build(tmp_path, {"k.cu": one + two}, options)
    assert elf.read_cubin(cubins(bundle)["k.sm_90.cubin"]).kernels == ("one",)


def test_all_errors_of_all_units_come_in_one_run(tmp_path: Path, compiler: str) -> None:
    files = {
        "a.cu": "__global__ void a(int *x) {\n  *x = one;\n  *x = two;\n}\n",
        "b.ptx": COPY_PTX.replace("ret;", "\nbogus;"),
        "c.cu": '#include "sub/c.h"\n',
        "sub/c.h": "\n\nint broken(;\n",
        "d.cu": "#include <absent.h>\n",
        "fine.cu": SAXPY,
    }
    lines = failure(tmp_path, files).splitlines()
    places = [line for line in lines if line.startswith("demo/")]
    assert places[:5] == [
        'demo/a.cu:2: identifier "one" is undefined',
        'demo/a.cu:3: identifier "two" is undefined',
        "demo/b.ptx:5: Not a name of any known instruction: 'bogus'",
        "demo/sub/c.h:3: " + places[3].partition(": ")[2],
        'demo/d.cu:1: could not open source file "absent.h"' if "could" in places[4] else places[4],
    ]
    assert [line for line in lines if "while compiling a" in line] == [
        f"  while compiling a for sm_80, sm_90 ({compiler})"
    ] * 2


def test_an_error_on_some_archs_says_which_archs_work(tmp_path: Path, compiler: str) -> None:
    files = {"k.cu": "#if __CUDA_ARCH__ < 900\n#error needs sm_90\n#endif\n" + SAXPY}
    options = 'archs = ["sm_90", "sm_80", "compute_100", "sm_89"]'
    assert failure(tmp_path, files, options) == (
        "demo/k.cu:2: #error directive: needs sm_90\n"
        "    #error needs sm_90\n"
        "     ^\n"
        f"  while compiling k for sm_80, sm_89 ({compiler})\n"
        "  hint: the source compiles with these archs:\n"
        "    [[tool.hatch.build.hooks.cubin.source]]\n"
        '    path = "demo/k.cu"\n'
        '    archs = ["sm_90", "compute_100"]'
    )


def test_an_instruction_of_one_gpu_says_which_arch_has_it(tmp_path: Path, compiler: str) -> None:
    files = {"k.cu": 'extern "C" __global__ void k() { asm volatile("wgmma.fence.sync.aligned;"); }\n'}
    assert failure(tmp_path, files, 'archs = ["sm_90"]') == (
        "demo/k.cu:1: Instruction 'wgmma.fence' not supported on .target 'sm_90'\n"
        "      wgmma.fence.sync.aligned;\n"
        f"  while compiling k for sm_90 ({compiler})\n"
        "  hint: the source compiles with these archs:\n"
        "    [[tool.hatch.build.hooks.cubin.source]]\n"
        '    path = "demo/k.cu"\n'
        '    archs = ["sm_90a"]'
    )


GARBAGE = """\
#include "a.cuh"
extern "C" __global__ void k(unsigned *x) {
  of_header(x);
  asm volatile("total.garbage %0;" :: "r"(*x));
}
"""
A_HEADER = '#pragma once\n__device__ inline void of_header(unsigned *x) { ++*x; asm("bogus;"); }\n'


@pytest.mark.parametrize("archs", [["compute_90"], ["sm_90"], ["compute_90", "sm_90"]])
def test_what_no_assembler_takes_is_an_error_for_ptx_too_and_told_once(
    tmp_path: Path, compiler: str, archs: list[str]
) -> None:
    files = {"k.cu": GARBAGE, "a.cuh": A_HEADER}
    while_compiling = f"  while compiling k for {', '.join(archs)} ({compiler})\n"
    assert f"{failure(tmp_path, files, f'archs = {archs}')}\n" == (
        "demo/a.cuh:2: Not a name of any known instruction: 'bogus'\n"
        f"      bogus;\n{while_compiling}"
        "demo/k.cu:4: Unknown modifier '.garbage'\n"
        f"      total.garbage %…;\n{while_compiling}"
        "demo/k.cu:4: Not a name of any known instruction: 'total'\n"
        f"      total.garbage %…;\n{while_compiling}"
    )


def test_an_option_that_the_compiler_does_not_take_is_shown_in_the_table(
    tmp_path: Path, compiler: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A release that is older than the newest standard that a table may have refuses it like this one.
    monkeypatch.setattr(nvrtc_options, "PATTERNS", {})
    option = 'options.std = "c++42"'
    found = failure(tmp_path, {"k.cu": SAXPY}, f'archs = ["sm_90"]\n{option}')
    line = (tmp_path / "pyproject.toml").read_text().splitlines().index(option) + 1
    assert found == (
        f"pyproject.toml:{line}: invalid value for --std(-std)\n  while compiling k for sm_90 ({compiler})"
    )


NO_KERNEL = (
    "the source has only device functions: write a kernel with __global__; "
    "a project without kernels does not need hatch-cubin"
)
NOT_NAMED = (
    "a template is compiled only if 'instantiate' lists it; for example:\n"
    "    [[tool.hatch.build.hooks.cubin.source]]\n"
    '    path = "demo/k.cu"\n'
    '    instantiate = ["scale<float, 4>"]'
)


@pytest.mark.parametrize(
    ("source", "hint"),
    [
        (SCALE, NOT_NAMED),
        ("__device__ int f() { return 1; }\n", NO_KERNEL),
    ],
    ids=["template", "device function"],
)
@pytest.mark.parametrize("arch", ["sm_90", "compute_90"])
def test_a_result_without_a_kernel_is_an_error(
    tmp_path: Path, compiler: str, source: str, hint: str, arch: str
) -> None:
    assert failure(tmp_path, {"k.cu": source}, f'archs = ["{arch}"]') == (
        "demo/k.cu: the compiled code does not contain a kernel\n"
        f"  while compiling k for {arch} ({compiler})\n"
        f"  hint: {hint}"
    )


def test_a_build_says_which_archs_lack_a_kernel_be_they_cached_or_not(tmp_path: Path) -> None:
    later = 'extern "C" __global__ void later(int *x) { *x = 1; }\n'
    files = {"k.cu": f"{SAXPY}#if __CUDA_ARCH__ >= 900\n{later}#endif\n"}
    for _ in range(2):
        said: list[str] = []
        pipeline.build(dataclasses.replace(project_of(tmp_path, files), inform=said.append))
        assert said[0] == "demo/k.cu: the code for sm_80 does not contain 1 of its 2 kernels: later"
        assert len(said) == 2


def test_a_build_names_the_header_of_a_kernel_that_two_modules_have(tmp_path: Path) -> None:
    files = {
        "fill.cuh": 'extern "C" __global__ void fill(int *p) { *p = 0; }',
        "a.cu": '#include "fill.cuh"\n',
        "b.cu": '#include "fill.cuh"\nextern "C" __global__ void b(int *p) { *p = 1; }',
    }
    said: list[str] = []
    pipeline.build(dataclasses.replace(project_of(tmp_path, files, ONE), inform=said.append))
    assert "move fill from demo/fill.cuh:1" in said[0]


def with_options(monkeypatch: pytest.MonkeyPatch, *more: bytes) -> None:
    def options(*args: Any) -> tuple[bytes, ...]:
        return (*compiler_options(*args), *more)

    monkeypatch.setattr(tasks_module, "compiler_options", options)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (b"-rdc=true", "the compiled code is relocatable, and cannot be loaded"),
        (b"-dlto", "the compiler's result is not a cubin"),
    ],
)
def test_a_result_that_cannot_be_loaded_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: bytes, said: str
) -> None:
    with_options(monkeypatch, option)
    assert failure(tmp_path, {"k.cu": SAXPY}).startswith(f"demo/k.cu: {said}\n")


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "fatal: the compiler crashed (signal 11)\nsaid before",
            "demo/k.cu: the compiler crashed (signal 11)\n  said before\n",
        ),
        ("gibberish\nmore of it", "demo/k.cu: gibberish\n  more of it\n"),
        ("demo/k.cu(1): warning: only this", "demo/k.cu: demo/k.cu(1): warning: only this\n"),
        ("", "demo/k.cu: the compiler failed without a message\n"),
    ],
    ids=["crash", "no diagnostic", "warning only", "silence"],
)
def test_a_failure_is_worded_whatever_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: str, expected: str
) -> None:
    def fail(upcoming: Any, *_setup: object) -> Iterator[Result]:
        while (task := upcoming(None, [])) is not None:
            yield Result(task.id, ok=False, log=log)

    monkeypatch.setattr(executor, "run", fail)
    assert failure(tmp_path, {"k.cu": SAXPY}).startswith(expected)


def test_a_template_that_cannot_be_instantiated_is_named(tmp_path: Path, compiler: str) -> None:
    options = TWO + RULE + 'path = "demo/k.cu"\ninstantiate = ["scale<flot, 4>"]'
    said = failure(tmp_path, {"k.cu": SCALE}, options)
    assert said == (
        "pyproject.toml:13: instantiate: 'scale<flot, 4>': identifier \"flot\" is undefined\n"
        f"  while compiling k for sm_80, sm_90 ({compiler})\n"
        "  hint: the kernel's template is 'template <class T, int N>' (demo/k.cu:1): "
        'write for example "scale<float, 4>"'
    )


def test_warnings_are_said_once_for_all_archs(tmp_path: Path) -> None:
    said: list[str] = []
    source = "__global__ void k(int *x) {\n  int unused;\n  *x = 1;\n}\n"
    pipeline.build(project_of(tmp_path, {"k.cu": source}, said=said))
    (warning,) = said
    assert warning.splitlines() == [
        'demo/k.cu:2: variable "unused" was declared but never referenced [compiler-warning]',
        "      int unused;",
        "          ^",
        "  hint: to silence this warning: options = { diag-suppress = [177] }",
    ]
    said.clear()
    silenced = TWO + "options = { diag-suppress = [177] }"
    pipeline.build(project_of(tmp_path, {"k.cu": source}, silenced, said))
    assert said == []


def test_a_warning_about_code_without_a_defined_result_has_no_hint_to_silence_it(tmp_path: Path) -> None:
    said: list[str] = []
    source = "__device__ int f() {}\n__global__ void k(int *x) { *x = f(); }\n"
    pipeline.build(project_of(tmp_path, {"k.cu": source}, said=said))
    warning, *_about_empty_kernel = sorted(said)
    assert warning.startswith('demo/k.cu:1: missing return statement at end of non-void function "f"')
    assert "hint:" not in warning


def test_a_macro_of_the_table_that_a_source_defines_again_is_a_warning(tmp_path: Path) -> None:
    said: list[str] = []
    source = "#define N 1\n__global__ void k(int *x) { *x = N; }\n"
    pipeline.build(project_of(tmp_path, {"k.cu": source}, TWO + "define = { N = 2 }", said))
    (warning,) = said
    assert warning.splitlines()[0] == 'demo/k.cu:1: incompatible redefinition of macro "N" [compiler-warning]'
    kept = "  hint: put #ifndef N before this definition and #endif after it, to keep the configured value"
    assert warning.splitlines()[-1] == kept


def test_variants_that_are_the_same_code_are_named(tmp_path: Path) -> None:
    said: list[str] = []
    options = TWO + RULE + 'path = "demo/k.cu"\nvariants = { BLOCk = [64, 128] }'
    project = dataclasses.replace(project_of(tmp_path, {"k.cu": SAXPY}, options), inform=said.append)
    pipeline.build(project)
    assert said[0] == "demo/k.cu: BLOCk has no effect: its 2 variants have the same code"


TELLTALE = """\
#include "inc/a.h"
#include <cuda_fp16.h>
extern "C" __global__ void k(int *x) {
  assert(*x);
  printf("%s", __FILE__);
  *x = from_header(x);
}
"""
ASSERTING = "__device__ inline int from_header(int *x) { assert(x[1] > 0); return __LINE__; }\n"


@pytest.mark.linux
@pytest.mark.parametrize("option", ["lineinfo", "debug"])
def test_two_builds_in_two_folders_give_the_same_bytes(tmp_path: Path, option: str) -> None:
    files = {"k.cu": TELLTALE, "inc/a.h": ASSERTING}
    options = f'archs = ["sm_90"]\noptions = {{ {option} = true }}'
    bundles = []
    for name in ("here", "there/and/deep er"):
        cache = tmp_path / name / "cache"
        bundles.append(build(tmp_path / name, files, options, HATCH_CUBIN_CACHE_DIR=str(cache)))
    assert bundles[0] == bundles[1]
    assert not [name for name, data in bundles[0].items() if os.fsencode(tmp_path) in data]


@pytest.mark.linux
def test_line_information_from_copies_of_headers_changes_no_include(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Releases that put the times of headers into it read copies, of which all have one time."""
    monkeypatch.setattr(tasks_module, "_FIRST_WITHOUT_TIMES", (99, 0))
    headers = {"inc/of_path.h": "", "headers/a.h": "", "headers/b/c.h": '#include "../a.h"\n'}
    own = {f"demo/{name}": text for name, text in headers.items()}
    outside = {"outside/near.h": '#include "nearer.h"\n', "outside/nearer.h": ""}
    write_tree(tmp_path, {**outside, **{f"project/{name}": text for name, text in own.items()}})
    asked = ["../headers/b/c.h", "../../../outside/near.h"]
    text = "".join(f'#include "{name}"\n' for name in asked) + "#include <../inc/of_path.h>\n" + SAXPY
    options = f'{ONE}options = {{ lineinfo = true }}\ninclude-dirs = ["demo/empty"]'
    (tmp_path / "project/demo/empty").mkdir()
    real, copied = executor.run, list[bool]()

    def run(upcoming: Any, setup: executor.Setup, *more: Any) -> Any:
        assert Path(setup.folders[77]) != tmp_path / "project"
        copied.extend(Path(setup.folders[77], "demo", name).is_dir() for name in ("kernels", "empty"))
        return real(upcoming, setup, *more)

    monkeypatch.setattr(executor, "run", run)
    bundle = build(tmp_path / "project", {"kernels/k.cu": text}, options)
    assert ([*cubins(bundle)], copied) == (["k.sm_90.cubin"], [True, True])


@pytest.mark.parametrize(
    "first_with_seed", [toolkit_module._FIRST_WITH_SEED, (99, 0)], ids=["as it is", "no seed"]
)
def test_templates_in_anonymous_namespaces_have_one_name_in_every_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first_with_seed: tuple[int, int]
) -> None:
    monkeypatch.setattr(toolkit_module, "_FIRST_WITH_SEED", first_with_seed)
    files = {"k.cu": "namespace { template <class T> __global__ void hidden(T *x) { *x = 1; } }\n"}
    options = f'archs = ["sm_90"]\n{RULE}path = "demo/k.cu"\ninstantiate = ["hidden<int>"]'
    caches = [str(tmp_path / name) for name in ("one", "two")]
    first, second = (build(tmp_path, files, options, HATCH_CUBIN_CACHE_DIR=cache) for cache in caches)
    assert first == second
    (kernel,) = elf.read_cubin(first["k.sm_90.cubin"]).kernels
    assert ("hidden" in kernel, b"namesake" in first["k.sm_90.cubin"]) == (True, False)


@pytest.fixture
def compiles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the arch of each compile."""
    real, given = executor.run, list[str]()

    def run(upcoming: Any, *more: Any) -> Any:
        def heard(*state: Any) -> Any:
            if (task := upcoming(*state)) is not None:
                given.append(task.options[0].decode())
            return task

        return real(heard, *more)

    monkeypatch.setattr(executor, "run", run)
    return given


PAIR = 'archs = ["sm_80", "compute_80", "sm_90"]\n'


def test_one_compile_serves_the_cubin_and_the_ptx_of_an_arch(tmp_path: Path, compiles: list[str]) -> None:
    files = {"k.cu": SAXPY, "copy.ptx": COPY_PTX}
    cold = report(tmp_path / "cold", files, PAIR)
    assert (cold["compiled"], sorted(compiles)) == (6, ["-arch=sm_80"] * 2 + ["-arch=sm_90"] * 2)
    compiles.clear()
    warm = report(tmp_path / "warm", files, PAIR)
    assert (warm["hits"], compiles) == (6, [])


def test_what_one_compile_gives_is_what_two_give(tmp_path: Path, compiles: list[str]) -> None:
    files, own = {"k.cu": SAXPY}, {"HATCH_CUBIN_CACHE_DIR": str(tmp_path / "own")}
    both = cubins(build(tmp_path / "both", files, 'archs = ["sm_90", "compute_90"]'))
    ptx = cubins(build(tmp_path / "ptx", files, 'archs = ["compute_90"]', **own))
    then = report(tmp_path / "then", files, 'archs = ["sm_90", "compute_90"]', **own)
    assert compiles == ["-arch=sm_90"] * 3
    assert (then["hits"], then["compiled"]) == (1, 1)
    cubin = cubins(build(tmp_path / "cubin", files, 'archs = ["sm_90"]', **own))
    assert cubin | ptx == both


def test_a_build_that_fails_in_one_unit_keeps_the_others(tmp_path: Path) -> None:
    files = {"bad.cu": "bogus;", "fine.cu": SAXPY, "good.cu": SAXPY + "\n"}
    failure(tmp_path, files)
    mended = report(tmp_path, {**files, "bad.cu": SAXPY + "\n\n"})
    assert {unit["module"]: unit["hit"] for unit in mended["units"]} == {
        "bad": False,
        "fine": True,
        "good": True,
    }


def test_an_interrupted_build_keeps_what_was_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = executor.run

    def interrupted(tasks: Any, *setup: Any) -> Iterator[Result]:
        yield next(real(tasks, *setup))
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(executor, "run", interrupted)
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path, {"k.cu": SAXPY})
    assert report(tmp_path, {"k.cu": SAXPY})["hits"] == 1


def test_a_damaged_entry_is_built_again_with_one_warning(tmp_path: Path) -> None:
    first = build(tmp_path, {"k.cu": SAXPY})
    for path in Path(os.environ["HATCH_CUBIN_CACHE_DIR"]).rglob("entries/**/*"):
        if path.is_file() and path.read_bytes().startswith(b"\x7fELF"):
            path.write_bytes(b"\x7fELF")
    said: list[str] = []
    assert pipeline.build(project_of(tmp_path, {"k.cu": SAXPY}, said=said)) == first
    assert said == ["damaged cache entries, which are built again: 2"]
    said.clear()
    assert pipeline.build(project_of(tmp_path, {"k.cu": SAXPY}, said=said)) == first
    assert said == []


def test_names_that_two_module_tables_share_are_refused_before_anything_is_compiled(tmp_path: Path) -> None:
    table = f'[[{".".join(TABLE)}.module]]\nname = "m"\nmode = "rdc"\nsources = ["demo/k.cu"]\n'
    asked = project_of(tmp_path, {"k.cu": SAXPY, "other.cu": SAXPY}, f'archs = ["sm_90"]\n{table}{table}')
    with pytest.raises(
        SourceError, match=r"^pyproject\.toml:[0-9]+: the module name 'm' is already used by pyproject"
    ):
        pipeline.choose_plan(asked, in_part=True)


def test_a_cache_that_cannot_be_one_costs_a_warning_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    said: list[str] = []
    folder = str(tmp_path / "file")
    project = project_of(tmp_path / "p", {"k.cu": SAXPY}, said=said, HATCH_CUBIN_CACHE_DIR=folder)
    assert pipeline.build(project) == build(tmp_path / "p", {"k.cu": SAXPY})
    assert [line.startswith(f"the cache at {folder} cannot be used fully: ") for line in said] == [True]


def test_native_without_a_gpu_hides_no_other_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = ctypes.CDLL

    def load(name: str, *args: Any, **kwargs: Any) -> ctypes.CDLL:
        if name in ("libcuda.so.1", "nvcuda.dll"):
            raise OSError("no driver")
        return real(name, *args, **kwargs)

    monkeypatch.setattr(ctypes, "CDLL", load)
    project = project_of(tmp_path, {"k.cu": SAXPY}, 'archs = [\n"sm_50",\n"native",\n]')
    assert found(refusal(ToolchainError, pipeline.make_plan, project)) == [
        ("arch-not-supported", "pyproject.toml:11"),
        ("no-gpu-for-native", "pyproject.toml:12"),
    ]
    project = project_of(tmp_path, {"k.cu": SAXPY}, HATCH_CUBIN_ARCHS="sm_90 native")
    assert found(refusal(ToolchainError, pipeline.make_plan, project)) == [("no-gpu-for-native", "")]
    assert found(refusal(ToolchainError, expand, ["native"], Toolkit(None))) == [("no-gpu-for-native", "")]


def test_misses_can_be_forbidden(tmp_path: Path, compiler: str) -> None:
    files = {"a.cu": SAXPY, "b.cu": SAXPY + "\n"}
    build(tmp_path, {"a.cu": SAXPY})
    assert str(refusal(MissError, build, tmp_path, files, HATCH_CUBIN_REQUIRE_HITS="1")) == (
        "demo/b.cu: b for sm_80, sm_90 is not in the cache, but HATCH_CUBIN_REQUIRE_HITS is set\n"
        f"  hint: run 'hatch-cubin explain demo/b.cu' where {compiler} is installed, as in this build"
    )
    replaced = {"HATCH_CUBIN_REQUIRE_HITS": "1", "HATCH_CUBIN_ARCHS": "sm_75;sm_90"}
    assert "'hatch-cubin explain demo/b.cu --archs sm_75,sm_90'" in str(
        refusal(MissError, build, tmp_path, files, **replaced)
    )
    empty = {"HATCH_CUBIN_REQUIRE_HITS": "1", "HATCH_CUBIN_CACHE_DIR": "elsewhere"}
    hints = [each.hint or "" for each in refusal(MissError, build, tmp_path, files, **empty).problems]
    assert [hint.partition(" is empty: run 'hatch-cubin bake' first, or ")[0] for hint in hints] == [
        f"the cache {tmp_path / 'elsewhere'}"
    ] * 2
    filled = build(tmp_path, files, HATCH_CUBIN_REQUIRE_HITS="0")
    assert build(tmp_path, files, HATCH_CUBIN_REQUIRE_HITS="1") == filled


def fill_with_results_of(version: str, project: Project, *more: tuple[str, str]) -> None:
    """Put a result of each unit into the cache, as another version of the compiler makes it."""
    with pipeline.open_cache(project) as cache:
        for job in jobs_of(project):
            inputs = {**job.inputs, "compiler": version, **dict(more)}
            key = hashlib.sha256(job.keys.key + version.encode()).digest()
            cache.put(key, Compiled(b"made by another compiler", {"k": "k"}), inputs)


def release_of(version: str) -> str:
    return ".".join(version.split(".")[:2])


def test_a_cache_from_another_release_of_the_compiler_is_told_with_both_versions(
    tmp_path: Path, compiler: str
) -> None:
    strict = {"HATCH_CUBIN_REQUIRE_HITS": "1"}
    project = project_of(tmp_path, {"a.cu": SAXPY, "copy.ptx": COPY_PTX}, ONE, None, **strict)
    for version in ("12.10.7", "12.9.5", "not a version"):
        fill_with_results_of(version, project)
    ptxas = compiler.replace("NVRTC", "ptxas")
    release = 'toolkit = "12.10"'
    assert [*refusal(MissError, pipeline.build, project).problems] == [
        Coded("not-in-cache", "demo/a.cu", "sm_90", "NVRTC 12.9.5 and 12.10.7", compiler, release),
        Coded("not-in-cache", "demo/copy.ptx", "sm_90", "ptxas 12.9.5 and 12.10.7", ptxas, release),
    ]


@pytest.mark.parametrize(
    ("cached", "options", "environ", "hint"),
    [
        ("12.9.5", 'toolkit = "{own}"\n', {}, 'toolkit = "12.9"'),
        ("12.9.5", "", {"HATCH_CUBIN_TOOLKIT": "{own}"}, "HATCH_CUBIN_TOOLKIT=12.9"),
        ("12.9.5", "", {"HATCH_CUBIN_TOOLKIT": "system"}, ""),
        ("{own}.999999", "", {}, "'hatch-cubin lock'"),
        ("{exact} other", "", {}, ""),
    ],
)
def test_the_hint_for_another_compiler_names_the_setting_that_decides(
    tmp_path: Path, cached: str, options: str, environ: dict[str, str], hint: str
) -> None:
    exact = Toolkit(None).nvrtc
    filled = {"own": release_of(exact), "exact": exact}
    variables = {name: value.format(**filled) for name, value in environ.items()}
    project = project_of(tmp_path, {"a.cu": SAXPY}, ONE + options.format(**filled))
    fill_with_results_of(cached.format(**filled), project)
    config = project_of(tmp_path, {}, ONE + options.format(**filled), None, **variables).config
    strict = dataclasses.replace(project, config=config, environ={"HATCH_CUBIN_REQUIRE_HITS": "1"})
    plan = pipeline.make_plan(project)
    (error,) = refusal(MissError, pipeline.bake, strict, plan).problems
    fill = f"fill the cache with NVRTC {exact}"
    assert error == Coded("not-in-cache", "demo/a.cu", cached.format(**filled), fill, hint)
    assert (error.hint == fill) is (hint == "")


def test_results_of_another_text_or_of_the_same_compiler_do_not_count_as_of_another_compiler(
    tmp_path: Path, compiler: str
) -> None:
    strict = {"HATCH_CUBIN_REQUIRE_HITS": "1"}
    project = project_of(tmp_path, {"a.cu": SAXPY}, ONE, None, **strict)
    fill_with_results_of("12.9.5", project, ("source", "another"))
    usual = Coded("not-in-cache", "demo/a.cu", "'hatch-cubin explain demo/a.cu'", compiler)
    assert [*refusal(MissError, pipeline.build, project).problems] == [usual]
    fill_with_results_of("12.9.5", project)
    fill_with_results_of(compiler.split()[1], project)
    assert [*refusal(MissError, pipeline.build, project).problems] == [usual]


def test_what_is_not_known_of_the_toolkit_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Toolkit, "_check_release", lambda _toolkit: "not known")
    said: list[str] = []
    pipeline.build(project_of(tmp_path, {"k.cu": SAXPY}, ONE, said=said))
    assert said == ["not known"]


def test_a_build_that_fails_writes_its_report_first(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    build(tmp_path, {"a.cu": SAXPY}, ONE)
    failure(tmp_path, {"b.cu": "bogus"}, ONE, HATCH_CUBIN_REPORT=str(path))
    failed = {unit["module"]: unit["state"] for unit in json.loads(path.read_text())["units"]}
    with pytest.raises(MissError):
        build(tmp_path, {}, ONE, HATCH_CUBIN_REPORT=str(path), HATCH_CUBIN_REQUIRE_HITS="1")
    refused = {unit["module"]: unit["state"] for unit in json.loads(path.read_text())["units"]}
    assert (failed, refused) == ({"a": "hit", "b": "failed"}, {"a": "hit", "b": "missing"})


def test_a_skipped_build_needs_no_file_but_another_needs_all(tmp_path: Path) -> None:
    assert pipeline.needed_files(project_of(tmp_path, {}, HATCH_CUBIN_SKIP="1")) == []
    with pytest.raises(HatchCubinError, match=r"there are no \.cu, \.ptx or \.tileir sources in demo/"):
        pipeline.needed_files(project_of(tmp_path, {}))


def test_a_skipped_build_needs_no_compiler_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent(_wanted: object) -> None:
        raise AssertionError("a skipped build looked for a compiler")

    monkeypatch.setattr(pipeline, "Toolkit", absent)
    said: list[str] = []
    bundle = pipeline.build(project_of(tmp_path, {"k.cu": "bogus"}, said=said, HATCH_CUBIN_SKIP="1"))
    assert cubins(bundle) == {}
    assert json.loads(bundle["manifest.json"])["skipped"] is True
    assert said == ["HATCH_CUBIN_SKIP is set, so the wheel will not contain kernels"]


def test_a_wrong_package_is_found_out_before_anything_is_compiled(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        build(tmp_path, {"k.cu": "bogus"}, 'package = "other"')
    assert [code for code, _place in found(caught.value)] == ["package-not-in-wheel"]


def test_a_compile_over_the_timeout_fails_and_names_the_unit(tmp_path: Path, compiler: str) -> None:
    said = failure(tmp_path, {"k.cu": SAXPY}, 'archs = ["sm_90"]', HATCH_CUBIN_TIMEOUT="0.001")
    assert said == (
        "demo/k.cu: took longer than 0.001 s and was stopped (HATCH_CUBIN_TIMEOUT sets the limit)\n"
        f"  while compiling k for sm_90 ({compiler})"
    )


@pytest.mark.parametrize(("jobs", "used"), [("1", 1), ("2", 2), ("64", 3)])
def test_no_more_units_are_compiled_at_once_than_wanted_and_than_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jobs: str, used: int
) -> None:
    asked: list[int] = []

    def run(_upcoming: object, setup: executor.Setup, *_started: object) -> Iterator[Result]:
        asked.append(setup.jobs)
        raise ToolchainError

    monkeypatch.setattr(executor, "run", run)
    with pytest.raises(ToolchainError):
        build(tmp_path, dict.fromkeys(("a.cu", "b.cu", "c.cu"), SAXPY), ONE, HATCH_CUBIN_JOBS=jobs)
    assert asked == [used]


BLOCK_REDUCE = """\
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void k(int *x) {
  using Reduce = cub::BlockReduce<int, 128>;
  __shared__ typename Reduce::TempStorage storage;
  int sum = Reduce(storage).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *x = sum;
}
"""
HALF = '#include <cuda_fp16.h>\nextern "C" __global__ void k(__half *x) { *x = __hadd(*x, *x); }\n'


@pytest.mark.parametrize("source", [HALF, BLOCK_REDUCE], ids=["cuda_fp16.h", "cub"])
def test_a_closure_holds_every_toolkit_header_that_a_compile_reads(tmp_path: Path, source: str) -> None:
    toolkit = Toolkit(None)
    project = project_of(tmp_path / "project", {"k.cu": source}, 'archs = ["sm_90"]')
    (job,) = make_jobs(project, read_sources(project), toolkit)
    copies = {root.logical: (root.path, tmp_path / "copy" / root.logical) for root in job.search}
    for logical in job.closure.files:
        root = max((name for name in copies if logical.startswith(f"{name}/")), key=len)
        real, copy = copies[root]
        inside = logical[len(root) + 1 :]
        write_tree(copy, {inside: (real / inside).read_bytes()})
    outputs = [_compiled(job, toolkit, [pair[place] for pair in copies.values()]) for place in (0, 1)]
    assert outputs[0] == outputs[1]
    assert len(job.closure.files) > 1


def _compiled(job: Job, toolkit: Toolkit, search: list[Path]) -> object:
    task = {
        "id": 0,
        "kind": "c++",
        "code": job.unit.module.source.text.encode(),
        "name": b"k.cu",
        "options": list(compiler_options(job.unit, toolkit, tuple(map(str, search)))),
        "instantiate": [],
    }
    result = worker.compile_task(task)
    assert result["ok"], result["log"]
    return result["output"]


def test_a_header_of_the_project_hides_one_of_the_toolkit(tmp_path: Path) -> None:
    options = 'archs = ["sm_90"]\ninclude-dirs = ["include"]'
    source = '#include <cuda_fp16.h>\nextern "C" __global__ void k(int *x) { *x = OWN; }\n'
    files = {"k.cu": source, "../include/cuda_fp16.h": "#define OWN 1\n"}
    assert list(cubins(build(tmp_path, files, options))) == ["k.sm_90.cubin"]


def test_a_header_that_changes_during_the_build_poisons_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"k.cu": '#include "v.h"\nextern "C" __global__ void k(int *p) { *p = V; }', "v.h": "#define V 1"}
    real = executor.run

    def edit_meanwhile(*arguments: Any) -> Iterator[Result]:
        (tmp_path / "demo/v.h").write_text("#define V 2")
        yield from real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "run", edit_meanwhile)
        assert failure(tmp_path, files, ONE) == (
            "demo/v.h: was changed while the build compiled a source that includes this file\n"
            f"  while compiling k for sm_90 (NVRTC {Toolkit(None).nvrtc})\n"
            "  hint: build again"
        )
    assert report(tmp_path, files, ONE)["hits"] == 0


def test_a_header_that_appears_during_the_build_poisons_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = '#if __has_include("v.h")\n#include "v.h"\n#else\n#define V 1\n#endif\n'
    files = {"k.cu": source + 'extern "C" __global__ void k(int *p) { *p = V; }'}
    real = executor.run

    def write_meanwhile(*arguments: Any) -> Iterator[Result]:
        (tmp_path / "demo/v.h").write_text("#define V 2")
        yield from real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "run", write_meanwhile)
        assert failure(tmp_path, files, ONE).startswith(
            "demo/v.h: was changed while the build compiled a source that includes this file\n"
        )
    (tmp_path / "demo/v.h").unlink()
    assert report(tmp_path, files, ONE)["hits"] == 0


def test_only_headers_that_are_named_are_kept_out_of_wheels(tmp_path: Path) -> None:
    computed = '#include "a.h"\n#define H(x) #x\n#include H(b.h)\n' + SAXPY
    project = project_of(tmp_path, {"k.cu": computed, "a.h": "", "b.h": "", "util.py": ""})
    assert pipeline.needed_files(project, by_name=True) == ["demo/a.h", "demo/k.cu"]
    assert set(pipeline.needed_files(project)) >= {"demo/a.h", "demo/b.h", "demo/k.cu"}


@pytest.mark.linux
def test_a_computed_include_takes_nothing_into_sdists_that_a_link_leads_to(tmp_path: Path) -> None:
    write_tree(tmp_path / "elsewhere", {"secret.h": "", "named.h": ""})
    text = f'#include "links/named.h"\n#include WHICH\n{SAXPY}'
    project = make_project(tmp_path / "project", {"k.cu": text, "own.h": ""})
    (tmp_path / "project/demo/links").symlink_to(tmp_path / "elsewhere")
    assert pipeline.needed_files(project) == [
        *("demo/__init__.py", "demo/k.cu", "demo/links/named.h", "demo/own.h")
    ]


def test_an_sdist_is_told_of_headers_that_lie_outside_the_project(tmp_path: Path) -> None:
    write_tree(tmp_path, {"shared/a.cuh": '#include "b.cuh"\n', "shared/b.cuh": ""})
    said: list[str] = []
    files = {"k.cu": '#include "../../shared/a.cuh"\n#include "own.cuh"\n' + SAXPY, "own.cuh": ""}
    project = project_of(tmp_path / "project", files, ONE, said)
    built, sources = pipeline.build_held(project, None)
    assert sorted(name for name in built if name.endswith(".cubin")) == ["k.sm_90.cubin"]
    assert said == [
        f"demo/k.cu: reads ../shared/{name}, which is outside the project, so an sdist does not contain it"
        " [header-outside-project]\n"
        f"  hint: {plan_warnings.NEARER}"
        for name in ("a.cuh", "b.cuh")
    ]
    said.clear()
    assert sources == pipeline.needed_files(project) == ["demo/k.cu", "demo/own.cuh"]
    assert said == []
    assert [*pipeline.sdist_files(project)] == ["demo/k.cu", "demo/own.cuh"]
    assert said == [
        f"../shared/{name}: is outside the project, so sdists do not contain this header, and "
        "kernels that need the header do not compile from an sdist [header-outside-project]\n"
        f"  hint: {plan_warnings.NEARER}"
        for name in ("a.cuh", "b.cuh")
    ]


def test_a_path_across_a_link_is_the_file_that_is_read(tmp_path: Path) -> None:
    project = project_of(tmp_path, {"k.cu": '#include "link/../x.h"\n' + SAXPY, "x.h": "#error not this one"})
    write_tree(tmp_path, {"real/deep/y.h": "", "real/x.h": ""})
    (tmp_path / "demo/link").symlink_to("../real/deep")
    assert pipeline.needed_files(project) == ["demo/k.cu", "real/x.h"]


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sources whose headers were looked for, in that order."""
    paths: list[str] = []
    real = includes.Resolver.resolve

    def count(resolver: includes.Resolver, path: str, *rest: Any) -> includes.Closure:
        paths.append(path)
        return real(resolver, path, *rest)

    monkeypatch.setattr(includes.Resolver, "resolve", count)
    return paths


def headers(project: Project) -> dict[str, list[str]]:
    """Return the headers that each source can read."""
    made = make_jobs(project, read_sources(project), Toolkit(None))
    return {job.unit.module.source.path: sorted(job.closure.files) for job in made}


def test_variants_share_one_closure(tmp_path: Path, resolved: list[str]) -> None:
    """Also where macros decide: a number is nothing to an include."""
    variants = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/*.cu"\nvariants = { N = [1, 2, 3] }\n'
    plain, computed = '#include "a.h"\n' + SAXPY, '#define H "a.h"\n#include H\n' + SAXPY
    project = project_of(tmp_path, {"p.cu": plain, "c.cu": computed, "a.h": ""}, f"{ONE}\n{variants}")
    assert headers(project) == {"demo/c.cu": ["project/demo/a.h"], "demo/p.cu": ["project/demo/a.h"]}
    assert sorted(resolved) == ["demo/c.cu", "demo/p.cu"]


def test_a_variant_whose_value_names_a_header_has_a_closure_of_its_own(
    tmp_path: Path, resolved: list[str]
) -> None:
    variants = (
        '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'
        """variants = { H = ['"a.h"', '"b.h"'], N = [1, 2] }\n"""
    )
    files = {"k.cu": "#include H\n" + SAXPY, "a.h": "", "b.h": ""}
    project = project_of(tmp_path, files, f"{ONE}\n{variants}")
    jobs = make_jobs(project, read_sources(project), Toolkit(None))
    assert [(dict(job.unit.module.variant)["H"], *job.closure.files) for job in jobs] == [
        (f'"{name}"', f"project/demo/{name}") for name in ("a.h", "a.h", "b.h", "b.h")
    ]
    assert resolved == ["demo/k.cu"] * 2


def test_sources_of_a_folder_that_ask_for_the_same_share_one_closure(
    tmp_path: Path, resolved: list[str]
) -> None:
    text = '#include "a.h"\n' + SAXPY
    names = ("k.cu", "l.cu", "deep/m.cu")
    project = project_of(tmp_path, {**dict.fromkeys(names, text), "a.h": "", "deep/a.h": "", "n.cu": SAXPY})
    assert headers(project) == {
        "demo/k.cu": ["project/demo/a.h"],
        "demo/l.cu": ["project/demo/a.h"],
        "demo/deep/m.cu": ["project/demo/deep/a.h"],
        "demo/n.cu": [],
    }
    assert sorted(resolved) == ["demo/deep/m.cu", "demo/k.cu", "demo/n.cu"]


def test_a_source_that_includes_itself_is_a_header_of_others_only(tmp_path: Path) -> None:
    text = '#ifndef ONCE\n#define ONCE\n#include "k.cu"\n#endif\n' + SAXPY
    assert headers(project_of(tmp_path, {"k.cu": text, "l.cu": text})) == {
        "demo/k.cu": [],
        "demo/l.cu": ["project/demo/k.cu"],
    }


STAMPED = {
    "k.cu": (
        '#include "when.h"\n// __TIME__\nextern "C" __global__ void k(const char **p) { *p = __TIME__ WHEN; }'
    ),
    "when.h": "#define WHEN __DATE__",
}


def test_what_depends_on_the_time_of_a_compile_is_warned_of_with_its_line(tmp_path: Path) -> None:
    said: list[str] = []
    pipeline.build(project_of(tmp_path, STAMPED, TWO, said))
    differ = (
        "gives different code at every compile; the cache keeps the code of the first "
        "compile [result-depends-on-time]"
    )
    assert said == [f"demo/k.cu:3: __TIME__ {differ}", f"demo/when.h:1: __DATE__ {differ}"]


def test_a_macro_of_the_table_that_depends_on_the_time_is_warned_of_at_its_line(tmp_path: Path) -> None:
    said: list[str] = []
    pipeline.build(project_of(tmp_path, {"k.cu": SAXPY}, 'define = { BUILT = "__DATE__" }\n' + TWO, said))
    assert said == [Coded("result-depends-on-time", "pyproject.toml:10", "BUILT ")]


def test_a_variant_that_depends_on_the_time_is_warned_of_where_its_value_is(tmp_path: Path) -> None:
    said: list[str] = []
    rule = """
[[tool.hatch.build.hooks.cubin.source]]
path = 'demo/k.cu'
variants = { PART = ["__TIME__", "0"] }
"""
    text = 'extern "C" __global__ void k(const char **p) { *p = PART; }'
    pipeline.build(project_of(tmp_path, {"k.cu": text}, TWO + rule, said))
    assert said == [Coded("result-depends-on-time", "pyproject.toml:14", "PART ")]


def test_a_missing_header_is_told_with_the_way_to_it_once_for_all_sources(tmp_path: Path) -> None:
    near = '#include "a.h"\n'
    files = {
        "k.cu": near + SAXPY,
        "l.cu": "\n" + near,
        "a.h": '\n#include "b.h"',
        "b.h": "#include <iostream>",
    }
    (problem,) = refusal(CompileError, build, tmp_path, files, ONE).problems
    assert problem.where == Location("demo/b.h", 1)
    assert problem.details[-3:-1] == ("included from demo/a.h:2", "included from demo/k.cu:1")
    assert problem.details[-1].startswith("while compiling k, l for ")


def test_a_header_that_is_a_pipe_fails_the_sources_that_include_it_and_no_other(tmp_path: Path) -> None:
    files = {"k.cu": '\n#include "pipe.h"\n' + SAXPY, "l.cu": SAXPY, "m.cu": "broken", "other.h": ""}
    said: list[str] = []
    project = project_of(tmp_path, files, ONE, said)
    os.mkfifo(tmp_path / "demo/pipe.h")
    error = refusal(CompileError, pipeline.build, project)
    assert [(each.code, each.where, each.details[:1]) for each in error.problems[:1]] == [
        ("not-a-regular-file", Location("demo/pipe.h"), ("included from demo/k.cu:2",))
    ]
    assert error.problems[1].where == Location("demo/m.cu", 1)
    (tmp_path / "demo/m.cu").unlink()
    for build_or_plan in (pipeline.build, pipeline.make_plan):
        with pytest.raises(SourceError) as refused:
            build_or_plan(project)
        assert found(refused.value) == [("not-a-regular-file", "demo/pipe.h")]
        assert refused.value.problems[0].details == ("included from demo/k.cu:2",)
    (tmp_path / "demo/k.cu").unlink()
    assert [job.recorded is not None for job in jobs_of(project)] == [True]


@pytest.mark.parametrize("verbose", [False, True])
def test_warnings_of_cached_units_are_heard_in_a_verbose_build(
    tmp_path: Path,
    verbose: bool,  # noqa: FBT001 - a fact
) -> None:
    first: list[str] = []
    again: list[str] = []
    pipeline.build(project_of(tmp_path, STAMPED, TWO, first))
    project = dataclasses.replace(project_of(tmp_path, STAMPED, TWO, again), verbose=verbose)
    pipeline.build(project)
    assert again == (first if verbose else [])
    assert len(first) == 2


@pytest.mark.parametrize("verbose", [False, True])
def test_what_another_build_compiles_meanwhile_is_a_hit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, verbose: bool
) -> None:
    """The other build runs to its end when this one has looked into the cache and is about to compile."""
    files = {"k.cu": "__global__ void k(int *x) { int unused; *x = 1; }\n"}
    said: list[str] = []
    path = tmp_path / "report.json"
    other = project_of(tmp_path, files)
    project = dataclasses.replace(
        project_of(tmp_path, files, said=said, HATCH_CUBIN_REPORT=str(path)), verbose=verbose
    )
    claim, others = Cache.claim, [other]

    def claim_late(cache: Cache, key: bytes) -> bool:
        while others:
            pipeline.build(others.pop())
        return claim(cache, key)

    monkeypatch.setattr(Cache, "claim", claim_late)
    assert pipeline.build(project) == pipeline.build(other)
    facts = json.loads(path.read_text())
    assert (facts["hits"], facts["compiled"]) == (2, 0)
    assert [line.partition(":")[0] for line in said] == ["demo/k.cu"] * 2 * verbose


def test_what_another_build_is_at_waits_while_the_rest_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other build gives the first unit up, without a result, when this one is done with the second."""
    claim, refused = Cache.claim, iter([True, False, True])
    asked: list[bytes] = []

    def claim_late(cache: Cache, key: bytes) -> bool:
        asked.append(key)
        return not next(refused, False) and claim(cache, key)

    monkeypatch.setattr(Cache, "claim", claim_late)
    assert sorted(cubins(build(tmp_path, {"k.cu": SAXPY}))) == ["k.sm_80.cubin", "k.sm_90.cubin"]
    first, second = dict.fromkeys(asked)
    assert asked == [first, second, first, first]


def test_a_folder_named_like_a_header_is_none(tmp_path: Path) -> None:
    files = {
        "k.cu": '#include <utility>\n#include "x.h"\n#if __has_include("sub.h")\n#error\n#endif\n' + SAXPY,
        "utility/a.txt": "",
        "sub.h/a.txt": "",
        "x.h": "",
    }
    project = project_of(tmp_path, files, 'include-dirs = ["demo"]\n' + TWO)
    assert {"k.sm_80.cubin", "k.sm_90.cubin"} <= pipeline.build(project).keys()


@pytest.mark.parametrize(
    ("include", "said"),
    [
        ('"gone/../a.h"', 'cannot open source file "gone/../a.h"'),
        ('R"(a.h)"', "expected a file name"),
        ('""', "expected a file name"),
    ],
)
def test_an_include_that_leads_nowhere_is_told_by_the_compiler_and_fails_its_own_source_alone(
    tmp_path: Path, include: str, said: str
) -> None:
    files = {"bad.cu": f"#include {include}\n{SAXPY}", "good.cu": f'#include "a.h"\n{SAXPY}', "a.h": ""}
    assert f"demo/bad.cu:1: {said}" in failure(tmp_path, files)
    again = project_of(tmp_path, {**files, "bad.cu": SAXPY})
    states = {job.unit.module.name: open_and_get(again, job) for job in jobs_of(again)}
    assert states == {"bad": False, "good": True}


def test_a_header_among_the_pre_included_may_be_named_by_its_path(tmp_path: Path) -> None:
    files = {"k.cu": 'extern "C" __global__ void k(int *x) { *x = V; }', "p.h": "#define V 3"}
    options = 'options = { pre-include = ["demo/p.h"], lineinfo = true }\n' + TWO
    first = build(tmp_path / "1", files, options)
    assert build(tmp_path / "2", files, options) == first
    other = build(tmp_path / "1", {**files, "p.h": "#define V 4"}, options)
    assert other["k.sm_90.cubin"] != first["k.sm_90.cubin"]
    assert "demo/p.h:1: expected an identifier" in failure(
        tmp_path / "1", {**files, "p.h": "#define"}, options
    )
