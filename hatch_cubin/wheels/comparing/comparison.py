"""Decide which bundles of two wheels, folders or packages are compared with each other."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..reading.bundles import package_at
from ..reading.survey import BundleFacts
from .diff import BundleDiff, compare


class ComparedWheel(NamedTuple):
    """One side of a comparison: a wheel, a folder, a package, or a build of the project."""

    path: str
    title: str
    bytes: int | None
    bundles: Mapping[str, BundleFacts]  # The bundles of the wheel, by the name of their package.


def compared_wheel(path: str, bundles: Iterable[BundleFacts]) -> ComparedWheel:
    """Return a wheel, a folder or a package as one side of a comparison."""
    size = os.path.getsize(path) if os.path.isfile(path) else None
    return ComparedWheel(path, path, size, {package_at(facts["place"]): facts for facts in bundles})


def compare_wheels(before: ComparedWheel, after: ComparedWheel) -> list[BundleDiff]:
    """Return the differences between each pair of bundles."""
    return [compare(*pair) for pair in pair_bundles(before.bundles, after.bundles)]


def pair_bundles(
    before: Mapping[str, BundleFacts], after: Mapping[str, BundleFacts]
) -> list[tuple[BundleFacts | None, BundleFacts | None]]:
    """Return pairs of bundles to compare.

    If each wheel has only one bundle, the two bundles are a pair. If one of the wheels has several bundles,
    the bundles of the same package are a pair.
    """
    if len(before) == len(after) == 1:
        ((one,), (other,)) = before.values(), after.values()
        return [(one, other)]
    return [(before.get(name), after.get(name)) for name in sorted({*before, *after})]
