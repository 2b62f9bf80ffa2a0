"""The types in a kernel's symbol."""

from __future__ import annotations

import pytest

from hatch_cubin.cubin.symbol_types import parameter_types


# Symbols of NVRTC and the output of c++filt for them, with `const` moved to the front.
@pytest.mark.parametrize(
    ("symbol", "types"),
    [
        ("_Z1iv", ""),
        ("_Z4fillPf", "float *"),
        ("_Z5saxpyfPKfPfm", "float; const float *; float *; unsigned long"),
        (
            "_Z1afPKfPKPfPViPVKcm1SPN2ns2T2ENS9_3VecIfLi4EEEPSD_",
            (
                "float; const float *; float *const *; volatile int *; const volatile char *; "
                "unsigned long; S; ns::T2 *; ns::Vec<float, 4>; ns::Vec<float, 4> *"
            ),
        ),
        ("_Z5scaleIfLi4EEvPT_", "float *"),
        (
            "_Z1bIfLi4EEvPKT_S0_N2ns3VecIS0_XT0_EEEPS5_PPS0_PKNS4_IS0_Li2EEE1SPSC_",
            (
                "const float *; float; ns::Vec<float, 4>; ns::Vec<float, 4> *; float **; "
                "const ns::Vec<float, 2> *; S; S *"
            ),
        ),
        (
            "_Z1bIPKfLi4EEvPKT_S2_N2ns3VecIS2_XT0_EEEPS7_PPS2_PKNS6_IS2_Li2EEE1SPSE_",
            (
                "const float *const *; const float *; ns::Vec<const float*, 4>; ns::Vec<const float*, 4> *; "
                "const float ***; const ns::Vec<const float*, 2> *; S; S *"
            ),
        ),
        (
            "_ZN2ns1gIfEEvPT_PNS_3VecIS1_Li3EEENS_2T2EPS6_PKPKS6_",
            "float *; ns::Vec<float, 3> *; ns::T2; ns::T2 *; const ns::T2 *const *",
        ),
        ("_ZN2ns1hENS_2T2EPS0_", "ns::T2; ns::T2 *"),
        ("_Z1cIJfPiEEviDpT_", "int; float; int *"),
        ("_Z1cIJEEviDpT_", "int"),
        ("_Z1eIfEvN2TrIT_E4typeEN2ns1EEbnPc", "Tr<float>::type; ns::E; bool; __int128; char *"),
        ("_ZN36_GLOBAL__N__00000000_4_k_cu_3ab18a551fEP1S", "S *"),
        ("_Z4fillRdOi", "double &; int &&"),
    ],
)
def test_the_types_of_parameters_are_read_from_the_symbol(symbol: str, types: str) -> None:
    assert parameter_types(symbol) == tuple(types.split("; ") if types else ())


@pytest.mark.parametrize(
    "symbol",
    [
        "saxpy",
        "_Z",
        "_Z1dIJfiEEviDpPT_",  # pointers to each type of a pack
        "_Z1jPFviEPA4_f",
        "_Z1kT_",
        "_Z1kIfEvT0_",
        "_Z1kIJfiEEvT_",
        "_Z1kIJfiEEvDpT_S0_",
        "_Z1kIfLi2EEvN2ns3VecIT_Xmi2T0_EEE",
        "_Z1kIfLi2EEvN2ns3VecIT_XT0_iEE",
        "_Z1kIZ4mainEUlvE_EvT_",
        "_Z1k" + "P" * 5000 + "f",
        "_Z1k" + "3VecI" * 5000,
    ],
    ids=lambda symbol: symbol[:24],
)
def test_a_symbol_with_an_unreadable_part_gives_no_types(symbol: str) -> None:
    assert parameter_types(symbol) is None
