"""The hook for pre-commit: what it names is there, and what it runs finds a wrong table and no other."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from hatch_cubin.cli.main import main
from tests.docs_pages import blocks, page
from tests.helpers import REPOSITORY, pyproject, write_tree

(HOOK,) = yaml.safe_load((REPOSITORY / ".pre-commit-hooks.yaml").read_text("utf-8"))


def test_it_runs_the_command_line_of_this_repository_by_itself() -> None:
    assert {"id", "name", "entry", "language"} <= HOOK.keys()
    assert (HOOK["language"], HOOK["pass_filenames"]) == ("python", False)
    assert shlex.split(HOOK["entry"])[0] == "hatch-cubin"


def test_the_guide_names_it() -> None:
    (text,) = (text for text in blocks(page("guides/ci"), "yaml") if "repos:" in text)
    settings: Any = yaml.safe_load(text)
    assert settings["repos"][0]["hooks"][0]["id"] == HOOK["id"]


@pytest.mark.parametrize(
    ("path", "runs"),
    [
        ("pyproject.toml", True),
        ("packages/a/pyproject.toml", True),
        ("hatch.toml", True),
        ("my-pyproject.toml", False),
        ("pyproject.toml.orig", False),
    ],
)
def test_it_runs_where_a_table_may_have_changed(path: str, *, runs: bool) -> None:
    assert bool(re.search(HOOK["files"], path)) == runs


def test_a_wrong_table_stops_the_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _program, *arguments = shlex.split(HOOK["entry"])
    monkeypatch.chdir(write_tree(tmp_path, {"pyproject.toml": pyproject('archs = ["sm_90"]\n')}))
    assert main(arguments) == 0
    write_tree(tmp_path, {"pyproject.toml": pyproject('arch = ["sm_90"]\n')})
    with pytest.raises(SystemExit, match=r"^1$"):
        main(arguments)
    assert "'arch' is not an option of" in capsys.readouterr().err
