"""Which table is read, for which build backend, and what is said where there is none."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hatch_cubin.config.config import parse_config
from hatch_cubin.config.table_location import find_table, requires_hatch_cubin
from hatch_cubin.errors import ConfigError
from tests.helpers import found, refusal, write_tree

HATCHLING = '[build-system]\nbuild-backend = "hatchling.build"\n'
FLIT = '[build-system]\nbuild-backend = "flit_core.buildapi"\n'
HOOK = "[tool.hatch.build.hooks.cubin]\n"
HIDDEN = (
    "pyproject.toml:3: Hatch does not read {}, because hatch.toml has a [build] that replaces it\n"
    "  hint: move it to hatch.toml, as [build.hooks.cubin]"
)
INIT = "  hint: 'hatch-cubin init' adds the table"
NO_TABLE = "pyproject.toml: there is no table {}\n"
RIGHT = 'hint: build-backend = "hatch_cubin.backend"'
RENAME = "  hint: rename {}: the project's build backend does not read a table of this name"
BOTH = (
    "the project's build backend reads the table {}, and does not read this table\n"
    "  hint: delete one of the two tables"
)
UNCLOSED = "\n  hint: the value that begins on line {} has no closing quote or bracket, or contains a mistake"
NOT_TOML = "Expected newline or end of document after a statement"
OWN = "[tool.hatch-cubin]\n"


@pytest.mark.parametrize(
    ("files", "backend", "place"),
    [
        ({"pyproject.toml": f"{HATCHLING}{HOOK}jobs = 7"}, "hatchling.build", "pyproject.toml:4"),
        (
            {"pyproject.toml": f"{HATCHLING}[tool.hatch.build.targets.wheel.hooks.cubin]\njobs = 7"},
            "hatchling.build",
            "pyproject.toml:4",
        ),
        (
            {"pyproject.toml": HATCHLING, "hatch.toml": "[build.hooks.cubin]\njobs = 7"},
            "hatchling.build",
            "hatch.toml:2",
        ),
        (
            {"pyproject.toml": f"{HATCHLING}{HOOK}jobs = 7", "hatch.toml": "[envs.default]\n"},
            "hatchling.build",
            "pyproject.toml:4",
        ),
        ({"pyproject.toml": f"{FLIT}{OWN}jobs = 7"}, "flit_core.buildapi", "pyproject.toml:4"),
        ({"pyproject.toml": f"{OWN}jobs = 7"}, "setuptools.build_meta", "pyproject.toml:2"),
    ],
)
def test_the_table_is_the_one_that_the_build_backend_reads(
    tmp_path: Path, files: dict[str, str], backend: str, place: str
) -> None:
    table, found, used = find_table(write_tree(tmp_path, files))
    assert (table, used, str(found.of("jobs"))) == ({"jobs": 7}, backend, place)


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (
            {},
            (
                "there is no pyproject.toml in {root}\n"
                "  hint: run the command in a project, or name the project's folder: --project DIR"
            ),
        ),
        (
            {"pyproject.toml": HATCHLING + OWN},
            f"{NO_TABLE.format('[tool.hatch.build.hooks.cubin]')}{RENAME.format('[tool.hatch-cubin]')}",
        ),
        (
            {"pyproject.toml": HATCHLING, "hatch.toml": "[build]\n"},
            f"hatch.toml: there is no table [build.hooks.cubin]\n{INIT}",
        ),
        (
            {"pyproject.toml": HATCHLING + HOOK, "hatch.toml": "[build]\n"},
            HIDDEN.format("[tool.hatch.build.hooks.cubin]"),
        ),
        (
            {
                "pyproject.toml": f"{HATCHLING}[tool.hatch.build.targets.wheel.hooks.cubin]\n",
                "hatch.toml": "[build.targets.sdist]\n",
            },
            HIDDEN.format("[tool.hatch.build.targets.wheel.hooks.cubin]"),
        ),
        (
            {"pyproject.toml": f"{HATCHLING}{HOOK}jobs = 1", "hatch.toml": "[build.hooks.cubin]\njobs = 7"},
            f"pyproject.toml:3: {BOTH.format('[build.hooks.cubin] in hatch.toml')}",
        ),
        (
            {"pyproject.toml": FLIT},
            f"pyproject.toml: there is no table [tool.hatch-cubin]\n{INIT}",
        ),
        (
            {"pyproject.toml": FLIT + HOOK},
            f"{NO_TABLE.format('[tool.hatch-cubin]')}{RENAME.format('[tool.hatch.build.hooks.cubin]')}",
        ),
        *(
            (
                {"pyproject.toml": f"{FLIT}{wrong}\njobs = 1\n"},
                f"{NO_TABLE.format('[tool.hatch-cubin]')}{RENAME.format(wrong)}",
            )
            for wrong in ("[tool.hatch_cubin]", "[tool.cubin]", "[tool.HatchCubin]", "[hatch-cubin]")
        ),
        *(
            (
                {"pyproject.toml": f"{HATCHLING}{wrong}\njobs = 1\n"},
                f"{NO_TABLE.format('[tool.hatch.build.hooks.cubin]')}{RENAME.format(wrong)}",
            )
            for wrong in (
                "[tool.hatch.build.hooks.hatch-cubin]",
                "[tool.hatch.build.hooks.cubn]",
                "[tool.hatch-cubn]",
                "[tool.hatch.build.targets.wheel.hooks.cubins]",
                "[tool.hatch.build.hook.cubin]",
                "[tool.hatch.hooks.cubin]",
                "[tool.hatch_cubin]",
            )
        ),
        (
            {"pyproject.toml": HATCHLING, "hatch.toml": "[build.hook.cubin]\n"},
            "hatch.toml: there is no table [build.hooks.cubin]\n" + RENAME.format("[build.hook.cubin]"),
        ),
        *(
            (
                {"pyproject.toml": HATCHLING, "hatch.toml": f"{wrong}\njobs = 1\n"},
                f"hatch.toml: there is no table [build.hooks.cubin]\n{RENAME.format(wrong)}",
            )
            for wrong in (
                "[tool.hatch.build.hooks.cubin]",
                "[tool.hatch.build.targets.wheel.hooks.cubin]",
                "[hatch.build.hooks.cubin]",
                "[tool.hatch-cubin]",
            )
        ),
        (
            {"pyproject.toml": HATCHLING + HOOK, "hatch.toml": "[tool.hatch.build.hooks.cubin]\n"},
            (
                "hatch.toml:1: the project's build backend reads the table [tool.hatch.build.hooks.cubin] in "
                "pyproject.toml, and does not read this table\n"
                "  hint: move its keys to [tool.hatch.build.hooks.cubin] in pyproject.toml and delete the "
                "table; in hatch.toml its header would have to be [build.hooks.cubin], but a [build] there "
                "replaces all of [tool.hatch.build]"
            ),
        ),
        (
            {"pyproject.toml": FLIT, "hatch.toml": "[build.hooks.cubin]\n"},
            NO_TABLE.format("[tool.hatch-cubin]")
            + "  hint: move [build.hooks.cubin] of hatch.toml to pyproject.toml, "
            "and rename it [tool.hatch-cubin]",
        ),
        *(
            (
                {"pyproject.toml": f"[build-system]\nbuild-backend = '{wrong}'\n{OWN}"},
                f"pyproject.toml:2: there is no build backend {wrong!r}\n  {RIGHT}",
            )
            for wrong in (
                "hatch_cubin.build",
                "hatch_cubin.backends",
                "hatch-cubin.backend",
                "hatch_cubin:backend",
                "hatchcubin.backend",
                "hatch_cubin",
                "hatch_cubin.backend:build",
                "hatch_cubim.backend",
            )
        ),
        (
            {"pyproject.toml": "[tool]\nhatch-cubin = 3\n"},
            "pyproject.toml:2: [tool.hatch-cubin] must be a table, not 3",
        ),
        (
            {"pyproject.toml": "[[tool.hatch-cubin]]\njobs = 1\n"},
            (
                "pyproject.toml:1: [tool.hatch-cubin] must be a table, not [{{'jobs': 1}}]\n"
                "  hint: write the header with single brackets: [tool.hatch-cubin]"
            ),
        ),
        (
            {"pyproject.toml": HATCHLING + "[tool.hatch.build.hooks]\ncubin = true\n"},
            "pyproject.toml:4: [tool.hatch.build.hooks.cubin] must be a table, not True",
        ),
        (
            {"pyproject.toml": HATCHLING + HOOK + OWN},
            f"pyproject.toml:4: {BOTH.format('[tool.hatch.build.hooks.cubin]')}",
        ),
        (
            {"pyproject.toml": HATCHLING + OWN, "hatch.toml": "[build.hooks.cubin]\n"},
            f"pyproject.toml:3: {BOTH.format('[build.hooks.cubin] in hatch.toml')}",
        ),
        (
            {"pyproject.toml": FLIT + HOOK + OWN},
            f"pyproject.toml:3: {BOTH.format('[tool.hatch-cubin]')}",
        ),
        (
            {"pyproject.toml": FLIT + OWN, "hatch.toml": "[build.targets.sdist.hooks.cubin]\n"},
            f"hatch.toml:1: {BOTH.format('[tool.hatch-cubin] in pyproject.toml')}",
        ),
        (
            {"pyproject.toml": "archs = 1 2\n"},
            f"pyproject.toml:1: is not TOML: {NOT_TOML} (at line 1, column 11)",
        ),
        (
            {"pyproject.toml": "[a]\nb = [1, 2,\n3\n\nc = '[d]'\n[e]\nf = 2\n"},
            f"pyproject.toml:2: is not TOML: Unclosed array (at line 5, column 1){UNCLOSED.format(2)}",
        ),
        (
            {"pyproject.toml": "[a]\nb = 1\nc = [\n'[d]',\n"},
            f"pyproject.toml:3: is not TOML: Invalid value (at end of document){UNCLOSED.format(3)}",
        ),
        (
            {"pyproject.toml": '[a]\nb = """\nc = 1\n"""\n\nd = """x\n'},
            f"pyproject.toml:6: is not TOML: Unterminated string (at end of document){UNCLOSED.format(6)}",
        ),
    ],
)
def test_what_is_missing_is_said_with_what_to_do(tmp_path: Path, files: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_table(write_tree(tmp_path, files))
    assert str(caught.value) == message.format(root=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "[tool.hatch.envs.cubin]\n",
        "[tool.uv.sources]\nhatch-cubin = { path = 'x' }\n",
        "[tool.poetry.dependencies.hatch-cubin]\nversion = '1'\n",
        "[tool.hatch.build.force-include]\ncubin = 'x'\n",
        "[tool]\ncubin = 3\n",
    ],
)
def test_what_only_has_such_a_name_is_no_table_of_ours(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        find_table(write_tree(tmp_path, {"pyproject.toml": HATCHLING + text}))
    assert str(caught.value).endswith(INIT)


def test_a_hook_of_another_target_is_told_by_its_name(tmp_path: Path) -> None:
    table = "[tool.hatch.build.targets.sdist.hooks.cubin]"
    with pytest.raises(ConfigError) as caught:
        find_table(write_tree(tmp_path, {"pyproject.toml": f"{HATCHLING}{table}\n"}))
    assert f"rename {table}" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ('[build-system]\nrequires = ["hatchling", "Hatch_Cubin[cli]>=1"]\n', True),
        ('[build-system]\nrequires = ["hatchling", "hatch-cubin-more"]\n', False),
        ('[build-system]\nrequires = "hatch-cubin"\n', False),
        ("", False),
        (f'{HOOK}dependencies = ["hatch-cubin @ file:///x"]\n', True),
        ('[tool.hatch.build.targets.wheel]\ndependencies = ["hatch-cubin"]\n', True),
        ('[tool.hatch.build.targets.sdist]\ndependencies = ["hatch-cubin"]\n', False),
    ],
)
def test_a_front_end_is_asked_to_install_hatch_cubin_in_several_places(
    tmp_path: Path, text: str, *, required: bool
) -> None:
    assert requires_hatch_cubin(write_tree(tmp_path, {"pyproject.toml": text})) == required


@pytest.mark.parametrize("tool", ["[tool]\nhatch = 3", "[tool.hatch]\nbuild = 3"])
def test_a_value_in_a_tables_place_is_no_table(tmp_path: Path, tool: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": f"{HATCHLING}{tool}\n"})
    with pytest.raises(ConfigError, match="there is no table"):
        find_table(tmp_path)


def test_a_folder_in_the_files_place_is_said(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").mkdir()
    with pytest.raises(ConfigError) as caught:
        find_table(tmp_path)
    reason = "Permission denied" if sys.platform == "win32" else "Is a directory"
    assert str(caught.value) == f"pyproject.toml: cannot be read: {reason}"


def test_an_absolute_path_inside_the_project_is_told_as_it_must_be_written(tmp_path: Path) -> None:
    inside, outside = tmp_path.as_posix(), tmp_path.parent.as_posix()
    keys = f'sources = ["{inside}/a/*.cu"]\ninclude-dirs = ["{inside}/inc/", "{outside}"]\n'
    keys += f'[[tool.hatch.build.hooks.cubin.source]]\npath = "{inside}/a/k.cu"\n'
    write_tree(tmp_path, {"pyproject.toml": HATCHLING + HOOK + keys})
    table, place, _backend = find_table(tmp_path)
    problems = refusal(ConfigError, parse_config, table, place, {}).problems
    assert {each.code for each in problems} == {"path-leaves-project"}
    assert [each.hint for each in problems] == ['write "a/*.cu"', 'write "inc"', None, 'write "a/k.cu"']


def test_bytes_that_are_no_text_are_said(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"^pyproject.toml: is not TOML: 'utf-8' codec"):
        find_table(tmp_path)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_said(tmp_path: Path, encoding: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": (HATCHLING + HOOK).encode(encoding)})
    with pytest.raises(ConfigError, match="without a byte order mark"):
        find_table(tmp_path)


def test_brackets_without_end_are_said(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("a = " + "[" * 5000)
    with pytest.raises(ConfigError, match=r"^pyproject.toml:1: is not TOML: "):
        find_table(tmp_path)


@pytest.mark.linux
def test_a_pipe_in_the_files_place_is_said_and_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pyproject.toml")
    with pytest.raises(ConfigError) as caught:
        find_table(tmp_path)
    assert str(caught.value) == "pyproject.toml: cannot be read: it is not a regular file"


def test_a_project_that_is_no_folder_has_no_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^a project is a folder, but .*file is a file\n  hint: name"):
        find_table(tmp_path / "file")


@pytest.mark.parametrize("header", ["tool.hatch.build.hooks.cubin", "tool.hatch-cubin"])
def test_a_table_of_a_source_under_its_short_name_is_in_the_wrong_place(tmp_path: Path, header: str) -> None:
    build = HATCHLING if "hooks" in header else ""
    text = f"{build}[{header}]\n[[source]]\npath = 'k.cu'\n[[module]]\nname = 'm'\n"
    write_tree(tmp_path, {"pyproject.toml": text})
    with pytest.raises(ConfigError) as caught:
        find_table(tmp_path)
    line = text.splitlines().index("[[source]]") + 1
    places = [f"pyproject.toml:{line}", f"pyproject.toml:{line + 2}"]
    assert found(caught.value) == [("table-in-wrong-place", place) for place in places]
    assert [problem.hint for problem in caught.value.problems] == [
        f"write [[{header}.{key}]] in place of [[{key}]]" for key in ("source", "module")
    ]
