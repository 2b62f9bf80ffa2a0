"""Entries that prove themselves, over cuda.core's own cache."""

from __future__ import annotations

import errno
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cache import entries, housekeeping
from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.records import (
    RecalledResult,
    Record,
    StoredFile,
    decode,
    describe,
    entry_path,
    read_file,
    record_key,
)
from hatch_cubin.cache.signing import RECORD, Distrust, SignaturePolicy, Signer, Signing
from hatch_cubin.project import disk
from tests.cubins import FUNC, KERNEL, OBJECT, REGISTERS, SECTION, elf
from tests.helpers import sha256, write_tree
from tests.special_files import (
    a_file,
    a_folder,
    a_link_to_a_device,
    a_link_to_a_folder,
    a_link_to_a_pipe,
    a_link_to_itself,
    a_pipe,
    a_sparse_file,
)

pytest.importorskip("cuda.core")

KEY = bytes(range(32))
RESULT = Compiled(b"\x7fELF code of _Z5scale", {"scale<float, 4>": "_Z5scale"}, ("a warning",))
INPUTS = {"source": "abc", "define": ["N=4"], "headers": {"project/größe.h": "def"}}


def open_cache(folder: Path, cap: int | None = None, said: list[str] | None = None) -> Cache:
    return Cache(folder, cap, ([] if said is None else said).append)


def fill(folder: Path, *names: str, size: int = 100) -> None:
    with open_cache(folder) as cache:
        for name in names:
            cache.put(name.encode() * 32, Compiled(name.encode() * size, {name: name}), {})


def held(folder: Path, *names: str) -> str:
    with open_cache(folder) as cache:
        return "".join(name for name in names if cache.get(name.encode() * 32) is not None)


def files(folder: Path) -> dict[str, bytes]:
    stored = folder / "entries"
    return {str(path.relative_to(stored)): path.read_bytes() for path in stored.rglob("*") if path.is_file()}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """Return a cache folder with a result."""
    with open_cache(tmp_path / "cache") as cache:
        cache.put(KEY, RESULT, INPUTS)
    return tmp_path / "cache"


def test_what_was_stored_is_found_by_the_next_build(tmp_path: Path) -> None:
    said: list[str] = []
    with open_cache(tmp_path / "cache", said=said) as cache:
        assert cache.get(KEY) is None
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    with open_cache(tmp_path / "cache", said=said) as cache:
        assert cache.get(KEY) == RESULT
        assert cache.damaged == 0
    assert said == []


def test_an_entry_is_the_raw_bytes_beside_a_record_that_says_what_went_in(tmp_path: Path) -> None:
    with open_cache(tmp_path) as cache:
        cache.put(KEY, RESULT, INPUTS)
    raw, record = sorted(files(tmp_path).values(), key=len)
    assert raw == RESULT.data
    digest, text = record.decode().splitlines()
    assert digest == sha256(text.encode())
    assert json.loads(text) == {
        "format": 2,
        "inputs": INPUTS,
        "kernels": RESULT.kernels,
        "key": KEY.hex(),
        "warnings": ["a warning"],
        "sha256": sha256(RESULT.data),
        "size": len(RESULT.data),
    }


def test_the_inputs_of_every_entry_can_be_read_back(tmp_path: Path) -> None:
    other = bytes(reversed(KEY))
    with open_cache(tmp_path) as cache:
        assert cache.inputs() == {}
        cache.put(KEY, RESULT, INPUTS)
        cache.put(other, Compiled(b"0" * 64 + b"\n{", {"k": "0"}), {})  # begins as a record would
        write_tree(
            tmp_path / "entries/aa",
            {
                "a" * 62: b"",
                "b" * 62: signed({**PROVEN, "format": 1}),
                "c" * 62: signed(PROVEN)[:-2],
                "other.txt": signed(PROVEN),
            },
        )
        (tmp_path / "entries/aa" / ("d" * 62)).mkdir()
        assert cache.inputs() == {KEY.hex(): INPUTS, other.hex(): {}}


@pytest.mark.parametrize("inner", ["", "deep/cubins"])
def test_a_file_in_the_place_of_the_folder_is_named(tmp_path: Path, inner: str) -> None:
    (tmp_path / "cache").write_text("")
    said: list[str] = []
    with open_cache(tmp_path / "cache" / inner, said=said) as cache:
        cache.put(KEY, RESULT, INPUTS)
    assert len(said) == 1
    assert said[0].endswith(
        f"{tmp_path / 'cache'} is a file, not a folder: set HATCH_CUBIN_CACHE_DIR to another folder"
    )


def test_inputs_that_cannot_be_read_are_a_fault_of_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_folder: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(housekeeping, "records", refuse)
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        assert cache.inputs() == {}
    assert said == [f"the cache at {tmp_path} cannot be used fully: Permission denied"]


SIGNER = Signer(bytes(32))


def test_a_signature_stands_below_its_record_and_changes_nothing_else(tmp_path: Path) -> None:
    for folder, signing in (("plain", Signing()), ("signed", Signing(SIGNER))):
        with Cache(tmp_path / folder, None, pytest.fail, signing=signing) as cache:
            cache.put(KEY, RESULT, INPUTS)
    plain, signed = (sorted(files(tmp_path / folder).values(), key=len) for folder in ("plain", "signed"))
    assert signed == [plain[0], plain[1] + SIGNER.sign(RECORD, plain[1])]
    with open_cache(tmp_path / "signed") as cache:
        assert cache.get(KEY) == RESULT
        assert cache.inputs() == {KEY.hex(): INPUTS}


def test_what_no_trusted_key_has_signed_is_a_miss_and_no_damage(tmp_path: Path) -> None:
    trust = SignaturePolicy([SIGNER.key], required=True)
    with Cache(tmp_path, None, pytest.fail, signing=Signing(policy=trust)) as cache:
        cache.put(KEY, RESULT, INPUTS)
        assert cache.record_stamp(KEY) == ""
        assert (cache.get(KEY), cache.damaged, cache.distrusted) == (None, 0, {KEY: Distrust("unsigned")})
        with Cache(tmp_path, None, pytest.fail, signing=Signing(SIGNER, trust)) as other:
            other.put(KEY, RESULT, INPUTS)
            assert other.record_stamp(KEY) != ""
        assert (cache.get(KEY), cache.damaged, cache.distrusted) == (RESULT, 0, {})


def test_cuda_core_reads_the_entry_as_its_own(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    with open_cache(tmp_path) as cache:
        cache.put(KEY, RESULT, INPUTS)
    assert FileStreamProgramCache(tmp_path)[KEY] == RESULT.data


def signed(value: object) -> bytes:
    return signed_text(json.dumps(value))


def signed_text(text: str) -> bytes:
    return f"{sha256(text.encode())}\n{text}\n".encode()


PROVEN: dict[str, Any] = {
    "key": KEY.hex(),
    "sha256": sha256(b"x"),
    "size": 1,
    "kernels": {"k": "x"},
    "warnings": [],
    "inputs": {},
    "format": 2,
}


@pytest.mark.parametrize(
    "record",
    [
        signed([]),
        signed({**PROVEN, "format": 1}),
        signed({**PROVEN, "more": 1}),
        signed({name: value for name, value in PROVEN.items() if name != "warnings"}),
        signed({**PROVEN, "key": "00" * 32}),
        signed({**PROVEN, "size": 2}),
        signed({**PROVEN, "sha256": sha256(b"y")}),
        signed({**PROVEN, "kernels": {"k": "y"}}),
        signed(PROVEN).removesuffix(b"\n"),
        signed(PROVEN) + b"\n",
        b"",
        signed_text("not JSON"),
        signed_text("[" * 100_000 + "]" * 100_000),
    ],
    ids=[
        "list",
        "format",
        "more",
        "less",
        "key",
        "size",
        "digest",
        "kernels",
        "cut",
        "longer",
        "empty",
        "no json",
        "deep",
    ],
)
def test_a_record_that_does_not_fit_is_a_miss(tmp_path: Path, record: bytes) -> None:
    from cuda.core.utils import FileStreamProgramCache

    store = FileStreamProgramCache(tmp_path)
    store[KEY] = b"x"
    store[KEY + b".record"] = record
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        assert cache.get(KEY) is None
        assert cache.damaged == 1
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    assert said == []


@pytest.mark.parametrize(
    "named", [{"k": "k", "n": "n"}, {"k": "k"}, {"n": "n"}, {"k": "k", "m": "m"}, {"k": "k", "m": "E"}]
)
def test_a_record_names_the_kernels_that_its_cubin_has(tmp_path: Path, named: dict[str, str]) -> None:
    """What is named beside kernels is a variable that the table instantiates: it is in the bytes as well."""
    cubin = Compiled(elf(("k", FUNC, KERNEL, SECTION), ("n", OBJECT, 0, SECTION), more=[REGISTERS]), named)
    assert list(json.loads(cubin.kernel_uses_json)) == ["k"]
    with open_cache(tmp_path) as cache:
        cache.put(KEY, cubin, {})
        right = "k" in named and "m" not in named
        assert (cache.get(KEY), cache.damaged) == ((cubin, 0) if right else (None, 1))


HALF = "\ud800"  # of a character, which nobody can write down
NONSENSE: dict[str, list[object]] = {
    "key": [None, 5, "", "no hex", "abc", KEY.hex() + "AB"],
    "sha256": [None, [], "", sha256(b"x").upper(), sha256(b"x")[1:]],
    "size": [None, True, 0, -1, 1.0, "1"],
    "kernels": [
        *(None, [], {}, {"k": 5}, {"k": None}, {"k": ""}, {"": "x"}),
        *({"k": ["x"]}, {"k": "x", "l": {}}, {"k": HALF}, {HALF: "x"}),
    ],
    "warnings": [None, 1, "text", {}, [5], ["a", None], [[]], [HALF]],
    "inputs": [None, [], "x", {"path": 5}, {"search": [5]}, {"trees": [None]}],
    "format": [None, "2", 2.0, True],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in NONSENSE.items() for value in values]
)
def test_a_record_that_says_what_no_build_would_is_none(field: str, value: object) -> None:
    assert decode(signed(PROVEN)) == Record(**PROVEN)
    assert decode(signed({**PROVEN, field: value})) is None


BOTH = {"entry": KEY, "record": record_key(KEY)}
NO_FILES = [
    *(a_pipe, a_folder, a_link_to_a_folder, a_link_to_a_pipe, a_link_to_a_device),
    a_sparse_file,
]


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("half", BOTH)
@pytest.mark.parametrize("held", [False, True], ids=["bytes", "held"])
@pytest.mark.parametrize("put", NO_FILES)
def test_what_stands_in_an_entrys_place_and_is_no_file_is_a_miss_and_is_healed(
    tmp_path: Path, put: Callable[[Path], None], half: str, *, held: bool
) -> None:
    (tmp_path / "hold").mkdir()
    with Cache(tmp_path / "cache", None, pytest.fail, tmp_path / "hold" if held else None) as cache:
        cache.put(KEY, RESULT, INPUTS)
        path = Path(entry_path(tmp_path / "cache", BOTH[half]))
        path.unlink()
        put(path)
        assert (cache.get(KEY), cache.damaged) == (None, 1)
        cache.put(KEY, RESULT, INPUTS)
        found = cache.get(KEY)
    assert found is not None
    assert (found.data, found.kernels) == (RESULT.data, RESULT.kernels)


@pytest.mark.linux
@pytest.mark.parametrize("half", BOTH)
def test_a_link_in_an_entrys_place_that_leads_nowhere_is_a_plain_miss(tmp_path: Path, half: str) -> None:
    with open_cache(tmp_path) as cache:
        cache.put(KEY, RESULT, INPUTS)
        path = Path(entry_path(tmp_path, BOTH[half]))
        path.unlink()
        a_link_to_itself(path)
        assert (cache.get(KEY), cache.damaged) == (None, 0)
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT


FOLDERS = {
    "tmp": Path("tmp"),
    "entries": Path("entries"),
    "the entry's": Path(entry_path(Path(), KEY)).parent,
    "the record's": Path(entry_path(Path(), record_key(KEY))).parent,
}


def without(folder: Path) -> Path:
    """Remove a folder and return where it was."""
    shutil.rmtree(folder)
    return folder


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("name", FOLDERS)
def test_a_pipe_in_a_folders_place_makes_way(stored: Path, name: str) -> None:
    a_pipe(without(stored / FOLDERS[name]))
    with Cache(stored, None, pytest.fail) as cache:
        assert cache.get(KEY) == (RESULT if name == "tmp" else None)
        assert cache.claim(KEY)
        cache.put(KEY, RESULT, INPUTS)
        assert (cache.get(KEY), cache.damaged) == (RESULT, 0)
    with Cache(stored, None, pytest.fail) as cache:
        assert cache.get(KEY) == RESULT


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("put", [a_file, a_link_to_a_pipe, a_link_to_a_device, a_link_to_itself])
@pytest.mark.parametrize("name", FOLDERS)
def test_what_is_not_ours_in_a_folders_place_stays_and_costs_one_warning(
    stored: Path, put: Callable[[Path], None], name: str
) -> None:
    said: list[str] = []
    path = without(stored / FOLDERS[name])
    put(path)
    with Cache(stored, 1, said.append) as cache:
        assert cache.get(KEY) == (RESULT if name == "tmp" else None)
        cache.put(KEY, RESULT, INPUTS)
        assert (cache.claim(KEY), cache.damaged) == (True, 0)
    assert os.path.lexists(path)
    assert said == [f"the cache at {stored} cannot be used fully: {path} is not a folder"]


def test_what_is_trimmed_as_soon_as_it_is_stored_is_no_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entries, "stat_file", lambda _path: None)
    with Cache(tmp_path, None, pytest.fail) as cache:
        cache.put(KEY, RESULT, INPUTS)


def test_what_cannot_be_looked_at_is_a_fault_of_the_folder(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    said: list[str] = []
    with Cache(stored, None, said.append) as cache, monkeypatch.context() as patched:
        patched.setattr(os, "stat", refuse)
        assert cache.get(KEY) is None
    assert said == [f"the cache at {stored} cannot be used fully: Permission denied"]


def test_what_is_trimmed_since_it_was_looked_at_is_a_plain_miss(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_too_late(file: StoredFile) -> bytes:
        os.unlink(file.path)
        return read_file(file)

    monkeypatch.setattr(entries, "read_file", read_too_late)
    with Cache(stored, None, pytest.fail) as cache:
        assert (cache.get(KEY), cache.damaged) == (None, 0)


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
def test_a_pipe_that_takes_an_entrys_place_since_it_was_looked_at_is_not_waited_for(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_too_late(file: StoredFile) -> bytes:
        os.unlink(file.path)
        os.mkfifo(file.path)
        return read_file(file)

    monkeypatch.setattr(entries, "read_file", read_too_late)
    with Cache(stored, None, pytest.fail) as cache:
        assert (cache.get(KEY), cache.damaged) == (None, 1)


# --- what counts as use -------------------------------------------------------------------------


def known_of(folder: Path, key: bytes) -> RecalledResult:
    """Return what a build would recall of an entry."""
    (record,) = (each for each in housekeeping.records(folder) if each.key == key.hex())
    stamp = disk.size_and_time(entry_path(folder, record_key(key)))
    return RecalledResult(record.sha256, record.size, stamp, describe(record.kernels, record.warnings, "{}"))


def used(folder: Path, name: str) -> tuple[int, int]:
    """Return when an entry and its record were used."""
    entry, record = (
        os.stat(entry_path(folder, key)) for key in (name.encode() * 32, record_key(name.encode() * 32))
    )
    return entry.st_atime_ns, record.st_atime_ns


HITS = {"by its record": False, "recalled": True}


@pytest.mark.parametrize("how", HITS)
@pytest.mark.parametrize("held", [False, True], ids=["bytes", "held"])
def test_a_hit_uses_an_entry_and_its_record(tmp_path: Path, how: str, *, held: bool) -> None:
    folder, key = tmp_path / "cache", b"a" * 32
    (tmp_path / "hold").mkdir()
    fill(folder, "a")
    known = known_of(folder, key) if HITS[how] else None
    for path in folder.glob("entries/*/*"):
        os.utime(path, ns=(10**9, path.stat().st_mtime_ns))
    with Cache(folder, None, pytest.fail, tmp_path / "hold" if held else None) as cache:
        found = cache.get(key, known)
        assert found is not None
        assert found.recalled == HITS[how]
    entry, record = used(folder, "a")
    assert 10**9 < record < entry <= record + 10_000


def test_what_is_stored_is_used_together(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    (a, a_record), (b, b_record) = used(tmp_path, "a"), used(tmp_path, "b")
    assert a_record < a < b_record < b


def halves(folder: Path, names: str) -> dict[str, int]:
    """Count what is left of each entry and its record."""
    return {
        name: sum(
            os.path.exists(entry_path(folder, key))
            for key in (name.encode() * 32, record_key(name.encode() * 32))
        )
        for name in names
    }


def bytes_in(folder: Path) -> int:
    """Return how large all of it is, and read nothing: that would count as use."""
    return sum(path.stat().st_size for path in folder.glob("entries/*/*"))


@pytest.mark.parametrize("how", HITS)
@pytest.mark.parametrize("keep", range(1, 6))
def test_cuda_cores_own_cap_takes_an_entry_with_its_record(tmp_path: Path, keep: int, how: str) -> None:
    """What was hit last stays, both halves of it; recalled or not."""
    from cuda.core.utils import FileStreamProgramCache

    fill(tmp_path, *"abcdef")
    order = "dafbec"  # in which they are used
    known = {name: known_of(tmp_path, name.encode() * 32) if HITS[how] else None for name in order}
    with open_cache(tmp_path) as cache:
        for name in order:
            assert cache.get(name.encode() * 32, known[name]) is not None
    size = bytes_in(tmp_path)
    FileStreamProgramCache(tmp_path, max_size_bytes=size * keep // 6 + 1)[b"another"] = b"1"
    left = order[-keep:]
    assert halves(tmp_path, order) == {name: 2 if name in left else 0 for name in order}
    assert held(tmp_path, *order) == "".join(left)


def test_a_cap_that_a_record_alone_makes_room_for_leaves_one_half_which_goes_next(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    fill(tmp_path, *"abc")
    size = bytes_in(tmp_path)
    store = FileStreamProgramCache(tmp_path, max_size_bytes=size)
    store[b"another"] = b"1"
    assert halves(tmp_path, "abc") == {"a": 1, "b": 2, "c": 2}
    store[b"one more"] = bytes(size // 3 - 1)
    assert halves(tmp_path, "abc") == {"a": 0, "b": 2, "c": 2}


def test_half_an_entry_left_by_a_cap_is_a_plain_miss(tmp_path: Path) -> None:
    fill(tmp_path, "a")
    next(
        path for path in (tmp_path / "entries").rglob("*") if path.is_file() and path.stat().st_size == 100
    ).unlink()
    with open_cache(tmp_path) as cache:
        assert cache.get(b"a" * 32) is None
        assert cache.damaged == 0


def test_an_entry_that_another_build_is_about_to_prove_is_a_plain_miss(tmp_path: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    FileStreamProgramCache(tmp_path)[KEY] = RESULT.data
    with open_cache(tmp_path) as cache:
        assert (cache.get(KEY), cache.damaged) == (None, 0)


def test_a_cap_is_kept_when_the_build_ends(tmp_path: Path) -> None:
    fill(tmp_path, *"abcd")
    one = sum(map(len, files(tmp_path).values())) / 4
    with open_cache(tmp_path, cap=int(2.5 * one)) as cache:
        for name in "cabd":
            assert cache.get(name.encode() * 32) is not None
    assert held(tmp_path, *"abcd") == "bd"


# --- beside other builds ------------------------------------------------------------------------


def test_a_key_is_claimed_by_one_build_at_a_time(tmp_path: Path) -> None:
    with open_cache(tmp_path) as one, open_cache(tmp_path) as other:
        assert (one.claim(KEY), other.claim(KEY)) == (True, False)
        one.release(KEY)
        assert (other.claim(KEY), one.claim(KEY)) == (True, False)
    with open_cache(tmp_path) as later:
        assert later.claim(KEY)


def test_keys_may_share_a_lock(tmp_path: Path) -> None:
    first, *others = [
        number.to_bytes(32, "big")
        for number in range(5000)
        if sha256(number.to_bytes(32, "big")).startswith("ab")
    ][:3]
    with open_cache(tmp_path) as one, open_cache(tmp_path) as other:
        assert [one.claim(key) for key in (first, *others)] == [True, True, True]
        for key in others:
            one.release(key)
        assert not other.claim(others[0])
        one.release(first)
        assert other.claim(others[0])


def test_where_nothing_can_be_stored_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.core import utils

    def refuse(_path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    said: list[str] = []
    with open_cache(tmp_path) as other, Cache(tmp_path, None, said.append) as one:
        assert (other.claim(KEY), one.claim(KEY)) == (True, False)
        monkeypatch.setattr(utils, "FileStreamProgramCache", refuse)
        one.put(KEY, RESULT, {})
        assert one.claim(KEY)
    assert said == [f"the cache at {tmp_path} cannot be used fully: Permission denied"]


def test_in_the_place_of_a_folder_a_file_keeps_nobody_waiting(tmp_path: Path) -> None:
    place = tmp_path / "cache"
    place.write_text("not a folder")
    with Cache(place, None, print) as one, Cache(place, None, print) as other:
        assert (one.claim(KEY), other.claim(KEY)) == (True, True)


def test_where_nothing_can_be_locked_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with open_cache(tmp_path) as one, open_cache(tmp_path) as other:
        assert (one.claim(KEY), other.claim(KEY)) == (True, True)


def interfering(monkeypatch: pytest.MonkeyPatch, folder: Path, times: int) -> None:
    """Have another process remove the temporary folder's files just before they are moved."""
    left, real = iter(range(times)), os.replace

    def replace(source: Path, target: Path) -> None:
        for _ in left:
            shutil.rmtree(folder / "tmp")
            break
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)


def test_a_write_that_another_process_clears_away_is_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        interfering(monkeypatch, tmp_path, times=2)
        cache.put(KEY, RESULT, INPUTS)
        assert cache.get(KEY) == RESULT
    assert said == []


def test_a_write_is_given_up_after_some_tries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    with open_cache(tmp_path, said=said) as cache:
        interfering(monkeypatch, tmp_path, times=3)
        cache.put(KEY, RESULT, INPUTS)
    assert said == [f"the cache at {tmp_path} cannot be used fully: No such file or directory"]


def test_the_last_build_sweeps_what_killed_ones_left(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    with open_cache(tmp_path):
        left = tmp_path / "tmp" / "entry-0123abc_"
        left.write_bytes(b"half")
    assert not left.exists()


def hold(cache: Path, folder: Path) -> tuple[Compiled | None, int]:
    """Return what a build finds that holds it in *folder*, and how many entries it takes for damaged."""
    folder.mkdir(exist_ok=True)
    with Cache(cache, None, pytest.fail, folder) as opened:
        return opened.get(KEY), opened.damaged


@pytest.mark.linux
def test_what_is_held_is_a_link_that_outlives_the_cache(stored: Path, tmp_path: Path) -> None:
    found, _damaged = hold(stored, tmp_path / "hold")
    assert found is not None
    (link,) = (tmp_path / "hold").iterdir()
    assert found.content == str(link)
    assert any(path.samefile(link) for path in stored.glob("entries/*/*"))
    shutil.rmtree(stored)
    assert (found.data, found.kernels, found.warnings) == (RESULT.data, RESULT.kernels, RESULT.warnings)
    assert (found.size, found.sha256) == (len(RESULT.data), sha256(RESULT.data))


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM, errno.EMLINK])
def test_where_there_can_be_no_link_the_bytes_are_kept(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(*_paths: str, **_how: bool) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", refuse)
    found, _damaged = hold(stored, tmp_path / "hold")
    assert found == RESULT
    assert found is not None
    assert found.content == [RESULT.data]
    assert list((tmp_path / "hold").iterdir()) == []


def test_what_is_damaged_or_not_there_is_not_held(stored: Path, tmp_path: Path) -> None:
    for path in stored.glob("entries/*/*"):
        path.write_bytes(path.read_bytes()[::-1])
    assert hold(stored, tmp_path / "hold") == (None, 1)
    shutil.rmtree(stored / "entries")
    assert hold(stored, tmp_path / "hold") == (None, 0)


def test_a_system_that_reads_less_than_it_is_asked_for_is_asked_again(
    stored: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = os.read
    monkeypatch.setattr(os, "read", lambda descriptor, size: read(descriptor, min(size, 7)))
    with open_cache(stored) as cache:
        assert cache.get(KEY) == RESULT


@pytest.mark.linux
@pytest.mark.parametrize("odd", ["a link", "executable"])
def test_an_entry_that_a_wheel_would_show_to_be_odd_is_kept_as_bytes(
    stored: Path, tmp_path: Path, odd: str
) -> None:
    (entry,) = (path for path in stored.glob("entries/*/*") if path.read_bytes() == RESULT.data)
    if odd == "a link":
        entry.rename(tmp_path / "elsewhere")
        entry.symlink_to(tmp_path / "elsewhere")
    else:
        entry.chmod(0o755)
    found, _damaged = hold(stored, tmp_path / "hold")
    assert found == RESULT
    assert list((tmp_path / "hold").iterdir()) == []


def test_what_is_forgotten_is_gone_with_its_record(tmp_path: Path) -> None:
    fill(tmp_path, "a", "b")
    with open_cache(tmp_path) as cache:
        cache.forget(b"a" * 32)
        cache.forget(b"c" * 32)
    assert held(tmp_path, "a", "b") == "b"
    assert len(files(tmp_path)) == 2
