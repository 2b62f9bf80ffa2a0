"""Our own build backend around a small one of the project's: which hooks it has, and what each adds."""

from __future__ import annotations

import os
import sys
import tarfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import backend
from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.cli.main import main
from hatch_cubin.lockfile import lock_format
from hatch_cubin.wheels.checking.record_check import record_problems
from tests.helpers import SAXPY, Coded, bundle, wheel_files, write_tree

# A backend that packs what `WHEEL` names, and notes what it was called with.
INNER = """\
import io
import os
import tarfile
import zipfile

WHEEL = {wheel!r}
called = []


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    called.append((config_settings, metadata_directory))
    name = "demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w") as archive:
        for member in WHEEL:
            archive.writestr(zipfile.ZipInfo(member), "")
    return name


def build_sdist(sdist_directory, config_settings=None):
    called.append(config_settings)
    with tarfile.open(os.path.join(sdist_directory, "demo-1.0.tar.gz"), "w:gz") as archive:
        archive.addfile(tarfile.TarInfo("demo-1.0/PKG-INFO"), io.BytesIO())
    return "demo-1.0.tar.gz"
"""
ASKS = """

def get_requires_for_build_wheel(config_settings=None):
    called.append(config_settings)
    return ["inner-needs"]


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    return "the inner one's"


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return build_wheel(wheel_directory, config_settings, metadata_directory)
"""
INFO = ("demo-1.0.dist-info/WHEEL", "demo-1.0.dist-info/RECORD")
IN_WHEEL = ("demo/__init__.py", "demo/saxpy.cu", "demo/near.cuh", "demo/_cubins/stale", *INFO)
FILES = {
    "src/demo/__init__.py": "",
    "src/demo/saxpy.cu": '#include "near.cuh"\n' + SAXPY,
    "src/demo/near.cuh": "",
    "include/x.h": "",
}
EMPTY = {f"demo/_cubins/{name}" for name in bundle()}
MISNAMED = "[tool.hatch_cubin]"
NOTHING = "hatch-cubin: 1 error, nothing was built\n"


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what is imported here; and build without kernels, unless a test wants some."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "_inner", raising=False)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the project, as the current one."""
    root = tmp_path / "project"
    root.mkdir()
    monkeypatch.chdir(root)
    yield root
    sys.modules.pop("_inner", None)


def written(
    root: Path,
    options: str = "",
    wheel: tuple[str, ...] = IN_WHEEL,
    more: str = "",
    files: Mapping[str, str] = FILES,
) -> Path:
    pyproject = (
        '[build-system]\nrequires = ["hatch-cubin"]\nbuild-backend = "hatch_cubin.backend"\n'
        f'[tool.hatch-cubin]\nbackend = "_inner"\nbackend-path = ["."]\narchs = ["sm_90"]\n{options}'
    )
    inner = INNER.format(wheel=wheel).replace("{{", "{") + more
    return write_tree(root, {"pyproject.toml": pyproject, "_inner.py": inner, **files})


def build(root: Path, into: str = "dist", *settings: Any) -> dict[str, bytes]:
    name = backend.build_wheel(into, *settings)
    assert os.listdir(into) == [name]  # and nothing else is left
    with zipfile.ZipFile(root / into / name) as archive:
        assert [*record_problems(archive)] == []
    return wheel_files(root / into / name)


def refused(hook: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Return what is said where a hook ends with a user's problem."""
    with pytest.raises(SystemExit) as ended:
        getattr(backend, hook)("dist")
    assert ended.value.code == 1
    assert not os.path.exists("dist") or not os.listdir("dist")
    said = capsys.readouterr().err
    assert said.endswith(NOTHING)
    return said.removesuffix(NOTHING)


# Hooks


def test_what_the_backend_inside_has_not_is_not_offered(project: Path) -> None:
    written(project)
    hooks = ("build_editable", "prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable")
    assert [hook for hook in hooks if hasattr(backend, hook)] == []
    assert backend.get_requires_for_build_wheel() == []
    assert backend.get_requires_for_build_sdist() == []


def test_what_it_has_is(project: Path) -> None:
    written(project, more=ASKS)
    assert backend.prepare_metadata_for_build_wheel("x") == "the inner one's"
    assert hasattr(backend, "build_editable")


def test_what_is_no_hook_asks_nobody(project: Path) -> None:
    assert not any(hasattr(backend, name) for name in ("__path__", "_asked", "x"))


def test_what_a_wheel_needs_is_asked_for_beside_what_the_backend_inside_asks_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(project, 'toolkit = "12.9"\n', more=ASKS)
    monkeypatch.delenv("HATCH_CUBIN_SKIP")
    settings = {"--x": ["y"]}
    first, *others = backend.get_requires_for_build_wheel(settings)
    assert (first, len(others)) == ("inner-needs", 3)
    assert backend.get_requires_for_build_editable(settings) == others
    assert backend.get_requires_for_build_sdist(settings) == []
    assert sys.modules["_inner"].called == [settings]


@pytest.mark.nvrtc
def test_with_a_lock_it_asks_for_no_compiler_where_all_is_cached_and_else_for_the_locks(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written(project, 'toolkit = "13"\n', more=ASKS)
    monkeypatch.delenv("HATCH_CUBIN_SKIP")
    monkeypatch.setenv("HATCH_CUBIN_LOCKED", "1")
    assert "there is no cubin.lock" in refused("get_requires_for_build_wheel", capsys)
    assert main(["lock"]) == 0
    assert backend.get_requires_for_build_wheel() == ["inner-needs"]
    assert backend.get_requires_for_build_editable() == []
    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "make_plan", None)  # which asks the toolkit
        assert "demo/_cubins/saxpy.sm_90.cubin" in build(project, "made")
    text = (project / lock_format.NAME).read_bytes()
    with tarfile.open(f"sdist/{backend.build_sdist('sdist')}") as archive:
        packed = archive.extractfile(f"demo-1.0/{lock_format.NAME}")
        assert packed is not None
        assert packed.read() == text
    write_tree(project, {"src/demo/near.cuh": "// edited"})
    stale = (
        "cubin.lock: is stale, and HATCH_CUBIN_LOCKED is set [lock-stale]\n  src/demo/near.cuh is changed\n"
    )
    assert stale in refused("get_requires_for_build_editable", capsys)
    monkeypatch.delenv("HATCH_CUBIN_LOCKED")
    wheels = lock_format.decode(text.decode()).wheels
    exact = [f"{name}=={version}" for name, version in wheels.items()]
    assert backend.get_requires_for_build_editable() == [*exact, "cuda-bindings==13.*"]


def test_settings_and_metadata_are_for_the_backend_inside(project: Path) -> None:
    written(project)
    build(project, "dist", {"a": "b"}, "metadata")
    backend.build_sdist("sdist", {"c": "d"})
    assert sys.modules["_inner"].called == [({"a": "b"}, "metadata"), {"c": "d"}]


# Wheels


@pytest.mark.parametrize("hook", ["build_wheel", "build_editable"])
def test_a_setting_that_only_a_variable_can_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hook: str
) -> None:
    monkeypatch.chdir(written(tmp_path, more=ASKS))
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    os.mkdir("dist")
    getattr(backend, hook)("dist", {"archs": "sm_90", "cache_dir": "x", "define": "N=1", "verbose": "1"})
    said = capsys.readouterr().err
    assert said.count("[config-setting-not-read]") == 2
    assert "hint: set the environment variable HATCH_CUBIN_ARCHS\n" in said
    assert "hint: set the environment variable HATCH_CUBIN_CACHE_DIR\n" in said


@pytest.mark.nvrtc
def test_a_wheel_gets_the_bundle_and_loses_what_it_was_built_from(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HATCH_CUBIN_SKIP")
    files = build(written(project))
    assert files.keys() == {
        "demo/__init__.py",
        *EMPTY,
        "demo/_cubins/saxpy.sm_90.cubin",
        *INFO,
        f"demo-1.0.dist-info/sboms/{sbom.NAME}",
    }
    assert build(project, "again") == files  # from the cache: the cubin is a file there


def test_a_bundle_without_kernels_replaces_what_was_there(project: Path) -> None:
    assert build(written(project)).keys() == {"demo/__init__.py", *EMPTY, *INFO}


def test_sources_ship_where_the_table_says_so(project: Path) -> None:
    without = tuple(name for name in IN_WHEEL if name != "demo/saxpy.cu")
    files = build(written(project, "ship-sources = true\n", without))
    assert files.keys() == {"demo/__init__.py", "demo/saxpy.cu", "demo/near.cuh", *EMPTY, *INFO}
    assert files["demo/saxpy.cu"] == (project / "src/demo/saxpy.cu").read_bytes()


def test_sources_outside_of_the_packages_have_no_place_in_a_wheel(project: Path) -> None:
    options = 'sources = ["**/*.cu", "csrc/*.cu"]\nship-sources = true\n'
    files = build(written(project, options, files={**FILES, "csrc/more.cu": SAXPY}))
    assert files.keys() == {"demo/__init__.py", "demo/saxpy.cu", "demo/near.cuh", *EMPTY, *INFO}


def test_a_cache_in_the_package_does_not_ship(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    cached = ("demo/cache/entries/00/x", "demo/cache/tmp/y", "demo/cache/z")
    files = build(written(project, 'cache-dir = "src/demo/cache"\n', (*IN_WHEEL, *cached)))
    assert files.keys() & {*cached} == {"demo/cache/z"}


def test_the_package_may_be_in_the_wheels_data_for_site_packages(project: Path) -> None:
    data = "demo-1.0.data/platlib"
    wheel = tuple(f"{data}/{name}" if name.startswith("demo/") else name for name in IN_WHEEL)
    files = build(written(project, wheel=wheel))
    assert files.keys() == {f"{data}/demo/__init__.py", *(f"{data}/{name}" for name in EMPTY), *INFO}


def test_a_package_that_is_elsewhere_in_the_project_is_named(project: Path) -> None:
    files = {name.replace("src/demo", "python/core"): text for name, text in FILES.items()}
    written(project, 'package-dir = "python/core"\npackage = "demo"\n', files=files)
    assert build(project).keys() == {"demo/__init__.py", *EMPTY, *INFO}


def test_of_the_trees_packages_those_count_that_are_in_the_wheel(project: Path) -> None:
    written(project, files={**FILES, "src/tools/__init__.py": ""})
    assert build(project).keys() >= EMPTY


UNPLACED = "package-folder-not-found"


@pytest.mark.parametrize(
    ("package", "wheel", "code", "values"),
    [
        (
            "",
            ("other/__init__.py",),
            UNPLACED,
            ["_inner builds: 'other'", "the folder of 'other' in the project", '"src/other"'],
        ),
        ("ns.x", ("demo/__init__.py", "ns/x/__init__.py"), UNPLACED, ["'demo', 'ns.x'", '"src/ns/x"']),
        (
            "",
            ("demo.py",),
            UNPLACED,
            ["none", ("to contain kernels, the wheel needs a package: a folder with __init__.py")],
        ),
        ("", (*IN_WHEEL, "tools/__init__.py"), "package-not-chosen", ["'demo', 'tools'", 'package = "demo"']),
        ("", (*IN_WHEEL, "demo-1.0.dist-info/RECORD.jws"), "wheel-signed", ["(RECORD.jws)"]),
    ],
    ids=["not in the tree", "not in the tree, named", "none", "several", "signed"],
)
@pytest.mark.usefixtures("project")
def test_a_wheel_that_kernels_do_not_fit_into_is_an_error_and_none_is_left(
    capsys: pytest.CaptureFixture[str], package: str, wheel: tuple[str, ...], code: str, values: list[str]
) -> None:
    options = f'package = "{package}"\n' if package else ""
    members = tuple(dict.fromkeys((*wheel, *INFO)))
    written(Path.cwd(), options, members, files={**FILES, "src/tools/__init__.py": ""})
    place = "demo-1.0-py3-none-any.whl" if code == "wheel-signed" else "pyproject.toml:4"
    assert refused("build_wheel", capsys) == Coded(code, place, *values)


ONE_OF = "set 'package-dir' to one of these folders: "
NAMESPACE = 'paste these lines:\n    package = "acme.gpu"\n    package-dir = "lib/acme/gpu"'


@pytest.mark.parametrize(
    ("package", "homes", "hint"),
    [
        ("", ("lib/acme/gpu",), NAMESPACE),
        ("acme.gpu", ("lib/acme/gpu",), 'package-dir = "lib/acme/gpu"'),
        ("acme.gpu", ("acme/gpu",), 'package-dir = "acme/gpu"'),
        ("python", ("code/python", "lib/other"), 'package-dir = "code/python"'),
        ("", ("code/python", "lib/acme/gpu"), f'{ONE_OF}"lib/acme/gpu" or "code/python"'),
        ("", ("lib/acme/gpu", "old/acme/gpu"), f'{ONE_OF}"lib/acme/gpu" or "old/acme/gpu"'),
    ],
)
def test_a_package_that_the_tree_shows_in_one_place_is_named_with_it(
    project: Path, capsys: pytest.CaptureFixture[str], package: str, homes: tuple[str, ...], hint: str
) -> None:
    members = ("acme/gpu/__init__.py", "python/__init__.py", *INFO)
    options = f'package = "{package}"\n' if package else ""
    written(project, options, members, files={f"{home}/__init__.py": "" for home in homes})
    what = (
        "the folder of the package for the kernels is unknown; packages in "
        "the wheel that _inner builds: 'acme.gpu', 'python'"
    )
    assert refused("build_wheel", capsys) == (
        f"hatch-cubin: error: pyproject.toml:4: {what} [{UNPLACED}]\n  hint: {hint}\n"
    )


def test_a_package_that_the_wheel_has_not_is_an_error(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written(project, 'package = "other"\n')
    assert refused("build_wheel", capsys) == (
        "hatch-cubin: error: pyproject.toml:8: the package 'other' is not in the wheel that _inner builds; "
        "packages in this wheel: 'demo' [package-not-in-wheel]\n"
    )


@pytest.mark.parametrize("hook", ["build_wheel", "build_sdist", "get_requires_for_build_wheel"])
def test_a_wrong_table_is_told_before_anything_is_built(
    project: Path, capsys: pytest.CaptureFixture[str], hook: str
) -> None:
    written(project, "jobs = 0\n")
    assert refused(hook, capsys) == Coded("invalid-value", "pyproject.toml:8", "jobs ")
    assert "_inner" not in sys.modules


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("", "'hatch-cubin init' adds the table"),
        (
            f"{MISNAMED}\n",
            f"rename {MISNAMED} to [tool.hatch-cubin]: the build backend does not read {MISNAMED}",
        ),
    ],
)
def test_a_missing_table_is_told(
    project: Path, capsys: pytest.CaptureFixture[str], table: str, hint: str
) -> None:
    write_tree(project, {"pyproject.toml": f'[build-system]\nbuild-backend = "hatch_cubin.backend"\n{table}'})
    assert refused("build_wheel", capsys) == Coded("no-table", "pyproject.toml", f"hint: {hint}\n")


# Editable installs


def test_an_editable_install_has_its_bundle_in_the_tree_and_a_finder_where_nothing_leads_there(
    project: Path,
) -> None:
    written(project, wheel=INFO, more=ASKS)
    files = build_editable(project)
    assert {f"demo/_cubins/{path.name}" for path in (project / "src/demo/_cubins").iterdir()} >= EMPTY
    assert files.keys() == {"_cubins_of_demo.py", "_cubins_of_demo.pth", "_cubins_of_demo.start", *INFO}


def build_editable(root: Path) -> dict[str, bytes]:
    return wheel_files(root / "dist" / backend.build_editable("dist"))


def test_it_is_built_again_in_the_projects_folder(project: Path) -> None:
    written(project)
    backend.rebuild()
    assert (project / "src/demo/_cubins/manifest.json").is_file()
