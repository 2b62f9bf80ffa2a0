"""Divide the compiles of a build evenly among CI jobs, with the same division on every machine."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple


class Compile(NamedTuple):
    """One compile: its name, its family (compiles that share headers), and its weight (duration)."""

    name: str
    family: str
    weight: int  # an integer, because sums of floats depend on the order


def assign_jobs(compiles: Iterable[Compile], count: int) -> dict[str, int]:
    """Return the CI job of each compile, by the compile's name. CI jobs are counted from 0.

    No CI job gets more work than the mean plus the largest compile.

    Compiles that are alone in their family are assigned first, beginning with the longest: each goes to the
    CI job with the least work so far. After that, the families fill the CI jobs up to the mean, one family
    after another. So most compiles of a family are in a few CI jobs, where the headers are parsed once for
    many compiles.
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
    """Fill the CI jobs up to the mean with *compiles*, in order.

    The compiles are laid end to end along the room that is left in all CI jobs; each goes to the CI job at
    the compile's middle.
    """
    total = sum(loads) + sum(
        each.weight for each in compiles
    )  # the mean multiplied by `len(loads)`, to avoid fractions
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
    """Return the weight of each compile: the *known* weight, or a scaled guess.

    Guesses are scaled by the compiles for which both a guess and a weight are known.
    """
    both = [name for name in guesses if name in known]
    counted, guessed = sum(known[name] for name in both) or 1, sum(guesses[name] for name in both) or 1
    return {
        name: max(1, known[name] if name in known else guess * counted // guessed if both else guess)
        for name, guess in guesses.items()
    }
