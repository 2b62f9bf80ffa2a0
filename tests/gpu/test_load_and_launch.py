"""On a GPU: what was built is loaded, launched, and computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from tests.helpers import SAXPY, SCALE, load_bundle, make_project

pytestmark = pytest.mark.nvrtc

COUNT = 1000
OPTIONS = """\
    archs = ["{archs}"]
    [[tool.hatch.build.hooks.cubin.source]]
    path = "**/scale.cu"
    instantiate = ["scale<float, 4>"]
    """
FILL = """\
extern "C" __global__ void fill(float *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] = WITH;
}
"""


@pytest.fixture
def device() -> Any:
    from cuda.core import Device

    device = Device()
    device.set_current()
    return device


def load(root: Path, archs: str, sources: dict[str, str | bytes], options: str = OPTIONS) -> Any:
    project = make_project(root, sources, options.replace("{archs}", archs))
    return load_bundle(root / "bundle", pipeline.build(project))


def native(device: Any) -> str:
    return "sm_{}{}".format(*device.compute_capability)


def launch(
    device: Any, kernel: Any, arrays: list[list[float]], *before: Any, after: tuple[Any, ...] = ()
) -> Any:
    """Run *kernel* over float arrays, in place, and return them."""
    np = pytest.importorskip("numpy")
    from cuda.core import LaunchConfig, LegacyPinnedMemoryResource
    from cuda.core import launch as start

    pinned, stream = LegacyPinnedMemoryResource(), device.create_stream()
    buffers = [pinned.allocate(4 * len(array)) for array in arrays]
    views = [np.from_dlpack(buffer).view(np.float32) for buffer in buffers]
    for view, array in zip(views, arrays, strict=True):
        view[:] = array
    start(stream, LaunchConfig(grid=-(-len(arrays[0]) // 256), block=256), kernel, *before, *buffers, *after)
    stream.sync()
    return [view.tolist() for view in views]


@pytest.mark.parametrize("kind", ["cubin", "ptx"])
def test_saxpy_computes(device: Any, tmp_path: Path, kind: str) -> None:
    np = pytest.importorskip("numpy")
    cubins = load(
        tmp_path,
        native(device) if kind == "cubin" else "compute_75",
        {"saxpy.cu": SAXPY},
        'archs = ["{archs}"]',
    )
    assert cubins.find("saxpy", driver=None).kind == kind
    try:
        kernel = cubins.kernel("saxpy")
    except cubins.CubinNotFoundError as exc:
        assert kind == "ptx"
        pytest.skip(f"the driver is older than the toolkit: {exc}")
    x, y = [float(i) for i in range(COUNT)], [1.0] * COUNT
    result = launch(device, kernel, [x, y], np.float32(2), after=(np.int32(COUNT),))
    assert result == [x, [2 * each + 1 for each in x]]


def test_a_template_computes(device: Any, tmp_path: Path) -> None:
    cubins = load(tmp_path, native(device), {"scale.cu": SCALE})
    kernel = cubins.module("scale").get_kernel("scale<float, 4>")
    for each in (kernel, cubins.kernel("scale<float,4>")):
        assert each.attributes.max_threads_per_block() > 0
    from cuda.core import LaunchConfig, LegacyPinnedMemoryResource
    from cuda.core import launch as start

    np = pytest.importorskip("numpy")
    stream, buffer = device.create_stream(), LegacyPinnedMemoryResource().allocate(16)
    view = np.from_dlpack(buffer).view(np.float32)
    view[:] = [1, 2, 3, 4]
    start(stream, LaunchConfig(grid=1, block=1), cubins.kernel("scale<float,4>"), buffer)
    stream.sync()
    assert view.tolist() == [2, 4, 6, 8]


def test_the_variant_that_was_asked_for_computes(device: Any, tmp_path: Path) -> None:
    np = pytest.importorskip("numpy")
    options = """\
        archs = ["{archs}"]
        [[tool.hatch.build.hooks.cubin.source]]
        path = "**/fill.cu"
        variants = { WITH = [3, 4] }
        """
    cubins = load(tmp_path, native(device), {"fill.cu": FILL}, options)
    for value in (3, 4):
        result = launch(device, cubins.kernel("fill", WITH=value), [[0.0] * COUNT], after=(np.int32(COUNT),))
        assert result == [[float(value)] * COUNT]


def test_a_device_is_there_and_every_ordinal_can_be_asked_for(device: Any, tmp_path: Path) -> None:
    cubins = load(tmp_path, native(device), {"saxpy.cu": SAXPY}, 'archs = ["{archs}"]')
    assert cubins.is_available()
    assert cubins.find("saxpy", device=device.device_id) is cubins.find("saxpy", device=device)


def test_nothing_that_fits_names_the_line_that_would(device: Any, tmp_path: Path) -> None:
    other = "sm_75" if native(device) != "sm_75" else "sm_120"
    cubins = load(tmp_path, other, {"saxpy.cu": SAXPY}, 'archs = ["{archs}"]')
    with pytest.raises(cubins.CubinNotFoundError, match=f'archs = \\["{native(device)}"\\]'):
        cubins.kernel("saxpy")
