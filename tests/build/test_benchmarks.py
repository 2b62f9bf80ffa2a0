"""A benchmark that does not run says nothing: the quickest of them is run, and its projects are built."""

from __future__ import annotations

import importlib
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


def test_the_quick_comparison_of_code_has_every_kernel_of_both_sides(tmp_path: Path) -> None:
    script, table = REPOSITORY / "benchmarks/machine_code.py", tmp_path / "table.json"
    options = ("--quick", "--folder", tmp_path / "kept", "--json", table)
    printed = run(sys.executable, script, *options, cwd=tmp_path).stdout
    rows = json.loads(table.read_text("utf-8"))
    kernels = {what: {row["kernel"] for row in rows if row["what"] == what} for what in ("cu", "ptx")}
    assert len(kernels["cu"]) == 12
    assert kernels["ptx"] == kernels["cu"]
    assert all(row["ours"] and row["theirs"] for row in rows)
    for row in rows:
        if row["what"] == "ptx":  # the same program assembles both
            assert row["codes"][0] == row["codes"][1]
    assert "Of 2 .ptx files 2 gave the same file as ptxas does" in printed
    assert "cuobjdump -res-usage says the same of 24 of 24 kernels." in printed


def test_a_kernel_of_one_side_is_listed_and_any_larger_figure_makes_it_worse(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(REPOSITORY / "benchmarks")
    code = importlib.import_module("machine_code")
    less, more = code.Figures(16, 0, 0, 0, 0, 640), code.Figures(15, 0, 0, 0, 0, 768)
    sides = {
        "equal": (less, less),
        "worse": (more, less),
        "only ours": (less, None),
        "only theirs": (None, less),
    }
    sides["better"] = (less._replace(registers=8), less)
    rows = [code.Row("cu", "a", "sm_80", verdict, *pair, ("", "")) for verdict, pair in sides.items()]
    assert [row.verdict for row in rows] == list(sides)
    assert code.totals(rows).splitlines()[-1] == "| .cu | sm_80 | 5 | 5 | 1 | 1 | 1 | 2 |"
    assert "| a: `worse` | sm_80 | worse | 15, 16 | 0 | 0 | 0 | 0 | 768, 640 |" in code.listed(rows)
    assert "| a: `only ours` | sm_80 | only ours | 16, - |" in code.listed(rows)
