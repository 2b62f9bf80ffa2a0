"""Laws of packs and their index, and of the message that an index is stored in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin.remote import bazel_actions, packs
from hatch_cubin.remote.bazel_actions import Action, OutputFile
from hatch_cubin.remote.packs import Pack, PackedResult, PackIndex

pytestmark = pytest.mark.counted

ITEMS = st.builds(
    PackedResult,
    st.binary(min_size=1, max_size=4),
    st.binary(max_size=20),
    st.binary(min_size=1, max_size=90),
)
UNIQUE = st.lists(ITEMS, max_size=12, unique_by=lambda item: item.key)
FILES = st.builds(
    OutputFile,
    st.text(st.characters(codec="utf-8"), min_size=1),
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 2**62),
)
ACTIONS = st.builds(Action, st.lists(FILES).map(tuple), st.binary(), st.binary())


def written(builds: list[list[PackedResult]]) -> tuple[PackIndex, dict[str, bytes]]:
    """Return the index and the packs after these builds, each with its results, have written one by one."""
    index, blobs = PackIndex(), dict[str, bytes]()
    for items in builds:
        index = index.drop_unused({item.key for item in items})
        lacking = [item for item in items if item.key not in index.slots]
        folded = index.packs_to_rewrite()
        again = [
            slot.read_from(key, blobs[slot.pack]) for key, slot in index.slots.items() if slot.pack in folded
        ]
        made: list[Pack] = [*packs.make_packs([*lacking, *again])]
        blobs |= {pack.sha256: pack.data for pack in made}
        index = packs.decode(index.with_packs(made).encode())
    return index, blobs


@given(st.lists(UNIQUE, max_size=30))
def test_an_index_finds_each_result_as_it_was_first_written(
    builds: list[list[PackedResult]],
) -> None:
    index, blobs = written(builds)
    first = {item.key: item for items in reversed(builds) for item in items}
    assert index.slots.keys() == first.keys()  # there are too few builds for a key to be dropped
    assert {key: slot.read_from(key, blobs[slot.pack]) for key, slot in index.slots.items()} == first


@given(st.lists(UNIQUE, min_size=1, max_size=30))
def test_packs_stay_half_used_and_few(builds: list[list[PackedResult]]) -> None:
    index, _blobs = written(builds)
    assert {slot.pack for slot in index.slots.values()} == index.packs.keys()
    assert len(index.packs) <= packs._MAX_SMALL_PACKS + 1
    for pack, size in index.packs.items():
        assert 2 * sum(slot.size for slot in index.slots.values() if slot.pack == pack) >= size


@given(st.binary(max_size=300))
def test_any_bytes_are_an_index_or_a_value_error(data: bytes) -> None:
    try:
        index = packs.decode(data)
    except ValueError:
        return
    assert packs.decode(index.encode()) == index


@given(ACTIONS)
def test_an_action_is_decoded_as_it_was_encoded(action: Action) -> None:
    assert bazel_actions.decode(bazel_actions.encode(action)) == action


@given(ACTIONS, st.data())
def test_a_damaged_action_is_a_value_error_or_decoded(action: Action, data: st.DataObject) -> None:
    text = bytearray(bazel_actions.encode(action) or b"\0")
    text[data.draw(st.integers(0, len(text) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    try:
        bazel_actions.decode(bytes(text))
    except ValueError:
        return
