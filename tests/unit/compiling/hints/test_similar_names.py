"""Names that are spelled nearly alike."""

from __future__ import annotations

import pytest

from hatch_cubin.compiling.hints.similar_names import did_you_mean, nearest

KNOWN = [
    "__expf",
    "expf",
    "__ffs",
    "fmax",
    "fmaxf",
    "fminf",
    "max",
    "sqrt",
    "sqrtf",
    "ceil",
    "threadIdx",
    "__syncthreads",
    "atomicAdd",
    "make_float4",
    "make_float3",
]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("__expff", "__expf"),
        ("fmaxx", "fmax"),
        ("sqrft", "sqrtf"),
        ("ciel", "ceil"),
        ("maxf", "fmaxf"),
        ("make_flaot4", "make_float4"),
        ("threadidx", "threadIdx"),
        ("syncthreads", "__syncthreads"),
        ("Atomic_Add", "atomicAdd"),
        ("sqr", None),
        ("foobar", None),
        ("makefile", None),
    ],
)
def test_the_name_with_the_fewest_errors_is_meant(written: str, meant: str | None) -> None:
    assert nearest(written, KNOWN) == meant


def test_a_name_is_not_its_own_misspelling() -> None:
    assert nearest("max", ["max"]) is None
    assert did_you_mean("fmaxx", ["fmax"]) == "did you mean 'fmax'?"
    assert did_you_mean("other", ["fmax"]) is None
