"""Deal compiles to jobs of CI, so that each has as much to do: the same on every machine. Pure."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Compile(NamedTuple):
    """What one job does whole: its name, what it shares headers with, and how much it is."""

    name: str
    family: str
    weight: int  # a whole number: sums of others differ with the order


def deal(compiles: Iterable[Compile], count: int) -> dict[str, int]:
    """Return the job, from 0 on, of each compile by its name. No job has more than the mean and the largest.

    A compile without a family goes, the longest first, to the job that has least by then. Families fill up
    what is left below the mean, one after the other, so that most of one comes into few jobs: there its
    headers are parsed once for many.
    """
    families: dict[str, list[Compile]] = {}
    for each in compiles:
        families.setdefault(each.family, []).append(each)
    alone = [family[0] for family in families.values() if len(family) == 1]
    shared = [each for name, family in sorted(families.items()) if len(family) > 1 for each in family]
    jobs, loads = _longest_first(alone, count)
    return jobs | _poured(shared, loads)


def _longest_first(compiles: Iterable[Compile], count: int) -> tuple[dict[str, int], list[int]]:
    jobs, least = dict[str, int](), [(0, number) for number in range(count)]
    for each in sorted(compiles, key=lambda each: (-each.weight, each.name)):
        load, number = least[0]
        jobs[each.name] = number
        heapq.heapreplace(least, (load + each.weight, number))
    return jobs, [load for load, _number in sorted(least, key=lambda item: item[1])]


def _poured(compiles: Sequence[Compile], loads: Sequence[int]) -> dict[str, int]:
    """Lay compiles end to end, and the room of each job below the mean: each goes where its middle lies."""
    total = sum(loads) + sum(
        each.weight for each in compiles
    )  # is the mean, where all counts `len(loads)` times
    jobs, number, begin, end = dict[str, int](), -1, 0, 0
    for each in compiles:
        middle = (2 * begin + each.weight) * len(loads)
        while middle >= 2 * end:
            number += 1
            end += max(0, total - loads[number] * len(loads))
        jobs[each.name] = number
        begin += each.weight
    return jobs


def weighed(guesses: Mapping[str, int], known: Mapping[str, int]) -> dict[str, int]:
    """Return the weight of each name: what is *known*, or a guess, scaled as those are that are known too."""
    both = [name for name in guesses if name in known]
    counted, guessed = sum(known[name] for name in both) or 1, sum(guesses[name] for name in both) or 1
    return {
        name: max(1, known[name] if name in known else guess * counted // guessed if both else guess)
        for name, guess in guesses.items()
    }
