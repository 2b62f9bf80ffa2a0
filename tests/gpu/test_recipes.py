"""The guide's recipes on a GPU: each loads and launches with its own framework."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from tests.guide_recipes import RECIPES
from tests.helpers import SAXPY, make_project, write_tree

pytestmark = pytest.mark.nvrtc

COUNT = 1000


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package `mypkg` with the kernel in it on the path."""
    from cuda.core import Device

    arch = "sm_{}{}".format(*Device().compute_capability)
    files = pipeline.build(make_project(tmp_path / "project", {"saxpy.cu": SAXPY}, f'archs = ["{arch}"]'))
    write_tree(
        tmp_path / "mypkg", {"__init__.py": "", **{f"_cubins/{name}": data for name, data in files.items()}}
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == "mypkg"]:
        monkeypatch.delitem(sys.modules, name)


def recipe(name: str) -> Any:
    """Run a recipe as it stands in the guide and return its saxpy."""
    namespace: dict[str, Any] = {}
    exec(compile(RECIPES[name], name, "exec"), namespace)  # noqa: S102
    return namespace["saxpy"]


X, Y = [float(number) for number in range(COUNT)], [1.0] * COUNT
EXPECTED = [2 * number + 1 for number in X]


@pytest.mark.usefixtures("package")
def test_cupy() -> None:
    cupy = pytest.importorskip("cupy")
    x, y = cupy.asarray(X, dtype="float32"), cupy.asarray(Y, dtype="float32")
    recipe("cupy")(2.0, x, y)
    assert y.get().tolist() == EXPECTED


@pytest.mark.usefixtures("package")
def test_torch() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.tensor(X, device="cuda"), torch.tensor(Y, device="cuda")
    recipe("torch")(2.0, x, y)
    assert y.cpu().tolist() == EXPECTED


@pytest.mark.usefixtures("package")
def test_jax() -> None:
    jax = pytest.importorskip("jax")
    pytest.importorskip("jax_tvm_ffi")
    x, y = (jax.numpy.asarray(each, dtype="float32", device=jax.devices("gpu")[0]) for each in (X, Y))
    saxpy = recipe("jax")
    assert saxpy(2.0, x, y).tolist() == EXPECTED
    assert jax.jit(saxpy, static_argnums=0)(2.0, x, y).tolist() == EXPECTED
    assert y.tolist() == Y


@pytest.mark.usefixtures("package")
@pytest.mark.filterwarnings("ignore:The 'generic' unit for NumPy timedelta:DeprecationWarning")  # numba-cuda
def test_numba_cuda() -> None:
    cuda = pytest.importorskip("numba.cuda")
    np = pytest.importorskip("numpy")
    x, y = (cuda.to_device(np.array(each, dtype=np.float32)) for each in (X, Y))
    recipe("numba.cuda")(2.0, x, y)
    assert y.copy_to_host().tolist() == EXPECTED


@pytest.mark.usefixtures("package")
def test_ctypes() -> None:
    from cuda.core import Device, LegacyPinnedMemoryResource

    np = pytest.importorskip("numpy")
    device = Device()
    device.set_current()
    buffers = [LegacyPinnedMemoryResource().allocate(4 * COUNT) for _ in range(2)]
    views = [np.from_dlpack(buffer).view(np.float32) for buffer in buffers]
    for view, values in zip(views, (X, Y), strict=True):
        view[:] = values
    recipe("ctypes")(2.0, *(int(buffer.handle) for buffer in buffers), COUNT)
    device.sync()
    assert views[1].tolist() == EXPECTED
