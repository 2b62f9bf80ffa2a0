"""Divide the compiles of a build evenly among CI jobs. The result is the same on every machine."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Compile(NamedTuple):
    """One compile: its name, its family (the compiles that share headers), and its estimated duration."""

    name: str
    family: str
    weight: int  # An estimate. It is an integer, because a sum of floats depends on their order.


def assign_jobs(compiles: Iterable[Compile], count: int) -> dict[str, int]:
    """Return a mapping from the name of each compile to the number of its CI job (from 0).

    Each CI job gets at most the mean work of all CI jobs plus the longest compile.

    Compiles that do not share headers with other compiles are assigned first, the longest compile first, each
    to the CI job with the least work so far. Families of compiles that share headers are assigned last, one
    family after another, so that all CI jobs have about the same amount of work. Most compiles of a family
    are in the same few CI jobs, so that each CI job can parse the shared headers once for many compiles.
    """
    families: dict[str, list[Compile]] = {}
    for each in compiles:
        families.setdefault(each.family, []).append(each)
    alone = [family[0] for family in families.values() if len(family) == 1]
    shared = [each for name, family in sorted(families.items()) if len(family) > 1 for each in family]
    jobs, loads = _longest_first(alone, count)
    return jobs | _fill_rooms(shared, loads)


def _longest_first(compiles: Iterable[Compile], count: int) -> tuple[dict[str, int], list[int]]:
    jobs, least = dict[str, int](), [(0, number) for number in range(count)]
    for each in sorted(compiles, key=lambda each: (-each.weight, each.name)):
        load, number = least[0]
        jobs[each.name] = number
        heapq.heapreplace(least, (load + each.weight, number))
    return jobs, [load for load, _number in sorted(least, key=lambda item: item[1])]


def _fill_rooms(compiles: Sequence[Compile], loads: Sequence[int]) -> dict[str, int]:
    """Assign *compiles* in the given order, so that all CI jobs have about the same amount of work.

    The CI jobs are filled one after another, each up to the mean work of all CI jobs. If a compile does not
    fit completely into the rest of a CI job, the compile is assigned to this CI job if more than half of the
    compile fits, and otherwise to a later CI job.
    """
    total = sum(loads) + sum(
        each.weight for each in compiles
    )  # The mean work of a CI job times the number of CI jobs: an integer, and not a fraction.
    jobs, number, begin, end = dict[str, int](), -1, 0, 0
    for each in compiles:
        middle = (2 * begin + each.weight) * len(loads)
        while middle >= 2 * end:
            number += 1
            end += max(0, total - loads[number] * len(loads))
        jobs[each.name] = number
        begin += each.weight
    return jobs


def scaled_weights(guesses: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return the duration of each compile: from *known*, or a scaled duration from *guesses*.

    The scale is calculated from the compiles that are both in *guesses* and in *known*.
    """
    both = [name for name in guesses if name in known]
    counted, guessed = sum(known[name] for name in both) or 1, sum(guesses[name] for name in both) or 1
    return {
        name: max(1, known[name] if name in known else guess * counted // guessed if both else guess)
        for name, guess in guesses.items()
    }
