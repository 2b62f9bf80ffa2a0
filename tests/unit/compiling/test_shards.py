"""How compiles are dealt to jobs."""

from __future__ import annotations

from hatch_cubin.compiling.shards import Compile, assign_jobs, scaled_weights


def alone(**weights: int) -> list[Compile]:
    return [Compile(name, name, weight) for name, weight in weights.items()]


def family(name: str, *weights: int) -> list[Compile]:
    return [Compile(f"{name}{number}", name, weight) for number, weight in enumerate(weights)]


def loads(compiles: list[Compile], count: int) -> list[int]:
    found = [0] * count
    for name, number in assign_jobs(compiles, count).items():
        found[number] += next(each.weight for each in compiles if each.name == name)
    return found


def test_the_longest_goes_first_to_the_job_that_has_least() -> None:
    assert assign_jobs(alone(a=5, b=4, c=3, d=3, e=3), 2) == {"a": 0, "b": 1, "c": 1, "d": 0, "e": 1}


def test_what_weighs_the_same_goes_by_name() -> None:
    assert assign_jobs(alone(c=1, a=1, b=1), 3) == {"a": 0, "b": 1, "c": 2}


def test_a_unit_of_minutes_has_a_job_for_itself() -> None:
    uneven = [*alone(huge=360_000), *(Compile(f"small{n}", f"small{n}", 100) for n in range(2000))]
    assert sorted(loads(uneven, 3)) == [100_000, 100_000, 360_000]


def test_several_of_minutes_are_spread_and_the_small_ones_fill_up() -> None:
    large = alone(a=90_000, b=80_000, c=70_000)
    small = [Compile(f"small{n}", f"small{n}", 100) for n in range(600)]
    assert sorted(loads([*large, *small], 3)) == [100_000] * 3


def test_variants_of_a_source_stay_together() -> None:
    plan = [*family("a", *[10] * 12), *family("b", *[10] * 12), *family("c", *[10] * 12)]
    dealt = assign_jobs(plan, 4)
    assert loads(plan, 4) == [90] * 4
    jobs = {name: {dealt[each.name] for each in plan if each.family == name} for name in "abc"}
    assert jobs == {"a": {0, 1}, "b": {1, 2}, "c": {2, 3}}


def test_variants_fill_what_the_others_leave() -> None:
    plan = [*alone(long=70, short=10), *family("v", *[10] * 10)]
    assert loads(plan, 2) == [90, 90]


def test_a_job_that_has_more_than_the_mean_gets_no_variants() -> None:
    plan = [*alone(long=100), *family("v", *[10] * 4)]
    dealt = assign_jobs(plan, 2)
    assert {number for name, number in dealt.items() if name != "long"} == {1}


def test_more_jobs_than_compiles_leave_some_with_nothing() -> None:
    assert loads(alone(a=1, b=1), 4) == [1, 1, 0, 0]
    assert assign_jobs([], 4) == {}


def test_a_guess_is_scaled_to_what_is_known() -> None:
    assert scaled_weights({"a": 10, "b": 20, "c": 7}, {"a": 100, "b": 500}) == {"a": 100, "b": 500, "c": 140}


def test_where_nothing_is_known_guesses_are_as_good_as_they_are() -> None:
    assert scaled_weights({"a": 10, "b": 20}, {"other": 5}) == {"a": 10, "b": 20}
