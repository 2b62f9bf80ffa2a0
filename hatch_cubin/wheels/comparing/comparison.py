"""What is compared: two wheels, folders or packages, or what a project builds, and which of their bundles."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ..reading.bundles import package_at
from ..reading.survey import BundleFacts
from .diff import BundleDiff, compare


class ComparedWheel(NamedTuple):
    """One of the two: its path, what it is called, its size if it is a wheel, and its bundles."""

    path: str
    title: str
    bytes: int | None
    bundles: Mapping[str, BundleFacts]  # by package


def compared_wheel(path: str, bundles: Iterable[BundleFacts]) -> ComparedWheel:
    """Return a wheel, a folder or a package as what is compared."""
    size = os.path.getsize(path) if os.path.isfile(path) else None
    return ComparedWheel(path, path, size, {package_at(facts["place"]): facts for facts in bundles})


def compare_wheels(before: ComparedWheel, after: ComparedWheel) -> list[BundleDiff]:
    """Return how each bundle differs from the one before it."""
    return [compare(*pair) for pair in pair_bundles(before.bundles, after.bundles)]


def pair_bundles(
    before: Mapping[str, BundleFacts], after: Mapping[str, BundleFacts]
) -> list[tuple[BundleFacts | None, BundleFacts | None]]:
    """Return which bundles are to be compared: those of one package, or the only ones."""
    if len(before) == len(after) == 1:
        ((one,), (other,)) = before.values(), after.values()
        return [(one, other)]
    return [(before.get(name), after.get(name)) for name in sorted({*before, *after})]
