"""What cuda.core promises of its program caches holds for its own and for ours."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hatch_cubin
from hatch_cubin import SQLiteProgramCache
from tests.helpers import SAXPY, bundle, load_bundle, made, sha256

pytest.importorskip("cuda.core")

from cuda.core import ObjectCode, Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache, ProgramCacheResource

pytestmark = pytest.mark.counted

Make = Callable[..., Any]


@pytest.fixture(params=[FileStreamProgramCache, SQLiteProgramCache])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return what makes another cache in the same place."""
    made = []

    def make(max_size_bytes: int | None = None) -> Any:
        made.append(request.param(tmp_path / "cache", max_size_bytes=max_size_bytes))
        return made[-1]

    yield make
    for each in made:
        each.close()


# What is stored comes back


def test_it_is_what_program_compile_takes(make: Make) -> None:
    assert isinstance(make(), ProgramCacheResource)


def test_what_is_not_there_is_a_miss(make: Make) -> None:
    cache = make()
    assert (cache.get("k"), cache.get("k", b"instead"), len(cache)) == (None, b"instead", 0)
    with pytest.raises(KeyError) as raised:
        cache["k"]
    assert raised.value.args == ("k",)


@pytest.mark.parametrize(
    "value", [b"code", b"", bytearray(b"code"), memoryview(b"code"), bytes(1 << 20)], ids=len
)
def test_the_bytes_come_back(make: Make, value: bytes) -> None:
    cache = make()
    cache[b"\0k"] = value
    assert (cache[b"\0k"], type(cache.get(b"\0k")), len(cache)) == (bytes(value), bytes, 1)


def test_text_is_a_key_in_utf_8(make: Make) -> None:
    cache = make()
    cache["ä"] = b"code"
    assert cache["ä".encode()] == cache[bytearray("ä".encode())] == b"code"


def test_the_code_of_an_object_is_stored(make: Make, tmp_path: Path) -> None:
    file = tmp_path / "k.cubin"
    file.write_bytes(b"of a file")
    cache = make()
    cache["object"] = ObjectCode.from_cubin(b"code")
    cache["file"] = ObjectCode.from_cubin(str(file))
    file.unlink()
    assert (cache["object"], cache["file"]) == (b"code", b"of a file")
    with pytest.raises(FileNotFoundError):
        cache["file"] = ObjectCode.from_cubin(str(file))


KINDS = [name for name in dir(ObjectCode) if name.startswith("from_")]


@pytest.mark.linux
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("stands_there", "error", "reason"),
    [
        (lambda _path: None, FileNotFoundError, os.strerror(errno.ENOENT)),
        (Path.mkdir, OSError, "it is a folder"),
        (os.mkfifo, OSError, "it is a pipe"),
        (Path.touch, OSError, "it is empty"),
        (lambda path: path.symlink_to(path), OSError, os.strerror(errno.ELOOP)),
    ],
    ids=["nothing", "folder", "pipe", "empty", "loop"],
)
def test_code_in_a_file_that_cannot_be_read_is_named_and_not_stored(
    tmp_path: Path, kind: str, stands_there: Any, error: type[OSError], reason: str
) -> None:
    stands_there(tmp_path / "k.bin")
    with SQLiteProgramCache(tmp_path / "cache") as cache:
        cache["k"] = b"before"
        code = getattr(ObjectCode, kind)(str(tmp_path / "k.bin"))
        with pytest.raises(error) as stored:
            cache["k"] = code
        with pytest.raises(error) as updated:
            cache.update({"k": code})
        for raised in (stored, updated):
            assert f"{tmp_path / 'k.bin'}, and nothing was stored: {reason}" in str(raised.value)
        assert cache["k"] == b"before"


def test_code_at_a_path_that_cannot_be_is_named(tmp_path: Path) -> None:
    with SQLiteProgramCache(tmp_path / "cache") as cache, pytest.raises(ValueError, match="is in a\0b, and"):
        cache["k"] = ObjectCode.from_cubin("a\0b")


@pytest.mark.parametrize("key", [1, None, ("k",), memoryview(b"k")])
def test_no_other_key_is_taken(make: Make, key: Any) -> None:
    cache = make()
    said = f"cache keys must be bytes or str, got {type(key).__name__}"
    for use in (cache.get, cache.__getitem__, cache.__delitem__, lambda key: cache.update([(key, b"")])):
        with pytest.raises(TypeError, match=said):
            use(key)


def test_no_other_value_is_taken(make: Make) -> None:
    cache = make()
    with pytest.raises(TypeError, match=r"^cache values must be bytes-like or ObjectCode, got str$"):
        cache["k"] = "code"
    assert len(cache) == 0


def test_it_cannot_be_asked_before_it_is_read(make: Make) -> None:
    """Another process might delete in between."""
    with pytest.raises(TypeError):
        _ = "k" in make()


# What is changed stays so


def test_the_last_write_counts(make: Make) -> None:
    cache = make()
    cache["k"], cache["k"] = b"old", b"new"
    assert (cache["k"], len(cache)) == (b"new", 1)


def test_what_is_deleted_is_gone(make: Make) -> None:
    cache = make()
    cache.update({"a": b"1", "b": b"2"})
    del cache["a"]
    assert (cache.get("a"), cache["b"], len(cache)) == (None, b"2", 1)
    with pytest.raises(KeyError) as raised:
        del cache["a"]
    assert raised.value.args == ("a",)


def test_many_are_stored_from_pairs_and_all_removed(make: Make) -> None:
    cache = make()
    cache.update([("a", b"1"), (b"b", ObjectCode.from_cubin(b"2")), ("a", b"3")])
    assert (cache["a"], cache["b"], len(cache)) == (b"3", b"2", 2)
    cache.clear()
    assert (cache.get("a"), cache.get("b"), len(cache)) == (None, None, 0)


def test_it_outlives_whoever_made_it(make: Make) -> None:
    with make() as cache:
        cache["k"] = b"code"
    cache.close()
    assert make()["k"] == cache["k"] == b"code"


def test_two_at_once_see_each_others_entries(make: Make) -> None:
    one, other = make(), make()
    one["k"] = b"1"
    assert other["k"] == b"1"
    other["k"] = b"2"
    assert one["k"] == b"2"
    del one["k"]
    assert other.get("k") is None


# No more than there is room for


@pytest.mark.parametrize("most", [0, -1])
def test_there_is_room_for_something(make: Make, most: int) -> None:
    with pytest.raises(ValueError, match=r"^max_size_bytes must be positive or None"):
        make(most)


def test_what_was_used_longest_ago_goes(make: Make) -> None:
    cache = make(3000)
    for key in "abc":
        cache[key] = bytes(1000)
    assert cache["a"]
    cache["d"] = bytes(1000)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]


def test_what_takes_the_place_of_another_takes_its_room(make: Make) -> None:
    cache = make(3000)
    for key in "abcccc":
        cache[key] = bytes(1000)
    assert len(cache) == 3


def test_what_does_not_fit_is_not_kept(make: Make) -> None:
    cache = make(3000)
    cache["k"] = bytes(10)
    cache["k"] = bytes(3001)
    assert cache.get("k") is None


# For whoever compiles at run time


@pytest.mark.nvrtc
def test_cuda_core_compiles_once(make: Make) -> None:
    def compiled(cache: Any) -> bytes:
        return bytes(Program(SAXPY, "c++", ProgramOptions(arch="sm_90")).compile("cubin", cache=cache).code)

    with make() as cache:
        code = compiled(cache)
        assert len(cache) == 1
    with make() as cache:
        assert compiled(cache) == code
        assert len(cache) == 1


def test_the_wheels_own_kernels_come_before(make: Make, tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    key = bytes.fromhex(sha256(b"k for sm_90"))
    with make() as then:
        then[key] = b"never asked"
        cache = cubins.cache(then=then)
        cache["new"] = ObjectCode.from_cubin(b"compiled")
        assert (cache[key], cache["new"], then["new"]) == (b"k for sm_90", b"compiled", b"compiled")


# What ours says


def test_a_fault_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_text("of somebody")
    said = f"the program cache {path} was set aside as cache.aside-1: file is not a database"
    with pytest.warns(RuntimeWarning) as heard:
        cache = SQLiteProgramCache(path)
    cache.close()
    assert [str(each.message) for each in heard] == [said]


def test_what_cannot_be_a_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a program cache is a file, and this is a folder"):
        SQLiteProgramCache(tmp_path)


def test_a_link_to_the_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    with SQLiteProgramCache(tmp_path / "link") as cache:
        cache["k"] = b"code"
    assert sorted(os.listdir(tmp_path)) == ["cache", "link"]


def test_it_is_closed_when_nobody_has_it_any_more(tmp_path: Path) -> None:
    SQLiteProgramCache(tmp_path / "cache")["k"] = b"code"
    assert os.listdir(tmp_path) == ["cache"]


# How it is imported


def told(code: str) -> str:
    """Return what another Python prints, or the last line that it fails with."""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    return (done.stderr or done.stdout).splitlines()[-1]


def test_who_does_not_ask_for_it_imports_nothing_more() -> None:
    code = "import sys; before = {*sys.modules}; import hatch_cubin; print({*sys.modules} - before)"
    assert told(code) == "{'hatch_cubin'}"


def test_sqlite_is_imported_where_a_cache_is_made(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules.pop("sqlite3", None)  # of what measures
from hatch_cubin import SQLiteProgramCache
before = "sqlite3" in sys.modules
SQLiteProgramCache({str(tmp_path / "cache")!r})
print(before, "sqlite3" in sys.modules)
"""
    assert told(code) == "False True"


def test_without_cuda_core_it_is_said_what_is_missing() -> None:
    code = "import sys; sys.modules['cuda.core'] = None; from hatch_cubin import SQLiteProgramCache"
    said = "ImportError: SQLiteProgramCache needs cuda-core 1.2 or newer: pip install cuda-core"
    assert told(code) == said


def test_the_package_has_no_other_names() -> None:
    assert hatch_cubin.__all__ == ["SQLiteProgramCache"]
    with pytest.raises(AttributeError, match=r"^module 'hatch_cubin' has no attribute 'SQLite'$"):
        _ = hatch_cubin.SQLite
