"""Kernel names: what a symbol was called in the source."""

from __future__ import annotations

import pytest

from hatch_cubin._names import plain_name, spelled_names


@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("saxpy", "saxpy"),
        ("_Z4fillPf", "fill"),
        ("_ZL4fillPf", "fill"),
        ("_ZN2ns4fillEPf", "ns::fill"),
        ("_ZN1a1b4fillEv", "a::b::fill"),
        ("_ZN12_GLOBAL__N_14fillEPf", "fill"),
        ("_ZN2ns12_GLOBAL__N_14fillEPf", "ns::fill"),
        ("_ZN38_INTERNAL_abcdef0123456789_4_k_cu_fill4fillEv", "fill"),
    ],
)
def test_a_mangled_name_reads_as_in_the_source(symbol: str, name: str) -> None:
    assert plain_name(symbol) == name


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z5scaleIfLi4EEvPT_",
        "_ZN2ns5scaleIfEEvPT_",
        "_ZN2nsIiE4fillEv",
        "_ZSt4fill",
        "_ZNSt4fillEv",
        "_ZN4fill",
        "_Z",
        "_ZN",
        "_Z0v",
        "_Z99fillPf",
        "_ZN2ns9fillE",
        "_ZN12_GLOBAL__N_1E",
        "_Z" + "9" * 5000,
    ],
    ids=lambda symbol: symbol[:20],
)
def test_a_template_and_what_is_not_mangled_keep_their_symbol(symbol: str) -> None:
    assert plain_name(symbol) == symbol


@pytest.mark.parametrize(
    ("symbols", "instantiated", "names"),
    [
        (["b", "_Z1aPf"], {}, {"a": "_Z1aPf", "b": "b"}),
        (["_Z1aPf", "_Z1aPi"], {}, {"_Z1aPf": "_Z1aPf", "_Z1aPi": "_Z1aPi"}),
        (["a", "_Z1aPf"], {}, {"a": "a", "_Z1aPf": "_Z1aPf"}),
        (["_Z1aIfEvv", "b"], {"a<float>": "_Z1aIfEvv"}, {"a<float>": "_Z1aIfEvv", "b": "b"}),
        (["_Z1aPf", "_Z1aIfEvv"], {"a": "_Z1aIfEvv"}, {"_Z1aPf": "_Z1aPf", "a": "_Z1aIfEvv"}),
        ([], {}, {}),
    ],
    ids=["plain", "overloads", "one in C", "template", "taken by a template", "nothing"],
)
def test_every_kernel_has_a_name_that_means_it_alone(
    symbols: list[str], instantiated: dict[str, str], names: dict[str, str]
) -> None:
    spelled = spelled_names(symbols, instantiated)
    assert spelled == names
    assert list(spelled) == sorted(spelled)
