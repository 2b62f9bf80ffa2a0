"""Whatever is edited between builds, what is recalled of closures is what there is."""

from __future__ import annotations

from collections import Counter

import pytest

from hatch_cubin.headers import recalled_closures
from tests.fault_counts import Figures
from tests.fuzz import edits


def test_what_is_recalled_is_what_is_found_without(figures: Figures, request: pytest.FixtureRequest) -> None:
    counts: Counter[str] = Counter()
    trees, seed = figures.pick(60, 5000), request.config.getoption("--seed")
    assert list(edits.wrong_closures(trees, seed, counts)) == []
    figures.tell(**counts)
    assert counts["recalled"] > trees


@pytest.mark.parametrize("blind", ["outside", "in the project"])
def test_a_memory_that_does_not_look_is_found_out(monkeypatch: pytest.MonkeyPatch, blind: str) -> None:
    if blind == "outside":
        monkeypatch.setattr(recalled_closures, "_lines_digest", lambda _parts: "")
    else:
        monkeypatch.setattr(
            recalled_closures.RecalledClosures, "_nothing_appeared", lambda _closures, _project: True
        )
    assert next(edits.wrong_closures(200, 0, Counter()), None) is not None
