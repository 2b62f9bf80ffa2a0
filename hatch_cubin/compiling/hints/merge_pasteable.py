"""Merge the lines in hints that the user can paste into pyproject.toml: each key may occur only once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ...config import toml_lines
from ...config.toml_positions import loads
from ...errors import MANY, Problem

_LINE = re.compile(r"(?:^|(?<=: ))(options|define|exclude|include-dirs|header-packages) = .*$")


def merge_hints(problems: Sequence[Problem]) -> list[Problem]:
    """Return the problems with merged hints: if several hints set a key, one line has the values of all.

    If two problems have the same hint with several lines, only the first problem keeps the hint. Three or
    more problems with the same hint keep it, because they are printed as one message.
    """
    merged: dict[str, Any] = {}
    for problem in problems:
        if match := _LINE.search(problem.hint or ""):
            merged[match[1]] = _both(merged.get(match[1]), loads(match[0])[match[1]])
    hints = [
        problem.hint and _LINE.sub(lambda match: toml_lines.setting(match[1], merged[match[1]]), problem.hint)
        for problem in problems
    ]
    counts = Counter(hints)
    told: list[Problem] = []
    for problem, hint in zip(problems, hints, strict=True):
        is_kept = "\n" not in (hint or "") or counts[hint] >= MANY
        is_repeated = not is_kept and any(each.hint == hint for each in told)
        told.append(problem._replace(hint=None if is_repeated else hint))
    return told


def _both(one: Any, other: Any) -> Any:
    """Merge two lists or two tables: the result has the elements or keys of both."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {**one, **{key: _both(one.get(key), value) for key, value in other.items()}}
    if isinstance(one, list) and isinstance(other, list):
        return [*one, *(each for each in other if each not in one)]
    return other
