"""Pair the bundles of two wheels, folders or packages, or of a wheel and a build of the project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..reading.bundles import package_at
from ..reading.survey import BundleFacts
from .diff import BundleDiff, compare


class ComparedWheel(NamedTuple):
    """A wheel, folder, package or project to compare: path, title, size if it is a wheel, and bundles."""

    path: str
    title: str
    bytes: int | None
    bundles: Mapping[str, BundleFacts]  # by package


def compared_wheel(path: str, bundles: Iterable[BundleFacts]) -> ComparedWheel:
    """Return a wheel, a folder or a package, ready to be compared."""
    size = os.path.getsize(path) if os.path.isfile(path) else None
    return ComparedWheel(path, path, size, {package_at(facts["place"]): facts for facts in bundles})


def compare_wheels(before: ComparedWheel, after: ComparedWheel) -> list[BundleDiff]:
    """Return the differences between each pair of bundles."""
    return [compare(*pair) for pair in pair_bundles(before.bundles, after.bundles)]


def pair_bundles(
    before: Mapping[str, BundleFacts], after: Mapping[str, BundleFacts]
) -> list[tuple[BundleFacts | None, BundleFacts | None]]:
    """Return the pairs of bundles to compare: of the same package, or the only bundle of each side."""
    if len(before) == len(after) == 1:
        ((one,), (other,)) = before.values(), after.values()
        return [(one, other)]
    return [(before.get(name), after.get(name)) for name in sorted({*before, *after})]
