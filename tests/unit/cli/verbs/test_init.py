"""`hatch-cubin init`: what it writes for which project, and that it writes it once."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.cli.verbs import init
from hatch_cubin.common import arch_names
from hatch_cubin.config import table_location, toml_positions
from hatch_cubin.config.config import parse_config
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.command_line import Command
from tests.helpers import Coded, write_tree

HATCH = """\
# A project.
[build-system]
requires = ["hatchling"]  # and nothing else
build-backend = "hatchling.build"

[project]
name = "demo"
version = "1.0"
"""
REQUIRING = HATCH.replace('["hatchling"]', '["hatchling", "hatch-cubin"]')
INSIDE = "the build backend that makes everything in the wheel except the kernels"
SETTINGS = """\
# every major GPU generation of CUDA 13, and PTX for future GPUs; fewer archs make a smaller wheel
archs = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120"]
# PTX needs a driver at least as new as the toolkit: all drivers for CUDA 13 can run PTX of CUDA 13.0
toolkit = "13.0"
"""
KERNELS = """\
  { file = "src/demo/**/*.cu" },
  { file = "src/demo/**/*.cuh" },
  { file = "src/demo/**/*.h" },
  { file = "src/demo/**/*.ptx" },
  { file = "src/demo/**/*.tileir" },
  { dir = "src/demo/_cubins" },
]
"""
UV = f"""
[tool.uv]
cache-keys = [
  {{ file = "pyproject.toml" }},
  {{ dir = "src" }},
{KERNELS}"""
PACKAGE = {"src/demo/__init__.py": ""}


def add(root: Path, files: dict[str, str], *options: str) -> dict[str, str]:
    """Return the files that `init` has written or left, by name."""
    write_tree(root, {**PACKAGE, **files})
    assert main(["init", "--project", str(root), *options]) == 0
    return {path.name: path.read_bytes().decode() for path in root.iterdir() if path.is_file()}


def refusal(root: Path, command: Command) -> str:
    before = {path: path.read_bytes() for path in root.iterdir() if path.is_file()}
    ended = command("init", "--project", root)
    assert ended.code == 1
    assert {path: path.read_bytes() for path in root.iterdir() if path.is_file()} == before
    return ended.err


def test_a_hatch_project_gets_the_hook_its_requirement_and_what_uv_looks_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = add(tmp_path, {"pyproject.toml": HATCH, ".gitignore": "dist/"})
    assert files == {
        "pyproject.toml": f"{REQUIRING}\n[tool.hatch.build.hooks.cubin]\n{SETTINGS}{UV}",
        ".gitignore": "dist/\n_cubins/\n",
    }
    assert capsys.readouterr().out == (
        "pyproject.toml: [build-system] requires\n"
        "pyproject.toml: [tool.hatch.build.hooks.cubin] archs, toolkit\n"
        "pyproject.toml: [tool.uv] cache-keys\n"
        ".gitignore: _cubins/\n"
        "next:\n"
        "  pip install -e .  (or: uv sync)\n"
        "  pip wheel --no-deps .  (or: uv build --wheel, pipx run hatch build -t wheel)\n"
    )


def test_a_second_run_changes_nothing_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = add(tmp_path, {"pyproject.toml": HATCH})
    times = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    capsys.readouterr()
    assert add(tmp_path, {}) == files
    assert capsys.readouterr().out.splitlines()[0] == "nothing to change"
    assert {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == times


def test_what_was_done_is_told_to_programs_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    add(tmp_path, {"pyproject.toml": HATCH, ".gitignore": "_cubins\n"}, "--json")
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "verb": "init",
        "errors": [],
        "project": str(tmp_path),
        "changes": [
            {"file": "pyproject.toml", "what": "[build-system] requires"},
            {"file": "pyproject.toml", "what": "[tool.hatch.build.hooks.cubin] archs, toolkit"},
            {"file": "pyproject.toml", "what": "[tool.uv] cache-keys"},
        ],
        "next": ["pip install -e .", "pip wheel --no-deps ."],
    }


def test_where_hatch_toml_has_the_build_settings_the_table_goes_there(tmp_path: Path) -> None:
    own = "[build.targets.wheel]\npackages = ['src/demo']\n"
    files = add(tmp_path, {"pyproject.toml": HATCH, "hatch.toml": own})
    assert files["hatch.toml"] == f"{own}\n[build.hooks.cubin]\n{SETTINGS}"
    assert "hooks.cubin" not in files["pyproject.toml"]
    assert '  { file = "pyproject.toml" },\n  { file = "hatch.toml" },\n' in files["pyproject.toml"]


def test_where_hatch_toml_has_other_settings_the_table_stays_with_the_rest(tmp_path: Path) -> None:
    files = add(tmp_path, {"pyproject.toml": HATCH, "hatch.toml": "[envs.a]\n"})
    assert files["hatch.toml"] == "[envs.a]\n"
    assert "[tool.hatch.build.hooks.cubin]" in files["pyproject.toml"]


@pytest.mark.parametrize(
    "table",
    [
        "[tool.hatch.build.hooks.cubin]\n",
        "[tool.hatch.build.targets.wheel.hooks.cubin]\narchs = ['sm_90']\n",
    ],
)
def test_a_table_that_is_there_is_not_touched(tmp_path: Path, table: str) -> None:
    files = add(tmp_path, {"pyproject.toml": f"{HATCH}\n{table}"})
    assert files["pyproject.toml"] == f"{REQUIRING}\n{table}{UV}"


def test_a_requirement_that_is_there_is_not_added(tmp_path: Path) -> None:
    text = HATCH.replace('"hatchling"]', '"hatchling", "Hatch_Cubin >= 0.1"]')
    assert add(tmp_path, {"pyproject.toml": text})["pyproject.toml"].startswith(text)


def test_a_setuptools_project_gets_a_table_of_ours(tmp_path: Path) -> None:
    files = add(tmp_path, {"pyproject.toml": '[project]\nname = "demo"\nversion = "1.0"\n', "setup.py": ""})
    assert files["pyproject.toml"] == (
        '[project]\nname = "demo"\nversion = "1.0"\n\n'
        '[build-system]\nrequires = ["setuptools", "hatch-cubin"]\n\n'
        f"[tool.hatch-cubin]\n{SETTINGS}"
        + UV.replace('  { dir = "src" },', '  { file = "setup.py" },\n  { dir = "src" },')
    )


FLIT = '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"\n'


def test_around_another_backend_hatch_cubin_becomes_the_build_backend(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = add(tmp_path, {"pyproject.toml": FLIT})
    assert files["pyproject.toml"] == (
        '[build-system]\nrequires = ["flit_core", "hatch-cubin"]\nbuild-backend = "hatch_cubin.backend"\n\n'
        "[tool.hatch-cubin]\n# the build backend that makes everything in the wheel except the kernels\n"
        f'backend = "flit_core.buildapi"\n{SETTINGS}{UV}'
    )
    config = parse_config(*table_location.find_table(tmp_path)[:2], {})
    assert (config.backend, config.backend_path) == ("flit_core.buildapi", ())
    assert capsys.readouterr().out == (
        "pyproject.toml: [build-system] requires\n"
        'pyproject.toml: [build-system] build-backend = "hatch_cubin.backend"\n'
        "pyproject.toml: [tool.hatch-cubin] backend, archs, toolkit\n"
        "pyproject.toml: [tool.uv] cache-keys\n"
        ".gitignore: _cubins/\n"
        "'flit build' does not run hatch-cubin, so its wheels have no kernels: "
        "build with pip, uv or 'python -m build'\n"
        "next:\n  pip install -e .  (or: uv sync)\n"
        "  pip wheel --no-deps .  (or: uv build --wheel, pipx run hatch build -t wheel)\n"
    )
    assert add(tmp_path, {}) == files  # a second time there is nothing to do


def test_a_backend_of_the_projects_own_keeps_its_folder(tmp_path: Path) -> None:
    text = (
        '[build-system]\nrequires = ["x"]\nbackend-path = [".", "tools"]  # here\n'
        'build-backend = "_build:x"\n'
    )
    files = add(tmp_path, {"pyproject.toml": text})
    assert files["pyproject.toml"].startswith(
        '[build-system]\nrequires = ["x", "hatch-cubin"]\nbuild-backend = "hatch_cubin.backend"\n\n'
    )
    config = parse_config(*table_location.find_table(tmp_path)[:2], {})
    assert (config.backend, config.backend_path) == ("_build:x", (".", "tools"))


def test_who_has_a_table_beside_another_backend_makes_the_bundle_as_before(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = f"{FLIT}\n[tool.hatch-cubin]\n"
    assert add(tmp_path, {"pyproject.toml": text}) == {"pyproject.toml": text, ".gitignore": "_cubins/\n"}
    assert capsys.readouterr().out.endswith(
        "next:\n  hatch-cubin bundle --into src/demo\n"
        "  pip wheel --no-deps .  (or: uv build --wheel, pipx run hatch build -t wheel)\n"
    )


def test_keys_that_uv_knows_get_company(tmp_path: Path) -> None:
    text = "\n[tool.uv]\ncache-keys = [\n  { git = true },\n]\n"
    files = add(tmp_path, {"pyproject.toml": HATCH + text})
    assert f"\n[tool.uv]\ncache-keys = [\n  {{ git = true }},\n{KERNELS}" in files["pyproject.toml"]


def test_without_hatchling_packages_are_looked_for_where_they_usually_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "hatch_cubin.frontends.hatch", raising=False)
    monkeypatch.delattr("hatch_cubin.frontends.hatch", raising=False)
    monkeypatch.setitem(sys.modules, "hatchling.builders.hooks.plugin.interface", None)
    assert UV in add(tmp_path, {"pyproject.toml": HATCH})["pyproject.toml"]


def test_where_hatchling_cannot_build_yet_the_tables_are_added_all_the_same(tmp_path: Path) -> None:
    (system, _project) = HATCH.split("[project]")
    write_tree(tmp_path, {"pyproject.toml": system})
    assert main(["init", "--project", str(tmp_path)]) == 0
    assert UV.removesuffix(KERNELS).replace('  { dir = "src" },\n', "") + "]\n" in (
        tmp_path / "pyproject.toml"
    ).read_text("utf-8")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "_cubins/\n"),
        ("a\r\nb", "a\r\nb\r\n_cubins/\r\n"),
        ("/_cubins\n", "/_cubins\n"),
        ("**/_cubins/", "**/_cubins/"),
        ("src/demo/_cubins/\n", "src/demo/_cubins/\n"),
        ("# _cubins/\n", "# _cubins/\n_cubins/\n"),
    ],
)
def test_built_kernels_are_ignored_once(tmp_path: Path, before: str | None, after: str) -> None:
    files = {} if before is None else {".gitignore": before}
    assert add(tmp_path, {"pyproject.toml": HATCH, **files})[".gitignore"] == after


@pytest.mark.parametrize(
    ("required", "lines"),
    [
        ('"flit_core >=3", "hatch-cubin"', f'# {INSIDE}\nbackend = "flit_core.buildapi"\n'),
        ('"hatch-cubin", "mine"', ""),
    ],
)
def test_a_backend_that_is_required_is_the_one_inside_of_ours(
    tmp_path: Path, required: str, lines: str
) -> None:
    text = f'[build-system]\nrequires = [{required}]\nbuild-backend = "hatch_cubin.backend"\n'
    after = add(tmp_path, {"pyproject.toml": text})["pyproject.toml"]
    assert after.startswith(f"{text}\n[tool.hatch-cubin]\n{lines}{SETTINGS}")


def test_a_folder_inside_a_project_is_refused_with_the_project(tmp_path: Path, command: Command) -> None:
    (tmp_path / "pyproject.toml").touch()
    (inside := tmp_path / "src/my pkg").mkdir(parents=True)
    hint = f"  hint: name the project that contains this folder: --project {tmp_path}; for a new project in "
    assert hint in refusal(inside, command)


def test_a_folder_without_a_project_is_refused(tmp_path: Path, command: Command) -> None:
    what = f"hatch-cubin: error: there is no pyproject.toml in {tmp_path} [not-a-project]\n"
    commands = "'uv init --package', 'hatch new --init' or 'pipx run hatch new --init'"
    hint = f"  hint: {commands} makes a pyproject.toml\n"
    assert refusal(tmp_path, command) == what + hint
    (tmp_path / "setup.py").write_text("")
    assert (
        refusal(tmp_path, command)
        == f"{what}  hint: make an empty pyproject.toml: an empty file is enough beside a setup.py\n"
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            "[tool]\nuv = 1\n",
            (
                "cannot be edited: the existing value is not a table"
                " [file-not-editable]\n  [tool.uv]\n  cache-keys = [\n"
            ),
        ),
        (
            "[tool.uv]\ncache-keys = 1\n",
            (
                "cannot be edited: tool.uv.cache-keys is not an array"
                " [file-not-editable]\n  [tool.uv] cache-keys: { file = "
            ),
        ),
    ],
)
def test_what_cannot_be_added_is_the_users_to_add_and_nothing_is_written(
    tmp_path: Path, command: Command, more: str, message: str
) -> None:
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": HATCH + more})
    said = refusal(tmp_path, command)
    assert said.startswith(f"hatch-cubin: error: pyproject.toml: {message}")
    assert said.endswith("\n  hint: add this by hand\n")


@pytest.mark.linux
def test_a_full_disk_costs_nobody_their_file(tmp_path: Path, command: Command) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": HATCH})
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(HATCH), limits[1]))
    try:
        said = refusal(tmp_path, command)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert (
        said == "hatch-cubin: error: pyproject.toml: cannot be written: File too large [file-not-writable]\n"
    )


@pytest.mark.linux
def test_a_file_keeps_its_mode_and_a_link_stays_one(tmp_path: Path) -> None:
    write_tree(tmp_path, {**PACKAGE, "shared/project.toml": HATCH})
    (tmp_path / "shared/project.toml").chmod(0o640)
    (tmp_path / "pyproject.toml").symlink_to("shared/project.toml")
    files = add(tmp_path, {})
    assert "[tool.hatch.build.hooks.cubin]" in files["pyproject.toml"]
    assert (tmp_path / "pyproject.toml").is_symlink()
    assert (tmp_path / "shared/project.toml").stat().st_mode & 0o777 == 0o640


def test_a_file_that_cannot_be_read_or_written_is_said(tmp_path: Path, command: Command) -> None:
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": HATCH})
    (tmp_path / ".gitignore").mkdir()
    assert refusal(tmp_path, command) == Coded("file-not-readable", ".gitignore", "it is a folder")
    (tmp_path / ".gitignore").rmdir()
    (tmp_path / ".gitignore").symlink_to("nowhere/.gitignore")
    unwritable = Coded("file-not-writable", ".gitignore", "No such file or directory")
    assert command("init", "--project", tmp_path).errors == [unwritable]


@pytest.mark.parametrize("name", ["hatchcubin", "hatch_cubins", "cubin", "hatch-cubn"])
def test_a_requirement_that_is_nearly_ours_is_not_given_company(
    tmp_path: Path, command: Command, name: str
) -> None:
    write_tree(tmp_path, {"pyproject.toml": HATCH.replace('["hatchling"]', f'["hatchling", "{name}"]')})
    assert 'hint: requires = ["hatchling", "hatch-cubin"]' in refusal(tmp_path, command)


def test_a_requirement_of_another_project_stays(tmp_path: Path) -> None:
    files = {"pyproject.toml": HATCH.replace('["hatchling"]', '["hatchling", "hatch-vcs", "hatch-cython"]')}
    assert (
        '["hatchling", "hatch-vcs", "hatch-cython", "hatch-cubin"]' in add(tmp_path, files)["pyproject.toml"]
    )


def test_a_backend_that_is_nearly_ours_is_told(tmp_path: Path, command: Command) -> None:
    text = '[build-system]\nrequires = ["hatch-cubin"]\nbuild-backend = "hatch_cubin.backends"\n'
    write_tree(tmp_path, {"pyproject.toml": text})
    values = ("'hatch_cubin.backends'", 'hint: build-backend = "hatch_cubin.backend"')
    assert refusal(tmp_path, command) == Coded("unknown-build-backend", "pyproject.toml:3", *values)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("tool.poetry", ["[tool.poetry]", 'requires = ["poetry-core"]', '"poetry.core.masonry.api"']),
        ("tool.hatch.build.hooks.cubin", ["[tool.hatch]", 'requires = ["hatchling"]']),
        ("tool.uv.build-backend", ["[tool.uv]", 'requires = ["uv-build"]', '"uv_build"']),
    ],
)
def test_a_project_of_another_backend_without_build_system_is_not_one_of_setuptools(
    tmp_path: Path, command: Command, table: str, said: list[str]
) -> None:
    text = f"[{table}]\nx = 1\n"
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": text})
    assert refusal(tmp_path, command) == Coded("build-system-missing", "pyproject.toml", *said)
    assert (tmp_path / "pyproject.toml").read_text() == text


@pytest.mark.parametrize("more", ["[tool.uv]\ndev-dependencies = []\n", "[tool.poetry]\n[tool.setuptools]\n"])
def test_tables_that_say_nothing_of_builds_leave_setuptools(tmp_path: Path, more: str) -> None:
    assert (
        'requires = ["setuptools", "hatch-cubin"]'
        in add(tmp_path, {"pyproject.toml": more})["pyproject.toml"]
    )


@pytest.mark.parametrize(
    ("before", "table", "read"),
    [
        (HATCH, "[tool.hatch-cubin]", "[tool.hatch.build.hooks.cubin]"),
        ("", "[tool.hatch_cubin]", "[tool.hatch-cubin]"),
        (HATCH, "[tool.hatch.build.hooks.cubins]", "[tool.hatch.build.hooks.cubin]"),
    ],
)
def test_a_table_that_the_backend_does_not_read_is_not_given_company(
    tmp_path: Path, command: Command, before: str, table: str, read: str
) -> None:
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": f"{before}{table}\n"})
    line = before.count("\n") + 1
    assert refusal(tmp_path, command) == (
        f"hatch-cubin: error: pyproject.toml:{line}: the project has a table {table}, but its build backend"
        f" does not read a table of this name [table-in-wrong-place]\n  hint: rename {table} to {read}\n"
    )


# What is written


def test_a_table_that_hatch_toml_hides_is_not_given_company(tmp_path: Path, command: Command) -> None:
    files = {
        "pyproject.toml": REQUIRING + "[tool.hatch.build.hooks.cubin]\narchs = ['sm_90']\n",
        "hatch.toml": "[build.targets.wheel]\npackages = ['src/demo']\n",
    }
    write_tree(tmp_path, files)
    assert "move this table to hatch.toml, as [build.hooks.cubin]" in refusal(tmp_path, command)
    assert {name: (tmp_path / name).read_text() for name in files} == files


def test_the_table_is_one_that_a_build_accepts(tmp_path: Path) -> None:
    add(tmp_path, {"pyproject.toml": HATCH})
    table, place, _backend = table_location.find_table(tmp_path)
    config = parse_config(table, place, {})
    assert (config.archs, config.toolkit) == (init.ARCHS, init.TOOLKIT)


@pytest.mark.nvrtc
def test_the_archs_are_those_that_all_major_means() -> None:
    toolkit = Toolkit(None)
    assert toolkit.major == 13
    assert tuple(map(str, arch_names.group("all-major", toolkit.supported, ()))) == init.ARCHS


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.parametrize("name", [".gitignore", "pyproject.toml"])
def test_a_pipe_in_the_place_of_a_file_is_said_and_not_opened(
    tmp_path: Path, command: Command, name: str
) -> None:
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": HATCH})
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    (error,) = command("init", "--project", tmp_path).errors
    assert f"{name}: cannot be read: it is not a regular file" in error


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes here")
@pytest.mark.usefixtures("no_endless_wait")
def test_a_pipe_beside_a_file_is_said_and_not_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(tmp_path, {**PACKAGE, "pyproject.toml": HATCH})
    os.mkfifo(tmp_path / f".pyproject.toml.{os.getpid()}")
    with pytest.raises(SystemExit):
        main(["init", "--project", str(tmp_path)])
    assert "pyproject.toml: cannot be written: File exists [file-not-writable]\n" in capsys.readouterr().err


def test_uv_looks_at_the_modules_and_the_inputs_of_producers(tmp_path: Path) -> None:
    table = (
        "[tool.hatch.build.hooks.cubin]\n[[tool.hatch.build.hooks.cubin.producer]]\n"
        'path = "tools/gen.py"\ninputs = ["src/demo/*.j2"]\n'
    )
    files = add(tmp_path, {"pyproject.toml": HATCH + table})
    keys = toml_positions.loads(files["pyproject.toml"])["tool"]["uv"]["cache-keys"]
    assert [each["file"] for each in keys[-3:]] == ["tools/gen.py", "src/demo/*.j2", "src/demo/**/*.py"]
    assert add(tmp_path, {}) == files


def test_uv_looks_at_sources_and_headers_outside_the_packages(tmp_path: Path) -> None:
    table = (
        "[tool.hatch.build.hooks.cubin]\n"
        'sources = ["csrc/**/*.cu", "src/demo/more/*.cu"]\n'
        'include-dirs = ["csrc/include/", "src/demo/include"]\n'
    )
    files = add(tmp_path, {"pyproject.toml": HATCH + table})
    keys = toml_positions.loads(files["pyproject.toml"])["tool"]["uv"]["cache-keys"]
    assert [each["file"] for each in keys[-6:]] == [
        "csrc/**/*.cu",
        *(f"csrc/include/**/*.{suffix}" for suffix in ("cu", "cuh", "h", "ptx", "tileir")),
    ]
    assert add(tmp_path, {}) == files


def test_uv_looks_at_the_files_of_inner_tables_and_of_source_roots(tmp_path: Path) -> None:
    hook = "tool.hatch.build.hooks.cubin"
    table = (
        f'[{hook}]\nsources = ["common/*.cu"]\nsource-roots = {{ common = "../shared/cuda" }}\n'
        f'[[{hook}.source]]\npath = "common/a.cu"\ninclude-dirs = ["special"]\n'
        f'[[{hook}.module]]\nname = "m"\nmode = "lto"\nsources = ["parts/*.cu"]\n'
        f'[[{hook}.producer]]\npath = "gen.py"\ninputs = ["common/*.j2"]\n'
    )
    files = add(tmp_path, {"pyproject.toml": HATCH + table})
    keys = toml_positions.loads(files["pyproject.toml"])["tool"]["uv"]["cache-keys"]
    assert [each["file"] for each in keys[-9:]] == [
        "../shared/cuda/**/*",
        "parts/*.cu",
        *(f"special/**/*.{suffix}" for suffix in ("cu", "cuh", "h", "ptx", "tileir")),
        "gen.py",
        "src/demo/**/*.py",
    ]
    assert add(tmp_path, {}) == files


@pytest.mark.parametrize(
    "line",
    [
        "sources = 1",
        "include-dirs = [1, {}]",
        "source = [1]",
        "producer = 1",
        "producer = [{ path = 1, inputs = 1 }, {}]",
        "source-roots = 1\nsources = ['src/demo/a.cu']",
        "source-roots = { csrc = 1 }",
    ],
)
def test_what_is_no_path_is_left_to_the_build(tmp_path: Path, line: str) -> None:
    files = add(tmp_path, {"pyproject.toml": f"{HATCH}[tool.hatch.build.hooks.cubin]\n{line}\n"})
    assert files["pyproject.toml"].endswith(KERNELS)
