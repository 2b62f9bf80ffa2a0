"""Modules with the same name: what is refused, and tables that solve it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.config import toml_positions
from hatch_cubin.errors import (
    CompileError,
    ConfigError,
    HatchCubinError,
    Location,
    Problem,
    SourceError,
    problem,
)
from hatch_cubin.keys import shared_names
from hatch_cubin.planning.unit_plan import Module, plan_modules
from hatch_cubin.project.source import Source
from tests.helpers import COPY_PTX, SAXPY, TABLE, make_project, read_config

RULE = f"[[{'.'.join(TABLE)}.source]]"


def modules(options: str, paths: Sequence[str]) -> list[Module]:
    config = read_config(f'archs = ["sm_90"]\n{options}')
    return plan_modules(config, [Source(path, SAXPY) for path in paths], {config.archs: ()})


def refused(paths: Sequence[str], options: str = "") -> list[Problem]:
    return shared_names.name_problems(modules(options, paths), read_config(options))


def tables(hint: str | None) -> list[dict[str, Any]]:
    """Return the tables that a hint has, as TOML."""
    assert hint is not None
    found: Any = toml_positions.loads(hint.partition(":\n")[2])
    for key in TABLE:
        found = found[key]
    return list(found["source"])


@pytest.mark.parametrize(
    ("first", "second", "shown"),
    [("a/k.cu", "b/k.cu", "k"), ("a/k.cu", "a/k.ptx", "k"), ("a/K.cu", "b/k.cu", "k")],
    ids=["same stem", "cu and ptx", "case"],
)
def test_two_sources_with_one_name_are_refused(first: str, second: str, shown: str) -> None:
    (problem,) = refused([first, second])
    assert (problem.what, problem.where) == (
        f"the module name {shown!r} is already used by {first}",
        Location(second),
    )


def test_every_source_after_the_first_of_a_name_is_refused_once() -> None:
    options = f"{RULE}\npath = '**/*.cu'\nvariants = {{ N = [1, 2] }}"
    found = refused(["a/k.cu", "b/k.cu", "c/k.cu"], options)
    assert [problem.where for problem in found] == [Location("b/k.cu"), Location("c/k.cu")]


def test_different_names_are_not_refused() -> None:
    assert refused(["a/k.cu", "b/k.cu"], f"{RULE}\npath = 'b/k.cu'\nname = 'k2'") == []


def test_two_variants_with_one_name_are_refused() -> None:
    options = f"{RULE}\npath = 'a/k.cu'\nvariants = {{ A = ['1', '1,B=2'], B = ['3', '2,B=3'] }}"
    expected = problem("module-name-taken", "two modules have the name 'k[A=1,B=2,B=3]'", Location("a/k.cu"))
    assert refused(["a/k.cu"], options) == [expected, expected]


def test_a_variant_cannot_be_both_0_and_not_defined() -> None:
    found = refused(["k.cu"], f"{RULE}\npath = 'k.cu'\nvariants = {{ N = [0, false] }}")
    assert {problem.what for problem in found} == {"two modules have the name 'k[N=0]'"}


def test_a_file_that_is_called_like_a_variant_is_refused() -> None:
    found = refused(["a/k.cu", "a/k[A=1].cu"], f"{RULE}\npath = 'a/k.cu'\nvariants = {{ A = [1] }}")
    assert [problem.where for problem in found] == [Location("a/k.cu"), Location("a/k[A=1].cu")]


@pytest.mark.parametrize(
    ("paths", "solution"),
    [
        (["a/k.cu", "b/k.cu", "c/other.cu"], {"**/k.*": "{parent}_{stem}"}),
        (["a/k.cu", "b/k.cu", "a/q.cu", "b/q.cu"], {"**/*": "{parent}_{stem}"}),
        (["a/k.cu", "a/k.ptx", "a/other.ptx"], {"**/k.ptx": "{stem}_ptx"}),
        (["a/k.cu", "a/k.ptx", "b/q.cu", "b/q.ptx"], {"**/*.ptx": "{stem}_ptx"}),
        (
            ["a/k.cu", "a/k.ptx", "b/k.cu", "b/k.ptx"],
            {"**/k.*": "{parent}_{stem}", "**/k.ptx": "{parent}_{stem}_ptx"},
        ),
        (["a/x/k.cu", "b/x/k.cu"], {"b/x/k.cu": "…"}),
        (["a/k.cu", "b/k.cu", "a_k.cu"], {"b/k.cu": "…"}),
    ],
    ids=["folders", "two names", "PTX", "PTX of two names", "both", "same folder names", "taken"],
)
def test_the_hint_has_the_fewest_tables_that_solve_all(paths: list[str], solution: dict[str, str]) -> None:
    problems = refused(paths)
    (hint,) = {problem.hint for problem in problems}
    found = tables(hint)
    assert {table["path"]: table["name"] for table in found} == solution
    if "…" in solution.values():
        return
    options = "".join(f"{RULE}\npath = '{path}'\nname = '{name}'\n" for path, name in solution.items())
    assert refused(paths, options) == []


def test_the_hint_counts_the_modules_that_a_table_renames_needlessly() -> None:
    paths = ["a/k.cu", "b/k.cu", "a/q.cu", "b/q.cu"]
    assert {"they also rename" in (each.hint or "") for each in refused(paths)} == {False}
    (hint, *_same) = [each.hint or "" for each in refused([*paths, "a/one.cu", "b/two.cu"])]
    assert "; they also rename 2 other modules:\n" in hint


def test_a_stem_with_wildcards_matches_only_itself_in_the_hint() -> None:
    (found,) = refused(["a/k[1].cu", "b/k[1].cu", "a/k1.cu"])
    (table,) = tables(found.hint)
    assert table == {"path": "**/k[[]1].*", "name": "{parent}_{stem}"}


@pytest.mark.parametrize(
    ("paths", "options", "line"),
    [
        (["a/k.cu", "a/k.ptx"], "", 'exclude = ["a/k.ptx"]'),
        (["a/k.CU", "a/k.ptx"], "", 'exclude = ["a/k.ptx"]'),
        (
            ["a/k.cu", "a/k.ptx", "q.cu", "q.tileir"],
            'exclude = ["x.cu"]',
            'exclude = ["x.cu", "a/k.ptx", "q.tileir"]',
        ),
    ],
    ids=["one", "suffix in capitals", "two, and 'exclude' has a path"],
)
def test_a_file_that_may_be_compiled_from_the_cpp_source_beside_it_can_be_excluded(
    paths: list[str], options: str, line: str
) -> None:
    found = refused(paths, options)
    place = read_config(options).place
    where = f"'exclude' at {place.of('exclude')} with" if options else f"below {place} the line"
    (hint,) = {each.hint for each in found}
    assert hint is not None
    assert f"{where} {line}" in hint
    compiled = [path for path in paths if not path.lower().endswith("cu")]
    assert [each.where for each in found] == [Location(path) for path in compiled]
    assert refused([path for path in paths if path not in compiled], options) == []


@pytest.mark.parametrize("paths", [["a/k.cu", "b/k.ptx"], ["a/k.ptx", "a/k.tileir"]])
def test_what_has_no_cpp_source_beside_it_can_only_be_renamed(paths: list[str]) -> None:
    assert {"exclude" in (each.hint or "") for each in refused(paths)} == {False}


def test_names_that_the_project_has_chosen_are_left() -> None:
    options = f"{RULE}\npath = 'a/k.cu'\nname = 'mine'\n"
    (problem,) = refused(["a/k.cu", "b/k.cu", "c/k.cu"], options)
    assert [table["path"] for table in tables(problem.hint)] == ["c/k.cu"]


@pytest.mark.parametrize("needless", ["a/k.cu", "b/k.cu"])
def test_a_source_without_a_kernel_needs_no_name(needless: str) -> None:
    texts = {"a/k.cu": SAXPY, "b/k.cu": SAXPY, "c.cu": SAXPY, "d/c.cu": "", needless: "__device__ int f();"}
    config = read_config('archs = ["sm_90"]\nexclude = ["x.cu"]')
    sources = [Source(path, text) for path, text in texts.items()]
    found = shared_names.name_problems(plan_modules(config, sources, {config.archs: ()}), config)
    line = f'exclude = ["x.cu", "{needless}", "d/c.cu"]'  # the table has the key once
    assert sorted((str(problem.where), problem.hint) for problem in found) == sorted(
        [(needless, line), ("d/c.cu", line)]
    )


@pytest.mark.parametrize("text", ['#include "kernels.h"\n', "MAKE_KERNEL(saxpy)\n", SAXPY])
def test_a_source_that_may_have_a_kernel_is_given_a_name(text: str) -> None:
    config = read_config('archs = ["sm_90"]')
    made = plan_modules(config, [Source("a/k.cu", SAXPY), Source("b/k.cu", text)], {config.archs: ()})
    (found,) = shared_names.name_problems(made, config)
    assert tables(found.hint) == [{"path": "**/k.*", "name": "{parent}_{stem}"}]


@pytest.mark.nvrtc
def test_what_else_is_wrong_is_reported_in_the_same_build(tmp_path: Path) -> None:
    wrong = "__global__ void k() { oops; }"
    files: dict[str, str | bytes] = {"a/k.cu": SAXPY, "b/k.cu": SAXPY, "wrong.cu": wrong}
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, files, 'archs = ["sm_90"]'))
    assert [problem.where and problem.where.path for problem in caught.value.problems] == [
        "demo/b/k.cu",
        "demo/wrong.cu",
    ]


@pytest.mark.nvrtc
def test_a_compiled_copy_is_refused_only_because_of_its_name(tmp_path: Path) -> None:
    files: dict[str, str | bytes] = {"k.cu": SAXPY, "k.ptx": COPY_PTX.replace("sm_80", "sm_90")}
    with pytest.raises(HatchCubinError) as caught:
        pipeline.build(make_project(tmp_path, files, 'archs = ["sm_80"]'))
    assert [(each.code, each.where) for each in caught.value.problems] == [
        ("module-name-taken", Location("demo/k.ptx"))
    ]


@pytest.mark.nvrtc
def test_an_arch_that_cannot_be_built_does_not_hide_shared_names(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"a/k.cu": SAXPY, "b/k.cu": SAXPY}, 'archs = ["sm_20"]')
    with pytest.raises(ConfigError) as caught:
        pipeline.build(project)
    assert {each.code for each in caught.value.problems} == {"module-name-taken", "arch-not-supported"}


@pytest.mark.nvrtc
def test_a_plan_refuses_shared_names(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"a/k.cu": SAXPY, "b/k.cu": SAXPY}, 'archs = ["sm_90"]')
    with pytest.raises(SourceError) as caught:
        pipeline.make_plan(project)
    assert [problem.where for problem in caught.value.problems] == [Location("demo/b/k.cu")]


@pytest.mark.nvrtc
def test_after_excluding_a_file_its_table_is_to_be_deleted(tmp_path: Path) -> None:
    options = f"archs = ['sm_90']\nexclude = ['**/*.ptx']\n{RULE}\npath = '**/k.ptx'\nname = '{{stem}}_ptx'"
    with pytest.raises(ConfigError) as caught:
        pipeline.make_plan(make_project(tmp_path, {"k.cu": SAXPY, "k.ptx": ""}, options))
    assert ["delete this table" in (problem.hint or "") for problem in caught.value.problems] == [True]


@pytest.mark.nvrtc
def test_a_part_of_another_source_shares_no_name(tmp_path: Path) -> None:
    part = "__device__ int helper(int x) { return x; }\n"
    files: dict[str, str | bytes] = {"impl/k.cu": part, "k.cu": f'#include "impl/k.cu"\n{SAXPY}'}
    plan = pipeline.make_plan(make_project(tmp_path, files, 'archs = ["sm_90"]'))
    assert [job.unit.module.source.path for job in plan.jobs] == ["demo/k.cu"]


def test_only_parts_of_a_path_stand_in_a_name_for_many_sources() -> None:
    with pytest.raises(ConfigError, match=r"has \{folder\}, but only \{parent\} and \{stem\} are"):
        read_config(f'{RULE}\npath = "**/*"\nname = "{{folder}}_{{stem}}"')
