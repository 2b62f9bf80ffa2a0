"""Damaged input of links: a linker that crashes is one unit's failure, and nothing different is linked."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.records import entry_path
from hatch_cubin.errors import ConfigError
from hatch_cubin.project.project import Project
from tests.fault_counts import Figures
from tests.faults.harness.damage import flip, truncate, zero
from tests.helpers import TABLE, make_project, write_tree

pytestmark = [pytest.mark.nvrtc, pytest.mark.counted]

TABLES = f"[[{'.'.join(TABLE)}.module]]\n"
USER = '__device__ int f(int); extern "C" __global__ void k(int *p) { *p = f(*p); }\n'
ADD = "__device__ int f(int a) { return a * 3 + 1; }\n"
WHOLE = f'archs = ["sm_90"]\n{TABLES}name = "whole"\nsources = ["a.cu", "b.cu"]\nmode = "rdc"\n'


def test_an_object_that_is_damaged_in_the_cache_is_compiled_again(tmp_path: Path, figures: Figures) -> None:
    project = make_project(tmp_path, {"a.cu": USER, "b.cu": ADD}, WHOLE.replace("rdc", "lto"))
    right, chance = pipeline.build(project), random.Random(20)  # noqa: S311 - repeatable
    jobs = pipeline.make_plan(project).jobs
    places = {job.unit: Path(entry_path(project.cache_folder, job.keys.key)) for job in jobs}
    (link,) = (path for unit, path in places.items() if unit.module.link)
    for _ in range(figures.pick(3, 60)):
        chance.choice([flip, truncate, zero])([path for path in places.values() if path != link], chance)
        link.unlink()
        assert pipeline.build(project) == right


def test_a_damaged_file_of_the_project_fails_its_own_link_at_most(tmp_path: Path, figures: Figures) -> None:
    project = make_project(tmp_path, {"a.cu": USER, "b.cu": ADD}, WHOLE)
    plan = pipeline.make_plan(project)
    results = pipeline.attempt(project, plan)
    right = next(hit.data for unit, hit in results.done.items() if unit.module.link)
    cubin = next(hit.data for unit, hit in results.done.items() if unit.module.name == "whole/demo/b.cu")
    chance, count, options = random.Random(120), figures.pick(12, 240), WHOLE  # noqa: S311 - repeatable
    for number in range(count):
        path = write_tree(tmp_path, {f"lib/{number}.cubin": cubin}) / f"lib/{number}.cubin"
        if number:  # the first stays as it is
            chance.choice([flip, truncate, zero])([path], chance)
        options += _linked_with(number)
    refused = _refused(make_project(tmp_path, {}, options))
    for number in refused:
        options = options.replace(_linked_with(number), "")
    project = make_project(tmp_path, {}, options)
    results = pipeline.attempt(project, pipeline.make_plan(project))
    made = {unit.module.name: hit.data for unit, hit in results.done.items() if unit.module.link}
    failed = {unit.module.name for unit, found in results.failed if found}
    assert made["whole"] == made["m0"] == right
    assert made.keys() | failed == {"whole", *(f"m{number}" for number in {*range(count)} - refused)}
    figures.tell(damaged=count - 1, refused=len(refused), failed=len(failed), linked=len(made) - 2)


def _linked_with(number: int) -> str:
    own = f'name = "m{number}"\nsources = ["a.cu"]\nmode = "rdc"\n'
    return f'{TABLES}{own}link = ["lib/{number}.cubin"]\n'


def _refused(project: Project) -> set[int]:
    """Return which files do not even hold together: all of them are told before anything is linked."""
    try:
        pipeline.make_plan(project)
    except ConfigError as exc:
        return {int(problem.what.partition("lib/")[2].partition(".")[0]) for problem in exc.problems}
    return set()
