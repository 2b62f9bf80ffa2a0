"""Packs of results: how they are made, found through an index, and rewritten."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hatch_cubin.remote import packs
from hatch_cubin.remote.packs import Pack, PackIndex, decode, make_packs
from tests.cached_results import item

A, B, C = item("a"), item("b", 200), item("c", 300)


def one(*items: packs.PackedResult) -> Pack:
    (pack,) = make_packs(items)
    return pack


def indexed(*made: Pack) -> PackIndex:
    """Return an index of these packs after a single write."""
    return PackIndex().drop_unused(set()).with_packs(made)


def test_a_pack_holds_records_and_bytes_in_order() -> None:
    pack = one(A, B)
    assert pack.data == A.record + A.data + B.record + B.data
    assert (pack.size, [slot.read_from(key, pack.data) for key, slot in pack.slots.items()]) == (
        len(pack.data),
        [A, B],
    )
    assert [*make_packs([])] == []


def test_packs_are_filled_up_to_their_maximum_and_only_a_single_result_may_exceed_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    size = len(A.record) + len(A.data)
    monkeypatch.setattr(packs, "MAX_PACK_SIZE", 2 * size)
    made = [*make_packs([A, item("d"), item("e"), item("f", 10 * size), item("g")])]
    assert [len(pack.slots) for pack in made] == [2, 1, 1, 1]


def test_an_index_is_decoded_as_it_was_encoded() -> None:
    index = indexed(one(A, B), one(C))
    assert decode(index.encode()) == index
    assert json.loads(index.encode())["packs"] == [
        [one(A, B).sha256, one(A, B).size],
        [one(C).sha256, one(C).size],
    ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("format", 2),
        ("writes", -1),
        ("writes", True),
        ("packs", [["0" * 64, "12"]]),
        ("packs", [["0" * 64]]),
        ("packs", []),
        ("packs", None),
        ("packs", [["../../elsewhere", 1 << 20]]),
        ("units", {"00": [0, 0, 100, 100, 1], "01": [0, 0, 100, 100, 1]}),  # they overlap
        ("units", [1]),
        ("units", {"xyz": [0, 0, 1, 1, 1]}),
        ("units", {"00": [0, 0, 1, 1]}),
        ("units", {"00": [-1, 0, 1, 1, 1]}),
        ("units", {"00": [0, 0, 1, 1 << 40, 1]}),
        ("units", {"00": [0, 0.5, 1, 1, 1]}),
    ],
)
def test_a_damaged_index_is_refused(name: str, value: object) -> None:
    values = json.loads(indexed(one(A)).encode()) | {name: value}
    with pytest.raises(ValueError, match=r".+"):
        decode(json.dumps(values).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b"[" * 100_000, b"\xff"])
def test_other_bytes_are_refused_as_an_index(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(data)


def test_an_index_drops_packs_without_results() -> None:
    index = indexed(one(A), one(B, C))
    left = index.without({one(A).sha256}, {B.key}).with_packs([])
    assert ([*left.packs], [*left.slots]) == ([one(B, C).sha256], [C.key])


def test_an_unused_key_is_dropped_after_64_writes() -> None:
    index = indexed(one(A, B))
    for _ in range(packs._KEPT_WRITES - 1):
        index = index.drop_unused({B.key})
        assert index.slots.keys() == {A.key, B.key}
    assert index.drop_unused({B.key}).slots.keys() == {B.key}


def test_a_pack_that_is_less_than_half_used_is_rewritten() -> None:
    index = indexed(one(A, B, C))
    assert index.packs_to_rewrite() == set()
    assert index.without(set(), {A.key, C.key}).packs_to_rewrite() == {one(A, B, C).sha256}


def test_more_than_eight_small_packs_are_rewritten() -> None:
    few = [one(item(f"{number}")) for number in range(packs._MAX_SMALL_PACKS)]
    assert indexed(*few).packs_to_rewrite() == set()
    more = indexed(*few, one(A))
    assert more.packs_to_rewrite() == {*more.packs}
    large = replace(more, packs=dict.fromkeys(more.packs, packs.MAX_PACK_SIZE))
    assert large.packs_to_rewrite() == {*more.packs}  # less than half of each is used


def test_a_result_that_is_packed_again_is_found_in_the_new_pack_only() -> None:
    index = indexed(one(A, B)).drop_unused({A.key}).with_packs([one(A)])
    assert {key: slot.pack for key, slot in index.slots.items()} == {
        A.key: one(A).sha256,
        B.key: one(A, B).sha256,
    }
    assert index.writes == index.slots[A.key].used == 2
