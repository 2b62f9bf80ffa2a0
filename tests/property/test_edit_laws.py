"""Laws of what `hatch-cubin init` does to files that people wrote."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hatch_cubin.cli.main import main
from hatch_cubin.config import toml_positions
from hatch_cubin.config.config import parse_config
from hatch_cubin.config.table_location import find_table
from hatch_cubin.frontends.open_project import missing_build_system
from tests.helpers import write_tree

from . import strategies as some

# How people write what `init` adds to, at the beginning of a file and as tables further down.
SYSTEMS = {
    "hatch": [
        'build-system = { requires = ["hatchling"], build-backend = "hatchling.build" }\n',
        'build-system.requires = [ "hatchling" , ]\nbuild-system.build-backend = "hatchling.build"\n',
        '[build-system]\nrequires = ["hatchling"] # [x]\nbuild-backend = "hatchling.build"\n\n',
        "[build-system]\nbuild-backend = 'hatchling.build'\nrequires = [\n\t'hatchling', # '\n\t# more\n]\n",
        '[ build-system ]\nrequires = [\n  "hatch_cubin>=0.1"\n]\n"build-backend"="hatchling.build"\n',
        '[build-system]\nrequires = ["a",\n            "hatchling"]\nbuild-backend = "hatchling.build"\n',
    ],
    "setuptools": [
        "# none\n",
        '[build-system]\nrequires = [\n    "setuptools>=64" # why\n]\n',
        '[build-system]\nrequires = []\nbuild-backend = "setuptools.build_meta"\n',
    ],
    "other": [
        '[build-system]\nrequires = ["flit_core"]\nbuild-backend = "flit_core.buildapi"\n',
        "build-system = { build-backend = 'b:x', backend-path = [\"t\"], requires = [] }\n",
        "[build-system]\nbackend-path=[\n  '.', # here\n]\nrequires = ['x']\nbuild-backend = \"b\"#x\n",
    ],
}
TABLES = [
    '[tool.uv]\ncache-keys = [{ file = "pyproject.toml" }, { git = true }]\n',
    '[tool.uv]\ncache-keys = [\n  { file = "x" }, # x\n]\n',
    "[tool.uv]\n# keys\n\n[tool.uv.pip]\nx = nan\n",
    '[[tool.uv.cache-keys]]\nfile = "x"\n',
    '[[tool.uv.index]]\nname = "x"\n\n# end',
    "[tool]\nuv.managed = true\n",
    "[tool]\nuv = { managed = true }\nhatch = {}\n",
    "[tool]\nuv.cache-keys = [ ]\n",
    "[tool.hatch.build]\nhooks.version.path = 'x'\n",
    "[tool.hatch.build.hooks]\nvcs = { version-file = 'x' }\n",
    "[tool.hatch.build.targets.wheel]\npackages = ['src/demo']\n",
    "[tool.hatch.build.targets.wheel.hooks.cubin]\narchs = ['sm_90']\n",
    "[tool.hatch.build.hooks.cubin]\n",
    "[tool.hatch-cubin]\njobs = 1\n",
    "[tool.'hatch']\nversion.path = '''\n[tool.uv]\n'''\n",
]


@st.composite
def pyprojects(draw: st.DrawFn) -> str:
    """Return the text of a pyproject.toml, whatever backend it names and however it is laid out."""
    system = draw(st.sampled_from([text for texts in SYSTEMS.values() for text in texts]))
    foreign = "[tool.hatch-cubin]" if "hatchling.build" in system else "hooks.cubin]"  # refused
    known = [table for table in TABLES if foreign not in table]
    tables = draw(st.lists(st.sampled_from(known), max_size=3, unique=True))
    middle, _lines = draw(some.toml_texts())
    end = [] if system.startswith("build-system") else [system]
    text = "".join([*([] if end else [system]), middle, *draw(st.permutations([*tables, *end]))])
    if draw(st.booleans()):
        text = text.replace("\r\n", "\n").replace("\n", "\r\n")
    return text.rstrip("\r\n") if draw(st.booleans()) else text


def is_toml(text: str) -> bool:
    try:
        toml_positions.loads(text)
    except ValueError:
        return False
    return True


def init(root: Path, files: Mapping[str, str]) -> dict[str, bytes]:
    """Return what the files are after `hatch-cubin init`."""
    write_tree(root, files)
    assert main(["init", "--project", str(root)]) == 0
    return {path.name: path.read_bytes() for path in root.iterdir() if path.is_file()}


def only_crlf(text: str) -> bool:
    return "\r\n" in text and "\n" not in text.replace("\r\n", "")


def is_subsequence(lines: Sequence[Any], others: Sequence[Any]) -> bool:
    rest = iter(others)
    return all(line in rest for line in lines)


@settings(max_examples=150, deadline=None)
@given(pyprojects().filter(is_toml))
def test_what_a_project_had_stays_and_what_it_gets_is_valid(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        write_tree(root, {"pyproject.toml": text})
        if missing_build_system(root) is not None:  # the project must first name its backend
            with pytest.raises(SystemExit):
                main(["init", "--project", folder])
            assert (root / "pyproject.toml").read_bytes() == text.encode()
            return
        after = init(root, {})
        result = after["pyproject.toml"].decode()
        wraps = 'build-backend = "hatch_cubin.backend"' in result  # what was there is another value now
        assert wraps or is_subsequence(text, result)
        # An array or a table that is one line gets longer; all other lines are as they were.
        # The end of an array of several lines says nothing: the array itself may have been replaced.
        lines = [line for line in text.splitlines() if line.strip() != "]"]
        kept = [line for line in lines if line in result.splitlines()]
        assert is_subsequence(kept, result.splitlines())
        assert len(lines) - len(kept) <= (6 if wraps else 3)
        assert only_crlf(text) == only_crlf(result)
        parse_config(*find_table(root)[:2], {})
        assert init(root, {}) == after
