"""What `archs = ["native"]` stands for: the GPUs of this machine, as its driver describes them."""

from __future__ import annotations

import ctypes
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.errors import ToolchainError
from hatch_cubin.keys.jobs import expand
from hatch_cubin.toolkit import local_gpus
from hatch_cubin.toolkit.local_gpus import native_archs
from tests.helpers import found, refusal


class Driver:
    """A driver with two kinds of GPU, or one that fails at some call."""

    def __init__(self, capabilities: list[tuple[int, int]], fails: str = "") -> None:
        self._capabilities = capabilities
        self._fails = fails

    def _answer(self, call: str, pointer: Any, value: int) -> int:
        pointer._obj.value = value
        return int(call == self._fails)

    def cuInit(self, _flags: int) -> int:  # noqa: N802 - the driver's own name
        return int(self._fails == "init")

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        return self._answer("count", count, len(self._capabilities))

    def cuDeviceGet(self, device: Any, ordinal: int) -> int:  # noqa: N802
        return self._answer("get", device, ordinal)

    def cuDeviceGetAttribute(self, value: Any, attribute: int, device: Any) -> int:  # noqa: N802
        return self._answer("attribute", value, self._capabilities[device.value][attribute - 75])


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_native_is_every_kind_of_gpu_once(monkeypatch: pytest.MonkeyPatch, platform: str) -> None:
    libraries = {"linux": "libcuda.so.1", "win32": "nvcuda.dll"}
    drivers = {libraries[platform]: Driver([(9, 0), (12, 1), (9, 0)])}
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(ctypes, "CDLL", drivers.__getitem__)
    assert native_archs() == (90, 121)


@pytest.mark.parametrize(
    ("driver", "reason"),
    [
        (Driver([(9, 0)], "init"), "the driver finds no device"),
        (Driver([(9, 0)], "count"), "the driver finds no device"),
        (Driver([]), "the driver finds no device"),
        (Driver([(9, 0)], "get"), "the driver cannot describe device 0"),
        (Driver([(9, 0)], "attribute"), "the driver cannot describe device 0"),
        (None, "no such library"),
    ],
    ids=["init", "count", "no device", "get", "attribute", "no driver"],
)
def test_native_without_a_gpu_says_so(
    monkeypatch: pytest.MonkeyPatch, driver: Driver | None, reason: str
) -> None:
    def load(_name: str) -> Driver:
        if driver is None:
            raise OSError("no such library")
        return driver

    monkeypatch.setattr(ctypes, "CDLL", load)
    error = refusal(ToolchainError, native_archs)
    assert found(error) == [("no-gpu-for-native", "")]
    assert str(error) == (
        f"archs = ['native'] needs a GPU on this machine: {reason}\n"
        "  hint: list archs such as 'sm_90' in place of 'native', or build on a machine with a GPU"
    )


def test_a_plan_asks_for_them_where_they_are_named_and_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def found() -> tuple[int, ...]:
        asked.append("native")
        return (90, 80)

    toolkit: Any = SimpleNamespace(supported=(80, 90))
    monkeypatch.setattr(local_gpus, "native_archs", found)
    assert [str(each.arch) for each in expand(["sm_90"], toolkit)] == ["sm_90"]
    assert asked == []
    assert {str(each.arch) for each in expand(["native"], toolkit)} == {"sm_80", "sm_90"}
    assert asked == ["native"]
