"""Kernel names: the name in the source of a kernel's symbol."""

from __future__ import annotations

import pytest

from hatch_cubin import loader
from hatch_cubin.cubin.kernel_names import demangle, kernels_by_name, names_fit_symbols, signature


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
        ("_ZSt4fillv", "std::fill"),
        ("_ZNSt3pmr4fillEv", "std::pmr::fill"),
    ],
)
def test_a_mangled_name_reads_as_in_the_source(symbol: str, name: str) -> None:
    assert demangle(symbol) == name


# The output of c++filt for the same symbols, with `const` moved to the front.
@pytest.mark.parametrize(
    ("symbol", "name"),
    [
        ("_Z5scaleIfLi4EEvPT_", "scale<float, 4>"),
        ("_ZN2ns5scaleIdEEvPT_", "ns::scale<double>"),
        ("_ZN12_GLOBAL__N_15scaleIfEEvPT_", "scale<float>"),
        ("_Z4fillILin4ELj4ELl5ELmn1ELx6ELy7EEvv", "fill<-4, 4u, 5l, -1ul, 6ll, 7ull>"),
        ("_Z4fillILb0ELb1EEvv", "fill<false, true>"),
        ("_Z4fillIPfPKhRdOiEvv", "fill<float*, const unsigned char*, double&, int&&>"),
        ("_Z4fillI6__halfN2ns4TypeEEvv", "fill<__half, ns::Type>"),
        ("_Z4fillIN12_GLOBAL__N_14TypeEEvv", "fill<Type>"),
        ("_ZN2ns4fillINS_4TypeES1_EEvv", "ns::fill<ns::Type, ns::Type>"),
        ("_Z4fillI3VecIfLi4EES1_EvT_T0_", "fill<Vec<float, 4>, Vec<float, 4>>"),
        ("_Z4fillIN2ns3VecIPKfEENS1_IiEEEvv", "fill<ns::Vec<const float*>, ns::Vec<int>>"),
        ("_Z4fillI3VecIfES0_IiEEvv", "fill<Vec<float>, Vec<int>>"),
        ("_Z4fillISt4pairIifEEvv", "fill<std::pair<int, float>>"),
        ("_Z4fillINSt3pmr4TypeEEvv", "fill<std::pmr::Type>"),
        ("_Z4fillIJfiEEvDpT_", "fill<float, int>"),
        ("_Z4fillIJEEvDpT_", "fill<>"),
        ("_ZN2nsIiE4fillEv", "ns<int>::fill"),
    ],
)
def test_a_template_reads_as_it_was_instantiated(symbol: str, name: str) -> None:
    assert demangle(symbol) == name
    assert loader.normal_name(name) == name


@pytest.mark.parametrize(
    "symbol",
    [
        "_Z4fillILc65EEvv",  # a character
        "_Z4fillILN2ns4ModeE1EEvv",  # an enumerator, of which only the number is there
        "_Z4fillIKPfEvv",  # a constant pointer
        "_Z4fillIVfEvv",
        "_Z4fillIFvvEEvv",
        "_Z4fillIA4_fEvv",
        "_Z4fillIZ4mainEUlvE_EvT_",
        "_Z4fillISaIfEEvv",
        "_Z4fillIXadL_Z4sizeEEEvv",
        "_Z4fillIS0_Evv",
        "_Z4fillB3tagv",
        "_Z4fillIfEB3tagvv",
        "_ZNK2ns4fillEv",
        "_Z4fillIf",
        "_Z4fillIL",
        "_ZNIfE4fillEv",
        "_Z4fillI" + "P" * 5000 + "fEvv",
        "_Z4fillI" + "3VecI" * 5000,
        "_Z4fillI3VecIfE" + "".join(f"S0_IS{digit}_S{digit}_E" for digit in "123456789ABCDEF") + "Evv",
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
def test_symbols_that_cannot_be_read_are_kept_as_they_are(symbol: str) -> None:
    assert demangle(symbol) == symbol


@pytest.mark.parametrize(
    ("symbols", "instantiated", "names"),
    [
        (["b", "_Z1aPf"], {}, {"a": "_Z1aPf", "b": "b"}),
        (["_Z1aPf", "_Z1aPi"], {}, {"_Z1aPf": "_Z1aPf", "_Z1aPi": "_Z1aPi"}),
        (["a", "_Z1aPf"], {}, {"a": "a", "_Z1aPf": "_Z1aPf"}),
        (["_Z1aIfEvv", "b"], {"a<float>": "_Z1aIfEvv"}, {"a<float>": "_Z1aIfEvv", "b": "b"}),
        (["_Z1aPf", "_Z1aIfEvv"], {"a": "_Z1aIfEvv"}, {"_Z1aPf": "_Z1aPf", "a": "_Z1aIfEvv"}),
        (
            ["_Z1aIfEvv", "_Z1aIiEvv"],
            {"a<int>": "_Z1aIiEvv"},
            {"a<float>": "_Z1aIfEvv", "a<int>": "_Z1aIiEvv"},
        ),
        (["_Z1aIfEvv", "_Z1aIfEvPT_"], {}, {"_Z1aIfEvPT_": "_Z1aIfEvPT_", "_Z1aIfEvv": "_Z1aIfEvv"}),
        ([], {}, {}),
    ],
    ids=[
        "plain",
        "overloads",
        "one in C",
        "template",
        "taken by a template",
        "also in the source",
        "overloaded templates",
        "nothing",
    ],
)
def test_every_kernel_has_a_name_of_its_own(
    symbols: list[str], instantiated: dict[str, str], names: dict[str, str]
) -> None:
    spelled = kernels_by_name(symbols, instantiated)
    assert spelled == names
    assert list(spelled) == sorted(spelled)


# Names that a record may have

FLOAT, DOUBLE, PLAIN, TYPED = "_Z5scaleIfEvPT_", "_Z5scaleIdEvPT_", "k", "_Z5scaleI4TypeEvPT_"


@pytest.mark.parametrize(
    ("kernels", "asked"),
    [
        ({"k": PLAIN}, []),
        ({"scale<float>": FLOAT}, []),
        ({"scale<float>": FLOAT, "scale<double>": DOUBLE, "k": PLAIN}, ["scale<float>", "scale< double >"]),
        ({"scale<real>": FLOAT}, ["scale<real>"]),  # an alias of float in the source
        ({"scale<real>": FLOAT, "scale<float>": FLOAT}, ["scale<real>", "scale<float>"]),
        ({"scale<unsigned int>": TYPED}, ["scale<unsigned  int>"]),
        ({"_ZL1kv": "_ZL1kv", "_Z1kv": "_Z1kv"}, []),  # with the same name
        ({"k": "_Z1kv", "_ZL1kv": "_ZL1kv"}, ["k"]),
    ],
)
def test_names_that_a_compile_can_give_are_accepted(kernels: dict[str, str], asked: list[str]) -> None:
    assert names_fit_symbols(kernels, {*kernels.values()}, asked)


@pytest.mark.parametrize(
    ("kernels", "asked"),
    [
        ({"zz": PLAIN}, []),
        ({"zz": FLOAT}, []),
        ({"k": FLOAT}, []),
        ({"scale<float>": DOUBLE, "scale<double>": FLOAT}, []),
        ({"scale<float>": DOUBLE, "scale<double>": FLOAT}, ["scale<float>", "scale<double>"]),
        ({"scale<real>": FLOAT}, []),  # this name was not requested
        ({"scale<float>": FLOAT}, ["scale<real>"]),
        ({"scale<float>": FLOAT}, ["scale<float>", "scale<real>"]),
        ({"scale<float>": FLOAT, "zz": FLOAT}, ["scale<float>"]),
        ({"k": "_Z1kv", "_ZL1kv": "_ZL1kv"}, []),
    ],
)
def test_other_names_are_refused(kernels: dict[str, str], asked: list[str]) -> None:
    assert not names_fit_symbols(kernels, {*kernels.values()}, asked)


def test_a_kernel_may_not_be_left_out_nor_added() -> None:
    assert not names_fit_symbols({"k": "k"}, ["k", "j"], [])
    assert not names_fit_symbols({"k": "k", "j": "j"}, ["k"], [])


@pytest.mark.parametrize(
    ("symbol", "whole"),
    [
        ("k", "k"),
        ("_Z1fi", "f(int)"),
        ("_Z1fv", "f()"),
        ("_ZN2ns1gEiPKf", "ns::g(int, const float*)"),
        ("_ZN2ns1vE", "ns::v"),
        ("_Z5twiceIfET_S0_", "twice<float>"),
        ("_Z1fDv4_f", "f"),
        ("_Zwhatever", "_Zwhatever"),
    ],
)
def test_a_signature_is_the_name_with_the_parameters_that_can_be_read(symbol: str, whole: str) -> None:
    assert signature(symbol) == whole
