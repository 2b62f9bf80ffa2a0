"""Stand-ins for cuda.core and the driver, in Python, that record what they are given."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.helpers import bundle, load_bundle


class Driver:
    """What the loader asks of the driver, answered by Python."""

    def __init__(
        self,
        version: int = 13000,
        current: int | None = None,
        statuses: Mapping[str, int] | None = None,
        lacking: str = "",
    ) -> None:
        self.version, self.current, self.statuses, self.lacking = version, current, statuses or {}, lacking
        self.loaded: list[tuple[str, Any]] = []

    def cuInit(self, _flags: int) -> int:  # noqa: N802
        return 0

    def cuDeviceGetCount(self, count: Any) -> int:  # noqa: N802
        count._obj.value = 2
        return 0

    def cuDriverGetVersion(self, version: Any) -> int:  # noqa: N802
        version._obj.value = self.version
        return 0

    def cuCtxGetDevice(self, device: Any) -> int:  # noqa: N802
        if self.current is None:
            return 201
        device._obj.value = self.current
        return 0

    def __getattribute__(self, call: str) -> Any:
        if call.startswith("cu") and call == self.lacking:
            raise AttributeError(call)
        return super().__getattribute__(call)

    def __getattr__(self, call: str) -> Callable[..., int]:
        """Give any other call: it is recorded with its plain arguments, and answers as it is told to."""
        if call == self.lacking:
            raise AttributeError(call)

        def answer(*arguments: Any) -> int:
            self.loaded.append(
                (
                    call,
                    [
                        each
                        for each in (getattr(each, "value", each) for each in arguments)
                        if type(each) is int
                    ],
                )
            )
            return self.statuses.get(call, 0)

        return answer


class Device:
    def __init__(self, ordinal: int | None = None) -> None:
        if ordinal not in (None, 0, 1):
            raise ValueError(f"device_id must be within [0, 2), got {ordinal}")
        self.device_id = ordinal or 0
        self.compute_capability = (8, 0) if ordinal == 1 else (9, 0)


class Kernel(NamedTuple):
    code: ObjectCode
    symbol: str

    @property
    def handle(self) -> int:
        return len(self.symbol)


class ObjectCode:
    made: list[ObjectCode]

    def __init__(self, kind: str, data: bytes, name: str, symbol_mapping: dict[str, bytes]) -> None:
        self.kind, self.data, self.name, self.symbols = kind, data, name, symbol_mapping
        type(self).made.append(self)

    @classmethod
    def from_cubin(cls, data: bytes, **how: Any) -> ObjectCode:
        return cls("cubin", data, **how)

    @classmethod
    def from_ptx(cls, data: bytes, **how: Any) -> ObjectCode:
        return cls("ptx", data, **how)

    def get_kernel(self, name: str) -> Kernel:
        return Kernel(self, name)


def put_into_place(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Put a cuda.core into place that records what it is given."""
    package, core = types.ModuleType("cuda"), types.ModuleType("cuda.core")
    recording = type("ObjectCode", (ObjectCode,), {"made": []})
    core.__dict__.update(Device=Device, ObjectCode=recording)
    package.__dict__.update(core=core)
    monkeypatch.setitem(sys.modules, "cuda", package)
    monkeypatch.setitem(sys.modules, "cuda.core", core)
    return core


def load(folder: Path, *built: Any, driver: Driver | int = 13000) -> Any:
    """Load a bundle of these units beside a driver, of this version or as it is."""
    cubins = load_bundle(folder, bundle(*built))
    given = Driver(driver) if isinstance(driver, int) else driver
    cubins._part("_loading")._driver_library = lambda: given
    return cubins
