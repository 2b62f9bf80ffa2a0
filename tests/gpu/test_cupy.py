"""On a GPU: CuPy's subclasses launch the code of a wheel, and compute what CuPy computes."""

from __future__ import annotations

import importlib
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from tests.helpers import load_bundle, make_project

pytestmark = [pytest.mark.nvrtc, pytest.mark.cupy]

TEXT = """\
__constant__ float offset[1];
template <typename T> __global__ void add(T *a, int n) {
  extern __shared__ int unused[];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] += T(N) + T(offset[0]);
}
"""
NAMES = ["add<float>", "add<double>"]
CALL: dict[str, Any] = {"code": TEXT, "options": ("-DN=4", "--std=c++17"), "name_expressions": NAMES}
TABLE = """\
    archs = ["native"]
    [[tool.hatch.build.hooks.cubin.source]]
    path = "**/add.cu"
    as = "cupy"
    options = ["-DN=4", "--std=c++17"]
    instantiate = ["add<float>", "add<double>"]
    """


@pytest.fixture
def cupy() -> Any:
    return importlib.import_module("cupy")


@pytest.fixture
def classes(tmp_path: Path) -> Iterator[Any]:
    project = make_project(tmp_path, {"demo/add.cu": TEXT}, TABLE)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield load_bundle(tmp_path / "bundle", pipeline.build(project))._part("cupy")


def results(cupy: Any, module: Any) -> list[Any]:
    """Launch all kernels of a module, with and without a value in its variable."""
    found = []
    for value in (0, 3):
        variable = cupy.ndarray((1,), cupy.float32, module.get_global("offset"))
        variable[...] = value
        for name, kind in zip(NAMES, (cupy.float32, cupy.float64), strict=True):
            array = cupy.arange(1000, dtype=kind)
            module.get_function(name)((4,), (256,), (array, cupy.int32(array.size)))
            found.append(cupy.asnumpy(array).tolist())
    return found


def test_a_shipped_module_computes_what_cupy_computes(cupy: Any, classes: Any) -> None:
    assert results(cupy, classes.RawModule(**CALL)) == results(cupy, cupy.RawModule(**CALL))


def test_attributes_of_a_kernel_are_those_of_cupy(cupy: Any, classes: Any) -> None:
    own, other = (kind(**CALL).get_function("add<float>") for kind in (classes.RawModule, cupy.RawModule))
    assert own.attributes == other.attributes
    own.max_dynamic_shared_size_bytes = 60_000
    assert own.max_dynamic_shared_size_bytes == 60_000


def test_a_kernel_survives_a_pickle(cupy: Any, classes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    module = classes.RawModule(**CALL)
    monkeypatch.setitem(importlib.import_module("sys").modules, classes.__package__, classes)
    monkeypatch.setitem(importlib.import_module("sys").modules, classes.__name__, classes)
    kernel = pickle.loads(pickle.dumps(module.get_function("add<float>")))  # noqa: S301
    array = cupy.zeros(3, cupy.float32)
    kernel((1,), (32,), (array, cupy.int32(3)))
    assert cupy.asnumpy(array).tolist() == [4, 4, 4]


def test_each_device_gets_the_code(cupy: Any, classes: Any) -> None:
    kernel = classes.RawModule(**CALL).get_function("add<float>")
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        with cupy.cuda.Device(number):
            array = cupy.zeros(3, cupy.float32)
            kernel((1,), (32,), (array, cupy.int32(3)))
            assert cupy.asnumpy(array).tolist() == [4, 4, 4]


def test_another_text_is_compiled_and_computes(cupy: Any, classes: Any) -> None:
    other = {**CALL, "code": f"{TEXT}// another text\n"}
    with pytest.warns(classes.CompiledAtRunTimeWarning):
        found = results(cupy, classes.RawModule(**other))
    assert found == results(cupy, cupy.RawModule(**other))
