"""Whatever changes what the compiler gives changes the closure: random trees, the compiler is the truth."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.project import scan
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.fault_counts import Figures
from tests.fuzz import include_trees

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]


@pytest.fixture(scope="module", autouse=True)
def _compiler() -> None:
    Toolkit(None).load()


@pytest.mark.parametrize("closure", [include_trees.closure, include_trees.recalled])
def test_a_file_that_matters_to_a_source_is_in_its_closure(
    figures: Figures, request: pytest.FixtureRequest, closure: Callable[[Path, str], str]
) -> None:
    counts: Counter[str] = Counter()
    trees, seed = figures.pick(15, 5000), request.config.getoption("--seed")
    assert list(include_trees.wrong_keys(trees, seed, counts, closure)) == []
    figures.tell(**counts)
    assert counts["that_matter"] > trees


def test_a_closure_that_misses_hidden_questions_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_can_build_has_include", lambda _text: False)
    assert next(include_trees.wrong_keys(60, 3, Counter()), None) is not None


def test_a_closure_that_misses_macros_named_for_asking_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_WRAPPER_CALL", re.compile("(?!)"))
    assert next(include_trees.wrong_keys(60, 34, Counter()), None) is not None  # which finds one soon
