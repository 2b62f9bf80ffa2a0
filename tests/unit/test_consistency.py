"""What is said twice agrees: versions, documented settings, examples, names of tests."""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import re
from collections.abc import Collection
from itertools import combinations
from typing import Any

import pytest

import hatch_cubin
from hatch_cubin import loader
from hatch_cubin.building import report
from hatch_cubin.bundle import layout
from hatch_cubin.cache import records
from hatch_cubin.config import config, reader, toml_positions
from tests.docs_pages import section
from tests.helpers import REPOSITORY
from tests.python_matrix import BETWEEN, ON_THE_NEWEST, ON_THE_OLDEST

from .test_layering import PACKAGE, ROOMS

README = (REPOSITORY / "README.md").read_text("utf-8")
ARCHITECTURE = (REPOSITORY / "ARCHITECTURE.md").read_text("utf-8")
CHANGELOG = (REPOSITORY / "CHANGELOG.md").read_text("utf-8")
MARKS = ("build", "counted", "faults", "nvrtc", "property", "ships", "standin", "text")
MORE = ("", " nvrtc", " counted", " nvrtc counted")


def _toml_of(path: str) -> dict[str, Any]:
    return toml_positions.loads((REPOSITORY / path).read_text("utf-8"))


# Versions


def test_the_version_is_the_same_everywhere() -> None:
    version = hatch_cubin.__version__
    assert importlib.metadata.version("hatch-cubin") == version
    assert {"name": "hatch-cubin", "version": version} == layout.GENERATOR
    pyproject = _toml_of("pyproject.toml")
    assert pyproject["tool"]["hatch"]["version"] == {"path": "hatch_cubin/__init__.py"}
    assert pyproject["project"]["dynamic"] == ["version"]


def test_the_changelog_has_a_place_for_this_version() -> None:
    headings = re.findall(r"^## \[?([^\]\s]+)", CHANGELOG, re.MULTILINE)
    assert {"Unreleased", hatch_cubin.__version__} & set(headings[:2])


def test_the_changelog_names_the_bundles_format() -> None:
    (number, *_older) = re.findall(r"^Bundle format: (\d+)\.$", CHANGELOG, re.MULTILINE)
    assert number == str(loader.FORMAT)


def test_the_oldest_python_is_the_same_everywhere() -> None:
    pyproject = _toml_of("pyproject.toml")
    assert pyproject["project"]["requires-python"] == ">=3.10"
    assert pyproject["tool"]["mypy"]["python_version"] == "3.10"
    assert pyproject["tool"]["hatch"]["envs"]["test"]["matrix"][0]["python"][0] == "python3.10"
    assert "Python 3.10 or newer" in README


# Settings


def test_every_key_is_a_field_of_the_configuration_and_every_field_a_key() -> None:
    def fields(kind: type) -> set[str]:
        return {field.name.replace("_", "-") for field in dataclasses.fields(kind)}

    # Where the table stands, the environment, the command line.
    from_elsewhere = {"place", "replaced", "timeout-s", "executor", "recheck"}
    assert fields(config.Config) - from_elsewhere == {*reader._CHECKS, *reader._WRAPPER_CHECKS}
    # `as` is a word of Python's own, and the options of a call are kept beside the settings that they mean.
    renamed = {"front": "as", "call-options": "options"}
    of_sources = {renamed.get(name, name) for name in fields(config.SourceRule) - {"undefined"}}
    assert of_sources == set(reader._SOURCE_CHECKS)


# Examples


def _hook_table(pyproject: dict[str, Any]) -> object:
    return pyproject["tool"]["hatch"]["build"]["hooks"]["cubin"]


def test_the_readmes_example_is_the_example_project() -> None:
    blocks = [toml_positions.loads(block) for block in re.findall(r"```toml\n(.*?)```", README, re.DOTALL)]
    example = next(block for block in blocks if "build-system" in block)
    project = _toml_of("example_project/pyproject.toml")
    assert _hook_table(example) == _hook_table(project)
    assert example["build-system"] == project["build-system"]


# Names of tests and modules


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`(?:tests/)?((?:\w+/)*test_\w+\.py)`", ARCHITECTURE)))
)
def test_a_test_that_the_architecture_names_is_there(name: str) -> None:
    assert (REPOSITORY / "tests" / name).is_file()


@pytest.mark.parametrize(
    "name", sorted(set(re.findall(r"`(?!tests/)((?:\w+/)*\w+\.py)`", ARCHITECTURE)) - {"setup.py"})
)
def test_a_module_that_the_architecture_names_is_there(name: str) -> None:
    assert [*PACKAGE.glob(name), *(REPOSITORY / "tests").rglob(name)]


def _plate(room: str) -> str:
    """Return what a room says of itself: the first line of its `__init__`, or of its one module."""
    file = PACKAGE / room / "__init__.py" if (PACKAGE / room).is_dir() else PACKAGE / f"{room}.py"
    return (ast.get_docstring(ast.parse(file.read_text("utf-8"))) or "").partition("\n")[0]


def test_the_architecture_maps_the_rooms_as_they_are() -> None:
    table = section(ARCHITECTURE, "## Rooms")
    rows = [line.strip("| ").split(" | ") for line in table.splitlines() if line.startswith("| `")]
    named = {room: f"{room}/" if (PACKAGE / room).is_dir() else f"{room}.py" for room in ROOMS}
    assert rows == [[f"`{named[room]}`", _plate(room), ROOMS[room] or "nothing"] for room in reversed(ROOMS)]


# Promises

PROOFS = (
    "'verify' proves that a wheel's files agree with each other, and that the wheel's loader comes from a",
    "Only 'verify --rebuild' proves that every file that hatch-cubin put into the wheel is what the project",
    "For files that hatch-cubin did not make, such as the package's own '__init__.py', only a signature",
    "only a signature proves that nobody changed them. RECORD protects only against damage.",
)


@pytest.mark.parametrize(
    "path",
    [
        *("README.md", "SECURITY.md", "docs/threat-model.md", "docs/guides/looking-into-wheels.md"),
        *("docs/reference/command-line.md", "hatch_cubin/cli/verbs/verify.py"),
    ],
)
def test_what_verify_proves_is_said_in_the_same_words_everywhere(path: str) -> None:
    text = " ".join((REPOSITORY / path).read_text("utf-8").replace("`", "'").split())
    assert [proof for proof in PROOFS if proof not in text] == []


def test_formats_are_numbers_that_only_grow() -> None:
    assert (loader.FORMAT, records._FORMAT, report.FORMAT) == (3, 2, 1)


def test_the_readme_and_the_architecture_fit_the_lines() -> None:
    for text in (README, ARCHITECTURE):
        assert [line for line in text.splitlines() if len(line) > 120 and not line.startswith("|")] == []


# The matrix


BOTH = {"oldest", "newest"}
ALL = {*BOTH, "between"}
NEWEST = {"newest"}


@pytest.mark.parametrize(
    ("marks", "expected"),
    [
        ("", BOTH),
        ("counted", BOTH),
        ("ships", ALL),
        ("ships counted", ALL),
        ("standin ships", ALL),
        ("nvrtc", NEWEST),
        ("nvrtc counted", NEWEST),
        ("nvrtc ships", NEWEST),
        ("build", {"oldest"}),
        ("build nvrtc", {"oldest"}),
        ("build counted", BOTH),
        ("build nvrtc counted", BOTH),
        *(
            (f"{folder}{more}", NEWEST)
            for folder in ("faults", "property", "standin", "text")
            for more in MORE
        ),
    ],
)
def test_each_test_runs_on_one_interpreter_on_two_or_on_all(marks: str, expected: set[str]) -> None:
    assert interpreters(marks.split()) == expected


def test_no_test_runs_nowhere() -> None:
    some = (marks for count in range(len(MARKS) + 1) for marks in combinations(MARKS, count))
    assert [marks for marks in some if not interpreters(marks)] == []


def interpreters(marks: Collection[str]) -> set[str]:
    """Return which interpreters run a test with these marks."""
    shares = {
        "oldest": ON_THE_OLDEST,
        "between": BETWEEN,
        "newest": ON_THE_NEWEST,
    }
    names = {mark: mark in marks for mark in MARKS}
    return {where for where, share in shares.items() if eval(share, {}, names)}  # noqa: S307
