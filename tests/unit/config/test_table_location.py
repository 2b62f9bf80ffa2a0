"""Which table is read, for which build backend, and what is said where there is none."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.config.config import parse_config
from hatch_cubin.config.table_location import find_table, requires_hatch_cubin
from hatch_cubin.errors import ConfigError
from tests.helpers import found, refusal, write_tree

HATCHLING = '[build-system]\nbuild-backend = "hatchling.build"\n'
FLIT = '[build-system]\nbuild-backend = "flit_core.buildapi"\n'
HOOK = "[tool.hatch.build.hooks.cubin]\n"
INIT = "  hint: 'hatch-cubin init' adds the table"
SOURCE = "[[tool.hatch.build.hooks.cubin.source]]"
WHEELS_SOURCE = "[[tool.hatch.build.targets.wheel.hooks.cubin.source]]"
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


def refused(root: Path, pyproject: str, hatch: str | None = None) -> ConfigError:
    """Return the error of a project with these files."""
    files = {"pyproject.toml": pyproject, "hatch.toml": hatch}
    return refusal(
        ConfigError, find_table, write_tree(root, {name: text for name, text in files.items() if text})
    )


@pytest.mark.parametrize(
    ("pyproject", "hatch", "place", "hint"),
    [
        (HATCHLING, "[build]\n", "hatch.toml", None),
        (FLIT, None, "pyproject.toml", None),
        (HATCHLING + OWN, None, "pyproject.toml", "[tool.hatch-cubin]"),
        (FLIT + HOOK, None, "pyproject.toml", "[tool.hatch.build.hooks.cubin]"),
        *(
            (f"{FLIT}{wrong}\njobs = 1\n", None, "pyproject.toml", wrong)
            for wrong in (
                "[tool.hatch_cubin]",
                "[tool.cubin]",
                "[tool.HatchCubin]",
                "[hatch-cubin]",
                "[tool.setuptools.hatch-cubin]",
            )
        ),
        *(
            (f"{HATCHLING}[{wrong}]\njobs = 1\n", None, "pyproject.toml", f"[{wrong}]")
            for wrong in ("tool.hatch-cubn", "tool.hatch.hooks.cubin", "tool.hatch.build.hook.cubin")
        ),
        (HATCHLING, "[build.hook.cubin]\n", "hatch.toml", "[build.hook.cubin]"),
        *(
            (HATCHLING, f"[{wrong}]\njobs = 1\n", "hatch.toml", f"[{wrong}]")
            for wrong in (
                "tool.hatch.build.targets.wheel.hooks.cubin",
                "hatch.build.hooks.cubin",
                "tool.hatch-cubin",
            )
        ),
    ],
)
def test_a_table_that_is_missing_is_named_with_one_that_is_not_read(
    tmp_path: Path, pyproject: str, hatch: str | None, place: str, hint: str | None
) -> None:
    error = refused(tmp_path, pyproject, hatch)
    right = "[build.hooks.cubin]" if hatch else "[tool.hatch.build.hooks.cubin]"
    right = right if pyproject.startswith(HATCHLING) else "[tool.hatch-cubin]"
    reads = f"the build backend does not read {hint}"
    advice = f"  hint: rename {hint} to {right}: {reads}" if hint else INIT
    assert str(error) == f"{place}: there is no table {right}\n{advice}"


def test_every_header_of_a_misnamed_table_is_renamed(tmp_path: Path) -> None:
    table = f"{HOOK}jobs = 1  # [x]\n[[tool.hatch.build.hooks.cubin.source]] # the sources\npath = 'a.cu'\n"
    (said,) = refused(tmp_path, FLIT + table).problems
    assert (said.hint or "").startswith(
        "rename [tool.hatch.build.hooks.cubin] to [tool.hatch-cubin] "
        "and [[tool.hatch.build.hooks.cubin.source]] to [[tool.hatch-cubin.source]]: "
    )
    assert "[build-system]" not in (said.hint or "")
    (said,) = refused(tmp_path, table).problems
    assert 'add a table [build-system] with requires = ["hatchling", "hatch-cubin"]' in (said.hint or "")


def test_an_inner_table_that_was_not_renamed_is_renamed_too(tmp_path: Path) -> None:
    inner = "[[tool.hatch.build.hooks.cubin.source]]"
    (said,) = refused(tmp_path, f"{FLIT}{OWN}jobs = 1\n{inner}\npath = 'a.cu'\n").problems
    assert (said.code, str(said.where)) == ("two-tables", "pyproject.toml:5")
    assert said.hint == f"rename {inner} to [[tool.hatch-cubin.source]]"
    hatch = f"[build.hooks.cubin]\njobs = 1\n{inner}\npath = 'a.cu'\n"
    (said,) = refused(tmp_path, HATCHLING, hatch).problems
    assert (said.code, said.hint) == ("two-tables", f"rename {inner} to [[build.hooks.cubin.source]]")


@pytest.mark.parametrize(
    ("build", "right", "wrong", "renamed"),
    [
        (
            HATCHLING,
            HOOK,
            "[[tool.hatch.build.hook.cubin.source]]",
            "[[tool.hatch.build.hooks.cubin.source]]",
        ),
        (HATCHLING, HOOK, "[tool.hatch.build.hooks.cubins]", "[tool.hatch.build.hooks.cubin]"),
        (HATCHLING, HOOK, "[tool.hatch.build.target.wheel.hooks.cubin]", "[tool.hatch.build.hooks.cubin]"),
        (HATCHLING, HOOK, "[tool.hatch.hooks.cubin.options]", "[tool.hatch.build.hooks.cubin.options]"),
        (FLIT, OWN, "[[tool.hatch_cubin.source]]", "[[tool.hatch-cubin.source]]"),
    ],
)
def test_a_misspelled_header_beside_the_right_table_is_in_the_wrong_place(
    tmp_path: Path, build: str, right: str, wrong: str, renamed: str
) -> None:
    (said,) = refused(tmp_path, f"{build}{right}jobs = 1\n{wrong}\n").problems
    assert (said.code, str(said.where)) == ("table-in-wrong-place", "pyproject.toml:5")
    assert (said.what.split(" ")[0], said.hint) == (wrong, f"rename {wrong} to {renamed}")


def moved_to(table: str) -> str:
    """Return the hint that keeps all settings of two tables."""
    return f"move the keys and inner tables that are only in this table to {table}, and delete this table"


WHEELS, SDISTS_SOURCE = WHEELS_SOURCE[1:-1].replace(".source", ""), WHEELS_SOURCE.replace("wheel", "sdist")


@pytest.mark.parametrize(
    ("tables", "line", "hint"),
    [
        (f"{HOOK}jobs = 1\n{WHEELS_SOURCE}", 3, f"rename {WHEELS_SOURCE} to {SOURCE}"),
        (f"{HOOK}jobs = 1\n{WHEELS}\njobs = 2", 3, moved_to(WHEELS)),
        (f"{WHEELS}\njobs = 1\n{SOURCE}", 5, f"rename {SOURCE} to {WHEELS_SOURCE}"),
        (f"{HOOK}jobs = 1\n{SDISTS_SOURCE}", 5, f"rename {SDISTS_SOURCE} to {SOURCE}"),
        (f"{WHEELS}\njobs = 1\n{SDISTS_SOURCE}", 5, f"rename {SDISTS_SOURCE} to {WHEELS_SOURCE}"),
    ],
)
def test_keys_in_two_tables_of_hatch_are_an_error(tmp_path: Path, tables: str, line: int, hint: str) -> None:
    (said,) = refused(tmp_path, f"{HATCHLING}{tables}\npath = 'a.cu'\n").problems
    assert (said.code, str(said.where), said.hint) == ("two-tables", f"pyproject.toml:{line}", hint)


@pytest.mark.parametrize("keys", ["", "enable-by-default = false\n"])
def test_a_second_table_of_hatch_without_keys_of_ours_is_no_error(tmp_path: Path, keys: str) -> None:
    text = f"{HATCHLING}{HOOK}{keys}{WHEELS}\njobs = 2\n"
    assert find_table(write_tree(tmp_path, {"pyproject.toml": text}))[0] == {"jobs": 2}


def test_a_hook_of_hatch_is_no_short_header_of_ours(tmp_path: Path) -> None:
    sdist = "[tool.hatch.build.targets.sdist.hooks.cubin]\n"
    table, _place, _backend = find_table(
        write_tree(tmp_path, {"pyproject.toml": f"{HATCHLING}{HOOK}jobs = 2\n{sdist}"})
    )
    assert table == {"jobs": 2}


def test_a_table_of_hatch_toml_is_moved_for_another_backend(tmp_path: Path) -> None:
    error = refused(tmp_path, FLIT, "[build.hooks.cubin]\n")
    hint = "move [build.hooks.cubin] from hatch.toml to pyproject.toml, and rename it to [tool.hatch-cubin]"
    assert (found(error), error.problems[0].hint) == ([("no-table", "pyproject.toml")], hint)


@pytest.mark.parametrize(
    ("hook", "build"),
    [("build.hooks.cubin", "[build]\n"), ("build.targets.wheel.hooks.cubin", "[build.targets.sdist]\n")],
)
def test_a_table_that_hatch_toml_hides_is_moved_there(tmp_path: Path, hook: str, build: str) -> None:
    assert str(refused(tmp_path, f"{HATCHLING}[tool.hatch.{hook}]\n", build)) == (
        f"pyproject.toml:3: Hatch does not read [tool.hatch.{hook}], because "
        "[build] in hatch.toml replaces this table\n"
        "  hint: move this table to hatch.toml, as [build.hooks.cubin]"
    )


@pytest.mark.parametrize(
    ("pyproject", "hatch", "place", "read"),
    [
        (
            f"{HATCHLING}{HOOK}jobs = 1",
            "[build.hooks.cubin]\n",
            "pyproject.toml:3",
            "[build.hooks.cubin] in hatch.toml",
        ),
        (HATCHLING + HOOK + OWN, None, "pyproject.toml:4", "[tool.hatch.build.hooks.cubin]"),
        (HATCHLING + OWN, "[build.hooks.cubin]\n", "pyproject.toml:3", "[build.hooks.cubin] in hatch.toml"),
        (FLIT + HOOK + OWN, None, "pyproject.toml:3", "[tool.hatch-cubin]"),
        (
            FLIT + OWN,
            "[build.targets.sdist.hooks.cubin]\n",
            "hatch.toml:1",
            "[tool.hatch-cubin] in pyproject.toml",
        ),
    ],
)
def test_of_two_tables_one_is_kept(
    tmp_path: Path, pyproject: str, hatch: str | None, place: str, read: str
) -> None:
    assert str(refused(tmp_path, pyproject, hatch)) == (
        f"{place}: the project's build backend reads the table {read}, and does not read this table\n"
        f"  hint: {moved_to(read)}"
    )


def test_a_header_for_pyproject_toml_hides_more_in_hatch_toml(tmp_path: Path) -> None:
    error = refused(tmp_path, HATCHLING + HOOK, HOOK)
    assert found(error) == [("two-tables", "hatch.toml:1")]
    assert "because with any [build] in hatch.toml, hatchling ignores all of [tool.hatch.build]" in (
        error.problems[0].hint or ""
    )


@pytest.mark.parametrize(
    "backend",
    ["hatch_cubin.build", "hatch-cubin.backend", "hatch_cubin:backend", "hatchcubin.backend", "hatch_cubin"],
)
def test_a_misspelled_backend_of_ours_is_told(tmp_path: Path, backend: str) -> None:
    assert str(refused(tmp_path, f"[build-system]\nbuild-backend = '{backend}'\n{OWN}")) == (
        f"pyproject.toml:2: there is no build backend {backend!r}\n"
        '  hint: build-backend = "hatch_cubin.backend"'
    )


@pytest.mark.parametrize(
    ("tool", "backend"),
    [
        ("setuptools", "setuptools.build_meta"),
        ("hatchling", "hatchling.build"),
        ("hatch", "hatchling.build"),
        ("flit-core", "flit_core.buildapi"),
        ("hatch.build", "hatchling.build"),
    ],
)
def test_the_name_of_a_tool_is_answered_with_its_build_backend(
    tmp_path: Path, tool: str, backend: str
) -> None:
    error = refused(tmp_path, f"[build-system]\nbuild-backend = '{tool}'\n{HOOK}")
    hint = f'build-backend = "{backend}"'
    assert (found(error), error.problems[0].hint) == ([("unknown-build-backend", "pyproject.toml:2")], hint)
    text = f"[build-system]\nbuild-backend = '{tool}'\nbackend-path = ['.']\n{OWN}"
    assert find_table(write_tree(tmp_path, {"pyproject.toml": text}))[2] == tool


TWICE = "the file has this key or table twice: keep one of them"


@pytest.mark.parametrize(
    ("line", "right"),
    [
        ("define = {", "a table in braces must end on its line; write a long one below a [header]"),
        ("pack = True", "write true and false in lower case"),
        ("archs = [\u201csm_90\u201d]", "TOML accepts only straight quotes"),
        ("archs: ['sm_90']", "write = between a key and its value"),
        ("archs = [sm_90]", "write texts in quotes"),
        ("archs = ['sm_90'] // Hopper", "a comment in TOML begins with #"),
        ("jobs = 1\njobs = 2", TWICE),
        (f"\n{HOOK}", TWICE),
    ],
)
def test_a_slip_in_toml_is_told(tmp_path: Path, line: str, right: str) -> None:
    error = refused(tmp_path, f"{HOOK}{line}\n")
    where = 2 + line.rstrip().count("\n")
    assert (found(error), error.problems[0].hint) == ([("invalid-toml", f"pyproject.toml:{where}")], right)


@pytest.mark.parametrize("marker", ["<<<<<<< HEAD", "=======", ">>>>>>> other"])
@pytest.mark.parametrize("before", ["jobs = 1", "archs = ["])
def test_a_marker_of_a_merge_conflict_is_named(tmp_path: Path, before: str, marker: str) -> None:
    error = refused(tmp_path, f"{HOOK}{before}\n{marker}\n")
    hint = "this line is a marker of a merge conflict: resolve the conflict"
    assert (found(error), error.problems[0].hint) == ([("invalid-toml", "pyproject.toml:3")], hint)


def test_an_invalid_statement_is_named_by_its_own_line(tmp_path: Path) -> None:
    error = refused(tmp_path, f"{HOOK}jobs = 1\n*\n")
    assert (found(error), error.problems[0].hint) == ([("invalid-toml", "pyproject.toml:3")], None)


def test_a_project_with_setup_py_alone_needs_an_empty_pyproject_toml(tmp_path: Path) -> None:
    write_tree(tmp_path, {"setup.py": ""})
    hint = "an empty pyproject.toml is enough beside a setup.py: 'hatch-cubin init' adds the table"
    assert refusal(ConfigError, find_table, tmp_path).problems[0].hint == hint


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[tool]\nhatch-cubin = 3\n", "2: [tool.hatch-cubin] must be a table, not 3"),
        (
            "[[tool.hatch-cubin]]\njobs = 1\n",
            (
                "1: [tool.hatch-cubin] must be a table, not [{'jobs': 1}]\n"
                "  hint: write the header with single brackets: [tool.hatch-cubin]"
            ),
        ),
        (
            f"{HATCHLING}[tool.hatch.build.hooks]\ncubin = true\n",
            "4: [tool.hatch.build.hooks.cubin] must be a table, not True",
        ),
    ],
)
def test_a_value_of_another_type_is_no_table(tmp_path: Path, text: str, problem: str) -> None:
    assert str(refused(tmp_path, text)) == f"pyproject.toml:{problem}"


@pytest.mark.parametrize(
    ("text", "line", "hint"),
    [
        ("archs = 1 2\n", 1, False),
        ("[a]\nb = [1, 2,\n3\n\nc = '[d]'\n[e]\nf = 2\n", 2, True),
        ("[a]\nb = 1\nc = [\n'[d]',\n", 3, True),
        ('[a]\nb = """\nc = 1\n"""\n\nd = """x\n', 6, True),
    ],
)
def test_what_is_not_toml_is_told_at_the_line_where_the_mistake_begins(
    tmp_path: Path,
    text: str,
    line: int,
    hint: bool,  # noqa: FBT001 - a fact
) -> None:
    error = refused(tmp_path, text)
    told = (
        f"the value that begins on line {line} has no closing quote or bracket, or contains a mistake"
        if hint
        else None
    )
    assert (found(error), error.problems[0].hint) == ([("invalid-toml", f"pyproject.toml:{line}")], told)


def test_the_project_above_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    (inside := tmp_path / "src/pkg").mkdir(parents=True)
    (found,) = refusal(ConfigError, find_table, inside).problems
    assert (found.code, str(found.hint).endswith(f": --project {tmp_path}")) == ("not-a-project", True)


def test_without_a_pyproject_toml_there_is_no_project(tmp_path: Path) -> None:
    assert str(refusal(ConfigError, find_table, tmp_path)) == (
        f"there is no pyproject.toml in {tmp_path}\n"
        "  hint: run the command in a project, or name the project's folder: --project DIR"
    )


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


def test_an_absolute_path_inside_the_project_is_told_as_it_must_be_written(tmp_path: Path) -> None:
    inside, outside = tmp_path.as_posix(), tmp_path.parent.as_posix()
    keys = f'sources = ["{inside}/a/*.cu"]\ninclude-dirs = ["{inside}/inc/", "{outside}"]\n'
    keys += f'[[tool.hatch.build.hooks.cubin.source]]\npath = "{inside}/a/k.cu"\n'
    write_tree(tmp_path, {"pyproject.toml": HATCHLING + HOOK + keys})
    table, place, _backend = find_table(tmp_path)
    problems = refusal(ConfigError, parse_config, table, place, {}).problems
    assert {each.code for each in problems} == {"path-leaves-project"}
    assert [each.hint for each in problems] == ['write "a/*.cu"', 'write "inc"', None, 'write "a/k.cu"']


@pytest.mark.linux
@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (Path.mkdir, "cannot be read: Is a directory [file-not-readable]"),
        (os.mkfifo, "cannot be read: it is not a regular file [file-not-readable]"),
        *((lambda path, e=e: path.write_text(HOOK, e), "is not TOML") for e in ("utf-8-sig", "utf-16")),
    ],
)
def test_a_file_that_is_not_text_is_told_and_not_waited_for(
    tmp_path: Path, make: Callable[[Path], object], problem: str
) -> None:
    make(tmp_path / "pyproject.toml")
    (told,) = refusal(ConfigError, find_table, tmp_path).problems
    assert told.with_code().startswith(f"pyproject.toml: {problem}")
    assert told.hint == (
        "save the file as UTF-8, without a byte order mark (BOM)" if problem.endswith("TOML") else None
    )


def test_brackets_without_end_are_told_at_their_line(tmp_path: Path) -> None:
    assert found(refused(tmp_path, "a = " + "[" * 5000)) == [("invalid-toml", "pyproject.toml:1")]


@pytest.mark.parametrize("name", ["pyproject.toml", "hatch.toml"])
@pytest.mark.parametrize(
    "deep",
    [
        f"define{'.a' * 500} = 1",
        f"[tool.other]\n# a comment\nx{'.a' * 3000} = 1",
        f"[tool.other{'.a' * 1000}]",
        f"x = {'[' * 101}{']' * 101}",
        f"x = {'{a=' * 101}1{'}' * 101}",
    ],
    ids=["dotted key", "table of another tool", "header", "arrays", "inline tables"],
)
def test_tables_in_tables_without_end_are_told_at_their_line(tmp_path: Path, name: str, deep: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": HOOK, name: f"{HOOK}\n{deep}\nlast = 1\n"})
    line = 3 + deep.count("\n")
    assert found(refusal(ConfigError, find_table, tmp_path)) == [("invalid-toml", f"{name}:{line}")]


def test_tables_in_a_hundred_tables_are_read(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pyproject.toml": f"{OWN}define{'.a' * 98} = 1\n"})
    table, _place, _backend = find_table(tmp_path)
    assert str(table).count("{'a': ") == 98


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b"\xff", 1),
        (f"# \u00e9\r\n{HOOK}# ".encode() + "\u00e9 \u00fc\n\u00e9".encode("latin-1"), 3),
    ],
    ids=["first byte", "latin-1"],
)
def test_a_byte_that_is_not_utf_8_is_told_at_its_line(tmp_path: Path, content: bytes, line: int) -> None:
    write_tree(tmp_path, {"pyproject.toml": content})
    error = refusal(ConfigError, find_table, tmp_path)
    assert found(error) == [("invalid-toml", f"pyproject.toml:{line}")]
    assert error.problems[0].hint == "save the file as UTF-8"


def test_a_project_that_is_no_folder_has_no_file_in_it(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"^a project is a folder, but .*file is a file\n  hint: name"):
        find_table(tmp_path / "file")


@pytest.mark.parametrize("header", ["tool.hatch.build.hooks.cubin", "tool.hatch-cubin"])
def test_a_table_of_a_source_under_its_short_name_is_in_the_wrong_place(tmp_path: Path, header: str) -> None:
    build = HATCHLING if "hooks" in header else ""
    outer = "tool.hatch.build.hooks." if build else ""
    text = f"{build}[{header}]\n[[source]]\npath = 'k.cu'\n[[{outer}module]]\nname = 'm'\n"
    write_tree(tmp_path, {"pyproject.toml": text})
    with pytest.raises(ConfigError) as caught:
        find_table(tmp_path)
    line = text.splitlines().index("[[source]]") + 1
    places = [f"pyproject.toml:{line}", f"pyproject.toml:{line + 2}"]
    assert found(caught.value) == [("table-in-wrong-place", place) for place in places]
    assert [problem.hint for problem in caught.value.problems] == [
        f"write [[{header}.{key}]] in place of this header" for key in ("source", "module")
    ]
