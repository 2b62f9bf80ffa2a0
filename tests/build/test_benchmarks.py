"""A benchmark that does not run says nothing: the quickest of them is run, and its projects are built."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.helpers import REPOSITORY, run

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]


def test_the_quickest_benchmark_measures_its_rows_and_draws_what_is_gained(tmp_path: Path) -> None:
    script, table, plot = REPOSITORY / "benchmarks/builds.py", tmp_path / "table.json", tmp_path / "plot.svg"
    options = ("--quick", "--only", "loader", "--json", table, "--plot", plot)
    printed = run(sys.executable, script, *options, cwd=tmp_path).stdout
    rows = {row["peer"]: row for row in json.loads(table.read_text("utf-8"))["rows"]}
    assert set(rows) == {"", "compiling at run time"}
    row = rows["compiling at run time"]
    assert row["what"] == "a kernel's bytes, in a new process"
    assert row["ours"] > 0
    assert row["theirs"] > 0
    (line,) = printed.rpartition("\n\n")[2].splitlines()
    assert line.startswith("compiling at run time ")
    assert line.endswith(f"({row['what']})")
    drawn = [each.text for each in ET.parse(plot).iter() if each.text and each.text.strip()]  # noqa: S314
    assert drawn[3] == "compiling at run time"
    assert drawn[4] in line
