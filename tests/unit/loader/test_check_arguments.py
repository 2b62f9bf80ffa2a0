"""`check_arguments`: what a kernel would read of what it is given, before any GPU is there."""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hatch_cubin import loader
from tests.helpers import bundle, load_bundle, made
from tests.unit.bundle.test_kernel_parameters import taking

PLACES = ((0, 4), (8, 8), (16, 8), (24, 8))
SAXPY = {"saxpy": ("float", "const float *", "float *", "unsigned long")}
SIGNATURE = "saxpy(float, const float *, float *, unsigned long)"
ADDRESS = 1 << 40
FITTING = (np.float32(2), ADDRESS, ADDRESS, np.uint64(1000))
ONE = {  # kernels of one parameter, by their names
    "boolean": ("bool", 1),
    "byte": ("unsigned char", 1),
    "half_": ("__half", 2),
    "whole": ("int", 4),
    "sized": ("std::uint32_t", 4),
    "count": ("size_t", 8),
    "real": ("float", 4),
    "long_real": ("double", 8),
    "pointer": ("void *", 8),
    "eight": ("Mine", 8),
    "map": ("CUtensorMap", 128),
}


@pytest.fixture(scope="module")
def cubins(tmp_path_factory: pytest.TempPathFactory) -> Any:
    saxpy = taking("saxpy", *PLACES)
    built = (
        made("saxpy", data=saxpy, types=SAXPY),
        made("saxpy", "sm_100", data=saxpy, types=SAXPY),
        made("differs", "sm_80", data=taking("differs", (0, 4))),
        made("differs", "sm_90", data=taking("differs", (0, 8))),
        made("red", kernels={"r": "r"}, data=taking("r", (0, 4)), variant={"N": "1"}),
        made("red", kernels={"r": "r"}, data=taking("r", (0, 8)), variant={"N": "2"}),
        made("nothing", data=taking("nothing")),
        made("unknown"),
        *(
            made(name, data=taking(name, (0, size)), types={name: (spelled,)})
            for name, (spelled, size) in ONE.items()
        ),
    )
    return load_bundle(tmp_path_factory.mktemp("bundle"), bundle(*built))


def refused(cubins: Any, *asked: Any, **which: Any) -> str:
    """Return what is wrong, without the sentence's beginning and end, which all have."""
    with pytest.raises(TypeError) as caught:
        cubins.check_arguments(*asked, **which)
    match = re.fullmatch(rf"{cubins.__name__}: (.*) \(bundle of hatch-cubin [\w.]+\)", str(caught.value))
    assert match is not None
    return match[1]


def test_what_fits_passes(cubins: Any) -> None:
    cubins.check_arguments("saxpy", *FITTING)
    cubins.check_arguments("nothing")


def test_a_wrong_number_of_arguments(cubins: Any) -> None:
    assert refused(cubins, "saxpy", *FITTING[:3]) == f"{SIGNATURE}: needs 4 arguments, not 3"
    packed = "not 1, packed into one: unpack it"
    assert refused(cubins, "saxpy", FITTING) == f"{SIGNATURE}: needs 4 arguments, {packed}"
    assert refused(cubins, "nothing", 1) == "nothing(): needs 0 arguments, not 1"
    assert refused(cubins, "whole") == "whole(int): needs 1 argument, not 0"


def test_all_that_is_wrong_is_told_at_once(cubins: Any) -> None:
    assert refused(cubins, "saxpy", 2.0, np.zeros(4), np.float64(1), 1000.0) == (
        f"{SIGNATURE}: argument 1 (float) is passed as 8 bytes, but float has 4 (numpy.float32 fits); "
        "argument 2 (numpy.ndarray) is in the host's memory; "
        "argument 3 (numpy.float64) is not of type float *; "
        "argument 4 (float) is not of type unsigned long (numpy.uint64 fits)"
    )


class Pair(ctypes.Structure):
    _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_float))


class Device:
    __cuda_array_interface__ = ()


class Gradient:
    @property
    def __cuda_array_interface__(self) -> object:
        raise RuntimeError("needs gradients")


Buffer = type("Buffer", (), {"__module__": "cuda.core._memory._buffer"})
TensorMap = type("TensorMapDescriptor", (), {"__module__": "cuda.core._tensor_map"})


def named(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize(
    ("kernel", "argument"),
    [
        ("boolean", True),
        ("boolean", np.bool_(1)),
        ("boolean", ctypes.c_bool(1)),
        ("byte", np.uint8(1)),
        ("byte", ctypes.c_char(b"a")),
        ("half_", np.float16(1)),
        ("whole", np.int32(1)),
        ("whole", np.uint32(1)),
        ("whole", ctypes.c_int(1)),
        ("sized", np.uint32(1)),
        ("count", 1),
        ("count", ctypes.c_size_t(1)),
        ("count", Buffer()),  # an address is a number
        ("real", np.float32(1)),
        ("real", ctypes.c_float(1)),
        ("long_real", 1.0),
        ("long_real", np.float64(1)),
        ("long_real", ctypes.c_double(1)),
        ("pointer", ADDRESS),
        ("pointer", np.uint64(ADDRESS)),
        ("pointer", ctypes.c_void_p(ADDRESS)),
        ("pointer", Device()),
        ("pointer", Buffer()),
        ("eight", Pair(1, 2)),
        ("eight", np.zeros(1, dtype="i4, f4")[0]),
        ("eight", np.complex64(1)),
        ("eight", (ctypes.c_int * 2)(1, 2)),
        ("map", TensorMap()),
    ],
    ids=named,
)
def test_each_way_to_pass_a_value_is_known(cubins: Any, kernel: str, argument: object) -> None:
    cubins.check_arguments(kernel, argument)


@pytest.mark.parametrize(
    ("kernel", "argument", "why"),
    [
        ("boolean", 1, "(int) is passed as 8 bytes, but bool has 1 (numpy.bool_ fits)"),
        ("byte", 1, "(int) is passed as 8 bytes, but unsigned char has 1 (numpy.uint8 fits)"),
        ("half_", np.int16(1), "(numpy.int16) is not of type __half (numpy.float16 fits)"),
        ("whole", 1, "(int) is passed as 8 bytes, but int has 4 (numpy.int32 fits)"),
        ("whole", np.float32(1), "(numpy.float32) is not of type int (numpy.int32 fits)"),
        ("sized", ctypes.c_float(1), "(ctypes.c_float) is not of type std::uint32_t (numpy.uint32 fits)"),
        ("count", 1.0, "(float) is not of type size_t (numpy.uint64 fits)"),
        ("real", np.int32(1), "(numpy.int32) is not of type float (numpy.float32 fits)"),
        ("long_real", 1, "(int) is not of type double (numpy.float64 fits)"),
        ("long_real", np.complex64(1), "(numpy.complex64) is not of type double (numpy.float64 fits)"),
        ("long_real", 1j, "(complex) is passed as 16 bytes, but double has 8 (numpy.float64 fits)"),
        ("pointer", 1.0, "(float) is not of type void *"),
        ("pointer", np.int8(0), "(numpy.int8) is passed as 1 byte, but void * has 8"),
        ("pointer", np.int32(0), "(numpy.int32) is passed as 4 bytes, but void * has 8"),
        ("pointer", Pair(1, 2), "(Pair) is not of type void *"),
        ("pointer", None, "(NoneType) cannot be passed to a kernel"),
        ("pointer", b"abc", "(bytes) cannot be passed to a kernel"),
        ("pointer", Gradient(), "(Gradient) cannot be passed to a kernel"),
        ("map", ADDRESS, "(int) is passed as 8 bytes, but CUtensorMap has 128"),
        ("differs", np.int16(1), "(numpy.int16) is passed as 2 bytes, but the parameter has 4"),
    ],
    ids=named,
)
def test_what_a_kernel_would_misread_is_told(cubins: Any, kernel: str, argument: object, why: str) -> None:
    assert f": argument 1 {why}" in refused(cubins, kernel, argument).replace(f"{__name__}.", "")


def test_what_differs_by_arch_has_to_fit_each_of_them(cubins: Any) -> None:
    assert refused(cubins, "differs", np.int32(1)) == (
        "differs(8 bytes): argument 1 (numpy.int32) is passed as 4 bytes, but the parameter has 8"
    )


def test_a_parameter_of_an_unknown_type_is_shown_by_its_size(cubins: Any) -> None:
    assert [str(cubins.Parameter(0, size)) for size in (1, 8)] == ["1 byte", "8 bytes"]


def test_a_variant_and_a_module_are_chosen_as_everywhere(cubins: Any) -> None:
    cubins.check_arguments("r", np.int32(1), N=1)
    cubins.check_arguments("red", 1, variant={"N": 2})
    cubins.check_arguments("r", 1, module="red[N=2]")
    with pytest.raises(cubins.CubinNotFoundError, match="'r' is ambiguous"):
        cubins.check_arguments("r", 1)
    with pytest.raises(cubins.CubinNotFoundError, match="no kernel or module 'absent'"):
        cubins.check_arguments("absent")


def test_what_nobody_wrote_down_is_no_wrong_argument(cubins: Any) -> None:
    with pytest.raises(cubins.CubinError, match="the manifest does not have the parameters of 'unknown'"):
        cubins.check_arguments("unknown", 1)
    with (
        cubins.use({"saxpy": b"\x7fELF\0.text.saxpy\0"}),
        pytest.raises(cubins.CubinError, match=r"are unknown in code given to use\(\)"),
    ):
        cubins.check_arguments("saxpy", *FITTING)


@pytest.mark.parametrize("imported", ["", "ctypes"])
def test_nothing_is_imported_for_it(tmp_path: Path, imported: str) -> None:
    load_bundle(tmp_path, bundle(made("k", data=taking("k", (0, 8)))))
    code = f"""\
import importlib.util, sys
{imported and f"import {imported}"}
spec = importlib.util.spec_from_file_location("cubins", {loader.__file__!r})
cubins = importlib.util.module_from_spec(spec)
spec.loader.exec_module(cubins)
cubins._HERE = {str(tmp_path)!r}
cubins.check_arguments("k", 1)
try:
    cubins.check_arguments("k", None)
except TypeError as exc:
    print("cannot be passed" in str(exc), {{"cuda", "ctypes", "numpy"}} & sys.modules.keys())
"""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == f"True { ({imported} if imported else set())!r}"


@pytest.mark.parametrize(
    ("argument", "kind"),
    [
        (True, "?"),
        (5, "i8"),
        (1.5, "f8"),
        (1j, "c16"),
        (np.bool_(1), "?"),
        (np.int8(3), "i1"),
        (np.float16(1), "f2"),
        (np.float32(1), "f4"),
        (np.complex64(1), "c8"),
        (np.uint64(7), "u8"),
        (ctypes.c_int(3), "i4"),
        (ctypes.c_float(1), "f4"),
        (ctypes.c_bool(1), "?"),
    ],
    ids=named,
)
def test_cuda_core_passes_as_many_bytes(argument: Any, kind: str) -> None:
    """It copies each argument to where the driver will read it."""
    from cuda.core._kernel_arg_handler import ParamHolder

    assert loader._part("_debugging")._passed(argument)[0] == np.dtype(kind).itemsize
    holder = ParamHolder((argument,))
    place = ctypes.cast(holder.ptr, ctypes.POINTER(ctypes.c_void_p))[0]
    expected = np.array(getattr(argument, "value", argument), dtype=kind).tobytes()
    assert ctypes.string_at(place, len(expected)) == expected
