"""The guide to signatures: its table is valid, and what it tells to do, step by step, does what it says."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.common import user_folders
from hatch_cubin.config import toml_positions
from hatch_cubin.config.config import TableLocation, parse_config
from tests.docs_pages import blocks, page
from tests.helpers import SAXPY, TABLE, pyproject, write_tree

GUIDE = page("guides/signing")
ASKS = "HATCH_CUBIN_REQUIRE_SIGNED"
SIGNS = "HATCH_CUBIN_SIGNING_KEY"


def test_the_table_of_the_guide_has_the_line_that_was_printed() -> None:
    (text,) = blocks(GUIDE, "toml")
    (session,) = blocks(GUIDE, "console")
    table: Any = toml_positions.loads(text)
    for key in TABLE:
        table = table[key]
    assert len(parse_config(table, TableLocation("pyproject.toml", text, TABLE), {}).trusted_keys) == 1
    assert session.splitlines()[1] in text.splitlines()


class Project:
    """A project whose builds do not recall each other: each is as on a machine of its own."""

    def __init__(
        self, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        self._root, self._monkeypatch, self._capsys = root, monkeypatch, capsys

    def trust(self, *lines: str) -> None:
        keys = [key for line in lines for key in toml_positions.loads(line)["trusted-keys"]]
        options = f'archs = ["sm_90", "compute_90"]\ntrusted-keys = {json.dumps(keys)}\n'
        files = {"pyproject.toml": pyproject(options), "demo/__init__.py": "", "demo/saxpy.cu": SAXPY}
        write_tree(self._root, files)

    def bake(self, **environ: str) -> tuple[int, str]:
        """Return how many units were compiled, and what was said."""
        shutil.rmtree(user_folders.recall_folder(), ignore_errors=True)
        with self._monkeypatch.context() as patch:
            for name, value in environ.items():
                patch.setenv(name, value)
            self._capsys.readouterr()
            assert main(["bake", "--json", "--project", str(self._root)]) == 0
        said = self._capsys.readouterr()
        return json.loads(said.out)["compiled"], said.err


@pytest.mark.nvrtc
def test_the_steps_of_the_guide_do_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own, users = tmp_path / "own", user_folders.own_folder()
    own.mkdir()
    (own / "headers").symlink_to(users / "headers")
    monkeypatch.setattr(user_folders, "own_folder", lambda: own)

    def keygen(name: str) -> tuple[dict[str, str], str]:
        assert main(["keygen", str(tmp_path / name)]) == 0
        return {SIGNS: f"@{tmp_path / name}"}, capsys.readouterr().out

    project, asks = Project(tmp_path / "project", monkeypatch, capsys), {ASKS: "1"}
    key, line = keygen("key")
    project.trust(line)
    assert project.bake()[0] == 2
    compiled, said = project.bake(**asks, **key)  # what nobody has signed is compiled, and signed then
    (warning,) = re.findall(r"^hatch-cubin: warning: .*$", GUIDE, re.MULTILINE)
    assert (compiled, warning.replace("3", "2") in said.splitlines()) == (2, True)
    assert project.bake(**asks)[0] == 0

    new_key, new_line = keygen("new key")
    project.trust(line, new_line)
    assert project.bake(**asks, **new_key)[0] == 0
    project.trust(new_line)
    assert project.bake()[0] == 2  # whatever the folder is
    assert project.bake(**asks, **new_key)[0] == 2
    assert project.bake(**asks)[0] == 0
