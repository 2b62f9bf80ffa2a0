"""A project as the command line opens it: what its own build would see."""

from __future__ import annotations

import io
import os
import sys
import sysconfig
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.common import ed25519_keys
from hatch_cubin.errors import ConfigError, Location, Problem, ToolchainError, problem
from hatch_cubin.frontends import open_project as door
from hatch_cubin.project.project import Project
from tests.helpers import SAXPY, Coded, found, install_wheel, pyproject, refusal, write_tree

pytestmark = pytest.mark.counted

WRAPPED = (
    '[build-system]\nbuild-backend = "hatch_cubin.backend"\n'
    '[tool.hatch-cubin]\nbackend = "flit_core.buildapi"\n'
)
FLIT = '[build-system]\nbuild-backend = "flit_core.buildapi"\n[tool.hatch-cubin]\n'


def _opened(root: Path, **environ: str) -> Project:
    return door.open_project(str(root), environ, io.StringIO(), verbose=True)


def test_hatchling_says_which_packages_its_wheel_has(tmp_path: Path) -> None:
    text = pyproject("jobs = 3\n") + '[tool.hatch.build.targets.wheel]\npackages = ["lib/demo"]\n'
    root = write_tree(tmp_path, {"pyproject.toml": text, "lib/demo/__init__.py": "", "other/__init__.py": ""})
    project = _opened(root, HATCH_CUBIN_ARCHS="sm_90")
    assert (project.root, project.packages, project.verbose) == (root, {"demo": "lib/demo"}, True)
    assert (project.config.jobs, project.config.archs) == (3, ("sm_90",))


def test_a_project_is_the_same_by_another_way_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"pyproject.toml": pyproject(""), "src/demo/__init__.py": "", "dist/x": ""})
    monkeypatch.chdir(tmp_path / "dist")
    project = _opened(Path(".."))
    assert (project.root, project.packages) == (tmp_path, {"demo": "src/demo"})


def test_setuptools_says_which_packages_a_project_without_a_build_backend_has(tmp_path: Path) -> None:
    text = (
        '[project]\nname = "demo"\nversion = "1.0"\n'
        '[tool.hatch-cubin]\n[tool.setuptools.packages.find]\nwhere = ["lib"]\n'
    )
    files = ["lib/demo/__init__.py", "src/other/__init__.py"]
    write_tree(tmp_path, {"pyproject.toml": text, **dict.fromkeys(files, "")})
    assert _opened(tmp_path).packages == {"demo": "lib/demo"}


@pytest.mark.parametrize(
    ("files", "packages"),
    [
        (["demo/__init__.py", "demo/k.cu", "tools/run.py"], {"demo": "demo"}),
        (["src/b/__init__.py", "src/a/__init__.py", "tests/__init__.py"], {"a": "src/a", "b": "src/b"}),
        (["_cubins/__init__.py", "demo/__init__.py", "tests/__init__.py"], {"demo": "demo"}),
        (["python/b/__init__.py", "python/a/__init__.py", "src/lib.rs"], {"a": "python/a", "b": "python/b"}),
        (["python/demo/__init__.py", ".venv/x/__init__.py", "tests/x/__init__.py"], {"demo": "python/demo"}),
        (["python/demo/__init__.py", "code/demo/__init__.py"], {}),
        (["python/demo/__init__.py", "demo/__init__.py"], {"demo": "demo"}),
        (["python/demo/__init__.py", "code/acme/gpu/__init__.py"], {}),
        (["python/acme/demo/__init__.py"], {}),
    ],
)
def test_for_another_backend_packages_are_in_src_in_the_project_or_in_its_only_folder_that_has_any(
    tmp_path: Path, files: list[str], packages: dict[str, str]
) -> None:
    write_tree(tmp_path, {"pyproject.toml": FLIT, **dict.fromkeys(files, "")})
    assert _opened(tmp_path).packages == packages


def test_c_sources_in_src_are_no_packages(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pyproject.toml": FLIT, "src/native.c": "", "demo/__init__.py": ""})
    assert _opened(tmp_path).packages == {"demo": "demo"}


@pytest.mark.parametrize(
    ("options", "packages"),
    [
        ('package-dir = "python/demo"\n', {"demo": "python/demo"}),
        ('package-dir = "lib"\npackage = "demo.gpu"\n', {"demo.gpu": "lib"}),
    ],
)
def test_the_table_of_a_wrapped_backend_can_name_the_packages_folder(
    tmp_path: Path, options: str, packages: dict[str, str]
) -> None:
    write_tree(tmp_path, {"pyproject.toml": WRAPPED + options})
    (tmp_path / "python/demo").mkdir(parents=True)
    (tmp_path / "lib").mkdir()
    assert _opened(tmp_path).packages == packages


def test_a_folder_that_is_none_of_the_project_is_told(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "project", {"pyproject.toml": f'{WRAPPED}package-dir = "lib"\n'})
    place = [("package-folder-not-found", "pyproject.toml:5")]
    error = refusal(ConfigError, _opened, root)
    assert found(error) == place
    assert error.problems[0].what == "package-dir: 'lib' is not a folder of the project"
    (root / "lib").symlink_to(tmp_path)
    assert found(refusal(ConfigError, _opened, root)) == place


def test_the_packages_of_a_wrapped_backend_are_those_that_it_tells(tmp_path: Path) -> None:
    text = (
        WRAPPED.replace("flit_core.buildapi", "setuptools.build_meta")
        + '[project]\nname = "demo"\nversion = "1.0"\n[tool.setuptools.packages.find]\nwhere = ["lib"]\n'
    )
    write_tree(tmp_path, {"pyproject.toml": text, "lib/demo/__init__.py": "", "src/other/__init__.py": ""})
    assert _opened(tmp_path).packages == {"demo": "lib/demo"}


# What a build of the project's own would end with


ASKS = '[build-system]\nrequires = ["{0}", "hatch-cubin"]\nbuild-backend = "{1}"\n[tool.hatch-cubin]\n'
NOT_REQUIRED, MISSPELLED = "hatch-cubin-not-required", "misspelled-requirement"
BOTH = '[tool.hatch.build.targets.wheel]\npackages = ["src/a", "src/b"]\n'


@pytest.mark.parametrize("backend", ["setuptools.build_meta", "hatchling.build"])
@pytest.mark.parametrize("is_required", [True, False])
def test_a_missing_backend_and_a_missing_requirement_are_reported_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, *, is_required: bool
) -> None:
    name = backend.partition(".")[0]
    monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, "hatch_cubin.frontends.hatch", None)  # it imports hatchling
    monkeypatch.delattr("hatch_cubin.frontends.hatch", raising=False)
    text = pyproject("", requires=f'"{name}"' + ', "hatch-cubin"' * is_required)
    text = text.replace("hatchling.build", backend)
    if name == "setuptools":
        text = text.replace("[tool.hatch.build.hooks.cubin]", "[tool.hatch-cubin]")
    error = refusal(ConfigError, _opened, write_tree(tmp_path, {"pyproject.toml": text}))
    required = [] if is_required else ["hatch-cubin-not-required"]
    assert [each.code for each in error.problems] == [*required, "backend-not-installed"]


@pytest.mark.parametrize(
    ("listed", "codes"),
    [
        ('"hatch-cubin"', ["hatch-cubin-not-required"]),
        ('"hatch-cubin", "cuda_core>=1.2", "cuda-toolkit[nvrtc]==13.*"', []),
    ],
)
def test_hatchs_dependencies_are_enough_if_they_name_the_compiler_too(
    tmp_path: Path, listed: str, codes: list[str]
) -> None:
    text = pyproject(f"dependencies = [{listed}]\n", requires='"hatchling"')
    project = _opened(write_tree(tmp_path, {"pyproject.toml": text, "demo/__init__.py": ""}))
    assert [each.code for each in door.build_warnings(project)] == codes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            pyproject("", requires='"hatchling"') + BOTH,
            [
                Coded(NOT_REQUIRED, "pyproject.toml:2", 'requires = ["hatchling", "hatch-cubin"]'),
                Coded("package-not-chosen", "pyproject.toml:9", "'a', 'b'", 'package = "a"'),
            ],
        ),
        (
            pyproject('package = "a"', requires='"hatchling", "HatchCubin>=0.1"') + f"\n{BOTH}",
            [
                problem(
                    MISSPELLED,
                    "[build-system] requires 'HatchCubin>=0.1', a misspelling of hatch-cubin",
                    Location("pyproject.toml", 2),
                    'requires = ["hatchling", "hatch-cubin>=0.1"]',
                )
            ],
        ),
        (
            pyproject('package = "a"', requires='"hatch-cubins", "hatchling", "hatch-cubin"') + f"\n{BOTH}",
            [
                Coded(
                    MISSPELLED,
                    "pyproject.toml:2",
                    "'hatch-cubins'",
                    'requires = ["hatch-cubin", "hatchling"]',
                )
            ],
        ),
        (
            '[project]\nname = "demo"\nversion = "1.0"\n[tool.hatch-cubin]\npackage = "a"\n',
            [Coded(NOT_REQUIRED, "pyproject.toml", 'requires = ["setuptools", "hatch-cubin"]')],
        ),
        (
            pyproject('package = "a"\n', requires="*").replace("[*]", '"hatchling>=1.2, pip"') + BOTH,
            [Coded(NOT_REQUIRED, "pyproject.toml:2", 'requires = ["hatchling>=1.2", "pip", "hatch-cubin"]')],
        ),
        (
            '[project]\nname = "demo"\nversion = "1.0"\n[tool.pdm]\n[tool.hatch-cubin]\npackage = "a"\n',
            [Coded("build-system-missing", "pyproject.toml", "[tool.pdm]", 'requires = ["pdm-backend"]')],
        ),
        (
            f'{WRAPPED}package = "c"\n',
            [
                Coded(NOT_REQUIRED, "pyproject.toml:1", 'requires = ["setuptools", "hatch-cubin"]'),
                Coded("package-not-in-wheel", "pyproject.toml:5", "'c'", "'a', 'b'"),
            ],
        ),
    ],
    ids=[
        "hatchling",
        "a misspelled name",
        "one beside ours",
        "setuptools",
        "one text",
        "another backend's table",
        "wrapped",
    ],
)
def test_what_a_build_would_find_wrong_is_found_without_one(
    tmp_path: Path, text: str, expected: list[Problem | Coded]
) -> None:
    write_tree(tmp_path, {"pyproject.toml": text, "src/a/__init__.py": "", "src/b/__init__.py": ""})
    assert [*refusal(ConfigError, door.check_build, _opened(tmp_path)).problems] == expected


@pytest.mark.parametrize(
    "text",
    [
        pyproject('package = "a"\n') + BOTH,
        FLIT,  # 'bundle --into' says which one
        ASKS.format("flit_core", "hatch_cubin.backend")
        + 'backend = "flit_core.buildapi"\n',  # the wheel does
    ],
    ids=["hatchling", "another", "wrapped"],
)
def test_what_is_right_or_cannot_be_known_is_no_error(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": text, "src/a/__init__.py": "", "src/b/__init__.py": ""})
    door.check_build(_opened(tmp_path))


@pytest.mark.parametrize(
    ("allowed", "lowest"),
    [
        (">=3.8", "3.8"),
        ("~=3.9", "3.9"),
        (">3.7,<4", "3.7"),
        (">=3.9,>=3.11", None),
        (">=3.10", None),
        (">= 3.12, <3.14", None),
        ("", None),
    ],
)
def test_a_python_that_is_too_old_for_the_loader_is_warned_of(
    tmp_path: Path, allowed: str, lowest: str | None
) -> None:
    project = f'[project]\nrequires-python = "{allowed}"\n'
    text = (pyproject('package = "a"\n') + BOTH).replace("[project]\n", project)
    write_tree(tmp_path, {"pyproject.toml": text, "src/a/__init__.py": "", "src/a/k.cu": ""})
    said: list[str] = []
    door.check_build(replace(_opened(tmp_path), warn=said.append))
    what = f"pyproject.toml:6: requires-python allows Python {lowest}, but the loader needs Python 3.10"
    hint = f'  hint: requires-python = ">=3.10{allowed[allowed.find(",") :] if "," in allowed else ""}"'
    assert said == ([] if lowest is None else [f"{what} [python-too-old]\n{hint}"])


@pytest.mark.parametrize(
    ("written", "project", "expected"),
    [
        ("python_requires = >=3.8", "", ["setup.cfg"]),
        ("python_requires =\n    >=3.8,<4", "", ["setup.cfg"]),
        ("python_requires = >=3.10", "", []),
        (
            "python_requires = >=3.8",
            '[project]\nname = "demo"\nversion = "1"\nrequires-python = ">=3.10"\n',
            [],
        ),
    ],
)
def test_a_python_in_setup_cfg_that_is_too_old_is_warned_of_if_setuptools_reads_it(
    tmp_path: Path, written: str, project: str, expected: list[str]
) -> None:
    text = ASKS.format("setuptools", "setuptools.build_meta") + 'package = "a"\n' + project
    files = {"pyproject.toml": text, "src/a/__init__.py": "", "src/a/k.cu": ""}
    write_tree(tmp_path, {**files, "setup.cfg": f"[metadata]\nname = demo\n[options]\n{written}\n"})
    told = [each for each in door.build_warnings(_opened(tmp_path)) if each.code == "python-too-old"]
    assert [str(each.where) for each in told] == expected
    assert [str(each.hint).partition(",")[0] for each in told] == ["python_requires = >=3.10"] * len(expected)


@pytest.mark.parametrize("section", ["hatch-cubin", "tool:hatch-cubin", "tool.hatch_cubin", "cubin"])
def test_settings_in_setup_cfg_are_warned_of(tmp_path: Path, section: str) -> None:
    files = {"pyproject.toml": pyproject('package = "a"\n') + BOTH, "src/a/__init__.py": "", "src/a/k.cu": ""}
    write_tree(tmp_path, {**files, "setup.cfg": f"[metadata]\n[{section}]\narchs = sm_90\n"})
    said: list[str] = []
    door.check_build(replace(_opened(tmp_path), warn=said.append))
    what = "setup.cfg: contains settings of hatch-cubin, but builds do not read settings from this file"
    hint = "  hint: move the settings to [tool.hatch.build.hooks.cubin] in pyproject.toml"
    assert said == [f"{what} [table-in-wrong-place]\n{hint}"]
    write_tree(tmp_path, {"setup.cfg": "[metadata]\n"})
    door.check_build(replace(_opened(tmp_path), warn=said.append))
    assert len(said) == 1


# A project whose package only its bundle knows


@pytest.mark.parametrize(
    ("bundles", "package"),
    [
        (["src/b/_cubins"], "b"),
        (["lib/x/y/_cubins"], "x.y"),
        (["src/b/_cubins", "src/nothing/_cubins", "../other/_cubins"], "b"),
        (["src/a/_cubins", "src/b/_cubins"], None),
        ([], None),
    ],
)
def test_a_bundle_says_which_package_it_is_of(
    tmp_path: Path, bundles: list[str], package: str | None
) -> None:
    files = ["src/a/__init__.py", "src/b/__init__.py", "lib/x/__init__.py", "lib/x/y/__init__.py"]
    root = write_tree(tmp_path / "project", {"pyproject.toml": FLIT, **dict.fromkeys(files, "")})
    write_tree(tmp_path, {"other/__init__.py": ""})
    assert door.with_package_of_bundle(_opened(root), bundles).config.package == package


def test_it_does_not_where_the_table_or_the_backend_does(tmp_path: Path) -> None:
    files = {"a/__init__.py": "", "b/__init__.py": ""}
    for text in (f'{FLIT}package = "a"\n', pyproject("") + BOTH.replace("src/", "")):
        project = _opened(write_tree(tmp_path, {"pyproject.toml": text, **files}))
        assert door.with_package_of_bundle(project, ["b/_cubins"]) is project


def test_without_hatchling_its_projects_cannot_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": pyproject(""), "demo/__init__.py": ""})
    monkeypatch.delitem(sys.modules, "hatch_cubin.frontends.hatch", raising=False)
    monkeypatch.delattr("hatch_cubin.frontends.hatch", raising=False)
    monkeypatch.setitem(sys.modules, "hatchling", None)
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", None)
    assert str(refusal(ConfigError, _opened, root)) == (
        "pyproject.toml:9: this project's build backend, hatchling, is not installed here\n"
        "  hint: pip install hatchling"
    )


def test_a_wrong_table_is_found_before_hatchling_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": pyproject("jobs = 0")})
    monkeypatch.setattr(door, "packages", None)
    with pytest.raises(ConfigError, match=r"^pyproject.toml:10: jobs must be"):
        _opened(root)


# The compiler


WHEELS = {
    "cuda-core": "1.2.2",
    "cuda-bindings": "13.5.0",
    "cuda-toolkit": "13.0.2",
    "nvidia-cuda-nvrtc": "13.0.88",
    "nvidia-nvjitlink": "13.0.88",
}
COMMAND = (
    "pip install --upgrade "
    "'cuda-core>=1.2,<2' 'cuda-bindings==13.*' 'cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*'"
)


def _refused(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    wheels: Mapping[str, str],
    table: str = 'toolkit = "13.0"',
    **environ: str,
) -> Problem | None:
    """Return what is wrong where *wheels* are installed, by their names with their versions."""
    for name, version in wheels.items():
        install_wheel(root / "site", name, {}, version)
    monkeypatch.setattr(sys, "path", [str(root / "site"), *map(sysconfig.get_path, ("stdlib", "platstdlib"))])
    files = {"pyproject.toml": f"{FLIT}{table}\n", "demo/__init__.py": "", "demo/k.cu": SAXPY}
    try:
        door.require_compiler(_opened(write_tree(root, files), **environ))
    except ToolchainError as exc:
        (problem,) = exc.problems
        return problem
    return None


def _without(*names: str, **others: str) -> dict[str, str]:
    changed = {name.replace("_", "-"): version for name, version in others.items()}
    return {name: version for name, version in {**WHEELS, **changed}.items() if name not in names}


@pytest.mark.parametrize(
    ("wheels", "missing", "here"),
    [
        (
            _without("cuda-toolkit"),
            "cuda-toolkit 13.0.*",
            "nvidia-cuda-nvrtc 13.0.88, nvidia-nvjitlink 13.0.88, cuda-bindings 13.5.0, cuda-core 1.2.2",
        ),
        (
            _without("cuda-toolkit", nvidia_cuda_nvrtc="13.4.92"),
            "cuda-toolkit 13.0.*, nvidia-cuda-nvrtc 13.0.* (13.4.92 is installed)",
            "nvidia-cuda-nvrtc 13.4.92, nvidia-nvjitlink 13.0.88, cuda-bindings 13.5.0, cuda-core 1.2.2",
        ),
        (
            _without("nvidia-nvjitlink", cuda_bindings="12.9.10"),
            "cuda-bindings 13.* (12.9.10 is installed)",
            "cuda-toolkit 13.0.2, nvidia-cuda-nvrtc 13.0.88, cuda-bindings 12.9.10, cuda-core 1.2.2",
        ),
        (
            _without(cuda_core="0.4.2"),
            "cuda-core >=1.2,<2 (0.4.2 is installed)",
            "cuda-toolkit 13.0.2, nvidia-cuda-nvrtc 13.0.88, nvidia-nvjitlink 13.0.88, "  # noqa: ISC004
            "cuda-bindings 13.5.0, cuda-core 0.4.2",
        ),
        (
            {},
            ("cuda-core >=1.2,<2, cuda-bindings 13.*, cuda-toolkit 13.0.*, nvidia-cuda-nvrtc 13.0.*"),
            "",
        ),
    ],
    ids=["no metapackage", "another nvrtc", "other bindings and no linker", "an old cuda-core", "nothing"],
)
def test_what_is_missing_is_named_with_what_is_there_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheels: dict[str, str], missing: str, here: str
) -> None:
    detail = f"these packages of the compiler are installed here: {here}"
    assert _refused(tmp_path, monkeypatch, wheels) == Problem(
        f"a build with CUDA 13.0 needs packages that are not installed here: {missing}",
        Location("pyproject.toml", 4),
        COMMAND,
        (detail if here else "no package of the compiler is installed here",),
        "requirement-not-installed",
    )


def test_a_release_that_a_variable_asks_for_is_told_with_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = _refused(tmp_path, monkeypatch, WHEELS, HATCH_CUBIN_TOOLKIT="12")
    assert missing == Coded("requirement-not-installed", "", "HATCH_CUBIN_TOOLKIT=12: a build with CUDA 12 ")


def test_headers_that_are_not_installed_are_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = 'toolkit = "13.0"\nheader-packages = ["some-headers==4.*"]'
    missing = _refused(tmp_path, monkeypatch, WHEELS, table)
    values = (f"{COMMAND} 'some-headers==4.*'", "'header-packages' ", " some-headers 4.*")
    assert missing == Coded("requirement-not-installed", "pyproject.toml:5", *values)


def test_what_checks_signatures_is_no_compiler_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = ed25519_keys.write(ed25519_keys.PUBLIC, bytes(range(32)))
    missing = _refused(tmp_path, monkeypatch, WHEELS, f'toolkit = "13.0"\ntrusted-keys = ["{key}"]')
    values = ("pip install 'cryptography>=42'", "signing ", " cryptography >=42")
    assert missing == Coded("requirement-not-installed", "pyproject.toml:5", *values)


def test_the_variable_with_the_key_is_named_where_no_table_asks_for_signatures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = _refused(tmp_path, monkeypatch, WHEELS, HATCH_CUBIN_SIGNING_KEY="@key")
    values = ("HATCH_CUBIN_SIGNING_KEY: signing ", " cryptography >=42")
    assert missing == Coded("requirement-not-installed", "", *values)


def test_neither_is_what_speaks_to_a_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = _refused(tmp_path, monkeypatch, WHEELS, HATCH_CUBIN_EXECUTOR="dask://head:8786")
    values = ("pip install 'distributed>=2025.4'", "HATCH_CUBIN_EXECUTOR ", " distributed >=2025.4")
    assert missing == Coded("requirement-not-installed", "", *values)


@pytest.mark.parametrize("place", ["pyproject.toml:5", ""])
def test_what_speaks_to_a_bucket_is_installed_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    table = 'toolkit = "13.0"\nremote-cache = "s3://bucket/x"' if place else 'toolkit = "13.0"'
    variables = {} if place else {"HATCH_CUBIN_REMOTE": "s3://bucket/x"}
    missing = _refused(tmp_path, monkeypatch, WHEELS, table, **variables)
    needs = "'remote-cache' needs" if place else "HATCH_CUBIN_REMOTE needs"
    values = ("pip install 'obstore>=0.11,<1'", needs)
    assert missing == Coded("requirement-not-installed", place, *values)


def test_a_compiler_that_is_installed_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _refused(tmp_path, monkeypatch, WHEELS) is None


def test_a_table_that_leaves_the_choice_gets_parts_that_go_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = _refused(tmp_path, monkeypatch, _without("cuda-core"), "")
    values = ("a build ", " cuda-core >=1.2,<2", COMMAND.replace("13.0.*", "13.*"))
    assert missing == Coded("requirement-not-installed", "pyproject.toml:3", *values)


@pytest.mark.nvrtc
def test_the_compiler_of_this_environment_does_where_the_table_names_none(tmp_path: Path) -> None:
    files = {"pyproject.toml": FLIT, "demo/__init__.py": ""}
    door.require_compiler(_opened(write_tree(tmp_path, files), **os.environ))


def test_a_project_that_hatchling_cannot_build_is_an_error_in_its_words(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"pyproject.toml": pyproject("").replace('name = "demo"', "")})
    with pytest.raises(ConfigError, match=r"^hatchling cannot build this project: .*`project.name`"):
        _opened(root)
