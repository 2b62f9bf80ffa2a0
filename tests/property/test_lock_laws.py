"""Where all is as a lock says, a source has the closure that it had: random trees, each change of them."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_cubin.errors import SourceError
from hatch_cubin.headers import absent_includes
from hatch_cubin.headers.includes import Closure, Resolver
from hatch_cubin.headers.resolve import OWN, SearchFolder, content_digest
from hatch_cubin.lockfile.lock_comparison import is_unsure
from hatch_cubin.planning.unit_plan import Module
from hatch_cubin.project.source import Source
from hatch_cubin.project.source_roots import ProjectTree
from tests.fault_counts import Figures
from tests.fuzz import include_trees

PLAIN = [(condition, macro) for condition, macro in include_trees.QUESTIONS if not macro]  # others are unsure


def _search(root: Path, others: str) -> list[SearchFolder]:
    """Return the search path; the second folder is the project's own, or else a toolkit's."""
    return [
        SearchFolder(root / "i1", "project/i1"),
        SearchFolder(root / "i2", others, "" if others.startswith(OWN) else "a toolkit"),
    ]


def _closure(root: Path, source: str, search: list[SearchFolder]) -> Closure:
    return Resolver(ProjectTree(root), search).resolve("demo/k.cu", source, (), ())


def _wrong(root: Path, chance: random.Random, others: str, counts: Counter[str]) -> Iterator[str]:
    """Yield each change after which nothing of the lock has changed, but a closure has."""
    source, search = include_trees.make_tree(root, chance, PLAIN), _search(root, others)
    before = _closure(root, source, search)
    module = Module("k", Source("demo/k.cu", source), include_dirs=("i1", "i2"))
    absent = absent_includes.absent_names(ProjectTree(root), absent_includes.tried_paths([(module, before)]))
    files = {logical[len(OWN) :]: each for logical, each in before.files.items() if logical.startswith(OWN)}
    unsure = is_unsure(before, search)
    counts.update(trees=1, unsure=unsure)
    for change in include_trees.changes(root):
        if unsure or (change.place.startswith("i2/") and not others.startswith(OWN)):
            continue
        same = all(content_digest(root / path) == each for path, each in files.items())
        same = same and not list(absent_includes.appeared_paths(ProjectTree(root), absent))
        counts.update(changes=1, told=not same)
        try:
            if same and _closure(root, source, search).digest() != before.digest():
                yield f"{change.place} becomes {change.becomes}\n{include_trees.told(root)}"
        except SourceError as exc:
            yield f"{change.place} becomes {change.becomes}: {exc}"


@pytest.mark.parametrize("others", ["project/i2", "cuda/include"])
def test_what_is_as_the_lock_says_has_the_closure_that_it_had(
    others: str, figures: Figures, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    counts: Counter[str] = Counter()
    trees, chance = figures.pick(60, 5000), random.Random(request.config.getoption("--seed"))  # noqa: S311
    for number in range(trees):
        assert list(_wrong(tmp_path / str(number), chance, others, counts)) == []
    figures.tell(**counts)
    assert counts["told"] > trees
    assert counts["changes"] - counts["told"] > trees
    assert counts["unsure"] < trees


def test_a_lock_that_forgets_what_is_absent_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(absent_includes, "appeared_paths", lambda *_: ())
    chance, counts = random.Random(1), Counter[str]()  # noqa: S311
    assert any(list(_wrong(tmp_path / str(number), chance, "project/i2", counts)) for number in range(20))
