"""Packs, which are files with many compiled results, and the index with the location of each result.

A pack contains results one after another: the cache record of each result, followed by its compiled bytes.
The index of a project contains, for each cache key, the name of a pack and the position of the result in the
pack. Packs never change, because a pack's name is the digest of its content. Only a project's index is
overwritten in a remote store.
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

MAX_PACK_SIZE = 1 << 23  # the maximum size of a pack in bytes; only a pack with a single result may be larger
MAX_INDEX_SIZE = 1 << 26
_FORMAT = 1
_SMALL_PACK_SIZE = MAX_PACK_SIZE // 8
_MAX_SMALL_PACKS = 8  # if there are more small packs than this number, they are combined into larger packs
_SHA256 = re.compile("[0-9a-f]{64}")
# The index drops a cache key if no build has used the key during this many writes of the index.
_KEPT_WRITES = 64


class PackedResult(NamedTuple):
    """A compiled result that is sent to or received from a remote store: its cache key, record and bytes."""

    key: bytes
    record: bytes
    data: bytes


class PackSlot(NamedTuple):
    """The location of a compiled result: the pack's name, and the position in the pack."""

    pack: str
    offset: int
    record: int  # the size of the cache record in bytes
    data: int  # the size of the compiled bytes, which follow the cache record
    used: int  # when a build last used the result, as the number of writes of the index

    @property
    def size(self) -> int:
        return self.record + self.data

    def read_from(self, key: bytes, pack: bytes) -> PackedResult:
        """Return the result at this location; *pack* contains the bytes of the pack."""
        middle = self.offset + self.record
        return PackedResult(key, pack[self.offset : middle], pack[middle : middle + self.data])


class Pack(NamedTuple):
    """A pack, which is a file with many results: its bytes, and the location of each result in the pack."""

    data: bytes
    sha256: str
    size: int
    slots: Mapping[bytes, PackSlot]


@dataclass(frozen=True)
class PackIndex:
    """The index of a project: its packs, and the location of the result of each cache key."""

    packs: Mapping[str, int] = field(default_factory=dict)  # the size of each pack, by the pack's digest
    slots: Mapping[bytes, PackSlot] = field(default_factory=dict)
    writes: int = 0  # how many times the pack index was written

    def without(self, packs: AbstractSet[str], keys: AbstractSet[bytes]) -> PackIndex:
        """Return the index without the results that are in *packs*, and without the results of *keys*."""
        slots = {key: slot for key, slot in self.slots.items() if slot.pack not in packs and key not in keys}
        return PackIndex(self.packs, slots, self.writes)

    def drop_unused(self, used: AbstractSet[bytes]) -> PackIndex:
        """Record that this build uses the keys *used*.

        Return the index without keys that were not used for a long time.
        """
        now = self.writes + 1
        slots = {
            key: slot._replace(used=now) if key in used else slot
            for key, slot in self.slots.items()
            if key in used or slot.used > now - _KEPT_WRITES
        }
        return PackIndex(self.packs, slots, now)

    def packs_to_rewrite(self) -> set[str]:
        """Return the packs to rewrite: packs that are mostly unused, and small packs if there are many."""
        used = _used_bytes(self.slots)
        small = {pack for pack, count in used.items() if count < _SMALL_PACK_SIZE}
        half_empty = {pack for pack, count in used.items() if 2 * count < self.packs[pack]}
        return half_empty | (small if len(small) > _MAX_SMALL_PACKS else set())

    def with_packs(self, packs: Iterable[Pack]) -> PackIndex:
        """Return the index with the results of new *packs*, and without packs that are no longer used."""
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
    """Return the pack index that *data* encodes; ValueError if *data* is not a pack index in this format."""
    try:
        values = json.loads(data)
        if values["format"] != _FORMAT:
            raise ValueError(f"the format of the index is not {_FORMAT}")
        packs = {_digest(sha256): _count(size) for sha256, size in values["packs"]}
        named = [*packs.items()]
        slots = {bytes.fromhex(key): _slot(named, *numbers) for key, numbers in values["units"].items()}
        if any(size > packs[pack] for pack, size in _used_bytes(slots).items()):
            raise ValueError("the results in the index are larger than their pack")
        return PackIndex(packs, slots, _count(values["writes"]))
    except (TypeError, LookupError, AttributeError, RecursionError) as exc:
        raise ValueError("not an index") from exc


def _used_bytes(slots: Mapping[bytes, PackSlot]) -> Counter[str]:
    """Return how many bytes of each pack are used by results in the index."""
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
        raise ValueError("the index lists a result beyond the end of its pack")
    return slot


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("not a count")
    return value


def make_packs(items: Iterable[PackedResult]) -> Iterator[Pack]:
    """Put results into packs of at most MAX_PACK_SIZE bytes; a larger result gets a pack of its own."""
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
