"""Sources that are parts of others are no modules; whatever may have a kernel of its own is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.sources.project import read_sources
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, make_project

pytestmark = pytest.mark.nvrtc

ONE = 'archs = ["sm_90"]\n'
KERNEL = 'extern "C" __global__ void own(int *x) { *x = 1; }\n'
FUNCTION = "__device__ int f() { return 1; }\n"
RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/part.cu"\ninstantiate = ["t<1>"]\n'


def modules(root: Path, files: dict[str, str], options: str = ONE) -> tuple[list[str], list[str]]:
    """Return the modules that are planned, and what is said about the others."""
    said: list[str] = []
    project = make_project(root, files, options)
    object.__setattr__(project, "say", said.append)
    jobs = make_jobs(project, read_sources(project), Toolkit(None))
    return [job.unit.module.name for job in jobs], said


@pytest.mark.parametrize(
    "part",
    [
        FUNCTION,
        "// no __global__ here\n" + FUNCTION,
        '#include "kernels.h"\n' + FUNCTION,
        "template <class T> struct S {};\n",
        "",
    ],
)
def test_what_another_source_includes_and_has_no_kernel_is_a_header(tmp_path: Path, part: str) -> None:
    files = {
        "part.cu": part,
        "k.cu": '#include "part.cu"\n' + SAXPY,
        "kernels.h": "#define KERNEL __global__\n#define OTHER 1\n",
    }
    assert modules(tmp_path, files) == (
        ["k"],
        ["demo/part.cu: demo/k.cu includes it, and it has no kernel: it is no module"],
    )


@pytest.mark.parametrize(
    ("part", "options"),
    [
        (KERNEL, ONE),
        ('#include "kernels.h"\nKERNEL void own(int *x) { *x = 1; }\n', ONE),
        ("#define MINE \\\n  __global__\nMINE void own(int *x) { *x = 1; }\n", ONE),
        ("#define G __global__\n#define DEF(n) G void n(int *x)\nDEF(own) { *x = 1; }\n", ONE),
        ("KERN void own(int *x) { *x = 1; }\n", ONE + 'define = { KERN = "__global__", OTHER = 1 }\n'),
        ("template <int N> void t(int *x);\n", ONE + RULE),
    ],
    ids=[
        *(
            "kernel",
            "by a header's macro",
            "by its own macro",
            "by a macro of a macro",
            "by the table's macro",
        ),
        "instantiated by the table",
    ],
)
def test_what_may_have_a_kernel_of_its_own_is_a_module(tmp_path: Path, part: str, options: str) -> None:
    files = {
        "part.cu": part,
        "k.cu": '#include "part.cu"\n' + SAXPY,
        "kernels.h": '#define KERNEL extern "C" __global__\n',
    }
    assert modules(tmp_path, files, options) == (["k", "part"], [])


def test_what_nobody_includes_is_a_module_whatever_is_in_it(tmp_path: Path) -> None:
    assert modules(tmp_path, {"part.cu": FUNCTION, "k.cu": "// part.cu\n" + SAXPY}) == (["k", "part"], [])


def test_sources_that_only_include_each_other_stay_so_that_the_compiler_tells(tmp_path: Path) -> None:
    files = {"a.cu": '#pragma once\n#include "b.cu"\n', "b.cu": '#pragma once\n#include "a.cu"\n'}
    assert modules(tmp_path, files) == (["a", "b"], [])
