"""Find the known name that a misspelt name may mean. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import SequenceMatcher

_SHORTEST = 4  # letters of names that may have a spelling error: too many shorter names are alike


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name with the fewest spelling errors; None if no known name is near.

    Capital letters and underscores do not count as errors.
    """
    key = _key(name)
    most = (len(key) >= _SHORTEST) + (len(key) >= 2 * _SHORTEST)
    near = []
    for each in {*known} - {name}:
        if (count := _errors(key, _key(each), most)) <= most:
            ratio = SequenceMatcher(None, name, each).ratio()
            near.append((count, sorted(key) != sorted(_key(each)), -ratio, each))
    return min(near)[-1] if near else None


def did_you_mean(name: str, known: Iterable[str]) -> str | None:
    """Return a question that suggests the nearest name; None if no known name is near."""
    near = nearest(name, known)
    return near and f"did you mean {near!r}?"


def _key(name: str) -> str:
    return re.sub("_", "", name).lower()


def _errors(one: str, other: str, most: int) -> int:
    """Return the number of letters added, left out, replaced or swapped; any number above *most* if more."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    before: list[int] = []
    row: list[int] = [*range(len(other) + 1)]
    for i, char in enumerate(one, start=1):
        last = before
        before = row
        row = [i]
        for j, wanted in enumerate(other, start=1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (char != wanted)))
            if i > 1 and j > 1 and (char, one[i - 2]) == (other[j - 2], wanted):
                row[j] = min(row[j], last[j - 2] + 1)
    return row[-1]
