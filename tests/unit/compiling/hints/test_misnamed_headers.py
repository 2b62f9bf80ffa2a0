"""Headers that no file is called like."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints import headers, misnamed_headers
from hatch_cubin.errors import Location
from hatch_cubin.headers.resolve import SearchFolder
from tests.helpers import pyproject, write_tree

from .failed_compiles import error, setting


def own(name: str, root: Path, *files: str, options: str = "", quoted: bool = True) -> str | None:
    """Return the hint for an include in demo/a.cu of a project with these files."""
    text = f'#include "{name}"' if quoted else f"#include <{name}>"
    folders = (SearchFolder(root / "include", "project/include"),)
    there = setting(root, options, text=text, search=folders, files=dict.fromkeys(files, ""))
    return misnamed_headers.projects(name, "demo/a.cu", there)


@pytest.mark.parametrize(
    ("name", "there", "meant"),
    [
        ("confg.h", "demo/config.h", "config.h"),
        ("Util.cuh", "demo/util.cuh", "util.cuh"),
        ("Detail/Util.cuh", "demo/detail/util.cuh", "detail/util.cuh"),
        ("util.h", "demo/util.cuh", "util.cuh"),
        ("core/util.cuh", "demo/detail/util.cuh", "detail/util.cuh"),
        ("../util.cuh", "demo/util.cuh", "util.cuh"),
        ("../Inc/util.cuh", "inc/util.cuh", "../inc/util.cuh"),
        ("detail\\util.cuh", "demo/detail/util.cuh", "detail/util.cuh"),
        ("util.cuh ", "demo/util.cuh", "util.cuh"),
        ("confg.h", "include/config.h", "config.h"),
    ],
)
def test_a_header_of_the_project_is_guessed_by_a_name_that_finds_it(
    tmp_path: Path, name: str, there: str, meant: str
) -> None:
    assert own(name, tmp_path, there) == f"did you mean {meant!r}?"


def test_a_header_that_no_folder_finds_is_guessed_with_its_folder(tmp_path: Path) -> None:
    assert own("confg.h", tmp_path / "a", "inc/config.h") == (
        "did you mean 'config.h'? This finds it: include-dirs = [\"inc\"]"
    )
    assert own("confg.h", tmp_path / "b", "demo/config.h", quoted=False) == (
        "did you mean 'config.h'? This finds it: include-dirs = [\"demo\"]"
    )
    assert own("sub/confg.h", tmp_path / "c", "sub/config.h", quoted=False) == (
        "did you mean 'sub/config.h'? This finds it: include-dirs = [\".\"]"
    )


def test_a_header_that_a_template_makes_is_to_be_written(tmp_path: Path) -> None:
    assert own("config.h", tmp_path / "a", "demo/config.h.in", "demo/config.hpp") == (
        "demo/config.h.in is the template of config.h: write demo/config.h from it before the build"
    )
    assert own("config.h", tmp_path / "b", "config.h.jinja") == (
        "config.h.jinja is the template of config.h: write config.h from it before the build"
    )


def test_other_files_of_the_project_are_not_guessed(tmp_path: Path) -> None:
    assert own("helper.cuh", tmp_path, "demo/types.cuh", "demo/helper.py", "demo/helper.cu") is None


def toolkit(root: Path) -> tuple[SearchFolder, ...]:
    names = "cuda/barrier cuda/std/array cuda/std/complex cuda/std/cstdint cuda/std/__complex"
    files = [
        *names.split(),
        "cub/detail/block_x.cuh",
        "cub/block/block_reduce.cuh",
        "host_config.h",
        "version",
        "cuda_fp16.h",
    ]
    return (
        SearchFolder(write_tree(root, dict.fromkeys(files, "")), "cuda/include", "wheels"),
        SearchFolder(root / "gone", "x", "y"),
        SearchFolder(root / "own", "project/own"),
    )


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cuda/barier", "cuda/barrier"),
        ("cuda/std/arry", "cuda/std/array"),
        ("cuda/std/compl", "cuda/std/complex"),
        ("cuda/std/cstdint.h", "cuda/std/cstdint"),
        ("cub/block/block_reduc.cuh", "cub/block/block_reduce.cuh"),
        ("cub/block_reduce.cuh", "cub/block/block_reduce.cuh"),
        ("cub/blocks/block_reduc.cuh", "cub/block/block_reduce.cuh"),
        ("cuda_fp61.h", "cuda_fp16.h"),
        ("curand_kernels.h", "curand_kernel.h"),
    ],
)
def test_a_header_of_the_toolkit_is_guessed_from_those_that_are_there(
    tmp_path: Path, name: str, meant: str
) -> None:
    there = setting(tmp_path / "p", search=toolkit(tmp_path / "t"))
    assert misnamed_headers.toolkits(name, there) == f"did you mean {meant!r}?"


@pytest.mark.parametrize(
    "name", ["config.h", "version.h", "utils.h", "common.h", "cuda/std/none", "cub/block_x.cuh"]
)
def test_a_header_that_is_only_a_little_like_one_of_the_toolkit_is_not_guessed(
    tmp_path: Path, name: str
) -> None:
    assert misnamed_headers.toolkits(name, setting(tmp_path / "p", search=toolkit(tmp_path / "t"))) is None


@pytest.mark.parametrize("name", ["vector", "string", "map", "iostream"])
def test_what_the_standard_library_has_for_hosts_alone_is_not_in_cuda(tmp_path: Path, name: str) -> None:
    hint = misnamed_headers.toolkits(f"cuda/std/{name}", setting(tmp_path, version=(13, 0)))
    assert hint is not None
    assert hint.startswith(f"CUDA 13.0 has no <{name}> for device code")


@pytest.mark.parametrize(
    "options",
    [
        'options = { pre-include = "util.h" }',
        'options = { pre_include = ["cstdint", "util.h"] }',
        '[[tool.hatch.build.hooks.cubin.source]]\npath = "**/*.cu"\noptions = { pre-include = "util.h" }',
    ],
)
def test_a_header_that_an_option_includes_is_reported_at_the_option(tmp_path: Path, options: str) -> None:
    there = setting(tmp_path, options)
    told = headers.missing([error('cannot open source file "util.h"', line=None)], there)
    assert told is not None
    assert told[0].where == Location("pyproject.toml", pyproject(options).count("\n") + 1)
