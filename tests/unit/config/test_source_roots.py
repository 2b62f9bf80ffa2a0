"""The names and the ways of folders above the project, as the table may have them."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.config import suggestions
from hatch_cubin.errors import ConfigError
from tests.helpers import pyproject, read_config, refusal, write_tree

LINE = pyproject("").count("\n") + 1  # the table's first
WAY = "must be a path to a folder above the project, such as '../csrc', not"
FROM_PROJECT = "aths must be relative to the project's folder"
NAME = "must be a name of letters, digits, '_', '.' and '-', such as 'csrc'"


def told(options: str) -> list[str]:
    lines = str(refusal(ConfigError, read_config, options)).splitlines()
    return [line.removeprefix(f"pyproject.toml:{LINE}: ") for line in lines]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        *(
            (f"csrc = '{way}'", f"csrc {WAY} {way!r}")
            for way in ("csrc", ".", "..", "../..", "/csrc", "~/csrc", "C:/csrc", "../a/../b", "a/../..")
        ),
        (r"csrc = '..\csrc'", r"csrc '..\\csrc' must be written with '/'"),
        ("csrc = ''", "csrc must be a string that is not empty, not ''"),
        ("csrc = ['../csrc']", "csrc must be a string that is not empty, not ['../csrc']"),
        *(
            (f"'{name}' = '../csrc'", f"{name} {NAME}")
            for name in ("a/b", "..", ".csrc", "_cubins", "csrc.", "c src", "-c", "")
        ),
        (
            "csrc = '../csrc', CSRC = '../other'",
            "CSRC differs from another name only in case, and some file systems ignore case",
        ),
    ],
)
def test_what_is_no_name_or_no_way_to_a_folder_above_is_refused(written: str, message: str) -> None:
    assert told(f"source-roots = {{ {written} }}") == [f"source-roots.{message}"]


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        ("'../csrc'", '{ csrc = "../csrc" }'),
        ("['../csrc/', '../../third_party']", '{ csrc = "../csrc", third_party = "../../third_party" }'),
        ("'csrc'", None),
        ("['../a/x', '../b/x']", None),
        ("[]", None),
        ("1", None),
    ],
)
def test_folders_without_names_are_shown_with_their_own(value: str, meant: str | None) -> None:
    _what, *hint = told(f"source-roots = {value}")
    assert hint == ([f"  hint: source-roots = {meant}"] if meant else [])


@pytest.mark.parametrize("key", ["sources", "include-dirs"])
def test_a_path_above_the_project_is_shown_in_a_source_root(key: str) -> None:
    assert told(f'{key} = ["../../csrc/x/*", "../third"]') == [
        f"{key}: '../../csrc/x/*' must be a relative path inside the project",
        """  hint: add csrc = "../../csrc" to 'source-roots', then write this path as "csrc/x/*\"""",
        f"{key}: '../third' must be a relative path inside the project",
        """  hint: add third = "../third" to 'source-roots', then write this path as "third\"""",
    ]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("../include", "did you mean 'src/include'? Paths must be relative to the project's folder"),
        (
            "../../include/a.h",
            "did you mean 'src/include/a.h'? Paths must be relative to the project's folder",
        ),
        ("../*/a.h", None),
        ("../include/*.h", f"did you mean '**/include/*.h'? P{FROM_PROJECT}"),
        ("../lib", f"there is no '../lib' here: p{FROM_PROJECT}"),
        ("../lib.a", f"there is no '../lib.a' here: p{FROM_PROJECT}"),
        ("../above/x", """add above = "../above" to 'source-roots', then write this path as "above/x\""""),
    ],
)
def test_a_path_that_is_relative_to_a_source(tmp_path: Path, path: str, hint: str | None) -> None:
    write_tree(tmp_path, {"project/src/include/a.h": "", "above/x/b.h": ""})
    assert suggestions.above(path, str(tmp_path / "project"), is_file=True) == hint
