"""Sources that are parts of others are no modules; whatever may have a kernel of its own is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.errors import ConfigError, Location, SourceError, problem
from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.project.project import read_sources
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, TABLE, make_project, refusal

pytestmark = pytest.mark.nvrtc

ONE = 'archs = ["sm_90"]\n'
KERNEL = 'extern "C" __global__ void own(int *x) { *x = 1; }\n'
FUNCTION = "__device__ int f() { return 1; }\n"


def modules(root: Path, files: dict[str, str], options: str = ONE) -> tuple[list[str], list[str]]:
    """Return the modules that are planned, and what is said about the others."""
    said: list[str] = []
    project = make_project(root, files, options)
    object.__setattr__(project, "inform", said.append)
    jobs = make_jobs(project, read_sources(project), Toolkit(None))
    return [job.unit.module.name for job in jobs], said


@pytest.mark.parametrize(
    "part",
    [
        FUNCTION,
        "// no __global__ here\n" + FUNCTION,
        '#include "plain.h"\n' + FUNCTION,
        "template <class T> struct S {};\n",
        "",
    ],
)
def test_what_another_source_includes_and_has_no_kernel_is_a_header(tmp_path: Path, part: str) -> None:
    files = {
        "part.cu": part,
        "k.cu": '#include "part.cu"\n' + SAXPY,
        "plain.h": "// __global__ stands in remarks\n#define OTHER 1\n",
    }
    assert modules(tmp_path, files) == (
        ["k"],
        [
            (
                "demo/part.cu is not compiled as a module, because this "
                "file has no kernel and demo/k.cu includes it"
            )
        ],
    )


@pytest.mark.parametrize("text", ["", "\n \t\n", "// a kernel, some day\n/* or\ntwo */\n"])
def test_a_source_with_nothing_but_comments_is_refused_before_anything_is_compiled(
    tmp_path: Path, text: str
) -> None:
    files = {"k.cu": SAXPY, "empty.cu": text, "void.cu": text, "old.cu": ""}
    error = refusal(SourceError, modules, tmp_path, files, f'{ONE}exclude = ["demo/old.cu"]\n')
    hint = (
        'write a kernel into the file, outside of comments, or exclude the file: exclude = ["demo/old.cu", '
        '"demo/empty.cu", "demo/void.cu"]'
    )
    assert error.problems == tuple(
        problem("empty-source", "has no code outside of comments, so it has no kernel", Location(path), hint)
        for path in ("demo/empty.cu", "demo/void.cu")
    )


@pytest.mark.parametrize(
    ("path", "options"),
    [
        ("empty.cu", 'options = { pre-include = ["demo/own.h"] }\n'),
        (
            "empty.cu",
            f'[[{".".join(TABLE)}.module]]\nname = "m"\nmode = "lto"\nsources = ["demo/*.cu"]\n',
        ),
    ],
    ids=["with a header before it", "linked with others"],
)
def test_an_empty_source_that_gets_its_kernels_elsewhere_is_built(
    tmp_path: Path, path: str, options: str
) -> None:
    found, _said = modules(tmp_path, {"own.h": KERNEL, "k.cu": SAXPY, path: ""}, ONE + options)
    assert "k" in found or "m" in found


def test_a_wheel_without_headers_is_refused_even_if_no_source_needs_one(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        modules(tmp_path, {"k.cu": SAXPY}, f'{ONE}header-packages = ["pytest"]\n')
    assert [each.what for each in caught.value.problems] == [
        "header-packages: 'pytest' has no include folder"
    ]


WITH_KERNEL = {
    "a kernel": KERNEL,
    "a header's kernel": '#define NAME own\n#include "impl.h"\n',
    "a header's macro": '#include "kernels.h"\nMARK void own(int *x) { *x = 1; }\n',
    "its own macro": "#define MINE \\\n  __global__\nMINE void own(int *x) { *x = 1; }\n",
    "a macro of a macro": "#define G __global__\n#define DEF(n) G void n(int *x)\nDEF(own) { *x = 1; }\n",
    "pasted": "#define P(a, b) a##b\nP(__glo, bal__) void own(int *x) { *x = 1; }\n",
    "attribute": "__attribute__((global)) void own(int *x) { *x = 1; }\n",
    "somebody's macro": "CUTLASS_GLOBAL void own(int *x) { *x = 1; }\n",
    "the table's macro": "KERN void own(int *x) { *x = 1; }\n",
}


@pytest.mark.parametrize("part", WITH_KERNEL.values(), ids=WITH_KERNEL)
@pytest.mark.parametrize("around", ["{}", "#ifdef UNITY\n{}\n#endif"], ids=["included", "perhaps included"])
def test_what_may_have_a_kernel_is_a_module(tmp_path: Path, part: str, around: str) -> None:
    files = {
        "part.cu": part,
        "k.cu": around.format('#include "part.cu"') + "\n" + SAXPY,
        "kernels.h": '#define MARK extern "C" __global__\n',
        "impl.h": 'extern "C" __global__ void NAME(int *x) { *x = 1; }\n',
    }
    define = 'define = { KERN = "__global__", OTHER = 1 }\n'
    assert modules(tmp_path, files, ONE + define) == (["k", "part"], [])


@pytest.mark.parametrize("rule", ['instantiate = ["t<1>"]', "variants = { N = [1, 2] }"])
def test_what_the_table_builds_in_its_own_way_is_a_module(tmp_path: Path, rule: str) -> None:
    files = {"part.cu": FUNCTION, "k.cu": '#include "part.cu"\n' + SAXPY}
    names, said = modules(
        tmp_path, files, f'{ONE}[[{".".join(TABLE)}.source]]\npath = "demo/part.cu"\n{rule}\n'
    )
    assert (len(names) > 1, said) == (True, [])


def test_what_nobody_includes_is_a_module_whatever_is_in_it(tmp_path: Path) -> None:
    assert modules(tmp_path, {"part.cu": FUNCTION, "k.cu": "// part.cu\n" + SAXPY}) == (["k", "part"], [])


def test_sources_that_only_include_each_other_stay_so_that_the_compiler_tells(tmp_path: Path) -> None:
    files = {"a.cu": '#pragma once\n#include "b.cu"\n', "b.cu": '#pragma once\n#include "a.cu"\n'}
    assert modules(tmp_path, files) == (["a", "b"], [])
