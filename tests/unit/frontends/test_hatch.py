"""The hook's own work, without a compiler: what it asks for, reads, selects and keeps out."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

from hatch_cubin.config.config import TableLocation
from hatch_cubin.errors import ConfigError
from hatch_cubin.frontends import hatch
from hatch_cubin.project.project import cache_entries, cache_folders
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import SAXPY, found, make_project, pyproject, refusal, write_tree

FILES = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY}


def _hook(root: Path, builder: type[WheelBuilder | SdistBuilder] = WheelBuilder) -> hatch.CubinBuildHook:
    """Return the hook as hatchling makes it."""
    made = builder(str(root)).get_build_hooks(str(root / "dist"))["cubin"]
    assert isinstance(made, hatch.CubinBuildHook)
    return made


def _project(root: Path, options: str = "", more: str = "", files: Mapping[str, str] = FILES) -> Path:
    return write_tree(root, {"pyproject.toml": f"{pyproject(options)}\n{more}", **files})


def test_hatchling_finds_the_hook_by_its_name(tmp_path: Path) -> None:
    assert type(_hook(_project(tmp_path))) is hatch.hatch_register_build_hook()[0]


@pytest.mark.parametrize("name", ["cubins", "hatch-cubin", "hatch_cubin"])
@pytest.mark.parametrize("home", ["tool.hatch.build.hooks", "tool.hatch.build.targets.wheel.hooks"])
def test_a_hook_by_nearly_that_name_is_an_error_with_the_right_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, home: str
) -> None:
    text = pyproject("").replace("[tool.hatch.build.hooks.cubin]", f"[{home}.{name}]")
    builder = WheelBuilder(str(write_tree(tmp_path, {"pyproject.toml": text, **FILES})))
    with pytest.raises(SystemExit):
        _ = builder.config.dependencies
    with pytest.raises(SystemExit):
        next(builder.build(directory=str(tmp_path / "dist")))
    message = (
        f"hatch-cubin: error: pyproject.toml:9: there is no hook {name!r} [unknown-hook]\n"
        f"  hint: did you mean [{home}.cubin]?\n"
        "hatch-cubin: 1 error, nothing was built\n"
    )
    assert capsys.readouterr().err == message * 2
    assert [*(tmp_path / "dist").iterdir()] == []


# What a build needs installed

CORE = "cuda-core>=1.2,<2"
LINE_13 = (
    CORE,
    "cuda-bindings==13.*",
    "cuda-toolkit[nvrtc,cudart,cccl,crt]=={0}",
)
LINE_12 = (
    CORE,
    "cuda-bindings==12.*",
    "cuda-toolkit[nvrtc,cudart,cccl,nvcc]=={0}",
)


@pytest.fixture(autouse=True)
def _no_system_toolkit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("toolkit", "asked_for"),
    [
        ("13", [each.format("13.*", "13") for each in LINE_13]),
        ("13.0", [each.format("13.0.*", "13.0") for each in LINE_13]),
        ("13.0.2", [each.format("13.0.2", "13.0") for each in LINE_13]),
        ("12.9", [each.format("12.9.*", "12.9") for each in LINE_12]),
        ("12.9.1", [each.format("12.9.1", "12.9") for each in LINE_12]),
        ("system", [CORE, "cuda-bindings"]),
    ],
)
def test_a_wheel_asks_for_the_toolkit_that_the_table_names(
    tmp_path: Path, toolkit: str, asked_for: list[str]
) -> None:
    root = _project(tmp_path, f'toolkit = "{toolkit}"\nheader-packages = ["some-headers"]')
    assert _hook(root).dependencies() == [*asked_for, "some-headers"]
    assert _hook(root, SdistBuilder).dependencies() == []


def test_hatchling_adds_what_the_hook_asks_for_to_what_the_table_lists(tmp_path: Path) -> None:
    root = _project(tmp_path, 'toolkit = "system"\ndependencies = ["wheel-of-mine"]')
    assert WheelBuilder(str(root)).config.dependencies == ["wheel-of-mine", CORE, "cuda-bindings"]
    assert SdistBuilder(str(root)).config.dependencies == ["wheel-of-mine"]


def test_a_wrong_table_ends_dependencies_with_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert refusal(SystemExit, _hook(_project(tmp_path, 'toolkit = "nine"')).dependencies).code == 1
    assert capsys.readouterr().err.startswith("hatch-cubin: error: pyproject.toml:10: toolkit must be ")


# Where the table stands

GLOBAL = ("tool", "hatch", "build", "hooks", "cubin")
WHEEL = ("tool", "hatch", "build", "targets", "wheel", "hooks", "cubin")
SDIST = ("tool", "hatch", "build", "targets", "sdist", "hooks", "cubin")


def _tables(*tables: tuple[str, ...]) -> str:
    """Return a pyproject.toml with these tables, each with as many jobs as its place in the list."""
    head = pyproject("").partition("[tool.")[0]
    return head + "".join(f"[{'.'.join(table)}]\njobs = {jobs}\n" for jobs, table in enumerate(tables, 1))


@pytest.mark.parametrize(
    ("tables", "of_wheel", "of_sdist"),
    [
        ([GLOBAL], 1, 1),
        ([GLOBAL, WHEEL], 2, 2),
        ([WHEEL], 1, None),
        ([GLOBAL, SDIST], 1, 1),
        ([SDIST], None, 1),
        ([WHEEL, SDIST], 1, 1),
    ],
    ids=["global", "global and wheel", "wheel", "global and sdist", "sdist", "wheel and sdist"],
)
def test_the_wheels_table_is_the_one_that_counts_for_sdists_too(
    tmp_path: Path, tables: list[tuple[str, ...]], of_wheel: int | None, of_sdist: int | None
) -> None:
    text = _tables(*tables)
    for unread in {1, 2} - {of_wheel or of_sdist}:  # keys in a second table would be an error
        text = text.replace(f"jobs = {unread}\n", "")
    root = write_tree(tmp_path, {"pyproject.toml": text, **FILES})
    jobs: dict[type[Any], int | None] = {}
    for builder in (WheelBuilder, SdistBuilder):
        made: Any = builder(str(root)).get_build_hooks("").get("cubin")
        jobs[builder] = made and made._read_config().jobs
    assert jobs == {WheelBuilder: of_wheel, SdistBuilder: of_sdist}


@pytest.mark.parametrize(
    ("hatch_toml", "file", "table"),
    [
        (None, "pyproject.toml", GLOBAL),
        ("[envs.default]\n", "pyproject.toml", GLOBAL),
        ("[build.hooks.cubin]\n", "hatch.toml", GLOBAL[2:]),
        ("build = { hooks = { cubin = {} } }", "hatch.toml", GLOBAL[2:]),
    ],
    ids=["no hatch.toml", "hatch.toml for another purpose", "a table", "an inline table"],
)
def test_messages_name_the_file_that_hatchling_read(
    tmp_path: Path, hatch_toml: str | None, file: str, table: tuple[str, ...]
) -> None:
    root = _project(tmp_path)
    if hatch_toml is not None:
        write_tree(root, {"hatch.toml": hatch_toml})
    if file == "hatch.toml":
        text = (root / "pyproject.toml").read_text()
        (root / "pyproject.toml").write_text(text.partition(f"[{'.'.join(GLOBAL)}]")[0])
    place: TableLocation = _hook(root)._read_config().place
    assert (place.file, place.text, place.table) == (file, (root / file).read_text(), table)


# Which packages the wheel has


@pytest.mark.parametrize("table", ["build.targets.wheel", "build"])
def test_a_package_that_is_not_there_is_told_with_its_line(tmp_path: Path, table: str) -> None:
    more = f'[tool.hatch.{table}]\npackages = ["src/nothere"]\n'
    text = pyproject("").partition("[tool.")[0] + f"[{'.'.join(GLOBAL)}]\n{more}"
    root = write_tree(tmp_path, {"pyproject.toml": text, **FILES})
    line = text.splitlines().index('packages = ["src/nothere"]') + 1
    with pytest.raises(ConfigError) as caught:
        hatch.packages_of(root)
    assert str(caught.value) == f"pyproject.toml:{line}: packages: src/nothere does not exist in the project"


def test_a_wheel_without_packages_has_none(tmp_path: Path) -> None:
    files = {"pyproject.toml": pyproject("").partition("[tool.")[0], "demo.py": ""}
    assert hatch.packages_of(write_tree(tmp_path, files)) == {}


@pytest.mark.parametrize(
    ("folders", "selection", "packages"),
    [
        (["demo"], "", {"demo": "demo"}),
        (["src/demo", "src/demo/sub"], "", {"demo": "src/demo"}),
        (["demo", "tests"], "", {"demo": "demo"}),
        (["acme/demo"], "", {"acme.demo": "acme/demo"}),
        (["b", "a", "ab"], 'packages = ["a", "b", "ab"]', {"a": "a", "ab": "ab", "b": "b"}),
        (["acme/one", "acme/two"], 'packages = ["acme"]', {"acme.one": "acme/one", "acme.two": "acme/two"}),
        (["demo", "demo/_cubins"], "", {"demo": "demo"}),
        (["lib/x"], 'packages = ["lib/x"]\nsources = { "lib/x" = "demo" }', {"demo": "lib/x"}),
        (["."], 'include = ["*.py"]\nsources = { "" = "demo" }', {"demo": "."}),
        ([".", "demo"], 'include = ["*.py"]', {"demo": "demo"}),
        ([], "bypass-selection = true", {}),
    ],
    ids=[
        "flat",
        "src",
        "tests beside it",
        "namespace",
        "several",
        "namespace of several",
        "with a bundle",
        "renamed",
        "the project itself",
        "an __init__.py at the root",
        "none",
    ],
)
def test_packages_are_those_that_hatchling_selects(
    tmp_path: Path, folders: list[str], selection: str, packages: dict[str, str]
) -> None:
    files = {f"{folder}/__init__.py": "" for folder in folders}
    root = _project(tmp_path, more=f"[tool.hatch.build.targets.wheel]\n{selection}\n", files=files)
    assert hatch._packages(str(root), WheelBuilder(str(root)).metadata) == packages


# What is kept out

HOSTILE = [
    "a b",
    "[x]",
    "!not",
    "#no comment",
    "a*b",
    "a?b",
    "back\\slash",
    "trail ",
    "ünïcode",
    "-dash",
    "a{b}",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_keep_out_takes_names_as_they_are(tmp_path: Path, name: str) -> None:
    more = f"[tool.hatch.build.targets.wheel]\nartifacts = ['/demo/{name}/*']\n"
    hook = _hook(_project(tmp_path, more=more))
    config = hook.build_config
    assert config.include_path(os.path.join("demo", name, "file"))
    hook._exclude(f"./demo/{name}")
    assert not config.include_path(os.path.join("demo", name, "file"))
    assert config.include_path(os.path.join("demo", f"{name}x", "file"))
    assert config.include_path(os.path.join("demo", "axb"))


def test_keep_out_keeps_what_the_user_excludes_and_adds_nothing_twice(tmp_path: Path) -> None:
    more = '[tool.hatch.build]\nexclude = ["mine"]\n[tool.hatch.build.targets.wheel]\nartifacts = ["*.so"]\n'
    hook = _hook(_project(tmp_path, more=more))
    for _ in range(2):
        hook._exclude("demo/_cubins")
    assert hook.build_config.target_config == {
        "exclude": ["mine", "/demo/_cubins"],
        "artifacts": ["*.so", "!/demo/_cubins", "!/demo/_cubins/**"],
    }


def test_without_artifacts_there_is_nothing_to_undo(tmp_path: Path) -> None:
    hook = _hook(_project(tmp_path))
    hook._exclude("demo/_cubins")
    assert hook.build_config.target_config == {"exclude": ["/demo/_cubins"]}


@pytest.mark.parametrize(
    ("there", "kept_out", "patterns"),
    [
        (["a.cu", "b.cu", "c.cuh"], ["a.cu", "b.cu"], ["/demo/k/*.cu"]),
        (["a.cu", "b.cu", "c.cu"], ["a.cu", "b.cu"], ["/demo/k/a.cu", "/demo/k/b.cu"]),
        (["a.cu"], ["a.cu"], ["/demo/k/a.cu"]),
        (["a", "b"], ["a", "b"], ["/demo/k/a", "/demo/k/b"]),
        (["a.c*", "b.c*"], ["a.c*", "b.c*"], ["/demo/k/*.c\\*"]),
        ([], ["a.cu", "b.cu"], ["/demo/k/a.cu", "/demo/k/b.cu"]),
    ],
)
def test_files_of_one_suffix_share_a_pattern_where_it_means_no_other(
    tmp_path: Path, there: list[str], kept_out: list[str], patterns: list[str]
) -> None:
    write_tree(tmp_path, {f"demo/k/{name}": "" for name in there})
    assert list(hatch._patterns(str(tmp_path), [f"demo/k/{name}" for name in kept_out])) == patterns


@pytest.mark.parametrize(
    ("cache", "folders"),
    [
        ("cache", ["cache"]),
        ("./deep/../.cache/x", [".cache/x"]),
        (".", ["."]),
        ("..", []),
        ("../project-cache", []),
        ("link", ["link"]),
        ("link/../inside", ["inside"]),
    ],
)
def test_the_cache_is_found_where_it_is_inside_the_project(
    tmp_path: Path, cache: str, folders: list[str]
) -> None:
    root = tmp_path / "project"
    project = make_project(root, {}, HATCH_CUBIN_CACHE_DIR=cache)
    (tmp_path / "elsewhere").mkdir()
    (root / "link").symlink_to(tmp_path / "elsewhere")
    assert cache_folders(project) == folders


def test_a_cache_inside_a_project_that_is_reached_by_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "real")
    make_project(tmp_path / "real", {})
    cache = str(tmp_path / "real" / "cache")
    project = make_project(tmp_path / "link", {}, HATCH_CUBIN_CACHE_DIR=cache)
    assert cache_folders(project) == ["cache"]


def test_a_cache_is_kept_out_by_its_parts_so_that_its_folder_may_hold_more(tmp_path: Path) -> None:
    project = make_project(tmp_path, {}, HATCH_CUBIN_CACHE_DIR="demo")
    assert cache_entries(project) == ["demo/entries", "demo/tmp"]


# The wheel's tag

PURE: dict[str, Any] = {"infer_tag": False, "pure_python": True}


@pytest.mark.parametrize(
    ("platform", "last", "before", "after"),
    [
        ("linux", True, PURE, {**PURE, "tag": "py3-none-any"}),
        ("linux", False, PURE, PURE),
        ("win32", True, PURE, {**PURE, "pure_python": False, "tag": "py3-none-win_amd64"}),
        ("win32", False, PURE, {**PURE, "pure_python": False, "tag": "py3-none-win_amd64"}),
        ("linux", True, {**PURE, "tag": "x"}, {**PURE, "tag": "x"}),
        ("linux", True, {**PURE, "infer_tag": True}, {**PURE, "infer_tag": True}),
        ("win32", True, {**PURE, "pure_python": False}, {**PURE, "pure_python": False}),
    ],
    ids=[
        "linux",
        "linux, other hooks come later",
        "windows",
        "windows, other hooks come later",
        "a tag is there",
        "a tag will be inferred",
        "another hook compiles",
    ],
)
def test_the_tag_says_what_the_kernels_run_on(
    platform: str, *, last: bool, before: dict[str, Any], after: dict[str, Any]
) -> None:
    build_data = dict(before)
    hatch._declare_tag(build_data, platform, last=last)
    assert build_data == after


# The end


def test_what_was_staged_for_a_wheel_is_gone_when_it_is_finished(
    tmp_path: Path, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    hook = _hook(_project(tmp_path / "project"))
    build_data = {"force_include": dict[str, str](), "build_hooks": ("cubin",), **PURE}
    hook.initialize("standard", build_data)
    staged = [Path(path) for path in build_data["force_include"] if temporary in Path(path).parents]
    assert "manifest.json" in {path.name for path in staged}
    assert all(path.is_file() for path in staged)
    hook.finalize("standard", build_data, "")
    assert [*temporary.iterdir()] == []


# Targets that are none of the hook's business


def test_another_target_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_toolkit(*_arguments: object) -> None:
        raise AssertionError("nothing is built")

    monkeypatch.setattr(Toolkit, "__init__", no_toolkit)

    class OtherBuilder(WheelBuilder):
        PLUGIN_NAME = "other"

    (made,) = OtherBuilder(str(_project(tmp_path, "jobs = 0"))).get_build_hooks("").values()
    build_data = dict(PURE)
    assert made.dependencies() == []
    made.initialize("standard", build_data)
    made.finalize("standard", build_data, "")
    assert build_data == PURE


@pytest.mark.nvrtc
@pytest.mark.parametrize("place", [{"sbom_files": []}, {}], ids=["hatchling 1.28", "before"])
def test_the_bill_of_materials_goes_where_hatchling_has_a_place_for_it(
    tmp_path: Path, place: dict[str, Any]
) -> None:
    hook = _hook(_project(tmp_path, 'archs = ["sm_90"]'))
    build_data = {
        "force_include": {},
        "build_hooks": ("cubin",),
        "infer_tag": False,
        "pure_python": True,
        **place,
    }
    hook.initialize("standard", build_data)
    in_bundle = "demo/_cubins/hatch-cubin.cdx.json" in build_data["force_include"].values()
    listed = [Path(path).name for path in build_data.get("sbom_files", [])]
    assert (in_bundle, listed) == ((False, ["hatch-cubin.cdx.json"]) if place else (True, []))


@pytest.mark.parametrize("table", ["[tool.hatch.build.targets.wheel]", "[tool.hatch.build]"])
@pytest.mark.parametrize("key", ["packages", "only-include"])
def test_a_missing_folder_of_the_wheel_is_suggested_in_src(tmp_path: Path, table: str, key: str) -> None:
    text = pyproject("") + f'{table}\n{key} = ["waves", "no"]\n'
    write_tree(tmp_path, {"pyproject.toml": text, "src/waves/__init__.py": ""})
    error = refusal(ConfigError, hatch.packages_of, tmp_path)
    assert found(error) == [("package-folder-not-found", "pyproject.toml:11")] * 2
    hints = {each.what.split()[1]: each.hint for each in error.problems}
    assert hints == {"waves": 'write packages = ["src/waves"]', "no": None}


# Settings that name sources

LEFT_OUT = {**FILES, "demo/near.cuh": "#pragma once\n", "demo/saxpy.cu": '#include "near.cuh"\n' + SAXPY}
OF_WHEEL, OF_ALL = "[tool.hatch.build.targets.wheel]\n", "[tool.hatch.build]\n"


def _warnings_of_wheel(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> list[str]:
    """Return the warnings about sources during a build of a wheel, without the wheel's tables of hints."""
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    hook = _hook(root)
    build_data = {"force_include": dict[str, str](), "build_hooks": ("cubin",), **PURE}
    hook.initialize("standard", build_data)
    hook.finalize("standard", build_data, "")
    return [line for line in capsys.readouterr().err.splitlines() if "[named-file-left-out]" in line]


@pytest.mark.parametrize(
    ("settings", "key", "pattern", "named"),
    [
        (OF_WHEEL + 'artifacts = ["demo/*.cu"]', "artifacts", "demo/*.cu", "demo/saxpy.cu"),
        (OF_WHEEL + 'artifacts = ["*.cu*"]', "artifacts", "*.cu*", "demo/near.cuh and 1 more"),
        (OF_WHEEL + 'include = ["demo/*.py", "demo/near.cuh"]', "include", "demo/near.cuh", "demo/near.cuh"),
        (OF_ALL + 'artifacts = ["/demo/**/*.cu"]', "artifacts", "/demo/**/*.cu", "demo/saxpy.cu"),
    ],
    ids=["artifacts", "several files", "include", "artifacts of all targets"],
)
def test_a_setting_of_wheels_that_names_a_left_out_file_is_reported_with_its_line(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    *,
    settings: str,
    key: str,
    pattern: str,
    named: str,
) -> None:
    root = _project(tmp_path, more=settings, files=LEFT_OUT)
    line = 1 + (root / "pyproject.toml").read_text().splitlines().index(settings.splitlines()[1])
    (warning,) = _warnings_of_wheel(root, capsys, monkeypatch)
    assert warning.startswith(
        f"hatch-cubin: warning: pyproject.toml:{line}: {key}: {pattern!r} matches {named}, "
    )


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ("", ""),
        ("", OF_WHEEL + 'artifacts = ["demo/*", "*.*", "*.so"]'),
        ("", OF_WHEEL + 'include = ["demo/**", "demo"]'),
        ("", OF_WHEEL + 'artifacts = ["!demo/*.cu", "other/*.cu"]'),
        ("", OF_ALL + 'include = ["demo/*.py", "demo/*.cu*"]'),
        ("", OF_ALL + 'artifacts = ["*.cu"]\n' + OF_WHEEL + "artifacts = []"),
        ("ship-sources = true", OF_WHEEL + 'artifacts = ["demo/*.cu"]'),
    ],
    ids=["none", "a folder", "a folder to include", "other files", "sdists", "replaced", "ship-sources"],
)
def test_a_setting_that_does_not_name_a_left_out_file_is_not_reported(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    options: str,
    settings: str,
) -> None:
    root = _project(tmp_path, options, settings, LEFT_OUT)
    assert _warnings_of_wheel(root, capsys, monkeypatch) == []


@pytest.mark.parametrize(
    ("version", "installed", "options", "arguments", "named"),
    [
        ("editable", False, "", [], True),
        ("editable", True, "", [], False),
        ("editable", False, '[tool.hatch.build]\ndev-mode-dirs = ["."]\n', [], False),
        ("editable", False, "", ["--hooks-only"], False),
        ("standard", False, "", [], False),
    ],
    ids=["missing", "installed", "folders on the path", "only the hooks", "a wheel"],
)
def test_an_editable_install_without_a_compiler_also_asks_for_editables(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    version: str,
    installed: bool,
    options: str,
    arguments: list[str],
    named: bool,
) -> None:
    for module in ("cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setattr(sys, "argv", ["hatchling", *arguments])
    editables = ModuleType("editables")
    editables.__spec__ = ModuleSpec("editables", None)
    monkeypatch.setitem(sys.modules, "editables", editables if installed else None)
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    root = _project(tmp_path / "project", 'toolkit = "13.0"', options)
    with pytest.raises(SystemExit):
        _hook(root).initialize(version, {})
    told = capsys.readouterr().err
    assert "[cuda-core-not-importable]" in told
    assert ("pip install editables" in told) is named


def test_an_error_that_no_package_cures_does_not_ask_for_editables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "editables", None)
    root = _project(tmp_path, 'toolkit = "13.0"', files={"demo/__init__.py": "", "demo/none.cu": "\0"})
    with pytest.raises(SystemExit):
        _hook(root).initialize("editable", {})
    assert "editables" not in capsys.readouterr().err
