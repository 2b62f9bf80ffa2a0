"""What is doubtful in a plan that may compile: macros that nothing names, headers outside the project."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin import loader
from hatch_cubin.building import pipeline
from hatch_cubin.compiling import plan_warnings
from tests.helpers import SAXPY, Coded, make_project, write_tree

ARCH = 'archs = ["sm_90"]\n'
BLOCK = f"#ifndef BLOCK\n#define BLOCK 64\n#endif\n{SAXPY}"
RULE = "[[tool.hatch.build.hooks.cubin.source]]\npath = '**/k.cu'\n"
MODULE = "[[tool.hatch.build.hooks.cubin.module]]\nname = 'm'\nmode = 'rdc'\nsources = ['demo/k.cu']\n"


def unread(root: Path, table: str, files: dict[str, str]) -> dict[str, str | None]:
    """Return the hints about macros that no text names, by their names."""
    project = make_project(root, files, ARCH + table)
    found = plan_warnings.unread_macros(project, pipeline.make_plan(project).jobs)
    names = [re.search(r"macro (\w+) ", each.what) for each in found]
    assert all(each.where and each.where.line for each in found)
    return {name[1]: each.hint for name, each in zip(names, found, strict=True) if name}


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("table", "source"),
    [
        ("define = { BLOK = 128 }", BLOCK),
        (f"{RULE}define = {{ BLOK = 128 }}", BLOCK),
        (f"{MODULE}define = {{ BLOK = 128 }}", BLOCK),
        ("define = { BLOK = 128 }", f"#include <cuda_fp16.h>\n{BLOCK}"),
        ("define = { BLOK = 128 }", f"#if defined(BLOCK) && BLOCK > 64\n#endif\n{SAXPY}"),
    ],
)
def test_a_macro_that_no_text_names_is_told_with_the_one_that_is_meant(
    tmp_path: Path, table: str, source: str
) -> None:
    assert unread(tmp_path, table, {"k.cu": source}) == {"BLOK": "did you mean BLOCK?"}


@pytest.mark.nvrtc
def test_a_macro_that_only_another_source_uses_has_a_hint_for_the_main_table(tmp_path: Path) -> None:
    found = unread(tmp_path, f"{RULE}define = {{ BLOCK = 128 }}", {"k.cu": SAXPY, "j.cu": BLOCK})
    assert [*found] == ["BLOCK"]
    assert (found["BLOCK"] or "").startswith("demo/j.cu uses BLOCK, ")
    assert "[tool.hatch.build.hooks.cubin], above the first [[…source]]" in (found["BLOCK"] or "")


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (f"{RULE}archs = ['sm_90']", [Coded("archs-by-default", "pyproject.toml:12", "demo/j.cu")]),
        (f"archs = ['all-major']\n{RULE}archs = ['sm_90']", []),
        (f"{RULE}archs = ['sm_90']\n{RULE.replace('k.cu', 'j.cu')}archs = ['sm_80']", []),
        (RULE, []),
    ],
)
def test_default_archs_beside_archs_of_a_source_table_are_told(
    tmp_path: Path, table: str, expected: list[Coded]
) -> None:
    project = make_project(tmp_path, {"k.cu": SAXPY, "j.cu": BLOCK}, table)
    assert plan_warnings.archs_by_default(project, pipeline.make_plan(project).jobs) == expected


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("archs = ['sm_90a', 'compute_90a']", [("pyproject.toml:10", "compute_90a")]),
        (
            f"archs = ['compute_90', 'sm_90']\n{RULE}archs = ['sm_100f', 'compute_100f']",
            [("pyproject.toml:13", "compute_100f")],
        ),
        ("archs = ['sm_90', 'sm_90a', 'compute_90', 'compute_100f']", []),
        ("archs = ['90a']", []),
    ],
)
def test_ptx_for_the_gpus_of_machine_code_alone_is_told(
    tmp_path: Path, table: str, expected: list[tuple[str, str]]
) -> None:
    """No GPU chooses such PTX, says the loader's own function."""
    found = plan_warnings.ptx_that_no_gpu_loads(make_project(tmp_path, {"k.cu": SAXPY}, table).config)
    assert found == [Coded("ptx-not-loaded", place, ptx) for place, ptx in expected]
    for _place, ptx in expected:
        entries = [(arch, 0) for arch in (ptx, ptx.replace("compute", "sm"))]
        assert not [
            number for number in range(50, 300) if (loader.select(number, None, entries) or "")[:1] == (ptx,)
        ]


def rule(path: str, *lines: str) -> str:
    return "\n".join(("[[tool.hatch.build.hooks.cubin.source]]", f"path = '{path}'", *lines, ""))


REPLACED = "setting-without-effect"


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (
            ARCH + rule("**/*.cu", "archs = ['sm_80']"),
            [Coded(REPLACED, "pyproject.toml:10", "archs ", "pyproject.toml:13 ")],
        ),
        (
            rule("**/k.cu", "define = { N = 1 }", "options = { std = 'c++17' }")
            + rule("**/*.cu", "define = { N = 2 }", "options = { std = 'c++20' }"),
            [
                Coded(REPLACED, "pyproject.toml:12", "define.N ", "pyproject.toml:16 "),
                Coded(REPLACED, "pyproject.toml:13", "options.std ", "pyproject.toml:17 "),
            ],
        ),
        (
            rule("**/k.cu", "define = { N = 1 }") + rule("**/*.cu", "define = { N = false }"),
            [Coded(REPLACED, "pyproject.toml:12", "define.N ", "pyproject.toml:15 ")],
        ),
    ],
)
def test_a_setting_that_other_tables_replace_for_each_source_is_told(
    tmp_path: Path, table: str, expected: list[Coded]
) -> None:
    project = make_project(tmp_path, {"k.cu": SAXPY, "j.cu": BLOCK}, table)
    assert plan_warnings.replaced_settings(project, pipeline.make_plan(project).jobs) == expected


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(ARCH + rule("**/k.cu", "archs = ['sm_80']"), id="for some sources"),
        pytest.param(
            rule("**/*.cu", "define = { N = 1 }") + rule("**/k.cu", "define = { N = 2 }"), id="for one source"
        ),
        pytest.param(ARCH + rule("**/*.cu", ARCH), id="repeated"),
        pytest.param(rule("**/*.cu", "archs = ['sm_80']"), id="the default"),
        pytest.param(
            "define = { N = 1 }\n" + rule("**/*.cu", "define = { N = 2 }") + MODULE, id="linked too"
        ),
    ],
)
def test_a_setting_that_some_source_has_is_not_told(tmp_path: Path, table: str) -> None:
    project = make_project(tmp_path, {"k.cu": SAXPY, "j.cu": BLOCK}, table)
    assert plan_warnings.replaced_settings(project, pipeline.make_plan(project).jobs) == []


@pytest.mark.nvrtc
def test_archs_of_the_variable_are_not_told_as_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    project = make_project(tmp_path, {"k.cu": SAXPY}, ARCH + rule("**/*.cu", "archs = ['sm_80']"))
    assert plan_warnings.replaced_settings(project, pipeline.make_plan(project).jobs) == []


@pytest.mark.nvrtc
def test_a_macro_like_no_other_is_told_too(tmp_path: Path) -> None:
    assert unread(tmp_path, "define = { FOO = 1 }", {"k.cu": SAXPY}) == {"FOO": "remove the macro, or use it"}


@pytest.mark.nvrtc
def test_an_unread_macro_may_be_a_setting_in_the_wrong_table(tmp_path: Path) -> None:
    table = "define = { toolkit = '13', use_fast_math = true }"
    assert unread(tmp_path, table, {"k.cu": SAXPY}) == {
        "toolkit": (
            "if toolkit is meant as an option of [tool.hatch.build.hooks.cubin], write it outside of the "
            "table 'define'"
        ),
        "use_fast_math": (
            "'use-fast-math' is an option of the compiler: write the option in the table 'options'"
        ),
    }


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("table", "files"),
    [
        ("define = { BLOCK = 128 }", {"k.cu": BLOCK}),
        ("define = { FOO = 1 }", {"k.cu": f"{SAXPY}// FOO"}),
        ("define = { FOO = 1 }", {"k.cu": f"{SAXPY}\n__device__ int a = F\\\nOO;"}),
        ("define = { FOO = 1 }", {"k.cu": f'#include "h.h"\n{SAXPY}', "h.h": "#define BAR FOO"}),
        ("define = { FOO = 1 }", {"k.cu": SAXPY, "j.cu": f"{SAXPY}// FOO"}),
        (
            "define = { FOO = 1 }",
            {"k.cu": f"#define CAT(a, b) a##b\n__device__ int c = CAT(F, OO);\n{SAXPY}"},
        ),
        ("define = { A = 'B', B = 4 }", {"k.cu": f"__device__ int a = A;\n{SAXPY}"}),
        ("define = { 'A(x)' = 'B + x', B = 4 }", {"k.cu": f"__device__ int a = A(1);\n{SAXPY}"}),
        (
            f"define = {{ N = 4 }}\n{RULE}instantiate = ['f<N>']",
            {"k.cu": "template <int I> __global__ void f(int *p) { *p = I; }"},
        ),
        ("define = { FOO = 1 }", {"k.cu": f"#include <cuda_fp16.h>\n{SAXPY}"}),
        ("define = { CUDART_VERSIO = 1, _FOO = 1, NDEBUG = 1 }", {"k.cu": SAXPY}),
        ("define = { __CUDA_FP16_H = 1 }", {"k.cu": f"#include <cuda_fp16.h>\n{SAXPY}"}),
        # A header of others does so.
        (
            "define = { nv_half2 = 1 }",
            {"k.cu": f"#include <cuda_fp16.h>\n#ifdef nv_half3\n#endif\n{SAXPY}"},
        ),
        ("", {"k.cu": SAXPY}),
    ],
)
def test_a_macro_that_a_text_may_name_is_not_told(tmp_path: Path, table: str, files: dict[str, str]) -> None:
    assert unread(tmp_path, table, files) == {}


@pytest.mark.nvrtc
def test_where_any_header_of_others_may_be_read_a_macro_may_be_for_that(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"k.cu": BLOCK}, ARCH + "define = { BLOK = 1 }")
    jobs = pipeline.make_plan(project).jobs
    anything = [replace(job, closure=replace(job.closure, trees={"cuda"})) for job in jobs]
    assert [len(plan_warnings.unread_macros(project, each)) for each in (jobs, anything)] == [1, 0]


@pytest.mark.nvrtc
def test_a_header_that_is_gone_by_now_names_nothing(tmp_path: Path) -> None:
    project = make_project(
        tmp_path, {"k.cu": f'#include "h.h"\n{SAXPY}', "h.h": "FOO"}, ARCH + "define = { FOO = 1 }"
    )
    jobs = pipeline.make_plan(project).jobs
    (tmp_path / "demo/h.h").unlink()
    assert len(plan_warnings.unread_macros(project, jobs)) == 1


@pytest.mark.nvrtc
def test_headers_outside_of_the_project_are_told_once(tmp_path: Path) -> None:
    write_tree(tmp_path, {"shared/a.cuh": "", "shared/b.cuh": ""})
    root, absolute = tmp_path / "project", f"{tmp_path}/shared/b.cuh"
    text = f'#include "../../shared/a.cuh"\n#include "{absolute}"\n#include "in.h"\n'
    project = make_project(root, {"k.cu": text + SAXPY, "j.cu": text + SAXPY, "in.h": ""}, ARCH)
    found = plan_warnings.outside_headers(project, pipeline.make_plan(project).jobs)
    assert {re.findall(r"reads ([^,]+),", each.what)[0] for each in found} == {"../shared/a.cuh", absolute}
    assert len(found) == 2
