"""The subclasses of CuPy's classes: with a stand-in for CuPy, and with the real CuPy if it is installed."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import io
import json
import pickle
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.loader._text_key import text_key
from tests.helpers import load_bundle, packed_bundle, run_threads

from . import cupy_double
from .cupy_double import TEXT, files, units

INT, FLOAT = "k<int>", "k<float>"

# Coverage decides by the first name that a file is imported by whether its lines count.
with pytest.MonkeyPatch.context() as _patch:
    _patch.setitem(sys.modules, "cupy", cupy_double.make())
    importlib.import_module("hatch_cubin.loader.cupy")


class Setting:
    """CuPy, the package's classes, and the devices."""

    def __init__(self, cupy: Any, runtime: cupy_double.Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
        self.cupy, self.runtime, self.monkeypatch = cupy, runtime, monkeypatch
        self.is_real = isinstance(cupy.RawKernel.__call__, types.WrapperDescriptorType)
        self.cubins: Any = None
        self.classes: Any = None

    def use(self, folder: Path, files: dict[str, bytes]) -> Any:
        """Import the classes of a package with this bundle."""
        self.cubins = load_bundle(folder, files)
        for part in (
            "_debugging",
            "_drop_in",
            "_packs",
            "_text_key",
        ):  # whose import could remove a name in sys.modules
            self.cubins._part(part)
        self.classes = self.cubins._part("cupy")
        names = self.classes.__package__, self.classes.__name__  # pickle imports both
        for name, module in zip(names, (self.cubins, self.classes), strict=True):
            self.monkeypatch.setitem(sys.modules, name, module)
        return self.classes

    def compiles(self, call: Callable[[], Any], reason: str = "") -> Any:
        """Return the result of a call for which CuPy compiles after a warning."""
        # The real CuPy finds no device.
        outcome = pytest.raises(RuntimeError) if self.is_real else contextlib.nullcontext()
        found = None
        with pytest.warns(self.classes.CompiledAtRunTimeWarning) as caught, outcome:
            found = call()
        seen = [each for each in caught if isinstance(each.message, self.classes.CompiledAtRunTimeWarning)]
        message: Any = seen[0].message
        assert reason in message.reason
        assert {each.filename for each in seen} <= {
            __file__,
            cupy_double.__file__,
        }  # whose frames are visible
        return found


def devices(monkeypatch: pytest.MonkeyPatch, cupy: Any) -> cupy_double.Runtime:
    """Let the real CuPy have the devices of the stand-in, and modules that are not loaded."""
    runtime = cupy_double.Runtime()
    for call in ("getDevice", "driverGetVersion"):
        monkeypatch.setattr(cupy.cuda.runtime, call, getattr(runtime, call))

    class Module(cupy.cuda.function.Module):  # type: ignore[misc]
        data = b""

        def load(self, data: bytes) -> None:
            self.data = data

        def get_function(self, name: str) -> Any:
            if name not in cupy_double.SYMBOLS:
                raise cupy_double.DriverError(name)
            return cupy_double.Function(self, name)

    monkeypatch.setattr(cupy.cuda.function, "Module", Module)
    monkeypatch.setattr(cupy.cuda, "Device", cupy_double.Device)
    return runtime


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.cupy)])
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    for variable in ("HATCH_CUBIN_SKIP", "HATCH_CUBIN_NO_COMPILE", "HATCH_CUBIN_RECORD"):
        monkeypatch.delenv(variable, raising=False)
    if request.param == "real":
        cupy = importlib.import_module("cupy")
        runtime = devices(monkeypatch, cupy)
    else:
        cupy = cupy_double.make()
        monkeypatch.setitem(sys.modules, "cupy", cupy)
        runtime = cupy.cuda.runtime
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield Setting(cupy, runtime, monkeypatch)


@pytest.fixture
def classes(setting: Setting, tmp_path: Path) -> Any:
    return setting.use(tmp_path, files())


@pytest.fixture
def strictly() -> Iterator[None]:
    """Let each warning fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


# What is shipped is loaded


@pytest.mark.usefixtures("strictly")
def test_a_kernel_of_a_module_is_launched_with_the_shipped_code(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=(INT,))
    kernel = module.get_function(INT)
    assert isinstance(kernel, setting.cupy.RawKernel)
    assert (kernel.name, kernel.__name__, kernel.kernel.symbol) == ("_Z1kIiEvv",) * 3
    kernel((1,), (2,), (3,), shared_mem=4)
    launch = ((1,), (2,), (3,)), {"shared_mem": 4, "enable_cooperative_groups": False}
    assert kernel.kernel.launches == [launch]
    assert kernel.kernel.module.data.endswith(b".sm_90") or b"sm_90" in kernel.kernel.module.data
    assert kernel.num_regs == 1 if not setting.is_real else True
    assert module.module.mapping == {INT: "_Z1kIiEvv"}


@pytest.mark.usefixtures("strictly")
def test_attributes_are_those_of_cupy(setting: Setting, classes: Any) -> None:
    given = {"code": TEXT, "options": ("-std=c++17",), "name_expressions": iter([INT])}
    own = classes.RawModule(**given, enable_cooperative_groups=True)
    assert (own.code, own.options, own.backend) == (TEXT, ("-std=c++17",), "nvrtc")
    assert (own.file_path, own.name_expressions, own.enable_cooperative_groups) == (None, (INT,), True)
    kernel = classes.RawModule(code=TEXT, name_expressions=(INT,)).get_function(INT)
    assert (kernel.code, kernel.options, kernel.backend) == (TEXT, (), "nvrtc")
    assert kernel.file_path is None
    alone = classes.RawKernel(TEXT, "saxpy", enable_cooperative_groups=True)
    assert (alone.name, alone.__name__) == ("saxpy", "saxpy")
    alone((1,), (1,), ())
    assert alone.kernel.launches[0][1] == {"enable_cooperative_groups": True}


@pytest.mark.parametrize("wrong", [{}, {"code": TEXT, "path": "x"}, {"code": TEXT, "options": ["-DA"]}])
def test_wrong_arguments_are_refused_as_by_cupy(classes: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        classes.RawModule(**wrong)


@pytest.mark.usefixtures("strictly")
def test_a_text_is_found_by_its_meaning(classes: Any) -> None:
    for text in (TEXT, TEXT.replace("\n", "\r\n"), '#line 3 "a.cu"\n' + TEXT):
        assert classes.RawModule(code=text, options=("-I/usr/include",)).get_function("saxpy").kernel


@pytest.mark.usefixtures("strictly")
def test_a_symbol_is_found_as_in_cupy(classes: Any) -> None:
    """Without an expression of this name, the name is a symbol."""
    module = classes.RawModule(code=TEXT)
    assert module.get_function("_Z1kIiEvv").name == "_Z1kIiEvv"
    with pytest.raises(RuntimeError, match="k<int>"):
        module.get_function(INT)


@pytest.mark.usefixtures("strictly")
def test_calls_share_a_module_as_in_cupy(classes: Any) -> None:
    one, other = (classes.RawModule(code=TEXT) for _ in range(2))
    alone = classes.RawKernel(TEXT, "saxpy")
    named = classes.RawModule(code=TEXT, name_expressions=[INT])
    assert one.module is other.module is one.get_function("saxpy").kernel.module is alone.kernel.module
    assert named.module is not one.module


@pytest.mark.usefixtures("strictly")
def test_each_device_has_its_own_code(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=[INT])
    kernel = module.get_function(INT)
    loaded: dict[int, Any] = {}
    for device in (0, 1, 0):
        setting.runtime.device = device
        loaded.setdefault(device, kernel.kernel)
        assert loaded[device] is kernel.kernel
        assert loaded[device].module is module.module
    assert b"sm_90" in loaded[0].module.data
    assert b"sm_80" in loaded[1].module.data


@pytest.mark.usefixtures("strictly")
def test_a_launch_looks_up_and_does_nothing_else(
    setting: Setting, classes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=[INT])
    first = module.get_function(INT)
    monkeypatch.setattr(classes._drop_in, "_manifest", None)
    monkeypatch.setattr(setting.cupy.cuda, "Device", None)
    again = module.get_function(INT)
    assert (again is not first, again.kernel is first.kernel) == (True, True)


@pytest.mark.usefixtures("strictly")
def test_threads_that_load_at_once_get_one_module(classes: Any) -> None:
    modules = [classes.RawModule(code=TEXT) for _ in range(8)]
    found: list[Any] = []
    barrier = threading.Barrier(8)

    def load(module: Any) -> None:
        barrier.wait()
        found.append(module.module)

    run_threads([threading.Thread(target=load, args=(module,)) for module in modules])
    assert len({id(module) for module in found}) == 1


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize("again", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301
def test_modules_and_kernels_can_be_pickled(setting: Setting, classes: Any, again: Any) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=[INT])
    kernels = module.get_function(INT), classes.RawKernel(TEXT, "saxpy", ())
    setting.runtime.device = None  # no device is asked
    new, path = again(module), again(classes.RawModule(path="a.cubin"))
    found = [again(kernel) for kernel in kernels]
    setting.runtime.device = 0
    assert (type(new), new.name_expressions, path.file_path) == (classes.RawModule, (INT,), "a.cubin")
    for kernel, copied in zip(kernels, found, strict=True):
        assert (type(copied), copied.name) == (classes.RawKernel, kernel.name)
        assert copied.kernel.symbol == kernel.name
    assert new.get_function(INT).kernel.symbol == "_Z1kIiEvv"


@pytest.mark.usefixtures("strictly")
def test_a_subclass_stays_one(classes: Any) -> None:
    kind = type("Own", (classes.RawModule,), {})
    kernel_kind = type("OwnKernel", (classes.RawKernel,), {})
    assert type(copy.copy(kind(code=TEXT))) is kind
    assert type(copy.copy(kernel_kind(TEXT, "saxpy"))) is kernel_kind


@pytest.mark.usefixtures("strictly")
def test_an_explicit_compile_loads(setting: Setting, classes: Any) -> None:
    log = io.StringIO()
    classes.RawModule(code=TEXT).compile(log)
    assert log.getvalue() == ""
    if not setting.is_real:  # which asks its driver for the number of devices
        kernel = classes.RawKernel(TEXT, "saxpy")
        kernel.compile(log)
        assert (kernel.kernel.symbol, log.getvalue()) == ("saxpy", "")


@pytest.mark.usefixtures("strictly")
def test_a_global_is_in_the_module_of_the_kernels(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(code=TEXT)
    if setting.is_real:
        asked: list[Any] = []
        kind = setting.cupy.cuda.function.Module
        setting.monkeypatch.setattr(kind, "get_global_var", lambda self, _name: asked.append(self))
        with pytest.raises((RuntimeError, TypeError)):  # it asks the driver for the device then
            module.get_global("g")
        assert asked == [module.module]
    else:
        assert module.get_global("g")[0] is module.get_function("saxpy").kernel.module


@pytest.mark.usefixtures("strictly")
def test_a_module_from_a_file_is_left_to_cupy(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(path="saxpy.cubin")
    assert module.file_path == "saxpy.cubin"
    if not setting.is_real:
        assert isinstance(module.module, cupy_double.Module)
        module.compile()
        assert type(module.get_function("saxpy")) is setting.cupy.RawKernel
        assert setting.cupy.compiled == []


@pytest.mark.usefixtures("strictly")
def test_a_packed_bundle_works_too(setting: Setting, tmp_path: Path) -> None:
    classes = setting.use(tmp_path, files(make=packed_bundle))
    assert classes.RawKernel(TEXT, "saxpy").kernel.symbol == "saxpy"


@pytest.mark.usefixtures("strictly")
def test_the_audit_event_is_that_of_the_loader(classes: Any) -> None:
    seen: list[Any] = []
    active = [True]
    sys.addaudithook(lambda event, args: seen.append(args) if active and "cubin.load" in event else None)
    classes.RawKernel(TEXT, "saxpy").kernel  # noqa: B018
    classes.RawKernel(TEXT, "saxpy").kernel  # noqa: B018
    active.clear()
    assert [(args[1], args[2]) for args in seen] == [(f"cupy:{text_key('cupy', (), TEXT)}", "sm_90")]


# What is not shipped is compiled, and reported


def test_another_text_is_compiled(setting: Setting, classes: Any) -> None:
    other = TEXT + "//"
    module = classes.RawModule(code=other, options=("-DN=4",), name_expressions=[INT])
    kernel = setting.compiles(lambda: module.get_function(INT), "does not have exactly this text")
    alone = classes.RawKernel(other, "saxpy")
    setting.compiles(lambda: alone((1,), (1,), ()), "does not have exactly this text")
    if not setting.is_real:
        assert setting.cupy.compiled == [(other, ("-DN=4",), (INT,)), (other, (), None)]
        assert (type(kernel), kernel.name) == (classes.RawKernel, "_Z1kIiEvv")
        assert type(pickle.loads(pickle.dumps(kernel))) is classes.RawKernel  # noqa: S301


def test_the_warning_has_the_call(classes: Any, setting: Setting) -> None:
    setting.runtime.device = None  # the warning comes before the question for the device
    module = classes.RawModule(code="\n  other\n", options=("-DN=4",), name_expressions=[FLOAT])
    with pytest.warns(classes.CompiledAtRunTimeWarning) as seen, pytest.raises(RuntimeError):
        module.get_function(FLOAT)
    warning = pickle.loads(pickle.dumps(seen[0].message))  # noqa: S301
    fields = warning.front, warning.text, warning.options, warning.names
    assert fields == ("cupy", "\n  other\n", ("-DN=4",), (FLOAT,))
    assert [part in str(warning) for part in ("-DN=4", FLOAT, "'other'")] == [True] * 3
    assert str(classes.CompiledAtRunTimeWarning("cupy", "", (), ())).endswith("code '')")


def test_construction_reports_nothing(classes: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        classes.RawModule(code="not compiled")
        classes.RawKernel("not compiled", "f")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ({"backend": "nvcc"}, "backend"),
        ({"jitify": True}, "jitify"),
        ({"options": ("-DCUPY_USE_JITIFY",)}, "jitify"),
        ({"translate_cucomplex": True}, "translate_cucomplex"),
        ({"options": ("-lineinfo",)}, "an option that"),
    ],
)
def test_a_call_that_no_build_makes_is_passed_on(
    setting: Setting, classes: Any, arguments: dict[str, Any], reason: str
) -> None:
    module = classes.RawModule(code=TEXT, **arguments)
    kernel = classes.RawKernel(TEXT, "saxpy", **arguments)
    setting.compiles(lambda: module.get_function("saxpy"), reason)
    setting.compiles(lambda: kernel.kernel, reason)
    setting.compiles(lambda: classes.RawModule(code=TEXT, **arguments).module, reason)


@pytest.mark.parametrize("variable", ["HATCH_CUBIN_SKIP", "CUPY_CUDA_COMPILE_WITH_DEBUG"])
def test_a_variable_can_turn_shipped_code_off(
    setting: Setting, classes: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, "1")
    setting.compiles(lambda: classes.RawKernel(TEXT, "saxpy").kernel, variable)
    monkeypatch.setenv(variable, "0")
    assert classes.RawKernel(TEXT, "saxpy").kernel


def test_hip_compiles(setting: Setting, classes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setting.cupy.cuda.runtime, "is_hip", True)
    setting.compiles(lambda: classes.RawKernel(TEXT, "saxpy").kernel, "HIP")


def test_a_gpu_without_code_compiles(setting: Setting, tmp_path: Path) -> None:
    classes = setting.use(tmp_path, files(*units("sm_90")))
    kernel = classes.RawKernel(TEXT, "saxpy")
    assert kernel.kernel.symbol == "saxpy"
    setting.runtime.device = 1
    compiled = setting.compiles(
        lambda: kernel.kernel, f"no shipped code of 'cupy:{text_key('cupy', (), TEXT)[:12]}' "
    )
    setting.runtime.device = 0
    assert compiled is not kernel.kernel
    assert kernel.kernel.symbol == "saxpy"


def test_strict_translates_no_ptx(setting: Setting, tmp_path: Path) -> None:
    classes = setting.use(tmp_path, files(*units("compute_80")))
    assert classes.RawKernel(TEXT, "saxpy").kernel.module.data.startswith(b".version")
    with setting.cubins.use(strict=True):
        setting.compiles(lambda: classes.RawKernel(TEXT, "saxpy").kernel, "PTX")


def test_a_list_of_kernels_that_is_longer_finds_what_is_there(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=[INT, FLOAT])
    shipped = module.get_function(INT)
    assert b"sm_90" in shipped.kernel.module.data
    setting.compiles(lambda: module.get_function(FLOAT), FLOAT)
    if not setting.is_real:  # from now on, all kernels are in one module
        assert shipped.kernel.module is module.get_function(FLOAT).kernel.module is module.module
        assert len(setting.cupy.compiled) == 1


def test_variables_are_never_in_another_module_than_the_kernels(setting: Setting, classes: Any) -> None:
    module = classes.RawModule(code=TEXT, name_expressions=[INT, FLOAT])
    shipped = module.get_function(INT)
    compiled = setting.compiles(lambda: module.get_global("g"), FLOAT)
    if not setting.is_real:
        assert compiled[0] is shipped.kernel.module


def test_a_log_gets_what_the_compiler_prints(setting: Setting, classes: Any) -> None:
    log = io.StringIO()
    setting.compiles(lambda: classes.RawModule(code="other").compile(log))
    if not setting.is_real:
        kernel = classes.RawKernel("another", "saxpy")
        setting.compiles(lambda: kernel.compile(log))
        assert log.getvalue() == "compiled" * 2


def test_a_warning_that_is_an_error_is_raised_each_time(classes: Any) -> None:
    kernel = classes.RawKernel("other", "saxpy")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(classes.CompiledAtRunTimeWarning):
                kernel((1,), (1,), ())


def test_nothing_is_compiled_if_the_environment_says_so(
    setting: Setting, classes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_NO_COMPILE", "1")
    module = classes.RawModule(code=TEXT, name_expressions=[INT, FLOAT])
    assert module.get_function(INT).kernel.symbol == "_Z1kIiEvv"
    refusal = pytest.raises(setting.cubins.CubinNotFoundError, match="HATCH_CUBIN_NO_COMPILE is set")
    with refusal:
        module.get_function(FLOAT)
    with refusal:
        classes.RawKernel("x", "f")((1,), (1,), ())


# Damage


@pytest.mark.parametrize("variable", ["", "HATCH_CUBIN_NO_COMPILE"])
@pytest.mark.parametrize("file", ["manifest.json", ".cubin"])
def test_damage_is_never_compiled_away(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> None:
    found = files()
    name = next(name for name in found if name.endswith(file) and "sm_80" not in name)
    found[name] = found[name].replace(b"sm_90", b"sm_91").replace(b'"size"', b'"sise"')
    classes = setting.use(tmp_path, found)
    if variable:
        monkeypatch.setenv(variable, "1")
    for _ in range(2):
        with pytest.raises(setting.cubins.CubinDamagedError):
            classes.RawModule(code=TEXT).get_function("saxpy")


def test_a_text_that_a_rebuild_removes_is_compiled(setting: Setting, classes: Any) -> None:
    kernel = classes.RawKernel(TEXT, "saxpy")
    kernel._call.look_up()
    with setting.cubins.use(setting.cubins._HERE):
        setting.monkeypatch.setattr(type(setting.cubins._manifest()), "module", lambda _self, _name: None)
        setting.compiles(lambda: kernel.kernel, "any more")


@pytest.mark.parametrize("kind", ["kernel", "module"])
def test_a_request_to_compile_is_recorded_without_a_device(
    setting: Setting, classes: Any, tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    setting.monkeypatch.setenv("HATCH_CUBIN_RECORD", str(folder))
    unknown = classes.RawKernel("//", "k") if kind == "kernel" else classes.RawModule(code="//")
    with contextlib.suppress(RuntimeError), pytest.warns(classes.CompiledAtRunTimeWarning):
        unknown.compile()  # the real CuPy finds no device
    assert [json.loads(path.read_bytes())["text"] for path in folder.iterdir()] == ["//"]


# Another CuPy


@pytest.mark.parametrize("name", ["RawKernel._kernel", "RawModule._module", "cuda.function.Module.load"])
def test_a_cupy_without_what_is_needed_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    cupy = cupy_double.make()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    setting = Setting(cupy, cupy.cuda.runtime, monkeypatch)
    *path, last = name.split(".")
    owner = functools.reduce(getattr, path, cupy)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, last, None)
        classes = setting.use(tmp_path, files())
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        module = classes.RawModule(code=TEXT, name_expressions=[INT])
        kernel = setting.compiles(lambda: module.get_function(INT), name)
        assert type(kernel) is cupy.RawKernel
        setting.compiles(lambda: classes.RawKernel(TEXT, "saxpy")((1,), (1,), ()), name)
    assert len(cupy.compiled) == 2


def test_a_file_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "cupy", cupy_double.make())
    cubins = load_bundle(tmp_path, files())
    monkeypatch.setattr(cubins._part("_drop_in"), "_build_of_core", "of an older version")
    with pytest.raises(cubins.CubinError, match="another version"):
        cubins._part("cupy")


# Records


def records(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_bytes()) for path in sorted(folder.iterdir())]


def test_a_compile_is_written_into_the_folder_of_records(
    setting: Setting, classes: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setenv("HATCH_CUBIN_RECORD", str(folder))
    for _ in range(2):  # one file for equal calls
        setting.compiles(lambda: classes.RawKernel("\ud800 é", "saxpy", ("-DN=4",)).kernel)
    setting.compiles(lambda: classes.RawKernel(TEXT, "saxpy", ("-lineinfo",)).kernel)
    found = {each["text"]: each for each in records(folder)}
    assert found["\ud800 é"]["key"] == text_key("cupy", ("-DN=4",), "\ud800 é")
    assert found["\ud800 é"]["options"] == ["-DN=4"]
    assert (found[TEXT]["key"], found[TEXT]["package"], len(found)) == (None, setting.cubins.__name__, 2)


def test_the_folder_of_records_is_known_from_the_import_on(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setenv("HATCH_CUBIN_RECORD", str(folder))
    classes = setting.use(tmp_path / "bundle", files())
    monkeypatch.delenv("HATCH_CUBIN_RECORD")
    setting.compiles(lambda: classes.RawKernel("other", "saxpy").kernel)
    assert [each["text"] for each in records(folder)] == ["other"]


# The stand-in


@pytest.mark.cupy
def test_the_stand_in_has_what_cupy_has() -> None:
    real, double = importlib.import_module("cupy"), cupy_double.make()
    for name in ("RawKernel", "RawModule", "cuda.function.Module"):
        real_class, double_class = real, double
        for part in name.split("."):
            real_class, double_class = getattr(real_class, part), getattr(double_class, part)
        own = {each for each in vars(double_class) if not each.startswith("__")}
        assert own <= {*dir(real_class)}, name
    kernel = real.RawKernel(TEXT, "saxpy")
    made_here = double.RawKernel(TEXT, "saxpy")
    for name in ("code", "name", "options", "backend", "file_path", "enable_cooperative_groups", "__name__"):
        assert getattr(kernel, name) == getattr(made_here, name), name
    assert real.cuda.function.Module().mapping == double.cuda.function.Module().mapping


@pytest.mark.cupy
@pytest.mark.parametrize("use", ["kernel", "num_regs", "attributes", "max_dynamic_shared_size_bytes", "call"])
def test_cupy_calls_the_methods_that_the_classes_replace(use: str) -> None:
    cupy: Any = importlib.import_module("cupy")

    class Seen(Exception):  # noqa: N818
        pass

    def fail(_self: Any, _log_stream: Any = None) -> None:
        raise Seen

    kernel = type("Kernel", (cupy.RawKernel,), {"_kernel": fail})(TEXT, "saxpy")
    with pytest.raises(Seen):
        kernel((1,), (1,), ()) if use == "call" else getattr(kernel, use)
    module = type("Module", (cupy.RawModule,), {"_module": fail})(code=TEXT)
    for call in (lambda: module.module, module.compile, lambda: module.get_global("g")):
        with pytest.raises(Seen):
            call()
