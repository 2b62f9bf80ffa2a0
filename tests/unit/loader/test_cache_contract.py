"""What a reader may rely on with each of cuda.core's program caches holds for the wheel's as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from tests.helpers import SAXPY, bundle, load_bundle, made, make_project, refusal, sha256

pytest.importorskip("cuda.core.utils")

KEY = bytes.fromhex(sha256(b"k for sm_90"))
CUBIN = b"k for sm_90"


@pytest.fixture
def cubins(tmp_path: Path) -> Any:
    return load_bundle(tmp_path, bundle(made("k"), made("other")))


def test_a_value_is_bytes_each_time_its_own_and_the_same(cubins: Any) -> None:
    cache = cubins.cache()
    values = [cache[KEY], cache.get(KEY), cache[KEY]]
    assert ({type(value) for value in values}, values) == ({bytes}, [CUBIN] * 3)


def test_a_default_may_be_anything_and_be_named(cubins: Any) -> None:
    default = object()
    assert cubins.cache().get(b"missing", default=default) is default
    assert cubins.cache().get(KEY, default=default) == CUBIN


@pytest.mark.parametrize("key", [b"x" * 4096, "y" * 4096, b"\0", b"\xff" * 32])
def test_a_key_may_be_of_any_length_and_bytes(cubins: Any, key: Any) -> None:
    assert cubins.cache().get(key) is None


@pytest.mark.parametrize("key", [123, None, 1.5, (KEY,), memoryview(KEY)])
def test_another_type_of_key_is_refused_by_every_access(cubins: Any, key: Any) -> None:
    from cuda.core import ObjectCode

    cache = cubins.cache()
    accesses: tuple[Callable[[], Any], ...] = (
        lambda: cache[key],
        lambda: cache.get(key),
        lambda: cache.get(key, b"default"),
        lambda: key in cache,
        lambda: cache.__setitem__(key, ObjectCode.from_cubin(b"code")),
    )
    for access in accesses:
        with pytest.raises(TypeError, match="cache keys must be bytes or str, got"):
            access()


@pytest.mark.parametrize("key", [KEY, KEY.hex(), bytearray(KEY)])
def test_in_says_what_the_wheel_has_without_reading_it(cubins: Any, tmp_path: Path, key: Any) -> None:
    cache = cubins.cache()
    (tmp_path / "k.sm_90.cubin").unlink()
    assert key in cache
    assert b"missing" not in cache


def test_in_asks_the_cache_behind_after_the_wheel(cubins: Any) -> None:
    then = behind()
    then[b"theirs"] = b"compiled"
    cache = cubins.cache(then=then)
    assert (KEY in cache, then.asked) == (True, 0)
    assert (b"theirs" in cache, b"missing" in cache, then.asked) == (True, False, 2)


@pytest.mark.parametrize(("loop", "what"), [(list, "iterable"), (reversed, "reversible")])
def test_it_has_no_loop_over_its_keys(cubins: Any, loop: Any, what: str) -> None:
    """As cuda.core's have none, of which the one behind may be."""
    cache = cubins.cache()
    assert not isinstance(cache, Iterable)
    with pytest.raises(TypeError, match=f"^'BundleCache' object is not {what}$"):
        loop(cache)


def test_closing_leaves_the_cache_behind_to_its_owner(cubins: Any) -> None:
    from cuda.core.utils import InMemoryProgramCache

    class Tracked(InMemoryProgramCache):  # type: ignore[misc]
        closed = False

        def close(self) -> None:
            self.closed = True

    then = Tracked()
    with cubins.cache(then=then):
        pass
    assert not then.closed


def test_code_of_a_file_goes_behind_as_bytes(cubins: Any, tmp_path: Path) -> None:
    from cuda.core import ObjectCode
    from cuda.core.utils import FileStreamProgramCache

    file = tmp_path / "compiled.cubin"
    file.write_bytes(b"compiled")
    with FileStreamProgramCache(tmp_path / "cache") as then:
        cubins.cache(then=then)["new"] = ObjectCode.from_cubin(str(file))
        file.unlink()
        assert (cubins.cache(then=then)[b"new"], len(then)) == (b"compiled", 1)


@pytest.mark.parametrize("kind", ["in memory", "in files"])
def test_what_is_stored_behind_is_there_under_each_spelling_until_it_is_replaced(
    cubins: Any, tmp_path: Path, kind: str
) -> None:
    from cuda.core import ObjectCode
    from cuda.core.utils import FileStreamProgramCache, InMemoryProgramCache

    then = InMemoryProgramCache() if kind == "in memory" else FileStreamProgramCache(tmp_path / "cache")
    cache, long = cubins.cache(then=then), "y" * 4096
    for code in (b"first", b"second"):
        for key in ("new", long):
            cache[key] = ObjectCode.from_cubin(code)
        assert [cache["new"], cache[b"new"], cache.get(long)] == [code] * 3
    assert (len(then), len(cache)) == (2, 2)  # what is behind is not counted
    del then["new"]
    assert (cache.get(b"new"), cache.get(long.encode())) == (None, b"second")
    again = then if kind == "in memory" else FileStreamProgramCache(tmp_path / "cache")
    assert cubins.cache(then=again)[long] == b"second"


def test_code_of_a_file_that_is_gone_is_the_error_of_the_cache_behind(cubins: Any, tmp_path: Path) -> None:
    from cuda.core import ObjectCode
    from cuda.core.utils import InMemoryProgramCache

    gone = str(tmp_path / "gone.cubin")
    with pytest.raises(FileNotFoundError, match="path-backed ObjectCode") as caught:
        cubins.cache(then=InMemoryProgramCache())["new"] = ObjectCode.from_cubin(gone)
    assert gone in str(caught.value)


def test_the_cache_behind_is_asked_the_way_it_was_asked_for(cubins: Any) -> None:
    """A cache may do in get() what it does not do in [], as one that counts hits, or asks a server."""
    then = behind()
    then.get = lambda key, default=None: (key, default)
    cache = cubins.cache(then=then)
    assert cache.get(b"new") == (b"new", None)
    assert cache.get("new", default=b"other") == ("new", b"other")
    assert (refusal(KeyError, lambda: cache[b"new"]).args, then.asked) == ((b"new",), 1)


def test_a_failure_to_read_behind_comes_out(cubins: Any) -> None:
    def fail(_key: object, _default: object = None) -> None:
        raise RuntimeError("no network")

    then = behind()
    then.get = fail
    for ask in (lambda cache: cache.get(b"new"), lambda cache: b"new" in cache):
        with pytest.raises(RuntimeError, match="no network"):
            ask(cubins.cache(then=then))
    assert cubins.cache(then=then).get(KEY) == CUBIN


# --- through Program.compile ---------------------------------------------------------------------


def behind(failure: Exception | None = None) -> Any:
    """Return a cache to put behind, that counts, and that may fail to write."""
    from cuda.core.utils import InMemoryProgramCache

    class Counting(InMemoryProgramCache):  # type: ignore[misc]
        asked = stored = 0

        def __getitem__(self, key: bytes) -> Any:
            self.asked += 1
            return super().__getitem__(key)

        def __setitem__(self, key: bytes, value: Any) -> None:
            self.stored += 1
            if failure:
                raise failure
            super().__setitem__(key, value)

    return Counting()


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Any:
    root = tmp_path_factory.mktemp("built")
    project = make_project(
        root, {"saxpy.cu": SAXPY}, 'archs = ["sm_90"]', HATCH_CUBIN_CACHE_DIR=str(root / "cache")
    )
    return load_bundle(root / "bundle", pipeline.build(project))


def program(code: str = SAXPY, **options: Any) -> Any:
    from cuda.core import Program, ProgramOptions

    return Program(code, "c++", ProgramOptions(**{"arch": "sm_90", **options}))


@pytest.mark.nvrtc
@pytest.mark.parametrize("expressions", [(), []])
def test_a_hit_is_object_code_of_the_kind_that_was_asked_for(built: Any, expressions: Any) -> None:
    then = behind()
    code = program().compile("cubin", name_expressions=expressions, cache=built.cache(then=then))
    file = Path(built._HERE) / "saxpy.sm_90.cubin"
    assert (code.code_type, bytes(code.code)) == ("cubin", file.read_bytes())
    assert (then.asked, then.stored) == (0, 0)


@pytest.mark.nvrtc
def test_a_miss_asks_behind_once_and_stores_once(built: Any) -> None:
    then = behind()
    compiled = [program(lineinfo=True).compile("cubin", cache=built.cache(then=then)) for _ in range(2)]
    assert bytes(compiled[0].code) == bytes(compiled[1].code)
    assert (then.asked, then.stored, len(then)) == (2, 1, 1)


@pytest.mark.nvrtc
def test_a_failure_to_write_behind_comes_out(built: Any) -> None:
    with pytest.raises(RuntimeError, match="disk full"):
        program(lineinfo=True).compile("cubin", cache=built.cache(then=behind(RuntimeError("disk full"))))


@pytest.mark.nvrtc
def test_damage_comes_out_and_is_not_compiled_away(built: Any, tmp_path: Path) -> None:
    files = {path.name: path.read_bytes() for path in Path(built._HERE).iterdir() if path.is_file()}
    damaged = load_bundle(tmp_path, {**files, "saxpy.sm_90.cubin": b"damaged"})
    then = behind()
    with pytest.raises(damaged.CubinDamagedError):
        program().compile("cubin", cache=damaged.cache(then=then))
    assert (then.asked, then.stored) == (0, 0)
