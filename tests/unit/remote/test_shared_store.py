"""Results that builds on several machines exchange through a store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest

from hatch_cubin.cache import exchange
from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import Record, Request
from hatch_cubin.cache.signing import INDEX, RECORD, SignaturePolicy, Signer, Signing
from hatch_cubin.common.digest import file_digest
from hatch_cubin.remote import bazel_actions, packs, shared_store
from hatch_cubin.remote.bazel_actions import Action, OutputFile
from hatch_cubin.remote.calls import StoreCalls
from hatch_cubin.remote.packs import PackedResult, PackIndex
from hatch_cubin.remote.shared_store import MAX_SINGLE_UNITS, SharedStore
from hatch_cubin.remote.store import StoreError, TrafficCounter
from hatch_cubin.remote.trust import StorePolicy
from tests.cached_results import folder_with, item

OWNER, STRANGER = Signer(bytes([1]) * 32), Signer(bytes([2]) * 32)
ITEMS = [item(f"unit {number}", 100 + number) for number in range(4)]
DAMAGED = "the store sends different bytes than were stored"
SMALL_AND_LARGE_PROJECT = pytest.mark.parametrize(
    "units", [MAX_SINGLE_UNITS, MAX_SINGLE_UNITS + 1], ids=["few", "many"]
)


class Memory:
    """A store in memory; one that *compares* replaces an object only if its tag is still the same."""

    url = "https://cache.example"

    def __init__(self, *, compares: bool = True) -> None:
        self.traffic = TrafficCounter()
        self.files: dict[str, bytes] = {}
        self.log: list[str] = []
        self.before: Callable[[str, str], object] = lambda _method, _name: None
        self._compares = compares
        self._lock = threading.Lock()

    def _ask(self, method: str, name: str) -> None:
        self.traffic.count_request()
        self.log.append(f"{method} {name.partition('/')[0]}")
        self.before(method, name)

    def get(self, name: str, max_size: int) -> bytes | None:
        self._ask("get", name)
        data = self.files.get(name)
        assert data is None or len(data) <= max_size
        return data

    def read(self, name: str, max_size: int) -> tuple[bytes | None, str | None]:
        data = self.get(name, max_size)
        return data, None if data is None else file_digest(data)

    def has(self, name: str) -> bool:
        self._ask("has", name)
        return name in self.files

    def put(self, name: str, data: bytes) -> None:
        self._ask("put", name)
        self.files[name] = data

    def replace(self, name: str, data: bytes, tag: str | None) -> bool:
        self._ask("replace", name)
        with self._lock:
            there = self.files.get(name)
            if self._compares and tag != (None if there is None else file_digest(there)):
                return False
            self.files[name] = data
        return self._compares

    def close_idle(self) -> None:
        self.log.append("close idle")

    def close(self) -> None:
        self.close_idle()

    def take_log(self) -> list[str]:
        """Return the requests since the last call."""
        log, self.log = self.log, []
        return [each for each in log if each != "close idle"]

    def names(self, start: str) -> list[str]:
        return sorted(name for name in self.files if name.startswith(start))


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_store, "_RETRY_PAUSE_S", 0)


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def opened(tmp_path: Path, said: list[str]) -> Callable[..., SharedStore]:
    """Return a function that opens a store for a build with a new cache folder, which has *items*."""
    machines = iter(range(1000))

    def open_shared_store(
        store: Memory,
        items: Iterable[PackedResult] = (),
        units: int = MAX_SINGLE_UNITS,
        policy: StorePolicy | None = None,
    ) -> SharedStore:
        cache = folder_with(tmp_path / str(next(machines)), items)
        return SharedStore(
            StoreCalls(store, said.append), cache, name=("demo", "13.0.88"), units=units, policy=policy
        )

    return open_shared_store


Open = Callable[..., SharedStore]


def keys(items: Iterable[PackedResult]) -> list[bytes]:
    return [each.key for each in items]


def fetch(one: SharedStore, items: Sequence[PackedResult] = ITEMS) -> list[PackedResult]:
    """Fetch *items*; return those that are in the cache folder then."""
    one.fetch(dict.fromkeys(keys(items), Request()))
    there = ((each.key, exchange.read_entry(one._cache.folder, each.key)) for each in items)
    return [PackedResult(key, *found) for key, found in there if found is not None]


@SMALL_AND_LARGE_PROJECT
def test_results_that_one_machine_pushes_are_fetched_by_another(
    opened: Open, said: list[str], units: int
) -> None:
    store = Memory()
    one = opened(store, ITEMS, units)
    one.push(keys(ITEMS))
    other = opened(store, units=units)
    assert fetch(other) == ITEMS
    assert (one.pushed, other.fetched) == ({*keys(ITEMS)}, {*keys(ITEMS)})
    assert said == []
    assert other.facts == {
        "url": "https://cache.example",
        "fetched": 4,
        "pushed": 0,
        "requests": store.traffic.requests,
        "bytes": 0,
        "fault": None,
    }


@SMALL_AND_LARGE_PROJECT
def test_results_that_the_cache_folder_cannot_store_do_not_count_as_fetched(
    opened: Open, tmp_path: Path, said: list[str], units: int
) -> None:
    store = Memory()
    opened(store, ITEMS, units).push(keys(ITEMS))
    folder = tmp_path / "no room"
    folder.mkdir()
    (folder / "entries").write_text("this is not a folder")
    other = SharedStore(
        StoreCalls(store, said.append),
        Cache(folder, None, said.append),
        name=("demo", "13.0.88"),
        units=units,
    )
    assert fetch(other) == []
    assert other.fetched == set()
    assert said == [f"the cache at {folder} cannot be used fully: Not a directory"]


def test_each_unit_of_a_small_project_has_an_action_and_a_blob(opened: Open) -> None:
    store, (one, *_others) = Memory(), ITEMS
    opened(store, ITEMS).push([one.key])
    digest = file_digest(one.data)
    name = file_digest(b"hatch-cubin/unit/v1\0" + one.key)
    action = Action((OutputFile(one.key.hex(), digest, len(one.data)),), one.record)
    assert store.files == {f"cas/{digest}": one.data, f"ac/{name}": bazel_actions.encode(action)}
    assert store.take_log() == ["get ac", "put cas", "put ac"]  # the blob before the action that names it
    opened(store, ITEMS).push([one.key])
    assert store.take_log() == ["get ac", "has cas"]


def test_results_that_are_too_large_to_read_are_not_pushed(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Memory()
    with monkeypatch.context() as patch:
        patch.setattr(shared_store, "_MAX_ACTION_SIZE", len(ITEMS[0].record))
        opened(store, ITEMS).push(keys(ITEMS[:1]))
    monkeypatch.setattr(shared_store, "_MAX_BLOB_SIZE", len(ITEMS[0].record + ITEMS[0].data))
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS[1:]))
    assert store.files == {}
    opened(store, ITEMS).push(keys(ITEMS))
    assert len(store.files) == 2  # of the first result, which has exactly the largest size


def test_units_of_a_large_project_are_in_packs_with_an_index(opened: Open) -> None:
    store = Memory()
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    assert store.take_log() == ["get ac", "put cas", "replace ac"]
    (pack,) = packs.make_packs(ITEMS)
    index = bazel_actions.decode(
        store.files[f"ac/{file_digest(b'hatch-cubin/index/v1' + bytes(1) + b'demo' + bytes(1) + b'13.0.88')}"]
    )
    assert index.files == (OutputFile(f"{pack.sha256}.pack", pack.sha256, pack.size),)
    assert packs.decode(index.stdout) == PackIndex().drop_unused(set()).with_packs([pack])
    assert store.files[f"cas/{pack.sha256}"] == pack.data
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1)) == ITEMS
    assert store.take_log() == ["get ac", "get cas"]  # the index and the pack
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    assert store.take_log() == ["get ac", "has cas"]


def test_a_job_with_few_units_finds_results_in_packs(opened: Open) -> None:
    store = Memory()
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    assert fetch(opened(store, units=1), ITEMS[:1]) == ITEMS[:1]


def test_a_large_project_finds_what_jobs_with_few_units_have_stored(opened: Open) -> None:
    """A job of CI may have few of the units: those of one arch, or of a shard."""
    many = [item(f"unit {number}") for number in range(2 * MAX_SINGLE_UNITS)]
    store = Memory()
    for part in (many[:MAX_SINGLE_UNITS], many[MAX_SINGLE_UNITS:]):
        opened(store, part).push(keys(part))
    whole = opened(store, units=len(many))
    assert fetch(whole, many) == many
    whole.push(keys(many))  # from now on they are in packs
    store.take_log()
    assert fetch(opened(store, units=len(many)), many) == many
    assert store.take_log() == ["get ac", "get cas"]


def test_an_empty_store_costs_few_requests(opened: Open, said: list[str]) -> None:
    store = Memory()
    assert fetch(opened(store, units=MAX_SINGLE_UNITS)) == []
    assert store.take_log() == ["get ac"] * (len(ITEMS) + 1)
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1)) == []
    assert store.take_log() == ["get ac"] * (len(ITEMS) + 1)
    many = [item(f"unit {number}") for number in range(2 * MAX_SINGLE_UNITS)]
    assert fetch(opened(store, units=len(many)), many) == []
    assert store.take_log() == ["get ac"] * (32 + 1)
    assert said == []


@SMALL_AND_LARGE_PROJECT
def test_fetched_results_are_not_pushed_back(opened: Open, units: int) -> None:
    store = Memory()
    opened(store, ITEMS[:2], units).push(keys(ITEMS[:2]))
    other = opened(store, ITEMS[2:], units)
    fetch(other, ITEMS[:2])
    other.push(keys(ITEMS))
    assert other.pushed == {*keys(ITEMS[2:])}
    assert fetch(opened(store, units=units)) == ITEMS


@SMALL_AND_LARGE_PROJECT
def test_results_that_the_cache_folder_has_lost_are_not_pushed(
    opened: Open, said: list[str], units: int
) -> None:
    store = Memory()
    one = opened(store, ITEMS[:1], units)
    one.push(keys(ITEMS))
    assert (one.pushed, said) == ({ITEMS[0].key}, [])
    nothing = opened(store, (), units)
    nothing.push(keys(ITEMS[1:]))
    assert (nothing.pushed, said) == (set(), [])


# Lost and damaged objects


@SMALL_AND_LARGE_PROJECT
@pytest.mark.parametrize("kind", ["ac", "cas"])
def test_the_next_build_pushes_what_the_store_has_lost(
    opened: Open, said: list[str], units: int, kind: str
) -> None:
    store = Memory()
    opened(store, ITEMS, units).push(keys(ITEMS))
    whole = dict(store.files)
    del store.files[store.names(kind)[0]]
    other = opened(store, units=units)
    got = fetch(other)
    assert len(got) == (3 if units == MAX_SINGLE_UNITS else 0)
    folder_with(other._cache.folder, ITEMS)  # as if this machine had compiled them
    other.push(keys(ITEMS))
    assert (store.names(""), said) == (sorted(whole), [])
    assert fetch(opened(store, units=units)) == ITEMS


@SMALL_AND_LARGE_PROJECT
def test_a_machine_that_fetches_nothing_pushes_what_the_store_has_lost(
    opened: Open, said: list[str], units: int
) -> None:
    store = Memory()
    opened(store, ITEMS, units).push(keys(ITEMS))
    whole = dict(store.files)
    for name in store.names("cas"):
        del store.files[name]
    opened(store, ITEMS, units).push(keys(ITEMS))
    assert (sorted(store.files), said) == (sorted(whole), [])
    assert fetch(opened(store, units=units)) == ITEMS


def test_the_store_is_not_asked_again_for_a_pack_that_was_just_read(opened: Open) -> None:
    store = Memory()
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    store.take_log()
    other = opened(store, units=MAX_SINGLE_UNITS + 1)
    fetch(other)
    other.push(keys(ITEMS))
    assert store.take_log() == ["get ac", "get cas", "get ac"]


def flip(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


@SMALL_AND_LARGE_PROJECT
@pytest.mark.parametrize("kind", ["ac", "cas"])
@pytest.mark.parametrize("damage", [flip, lambda _data: b"", lambda data: data[: len(data) // 2]])
def test_damaged_results_are_not_used_and_are_replaced(
    opened: Open, said: list[str], units: int, kind: str, damage: Callable[[bytes], bytes]
) -> None:
    store = Memory()
    opened(store, ITEMS, units).push(keys(ITEMS))
    for name in store.names(kind):
        store.files[name] = damage(store.files[name])
    other = opened(store, units=units)
    assert fetch(other) == []
    assert said == [DAMAGED]
    folder_with(other._cache.folder, ITEMS)
    other.push(keys(ITEMS))
    assert fetch(opened(store, units=units)) == ITEMS
    assert said == [DAMAGED]


@SMALL_AND_LARGE_PROJECT
@pytest.mark.parametrize("page", [b"<html>log in", b"ok"])
def test_a_server_that_answers_everything_with_a_page_has_nothing(
    opened: Open, monkeypatch: pytest.MonkeyPatch, said: list[str], units: int, page: bytes
) -> None:
    store = Memory()
    monkeypatch.setattr(store, "get", lambda _name, _max_size: page)
    other = opened(store, ITEMS, units)
    other.push(keys(ITEMS))
    web_page = "the store sends a web page, such as a login page, in place of the stored bytes"
    assert (other.pushed, said) == (set(), [web_page if page[:1] == b"<" else DAMAGED])


@SMALL_AND_LARGE_PROJECT
def test_forged_results_are_not_used_and_are_replaced(opened: Open, said: list[str], units: int) -> None:
    store, (one, two, *_others) = Memory(), ITEMS
    stranger = Record(one.key.hex(), file_digest(one.data), len(one.data), {"no": "no"}, (), {}).encode()
    swapped = [PackedResult(one.key, stranger, one.data), PackedResult(two.key, one.record, one.data)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            SharedStore, "_local_result", lambda _self, key: next(each for each in swapped if each.key == key)
        )
        opened(store, (), units).push(keys(swapped))
    other = opened(store, units=units)
    assert fetch(other) == []
    assert said == [DAMAGED]
    folder_with(other._cache.folder, ITEMS)
    other.push(keys(ITEMS))
    assert fetch(opened(store, units=units)) == ITEMS


def test_the_record_and_not_the_actions_file_list_names_the_blob(opened: Open, said: list[str]) -> None:
    """The file list is for the store's own checks; only the record says which blob has the result."""
    store, one = Memory(), ITEMS[0]
    opened(store, ITEMS).push([one.key])
    (name,) = store.names("ac")
    store.files[name] = bazel_actions.encode(Action((OutputFile("x", "0" * 64, 1 << 40),), one.record))
    assert fetch(opened(store), [one]) == [one]
    assert said == []


def test_an_action_without_an_index_is_damage(opened: Open, said: list[str]) -> None:
    store = Memory()
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    (name,) = store.names("ac")
    store.files[name] = bazel_actions.encode(Action((), b"{}"))
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1)) == []
    assert said == [DAMAGED]


@SMALL_AND_LARGE_PROJECT
def test_a_store_that_fails_is_given_up(opened: Open, said: list[str], units: int) -> None:
    def fail(_method: str, _name: str) -> None:
        raise StoreError("the store fails (500)")

    store = Memory()
    store.before = fail
    one = opened(store, ITEMS, units)
    assert fetch(one, [item("another")]) == []
    one.push(keys(ITEMS))
    one.push(keys(ITEMS))
    assert one.pushed == set()
    assert (said, one.facts["fault"]) == (["the store fails (500)"], "the store fails (500)")
    assert len(store.take_log()) >= 3
    one.fetch(dict.fromkeys(keys(ITEMS), Request()))
    assert store.take_log() == []


# Several writers


@pytest.mark.parametrize("compares", [True, False])
def test_two_writers_at_once_lose_nothing_if_the_store_compares_tags(
    opened: Open, said: list[str], *, compares: bool
) -> None:
    store = Memory(compares=compares)

    def meanwhile(method: str, _name: str) -> None:
        if method == "replace":
            store.before = lambda _method, _name: None
            opened(store, ITEMS[2:], MAX_SINGLE_UNITS + 1).push(keys(ITEMS[2:]))

    store.before = meanwhile
    opened(store, ITEMS[:2], MAX_SINGLE_UNITS + 1).push(keys(ITEMS[:2]))
    got = fetch(opened(store, units=MAX_SINGLE_UNITS + 1))
    assert got == (
        ITEMS if compares else ITEMS[:2]
    )  # otherwise the last write wins, and other results are misses
    assert said == []


def test_a_writer_whose_index_was_overwritten_tries_again(opened: Open, said: list[str]) -> None:
    store = Memory(compares=False)
    overwritten = iter([True, False])

    def overwrite(method: str, _name: str) -> None:
        if method == "get" and store.files and next(overwritten, False):
            for each in store.names("ac"):
                del store.files[each]

    store.before = overwrite
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    store.before = lambda _method, _name: None
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1)) == ITEMS
    assert said == []


def test_a_writer_gives_up_after_five_tries(opened: Open, said: list[str]) -> None:
    store = Memory()
    turns = iter(range(100))

    def another(method: str, name: str) -> None:
        if method == "replace":
            new = PackIndex(writes=next(turns)).encode()
            store.files[name] = bazel_actions.encode(Action((), new))

    store.before = another
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    assert [each for each in store.take_log() if each != "get ac"] == ["put cas"] + [
        "replace ac"
    ] * shared_store._TRIES
    assert said == []


# Rewriting packs


def test_a_build_with_one_new_result_adds_a_pack_of_one(opened: Open) -> None:
    store = Memory()
    opened(store, ITEMS[:3], MAX_SINGLE_UNITS + 1).push(keys(ITEMS[:3]))
    before = store.names("cas")
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1).push(keys(ITEMS))
    new = {*store.names("cas")} - {*before}
    assert [store.files[name] for name in new] == [ITEMS[3].record + ITEMS[3].data]


def test_many_small_packs_are_merged_into_one(opened: Open, said: list[str]) -> None:
    store = Memory()
    items = [item(f"{number}") for number in range(packs._MAX_SMALL_PACKS + 2)]
    for count in range(1, len(items) + 1):
        opened(store, items[:count], MAX_SINGLE_UNITS + 1).push(keys(items[:count]))
    store.take_log()
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1), items) == items
    assert store.take_log() == ["get ac", "get cas"]
    assert said == []


def test_a_pack_that_is_missing_when_packs_are_merged_loses_only_its_own_results(
    opened: Open, said: list[str]
) -> None:
    store = Memory()
    items = [item(f"{number}") for number in range(packs._MAX_SMALL_PACKS + 2)]
    for count in range(1, len(items)):
        opened(store, items[:count], MAX_SINGLE_UNITS + 1).push(keys(items[:count]))
    digest = file_digest(items[0].record + items[0].data)
    del store.files[f"cas/{digest}"]
    opened(store, items[1:], MAX_SINGLE_UNITS + 1).push(keys(items[1:]))
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1), items) == items[1:]
    assert said == []


# Signatures


class FakeSigning:
    """A policy whose signature is a mark with a digest, and that refuses the records of strangers."""

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self.strangers: set[bytes] = set()  # records that it refuses

    def accepts_record(self, record: bytes) -> bool:
        return record not in self.strangers

    def sign_index(self, index: bytes) -> bytes:
        return self._mark + file_digest(index).encode()

    def accepts_index(self, index: bytes, seal: bytes) -> bool:
        return seal == self.sign_index(index)


def test_an_index_without_a_trusted_signature_is_ignored(opened: Open, said: list[str]) -> None:
    store = Memory()
    opened(store, ITEMS, MAX_SINGLE_UNITS + 1, FakeSigning(b"ours")).push(keys(ITEMS))
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1, policy=FakeSigning(b"ours"))) == ITEMS
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1)) == ITEMS  # a build without trusted keys
    other = opened(store, units=MAX_SINGLE_UNITS + 1, policy=FakeSigning(b"others"))
    assert fetch(other) == []
    folder_with(other._cache.folder, ITEMS)
    other.push(keys(ITEMS))
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1, policy=FakeSigning(b"others"))) == ITEMS
    assert said == []


def test_a_signed_index_is_not_replaced_by_a_build_that_cannot_sign(opened: Open, said: list[str]) -> None:
    """For builds that accept only a signed index, all results would be lost."""
    store, trust = Memory(), SignaturePolicy([OWNER.key], required=False)
    ours, checking = Signing(OWNER, trust), Signing(policy=trust)
    right = [each._replace(record=signed(each.record)) for each in ITEMS]
    cannot_sign = "nothing was pushed, because the store's index must be signed: set HATCH_CUBIN_SIGNING_KEY"
    opened(store, right, MAX_SINGLE_UNITS + 1, checking).push(keys(right))
    assert (store.files, said) == ({}, [cannot_sign])
    opened(store, right[:2], MAX_SINGLE_UNITS + 1, ours).push(keys(right))
    before = dict(store.files)
    for trust_of_another in (None, Signing(), checking):
        opened(store, right, MAX_SINGLE_UNITS + 1, trust_of_another).push(keys(right))
    assert (store.files, said) == (before, [cannot_sign] * 4)
    opened(store, right[:2], MAX_SINGLE_UNITS + 1, checking).push(keys(right[:2]))
    assert said == [cannot_sign] * 4  # the store has all of these results
    opened(store, right, MAX_SINGLE_UNITS + 1, ours).push(keys(right))
    assert fetch(opened(store, units=MAX_SINGLE_UNITS + 1, policy=checking)) == right


@SMALL_AND_LARGE_PROJECT
def test_results_without_a_trusted_signature_are_ignored_and_replaced(
    opened: Open, said: list[str], units: int
) -> None:
    store, signing = Memory(), FakeSigning(b"ours")
    opened(store, ITEMS, units, signing).push(keys(ITEMS))
    signing.strangers = {ITEMS[0].record}
    other = opened(store, units=units, policy=signing)
    assert fetch(other) == ITEMS[1:]
    assert said == []
    folder_with(other._cache.folder, ITEMS)
    other.push(keys(ITEMS))  # a result that no reader would accept is not pushed
    assert other.pushed == set()
    assert said == ["results that were not pushed, because no trusted key has signed them: 1"]
    anew = ITEMS[0]._replace(record=signed(ITEMS[0].record))
    folder_with(other._cache.folder, [anew])
    other.push(keys(ITEMS))
    assert other.pushed == {anew.key}
    assert fetch(opened(store, units=units, policy=signing)) == [anew, *ITEMS[1:]]


def signed(record: bytes) -> bytes:
    return record + OWNER.sign(RECORD, record)


@SMALL_AND_LARGE_PROJECT
def test_with_trusted_keys_only_results_signed_by_one_of_them_are_used(
    opened: Open, said: list[str], units: int
) -> None:
    trusting = Signing(OWNER, SignaturePolicy([OWNER.key], required=False))
    others = [
        [*ITEMS[:3], ITEMS[3]._replace(record=signed(ITEMS[3].record))],  # three are not signed
        [each._replace(record=each.record + STRANGER.sign(RECORD, each.record)) for each in ITEMS],
        [each._replace(record=each.record + OWNER.sign(INDEX, each.record)) for each in ITEMS],
        [
            each._replace(record=signed(ITEMS[0].record)) for each in ITEMS[1:]
        ],  # signed records of another unit
    ]
    for items, taken in zip(others, ([ITEMS[3].key], [], [], []), strict=True):
        store = Memory()
        opened(store, items, units, Signing(OWNER)).push(
            keys(items)
        )  # signs the index, and accepts all records
        assert keys(fetch(opened(store, units=units, policy=trusting))) == taken
    store = Memory()
    right = [each._replace(record=signed(each.record)) for each in ITEMS]
    opened(store, right, units, trusting).push(keys(right))
    assert fetch(opened(store, units=units, policy=Signing(policy=trusting.policy))) == right
    assert fetch(opened(store, units=units)) == right  # a build without trusted keys
    if units > MAX_SINGLE_UNITS:
        stranger = Signing(STRANGER, SignaturePolicy([STRANGER.key], required=False))
        assert fetch(opened(store, units=units, policy=stranger)) == []
