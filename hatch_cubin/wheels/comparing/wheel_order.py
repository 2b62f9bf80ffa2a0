"""Notice that the first of two wheels has a higher version than the second wheel."""

from __future__ import annotations

import os
import re
import shlex

from ...common.distribution_names import comparable_name
from ...errors import Location, Problem, problem
from .comparison import ComparedWheel

_WHEEL = re.compile(r"([^-]+)-([^-]+)-.+\.whl")
_VERSION = re.compile(r"v?(?:([0-9]+)!)?([0-9]+(?:\.[0-9]+)*)(?:[._]?(dev|a|b|rc|post)([0-9]*))?")
_STAGES = ("dev", "a", "b", "rc", None, "post")  # in the order in which they are released


def wrong_order(before: ComparedWheel, after: ComparedWheel) -> Problem | None:
    """Return a warning if *before* is a newer wheel than *after*, and both are wheels of one project."""
    first, second = (_WHEEL.fullmatch(os.path.basename(side.path)) for side in (before, after))
    if not first or not second or comparable_name(first[1]) != comparable_name(second[1]):
        return None
    versions = _sort_key(first[2]), _sort_key(second[2])
    if versions[0] is None or versions[1] is None or versions[0] <= versions[1]:
        return None
    what = f"{first[2]} is newer than {second[2]}, but 'diff' takes the first wheel as the older wheel"
    command = shlex.join(["hatch-cubin", "diff", after.path, before.path])
    hint = f"name the older wheel first: {command}"
    return problem("newer-wheel-first", what, Location(before.path), hint)


def _sort_key(version: str) -> tuple[int, list[int], int, int] | None:
    """Return a key that puts versions in the order of their releases, or None for an unusual version."""
    match = _VERSION.fullmatch(version.partition("+")[0])
    if match is None:
        return None
    epoch, release, stage, number = match.groups()
    numbers = [*map(int, release.split("."))]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return int(epoch or 0), numbers, _STAGES.index(stage), int(number or 0)
