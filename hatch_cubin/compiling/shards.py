"""Divide compiles evenly among CI jobs. Every machine gets the same division. Does no I/O."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Compile(NamedTuple):
    """A compile that is not divided: its name, the family that shares its headers, and its weight."""

    name: str
    family: str
    weight: int  # an integer: sums of floats depend on the order


def assign_jobs(compiles: Iterable[Compile], count: int) -> dict[str, int]:
    """Return the job of each compile by name, counted from 0.

    No job gets more than the mean plus the largest compile.

    Compiles without a family are assigned first. The longest comes first, and each goes to the job with the
    least work so far. Then the families fill the room below the mean one after another, so that most of a
    family goes to a few jobs. There its headers are parsed once for many compiles.
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
    """Lay compiles end to end along the jobs' room below the mean. Each goes to the job at its middle."""
    total = sum(loads) + sum(
        each.weight for each in compiles
    )  # the mean, with all values multiplied by `len(loads)`
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
    """Return the weight of each name: the *known* one, or a guess scaled by the names that have both."""
    both = [name for name in guesses if name in known]
    counted, guessed = sum(known[name] for name in both) or 1, sum(guesses[name] for name in both) or 1
    return {
        name: max(1, known[name] if name in known else guess * counted // guessed if both else guess)
        for name, guess in guesses.items()
    }
