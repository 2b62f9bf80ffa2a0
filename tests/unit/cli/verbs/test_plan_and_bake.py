"""The verbs `plan` and `bake`, with the real compiler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cli.main import main
from tests.helpers import SAXPY, SCALE, pyproject, write_tree

pytestmark = pytest.mark.nvrtc

TWO = 'archs = ["sm_80", "sm_90"]\n'
RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/scale.cu"\ninstantiate = ["scale<float, 4>"]\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY, "demo/scale.cu": SCALE}
    return write_tree(tmp_path, {"pyproject.toml": pyproject(TWO + RULE), **files})


@pytest.fixture
def facts(root: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    def ask(verb: str, *options: str) -> Any:
        capsys.readouterr()
        assert main([verb, "--project", str(root), "--json", *options]) == 0
        return json.loads(capsys.readouterr().out)

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


def test_a_bake_for_people_says_one_line_on_standard_error(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bake", "--project", str(root), "--only", "saxpy", "--archs", "sm_90"]) == 0
    said = capsys.readouterr()
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


def test_a_part_that_does_not_exist_is_an_error(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["bake", "--project", str(root), "--only", "nix"])
    assert ended.value.code == 1
    assert capsys.readouterr().err == (
        "hatch-cubin: error: --only nix matches no source and no module [only-matches-nothing]\n"
        "  hint: sources: demo/saxpy.cu, demo/scale.cu\n"
    )


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_an_arch_of_an_option_is_told_under_the_name_of_the_option(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    with pytest.raises(SystemExit, match=r"^1$"):
        main([verb, "--project", str(root), "--archs", "sm_35"])
    assert capsys.readouterr().err.startswith("hatch-cubin: error: --archs: NVRTC ")


def test_an_executor_of_an_option_is_told_under_the_name_of_the_option(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["bake", "--project", str(root), "--executor", "no_such_module:function"])
    assert "hatch-cubin: error: --executor: no_such_module:function cannot be imported: " in (
        capsys.readouterr().err
    )


def test_only_hits_can_be_required(facts: Any, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    facts("bake", "--only", "saxpy")
    with pytest.raises(SystemExit) as ended:
        main(["bake", "--project", str(root), "--require-hits", "--jobs", "1"])
    assert ended.value.code == 1
    reason = "is not in the cache, and --require-hits is set [not-in-cache]"
    assert capsys.readouterr().err.splitlines() == [
        f"hatch-cubin: error: demo/scale.cu: scale for sm_80, sm_90 {reason}",
        "  hint: 'hatch-cubin explain demo/scale.cu' says what differs",
    ]


@pytest.mark.parametrize("verb", ["plan", "bake"])
def test_what_the_projects_own_build_would_end_with_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    text = pyproject(TWO, requires='"hatchling"')
    more = '[tool.hatch.build.targets.wheel]\npackages = ["demo", "more"]\n'
    write_tree(root, {"pyproject.toml": text + more, "more/__init__.py": ""})
    with pytest.raises(SystemExit, match=r"^1$"):
        main([verb, "--project", str(root)])
    assert capsys.readouterr().err == (
        "hatch-cubin: error: pyproject.toml:2: [build-system] does not require hatch-cubin: a build would not"
        ' have it [hatch-cubin-not-required]\n  hint: requires = ["hatchling", "hatch-cubin"]\n'
        "hatch-cubin: error: pyproject.toml:9: which package receives the kernels? The wheel's packages are:"
        " 'demo', 'more' [package-not-chosen]\n  hint: for example: package = \"demo\"\n"
        "hatch-cubin: 2 errors\n"
    )


def test_a_job_of_github_has_a_table_of_what_was_compiled_and_what_is_wrong(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    write_tree(root, {"demo/broken.cu": "__global__ void k() {\n  wrong;\n}\n"})
    with pytest.raises(SystemExit, match=r"^1$"):
        main(["bake", "--project", str(root)])
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
    assert main(["bake", "--project", str(root)]) == 0
    assert "longest compiles" not in summary.read_text("utf-8")


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--recheck", "1%"], 1, "--recheck changes nothing without --executor"),
        (["--recheck", "1"], 2, "argument --recheck: must be a part such as 1%, not '1'"),
        (["--executor", "head"], 2, "argument --executor: must be one of 'dask://host:8786', "),
        (["--executor", "no_such:make", "--recheck", "1%"], 1, "no_such:make cannot be imported: "),
    ],
)
def test_where_to_compile_and_what_to_compile_again_are_checked(
    root: Path, capsys: pytest.CaptureFixture[str], options: list[str], code: int, said: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["bake", "--project", str(root), *options])
    assert caught.value.code == code
    assert said in capsys.readouterr().err
