"""Packs of results and their index: how packs are made, found and replaced. Pure.

A pack holds results one after another, each as its record and its bytes. The index of a project says for each
key which pack has the result, and where in the pack. Only the index is ever overwritten: a pack is named by
its digest, so it never changes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..common.digest import file_digest

MAX_PACK_SIZE = 1 << 23  # bytes; only a pack of a single result may be larger
MAX_INDEX_SIZE = 1 << 26
_FORMAT = 1
_SMALL_PACK_SIZE = MAX_PACK_SIZE // 8
_MAX_SMALL_PACKS = 8  # with more, all small packs are rewritten
_SHA256 = re.compile("[0-9a-f]{64}")
_KEPT_WRITES = 64  # a key that no build needed in so many writes of the index is dropped


class PackedResult(NamedTuple):
    """A result as it is exchanged with a store."""

    key: bytes
    record: bytes
    data: bytes


class PackSlot(NamedTuple):
    """Where a result is: its pack, and its place in the pack."""

    pack: str
    offset: int
    record: int  # bytes of the record
    data: int  # bytes of the result itself, which follow
    used: int  # the number of the last write of the index by a build that needed the result

    @property
    def size(self) -> int:
        return self.record + self.data

    def read_from(self, key: bytes, pack: bytes) -> PackedResult:
        """Return the result, given the bytes of its *pack*."""
        middle = self.offset + self.record
        return PackedResult(key, pack[self.offset : middle], pack[middle : middle + self.data])


class Pack(NamedTuple):
    """The bytes of a pack, and where its results are."""

    data: bytes
    sha256: str
    size: int
    slots: Mapping[bytes, PackSlot]


@dataclass(frozen=True)
class PackIndex:
    """The packs of a project, and where the result of each key is."""

    packs: Mapping[str, int] = field(default_factory=dict)  # sizes by digest
    slots: Mapping[bytes, PackSlot] = field(default_factory=dict)
    writes: int = 0  # how many times the index was written

    def without(self, packs: AbstractSet[str], keys: AbstractSet[bytes]) -> PackIndex:
        """Return the index without these *packs* and *keys*."""
        slots = {key: slot for key, slot in self.slots.items() if slot.pack not in packs and key not in keys}
        return PackIndex(self.packs, slots, self.writes)

    def drop_unused(self, used: AbstractSet[bytes]) -> PackIndex:
        """Return the index for the next write: *used* keys are marked, long unused ones are dropped."""
        now = self.writes + 1
        slots = {
            key: slot._replace(used=now) if key in used else slot
            for key, slot in self.slots.items()
            if key in used or slot.used > now - _KEPT_WRITES
        }
        return PackIndex(self.packs, slots, now)

    def packs_to_rewrite(self) -> set[str]:
        """Return the packs that are less than half used, and the small ones if they are many."""
        used = _used_bytes(self.slots)
        small = {pack for pack, count in used.items() if count < _SMALL_PACK_SIZE}
        half_empty = {pack for pack, count in used.items() if 2 * count < self.packs[pack]}
        return half_empty | (small if len(small) > _MAX_SMALL_PACKS else set())

    def with_packs(self, packs: Iterable[Pack]) -> PackIndex:
        """Return the index with the results of new *packs*, and without packs that no key uses any more."""
        sizes, slots = dict(self.packs), dict(self.slots)
        for pack in packs:
            sizes[pack.sha256] = pack.size
            slots |= {key: slot._replace(used=self.writes) for key, slot in pack.slots.items()}
        named = {slot.pack for slot in slots.values()}
        return PackIndex({pack: size for pack, size in sizes.items() if pack in named}, slots, self.writes)

    def encode(self) -> bytes:
        numbers = {pack: number for number, pack in enumerate(self.packs)}
        units = {key.hex(): (numbers[slot.pack], *slot[1:]) for key, slot in sorted(self.slots.items())}
        values = {"format": _FORMAT, "writes": self.writes, "packs": [*self.packs.items()], "units": units}
        return json.dumps(values, separators=(",", ":")).encode()


def decode(data: bytes) -> PackIndex:
    """Return the index that *data* encodes; ValueError if it is not an index of this version."""
    try:
        values = json.loads(data)
        if values["format"] != _FORMAT:
            raise ValueError("not of this version")
        packs = {_digest(sha256): _count(size) for sha256, size in values["packs"]}
        named = [*packs.items()]
        slots = {bytes.fromhex(key): _slot(named, *numbers) for key, numbers in values["units"].items()}
        if any(size > packs[pack] for pack, size in _used_bytes(slots).items()):
            raise ValueError("more than its packs have")
        return PackIndex(packs, slots, _count(values["writes"]))
    except (TypeError, LookupError, AttributeError, RecursionError) as exc:
        raise ValueError("not an index") from exc


def _used_bytes(slots: Mapping[bytes, PackSlot]) -> Counter[str]:
    """Return how many bytes of each pack are in use."""
    used = Counter[str]()
    for slot in slots.values():
        used[slot.pack] += slot.size
    return used


def _digest(value: Any) -> str:
    if not _SHA256.fullmatch(value):
        raise ValueError("not a digest")
    return str(value)


def _slot(packs: list[tuple[str, int]], number: Any, *counts: Any) -> PackSlot:
    pack, size = packs[_count(number)]
    slot = PackSlot(pack, *map(_count, counts))
    if slot.offset + slot.size > size:
        raise ValueError("beyond its pack")
    return slot


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


def make_packs(items: Iterable[PackedResult]) -> Iterator[Pack]:
    """Yield packs of *items*, in order, each up to the largest size; a larger result is in a pack alone."""
    held, size = list[PackedResult](), 0
    for item in items:
        count = len(item.record) + len(item.data)
        if held and size + count > MAX_PACK_SIZE:
            yield _pack(held)
            held, size = [], 0
        held.append(item)
        size += count
    if held:
        yield _pack(held)


def _pack(items: Iterable[PackedResult]) -> Pack:
    pieces, places, at = list[bytes](), dict[bytes, tuple[int, int, int]](), 0
    for item in items:
        pieces += (item.record, item.data)
        places[item.key] = at, len(item.record), len(item.data)
        at += len(item.record) + len(item.data)
    data = b"".join(pieces)
    sha256 = file_digest(data)
    return Pack(data, sha256, len(data), {key: PackSlot(sha256, *place, 0) for key, place in places.items()})
