"""A benchmark that does not run says nothing: the quickest of them is run, and its projects are built."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.helpers import REPOSITORY, run

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]


def test_the_quickest_benchmark_measures_each_of_its_rows(tmp_path: Path) -> None:
    script, table = REPOSITORY / "benchmarks/builds.py", tmp_path / "table.json"
    run(sys.executable, script, "--quick", "--only", "starts", "--json", table, cwd=tmp_path)
    rows = json.loads(table.read_text("utf-8"))["rows"]
    assert [(row["what"], row["ours"] > 0, row["theirs"] > 0) for row in rows] == [
        (what, True, True)
        for what in ("hatch-cubin --help", "a configuration error", "hook, 3 kernels, all cached")
    ]
