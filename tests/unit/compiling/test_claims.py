"""Who compiles what: keys that another build claims are put off, taken from the cache, or given up on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Sized
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.compiling.claims import CompileClaims

pytest.importorskip("cuda.core")
pytestmark = pytest.mark.linux

KEYS = [bytes([number]) * 32 for number in range(3)]  # no two share a lock
SINGLE = [[key] for key in KEYS]
RESULT = Compiled(b"code of k", {"k": "k"})


@pytest.fixture
def open_cache(tmp_path: Path) -> Iterator[Callable[[], Cache]]:
    opened: list[Cache] = []

    def opener() -> Cache:
        opened.append(Cache(tmp_path, None, pytest.fail))
        return opened[-1]

    yield opener
    for cache in opened:
        cache.__exit__(None, None, None)


class Build:
    """A build's claims, asked for one at a time; what it does while it waits is the test's to say."""

    def __init__(
        self,
        cache: Cache,
        monkeypatch: pytest.MonkeyPatch,
        patience_s: float = 300.0,
        groups: Sequence[int | None] = (),
        keys: Sequence[Sequence[bytes]] = SINGLE,
    ) -> None:
        self.cache = cache
        self.found: dict[int, list[Compiled]] = {}
        self.pauses: list[float] = []
        self.meanwhile: Callable[[], object] = lambda: pytest.fail("nothing was to be waited for")
        self._now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self._now)
        monkeypatch.setattr(time, "sleep", self._sleep)
        self._keys = keys
        self.claims = CompileClaims(keys, cache, self._take_stored, patience_s, groups)

    def _take_stored(self, number: int) -> bool:
        hits = [hit for key in self._keys[number] if (hit := self.cache.get(key)) is not None]
        if len(hits) < len(self._keys[number]):
            return False
        self.found[number] = hits
        return True

    def take(self, count: int) -> list[int | None]:
        return [self.claims.take() for _ in range(count)]

    def take_all(self) -> list[int]:
        """Take until there is nothing, each while those before still run."""
        return list(iter(self.claims.take, None))

    def _sleep(self, seconds: float) -> None:
        self._now += seconds
        self.pauses.append(seconds)
        self.meanwhile()

    def store(self, number: int) -> None:
        self.cache.put(KEYS[number], RESULT, {})
        self.claims.done(number)


def test_alone_a_build_compiles_everything_in_order(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(open_cache(), monkeypatch)
    assert build.take_all() == [0, 1, 2]
    assert build.found == {}


def test_what_was_stored_meanwhile_is_found(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch), open_cache()
    assert build.claims.take() == 0
    other.put(KEYS[1], RESULT, {})
    assert build.take_all() == [2]
    assert build.found == {1: [RESULT]}
    assert other.claim(KEYS[1])


def test_what_another_build_is_at_comes_last(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch), open_cache()
    assert other.claim(KEYS[0])
    assert build.take(4) == [1, 2, None, None]
    build.store(1)
    assert build.claims.take() is None  # the other one of its own still runs
    build.store(2)
    build.meanwhile = lambda: other.put(KEYS[0], RESULT, {})
    assert build.take_all() == []
    assert build.found == {0: [RESULT]}


def test_two_builds_share_the_work(open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = Build(open_cache(), monkeypatch), Build(open_cache(), monkeypatch)
    assert [one.claims.take(), other.claims.take(), one.claims.take()] == [0, 1, 2]
    assert other.claims.take() is None
    for number in (0, 2):
        one.store(number)
    other.store(1)
    assert (one.take_all(), other.take_all()) == ([], [])
    assert (sorted(one.found), sorted(other.found)) == ([1], [0, 2])


def test_what_a_build_leaves_without_a_result_is_this_ones(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch), open_cache()
    assert all(map(other.claim, KEYS))
    build.meanwhile = lambda: other.release(KEYS[1])
    assert build.claims.take() == 1
    assert build.pauses == [0.02]


PAIRS = [[KEYS[0], KEYS[1]], [KEYS[2]]]


def test_what_two_keys_are_for_is_compiled_while_either_is_missing(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch, keys=PAIRS), open_cache()
    other.put(KEYS[1], RESULT, {})
    assert build.take_all() == [0, 1]
    assert [other.claim(key) for key in KEYS] == [False, False, False]
    build.claims.done(0)
    assert [other.claim(key) for key in KEYS] == [True, True, False]


def test_what_two_keys_are_for_is_found_where_both_are_there(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch, keys=PAIRS), open_cache()
    for key in PAIRS[0]:
        other.put(key, RESULT, {})
    assert build.take_all() == [1]
    assert build.found == {0: [RESULT, RESULT]}
    assert [other.claim(key) for key in KEYS] == [True, True, False]


def test_what_another_build_has_one_key_of_is_put_off_and_the_other_key_let_go(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other, third = Build(open_cache(), monkeypatch, keys=PAIRS), open_cache(), open_cache()
    assert other.claim(KEYS[1])
    assert build.take(2) == [1, None]
    assert third.claim(KEYS[0])


def test_claims_are_not_respected_for_ever(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch, patience_s=10.0), open_cache()
    assert all(map(other.claim, KEYS))
    build.meanwhile = lambda: None
    assert build.take_all() == [0, 1, 2]
    assert 10.0 <= sum(build.pauses) <= 11.0
    assert max(build.pauses) == 0.5


def test_patience_begins_anew_with_everything_that_happens(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch, patience_s=10.0), open_cache()
    assert all(map(other.claim, KEYS))

    def store_late() -> None:
        if 9.0 < sum(build.pauses) <= 10.0:
            other.put(KEYS[0], RESULT, {})

    build.meanwhile = store_late
    assert build.take_all() == [1, 2]
    assert build.found == {0: [RESULT]}
    assert sum(build.pauses) > 19.0


def test_a_group_is_gone_through_where_it_is_chosen(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(open_cache(), monkeypatch, groups=[None, 5, 5])
    seen: list[tuple[dict[int | None, int], list[int]]] = []

    def last(left: Mapping[int | None, Sized], elsewhere: Sequence[int]) -> int | None:
        seen.append(({group: len(each) for group, each in left.items()}, [*elsewhere]))
        return list(left)[-1]

    taken = [build.claims.take(last)]
    assert build.claims.left_like(1) == 1
    taken += [build.claims.take(last)]
    assert build.claims.left_like(2) == 0
    assert [*taken, build.claims.take(last), build.claims.take(last)] == [1, 2, 0, None]
    assert seen == [({None: 1, 5: 2}, []), ({None: 1, 5: 1}, []), ({None: 1}, [])]


def test_the_groups_that_another_build_is_at_are_told(
    open_cache: Callable[[], Cache], monkeypatch: pytest.MonkeyPatch
) -> None:
    build, other = Build(open_cache(), monkeypatch, groups=[None, 5, 5]), open_cache()
    assert all(map(other.claim, KEYS[:2]))
    seen: list[list[int]] = []

    def first(left: Mapping[int | None, Sized], elsewhere: Sequence[int]) -> int | None:
        seen.append([*elsewhere])
        return next(iter(left))

    assert build.claims.take(first) == 2
    assert seen == [[], [], [5]]
    assert build.claims.take(first) is None
    build.store(2)
    other.release(KEYS[0])
    assert build.claims.take(first) == 0
    assert seen == [[], [], [5], *([[]] * 3)]
