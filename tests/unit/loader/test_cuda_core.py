"""Loading through cuda.core, with a stand-in for it that records what it is given."""

from __future__ import annotations

import errno
import os
import re
import sys
import threading
import types
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import made, refusal, run_threads

from .doubles import Device, load

SCALE = {"scale<float, 4>": "_Z5scaleIfLi4EEvPT_"}


@pytest.mark.usefixtures("core")
def test_kernel_asks_for_the_symbol_of_the_verified_code(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels=SCALE))
    code, symbol = cubins.kernel("scale<float,4>")
    assert (code.kind, code.data, code.name) == ("cubin", b"m for sm_90", "m")
    assert symbol == "_Z5scaleIfLi4EEvPT_"


@pytest.mark.usefixtures("core")
def test_module_takes_the_names_of_templates_along_as_bytes(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels=SCALE))
    assert cubins.module("m").symbols == {"scale<float, 4>": b"_Z5scaleIfLi4EEvPT_"}


@pytest.mark.usefixtures("core")
def test_ptx_is_loaded_as_ptx_where_no_cubin_fits(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("k", "sm_100"), made("k", "compute_80"))
    code = cubins.module("k")
    assert (code.kind, code.data) == ("ptx", b".version 8.0\n// k for compute_80")


@pytest.mark.usefixtures("core")
def test_the_driver_decides_with(tmp_path: Path) -> None:
    built = made("k", "sm_90"), made("k", "compute_80")
    assert load(tmp_path, *built, driver=12040).find("k").arch == "compute_80"
    assert load(tmp_path, *built, driver=12040).find("k", driver=None).arch == "sm_90"
    assert load(tmp_path, *built, driver=13000).find("k").arch == "sm_90"


@pytest.mark.usefixtures("core")
@pytest.mark.parametrize(
    ("device", "arch"),
    [
        pytest.param(None, "sm_90", id="current"),
        pytest.param(0, "sm_90", id="ordinal"),
        pytest.param(1, "sm_80", id="another"),
        pytest.param(Device(1), "sm_80", id="Device"),
    ],
)
def test_the_device_is_an_ordinal_or_a_device(tmp_path: Path, device: Any, arch: str) -> None:
    cubins = load(tmp_path, made("k", "sm_80"), made("k", "sm_90"))
    assert cubins.find("k", device=device).arch == arch
    assert cubins.read("k", device=device) == f"k for {arch}".encode()
    assert cubins.module("k", device=device).data == f"k for {arch}".encode()
    assert cubins.kernel("k", device=device)[0].data == f"k for {arch}".encode()


@pytest.mark.usefixtures("core")
def test_a_device_that_cannot_be_used_says_so(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("k"))
    message = r"CUDA device 7 cannot be used: device_id must be within \[0, 2\), got 7"
    with pytest.raises(cubins.CubinUnavailableError, match=message):
        cubins.kernel("k", device=7)


def test_the_current_device_may_be_what_cannot_be_used(tmp_path: Path, core: types.ModuleType) -> None:
    def broken(_ordinal: object) -> None:
        raise SystemError("no context")

    cubins = load(tmp_path, made("k"))
    core.__dict__["Device"] = type("Broken", (), {"__new__": lambda _cls, ordinal: broken(ordinal)})
    with pytest.raises(
        cubins.CubinUnavailableError, match="the current CUDA device cannot be used: no context"
    ):
        cubins.kernel("k")


def test_no_cuda_core_is_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load(tmp_path, made("k"))
    monkeypatch.setitem(sys.modules, "cuda", types.ModuleType("cuda"))
    monkeypatch.delitem(sys.modules, "cuda.core", raising=False)
    with pytest.raises(
        cubins.CubinUnavailableError,
        match=r"loading kernels needs cuda.core \(pip install .*, which cannot be imported",
    ):
        cubins.kernel("k")
    monkeypatch.setitem(sys.modules, "cuda.core.utils", None)
    with pytest.raises(
        cubins.CubinUnavailableError,
        match=r"cache\(\) needs cuda.core \(pip install .*, which cannot be imported",
    ):
        cubins.cache()


@pytest.mark.parametrize("wrapped", [False, True], ids=["as it is", "inside of another"])
@pytest.mark.parametrize("number", [errno.EMFILE, errno.EIO, errno.ENOMEM, errno.EACCES])
def test_a_cuda_core_that_is_there_and_fails_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, wrapped: bool
) -> None:
    class Failing:
        def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
            if name.startswith("cuda"):
                try:
                    raise OSError(number, os.strerror(number), name)
                except OSError as exc:
                    if not wrapped:
                        raise
                    raise ImportError("cuda.bindings is missing") from exc

    cubins = load(tmp_path, made("k"))
    for name in [name for name in sys.modules if name.partition(".")[0] == "cuda"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
    said = "cuda.bindings is missing" if wrapped else re.escape(f"[Errno {number}] {os.strerror(number)}")
    for call, what in ((lambda: cubins.kernel("k"), "loading kernels"), (cubins.cache, r"cache\(\)")):
        with pytest.raises(
            cubins.CubinUnavailableError,
            match=rf"{what} needs cuda.core, which cannot be imported: {said}",
        ):
            call()


@pytest.mark.usefixtures("core")
def test_a_module_of_several_kernels_needs_a_kernels_name(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("m", kernels={"f": "f", "g": "g"}), made("one", kernels={"h": "h"}))
    assert cubins.kernel("one")[1] == "h"
    assert cubins.kernel("f")[1] == "f"
    with pytest.raises(cubins.CubinNotFoundError, match="module 'm' has several kernels, name one: 'f', 'g'"):
        cubins.kernel("m")


@pytest.mark.usefixtures("core")
def test_a_module_without_a_kernel_says_so(tmp_path: Path) -> None:
    cubins = load(tmp_path, made("none", kernels={}))
    assert cubins.module("none").name == "none"
    with pytest.raises(cubins.CubinNotFoundError, match="module 'none' has no kernel "):
        cubins.kernel("none")


@pytest.mark.usefixtures("core")
def test_module_and_variant_say_which(tmp_path: Path) -> None:
    variants = [made("red", kernels={"r": "r"}, variant={"device": value}) for value in ("1", "2")]
    cubins = load(tmp_path, made("a", kernels={"f": "f"}), made("b", kernels={"f": "f"}), *variants)
    assert cubins.module("f", module="b").name == "b"
    assert cubins.kernel("f", module="a")[0].name == "a"
    assert cubins.module("red", variant={"device": 2}).name == "red[device=2]"


def test_sixteen_threads_load_once(tmp_path: Path, core: types.ModuleType) -> None:
    cubins, barrier, got = load(tmp_path, made("k"), made("other")), threading.Barrier(16), []

    def ask_for_it() -> None:
        barrier.wait()
        got.append(cubins.kernel("k"))

    threads = [threading.Thread(target=ask_for_it) for _ in range(16)]
    run_threads(threads)
    assert len(got) == 16
    assert [code.name for code in core.ObjectCode.made] == ["k"]
    cubins.kernel("k")
    cubins.module("other")
    assert [code.name for code in core.ObjectCode.made] == ["k", "other"]


@pytest.mark.usefixtures("core")
def test_two_modules_of_the_same_bytes_keep_their_own_names(tmp_path: Path) -> None:
    one, other = ({f"f<{number}>": "f"} for number in (1, 2))
    cubins = load(tmp_path, made("a", kernels=one, data=b"same"), made("b", kernels=other, data=b"same"))
    assert cubins.find("a").file == cubins.find("b").file == "a.sm_90.cubin"
    assert (cubins.module("a").symbols, cubins.module("b").symbols) == ({"f<1>": b"f"}, {"f<2>": b"f"})


def test_damage_reaches_no_driver(tmp_path: Path, core: types.ModuleType) -> None:
    cubins = load(tmp_path, made("k"))
    (tmp_path / "k.sm_90.cubin").write_bytes(b"wrong")
    for call in (cubins.kernel, cubins.module, cubins.read):
        with pytest.raises(cubins.CubinDamagedError):
            call("k")
    assert core.ObjectCode.made == []


@pytest.mark.parametrize(
    ("failing", "message"),
    [
        ("get_kernel", "the driver cannot load 'm': CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
        ("from_cubin", "cuda.core cannot load m.sm_90.cubin: CUDA_ERROR_JIT_COMPILER_NOT_FOUND"),
    ],
)
def test_what_cuda_core_raises_comes_out_typed(
    tmp_path: Path, core: types.ModuleType, monkeypatch: pytest.MonkeyPatch, failing: str, message: str
) -> None:
    def fail(*_arguments: Any, **_named: Any) -> None:
        raise RuntimeError("CUDA_ERROR_JIT_COMPILER_NOT_FOUND")

    monkeypatch.setattr(core.ObjectCode, failing, fail)
    cubins = load(tmp_path, made("m"))
    assert message in str(refusal(cubins.CubinUnavailableError, cubins.kernel, "m"))
