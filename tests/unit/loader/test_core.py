"""The subclass of cuda.core's `Program`: with a stand-in for the compiler, and with the real NVRTC."""

from __future__ import annotations

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

import cuda
import cuda.core
import pytest
from cuda.core import ObjectCode, ProgramOptions

from hatch_cubin.loader._text_key import text_key
from tests.helpers import load_bundle, packed_bundle, run_threads

from . import core_double, cupy_double
from .cupy_double import TEXT

FRONT = "cuda.core"
INT, FLOAT = "k<int>", "k<float>"
OF_INT = {INT: b"_Z1kIiEvv"}

# Coverage decides by the first name that a file is imported by whether its lines count.
importlib.import_module("hatch_cubin.loader.core")


def units(*archs: str, **more: Any) -> list[Any]:
    return cupy_double.units(*archs, front=FRONT, **more)


def files(*built: Any, **more: Any) -> dict[str, bytes]:
    return cupy_double.files(*built, front=FRONT, **more)


def options(arch: str = "sm_90", **fields: Any) -> ProgramOptions:
    return ProgramOptions(arch=arch, **fields)


class Setting:
    """cuda.core, and the package's class."""

    def __init__(self, core: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        self.core, self.monkeypatch = core, monkeypatch
        self.is_real = not hasattr(core, "compiled")
        self.cubins: Any = None
        self.part: Any = None

    def use(self, folder: Path, files: dict[str, bytes]) -> Any:
        """Import the class of a package with this bundle."""
        self.cubins = load_bundle(folder, files)
        # The import of a part could remove a name in sys.modules.
        for part in ("_debugging", "_drop_in", "_loading", "_packs", "_text_key"):
            self.cubins._part(part)
        self.part = self.cubins._part("core")
        for module in (self.cubins, self.part):  # pickle imports both
            name = module.__name__ if module is self.part else self.part.__package__
            self.monkeypatch.setitem(sys.modules, name, module)
        self.driver(13000)
        return self.part.Program

    def driver(self, version: int | None) -> None:
        """Let the process have a driver of this version, a driver that fails (0), or no driver."""

        def answer(found: Any) -> int:
            found._obj.value = version
            return 0 if version else 1

        library = None if version is None else types.SimpleNamespace(cuDriverGetVersion=answer)
        self.monkeypatch.setattr(self.cubins._part("_loading"), "_driver_library", lambda: library)

    def compiles(self, call: Callable[[], Any], reason: str = "") -> Any:
        """Return the result of a call for which cuda.core compiles after a warning."""
        with pytest.warns(self.part.CompiledAtRunTimeWarning) as seen:
            found = call()
        (warning,) = [each for each in seen if isinstance(each.message, self.part.CompiledAtRunTimeWarning)]
        message: Any = warning.message
        assert reason in message.reason
        assert warning.filename == __file__
        return found


@pytest.fixture(params=["stand-in", pytest.param("real", marks=pytest.mark.nvrtc)])
def setting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Setting]:
    for variable in ("HATCH_CUBIN_SKIP", "HATCH_CUBIN_NO_COMPILE", "HATCH_CUBIN_RECORD"):
        monkeypatch.delenv(variable, raising=False)
    core: Any = cuda.core
    if request.param == "stand-in":
        core = core_double.make()
        monkeypatch.setitem(sys.modules, "cuda.core", core)
        monkeypatch.setattr(cuda, "core", core)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        yield Setting(core, monkeypatch)


@pytest.fixture
def program(setting: Setting, tmp_path: Path) -> Any:
    return setting.use(tmp_path, files())


@pytest.fixture
def strictly() -> Iterator[None]:
    """Let each warning fail the test."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def shipped(code: ObjectCode) -> str:
    """Return the arch of shipped code."""
    return bytes(code.code).rpartition(b" for sm_")[2].decode() or bytes(code.code).decode()


# Code that the package has


@pytest.mark.usefixtures("strictly")
def test_a_hit_is_an_object_code_of_the_shipped_bytes(setting: Setting, program: Any) -> None:
    given = options(name="mine", std="c++17")
    with pytest.warns(setting.part.CompiledAtRunTimeWarning):
        setting.part.Program(TEXT, "c++", given).compile("cubin")
    setting.use(Path(setting.cubins._HERE), files(*units(options=("--std=c++17",))))
    code = setting.part.Program(TEXT, code_type="c++", options=given).compile("cubin", (INT,))
    entry = setting.cubins.find(f"{FRONT}:{text_key(FRONT, ['-std=c++17'], TEXT)}", cc=(9, 0))
    assert isinstance(code, ObjectCode)
    assert bytes(code.code) == setting.cubins._verified(entry)
    assert (code.name, code.code_type, code.symbol_mapping) == ("mine", "cubin", OF_INT)


@pytest.mark.usefixtures("strictly")
def test_a_hit_needs_no_compiler(setting: Setting, program: Any) -> None:
    log = io.StringIO()
    made = program(TEXT, "C++", options())
    assert (repr(made), made.is_closed) == ("<Program backend='NVRTC'>", False)
    first, again = made.compile("CUBIN", [INT, "saxpy"], log), made.compile("cubin", None)
    assert first is not again
    assert (first.symbol_mapping, again.symbol_mapping) == ({**OF_INT, "saxpy": b"saxpy"}, {})
    assert made.compile("cubin", [INT.encode()]).symbol_mapping == {INT.encode(): b"_Z1kIiEvv"}
    made.close()
    assert (made.is_closed, log.getvalue(), made._of_cuda_core) == (True, "", None)


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize("text", [TEXT.replace("\n", "\r\n"), f'#line 3 "a.cu"\n{TEXT}'])
def test_a_text_is_found_by_its_meaning(program: Any, text: str) -> None:
    given = options(include_path=["/usr/include"], diag_suppress=177, name="a.cu", disable_warnings=True)
    assert program(text, "c++", given).compile("cubin").code


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize(
    ("fields", "flags"),
    [
        ({"std": "c++14", "define_macro": ["M", ("N", "4")]}, ["-DN=4", "-DM", "-std=c++14"]),
        ({"use_fast_math": True, "fma": False}, ["-use_fast_math", "--fmad=false"]),
        (
            {"ftz": True, "prec_div": False, "prec_sqrt": False, "lineinfo": True},
            ["-lineinfo", "-ftz=true", "-prec-div=false", "-prec-sqrt=false"],
        ),
        ({"device_code_optimize": True, "max_register_count": 32}, ["--dopt=on", "-maxrregcount=32"]),
        ({"ptxas_options": ["-O3", "-v"]}, ["-Xptxas=-O3", "--ptxas-options=-v"]),
        ({"ofast_compile": "min"}, ["-Ofc=min"]),
        ({}, ["-w", "-I/usr/include"]),
    ],
)
def test_fields_are_options_of_the_key(
    setting: Setting, tmp_path: Path, fields: dict[str, Any], flags: list[str]
) -> None:
    own = setting.use(tmp_path, files(*units(options=tuple(flags))))
    assert own(TEXT, "c++", options(**fields)).compile("cubin").code
    assert own(TEXT, "c++", {"arch": "sm_90", **fields}).compile("cubin").code


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize(
    ("shipping", "arch", "chosen"),
    [
        (("sm_80", "sm_90"), "sm_90", "90"),
        (("sm_80", "sm_90"), "sm_80", "80"),
        (("sm_80", "sm_90"), "sm_86", "80"),
        (("sm_90", "sm_90a"), "sm_90a", "90a"),
        (("sm_100", "sm_100f"), "sm_100f", "100f"),
    ],
)
def test_the_arch_of_the_options_chooses(
    setting: Setting, tmp_path: Path, shipping: tuple[str, ...], arch: str, chosen: str
) -> None:
    own = setting.use(tmp_path, files(*units(*shipping)))
    assert shipped(own(TEXT, "c++", options(arch)).compile("cubin")) == chosen


@pytest.mark.usefixtures("strictly")
def test_options_that_are_left_out_are_those_of_cuda_core(setting: Setting, program: Any) -> None:
    class Options(ProgramOptions):  # type: ignore[misc]
        def __init__(self, arch: str = "sm_80", **fields: Any) -> None:
            super().__init__(arch=arch, **fields)

    setting.monkeypatch.setattr(setting.core, "ProgramOptions", Options)
    assert shipped(program(TEXT, "c++").compile("cubin")) == "80"
    assert shipped(program(TEXT, "c++", {}).compile("cubin")) == "80"


@pytest.mark.usefixtures("strictly")
def test_ptx_is_returned_if_nothing_else_fits(setting: Setting, tmp_path: Path) -> None:
    own = setting.use(tmp_path, files(*units("compute_80")))
    code = own(TEXT, "c++", options()).compile("cubin", [INT])
    assert (code.code_type, code.symbol_mapping) == ("ptx", OF_INT)
    with setting.cubins.use(strict=True):
        setting.compiles(lambda: own(TEXT, "c++", options()).compile("cubin"), "PTX")


@pytest.mark.usefixtures("strictly")
@pytest.mark.parametrize("version", [None, 0])
def test_without_a_driver_any_version_fits(setting: Setting, program: Any, version: int | None) -> None:
    setting.driver(version)
    assert program(TEXT, "c++", options()).compile("cubin").code


@pytest.mark.usefixtures("strictly")
def test_a_packed_bundle_works_too(setting: Setting, tmp_path: Path) -> None:
    own = setting.use(tmp_path, files(make=packed_bundle))
    assert own(TEXT, "c++", options()).compile("cubin").code


@pytest.mark.usefixtures("strictly")
def test_the_audit_event_is_that_of_the_loader(program: Any) -> None:
    seen: list[Any] = []
    active = [True]
    sys.addaudithook(lambda event, args: seen.append(args) if active and "cubin.load" in event else None)
    program(TEXT, "c++", options()).compile("cubin")
    active.clear()
    assert [(args[1], args[2]) for args in seen] == [(f"{FRONT}:{text_key(FRONT, (), TEXT)}", "sm_90")]


# Code that the package does not have


def test_another_text_is_compiled(setting: Setting, program: Any) -> None:
    log = io.StringIO()
    made = program(f"{TEXT}//", "c++", options())
    code = setting.compiles(lambda: made.compile("cubin", [INT], log), "does not have exactly this text")
    assert isinstance(code, ObjectCode)
    if setting.is_real:
        assert code.symbol_mapping == OF_INT
        assert repr(made) == "<Program backend='NVRTC'>"
    else:
        assert setting.core.compiled == [(f"{TEXT}//", "cubin", (INT,), None)]
        assert (log.getvalue(), repr(made)) == ("compiled", "<Program of NVRTC>")


@pytest.mark.parametrize(
    ("fields", "call", "reason"),
    [
        ({}, {"target_type": "ptx"}, "ptx, and not a cubin"),
        ({}, {"target_type": "ltoir"}, "ltoir, and not a cubin"),
        ({}, {"name_expressions": [INT, FLOAT]}, f"not with the kernel {FLOAT}"),
        ({"device_int128": True}, {}, "an option that"),
        ({"define_macro": "N"}, {}, "with these options"),
        ({"arch": "sm_75"}, {}, "7.5"),
        ({"arch": "sm_90a"}, {}, "for sm_90, but not for sm_90a"),
    ],
)
def test_a_call_that_the_package_does_not_have_is_passed_on(
    setting: Setting, program: Any, fields: dict[str, Any], call: dict[str, Any], reason: str
) -> None:
    if setting.is_real and call.get("target_type"):
        return  # without a driver, cuda.core waits for ever before it compiles to PTX
    made = program(TEXT, "c++", options(**fields))
    assert setting.compiles(lambda: made.compile(**{"target_type": "cubin", **call}), reason).code


def test_an_arch_that_is_not_of_a_gpu_is_passed_on(setting: Setting, program: Any) -> None:
    if not setting.is_real:  # NVRTC makes no cubin for this arch
        made = program(TEXT, "c++", options("compute_90"))
        setting.compiles(lambda: made.compile("cubin"), "not the arch of a GPU")


def test_a_driver_that_is_too_old_is_passed_on(setting: Setting, program: Any) -> None:
    setting.driver(12000)
    setting.compiles(lambda: program(TEXT, "c++", options()).compile("cubin"), "driver 12.0")


def test_other_kinds_of_code_are_passed_on(setting: Setting, program: Any) -> None:
    code = "target triple = 'nvptx64'"
    if setting.is_real:
        ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n"
        setting.compiles(lambda: program(ptx, "ptx", options()).compile("cubin"), "not CUDA C++")
        with pytest.raises(RuntimeError, match="code_type"):
            program(code, "C", options())
    else:
        made = program(code.encode(), "nvvm", options())
        assert setting.core.started == [code.encode()]
        setting.compiles(lambda: made.compile("ptx"), "not CUDA C++")


@pytest.mark.parametrize(("code", "given"), [(None, options()), (b"x", options()), (TEXT, 3)])
def test_wrong_arguments_are_refused_as_by_cuda_core(program: Any, code: Any, given: Any) -> None:
    with pytest.raises(TypeError):
        program(code, "c++", given)


def test_a_variable_can_turn_shipped_code_off(
    setting: Setting, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    setting.compiles(lambda: program(TEXT, "c++", options()).compile("cubin"), "HATCH_CUBIN_SKIP")


def test_nothing_is_compiled_if_the_environment_says_so(
    setting: Setting, program: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_NO_COMPILE", "1")
    assert program(TEXT, "c++", options()).compile("cubin").code
    for text, target in (("x", "cubin"), (TEXT, "ptx")):
        made = program(text, "c++", options())
        with pytest.raises(setting.cubins.CubinNotFoundError, match="HATCH_CUBIN_NO_COMPILE is set"):
            made.compile(target)
        assert made._of_cuda_core is None


def test_a_cache_is_asked_only_for_what_is_not_shipped(setting: Setting, program: Any) -> None:
    cache = setting.cubins.cache()
    assert program(TEXT, "c++", options()).compile("cubin", cache=cache).code
    other = program(f"{TEXT}//", "c++", options())
    setting.compiles(lambda: other.compile("cubin", cache=cache))
    with pytest.raises(ValueError, match="name_expressions"):  # also for a text that is shipped
        program(TEXT, "c++", options()).compile("cubin", [INT], cache=cache)
    if not setting.is_real:
        assert setting.core.compiled == [(f"{TEXT}//", "cubin", (), cache)]


def test_the_warning_has_the_call(setting: Setting, program: Any) -> None:
    text = "\n  __global__ void f() {}\n"
    made = program(text, "c++", options(define_macro="N", include_path="/inc"))
    with pytest.warns(setting.part.CompiledAtRunTimeWarning) as seen:
        made.compile("cubin", ["f"])
    warning = pickle.loads(pickle.dumps(seen[0].message))  # noqa: S301
    fields = warning.front, warning.text, warning.options, warning.names
    assert fields == (FRONT, text, ("--define-macro=N", "--include-path=/inc"), ("f",))
    assert "cuda.core compiles" in str(warning)


def test_a_compile_is_written_into_the_folder_of_records(
    setting: Setting, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.setenv("HATCH_CUBIN_RECORD", str(folder))
    other = f"{TEXT}//"
    setting.compiles(lambda: program(other, "c++", options(fma=False)).compile("cubin", [INT]))
    setting.compiles(lambda: program(TEXT, "c++", options()).compile("cubin", [FLOAT]))
    setting.compiles(lambda: program(TEXT, "c++", options(device_int128=True)).compile("cubin"))
    found = [json.loads(path.read_bytes()) for path in folder.iterdir()]
    assert {(each["front"], each["key"], *each["options"], *each["names"]) for each in found} == {
        (FRONT, text_key(FRONT, ["--fmad=false"], other), "--fmad=false", INT),
        (FRONT, text_key(FRONT, [], TEXT), FLOAT),
        (FRONT, None, "--device-int128"),
    }


# Damage


@pytest.mark.parametrize("variable", ["", "HATCH_CUBIN_NO_COMPILE"])
@pytest.mark.parametrize("file", ["manifest.json", ".cubin"])
def test_damage_is_never_compiled_away(
    setting: Setting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, file: str
) -> None:
    found = files()
    name = next(name for name in found if name.endswith(file) and "sm_80" not in name)
    found[name] = found[name].replace(b"sm_90", b"sm_91").replace(b'"size"', b'"sise"')
    own = setting.use(tmp_path, found)
    if variable:
        monkeypatch.setenv(variable, "1")
    for _ in range(2):
        with pytest.raises(setting.cubins.CubinDamagedError):
            own(TEXT, "c++", options()).compile("cubin")


def test_a_file_of_another_version_is_refused(setting: Setting, tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, files())
    setting.monkeypatch.setattr(cubins._part("_drop_in"), "_build_of_core", "of an older version")
    with pytest.raises(cubins.CubinError, match="another version"):
        cubins._part("core")


# A program is cuda.core's


@pytest.mark.usefixtures("strictly")
def test_attributes_are_those_of_cuda_core(setting: Setting, program: Any) -> None:
    made = program(TEXT, "c++", options())
    assert [hasattr(made, name) for name in ("handles", "_name")] == [False, False]
    assert made._of_cuda_core is None
    assert made.backend == "NVRTC"
    assert made.compile("cubin").code
    if setting.is_real:
        assert made.pch_status is None
        assert made.handle
    assert all(hasattr(made, name) for name in vars(setting.core.Program) if not name.startswith("_"))


@pytest.mark.parametrize("starts", [False, True])
def test_a_closed_program_compiles_nothing(setting: Setting, program: Any, *, starts: bool) -> None:
    made = program(TEXT, "c++", options())
    if starts:
        assert made.backend
    made.close()
    with pytest.raises(RuntimeError, match="closed"):
        made.compile("cubin")
    assert made.is_closed


def test_a_program_cannot_be_pickled_but_its_code_can(setting: Setting, program: Any) -> None:
    made = program(TEXT, "c++", options())
    code = pickle.loads(pickle.dumps(made.compile("cubin", [INT])))  # noqa: S301
    assert code.symbol_mapping == OF_INT
    for each in (made, setting.core.Program(TEXT, "c++", options())) if setting.is_real else (made,):
        with pytest.raises((TypeError, AttributeError)):
            pickle.dumps(each)


@pytest.mark.usefixtures("strictly")
def test_threads_give_the_text_to_cuda_core_once(setting: Setting, program: Any) -> None:
    made = program(TEXT, "c++", options())
    barrier, found = threading.Barrier(8), list[Any]()

    def ask() -> None:
        barrier.wait()
        found.append((made.compile("cubin").code, made.backend))

    run_threads([threading.Thread(target=ask) for _ in range(8)])
    assert len(found) == 8
    if not setting.is_real:
        assert setting.core.started == [TEXT]


def test_a_subclass_works(program: Any) -> None:
    kind = type("Own", (program,), {})
    assert kind(TEXT, "c++", options()).compile("cubin").code
