"""Headers that were not found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.hints import headers
from hatch_cubin.compiling.hints.failed_compile import FailedCompile
from hatch_cubin.errors import CompileError, Location
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.project.source_roots import ProjectTree, SourceRoot
from tests.helpers import SAXPY, make_project, refusal, write_tree

from .failed_compiles import APART, error, setting

NOBODY = (
    "neither the project nor a wheel in 'header-packages' contains this header: correct the name, "
    "or add the header's folder to 'include-dirs', or its wheel to 'header-packages'"
)
BRINGS = 'a build installs all headers of CUDA only if the table has this line: toolkit = "13.4"'
HAS_NONE = (
    "CUDA 13.4 does not have this header: if a newer release has this header, set 'toolkit' to that release"
)


OUTSIDE = (
    "this path leads to {} outside of the project, which does not exist: correct the path, copy the header "
    "into the project, or add the header's folder to 'source-roots'"
)
ABSOLUTE = (
    "an absolute path is right on one machine only: copy the header into the project, and include its path "
    "from this file, or from a folder in 'include-dirs'"
)
UNDER = "under [tool.hatch.build.hooks.cubin]: "


def hint(name: str, there: FailedCompile, includer: str = "demo/a.cu") -> str | None:
    told = headers.missing([error(f'cannot open source file "{name}"', includer)], there)
    assert told is not None
    return told[0].hint


def trees(root: Path) -> tuple[SearchFolder, ...]:
    """Return the folders of a toolkit that is here in full: NVRTC's own headers and those of the wheels."""
    write_tree(root, {"nvrtc/cccl/cub/a.cuh": "", "nvrtc/cccl/cuda/std/a": "", "wheels/crt/a.h": ""})
    return (
        SearchFolder(root / "nvrtc/cccl", "nvrtc/cccl", "NVRTC"),
        SearchFolder(root / "wheels", "cuda/cu13/include", "wheels"),
    )


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "helper_math.h",
            "this header is in NVIDIA's repository cuda-samples: copy the header into the project",
        ),
        (
            "torch/extension.h",
            (f"this header of PyTorch is for host code, which NVRTC does not compile: {APART}"),
        ),
        ("tvm/ffi/tensor.h", f"this header of TVM is for host code, which NVRTC does not compile: {APART}"),
        ("curand.h", f"this header of cuRAND is for host code, which NVRTC does not compile: {APART}"),
        (
            "helper_cuda.h",
            (f"this header of the CUDA samples is for host code, which NVRTC does not compile: {APART}"),
        ),
        ("bits/stdc++.h", f"this header of GCC is for host code, which NVRTC does not compile: {APART}"),
        ("vector", f"this header is for host code, which NVRTC does not compile: {APART}"),
        ("cutlass/gemm/gemm.h", 'header-packages = ["nvidia-cutlass"]'),
        ("curand_kernel.h", 'header-packages = ["nvidia-curand"]'),
        ("cub/block/block_reduce.cuh", BRINGS),
        ("cuda/std/algorithm", BRINGS),
        ("cuda/barrier", BRINGS),
        ("cuda_fp16.h", BRINGS),
        ("mma.h", BRINGS),
        ("vector_types.h", BRINGS),
    ],
)
def test_a_header_of_others_says_whose_it_is_or_what_brings_it(
    tmp_path: Path, name: str, expected: str
) -> None:
    assert hint(name, setting(tmp_path)) == expected


@pytest.mark.parametrize(
    "name",
    """
    mine.cuh cuda_helper.h cuda_utils/x.h cuda/helper.h cuda_fp18.h cub_tools.h thrust_utils/a.h mma_tools.h
    vector_add.h device_helpers.h cooperative_groups_ext.h curand_utils.h cutlass_ext.h nccl_utils.h jaxx.h
    cublas_wrap.h helper_maths.h mpi_tools.h torchlike/a.h
    """.split(),  # noqa: SIM905 - a list of words is read as words
)
def test_a_header_that_is_only_called_like_those_of_others_is_nobodys(tmp_path: Path, name: str) -> None:
    there = setting(tmp_path / "project", search=trees(tmp_path))
    assert hint(name, there) == NOBODY


@pytest.mark.parametrize(
    "name", ["cuda/std/algorithms", "cub/block/none.cuh", "cuda_tile.h", "crt/none.h", "mma.h", "cub/cub.cuh"]
)
def test_a_toolkit_that_is_here_is_not_asked_for(tmp_path: Path, name: str) -> None:
    assert hint(name, setting(tmp_path / "project", search=trees(tmp_path))) == HAS_NONE


def test_where_only_the_compilers_own_headers_are_here_the_toolkit_brings_the_others(tmp_path: Path) -> None:
    there = setting(tmp_path / "project", search=trees(tmp_path)[:1])
    assert [hint(name, there) for name in ("cub/none.cuh", "cuda_runtime_api.h", "crt/host_config.h")] == [
        HAS_NONE,
        BRINGS,
        BRINGS,
    ]


@pytest.mark.parametrize(
    ("name", "version", "options", "expected"),
    [
        ("curand_kernel.h", (12, 9), "", 'header-packages = ["nvidia-curand-cu12"]'),
        ("cutlass/a.h", (12, 9), "", 'header-packages = ["nvidia-cutlass"]'),
        ("cupy/complex.cuh", (12, 9), "", 'header-packages = ["cupy-cuda12x"]'),
        ("cupy/complex.cuh", (13, 0), "", 'header-packages = ["cupy-cuda13x"]'),
        ("flashinfer/math.cuh", (13, 0), "", 'header-packages = ["flashinfer-python"]'),
        ("cufftdx.hpp", (13, 0), "", 'header-packages = ["nvidia-mathdx"]'),
        ("nvshmem.h", (12, 9), "", 'header-packages = ["nvidia-nvshmem-cu12"]'),
        ("device/nvshmem_defines.h", (13, 0), "", 'header-packages = ["nvidia-nvshmem-cu13"]'),
        (
            "mma.h",
            (12, 9),
            "",
            ('a build installs all headers of CUDA only if the table has this line: toolkit = "12.9"'),
        ),
        (
            "mma.h",
            (12, 9),
            'toolkit = "12.9"',
            (
                "a build with isolation installs the headers of CUDA 12.9; "
                "without isolation, install the headers yourself"
            ),
        ),
        ("mma.h", (13, 0), 'toolkit = "system"', "the toolkit in CUDA_HOME does not have this header"),
    ],
)
def test_a_header_of_nvidias_is_of_the_toolkit_that_is_used(
    tmp_path: Path, name: str, version: tuple[int, int], options: str, expected: str
) -> None:
    assert hint(name, setting(tmp_path, options, version=version)) == expected


def test_a_wheel_that_is_asked_for_already_is_told_to_lack_it(tmp_path: Path) -> None:
    there = setting(tmp_path, 'header-packages = ["nvidia-cutlass==4.*", "nvidia-curand-cu12"]')
    assert [hint(name, there) for name in ("cutlass/none.h", "curand_kernel.h")] == [
        "the installed version of nvidia-cutlass does not have this header; try another version",
        'header-packages = ["nvidia-cutlass==4.*", "nvidia-curand-cu12", "nvidia-curand"]',
    ]


def test_a_header_of_the_project_names_the_folder_to_search(tmp_path: Path) -> None:
    there = setting(tmp_path, files={"csrc/include/deep/mine.cuh": "", "top.cuh": ""})
    assert [hint(name, there) for name in ("deep/mine.cuh", "top.cuh", "other.cuh")] == [
        'include-dirs = ["csrc/include"]',
        'include-dirs = ["."]',
        NOBODY,
    ]


def test_folders_that_are_searched_already_stay_in_the_line(tmp_path: Path) -> None:
    there = setting(tmp_path, 'include-dirs = ["a", "b"]', files={"inc/x.h": ""})
    assert hint("x.h", there) == 'include-dirs = ["a", "b", "inc"]'


@pytest.mark.parametrize(
    ("includer", "folder"),
    [
        ("src/backend/cuda/kernel/x.cuh", "src/backend/cuda"),
        ("src/backend/cpu/x.cuh", "src/backend/cpu"),
        ("src/backend/opencl/kernel/deep/x.cuh", "src/backend/opencl"),
        ("<nvrtc>/cub/a.cuh", "src/backend/cpu"),  # as near to demo/a.cu as the others
    ],
)
def test_of_several_folders_the_nearest_is_named(tmp_path: Path, includer: str, folder: str) -> None:
    backends = {f"src/backend/{name}/kernel/copy.hpp": "" for name in ("cpu", "cuda", "opencl")}
    assert hint("kernel/copy.hpp", setting(tmp_path, files=backends), includer) == (
        f'include-dirs = ["{folder}"]'
    )


def test_a_header_that_includes_its_namesake_is_not_its_own_answer(tmp_path: Path) -> None:
    there = setting(tmp_path, files={"demo/math.hpp": "", "far/away/math.hpp": ""})
    assert hint("math.hpp", there, "demo/math.hpp") == 'include-dirs = ["far/away"]'


def test_of_folders_as_near_one_is_named_in_the_includers_part_of_the_project(tmp_path: Path) -> None:
    there = setting(tmp_path, files={"a/util.h": "", "demo/gpu/deep/util.h": ""})
    assert hint("util.h", there, "demo/cuda/b.cuh") == 'include-dirs = ["demo/gpu/deep"]'


def test_a_library_of_hosts_is_told_though_the_project_has_a_copy(tmp_path: Path) -> None:
    there = setting(tmp_path, files={"third_party/torch/extension.h": ""})
    assert hint("torch/extension.h", there) == (
        f"this header of PyTorch is for host code, which NVRTC does not compile: {APART}"
    )


def test_headers_of_a_virtual_environment_are_not_the_projects(tmp_path: Path) -> None:
    env = {"venv/pyvenv.cfg": "", "venv/lib/python3.12/site-packages/lib/x.h": ""}
    assert hint("lib/x.h", setting(tmp_path / "one", files=env)) == NOBODY
    here = setting(tmp_path / "two", files={"pyvenv.cfg": "", "venv2/x.h": "", "venv/pyvenv.cfg": ""})
    assert hint("x.h", here) == 'include-dirs = ["venv2"]'


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("mma.hpp", "did you mean 'mma.h'?"),
        ("cuda_fp16", "did you mean 'cuda_fp16.h'?"),
        ("/usr/local/cuda/include/cuda_fp16.h", "did you mean 'cuda_fp16.h'?"),
        ("utils.h", "did you mean 'utils.cuh'?"),
        ("util.cuh", "did you mean 'utils.cuh'?"),
        ("UTILS.cuh", "did you mean 'utils.cuh'?"),
        ("sub\\deep.h", "did you mean '../sub/deep.h'?"),
        ("Sub/Deep.h", "did you mean '../sub/deep.h'?"),
        ("inc\\far.h", "did you mean 'inc/far.h'?"),
        (
            "../../csrc/x.cuh",
            OUTSIDE.format("../csrc/x.cuh"),
        ),
        ("../csrc/x.cuh", "the project has no file csrc/x.cuh, to which this path leads: correct the path"),
        ("cutlass.h", "the headers of nvidia-cutlass are in the folder cutlass/, as in <cutlass/…>"),
        ("/home/me/own.h", ABSOLUTE),
    ],
)
def test_a_name_that_is_nearly_right_is_corrected(tmp_path: Path, name: str, meant: str) -> None:
    files = {"demo/utils.cuh": "", "sub/deep.h": "", "own/inc/far.h": ""}
    assert hint(name, setting(tmp_path, 'include-dirs = ["own"]', files=files)) == meant


def test_a_header_in_a_source_root_is_included_without_a_path(tmp_path: Path) -> None:
    there = setting(tmp_path / "project")
    write_tree(tmp_path, {"shared/util.cuh": ""})
    tree = ProjectTree(there.tree.root, (SourceRoot("shared", tmp_path / "shared", "../shared"),))
    assert hint("../../shared/utils.cuh", replace(there, tree=tree)) == "did you mean 'util.cuh'?"


def test_a_link_to_nothing_is_no_header(tmp_path: Path) -> None:
    there = setting(tmp_path, files={"far/away/x.h": ""})
    (tmp_path / "demo/sub").mkdir()
    (tmp_path / "demo/sub/x.h").symlink_to("gone.h")
    assert hint("x.h", there) == 'include-dirs = ["far/away"]'


def test_another_wording_of_the_compilers_is_understood(tmp_path: Path) -> None:
    told = headers.missing([error('could not open source file "vector" (no directories)')], setting(tmp_path))
    assert told is not None


def test_what_follows_from_a_missing_header_is_left_out(tmp_path: Path) -> None:
    missing = error('cannot open source file "vector"')
    told = headers.missing([error("x"), missing, error("y")], setting(tmp_path))
    assert told is not None
    assert (told[0].text, told[1]) == (missing.text, [])
    assert headers.missing([error("x")], setting(tmp_path)) is None


def test_a_header_that_the_table_includes_has_the_place_of_its_line(tmp_path: Path) -> None:
    line_of_options = 'options = { pre-include = ["gone.h"] }'
    source_table = f'[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/*"\n{line_of_options}'
    for options, line in {line_of_options: 10, source_table: 12}.items():
        told = headers.missing([error('cannot open source file "gone.h"')], setting(tmp_path, options))
        assert told is not None
        assert told[0].where == Location("pyproject.toml", line)


def test_all_headers_that_are_missing_are_told_at_once(tmp_path: Path) -> None:
    text = """\
#include "x.h"
#include "gone.h"
#include <one/a.h>
#include "two/b.h"
#include <cutlass/c.h>
#include <curand_kernel.h>
#if ON
#include "on.h"
#endif
#if OFF
#include "off.h"
#elif defined(__CUDACC_RTC__)
#include "perhaps.h"
#endif
"""
    files = {
        "demo/x.h": '#pragma once\n#include "x.h"\n#include "y.h"\n',
        "demo/f/one/a.h": "",
        "demo/g/two/b.h": "",
    }
    there = setting(tmp_path, "define = { ON = 1, OFF = 0 }", text=text, files=files)
    first = error('cannot open source file "y.h"', "demo/x.h", 3, '  #include "y.h"')
    told = headers.missing([first, error("other")], there)
    assert told is not None
    folders = 'include-dirs = ["demo/f", "demo/g"]'
    packages = 'header-packages = ["nvidia-cutlass", "nvidia-curand"]'
    assert [(each.where, each.text, each.hint) for each in (told[0], *told[1])] == [
        (Location(path, line), f'cannot open source file "{name}"', expected)
        for path, line, name, expected in [
            ("demo/x.h", 3, "y.h", NOBODY),
            ("demo/a.cu", 2, "gone.h", NOBODY),
            ("demo/a.cu", 3, "one/a.h", folders),
            ("demo/a.cu", 4, "two/b.h", folders),
            ("demo/a.cu", 5, "cutlass/c.h", packages),
            ("demo/a.cu", 6, "curand_kernel.h", packages),
            ("demo/a.cu", 8, "on.h", NOBODY),
        ]
    ]
    assert headers.missing(told[1], there) is None


@pytest.mark.nvrtc
def test_a_source_that_lacks_several_headers_compiles_once_all_hints_are_followed(tmp_path: Path) -> None:
    files = {
        "a.cu": f'#include "one/a.h"\n#include <two/b.h>\n#include "gone.h"\n{SAXPY}',
        "f/one/a.h": "",
        "g/two/b.h": "",
    }
    options = 'archs = ["sm_90"]\n'
    error = refusal(CompileError, pipeline.build, make_project(tmp_path, files, options))
    assert [(each.where, each.hint) for each in error.problems] == [
        (Location("demo/a.cu", 1), f'{UNDER}include-dirs = ["demo/f", "demo/g"]'),
        (Location("demo/a.cu", 2), f'{UNDER}include-dirs = ["demo/f", "demo/g"]'),
        (Location("demo/a.cu", 3), NOBODY),
    ]
    followed = f"{options}{(error.problems[0].hint or '').removeprefix(UNDER)}\n"
    assert pipeline.build(make_project(tmp_path, {**files, "gone.h": ""}, followed))


ANEW = 'declaration is incompatible with template parameter "_Tp" (declared at line 6 of <nvrtc/cccl>/x.h)'


def test_headers_that_declare_anew_what_the_toolkit_has_are_of_another_time(tmp_path: Path) -> None:
    there = setting(tmp_path, 'header-packages = ["nvidia-cutlass==4.*"]', version=(13, 5))
    found = [
        error(ANEW, "<nvidia-cutlass/include>/cute/a.hpp"),
        error("more", "<nvidia-cutlass/include>/b.hpp"),
    ]
    (told,) = advise(found, there)
    assert told.context == ("and 1 more error after this error",)
    assert told.hint == (
        'nvidia-cutlass does not fit CUDA 13.5: use another version of the wheel or of CUDA: toolkit = "13.0"'
    )
    (told,) = advise(found, replace(there, version=(13, 0)))
    assert told.hint == ("nvidia-cutlass does not fit CUDA 13.0: use another version of the wheel or of CUDA")


@pytest.mark.parametrize("path", ["<cuda/cu13/include>/a.h", "demo/a.cu"])
def test_other_declarations_are_the_projects_own_to_mend(tmp_path: Path, path: str) -> None:
    found = [error(ANEW, path)]
    assert advise(found, setting(tmp_path, 'header-packages = ["nvidia-cutlass"]')) == found
