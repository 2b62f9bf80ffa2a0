"""Tile kernels, with NVIDIA's own tileiras: the results beside those of nvcc and of cuTile."""

from __future__ import annotations

import importlib
import io
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cubin import elf
from hatch_cubin.cubin.target import arch_of
from hatch_cubin.errors import CompileError
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, found, make_project, refusal, write_tree
from tests.tile_tools import TILE

pytestmark = [pytest.mark.nvrtc, pytest.mark.tile]

TRANSPOSE = """\
#include <cuda_tile.h>
template <class T, int N, int M>
__tile_global__ void transpose(T* __restrict__ a, T* __restrict__ b, unsigned n, unsigned m) {
  namespace ct = cuda::tiles;
  using namespace ct::literals;
  a = ct::assume_aligned(a, 16_ic);
  b = ct::assume_aligned(b, 16_ic);
  auto [x, y, z] = ct::bid();
  auto from = ct::partition_view{ct::tensor_span{a, ct::extents{n, m}}, ct::shape<N, M>{}};
  auto to = ct::partition_view{ct::tensor_span{b, ct::extents{m, n}}, ct::shape<M, N>{}};
  to.store_masked(ct::transpose(from.load_masked(x, y)), y, x);
}
template __tile_global__ void transpose<float, 64, 128>(float*, float*, unsigned, unsigned);
template __tile_global__ void transpose<double, 64, 64>(double*, double*, unsigned, unsigned);
"""
GUARDED = TILE.replace("256", "SIZE").replace(
    'extern "C"', '#if __CUDA_ARCH__ >= 900\n#define SIZE 512\n#else\n#define SIZE 256\n#endif\nextern "C"'
)
ARCHS = {80: "sm_80", 90: "sm_90a", 100: "sm_100a", 120: "sm_120a"}
OPTIONS = 'archs = ["sm_80", "sm_90", "sm_100", "sm_120"]\noptions = { std = "c++20" }\n'


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))


def build(root: Path, text: str, options: str = OPTIONS) -> dict[str, bytes]:
    return pipeline.build(make_project(root, {"k.cu": text}, options))


def cubins(files: dict[str, bytes], stem: str) -> dict[str, bytes]:
    return {name.split(".")[1]: data for name, data in files.items() if name.startswith(f"{stem}.sm_")}


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        (TILE, ["negate"]),
        (GUARDED, ["negate"]),
        (TRANSPOSE, ["_Z9transposeIdLi64ELi64EEvPT_S1_jj", "_Z9transposeIfLi64ELi128EEvPT_S1_jj"]),
    ],
    ids=["plain", "guarded", "templates"],
)
def test_code_is_that_of_nvcc(tmp_path: Path, text: str, kernels: list[str]) -> None:
    files = cubins(build(tmp_path / "p", text), "k")
    assert files.keys() == {*ARCHS.values()}
    nvcc = shutil.which("nvcc", path=str(Path(Toolkit(None).tile_assembler).parent))
    for number, arch in ARCHS.items():
        assert arch_of(files[arch]) == arch
        assert sorted(elf.read_cubin(files[arch]).kernels) == kernels
        if nvcc is None or shutil.which("g++") is None:
            continue
        (tmp_path / "k.cu").write_text(text)
        command = [
            nvcc,
            "-std=c++20",
            "-tilecubin",
            "--enable-tile",
            f"-arch=sm_{number}",
            "k.cu",
            "-o",
            "k.cubin",
        ]
        subprocess.run(command, cwd=tmp_path, check=True)
        theirs = (tmp_path / "k.cubin").read_bytes()
        for section in [
            f"{kind}.{kernel}" for kind in (".text", ".nv.info", ".nv.constant0") for kernel in kernels
        ]:
            if section.startswith(".nv.info"):
                continue  # it has the numbers of symbols
            assert elf.read_section(files[arch], section) == elf.read_section(theirs, section), section
        assert elf.read_resources(files[arch]) == elf.read_resources(theirs)


@pytest.mark.parametrize("options", ["", "lineinfo = true", "debug = true"])
def test_bytes_are_equal_in_every_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: str
) -> None:
    found = []
    table = OPTIONS.replace('"c++20" }', f'"c++20", {options} }}') if options else OPTIONS
    for place in ("one", "another/place"):
        monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / place / "cache"))
        found.append(build(tmp_path / place, TILE + SAXPY, table))
    assert found[0] == found[1]
    modules = json.loads(found[0]["manifest.json"])["modules"]
    assert {name: [*each["kernels"]] for name, each in modules.items()} == {
        "k": ["saxpy"],
        "k_tile": ["negate"],
    }


# cuTile reads the source of a kernel from its file, and evaluates its annotations.
SCALE = """\
import cuda.tile as ct

@ct.kernel
def scale(a, b, SIZE: ct.Constant[int]):
    here = (ct.bid(0),)
    ct.store(b, index=here, tile=ct.load(a, index=here, shape=(SIZE,)) * 2)
"""


@pytest.mark.cutile
def test_code_of_cutile_is_that_of_its_own_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.tile import compilation, float32, int32

    write_tree(tmp_path, {"kernel_of_cutile.py": SCALE})
    monkeypatch.syspath_prepend(tmp_path)
    kernel = importlib.import_module("kernel_of_cutile").scale
    array = compilation.ArrayConstraint(
        float32,
        1,
        index_dtype=int32,
        stride_lower_bound_incl=0,
        alias_groups=(),
        may_alias_internally=False,
    )
    call = compilation.CallingConvention.cutile_python_v1()
    signature = compilation.KernelSignature([array, array, 256], call, symbol="scale")

    def export(**how: str) -> bytes:
        output = io.BytesIO()
        compilation.export_kernel(kernel, [signature], output, **how)
        return output.getvalue()

    options = 'archs = ["sm_80", "sm_90", "sm_100", "sm_120"]\noptions = { lineinfo = true }'
    project = make_project(tmp_path / "p", {"ir.tileir": export(output_format="tileir_bytecode")}, options)
    assert cubins(pipeline.build(project), "ir") == {
        arch: export(output_format="cubin", gpu_code=f"sm_{number}") for number, arch in ARCHS.items()
    }


def test_damaged_tile_ir_is_refused(tmp_path: Path) -> None:
    project = make_project(
        tmp_path / "p", {"ir.tileir": b"\x7fTileIR\0\x0d\x03\0\0 damaged"}, 'archs = ["sm_80"]'
    )
    error = refusal(CompileError, pipeline.build, project)
    assert {*found(error)} == {("compiler-error", "demo/ir.tileir")}
    assert {problem.hint for problem in error.problems} == {None}
