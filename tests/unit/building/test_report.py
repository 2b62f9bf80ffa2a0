"""What a build says of itself."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building.report import report, write_report
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.common.arch_names import expand
from hatch_cubin.compiling.results import Results
from hatch_cubin.planning.unit_plan import Toolchain, plan_modules, plan_units
from hatch_cubin.project.project import Project
from hatch_cubin.project.source import Source
from tests.helpers import read_config
from tests.special_files import a_pipe


def results() -> Results:
    """Return one unit that was cached and two that were compiled."""
    config = read_config("archs = ['sm_80', '9.0+PTX']")
    modules = plan_modules(config, [Source("k.cu", "")], {config.archs: expand(config.archs, (80, 90), ())})
    units = plan_units(modules, Toolchain("NVRTC 13", (80, 90), families=True)).units
    done = {unit: Compiled(b"x" * size, {}) for size, unit in enumerate(units, start=10)}
    return Results(done, {units[0]: 1.23456, units[1]: 0.5})


class Front:
    """A front end that keeps what it was told."""

    def __init__(self, root: Path, **environ: str) -> None:
        self.said: list[str] = []
        self.warned: list[str] = []
        self.project = Project(
            root=root,
            packages={},
            config=read_config(),
            environ=environ,
            inform=self.said.append,
            warn=self.warned.append,
        )


def test_one_line_says_what_was_cached_and_what_was_compiled(tmp_path: Path) -> None:
    front = Front(tmp_path)
    report(front.project, (), results(), 1.75)
    assert front.said == ["3 units: 1 cached, 2 compiled in 1.8 s"]
    assert (front.warned, list(tmp_path.iterdir())) == ([], [])


def test_one_more_says_what_other_machines_have_compiled(tmp_path: Path) -> None:
    front, found = Front(tmp_path), results()
    first, second = found.seconds
    found.workers = {first: "tcp://a:1"}
    report(front.project, (), found, 1.75)
    found.workers = {first: "tcp://b:1", second: "tcp://b:1"} | {
        first._replace(module=replace(first.module, base=f"m{number}")): f"tcp://a:{number}"
        for number in range(9)
    }
    report(front.project, (), found, 1.75)
    shown = ", ".join(f"tcp://a:{number} 1" for number in range(7))
    assert front.said[1::2] == [
        "compiled by other machines: tcp://a:1 1",
        f"compiled by other machines: tcp://b:1 2, {shown}, and 2 more",
    ]


def test_a_report_lists_every_unit_by_name(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    front = Front(tmp_path, HATCH_CUBIN_REPORT=str(path))
    found = results()
    found.workers = {unit: "tcp://a:1" for unit in found.seconds if str(unit.arch) == "sm_80"}
    write_report(front.project, found)
    assert json.loads(path.read_text("utf-8")) == {
        "format": 1,
        "hits": 1,
        "compiled": 2,
        "failed": 0,
        "missing": 0,
        "remote": None,
        "units": [
            {
                "module": "k",
                "arch": "compute_90",
                "state": "hit",
                "hit": True,
                "tier": "local",
                "worker": None,
                "seconds": 0.0,
                "bytes": 12,
            },
            {
                "module": "k",
                "arch": "sm_80",
                "state": "compiled",
                "hit": False,
                "tier": None,
                "worker": "tcp://a:1",
                "seconds": 1.235,
                "bytes": 10,
            },
            {
                "module": "k",
                "arch": "sm_90",
                "state": "compiled",
                "hit": False,
                "tier": None,
                "worker": None,
                "seconds": 0.5,
                "bytes": 11,
            },
        ],
    }
    assert front.warned == []


def test_what_came_from_the_store_behind_the_cache_is_counted_apart(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    front = Front(tmp_path, HATCH_CUBIN_REPORT=str(path))
    found = results()
    found.fetched = {unit for unit in found.done if str(unit.arch) == "compute_90"}
    found.remote = {"url": "https://cache.example", "fetched": 1}
    report(front.project, (), found, 1.75)
    write_report(front.project, found)
    assert front.said == ["3 units: 0 cached, 1 fetched, 2 compiled in 1.8 s"]
    facts = json.loads(path.read_text("utf-8"))
    assert facts["remote"] == {"url": "https://cache.example", "fetched": 1}
    assert [unit["tier"] for unit in facts["units"]] == ["remote", None, None]


@pytest.mark.parametrize("state", ["failed", "missing"])
def test_a_report_has_what_became_of_units_without_a_result_and_nothing_is_said(
    tmp_path: Path, state: str
) -> None:
    path = tmp_path / "report.json"
    front = Front(tmp_path, HATCH_CUBIN_REPORT=str(path))
    found = results()
    unit = next(unit for unit in found.done if str(unit.arch) == "compute_90")
    del found.done[unit]
    if state == "failed":
        found.failed = [(unit, [])]
    else:
        found.missing = [unit]
    report(front.project, (), found, 1.75)
    write_report(front.project, found)
    facts = json.loads(path.read_text("utf-8"))
    counts = {name: facts[name] for name in ("hits", "compiled", "failed", "missing")}
    assert counts == {"hits": 0, "compiled": 2, "failed": 0, "missing": 0} | {state: 1}
    assert facts["units"][0] == {
        "module": "k",
        "arch": "compute_90",
        "state": state,
        "hit": False,
        "tier": None,
        "worker": None,
        "seconds": 0.0,
        "bytes": 0,
    }
    assert (front.said, front.warned) == ([], [])


@pytest.mark.parametrize(
    ("place", "reason"), [("missing/report.json", "No such file or directory"), ("", "Is a directory")]
)
def test_a_report_that_cannot_be_written_is_a_warning(tmp_path: Path, place: str, reason: str) -> None:
    path = str(tmp_path / place)
    front = Front(tmp_path, HATCH_CUBIN_REPORT=path)
    write_report(front.project, results())
    assert front.warned == [f"HATCH_CUBIN_REPORT: {path} cannot be written: {reason}"]


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
def test_a_report_into_a_pipe_that_nobody_reads_is_a_warning(tmp_path: Path) -> None:
    a_pipe(tmp_path / "report.json")
    front = Front(tmp_path, HATCH_CUBIN_REPORT=str(tmp_path / "report.json"))
    write_report(front.project, results())
    what = "cannot be written: the file is a pipe, and no process reads from this file"
    assert front.warned == [f"HATCH_CUBIN_REPORT: {tmp_path}/report.json {what}"]


def test_a_report_that_is_lost_with_an_unpacked_sdist_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    front, absolute = Front(tmp_path, HATCH_CUBIN_REPORT="a.json"), tmp_path / "b.json"
    write_report(front.project, results())
    assert front.warned == []
    (tmp_path / "PKG-INFO").touch()
    write_report(front.project, results())
    write_report(Front(tmp_path, HATCH_CUBIN_REPORT=str(absolute)).project, results())
    assert (len(front.warned), absolute.exists()) == (1, True)
    assert front.warned[0].startswith("HATCH_CUBIN_REPORT: a.json is in an unpacked sdist, ")
