"""The types of kernels in a real project: what its headers, its macros and its other sources can change."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.keys.parameter_types import types_of_module
from hatch_cubin.lockfile import lock_format
from hatch_cubin.project.scan import ScanCache
from tests.helpers import make_project

pytestmark = pytest.mark.nvrtc

SAXPY = 'extern "C" __global__ void saxpy(float alpha, const float *from, float4 rest) {}\n'
TYPED = [[0, 4, "float"], [8, 8, "const float *"], [16, 16]]
UNTYPED = [[0, 4], [8, 8], [16, 16]]
OPTIONS = 'archs = ["sm_90"]\n'


def takes(root: Path, files: Mapping[str, str], options: str = OPTIONS, module: str = "saxpy") -> Any:
    """Return what the manifest says that the kernel of a project takes."""
    built = pipeline.build(make_project(root, files, options))
    return json.loads(built["manifest.json"])["modules"][module]["parameters"]["saxpy"]


@pytest.mark.parametrize(
    ("files", "options", "told"),
    [
        ({"saxpy.cu": SAXPY}, "", TYPED),
        ({"saxpy.cu": f'#include "a.cuh"\n{SAXPY}', "a.cuh": "#define N 4\n"}, "", TYPED),
        ({"saxpy.cu": f'#include "a.cuh"\n{SAXPY}', "a.cuh": "#define from\n"}, "", UNTYPED),
        ({"saxpy.cu": SAXPY, "a.cuh": "#define from\n"}, 'options = { pre_include = "demo/a.cuh" }', UNTYPED),
        ({"saxpy.cu": SAXPY}, 'define = { from = "" }', UNTYPED),
        ({"saxpy.cu": f"#include <cuda_fp16.h>\n#include <stdint.h>\n{SAXPY}"}, "", TYPED),
        ({"saxpy.cu": f"#include WHICH\n{SAXPY}"}, 'define = { WHICH = "<cuda_fp16.h>" }', TYPED),
        (
            {"saxpy.cu": f"#include WHICH(16)\n{SAXPY}"},
            'define = { "WHICH(n)" = "<cuda_fp##n.h>" }',
            UNTYPED,
        ),
    ],
    ids=[
        *(
            "alone",
            "a header",
            "a macro of it",
            "a pre-included macro",
            "a given macro",
            "the toolkit's headers",
        ),
        *("a computed include", "an include that cannot be told"),
    ],
)
def test_a_type_is_told_if_no_text_of_the_compile_can_change_it(
    tmp_path: Path, files: Mapping[str, str], options: str, told: Any
) -> None:
    assert takes(tmp_path, files, OPTIONS + options) == told


def test_macros_of_headers_outside_the_project_count(tmp_path: Path) -> None:
    text = f"#include <math.h>\n{SAXPY.replace('*from', '*M_PI')}"  # which no compiler takes
    project = make_project(tmp_path, {"saxpy.cu": text}, OPTIONS)
    (job,) = pipeline.make_plan(project).jobs
    assert any("math.h" in logical for logical in job.closure.files)
    assert job.declared_types() == {}


def test_headers_that_were_scanned_by_an_earlier_build_are_read_again_if_need_be(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"saxpy.cu": f"#include <stdint.h>\n{SAXPY}"}, OPTIONS)
    (job,) = pipeline.make_plan(project).jobs
    found = types_of_module(job.unit.module, job.closure, job.search, project.tree, ScanCache())
    assert found == job.declared_types() == {"saxpy": ("float", "const float *", None)}


def test_a_header_that_changed_since_says_nothing(tmp_path: Path) -> None:
    files = {"saxpy.cu": f'#include "a.cuh"\n{SAXPY}', "a.cuh": "\n"}
    (job,) = pipeline.make_plan(make_project(tmp_path, files, OPTIONS)).jobs
    (tmp_path / "demo/a.cuh").write_text("#define from\n")
    assert job.declared_types() == {}


def test_a_build_with_a_lock_tells_the_same_types(tmp_path: Path) -> None:
    files = {"saxpy.cu": f"#include <cuda_fp16.h>\n{SAXPY}"}
    project = make_project(tmp_path, files, OPTIONS)
    before = pipeline.build(project)
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(project)))
    locked = pipeline.choose_plan(project)
    assert locked.found  # so nothing looked at the headers
    assert pipeline.build(project)["manifest.json"] == before["manifest.json"]
    found = lock_format.read(tmp_path)
    assert found is not None
    assert [*pipeline.check_lock(project, found).changes] == []


LINKED = '[[tool.hatch.build.hooks.cubin.module]]\nname = "both"\nsources = ["demo/*.cu"]\nmode = "rdc"\n'


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ("__device__ int f() { return 1; }\n", TYPED),
        (
            f"#if 0\n{SAXPY}#endif\n__device__ int f() {{ return 1; }}\n",
            UNTYPED,
        ),
    ],
    ids=["elsewhere", "mentioned twice"],
)
def test_a_linked_module_has_the_types_of_the_one_source_that_mentions_the_kernel(
    tmp_path: Path, other: str, told: Any
) -> None:
    files = {"saxpy.cu": SAXPY, "other.cu": other}
    assert takes(tmp_path, files, OPTIONS + LINKED, "both") == told
