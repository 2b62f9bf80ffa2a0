"""However a plan is dealt: all is done once, and no job has more than the mean and the largest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin.compiling.shards import Compile, assign_jobs, scaled_weights

WEIGHTS = st.one_of(st.integers(1, 100), st.integers(1, 10**9))
COMPILES = st.lists(st.tuples(st.integers(0, 5), WEIGHTS), max_size=60).map(
    lambda found: [
        Compile(f"k{number}", f"f{family}", weight) for number, (family, weight) in enumerate(found)
    ]
)
COUNTS = st.integers(1, 12)


@given(COMPILES, COUNTS)
def test_each_compile_has_one_job(compiles: list[Compile], count: int) -> None:
    dealt = assign_jobs(compiles, count)
    assert dealt.keys() == {each.name for each in compiles}
    assert {*dealt.values()} <= {*range(count)}


@given(COMPILES, COUNTS)
def test_no_job_has_more_than_the_mean_and_the_largest(compiles: list[Compile], count: int) -> None:
    dealt, loads = assign_jobs(compiles, count), [0] * count
    for each in compiles:
        loads[dealt[each.name]] += each.weight
    weights = [each.weight for each in compiles]
    assert max(loads) * count <= sum(weights) + count * max(weights, default=0)


@given(COMPILES, COUNTS, st.randoms())
def test_the_order_of_a_plan_changes_nothing_for_what_has_no_family(
    compiles: list[Compile], count: int, chance: object
) -> None:
    alone = [each._replace(family=each.name) for each in compiles]
    shuffled = [*alone]
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    assert assign_jobs(shuffled, count) == assign_jobs(alone, count)


@given(COMPILES, COUNTS)
def test_a_family_comes_into_as_few_jobs_as_its_size_needs(compiles: list[Compile], count: int) -> None:
    """It lies in neighbours, so that at most the first and the last of them share one with other families."""
    alike = [each._replace(family="one") for each in compiles]
    numbers = [*assign_jobs(alike, count).values()]
    assert numbers == sorted(numbers)


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 10**6), min_size=1),
    st.dictionaries(st.sampled_from("efghijkl"), st.integers(1, 10**6)),
)
def test_a_weight_is_what_is_known_or_a_positive_guess(
    guesses: dict[str, int], known: dict[str, int]
) -> None:
    weights = scaled_weights(guesses, known)
    assert weights.keys() == guesses.keys()
    assert all(type(weight) is int and weight >= 1 for weight in weights.values())
    assert {name: weights[name] for name in weights if name in known} == {
        name: known[name] for name in weights if name in known
    }
