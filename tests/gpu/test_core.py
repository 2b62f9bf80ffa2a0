"""On a GPU: the code that a package's `Program` returns computes what cuda.core's own code computes."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest

from .test_load_and_launch import launch, load

pytestmark = pytest.mark.nvrtc

TEXT = """\
template <typename T> __global__ void add(T *a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < 1000) a[i] = a[i] / T(3) + T(N);
}
"""
TABLE = """\
    archs = ["{archs}"]
    [[tool.hatch.build.hooks.cubin.source]]
    path = "**/add.cu"
    as = "cuda.core"
    options = ["-DN=4", "--std=c++17", "--use_fast_math"]
    instantiate = ["add<float>"]
    """


@pytest.fixture
def own(tmp_path: Path) -> Any:
    return load(tmp_path, "native", {"add.cu": TEXT}, TABLE)._part("core")


def results(kind: Any, text: str = TEXT) -> Any:
    """Launch the kernel of a program."""
    from cuda.core import Device, ProgramOptions

    device = Device()
    device.set_current()
    options = ProgramOptions(std="c++17", use_fast_math=True, define_macro=("N", "4"))
    code = kind(text, "c++", options).compile("cubin", ["add<float>"])
    return launch(device, code.get_kernel("add<float>"), [[float(number) for number in range(1000)]])


def test_shipped_code_computes_what_cuda_core_computes(own: Any) -> None:
    from cuda.core import Program

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = results(own.Program)
    assert found == results(Program)


def test_another_text_is_compiled_and_computes(own: Any) -> None:
    from cuda.core import Program

    text = f"{TEXT}// another text\n"
    with pytest.warns(own.CompiledAtRunTimeWarning):
        found = results(own.Program, text)
    assert found == results(Program, text)
