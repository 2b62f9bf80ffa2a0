"""Blocks: what shares one, what an edit leaves alone, and that nothing is unpacked which is not as it was."""

from __future__ import annotations

import lzma
import random
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin import loader
from hatch_cubin.bundle import packs
from hatch_cubin.bundle.packs import Block, Piece, plan_blocks, unpack
from tests.helpers import pack, sha256

KIB = 1 << 10


def piece(name: str, size: int = 100 * KIB, arch: str = "sm_90", base: str = "", text: str = "") -> Piece:
    return Piece(base or name, name, arch, sha256(f"{arch} {text or name}".encode()), size)


def names(blocks: list[Block]) -> list[set[str]]:
    return [{piece.name for piece in block.pieces} for block in blocks]


def test_a_block_has_one_arch_and_a_number_in_it() -> None:
    blocks = plan_blocks(
        [piece("a"), piece("b"), piece("a", arch="compute_90"), *(piece(f"x{i}") for i in range(30))]
    )
    assert [block.name for block in blocks] == ["sm_90.0.xz", "sm_90.1.xz", "compute_90.0.xz"]
    assert all(len({piece.arch for piece in block.pieces}) == 1 for block in blocks)


@given(st.lists(st.integers(1, 3 << 20), max_size=60), st.integers(1, 8))
def test_no_block_is_too_large_unless_it_has_one_result(sizes: list[int], archs: int) -> None:
    pieces = [piece(f"k{n}", size, f"sm_{n % archs}") for n, size in enumerate(sizes)]
    blocks = plan_blocks(pieces)
    assert sorted(each for block in blocks for each in block.pieces) == sorted(pieces)
    assert all(block.size <= packs.MOST or len(block.pieces) == 1 for block in blocks)
    assert all(block.pieces for block in blocks)


@given(st.randoms(use_true_random=False))
def test_neither_order_nor_content_but_names_say_what_shares_a_block(chance: random.Random) -> None:
    pieces = [piece(f"k{n}") for n in range(100)]
    other = [piece(f"k{n}", text=f"other {n}") for n in range(100)]
    chance.shuffle(other)
    assert names(plan_blocks(pieces)) == names(plan_blocks(other))


def test_an_edit_leaves_all_other_blocks_as_they_are() -> None:
    pieces = [piece(f"k{n}") for n in range(200)]
    before = {block.key for block in plan_blocks(pieces)}
    edited = [piece("k7", 101 * KIB, text="edited"), *(each for each in pieces if each.name != "k7")]
    after = {block.key for block in plan_blocks(edited)}
    assert len(before) > 10
    assert len(after - before) == 1
    one_more = {block.key for block in plan_blocks([*pieces, piece("new", 1)])}
    assert len(one_more - before) == 1


def test_the_variants_of_a_source_stay_together() -> None:
    variants = [piece(f"red[N={n}]", 10 * KIB, base="red") for n in range(50)]
    blocks = plan_blocks([*variants, *(piece(f"k{n}") for n in range(100))])
    assert len([block for block in blocks if {*block.pieces} & {*variants}]) == 1


def test_a_result_that_is_too_large_to_share_has_a_block_of_its_own() -> None:
    blocks = plan_blocks([piece("small", 1), piece("large", packs.MOST + 1), piece("just", packs.MOST)])
    assert sorted(block.size for block in blocks) == [1, packs.MOST, packs.MOST + 1]
    assert blocks[-1].size == packs.MOST + 1


def test_identical_results_of_an_arch_lie_in_one_place() -> None:
    a, other = piece("a"), piece("a")._replace(arch="sm_80")
    blocks = plan_blocks([a, a._replace(base="b", name="b"), other])
    assert [(block.name, block.pieces) for block in blocks] == [
        ("sm_90.0.xz", (a,)),
        ("sm_80.0.xz", (other,)),
    ]


def test_results_lie_one_after_another() -> None:
    (block,) = plan_blocks([piece("a", 5), piece("b", 7), piece("c", 11)])
    assert sorted(offset for _name, offset in block.slots.values()) == [0, 5, 12]
    assert {name for name, _offset in block.slots.values()} == {"sm_90.0.xz"}


def test_a_key_follows_from_the_results_and_their_order_alone() -> None:
    (one,), (two,) = plan_blocks([piece("a"), piece("b")]), plan_blocks([piece("b"), piece("a")])
    (other,) = plan_blocks([piece("a"), piece("b", text="else")])
    assert one.key == two.key != other.key


@pytest.mark.parametrize("size", [1, 100, 4096, 4097, 100_000, packs.MOST, packs.MOST + 1])
def test_what_a_process_packs_is_unpacked_within_the_limits(size: int) -> None:
    data = random.Random(size).randbytes(size // 2) * 2 + b"x" * (size % 2)  # noqa: S311
    packed = pack(data)
    assert unpack(packed, sha256(packed), size) == data


def test_the_limits_of_builder_and_loader_are_the_same() -> None:
    assert (packs.MOST, packs._WINDOW) == (loader._part("_packs")._BLOCK, loader._part("_packs")._WINDOW)


def test_a_block_that_is_forecast_is_the_one_that_a_worker_packs() -> None:
    data = random.Random(0).randbytes(1000) * 100  # noqa: S311
    assert packs.pack(data) == pack(data)


def test_the_same_results_give_the_same_block() -> None:
    data = random.Random(0).randbytes(1000) * 100  # noqa: S311
    assert pack(data) == pack(data)


DATA = b"code " * 1000
PACKED = pack(DATA)


@pytest.mark.parametrize(
    ("packed", "size", "said"),
    [
        pytest.param(PACKED, len(DATA) - 1, "does not unpack to the 4999 bytes", id="more"),
        pytest.param(PACKED, len(DATA) + 1, "does not unpack to the 5001 bytes", id="less"),
        pytest.param(PACKED + b"\0", len(DATA), "does not unpack to the 5000 bytes", id="something behind"),
        pytest.param(PACKED + PACKED, len(DATA), "does not unpack to the 5000 bytes", id="two streams"),
        pytest.param(PACKED[:-1], len(DATA), "does not unpack to the 5000 bytes", id="cut"),
        pytest.param(b"x" * 60, len(DATA), "cannot be unpacked: ", id="no stream"),
        pytest.param(pack(bytes(1 << 18)), 100, "does not unpack to the 100 bytes", id="bomb"),
        pytest.param(
            lzma.compress(DATA, preset=9),
            len(DATA),
            "Memory usage limit exceeded",
            id="wants 64 MiB to unpack",
        ),
    ],
)
def test_what_would_unpack_to_something_else_is_refused(packed: bytes, size: int, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unpack(packed, sha256(packed), size)


def test_a_block_is_compared_with_its_digest_before_it_is_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "lzma", None)  # which would be an error of its own
    with pytest.raises(
        ValueError, match=f"its sha256 is {sha256(PACKED)}, but the manifest says {sha256(b'')}"
    ):
        unpack(PACKED, sha256(b""), len(DATA))
    with pytest.raises(ValueError, match="cannot be unpacked: this Python does not have the module lzma"):
        unpack(PACKED, sha256(PACKED), len(DATA))


def test_the_blocks_of_an_arch_are_numbered_without_gaps() -> None:
    numbers = [int(block.name.split(".")[1]) for block in plan_blocks(piece(f"k{n}") for n in range(300))]
    assert all(after == before + 1 for before, after in pairwise(numbers))
