"""Which compiler a build uses, and how it says that there is none."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.errors import ToolchainError
from hatch_cubin.toolkit import libraries, worker
from hatch_cubin.toolkit import toolkit as toolkit_module
from hatch_cubin.toolkit.installed_wheels import compiler
from hatch_cubin.toolkit.libraries import candidates, system_major
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import Coded, found, write_tree

HINT = 'install it here; or write toolkit = "13" into the table, so that builds install the compiler'


def refusal(code: str, wanted: str | None = None) -> str:
    """Return the error of a toolkit that cannot be used; it has this code alone."""
    with pytest.raises(ToolchainError) as caught:
        Toolkit(wanted)
    assert found(caught.value) == [(code, "")]
    return str(caught.value)


@pytest.mark.nvrtc
def test_a_toolkit_is_identified_to_the_patch() -> None:
    toolkit = Toolkit(None)
    for build in (toolkit.nvrtc, toolkit.nvjitlink):
        assert len([int(part) for part in build.split(".")]) == 3
    assert toolkit.nvrtc.startswith("{}.{}.".format(*toolkit.version))
    assert toolkit.major == toolkit.version[0]
    assert list(toolkit.supported) == sorted(set(toolkit.supported))
    assert toolkit.toolchain().label == f"NVRTC {toolkit.nvrtc}"
    assert toolkit.families == (toolkit.version >= (12, 9))


def test_a_system_toolkit_of_another_major_than_the_bindings_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("cuda.core")
    monkeypatch.setenv("CUDA_HOME", str(write_tree(tmp_path, {"lib64/libnvrtc.so.11": ""})))
    major = Toolkit(None).major
    assert refusal("library-not-loadable", "system").splitlines()[0] == (
        f"cannot load nvrtc: there is CUDA 11, not CUDA {major}, in CUDA_HOME={tmp_path}; "
        "CUDA 11 needs cuda-bindings==11.*"
    )


@pytest.mark.parametrize(
    ("platform", "files", "major"),
    [
        ("linux", ["lib64/libnvrtc.so", "lib64/libnvrtc.so.12", "lib64/libnvrtc.so.12.9.86"], 12),
        ("linux", ["lib/libnvrtc.so.13.0.88"], 13),
        ("linux", ["lib64/libnvrtc.so", "lib64/libcudart.so.12"], None),
        ("win32", ["bin/nvrtc64_120_0.dll", "bin/nvrtc64_120_0.alt.dll"], 12),
        ("win32", ["bin/nvrtc64.dll"], None),
    ],
)
def test_a_system_toolkit_is_of_the_major_that_its_compiler_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, files: list[str], major: int | None
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(write_tree(tmp_path, dict.fromkeys(files, ""))))
    monkeypatch.setattr(sys, "platform", platform)
    assert system_major() == major


@pytest.mark.nvrtc
def test_nvjitlink_is_loaded_only_when_a_source_asks_for_it() -> None:
    toolkit = Toolkit(None)
    before = toolkit.libraries
    seen = [toolkit.nvjitlink_if_loaded, toolkit.nvjitlink, toolkit.nvjitlink_if_loaded]
    assert seen == [None, toolkit.nvjitlink, toolkit.nvjitlink]
    assert [name for name in toolkit.libraries if name not in before] == [toolkit.libraries[-1]]
    assert "nvjitlink" in toolkit.libraries[-1].lower()


@pytest.mark.nvrtc
@pytest.mark.parametrize("digits", [1, 2])
def test_the_version_that_is_here_can_be_asked_for(digits: int) -> None:
    Toolkit(".".join(map(str, Toolkit(None).version[:digits])))


def release(monkeypatch: pytest.MonkeyPatch, installed: str | None) -> None:
    """Have NVIDIA's metapackage installed in a release, or not at all."""

    real = importlib.metadata.version

    def version(name: str) -> str:
        if name != "cuda-toolkit":
            return real(name)
        if installed is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return installed

    monkeypatch.setattr(importlib.metadata, "version", version)


@pytest.mark.nvrtc
def test_an_exact_release_is_that_of_the_metapackage(monkeypatch: pytest.MonkeyPatch) -> None:
    minor = "{}.{}".format(*Toolkit(None).version)
    release(monkeypatch, f"{minor}.2")
    assert Toolkit(f"{minor}.2").doubt is None
    assert refusal("wrong-toolkit-installed", f"{minor}.1") == (
        f"the table has toolkit = '{minor}.1', but the installed cuda-toolkit has version {minor}.2\n"
        "  hint: build with isolation, which installs the right version, or install it here"
    )


@pytest.mark.nvrtc
def test_an_exact_release_that_nothing_tells_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    release(monkeypatch, None)
    minor = "{}.{}".format(*Toolkit(None).version)
    assert (Toolkit(None).doubt, Toolkit(minor).doubt) == (None, None)
    assert Toolkit(f"{minor}.1").doubt == (
        f"toolkit = '{minor}.1': the toolkit's patch level is not checked, "
        "because the wheel cuda-toolkit is not installed"
    )


@pytest.mark.nvrtc
@pytest.mark.parametrize("wanted", ["12.0", "13.99", "13.99.1"])
def test_another_version_than_the_one_here_is_refused(wanted: str) -> None:
    said = refusal("wrong-toolkit-installed", wanted)
    assert all(
        value in said for value in (repr(wanted), f"the installed NVRTC has version {Toolkit(None).nvrtc}\n")
    )


@pytest.mark.parametrize("module", ["cuda.bindings", "cuda.core"])
def test_missing_packages_are_named_with_the_way_to_get_them(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    said = refusal("cuda-core-not-importable")
    assert said.startswith("cannot import cuda.core and cuda.bindings: ")
    assert module in said
    assert said.endswith(HINT)


class TooOld:
    """An import of cuda.core that fails, because cuda.core compares the version of cuda-bindings."""

    @staticmethod
    def find_spec(name: str, *_others: object) -> None:
        if name == "cuda.core":
            raise RuntimeError("cuda-bindings is too old")


def test_an_import_of_cuda_core_may_fail_with_any_exception(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cuda.core")
    monkeypatch.delitem(sys.modules, "cuda.core")
    monkeypatch.setattr(sys, "meta_path", [TooOld, *sys.meta_path])
    said = refusal("cuda-core-not-importable")
    assert said.startswith("cannot import cuda.core and cuda.bindings: cuda-bindings is too old\n")


@pytest.mark.nvrtc
def test_cuda_bindings_may_refuse_to_load_a_library_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import nvrtc

    def refuse() -> None:
        raise RuntimeError("the driver is too old\nfor this toolkit")

    monkeypatch.setattr(nvrtc, "nvrtcGetSupportedArchs", refuse)
    said = refusal("library-not-loadable")
    assert said.startswith("cannot load nvrtc: the driver is too old\n  installed: ")


def test_an_old_cuda_python_that_overwrote_the_bindings_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    versions = {"cuda-python": "12.6.2.post1", "cuda-bindings": "13.5.0"}
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    monkeypatch.setattr(toolkit_module, "version_of", versions.get)
    with pytest.raises(ToolchainError) as caught:
        Toolkit("13.0", "pip install it")
    (said,) = caught.value.problems
    assert all(version in said.details[0] for version in versions.values())
    assert '"cuda-python==13.*"' in str(said.hint)


def test_missing_packages_that_the_table_asks_for_are_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cuda.core", None)
    with pytest.raises(ToolchainError) as caught:
        Toolkit("13.0", "pip install it")
    hint = "build with isolation, which installs the right version, or pip install it"
    assert found(caught.value) == [("cuda-core-not-importable", "")]
    assert [each.hint for each in caught.value.problems] == [hint]


@pytest.mark.nvrtc
def test_a_library_that_nobody_finds_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.pathfinder

    def find_nothing(name: str) -> None:
        raise RuntimeError(f"no lib{name}\nat great length")

    monkeypatch.setattr(cuda.pathfinder, "load_nvidia_dynamic_lib", find_nothing)
    monkeypatch.setattr(toolkit_module, "candidates", lambda *_args: iter([Path("/no/such/library")]))
    here = ", ".join(compiler())
    assert (
        refusal("library-not-loadable")
        == f"cannot load nvrtc: no libnvrtc\n  installed: {here}\n  hint: {HINT}"
    )


@pytest.mark.nvrtc
def test_where_no_wheel_has_a_library_cuda_pathfinder_finds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Toolkit(None)
    monkeypatch.setattr(toolkit_module, "candidates", lambda *_args: iter([]))
    assert Toolkit(None).nvrtc == found.nvrtc


@pytest.mark.parametrize(
    ("variable", "where"),
    [(None, "/usr/local/cuda, and CUDA_HOME is not set"), ("CUDA_PATH", "CUDA_PATH=/none")],
)
def test_the_systems_folder_is_told_with_what_named_it(
    monkeypatch: pytest.MonkeyPatch, variable: str | None, where: str
) -> None:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "/none")
    assert libraries.absent_from_home(99).startswith(f"there is no CUDA 99 in {where}")


@pytest.mark.nvrtc
def test_a_system_toolkit_without_the_library_names_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    major = Toolkit(None).major
    said = f"cannot load nvrtc: there is no CUDA {major} in CUDA_HOME={tmp_path}"
    assert refusal("library-not-loadable", "system") == (
        f"{said}\n  hint: set CUDA_HOME to the folder of a toolkit with NVRTC; "
        'or, unless HATCH_CUBIN_TOOLKIT is set, use a toolkit from wheels: toolkit = "13"'
    )


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_system_toolkit_of_another_major_needs_the_bindings_of_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Toolkit(None).major - 1
    monkeypatch.setenv("CUDA_HOME", str(write_tree(tmp_path, {f"lib64/libnvrtc.so.{other}": ""})))
    assert refusal("library-not-loadable", "system").endswith(f"hint: pip install 'cuda-bindings=={other}.*'")


@pytest.mark.nvrtc
@pytest.mark.parametrize(("release_of", "fits"), [("13.0.3", "13.0.3.0"), ("13.0.3.0", "13.0.3")])
def test_a_release_has_the_same_number_with_and_without_a_last_zero(
    monkeypatch: pytest.MonkeyPatch, release_of: str, fits: str
) -> None:
    release(monkeypatch, fits)
    facts = Toolkit(None).facts._replace(nvrtc="13.0.88")
    assert Toolkit(release_of, facts=facts).doubt is None


@pytest.mark.nvrtc
def test_a_cuda_core_that_is_too_old_is_told_with_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import cuda.core

    monkeypatch.setattr(toolkit_module, "unmet", lambda wanted: wanted)
    said = f"cuda-core {cuda.core.__version__} is installed, but hatch-cubin needs cuda-core>=1.2,<2"
    assert refusal("wrong-cuda-core") == f"{said}\n  hint: {HINT}"


@pytest.mark.nvrtc
def test_an_nvjitlink_of_another_version_is_refused_like_an_nvrtc(monkeypatch: pytest.MonkeyPatch) -> None:
    major = Toolkit(None).major
    exact_build = toolkit_module._exact_build

    def other(name: str, *args: str) -> str:
        return f"{major - 1}.9.1" if name == "nvJitLink" else exact_build(name, *args)

    monkeypatch.setattr(toolkit_module, "_exact_build", other)
    toolkit = Toolkit(str(major))
    with pytest.raises(ToolchainError) as caught:
        _ = toolkit.nvjitlink
    here = f"installed nvJitLink has version {major - 1}.9.1"
    assert [*caught.value.problems] == [Coded("wrong-toolkit-installed", "", f" '{major}',", here)]


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_system_toolkit_is_taken_from_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path(Toolkit(None).libraries[-1])
    (tmp_path / "lib64").mkdir()
    for library in real.parent.glob("libnvrtc*"):
        (tmp_path / "lib64" / library.name).symlink_to(library)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    assert Path(Toolkit("system").libraries[-1]) == tmp_path / "lib64" / real.name


@pytest.mark.parametrize(
    ("platform", "major", "library"),
    [
        ("linux", 13, "nvidia/cu13/lib/libnvrtc.so.13"),
        ("linux", 12, "nvidia/cuda_nvrtc/lib/libnvrtc.so.12"),
        ("win32", 13, "nvidia/cu13/bin/x86_64/nvrtc64_130_0.dll"),
        ("win32", 12, "nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll"),
    ],
)
def test_the_library_beside_this_builds_packages_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, major: int, library: str
) -> None:
    write_tree(tmp_path, {library: "", "nvidia/cu13/lib/libnvrtc.so.99": ""})
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(sys, "path", ["/nowhere", str(tmp_path)])
    assert list(candidates("nvrtc", major, None)) == [tmp_path / library]


@pytest.mark.nvrtc
@pytest.mark.parametrize("output", [b"", b"release 13"])
def test_a_build_that_cannot_be_told_is_an_error_with_the_log(
    monkeypatch: pytest.MonkeyPatch, output: bytes
) -> None:
    def say_nothing(_task: object) -> dict[str, Any]:
        return {"ok": False, "output": output, "ptx": b"", "log": "first\nsecond"}

    monkeypatch.setattr(worker, "compile_task", say_nothing)
    said = refusal("unknown-library-build")
    assert said.startswith("cannot find out the exact version of NVRTC at /")
    assert said.endswith("\n  first\n  second")


@pytest.mark.nvrtc
def test_a_compiler_that_signs_nothing_is_known_by_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = Toolkit(None)
    library = write_tree(tmp_path, {"lib": b"\0Cuda compilation tools, release 12.9, V12.9.86\0"}) / "lib"
    monkeypatch.setattr(Toolkit, "_load", lambda *_args: str(library))
    unsigned = {"ok": True, "output": b"ELF", "ptx": b"", "log": ""}
    monkeypatch.setattr(worker, "compile_task", lambda _task: unsigned)
    assert toolkit.nvjitlink == "12.9.86"


@pytest.mark.nvrtc
def test_bundled_headers_are_unpacked_where_nvrtc_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.bindings import nvrtc

    toolkit = Toolkit(None)
    worked = toolkit.install_headers(tmp_path / "headers")
    assert worked is (toolkit.version >= (13, 3))
    assert (tmp_path / "headers/cuda_fp16.h").is_file() is worked
    monkeypatch.delattr(nvrtc, "nvrtcInstallBundledHeaders", raising=False)
    assert toolkit.install_headers(tmp_path / "more") is False


@pytest.mark.nvrtc
@pytest.mark.linux
def test_bundled_headers_that_cannot_be_written_are_no_absent_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cuda.bindings import nvrtc

    toolkit = Toolkit(None)
    if toolkit.version < (13, 3):
        pytest.skip("this compiler carries none")
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(
            OSError, match=r"NVRTC could not write its headers \(\d+ MB in \d+ files\)"
        ) as caught:
            toolkit.install_headers(tmp_path / "headers")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(caught.value.strerror).endswith("is the disk full?")
    none = SimpleNamespace(available=0)
    monkeypatch.setattr(nvrtc, "nvrtcGetBundledHeadersInfo", lambda: (0, none))
    (tmp_path / "file").write_text("")
    assert toolkit.install_headers(tmp_path / "file") is False


def test_the_data_model_is_the_platforms() -> None:
    assert ("llp64" if sys.platform == "win32" else "lp64") == toolkit_module.DATA_MODEL
