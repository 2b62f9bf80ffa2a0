"""The warning for two wheels that are compared in the wrong order."""

from __future__ import annotations

import pytest

from hatch_cubin.wheels.comparing.comparison import ComparedWheel
from hatch_cubin.wheels.comparing.wheel_order import wrong_order
from tests.helpers import Coded

pytestmark = pytest.mark.counted


def wheel(version: str, name: str = "demo") -> ComparedWheel:
    path = f"my dist/{name}-{version}-py3-none-any.whl"
    return ComparedWheel(path, path, 1, {})


@pytest.mark.parametrize(
    ("newer", "older"),
    [
        ("1.10.0", "1.9.0"),
        ("2", "1.9.post1"),
        ("1!1.0", "2.0"),
        ("1.0", "1.0rc1"),
        ("1.0rc1", "1.0b2"),
        ("1.0b1", "1.0a10"),
        ("1.0a10", "1.0a9"),
        ("1.0.post1", "1.0"),
        ("1.0a1", "1.0.dev3"),
        ("1.1+cu130", "1.0+cu129"),
    ],
)
def test_a_newer_wheel_before_an_older_wheel_is_told(newer: str, older: str) -> None:
    first, second = wheel(newer), wheel(older)
    hint = f"hatch-cubin diff '{second.path}' '{first.path}'"
    assert wrong_order(first, second) == Coded("newer-wheel-first", first.path, newer, older, hint)
    assert wrong_order(second, first) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (wheel("1.0"), wheel("1.0")),
        (wheel("1.0.0"), wheel("1.0")),
        (wheel("0"), wheel("0.0")),
        (wheel("1.0+cu130"), wheel("1.0+cu129")),
        (wheel("2.0", "other"), wheel("1.0")),
        (wheel("2.0.strange"), wheel("1.0")),
        (wheel("2.0"), wheel("1.0rc1.dev2")),
        (ComparedWheel("demo", "demo", None, {}), wheel("1.0")),
        (wheel("2.0"), ComparedWheel("demo", "demo", None, {})),
    ],
)
def test_other_pairs_are_not_told(first: ComparedWheel, second: ComparedWheel) -> None:
    assert wrong_order(first, second) is None


def test_names_of_a_distribution_are_compared_as_installers_do() -> None:
    assert wrong_order(wheel("2.0", "My_Demo"), wheel("1.0", "my.demo")) is not None
