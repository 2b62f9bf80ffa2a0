"""Results of other machines enter the folder as a build's own, if they are proven; others may have ours."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from pathlib import Path

import pytest

from hatch_cubin.cache import exchange, housekeeping
from hatch_cubin.cache.entries import Cache
from hatch_cubin.cache.records import RecalledResult, Record, Request, decode, entry_path, record_key
from tests.cached_results import folder_with, item

ONE, OTHER = item("one"), item("other")


def test_what_was_accepted_is_a_hit_like_any_other_without_cuda_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "cuda", None)
    cache = folder_with(tmp_path, [])
    cache.import_result(*ONE)
    hit = cache.get(ONE.key)
    assert hit is not None
    assert (hit.data, hit.kernels) == (ONE.data, {"k": "k"})
    assert exchange.read_entry(tmp_path, ONE.key) == (ONE.record, ONE.data)


def test_it_is_looked_after_like_any_other(tmp_path: Path) -> None:
    folder_with(tmp_path, [ONE, OTHER])
    stats = housekeeping.stats(tmp_path)
    assert (stats.entries, stats.unproven, stats.temporaries) == (2, 0, 0)
    assert (tmp_path / "tmp").stat().st_mode & 0o777 == 0o700
    entry, record = (os.stat(entry_path(tmp_path, each)) for each in (ONE.key, record_key(ONE.key)))
    assert record.st_atime_ns < entry.st_atime_ns  # whoever trims by that takes both
    assert housekeeping.clear(tmp_path).entries == 2


def test_cuda_core_reads_what_was_accepted(tmp_path: Path) -> None:
    utils = pytest.importorskip("cuda.core.utils")
    folder_with(tmp_path, [ONE])
    assert utils.FileStreamProgramCache(tmp_path)[ONE.key] == ONE.data


@pytest.mark.parametrize(
    ("key", "record", "data", "wanted"),
    [
        pytest.param(OTHER.key, ONE.record, ONE.data, Request(), id="of another key"),
        pytest.param(ONE.key, OTHER.record, ONE.data, Request(), id="another's record"),
        pytest.param(ONE.key, ONE.record, OTHER.data, Request(), id="another's bytes"),
        pytest.param(ONE.key, ONE.record, ONE.data[:-1], Request(), id="cut off"),
        pytest.param(ONE.key, ONE.record[:-1], ONE.data, Request(), id="a record cut off"),
        pytest.param(ONE.key, b"", ONE.data, Request(), id="no record"),
        pytest.param(ONE.key, ONE.record, ONE.data, Request(names=["scale<float>"]), id="without a name"),
        pytest.param(ONE.key, ONE.record, ONE.data, Request("sm_90"), id="for no arch"),
        pytest.param(ONE.key, ONE.record, ONE.data, Request(declared=lambda: ["j"]), id="without a kernel"),
    ],
)
def test_what_is_not_proven_is_told(key: bytes, record: bytes, data: bytes, wanted: Request) -> None:
    assert exchange.checked_record(key, record, data, wanted) is None


def test_what_names_no_kernel_of_the_bytes_is_not_proven() -> None:
    found = decode(ONE.record)
    assert found is not None
    record = Record(found.key, found.sha256, found.size, {"stranger": "stranger"}, (), {})
    assert exchange.checked_record(ONE.key, record.encode(), ONE.data, Request()) is None
    assert exchange.checked_record(*ONE, Request()) == found


@pytest.mark.parametrize(
    ("asked", "is_proven"), [(("scale<float, 4>",), True), (("scale<int, 4>",), False), ((), False)]
)
def test_an_object_has_the_names_that_it_is_asked_for(asked: tuple[str, ...], *, is_proven: bool) -> None:
    """What is to be linked is no cubin that names its kernels."""
    found = decode(ONE.record)
    assert found is not None
    record = Record(
        found.key, found.sha256, found.size, {"scale<float,4>": "_Z5scale"}, (), {"object": "lto"}
    )
    assert (
        exchange.checked_record(ONE.key, record.encode(), ONE.data, Request(names=asked)) is not None
    ) == is_proven


def test_only_what_is_proven_is_given(tmp_path: Path) -> None:
    folder_with(tmp_path, [ONE])
    assert exchange.read_entry(tmp_path, OTHER.key) is None
    path = Path(entry_path(tmp_path, record_key(ONE.key)))
    path.write_bytes(OTHER.record)
    assert exchange.read_entry(tmp_path, ONE.key) is None
    path.unlink()
    assert exchange.read_entry(tmp_path, ONE.key) is None


def test_a_folder_that_takes_nothing_is_one_warning_and_keeps_nothing_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    said: list[str] = []
    cache = Cache(tmp_path, None, said.append)
    monkeypatch.setattr(os, "replace", full)
    cache.import_result(*ONE)
    cache.import_result(*OTHER)
    assert said == [f"the cache at {tmp_path} cannot be used fully: No space left on device"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_gone_as_soon_as_it_was_stored_is_a_miss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange.ResultImporter, "_write", lambda *_args: None)
    assert folder_with(tmp_path, [ONE]).get(ONE.key) is None


def test_many_results_are_stored_though_another_process_clears_the_folder(tmp_path: Path) -> None:
    cache = folder_with(tmp_path, [])
    with cache.open_importer() as accept:
        accept(*OTHER)
        shutil.rmtree(tmp_path / "tmp")
        shutil.rmtree(tmp_path / "entries")
        accept(*ONE)
    assert cache.get(OTHER.key) is None
    assert exchange.read_entry(tmp_path, ONE.key) == (ONE.record, ONE.data)


def test_a_damaged_entry_that_came_anew_is_a_hit(tmp_path: Path) -> None:
    cache = folder_with(tmp_path, [ONE])
    hit = cache.get(ONE.key)
    assert hit is not None
    known = RecalledResult(hit.sha256, hit.size, cache.record_stamp(ONE.key), "[]")
    Path(entry_path(tmp_path, ONE.key)).write_bytes(OTHER.data)
    assert cache.get(ONE.key, known) is None
    assert cache.get(ONE.key, known) is None
    cache.import_result(*ONE)
    again = cache.get(ONE.key, known)
    assert again is not None
    assert again.data == ONE.data


def test_what_is_not_there_is_not_counted_as_used(tmp_path: Path) -> None:
    exchange.mark_entry_used(tmp_path, ONE.key)
    assert [*tmp_path.iterdir()] == []
