"""The bounded form of `tests/fuzz/manifests.py`, and that it notices a loader that trusts what it reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("cuda.core.utils")
pytest.importorskip("resource")

from tests.fuzz import manifests

pytestmark = pytest.mark.counted

COUNT = 2000


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> manifests.Target:
    return manifests.Target(tmp_path_factory.mktemp("fuzz"))


def test_no_mutation_gives_wrong_bytes_or_an_error_of_another_type(tmp_path: Path) -> None:
    figures = manifests.fuzz(tmp_path, COUNT, seed=0)
    assert (figures.mutations, figures.wrong, figures.escapes) == (COUNT, [], [])
    assert {"read", "find", "cache", "names", "archs", "CubinDamagedError"} <= figures.outcomes.keys()
    assert figures.slowest < 5  # seconds


def trust(value: Any, *_rest: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        pytest.param("_plain_file", trust, id="any path"),
        pytest.param("_typed", trust, id="any type"),
        pytest.param("_checked", lambda data, _name=b"": data[76:], id="any line"),
        pytest.param("_verified", lambda entry: Path(entry.path).read_bytes(), id="any bytes"),
    ],
)
def test_a_loader_that_trusts_is_noticed(
    target: manifests.Target, monkeypatch: pytest.MonkeyPatch, name: str, instead: Callable[..., Any]
) -> None:
    monkeypatch.setattr(target.cubins, name, instead)
    figures = manifests.Figures()
    for number in range(COUNT):
        target.judge(Random(number), figures, str(number))  # noqa: S311
        if figures.wrong or figures.escapes:
            return
    pytest.fail(f"it was not: {figures}")


def test_a_mutation_is_made_by_its_number_alone(target: manifests.Target) -> None:
    made = []
    for number in (7, 8, 7):
        target.mutate(Random(number))  # noqa: S311
        made.append((target.folder / "manifest.json").read_bytes())
        target.restore()
    assert made[0] == made[2] != made[1]
