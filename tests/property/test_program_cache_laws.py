"""A program cache evicts the least recently used entries of all processes, and only if there is no room."""

from __future__ import annotations

import contextlib
import tempfile
from collections import OrderedDict
from pathlib import Path
from unittest import mock

from hypothesis import given, settings
from hypothesis import strategies as st

from hatch_cubin.program_cache import database
from hatch_cubin.program_cache.database import Database

CAP = 10


class Model(OrderedDict[bytes, bytes]):
    """A model of a program cache: the most recently used entries are last."""

    def read(self, key: bytes) -> bytes | None:
        if key in self:
            self.move_to_end(key)
        return self.get(key)

    def write(self, key: bytes, data: bytes) -> None:
        self.remove(key)
        if len(data) <= CAP:
            while sum(map(len, self.values())) + len(data) > CAP:
                self.popitem(last=False)
            self[key] = data

    def remove(self, key: bytes) -> bool:
        return self.pop(key, None) is not None

    def count(self) -> int:
        return len(self)


KEYS = [b"a", b"b", b"c", b"d", b"e"]
DATA = [b"one", b"four", b"fives", b"", bytes(CAP + 1)]
reads = st.tuples(st.just("read"), st.sampled_from(KEYS))
writes = st.tuples(st.just("write"), st.sampled_from(KEYS), st.sampled_from(DATA))
others = st.sampled_from([*(("remove", key) for key in KEYS), ("count",), ("count",), ("close",), ("clear",)])
calls: st.SearchStrategy[tuple[object, ...]] = st.one_of(reads, reads, writes, writes, others)


def there(path: Path, said: list[str]) -> dict[bytes, bytes | None]:
    """Return the entries, read by a cache without a size limit, which evicts nothing."""
    with contextlib.closing(Database(str(path), None, said.append)) as cache:
        return {key: data for key in KEYS if (data := cache.read(key)) is not None}


@given(st.lists(st.tuples(st.booleans(), calls), min_size=20, max_size=40))
@settings(max_examples=60)
def test_two_caches_that_save_each_read_behave_as_one(steps: list[tuple[bool, tuple[object, ...]]]) -> None:
    model, said = Model(), list[str]()
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(database, "_SAVE_AFTER_READS", 1):
        path = Path(folder) / "cache"
        caches = [Database(str(path), CAP, said.append) for _ in range(2)]
        for which, (name, *given_) in steps:
            found = getattr(caches[which], str(name))(*given_)
            if name != "close":
                assert found == getattr(model, str(name))(*given_)
        for cache in caches:
            cache.close()
        assert (there(path, said), said) == (model, [])


@given(st.lists(calls, min_size=20, max_size=40))
@settings(max_examples=60)
def test_a_cache_knows_its_own_reads_before_they_are_saved(steps: list[tuple[object, ...]]) -> None:
    model, said = Model(), list[str]()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cache"
        cache = Database(str(path), CAP, said.append)
        for name, *given_ in steps:
            found = getattr(cache, str(name))(*given_)
            if name != "close":
                assert found == getattr(model, str(name))(*given_)
        cache.close()
        assert (there(path, said), said) == (model, [])
