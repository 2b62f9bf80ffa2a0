"""The verbs `plan` and `bake`, with the real compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cli.main import main
from tests.command_line import Command
from tests.helpers import SAXPY, SCALE, Coded, pyproject, write_tree

pytestmark = pytest.mark.nvrtc

TWO = 'archs = ["sm_80", "sm_90"]\n'
RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/scale.cu"\ninstantiate = ["scale<float, 4>"]\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY, "demo/scale.cu": SCALE}
    return write_tree(tmp_path, {"pyproject.toml": pyproject(TWO + RULE), **files})


@pytest.fixture
def facts(root: Path, command: Command) -> Any:
    def ask(verb: str, *options: str) -> Any:
        ended = command(verb, "--project", root, "--json", *options)
        assert ended.code == 0
        return json.loads(ended.out)

    return ask


def _states(answer: Any) -> list[tuple[str, str, str]]:
    return [(unit["module"], unit["arch"], unit["state"]) for unit in answer["units"]]


def test_a_plan_compiles_nothing_and_a_bake_turns_its_misses_into_hits(facts: Any) -> None:
    units = [(module, arch) for module in ("saxpy", "scale") for arch in ("sm_80", "sm_90")]
    for _time in range(2):
        assert _states(facts("plan")) == [(*unit, "miss") for unit in units]
    assert _states(facts("bake")) == [(*unit, "compiled") for unit in units]
    assert _states(facts("bake")) == [(*unit, "hit") for unit in units]
    plan = facts("plan")
    assert _states(plan) == [(*unit, "hit") for unit in units]
    assert (plan["hits"], plan["misses"]) == (4, 0)


def test_a_plan_has_the_keys_that_the_cache_and_cuda_core_are_asked_for(facts: Any) -> None:
    units = facts("plan")["units"]
    assert len({unit["key"] for unit in units}) == 4
    assert {unit["source"]: unit["program_key"] is None for unit in units} == {
        "demo/saxpy.cu": False,
        "demo/scale.cu": True,  # a template has no such key
    }


def test_a_plan_for_people_is_a_table(root: Path, capsys: pytest.CaptureFixture[str], facts: Any) -> None:
    keys = [unit["key"][:16] for unit in facts("plan")["units"]]
    assert main(["plan", "--project", str(root)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"saxpy  sm_80  miss  demo/saxpy.cu  {keys[0]}",
        f"saxpy  sm_90  miss  demo/saxpy.cu  {keys[1]}",
        f"scale  sm_80  miss  demo/scale.cu  {keys[2]}",
        f"scale  sm_90  miss  demo/scale.cu  {keys[3]}",
        "4 units: 0 in the cache, 4 to compile",
    ]


def test_a_bake_for_people_says_one_line_on_standard_error(root: Path, command: Command) -> None:
    said = command("bake", "--project", root, "--only", "saxpy", "--archs", "sm_90")
    assert said.code == 0
    assert said.out == ""
    assert said.err.startswith("hatch-cubin: 1 unit: 0 cached, 1 compiled in ")


@pytest.mark.parametrize(
    ("globs", "modules"),
    [
        (["saxpy"], {"saxpy"}),
        (["demo/s*.cu"], {"saxpy", "scale"}),
        (["**/scale.cu"], {"scale"}),
        (["saxpy", "scale"], {"saxpy", "scale"}),
    ],
)
def test_a_part_can_be_baked_alone(facts: Any, globs: list[str], modules: set[str]) -> None:
    baked = facts("bake", *(part for glob in globs for part in ("--only", glob)))
    assert {unit["module"] for unit in baked["units"]} == modules


def test_a_part_that_does_not_exist_is_an_error(root: Path, command: Command) -> None:
    (error,) = command("bake", "--project", root, "--only", "nix").errors
    assert error == (
        "hatch-cubin: error: --only nix does not match any source or module [only-matches-nothing]\n"
        "  hint: sources: demo/saxpy.cu, demo/scale.cu"
    )


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_an_arch_of_an_option_is_told_under_the_name_of_the_option(
    root: Path, command: Command, monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    (error,) = command(verb, "--project", root, "--archs", "sm_35").errors
    assert error.startswith("hatch-cubin: error: --archs: NVRTC ")


def test_an_executor_of_an_option_is_told_under_the_name_of_the_option(root: Path, command: Command) -> None:
    (error,) = command("bake", "--project", root, "--executor", "no_such_module:function").errors
    assert error.startswith("hatch-cubin: error: --executor: no_such_module:function cannot be imported: ")


def test_only_accepts_any_spelling_of_a_path(root: Path, facts: Any) -> None:
    for path in ("demo/saxpy.cu", "./demo/saxpy.cu", str(root / "demo/saxpy.cu")):
        assert {unit["module"] for unit in facts("bake", "--only", path)["units"]} == {"saxpy"}


def test_only_hits_can_be_required(facts: Any, root: Path, command: Command) -> None:
    facts("bake", "--only", "saxpy")
    values = ("scale for sm_80, sm_90 ", "--require-hits is set", "'hatch-cubin explain demo/scale.cu'")
    errors = command("bake", "--project", root, "--require-hits", "--jobs", "1").errors
    assert errors == [Coded("not-in-cache", "demo/scale.cu", *values)]


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_what_the_projects_own_build_would_end_with_is_told(root: Path, command: Command, verb: str) -> None:
    text = pyproject(TWO, requires='"hatchling"')
    more = '[tool.hatch.build.targets.wheel]\npackages = ["demo", "more"]\n'
    write_tree(root, {"pyproject.toml": text + more, "more/__init__.py": ""})
    ended = command(verb, "--project", root)
    assert ended.errors == [
        Coded("hatch-cubin-not-required", "pyproject.toml:2", 'requires = ["hatchling", "hatch-cubin"]'),
        Coded("package-not-chosen", "pyproject.toml:9", "'demo', 'more'"),
    ]
    assert ended.err.endswith("\nhatch-cubin: 2 errors\n")


def test_a_job_of_github_has_a_table_of_what_was_compiled_and_what_is_wrong(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_tree(root, {"demo/broken.cu": "__global__ void k() {\n  wrong;\n}\n"})
    assert command("bake", "--project", root).code == 1
    lines = summary.read_text("utf-8").splitlines()
    assert lines[:7] == [
        "## hatch-cubin bake",
        "",
        "### units",
        "",
        "| all | hits | compiled | failed | missing |",
        "| ---: | ---: | ---: | ---: | ---: |",
        "| 6 | 0 | 4 | 2 | 0 |",
    ]
    units = [line.split(" | ")[:2] for line in lines if line.startswith(("| `saxpy`", "| `scale`"))]
    assert sorted(units) == [
        [f"| `{name}`", f"`{arch}`"] for name in ("saxpy", "scale") for arch in ("sm_80", "sm_90")
    ]
    assert [line for line in lines if line.startswith("| `demo/broken.cu:2`")] != []
    summary.unlink()
    (root / "demo/broken.cu").unlink()
    assert command("bake", "--project", root).code == 0
    assert "longest compiles" not in summary.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--recheck", "1%"], 1, "--recheck changes nothing without --executor"),
        (["--recheck", "1"], 2, "argument --recheck: must be a percentage such as 1%, not '1'"),
        (["--executor", "head"], 2, "argument --executor: must be one of 'dask://host:8786', "),
        (["--executor", "no_such:make", "--recheck", "1%"], 1, "no_such:make cannot be imported: "),
    ],
)
def test_where_to_compile_and_what_to_compile_again_are_checked(
    root: Path, command: Command, options: list[str], code: int, said: str
) -> None:
    ended = command("bake", "--project", root, *options)
    assert (ended.code, said in ended.err) == (code, True)
