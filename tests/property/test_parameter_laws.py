"""Whatever stands in a symbol, in a source or in PTX: types and places are told, or nothing is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hatch_cubin.cubin.ptx import ptx_parameters
from hatch_cubin.cubin.symbol_types import parameter_types
from hatch_cubin.project.declared_kernels import declared_types

pytestmark = pytest.mark.counted

few = settings(max_examples=300, deadline=None)
_PARTS = st.sampled_from(
    [
        *("N", "I", "J", "E", "P", "K", "V", "R", "O", "S_", "S0_", "T_", "T0_", "Dp", "X", "Li4E", "Lb1E"),
        *("1k", "2ns", "3Vec", "f", "i", "v", "m", "n", "e", "F", "A4_", "Z", "B", "12_GLOBAL__N_1", "St"),
    ]
)
_WORDS = st.sampled_from(
    [
        *("__global__", "void", "k", "(", ")", "{", "}", ";", ",", "*", "&", "<", ">", "::", "[", "]", "="),
        *("float", "const", "unsigned", "S", "x", "__launch_bounds__", "\n#define S x\n", "\n#define x S\n"),
        *("\n#define k(a) a\n", "/*", "*/", "//", '"', "\n", "\\\n", "...", "[[", "]]", "volatile", "4"),
    ]
)
_DIRECTIVES = st.sampled_from(
    [
        *(".entry", "k", "(", ")", ".param", ".u32", ".b8", ".align", "8", "0", "x", "[", "]", ",", ".ptr"),
        *(".global", ".f16x2", "//", "/*", "*/", "\n", ".texref", "{", "}"),
    ]
)


@few
@given(st.lists(_PARTS, max_size=24).map("".join))
def test_a_symbol_tells_its_types_or_none(rest: str) -> None:
    types = parameter_types(f"_Z{rest}")
    assert types is None or all(types)


@few
@given(st.lists(_WORDS, max_size=40).map(" ".join))
def test_a_source_tells_its_types_or_none(text: str) -> None:
    types = declared_types(f'extern "C" __global__ void k ({text}').get("k", ())
    assert all(each is None or each for each in types)


@few
@given(st.lists(_DIRECTIVES, max_size=40).map(" ".join))
def test_the_places_of_parameters_do_not_overlap(text: str) -> None:
    for places in ptx_parameters(f".entry k ( {text}").values():
        ends = [0, *(offset + size for offset, size in places)]
        assert all(offset >= end for (offset, _size), end in zip(places, ends, strict=False))
