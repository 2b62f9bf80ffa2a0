"""The bundle as a read-only cache for cuda.core's Program.compile."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import layout
from tests.helpers import SAXPY, bundle, load_bundle, made, make_project, refusal, sha256

pytest.importorskip("cuda.core.utils")

KEY = bytes.fromhex(sha256(b"k for sm_90"))
PROGRAM_KEY = bytes(range(32))


@pytest.fixture
def cubins(tmp_path: Path) -> Any:
    files = bundle(
        made("k", program_key=PROGRAM_KEY),
        made("k", "sm_80"),
        made("z", program_key=PROGRAM_KEY),
        made("a", program_key=b"\1" * 32),
    )
    return load_bundle(tmp_path, files)


def test_it_is_what_program_compile_insists_on(cubins: Any) -> None:
    from cuda.core.utils import ProgramCacheResource

    assert isinstance(cubins.cache(), ProgramCacheResource)


@pytest.mark.parametrize(
    ("key", "data"),
    [
        pytest.param(KEY, b"k for sm_90", id="key"),
        pytest.param(bytearray(KEY), b"k for sm_90", id="as a bytearray"),
        pytest.param(KEY.hex(), b"k for sm_90", id="as hex"),
        pytest.param(KEY.hex().upper(), b"k for sm_90", id="as HEX"),
        pytest.param(PROGRAM_KEY, b"k for sm_90", id="a shared program key: the first module answers"),
        pytest.param(PROGRAM_KEY.decode(), b"k for sm_90", id="text is UTF-8"),
        pytest.param(b"\1" * 32, b"a for sm_90", id="a program key"),
        pytest.param(bytes.fromhex(sha256(b"k for sm_80")), b"k for sm_80", id="another arch"),
    ],
)
def test_a_key_gives_the_units_bytes(cubins: Any, key: Any, data: bytes) -> None:
    assert cubins.cache()[key] == cubins.cache().get(key) == data


@pytest.mark.parametrize("key", [b"", b"x", "", "x", "ü", "0" * 64, "g" * 64, "\u0660" * 64, KEY.hex()[:-1]])
def test_another_key_is_none_of_the_wheels(cubins: Any, key: Any) -> None:
    cache = cubins.cache()
    assert cache.get(key) is None
    assert cache.get(key, b"default") == b"default"
    assert refusal(KeyError, lambda: cache[key]).args == (key,)


@pytest.mark.parametrize("key", [1, None, memoryview(KEY)])
def test_keys_are_bytes_or_text(cubins: Any, key: Any) -> None:
    with pytest.raises(TypeError, match="cache keys must be bytes or str"):
        cubins.cache()[key]


def test_it_counts_distinct_keys(cubins: Any) -> None:
    assert len(cubins.cache()) == 6  # four units, two program keys


def test_it_may_be_closed_and_used_in_a_with_block(cubins: Any) -> None:
    with cubins.cache() as cache:
        assert cache[KEY] == b"k for sm_90"
    cache.close()


def object_code() -> Any:
    from cuda.core import ObjectCode

    return ObjectCode.from_cubin(b"compiled")


WRITES = {
    "store": lambda cache: cache.__setitem__(b"k", b"bytes"),
    "store over": lambda cache: cache.__setitem__(KEY, b"bytes"),
    "delete": lambda cache: cache.__delitem__(KEY),
    "clear": lambda cache: cache.clear(),
    "update": lambda cache: cache.update({b"k": b"bytes"}),
    "update with nothing": lambda cache: cache.update({}),
    "update with code": lambda cache: cache.update([(b"k", object_code())]),
}


READ_ONLY = "the kernels of a wheel are read-only"


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_writing_is_refused(cubins: Any, write: Any) -> None:
    with pytest.raises(TypeError) as caught:
        write(cubins.cache())
    assert str(caught.value) == f"{READ_ONLY}: write to the cache that cache(then=…) was given"


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_with_a_cache_behind_a_write_is_sent_there(cubins: Any, write: Any) -> None:
    from cuda.core.utils import InMemoryProgramCache

    then = InMemoryProgramCache()
    then[b"there"] = b"before"
    with pytest.raises(TypeError) as caught:
        write(cubins.cache(then=then))
    assert str(caught.value) == f"{READ_ONLY}: write to the cache that cache(then=…) was given"
    assert (len(then), then[b"there"]) == (1, b"before")


def test_what_program_compile_stores_is_dropped(cubins: Any) -> None:
    cache = cubins.cache()
    cache[b"new"] = object_code()
    assert cache.get(b"new") is None


def test_or_goes_to_the_cache_behind_which_is_asked_after_the_wheel(cubins: Any) -> None:
    from cuda.core.utils import InMemoryProgramCache

    then = InMemoryProgramCache()
    then[KEY] = b"never asked"
    cache = cubins.cache(then=then)
    cache[b"new"] = object_code()
    assert (cache[b"new"], cache[KEY], len(cache)) == (b"compiled", b"k for sm_90", 6)
    with pytest.raises(KeyError):
        cache[b"other"]


def test_one_wrong_bit_of_the_keys_is_damage(cubins: Any, tmp_path: Path) -> None:
    data = (tmp_path / "keys.json").read_bytes()
    for bit in range(0, len(data) * 8, 3):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        (tmp_path / "keys.json").write_bytes(flipped)
        with pytest.raises(
            cubins.CubinDamagedError, match=r"keys\.json is damaged: it does not match its checksum"
        ):
            cubins.cache()


def test_a_damaged_file_is_damage_and_no_miss(cubins: Any, tmp_path: Path) -> None:
    (tmp_path / "k.sm_90.cubin").write_bytes(b"wrong")
    with pytest.raises(cubins.CubinDamagedError):
        cubins.cache().get(KEY)


@pytest.mark.parametrize(
    "units",
    [
        "[]",
        '{"k":[]}',
        '{"k":{"sm_90":1}}',
        '{"k":{"sm_90":{}}}',
        '{"k":{"sm_90":{"key":"xx","program_key":null}}}',
        '{"k":{"sm_90":{"key":1,"program_key":null}}}',
        '{"k":{"sm_90":{"key":"00","program_key":1}}}',
    ],
)
def test_malformed_keys_are_damage_even_where_the_check_holds(
    cubins: Any, tmp_path: Path, units: str
) -> None:
    body = f'"units":{units}}}\n'
    (tmp_path / "keys.json").write_text(f'{{"check":"{sha256(body.encode())}",{body}')
    with pytest.raises(cubins.CubinDamagedError, match=r"keys\.json is damaged: it is malformed"):
        cubins.cache()


@pytest.mark.parametrize("other", [made("gone"), made("k", "sm_75")], ids=["module", "arch"])
def test_keys_of_another_build_are_damage(cubins: Any, tmp_path: Path, other: layout.BuiltUnit) -> None:
    (tmp_path / "keys.json").write_bytes(bundle(other)["keys.json"])
    with pytest.raises(
        cubins.CubinDamagedError,
        match=r"keys\.json is damaged: the manifest does not have '\w+' for sm_",
    ):
        cubins.cache()[other.keys.key]


def test_an_empty_bundle_is_an_empty_cache(tmp_path: Path) -> None:
    cache = load_bundle(tmp_path, bundle(skipped=True)).cache()
    assert (len(cache), cache.get(b"k")) == (0, None)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("built")
    options = 'archs = ["sm_90", "sm_90a"]\noptions = { std = "c++17" }\ndefine = { N = 4 }'
    files = pipeline.build(
        make_project(root, {"saxpy.cu": SAXPY}, options, HATCH_CUBIN_CACHE_DIR=str(root / "cache"))
    )
    return load_bundle(root / "bundle", files)


@pytest.fixture
def then() -> Any:
    """Return a cache to put behind, that tells what it was asked."""
    from cuda.core.utils import InMemoryProgramCache

    class Recorder(InMemoryProgramCache):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.asked: list[bytes] = []

        def __getitem__(self, key: bytes) -> Any:
            self.asked.append(key)
            return super().__getitem__(key)

    return Recorder()


@pytest.mark.nvrtc
@pytest.mark.parametrize("arch", ["sm_90", "sm_90a"])
def test_program_compile_hits_without_compiling(built: Any, then: Any, arch: str) -> None:
    from cuda.core import Program, ProgramOptions

    options = ProgramOptions(arch=arch, std="c++17", define_macro=[("N", "4")])
    code = Program(SAXPY, "c++", options).compile("cubin", cache=built.cache(then=then))
    assert bytes(code.code) == (Path(built._HERE) / f"saxpy.{arch}.cubin").read_bytes()
    assert (len(then), then.asked) == (0, [])


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "change",
    [{"arch": "sm_100"}, {"std": "c++20"}, {"define_macro": [("N", "5")]}, {"lineinfo": True}],
    ids=["arch", "std", "macro", "lineinfo"],
)
def test_program_compile_misses_with_other_options_and_what_it_compiled_goes_behind(
    built: Any, then: Any, change: dict[str, Any]
) -> None:
    from cuda.core import Program, ProgramOptions

    options = dataclasses.replace(
        ProgramOptions(arch="sm_90", std="c++17", define_macro=[("N", "4")]), **change
    )
    code = Program(SAXPY, "c++", options).compile("cubin", cache=built.cache(then=then))
    (key,) = then.asked
    assert (len(then), then[key]) == (1, bytes(code.code))


@pytest.mark.nvrtc
def test_every_key_that_a_build_wrote_gives_its_file(built: Any) -> None:
    folder, cache = Path(built._HERE), built.cache()
    units = json.loads((folder / "keys.json").read_bytes())["units"]
    for arch, keys in units["saxpy"].items():
        data = (folder / f"saxpy.{arch}.cubin").read_bytes()
        assert (cache[keys["key"]], cache[keys["program_key"]]) == (data, data)
    assert len(cache) == 4
