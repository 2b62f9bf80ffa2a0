"""One project, several CUDA toolkits: the wheels that each asks for, in builds as isolated as users' are."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.capabilities import cuobjdump
from tests.helpers import COPY_PTX, REPOSITORY, load_bundle, pyproject, run, wheel_files
from tests.host_includes import FROM_HABIT

from .conftest import Venv
from .projects import ONE_ARCH, demo

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux, pytest.mark.usefixtures("isolated")]

TENSOR = """\
#include <cuda_fp16.h>
#include <mma.h>
#include "../include/twice.cuh"
extern "C" __global__ void tensor(half *a, float *c) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> left;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> right;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(sum, twice(0.5f));
  nvcuda::wmma::load_matrix_sync(left, a, 16);
  nvcuda::wmma::load_matrix_sync(right, a, 16);
  nvcuda::wmma::mma_sync(sum, left, right, sum);
  nvcuda::wmma::store_matrix_sync(c, sum, 16, nvcuda::wmma::mem_row_major);
}
"""
TWICE = "namespace { template <class T> __device__ T twice(T x) { return x + x; } }\n"
GROUPS = """\
#include <cooperative_groups.h>
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void groups(int *x) {
  using Reduce = cub::BlockReduce<int, 128>;
  __shared__ typename Reduce::TempStorage storage;
  auto block = cooperative_groups::this_thread_block();
  int sum = Reduce(storage).Sum(x[block.thread_rank()]);
  block.sync();
  if (block.thread_rank() == 0) *x = sum;
}
"""
FILES = {
    "demo/__init__.py": "",
    "demo/copy.ptx": COPY_PTX,
    "demo/groups.cu": GROUPS,
    "demo/tensor.cu": TENSOR,
    "demo/usual.cu": FROM_HABIT,
    "include/twice.cuh": TWICE,
}
KERNELS = ("copy", "groups", "tensor", "usual")
RULE = """
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/tensor.cu"
archs = ["sm_90", "compute_90"]
options = { lineinfo = true }
"""


class Built:
    """A wheel, by what is in its bundle, and how many of its units had to be compiled."""

    def __init__(self, wheel: Path, report: Path) -> None:
        prefix = "demo/_cubins/"
        self.files = {
            name.removeprefix(prefix): data
            for name, data in wheel_files(wheel).items()
            if name.startswith(prefix)
        }
        self.manifest: dict[str, Any] = json.loads(self.files["manifest.json"])
        units = json.loads(self.files["keys.json"])["units"].items()
        self.keys = {unit["key"] for _module, archs in units for unit in archs.values()}
        counted = json.loads(report.read_text("utf-8"))
        self.compiled, self.hits = counted["compiled"], counted["hits"]

    def min_drivers(self) -> dict[str, int]:
        """Return what each file of the tensor kernel asks of the driver."""
        return {entry["arch"]: entry["min_driver"] for entry in self.manifest["modules"]["tensor"]["entries"]}


def build(root: Path, toolkit: str, home: Path | None = None) -> Built:
    """Build the project at *root* with *toolkit*, as `uv build` does: alone with what it asked for."""
    (root / "pyproject.toml").write_text(pyproject(f'toolkit = "{toolkit}"\n{ONE_ARCH}{RULE}'))
    report = root / "report.json"
    command = (sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", root / "out")
    environ = {"HATCH_CUBIN_REPORT": str(report), "CUDA_HOME": str(home or "")}
    run(*command, cwd=root, check=True, **environ)
    return Built(root / "out/demo-1.0-py3-none-any.whl", report)


TOOLKITS = ("12.9", "13.0", "13")


def test_one_project_and_one_cache_serve_three_toolkits(tmp_path: Path) -> None:
    root = demo(tmp_path / "project", files=FILES)
    cold = {toolkit: build(root, toolkit) for toolkit in TOOLKITS}
    assert {toolkit: (built.hits, built.compiled) for toolkit, built in cold.items()} == dict.fromkeys(
        TOOLKITS, (0, 5)
    )
    keys = [built.keys for built in cold.values()]
    assert len(set.union(*keys)) == sum(map(len, keys)) == 15

    builds = {toolkit: built.manifest["toolchain"]["nvrtc"] for toolkit, built in cold.items()}
    minors = {toolkit: build.rpartition(".")[0] for toolkit, build in builds.items()}
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", build) for build in builds.values())
    assert (minors["12.9"], minors["13.0"]) == ("12.9", "13.0")
    assert (13, 4) <= tuple(map(int, minors["13"].split("."))) < (14, 0)
    assert {toolkit: built.manifest["toolchain"]["ptxas"] for toolkit, built in cold.items()} == builds
    assert {built.manifest["toolchain"]["nvjitlink"] for built in cold.values()} == {None}

    newest = 13000 + 10 * int(minors["13"].partition(".")[2])
    assert {toolkit: built.min_drivers() for toolkit, built in cold.items()} == {
        "12.9": {"sm_90": 12000, "compute_90": 12090},
        "13.0": {"sm_90": 13000, "compute_90": 13000},
        "13": {"sm_90": 13000, "compute_90": newest},
    }
    for toolkit, built in cold.items():
        cubins = load_bundle(tmp_path / "installed" / toolkit, built.files)
        assert cubins.names() == KERNELS
        assert cubins.find("tensor", cc=(9, 0), driver=13000).arch == "sm_90"
        assert all(cubins.read(kernel, cc=(9, 0))[:4] == b"\x7fELF" for kernel in KERNELS)

    warm = {toolkit: build(root, toolkit) for toolkit in TOOLKITS}
    assert {toolkit: (built.hits, built.compiled) for toolkit, built in warm.items()} == dict.fromkeys(
        TOOLKITS, (5, 0)
    )
    assert {toolkit: built.files for toolkit, built in warm.items()} == {
        toolkit: built.files for toolkit, built in cold.items()
    }
    if (reader := cuobjdump()) is not None:
        for toolkit in TOOLKITS:
            for kernel in KERNELS:
                cubin = tmp_path / "installed" / toolkit / f"{kernel}.sm_90.cubin"
                assert f"Function {kernel}:" in run(reader, "-res-usage", cubin, cwd=tmp_path).stdout


@pytest.fixture
def own_toolkit(tmp_path: Path, venv: Venv) -> Path:
    """A CUDA_HOME: CUDA 13.0 as a folder, which no package manager of Python's knows."""
    target = tmp_path / "toolkit"
    venv.uv("install", "--target", target, "cuda-toolkit[nvrtc,cudart,cccl,crt,nvcc]==13.0.*")
    return target / "nvidia/cu13"


def test_a_toolkit_of_the_systems_is_used_with_its_headers_and_nothing_of_the_wheels(
    tmp_path: Path, own_toolkit: Path
) -> None:
    root = demo(tmp_path / "project", files=FILES)
    built = build(root, "system", own_toolkit)
    assert (built.hits, built.compiled) == (0, 5)
    assert re.fullmatch(r"13\.0\.\d+", built.manifest["toolchain"]["nvrtc"])
    assert built.manifest["toolchain"]["ptxas"] == built.manifest["toolchain"]["nvrtc"]
    assert build(root, "system", own_toolkit).hits == 5


@pytest.mark.cuda_home
def test_the_headers_of_an_installed_toolkit_serve_its_compiler(tmp_path: Path, own_toolkit: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "lib64").symlink_to(own_toolkit / "lib")
    (home / "bin").symlink_to(own_toolkit / "bin")
    (home / "include").symlink_to("/usr/local/cuda/include")
    root = demo(tmp_path / "project", files=FILES)
    assert build(root, "system", home).compiled == 5


def test_headers_are_followed_as_an_older_compiler_asks_for_them(venv: Venv, own_wheels: Path) -> None:
    """CUDA 13.0 knows `__has_include_next`, and 13.5 does not."""
    toolkit = ("cuda-toolkit[nvrtc]==13.0.*", "nvidia-nvjitlink==13.0.*", "cuda-bindings==13.*", "cuda-core")
    venv.install(*toolkit, *own_wheels.glob("*.whl"))
    said = venv.run(REPOSITORY / "tests/fuzz/include_trees.py", "30")
    assert re.fullmatch(r"NVRTC 13\.0\.\d+: \{.*\}, wrong 0\n", said)
