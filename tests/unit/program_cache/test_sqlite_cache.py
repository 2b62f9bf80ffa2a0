"""The interface of cuda.core's program caches: each test runs with cuda.core's cache and with ours."""

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
from tests.helpers import SAXPY, bundle, load_bundle, made, refusal, sha256

pytest.importorskip("cuda.core")

from cuda.core import ObjectCode, Program, ProgramOptions
from cuda.core.utils import FileStreamProgramCache, ProgramCacheResource

pytestmark = pytest.mark.counted

Make = Callable[..., Any]


@pytest.fixture(params=[FileStreamProgramCache, SQLiteProgramCache])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Return a function that opens one more cache at the same path."""
    made = []

    def make(max_size_bytes: int | None = None) -> Any:
        made.append(request.param(tmp_path / "cache", max_size_bytes=max_size_bytes))
        return made[-1]

    yield make
    for each in made:
        each.close()


# Reading


def test_it_is_a_program_cache_resource(make: Make) -> None:
    assert isinstance(make(), ProgramCacheResource)


def test_a_missing_key_is_a_miss(make: Make) -> None:
    cache = make()
    assert (cache.get("k"), cache.get("k", b"instead"), len(cache)) == (None, b"instead", 0)
    assert refusal(KeyError, lambda: cache["k"]).args == ("k",)


@pytest.mark.parametrize(
    "value", [b"code", b"", bytearray(b"code"), memoryview(b"code"), bytes(1 << 20)], ids=len
)
def test_stored_bytes_come_back(make: Make, value: bytes) -> None:
    cache = make()
    cache[b"\0k"] = value
    assert (cache[b"\0k"], type(cache.get(b"\0k")), len(cache)) == (bytes(value), bytes, 1)


def test_a_text_key_is_encoded_as_utf_8(make: Make) -> None:
    cache = make()
    cache["ä"] = b"code"
    assert cache["ä".encode()] == cache[bytearray("ä".encode())] == b"code"


def test_the_code_of_an_object_code_is_stored(make: Make, tmp_path: Path) -> None:
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
def test_code_in_a_file_that_cannot_be_read_is_an_error_that_names_the_file(
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
            assert f"the ObjectCode's file {tmp_path / 'k.bin'} cannot be read: {reason}" in str(raised.value)
        assert cache["k"] == b"before"


def test_code_at_an_impossible_path_is_an_error_that_names_the_path(tmp_path: Path) -> None:
    with (
        SQLiteProgramCache(tmp_path / "cache") as cache,
        pytest.raises(ValueError, match="file a\0b cannot be read"),
    ):
        cache["k"] = ObjectCode.from_cubin("a\0b")


@pytest.mark.parametrize("key", [1, None, ("k",), memoryview(b"k")])
def test_keys_of_other_types_are_type_errors(make: Make, key: Any) -> None:
    cache = make()
    said = f"cache keys must be bytes or str, got {type(key).__name__}"
    for use in (cache.get, cache.__getitem__, cache.__delitem__, lambda key: cache.update([(key, b"")])):
        with pytest.raises(TypeError, match=said):
            use(key)


def test_values_of_other_types_are_type_errors(make: Make) -> None:
    cache = make()
    with pytest.raises(TypeError, match=r"^cache values must be bytes-like or ObjectCode, got str$"):
        cache["k"] = "code"
    assert len(cache) == 0


def test_the_in_operator_is_not_supported(make: Make) -> None:
    """Another process might delete the entry between the question and the read."""
    with pytest.raises(TypeError):
        _ = "k" in make()


# Writing and deleting


def test_the_last_write_wins(make: Make) -> None:
    cache = make()
    cache["k"], cache["k"] = b"old", b"new"
    assert (cache["k"], len(cache)) == (b"new", 1)


def test_a_deleted_entry_is_gone(make: Make) -> None:
    cache = make()
    cache.update({"a": b"1", "b": b"2"})
    del cache["a"]
    assert (cache.get("a"), cache["b"], len(cache)) == (None, b"2", 1)
    with pytest.raises(KeyError) as raised:
        del cache["a"]
    assert raised.value.args == ("a",)


def test_update_stores_pairs_and_clear_removes_all(make: Make) -> None:
    cache = make()
    cache.update([("a", b"1"), (b"b", ObjectCode.from_cubin(b"2")), ("a", b"3")])
    assert (cache["a"], cache["b"], len(cache)) == (b"3", b"2", 2)
    cache.clear()
    assert (cache.get("a"), cache.get("b"), len(cache)) == (None, None, 0)


def test_entries_outlive_the_object_that_stored_them(make: Make) -> None:
    with make() as cache:
        cache["k"] = b"code"
    cache.close()
    assert make()["k"] == cache["k"] == b"code"


def test_two_open_caches_see_each_others_entries(make: Make) -> None:
    one, other = make(), make()
    one["k"] = b"1"
    assert other["k"] == b"1"
    other["k"] = b"2"
    assert one["k"] == b"2"
    del one["k"]
    assert other.get("k") is None


# max_size_bytes


@pytest.mark.parametrize("most", [0, -1])
def test_max_size_bytes_must_be_positive(make: Make, most: int) -> None:
    with pytest.raises(ValueError, match=r"^max_size_bytes must be positive or None"):
        make(most)


def test_the_least_recently_used_entry_is_evicted(make: Make) -> None:
    cache = make(3000)
    for key in "abc":
        cache[key] = bytes(1000)
    assert cache["a"]
    cache["d"] = bytes(1000)
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]


def test_replacing_an_entry_needs_no_more_room(make: Make) -> None:
    cache = make(3000)
    for key in "abcccc":
        cache[key] = bytes(1000)
    assert len(cache) == 3


def test_an_entry_larger_than_max_size_bytes_is_not_kept(make: Make) -> None:
    cache = make(3000)
    cache["k"] = bytes(10)
    cache["k"] = bytes(3001)
    assert cache.get("k") is None


# With Program.compile and a wheel's loader


@pytest.mark.nvrtc
def test_cuda_core_compiles_only_once(make: Make) -> None:
    def compiled(cache: Any) -> bytes:
        return bytes(Program(SAXPY, "c++", ProgramOptions(arch="sm_90")).compile("cubin", cache=cache).code)

    with make() as cache:
        code = compiled(cache)
        assert len(cache) == 1
    with make() as cache:
        assert compiled(cache) == code
        assert len(cache) == 1


def test_a_wheels_own_kernels_come_first(make: Make, tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    key = bytes.fromhex(sha256(b"k for sm_90"))
    with make() as then:
        then[key] = b"never asked"
        cache = cubins.cache(then=then)
        cache["new"] = ObjectCode.from_cubin(b"compiled")
        assert (cache[key], cache["new"], then["new"]) == (b"k for sm_90", b"compiled", b"compiled")


# Warnings and errors of ours


def test_a_problem_with_the_file_is_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "cache"
    path.write_text("of somebody")
    said = f"the program cache {path} was renamed to cache.aside-1: file is not a database"
    with pytest.warns(RuntimeWarning) as heard:
        cache = SQLiteProgramCache(path)
    cache.close()
    assert [str(each.message) for each in heard] == [said]


def test_a_folder_in_place_of_the_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="a program cache must be a file, but this path is a folder"):
        SQLiteProgramCache(tmp_path)


def test_a_link_to_the_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "cache")
    with SQLiteProgramCache(tmp_path / "link") as cache:
        cache["k"] = b"code"
    assert sorted(os.listdir(tmp_path)) == ["cache", "link"]


def test_it_is_closed_when_it_is_garbage_collected(tmp_path: Path) -> None:
    SQLiteProgramCache(tmp_path / "cache")["k"] = b"code"
    assert os.listdir(tmp_path) == ["cache"]


# Importing it


def last_line_of(code: str) -> str:
    """Return the last line that *code* prints in a new Python, or of its traceback."""
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    return (done.stderr or done.stdout).splitlines()[-1]


def test_importing_the_package_does_not_import_it() -> None:
    code = "import sys; before = {*sys.modules}; import hatch_cubin; print({*sys.modules} - before)"
    assert last_line_of(code) == "{'hatch_cubin'}"


def test_sqlite_is_imported_when_a_cache_is_made(tmp_path: Path) -> None:
    code = f"""
import sys
sys.modules.pop("sqlite3", None)  # of what measures
from hatch_cubin import SQLiteProgramCache
before = "sqlite3" in sys.modules
SQLiteProgramCache({str(tmp_path / "cache")!r})
print(before, "sqlite3" in sys.modules)
"""
    assert last_line_of(code) == "False True"


def test_without_cuda_core_the_error_names_it() -> None:
    code = "import sys; sys.modules['cuda.core'] = None; from hatch_cubin import SQLiteProgramCache"
    said = "ImportError: SQLiteProgramCache needs cuda-core 1.2 or newer: pip install cuda-core"
    assert last_line_of(code) == said


def test_the_package_exports_no_other_names() -> None:
    assert hatch_cubin.__all__ == ["SQLiteProgramCache"]
    with pytest.raises(AttributeError, match=r'build-backend = "hatch_cubin\.backend"$'):
        _ = hatch_cubin.build_wheel
    with pytest.raises(AttributeError, match=r"^module 'hatch_cubin' has no attribute 'SQLite': "):
        _ = hatch_cubin.SQLite
