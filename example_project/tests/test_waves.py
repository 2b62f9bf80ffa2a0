"""Run against the installed wheel: the numbers where there is a GPU, what was shipped where there is none."""

import numpy as np
import pytest
import waves
from waves import _cubins as cubins

HAS_GPU = cubins.is_available()


@pytest.mark.skipif(not HAS_GPU, reason="needs a GPU")
def test_saxpy_computes() -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, dtype=np.float32)
    np.testing.assert_array_equal(waves.saxpy(2.0, x, y), 2 * x + 1)


@pytest.mark.skipif(HAS_GPU, reason="needs a machine without a GPU")
def test_without_a_gpu_the_error_says_so() -> None:
    one = np.ones(1, dtype=np.float32)
    with pytest.raises(cubins.CubinUnavailableError):
        waves.saxpy(2.0, one, one)


def test_every_kernel_is_shipped() -> None:
    assert cubins.names() == ("block_sum<double, 256>", "block_sum<float, 256>", "fill", "saxpy")


@pytest.mark.parametrize(
    ("capability", "arch"),
    [((8, 0), "sm_80"), ((8, 9), "sm_80"), ((9, 0), "sm_90"), ((10, 3), "sm_100"), ((12, 1), "sm_120")],
)
def test_every_supported_gpu_has_machine_code(capability: tuple[int, int], arch: str) -> None:
    for name in cubins.names():
        assert cubins.find(name, cc=capability).arch == arch
        assert cubins.read(name, cc=capability).startswith(b"\x7fELF")


def test_a_gpu_of_the_future_gets_ptx() -> None:
    assert cubins.find("saxpy", cc=(13, 0)).arch == "compute_120"
    assert cubins.find("fill", cc=(13, 0)).arch == "compute_80"
