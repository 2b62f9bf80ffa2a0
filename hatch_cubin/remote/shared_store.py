"""The store that a build has behind its local folder: fetch what is missing there, and push what was made.

What is fetched is proven as what is read of the folder is, and stored there as a build's own. So all else
goes on as if the folder had had it. What is damaged, or made by nobody who is trusted, is not there.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ..cache import exchange, records
from ..cache.entries import Cache
from ..common.digest import file_digest
from . import bazel_actions, packs
from .bazel_actions import Action, File
from .calls import StoreCalls
from .packs import Pack, PackedResult, PackIndex
from .trust import AcceptAll, StorePolicy

MAX_SINGLE_UNITS = 50  # units; what more have goes in packs

_THREADS = 16
_SAMPLE_SIZE = (
    2 * _THREADS
)  # of what an index lacks: whether parts of the project have stored it by themselves
_PACKS_AT_ONCE = 4  # for they are held in memory
_TRIES = 5  # to write an index that others write too
_RETRY_PAUSE_S = 0.2  # at first; then they go further apart
_MAX_ACTION_SIZE = 1 << 22  # bytes, some times what the largest record has
_MAX_BLOB_SIZE = 1 << 27  # a store that sends more could fill the memory

_UNIT, _INDEX = "unit", "index"  # what an action can be of
_CANNOT_SIGN = "it is given nothing, for its index has to be signed: set HATCH_CUBIN_SIGNING_KEY"

Wanted = Mapping[bytes, records.Request]  # by key: what each unit needs of its result


class SharedStore:
    """A store, for the builds of one project with one toolchain, whose index it keeps under their *name*.

    *units* is how many the project has: of few, each has an action of its own, and of many the index says
    where they lie.
    """

    def __init__(
        self,
        calls: StoreCalls,
        cache: Cache,
        *,
        name: Sequence[str],
        units: int,
        trust: StorePolicy | None = None,
    ) -> None:
        self.fetched: set[bytes] = set()
        self.pushed: set[bytes] = set()
        self._store, self._calls, self._cache = calls.store, calls, cache
        self._trust = trust or AcceptAll()
        self._index_name = _action_name(_INDEX, "\0".join(name).encode())
        self._few = units <= MAX_SINGLE_UNITS
        self._unsigned: set[bytes] = set()  # keys of what is here, and would count for nobody there
        self._absent: set[bytes] = set()  # keys of which the store has nothing that is right
        self._lost: set[str] = set()  # packs, likewise
        self._read: set[str] = set()  # packs that are there
        self._damaged = False

    @property
    def facts(self) -> dict[str, Any]:
        """What was exchanged, and what went wrong first, for JSON."""
        traffic = self._store.traffic
        return {
            "url": self._store.url,
            "fetched": len(self.fetched),
            "pushed": len(self.pushed),
            "requests": traffic.requests,
            "bytes": traffic.bytes,
            "fault": self._calls.first_fault,
        }

    def fetch(self, wanted: Wanted) -> None:
        """Store locally what the store has of it."""
        if self._few:
            self._take(wanted, self._units(wanted))
            self._absent |= wanted.keys() - self.fetched
        if left := [key for key in wanted if key not in self.fetched]:
            self._take(wanted, self._packed(left))
        if not self._few and (left := [key for key in left if key not in self.fetched]):
            self._take(wanted, self._single(sorted(left)))
        if self._damaged:
            self._calls.count_fault("it sends something else than what was stored")
        self._store.close_idle()

    def push(self, keys: Sequence[bytes]) -> None:
        """Give the store what it lacks of what the local folder has."""
        if self._few:
            own = (key for key in keys if key not in self.fetched)
            tasks = ((key, partial(self._push_unit, key)) for key in own)
            self.pushed |= {key for key, new in self._calls.run_all(tasks, _THREADS) if new}
        else:
            self._push_packs(keys)
        if self._unsigned:
            self._calls.warn(f"it is not given results that no trusted key has signed: {len(self._unsigned)}")
        self._store.close_idle()

    def _take(self, wanted: Wanted, items: Iterable[PackedResult]) -> None:
        """Store what is proven."""
        with self._cache.intake() as accept:
            for item in items:
                if not self._trust.accepts_record(item.record):
                    self._absent.add(item.key)
                elif exchange.proven(*item, wanted[item.key]) is None:
                    self._damaged = True
                    self._absent.add(item.key)
                elif accept(*item):
                    self.fetched.add(item.key)

    # Few units: an action for each

    def _units(self, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        tasks = ((key, partial(self._unit, key)) for key in keys)
        return (item for _key, item in self._calls.run_all(tasks, _THREADS) if item is not None)

    def _single(self, keys: Sequence[bytes]) -> Iterator[PackedResult]:
        """Yield what jobs with few of the units have stored, if a sample says that there is any of it."""
        yield from (found := [*self._units(keys[:_SAMPLE_SIZE])])
        if found:
            yield from self._units(keys[_SAMPLE_SIZE:])

    def _unit(self, key: bytes) -> PackedResult | None:
        if (text := self._record(key)) is None or (record := records.decode(text)) is None:
            return None
        data = self._blob(record.sha256, record.size)
        return None if data is None else PackedResult(key, text, data)

    def _record(self, key: bytes) -> bytes | None:
        """Return the record of a unit; None where the store has none, or one that is not right."""
        action = self._decoded(self._store.get(_action_name(_UNIT, key), _MAX_ACTION_SIZE))
        if action is None:
            return None
        record = records.decode(action.stdout)
        if record is None or record.key != key.hex():
            self._damaged = True
            return None
        return action.stdout if self._trust.accepts_record(action.stdout) else None

    def _push_unit(self, key: bytes) -> bool:
        if key not in self._absent and self._is_whole(key):
            return False
        item = self._stored(key)
        if item is None:
            return False
        file = File(key.hex(), file_digest(item.data), len(item.data))
        action = bazel_actions.encode(Action((file,), item.record))
        if len(action) > _MAX_ACTION_SIZE:  # nobody would read it
            return False
        self._store.put(_blob_name(file.sha256), item.data)
        self._store.put(_action_name(_UNIT, key), action)  # never before what it leads to
        return True

    def _is_whole(self, key: bytes) -> bool:
        """Say whether the store has a unit's action, and what that leads to: it may have lost either."""
        text = self._record(key)
        record = None if text is None else records.decode(text)
        return record is not None and self._store.has(_blob_name(record.sha256))

    # Many units: packs, and an index of them

    def _packed(self, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        index, *_others = self._calls.run_one(self._read_index) or (PackIndex(),)
        asked: dict[str, list[bytes]] = {}
        for key in keys:
            if key in index.slots:
                asked.setdefault(index.slots[key].pack, []).append(key)
        for pack, data in self._contents(index, asked):
            yield from (index.slots[key].read_from(key, data) for key in asked[pack])

    def _contents(self, index: PackIndex, asked: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield the packs that are there, and remember which are not."""
        tasks = ((pack, partial(self._blob, pack, index.packs[pack])) for pack in asked)
        for pack, data in self._calls.run_all(tasks, _PACKS_AT_ONCE):
            if data is None:
                self._lost.add(pack)
            else:
                self._read.add(pack)
                yield pack, data

    def _miss(self, asked: Iterable[str]) -> None:
        """Find out which packs are there no more."""
        tasks = ((pack, partial(self._store.has, _blob_name(pack))) for pack in asked)
        self._lost |= {pack for pack, there in self._calls.run_all(tasks, _THREADS) if not there}

    def _push_packs(self, keys: Sequence[bytes]) -> None:
        own, sent = {*keys}, list[Pack]()
        for turn in range(_TRIES):
            if (found := self._calls.run_one(self._read_index)) is None:
                break
            index, tag, sealed = found
            if turn == 0:
                self._miss({slot.pack for key, slot in index.slots.items() if key in own} - self._read)
            index = index.without(self._lost, self._absent)
            if not own - index.slots.keys():
                break
            if not self._may_write(sealed=sealed):
                self._calls.warn(_CANNOT_SIGN)
                break
            index = index.drop_unused(own)
            there = index.slots.keys() | {key for pack in sent for key in pack.slots}
            sent += self._send(index, [key for key in keys if key not in there])
            if not sent or self._calls.run_one(partial(self._write_index, index.with_packs(sent), tag)):
                break
            if (
                turn < _TRIES - 1
            ):  # whoever else writes just now shall read at another time what this one wrote
                self._calls.pause(random.uniform(0, _RETRY_PAUSE_S * 2**turn))  # noqa: S311 - it need not be a secret
        self.pushed |= own & {key for pack in sent for key in pack.slots}

    def _send(self, index: PackIndex, keys: Iterable[bytes]) -> list[Pack]:
        """Store packs of these results and of those in folded packs; return the packs without their bytes."""
        cut = packs.cut(self._items(index, keys))
        tasks = ((pack._replace(data=b""), partial(self._send_pack, pack)) for pack in cut)
        sent = [pack for pack, _done in self._calls.run_all(tasks, _PACKS_AT_ONCE)]
        self._lost -= {pack.sha256 for pack in sent}
        self._absent -= {key for pack in sent for key in pack.slots}
        return sent

    def _items(self, index: PackIndex, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        yield from (item for key in keys if (item := self._stored(key)) is not None)
        for pack, data in self._contents(index, index.packs_to_rewrite()):
            yield from (slot.read_from(key, data) for key, slot in index.slots.items() if slot.pack == pack)

    def _send_pack(self, pack: Pack) -> None:
        self._store.put(_blob_name(pack.sha256), pack.data)

    def _read_index(self) -> tuple[PackIndex, str | None, bool]:
        """Return the index, its tag, and whether it is sealed, whoever has done that."""
        data, tag = self._store.read(self._index_name, packs.MAX_INDEX_SIZE)
        action = self._decoded(data)
        sealed = action is not None and action.stderr != b""
        if action is None or not self._trust.accepts_index(action.stdout, action.stderr):
            return PackIndex(), tag, sealed
        try:
            return packs.decode(action.stdout), tag, sealed
        except ValueError:
            self._damaged = True
            return PackIndex(), tag, sealed

    def _may_write(self, *, sealed: bool) -> bool:
        """Say whether an index of this build is one for all who read the one that was *sealed*, or not."""
        seal = self._trust.sign_index(b"")
        return (not sealed or seal != b"") and self._trust.accepts_index(b"", seal)

    def _write_index(self, index: PackIndex, tag: str | None) -> bool:
        text = index.encode()
        files = tuple(File(f"{pack}.pack", pack, size) for pack, size in index.packs.items())
        action = Action(files, text, self._trust.sign_index(text))
        return self._store.replace(self._index_name, bazel_actions.encode(action), tag)

    # Both

    def _stored(self, key: bytes) -> PackedResult | None:
        found = self._cache.attempt(partial(exchange.stored, self._cache.folder, key), None)
        if found is None or sum(map(len, found)) > _MAX_BLOB_SIZE:
            return None
        if not self._trust.accepts_record(found[0]):
            self._unsigned.add(key)
            return None
        return PackedResult(key, *found)

    def _decoded(self, data: bytes | None) -> Action | None:
        try:
            return None if data is None else bazel_actions.decode(data)
        except ValueError:
            self._damaged = True
            return None

    def _blob(self, sha256: str, size: int) -> bytes | None:
        data = self._store.get(_blob_name(sha256), min(size, _MAX_BLOB_SIZE))
        if data is None or file_digest(data) == sha256:
            return data
        self._damaged = True
        return None


def _action_name(kind: str, text: bytes) -> str:
    return f"ac/{file_digest(f'hatch-cubin/{kind}/v1'.encode() + bytes(1) + text)}"


def _blob_name(sha256: str) -> str:
    return f"cas/{sha256}"
