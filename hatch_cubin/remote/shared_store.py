"""Exchange results with a remote store: fetch results missing in the cache folder, and push new results.

Fetched results are checked in the same way as results in the cache folder, and are then stored in the cache
folder. After fetching, the build only reads the cache folder. A fetched result is a cache miss if the result
is damaged, or if no trusted key has signed it.

The page docs/reference/shared-cache.md describes the protocol. In this module, `fetch` reads from the store,
and `push` writes into the store. `packs.py` makes packs and their index, and `bazel_actions.py` encodes the
messages of Bazel's protocol. The protocol of this module does not depend on the transport (HTTP or a cloud
bucket): each kind of `Store` reads and writes bytes under a name.
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
from .bazel_actions import Action, OutputFile
from .calls import StoreCalls
from .packs import Pack, PackedResult, PackIndex
from .trust import AcceptAll, StorePolicy

MAX_SINGLE_UNITS = 50  # projects with more units than this number store their results in packs

_THREADS = 16
# The number of results that are requested first; the other results are requested only if one of these exists.
_SAMPLE_SIZE = 2 * _THREADS
_PACKS_AT_ONCE = 4  # A small number, because each pack is kept in memory.
# The maximum number of attempts to write the index: another build may write the index at the same time.
_TRIES = 5
_RETRY_PAUSE_S = 0.2  # The pause before the first retry, in seconds. Each further pause is twice as long.
# The maximum size in bytes, which is several times the size of the largest cache record.
_MAX_ACTION_SIZE = 1 << 22
_MAX_BLOB_SIZE = 1 << 27  # the maximum size of an answer in bytes, so that a store cannot fill the memory

_UNIT, _INDEX = "unit", "index"  # kinds of actions
_CANNOT_SIGN = "nothing was pushed, because the store's index must be signed: set HATCH_CUBIN_SIGNING_KEY"

RequestsByKey = Mapping[bytes, records.Request]


class SharedStore:
    """The remote store of one build, from which the build fetches results, and to which it pushes results.

    *name* identifies the project and its compiler: builds with the same *name* share a pack index. *units* is
    the number of the project's units (a unit is a module for one arch). The results of a small project are
    stored one by one; the results of a large project are stored in packs, and an index contains their
    locations.
    """

    def __init__(
        self,
        calls: StoreCalls,
        cache: Cache,
        *,
        name: Sequence[str],
        units: int,
        policy: StorePolicy | None = None,
    ) -> None:
        self.fetched: set[bytes] = set()
        self.pushed: set[bytes] = set()
        self._store, self._calls, self._cache = calls.store, calls, cache
        self._policy = policy or AcceptAll()
        self._index_name = _action_name(_INDEX, "\0".join(name).encode())
        self._is_small = units <= MAX_SINGLE_UNITS
        # keys of results in the cache folder that no trusted key has signed
        self._unsigned: set[bytes] = set()
        self._absent: set[bytes] = set()  # keys whose results are missing or damaged in the store
        self._lost: set[str] = set()  # packs that are missing or damaged in the store
        self._read: set[str] = set()  # packs that this build has read and verified
        self._damaged = False
        self._sent_web_page = False

    @property
    def facts(self) -> dict[str, Any]:
        """The numbers of requests, bytes and results, and the first error of the store, for JSON output."""
        traffic = self._store.traffic
        return {
            "url": self._store.url,
            "fetched": len(self.fetched),
            "pushed": len(self.pushed),
            "requests": traffic.requests,
            "bytes": traffic.bytes,
            "fault": self._calls.first_fault,
        }

    def fetch(self, wanted: RequestsByKey) -> None:
        """For each key in *wanted* that the store contains, copy the result into the cache folder."""
        if self._is_small:
            self._store_checked(wanted, self._unit_results(wanted))
            self._absent |= wanted.keys() - self.fetched
        if left := [key for key in wanted if key not in self.fetched]:
            self._store_checked(wanted, self._packed_results(left))
        if not self._is_small and (left := [key for key in left if key not in self.fetched]):
            self._store_checked(wanted, self._single_results(sorted(left)))
        if self._damaged:
            self._count_damage()
        self._store.close_idle()

    def push(self, keys: Sequence[bytes]) -> None:
        """Copy the results with *keys* from the cache folder to the store, unless the store contains them."""
        if self._is_small:
            own = (key for key in keys if key not in self.fetched)
            tasks = ((key, partial(self._push_unit, key)) for key in own)
            self.pushed |= {key for key, new in self._calls.run_all(tasks, _THREADS) if new}
        else:
            self._push_packs(keys)
        if self._damaged and self.pushed:
            self._verify_push()
        if self._unsigned:
            unsigned = len(self._unsigned)
            self._calls.warn(
                f"results that were not pushed, because no trusted key has signed them: {unsigned}"
            )
        self._store.close_idle()

    def _count_damage(self) -> None:
        if self._sent_web_page:
            fault = "the store sends a web page, such as a login page, in place of the stored bytes"
        else:
            fault = "the store sends different bytes than were stored"
        self._calls.count_fault(fault)

    def _verify_push(self) -> None:
        """Read a pushed object again, because a server may accept all uploads without storing them."""
        self._damaged = False
        read = partial(self._unit_record, min(self.pushed)) if self._is_small else self._read_index
        self._calls.run_one(read)
        if self._damaged:
            self.pushed.clear()
            self._count_damage()

    def _store_checked(self, wanted: RequestsByKey, items: Iterable[PackedResult]) -> None:
        """Check the fetched results, and write the correct results into the cache folder."""
        with self._cache.open_importer() as accept:
            for item in items:
                if not self._policy.accepts_record(item.record):
                    self._absent.add(item.key)
                elif exchange.checked_record(*item, wanted[item.key]) is None:
                    self._damaged = True
                    self._absent.add(item.key)
                elif accept(*item):
                    self.fetched.add(item.key)

    # Functions for small projects, for which the store has one ActionResult per unit

    def _unit_results(self, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        tasks = ((key, partial(self._unit_result, key)) for key in keys)
        return (item for _key, item in self._calls.run_all(tasks, _THREADS) if item is not None)

    def _single_results(self, keys: Sequence[bytes]) -> Iterator[PackedResult]:
        """Yield results that are not in packs: CI jobs with few units push each result separately.

        This function first requests the results for a sample of the keys, and requests the other results only
        if the store has a result of the sample.
        """
        yield from (found := [*self._unit_results(keys[:_SAMPLE_SIZE])])
        if found:
            yield from self._unit_results(keys[_SAMPLE_SIZE:])

    def _unit_result(self, key: bytes) -> PackedResult | None:
        if (text := self._unit_record(key)) is None or (record := records.decode(text)) is None:
            return None
        data = self._read_blob(record.sha256, record.size)
        return None if data is None else PackedResult(key, text, data)

    def _unit_record(self, key: bytes) -> bytes | None:
        """Return a unit's cache record from the remote store; None if the record is missing or wrong."""
        action = self._decode_action(self._store.get(_action_name(_UNIT, key), _MAX_ACTION_SIZE))
        if action is None:
            return None
        record = records.decode(action.stdout)
        if record is None or record.key != key.hex():
            self._damaged = True
            return None
        return action.stdout if self._policy.accepts_record(action.stdout) else None

    def _push_unit(self, key: bytes) -> bool:
        if key not in self._absent and self._has_unit(key):
            return False
        item = self._local_result(key)
        if item is None:
            return False
        file = OutputFile(key.hex(), file_digest(item.data), len(item.data))
        action = bazel_actions.encode(Action((file,), item.record))
        if len(action) > _MAX_ACTION_SIZE:  # a reader of the store would reject such a large message
            return False
        self._store.put(_blob_name(file.sha256), item.data)
        # The ActionResult is stored after the compiled bytes, so that a reader who finds the ActionResult
        # also finds the bytes.
        self._store.put(_action_name(_UNIT, key), action)
        return True

    def _has_unit(self, key: bytes) -> bool:
        """Return whether the remote store has both the ActionResult and the compiled bytes of a unit."""
        text = self._unit_record(key)
        record = None if text is None else records.decode(text)
        return record is not None and self._store.has(_blob_name(record.sha256))

    # Large projects: packs, and an index that locates the results in packs

    def _packed_results(self, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        index, *_others = self._calls.run_one(self._read_index) or (PackIndex(),)
        wanted_packs: dict[str, list[bytes]] = {}
        for key in keys:
            if key in index.slots:
                wanted_packs.setdefault(index.slots[key].pack, []).append(key)
        for pack, data in self._read_packs(index, wanted_packs):
            yield from (index.slots[key].read_from(key, data) for key in wanted_packs[pack])

    def _read_packs(self, index: PackIndex, wanted_packs: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Read packs from the remote store and yield the packs; note which packs are missing in the store."""
        tasks = ((pack, partial(self._read_blob, pack, index.packs[pack])) for pack in wanted_packs)
        for pack, data in self._calls.run_all(tasks, _PACKS_AT_ONCE):
            if data is None:
                self._lost.add(pack)
            else:
                self._read.add(pack)
                yield pack, data

    def _find_lost_packs(self, wanted_packs: Iterable[str]) -> None:
        """Ask the store which of *wanted_packs* are missing."""
        tasks = ((pack, partial(self._store.has, _blob_name(pack))) for pack in wanted_packs)
        self._lost |= {pack for pack, there in self._calls.run_all(tasks, _THREADS) if not there}

    def _push_packs(self, keys: Sequence[bytes]) -> None:
        own, sent = {*keys}, list[Pack]()
        for attempt in range(_TRIES):
            if (found := self._calls.run_one(self._read_index)) is None:
                break
            index, tag, is_signed = found
            if attempt == 0:
                self._find_lost_packs(
                    {slot.pack for key, slot in index.slots.items() if key in own} - self._read
                )
            index = index.without(self._lost, self._absent)
            if not own - index.slots.keys():
                break
            if not self._may_write(is_signed=is_signed):
                self._calls.warn(_CANNOT_SIGN)
                break
            index = index.drop_unused(own)
            there = index.slots.keys() | {key for pack in sent for key in pack.slots}
            sent += self._push_new_packs(index, [key for key in keys if key not in there])
            if not sent or self._calls.run_one(partial(self._write_index, index.with_packs(sent), tag)):
                break
            if attempt < _TRIES - 1:  # the pause has a random length, so that two builds do not collide again
                self._calls.pause(random.uniform(0, _RETRY_PAUSE_S * 2**attempt))  # noqa: S311 - not a secret
        self.pushed |= own & {key for pack in sent for key in pack.slots}

    def _push_new_packs(self, index: PackIndex, keys: Iterable[bytes]) -> list[Pack]:
        """Push new packs with the results of *keys*, and with the results of packs that are rewritten.

        In the returned packs, the field `data` is empty, which saves memory.
        """
        cut = packs.make_packs(self._results_to_push(index, keys))
        tasks = ((pack._replace(data=b""), partial(self._put_pack, pack)) for pack in cut)
        sent = [pack for pack, _done in self._calls.run_all(tasks, _PACKS_AT_ONCE)]
        self._lost -= {pack.sha256 for pack in sent}
        self._absent -= {key for pack in sent for key in pack.slots}
        return sent

    def _results_to_push(self, index: PackIndex, keys: Iterable[bytes]) -> Iterator[PackedResult]:
        yield from (item for key in keys if (item := self._local_result(key)) is not None)
        for pack, data in self._read_packs(index, index.packs_to_rewrite()):
            yield from (slot.read_from(key, data) for key, slot in index.slots.items() if slot.pack == pack)

    def _put_pack(self, pack: Pack) -> None:
        self._store.put(_blob_name(pack.sha256), pack.data)

    def _read_index(self) -> tuple[PackIndex, str | None, bool]:
        """Return the pack index, its tag (needed to replace the index), and whether the index is signed.

        A damaged pack index, or an index that no trusted key has signed, counts as empty.
        """
        data, tag = self._store.read(self._index_name, packs.MAX_INDEX_SIZE)
        action = self._decode_action(data)
        is_signed = action is not None and action.stderr != b""
        if action is None or not self._policy.accepts_index(action.stdout, action.stderr):
            return PackIndex(), tag, is_signed
        try:
            return packs.decode(action.stdout), tag, is_signed
        except ValueError:
            self._damaged = True
            return PackIndex(), tag, is_signed

    def _may_write(self, *, is_signed: bool) -> bool:
        """Return whether this build may replace the pack index.

        The result is False if some builds that accept the current index would reject an index from this
        build.
        """
        signature = self._policy.sign_index(b"")
        return (not is_signed or signature != b"") and self._policy.accepts_index(b"", signature)

    def _write_index(self, index: PackIndex, tag: str | None) -> bool:
        text = index.encode()
        files = tuple(OutputFile(f"{pack}.pack", pack, size) for pack, size in index.packs.items())
        action = Action(files, text, self._policy.sign_index(text))
        return self._store.replace(self._index_name, bazel_actions.encode(action), tag)

    # Small and large projects

    def _local_result(self, key: bytes) -> PackedResult | None:
        found = self._cache.attempt(partial(exchange.read_entry, self._cache.folder, key), None)
        if found is None or sum(map(len, found)) > _MAX_BLOB_SIZE:
            return None
        if not self._policy.accepts_record(found[0]):
            self._unsigned.add(key)
            return None
        return PackedResult(key, *found)

    def _decode_action(self, data: bytes | None) -> Action | None:
        try:
            return None if data is None else bazel_actions.decode(data)
        except ValueError:
            self._damaged = True
            self._sent_web_page |= data is not None and data.lstrip().startswith(b"<")
            return None

    def _read_blob(self, sha256: str, size: int) -> bytes | None:
        data = self._store.get(_blob_name(sha256), min(size, _MAX_BLOB_SIZE))
        if data is None or file_digest(data) == sha256:
            return data
        self._damaged = True
        return None


def _action_name(kind: str, text: bytes) -> str:
    return f"ac/{file_digest(f'hatch-cubin/{kind}/v1'.encode() + bytes(1) + text)}"


def _blob_name(sha256: str) -> str:
    return f"cas/{sha256}"
