"""`bake --shard`: jobs that know nothing of each other compile each unit of a project once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.building import sharding
from hatch_cubin.cli.main import main
from tests.command_line import Command
from tests.helpers import SAXPY, SCALE, Coded, make_project, pyproject, write_tree

pytestmark = pytest.mark.nvrtc

OPTIONS = """\
archs = ["sm_90", "compute_90"]
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/scale.cu"
instantiate = ["scale<float, 4>"]
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/wide.cu"
variants = { N = [1, 2] }
"""
FILES = {
    "pyproject.toml": pyproject(OPTIONS),
    "demo/__init__.py": "",
    "demo/saxpy.cu": '#include "large.h"\n' + SAXPY,
    "demo/large.h": f"// {'x' * 1_000_000}\n",
    "demo/scale.cu": SCALE,
    "demo/wide.cu": 'extern "C" __global__ void wide(int *x) { *x = N; }\n',
}
MODULES = ["saxpy", "scale", "wide[N=1]", "wide[N=2]"]
UNITS = {(module, arch) for module in MODULES for arch in ("sm_90", "compute_90")}
Unit = tuple[str, str]


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(write_tree(tmp_path / "project", FILES))
    return tmp_path / "project"


@pytest.fixture
def bake(capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(*options: str) -> Any:
        capsys.readouterr()
        assert main(["bake", "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def units(facts: Any) -> list[Unit]:
    return [(unit["module"], unit["arch"]) for unit in facts["units"]]


def split(bake: Any, count: int, *options: str) -> list[list[Unit]]:
    return [units(bake("--shard", f"{number}/{count}", *options)) for number in range(1, count + 1)]


def weights_file(root: Path, **seconds: float) -> str:
    """Write a report in which modules took so many seconds."""
    found = [{"module": module, "arch": "sm_90", "seconds": took} for module, took in seconds.items()]
    (root / "weights.json").write_text(json.dumps({"format": 1, "units": found}))
    return "weights.json"


def test_each_unit_is_in_one_shard_and_stays_there_whatever_is_cached(root: Path, bake: Any) -> None:
    cold = split(bake, 3)
    assert sorted(unit for part in cold for unit in part) == sorted(UNITS)
    assert split(bake, 3) == cold
    shutil.rmtree(os.environ["HATCH_CUBIN_CACHE_DIR"])
    bake("--only", "saxpy")
    assert split(bake, 3) == cold
    assert main(["lock"]) == 0
    assert split(bake, 3) == cold  # the lock alone, without the compiler's headers, could not tell
    assert split(bake, 3, "--locked") == cold


def test_what_one_compile_serves_stays_together_and_so_do_variants(bake: Any) -> None:
    parts = split(bake, 2)
    assert [{module for module, _arch in part} for part in parts] == [
        {"saxpy"},
        {"scale", "wide[N=1]", "wide[N=2]"},
    ]


def test_the_facts_say_what_the_shards_weigh(bake: Any, capsys: pytest.CaptureFixture[str]) -> None:
    small = 30 + len(FILES["demo/wide.cu"]) // 100
    scale, saxpy = 30 + 50 + len(SCALE) // 100, 30 + len(FILES["demo/saxpy.cu"]) // 100 + 1_000_004 // 5000
    weights = [saxpy, scale + 2 * small]
    assert bake("--shard", "2/2")["shard"] == {"number": 2, "of": 2, "weights": weights}
    assert main(["bake", "--shard", "2/2"]) == 0
    part = weights[1] / sum(weights)
    assert f"shard 2/2: 6 of 8 units, {part:.1%} of the work\n" in capsys.readouterr().err


def test_a_shard_for_which_nothing_is_left_is_done(bake: Any) -> None:
    facts = bake("--shard", "5/5")
    assert (facts["units"], facts["shard"]["weights"][4]) == ([], 0)


def test_only_and_archs_narrow_what_is_shared(bake: Any) -> None:
    parts = split(bake, 2, "--only", "wide*", "--archs", "sm_90")
    assert sorted(unit for part in parts for unit in part) == [("wide[N=1]", "sm_90"), ("wide[N=2]", "sm_90")]


def test_folders_of_shards_unite_by_copying(
    root: Path, tmp_path: Path, bake: Any, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    """Each has what its shard made, and nothing else; what no shard made is named."""
    whole = tmp_path / "whole"
    for number in (1, 2, 3):
        folder = tmp_path / f"cache {number}"
        monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(folder))
        bake("--only", "saxpy")  # of an earlier run
        made = units(bake("--shard", f"{number}/3"))
        assert command("cache", "gc", "--keep-last-build").code == 0
        assert len([path for path in folder.glob("entries/*/*") if path.is_file()]) == 2 * len(made)
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(whole))
    for number in (1, 3):
        shutil.copytree(tmp_path / f"cache {number}", whole, dirs_exist_ok=True)
    ended = command("bake", "--require-hits")
    assert ended.code == 1
    assert "scale for sm_90, compute_90 is not in the cache" in ended.err
    shutil.copytree(tmp_path / "cache 2", whole, dirs_exist_ok=True)
    assert bake("--require-hits")["hits"] == 8


def test_a_shard_that_may_compile_nothing_names_its_own_units(command: Command) -> None:
    ended = command("bake", "--shard", "1/2", "--require-hits")
    assert ended.code == 1
    said = ended.err
    assert "saxpy for sm_90, compute_90 is not in the cache" in said
    assert "scale for" not in said


def test_the_seconds_of_an_earlier_build_weigh_more_than_any_guess(root: Path, bake: Any) -> None:
    known = dict(zip(MODULES, (0.1, 9.0, 4.0, 5.2), strict=True))
    facts = bake("--shard", "1/2", "--weights", weights_file(root, **known))
    assert facts["shard"]["weights"] == [9000, 9300]
    assert {module for module, _arch in units(facts)} == {"scale"}


def test_a_report_of_a_build_is_a_file_of_weights(
    root: Path, bake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One for each shard does as well as one of all; a compile that serves two units counts once."""
    took: dict[str, int] = {}
    for number in (1, 2):
        monkeypatch.setenv("HATCH_CUBIN_REPORT", f"report {number}.json")
        took |= {
            unit["module"]: round(1000 * unit["seconds"]) for unit in bake("--shard", f"{number}/2")["units"]
        }
    monkeypatch.delenv("HATCH_CUBIN_REPORT")
    facts = bake("--shard", "1/1", "--weights", "report 1.json", "--weights", "report 2.json")
    assert facts["shard"]["weights"] == [sum(took.values())]


def test_what_a_report_lacks_is_guessed_and_told_once(root: Path, bake: Any, command: Command) -> None:
    weights = weights_file(root, **{"wide[N=1]": 3.0, "scale": 0.0})
    ended = command("bake", "--shard", "1/2", "--weights", weights)
    assert (
        ended.code,
        ended.err.count("3 of 4 compiles are not in the reports, so their times are estimated\n"),
    ) == (0, 1)
    assert sum(bake("--shard", "1/2", "--weights", weights)["shard"]["weights"]) > 3000


CODE = "not-a-build-report"


@pytest.mark.parametrize(
    ("content", "code", "what"),
    [
        (None, "file-not-readable", ""),
        ("{", CODE, "is not a build report"),
        ("[]", CODE, ""),
        ('{"units": [{"module": "saxpy", "arch": "sm_90"}]}', CODE, ""),
        *(
            (
                f'{{"units": [{{"module": "saxpy", "arch": "sm_90", "seconds": {each}}}]}}',
                CODE,
                "",
            )
            for each in ("-1", "NaN", "1e999")
        ),
        (
            '{"units": [{"module": "other", "arch": "sm_90", "seconds": 1}]}',
            "report-of-other-project",
            "is the report of another project: it contains no module of this project",
        ),
    ],
)
def test_a_file_that_says_nothing_of_this_project_is_refused(
    root: Path, command: Command, content: str | None, code: str, what: str
) -> None:
    if content is not None:
        (root / "w.json").write_text(content)
    (error,) = command("bake", "--shard", "1/2", "--weights", "w.json").errors
    assert error == Coded(
        code, "w.json", what, "hint: a build with HATCH_CUBIN_REPORT=FILE writes a report to this file"
    )


def test_weights_without_a_shard_are_refused(command: Command) -> None:
    what = "--weights changes nothing without --shard [option-without-effect]"
    assert command("bake", "--weights", "w.json").errors == [f"hatch-cubin: error: {what}"]


def test_a_header_of_several_sources_weighs_as_much_for_each(root: Path, bake: Any) -> None:
    write_tree(root, {"demo/other.cu": '#include "large.h"\n#include "own.h"\n' + SAXPY, "demo/own.h": ""})
    saxpy, other = (FILES["demo/saxpy.cu"], (root / "demo/other.cu").read_text())
    weights = [30 + len(text) // 100 + len(FILES["demo/large.h"]) // 5000 for text in (saxpy, other)]
    facts = bake("--shard", "1/2", "--only", "saxpy", "--only", "other", "--archs", "sm_90")
    assert sorted(facts["shard"]["weights"]) == sorted(weights)


def test_a_header_that_is_gone_by_then_weighs_nothing(root: Path) -> None:
    """The compile tells what is wrong."""
    headers = sharding._Headers(make_project(root, {}))
    job = SimpleNamespace(search=(), closure=SimpleNamespace(files={"project/demo/gone.h": ""}))
    assert headers.bytes_of(job) == 0  # type: ignore[arg-type]
