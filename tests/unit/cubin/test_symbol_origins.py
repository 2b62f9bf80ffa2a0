"""The parts of a cubin, and the libraries that its symbols come from."""

from __future__ import annotations

import pytest

from hatch_cubin.cubin.symbol_origins import bytes_by_part, digests_by_part, origin_of
from tests.cubins import FUNC, KERNEL, OBJECT, elf


@pytest.mark.parametrize(
    ("symbol", "origin"),
    [
        ("_ZN3cub16_V_300500_SM_90013UninitializedINS1_EE9WORD_SIZEE", "CUB"),
        ("_ZN4cuda3std3__45ratioILx604800ELx1EE4__naE", "libcu++"),
        ("_ZN31_INTERNAL_00000000_6_sum_cu_sum4cuda3ptx3__49op_xor_opE", "libcu++"),
        ("_ZN12_GLOBAL__N_16thrust6system6detailE", "Thrust"),
        ("_ZNK7cutlass4half3getEv", "CUTLASS"),
        ("_ZTVN4cute6LayoutE", "CuTe"),
        ("_Z5scaleIN3cub4HalfEEvPT_", "the rest"),
        ("saxpy", "the rest"),
        ("", "the rest"),
        ("_ZN", "the rest"),
        ("_ZN999999x", "the rest"),
    ],
)
def test_a_symbol_comes_from_the_library_of_its_outermost_scope(symbol: str, origin: str) -> None:
    assert origin_of(symbol) == origin


def test_every_byte_of_a_cubin_belongs_to_a_part() -> None:
    cub, more = "_ZN3cub1xE", [(".text.k", 1, bytes(100), 0), (".rela.text.k", 4, bytes(48), 0)]
    data = elf(("k", FUNC, KERNEL, 7), (cub, OBJECT, 0, 3), more=[*more, (".debug_line", 1, bytes(7), 0)])
    found = bytes_by_part(data)
    assert sum(found.values()) == len(data)
    assert {name: found[name] for name in found if name != "other"} == {
        "symbol tables of CUB": 25 + len(cub),
        "symbol tables of the rest": 25 + len("k") + 25,
        "code": 100,
        "relocations": 48,
        "debug information": 7,
    }


@pytest.mark.parametrize("data", [b"", b"\x7fELF", elf(("k", FUNC, KERNEL, 7))[:-40]])
def test_a_file_that_cannot_be_read_raises_value_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="is a damaged cubin"):
        bytes_by_part(data)


def test_each_part_that_changed_has_another_digest() -> None:
    names = {"text.k": "code", "nv.constant3": "constants", "nv.global.init": "globals"}
    names |= {"nv.info": "attributes", "nv.shared.k": "shared", "comment": "rest"}

    def parts(changed: str = "") -> dict[str, str]:
        sections = [(f".{name}", 1, b"x" if name == changed else b"as it was", 0) for name in names]
        return digests_by_part(elf(more=sections))

    before = parts()
    for name, part in names.items():
        after = parts(name)
        assert [each for each in after if after[each] != before[each]] == [part]
