"""Looking elsewhere, for tests and debugging: another bundle, or code that was just compiled."""

from __future__ import annotations

import itertools
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import bundle, load_bundle, made, refusal, run_threads, sha256, write_tree

OWN = bundle(made("k"), made("other"), made("red", kernels={"reduce": "r"}, variant={"N": "1"}))


@pytest.fixture
def cubins(tmp_path: Path) -> Any:
    return load_bundle(tmp_path / "own", OWN)


@pytest.fixture
def elsewhere(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "elsewhere", bundle(made("k", data=b"theirs"), made("more")))


def seen(cubins: Any) -> tuple[bytes, tuple[str, ...]]:
    return cubins.read("k", cc=(9, 0)), cubins.names()


MINE, YOURS = b".version 8.0\n.entry k(", b".version 9.0\n.visible .entry more {"
IN_OWN = (b"k for sm_90", ("k", "other", "reduce"))
IN_ELSEWHERE = (b"theirs", ("k", "more"))


@pytest.mark.parametrize("kind", [str, Path])
def test_another_bundle_is_looked_in_until_the_block_ends(cubins: Any, elsewhere: Path, kind: Any) -> None:
    entry = cubins.find("k", cc=(9, 0))
    with cubins.use(kind(elsewhere)):
        assert seen(cubins) == IN_ELSEWHERE
        assert cubins.find("k", cc=(9, 0)).path == str(elsewhere / "k.sm_90.cubin")
    assert seen(cubins) == IN_OWN
    assert cubins.find("k", cc=(9, 0)) is entry


def test_it_holds_until_it_is_closed(cubins: Any, elsewhere: Path) -> None:
    used = cubins.use(elsewhere)
    assert seen(cubins) == IN_ELSEWHERE
    used.close()
    used.close()
    assert seen(cubins) == IN_OWN


def test_an_error_in_the_block_restores_too(cubins: Any, elsewhere: Path) -> None:
    with pytest.raises(ZeroDivisionError), cubins.use(elsewhere):
        raise ZeroDivisionError
    assert seen(cubins) == IN_OWN


def test_none_is_the_packages_own(cubins: Any, elsewhere: Path) -> None:
    with cubins.use(elsewhere):
        with cubins.use(None):
            assert seen(cubins) == IN_OWN
        assert seen(cubins) == IN_ELSEWHERE


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_each_undoes_itself_alone_in_any_order(cubins: Any, elsewhere: Path, order: tuple[int, ...]) -> None:
    used = [cubins.use(elsewhere), cubins.use(None), cubins.use({"k": MINE})]
    top = [IN_ELSEWHERE[0], IN_OWN[0], MINE]
    left = [0, 1, 2]
    for number in order:
        used[number].close()
        left.remove(number)
        assert cubins.read("k", cc=(9, 0)) == (top[left[-1]] if left else IN_OWN[0])


@pytest.mark.parametrize(
    ("name", "module"),
    [
        pytest.param("k", "k", id="a module"),
        pytest.param("reduce", "red[N=1]", id="a kernel"),
        pytest.param("red[N=1]", "red[N=1]", id="a variant"),
    ],
)
@pytest.mark.parametrize(
    ("start", "kind"), [(b"\x7fELF fresh\0.text.", "cubin"), (b".version 8.0\n.entry ", "ptx")]
)
def test_fresh_code_stands_in_for_a_module_on_any_device(
    cubins: Any, name: str, module: str, start: bytes, kind: str
) -> None:
    data = start + {"k": b"k", "red[N=1]": b"r"}[module] + b"\0" * (kind == "cubin")
    with cubins.use({name: data}):
        for cc in ((5, 0), (9, 0)):
            entry = cubins.find(module, cc=cc)
            assert (entry.module, entry.kind, entry.sha256, entry.size) == (
                module,
                kind,
                sha256(data),
                len(data),
            )
            assert (entry.arch, entry.path, entry.rule) == ("", "", "given to use()")
            assert cubins.read(module, cc=cc) == data
        assert cubins.read("other", cc=(9, 0)) == b"other for sm_90"
    assert cubins.find(module, cc=(9, 0)).arch == "sm_90"


def test_what_cuda_core_compiled_is_taken_as_it_is(cubins: Any) -> None:
    class ObjectCode:
        code = bytearray(b"\x7fELF compiled\0.text.k\0")

    with cubins.use({"k": ObjectCode()}):
        assert cubins.read("k", cc=(9, 0)) == b"\x7fELF compiled\0.text.k\0"


def test_what_cuda_core_has_in_a_file_is_read_at_once(cubins: Any, tmp_path: Path) -> None:
    core = pytest.importorskip("cuda.core")
    file = tmp_path / "fresh.cubin"
    file.write_bytes(b"\x7fELF in a file\0.text.k\0")
    with cubins.use({"k": core.ObjectCode.from_cubin(str(file))}):
        file.unlink()
        assert cubins.read("k", cc=(9, 0)) == b"\x7fELF in a file\0.text.k\0"


@pytest.mark.linux
def test_code_in_a_pipe_is_not_waited_for(cubins: Any, tmp_path: Path) -> None:
    core = pytest.importorskip("cuda.core")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=f": the code for 'k' cannot be read from {pipe}: not a plain file "):
        cubins.use({"k": core.ObjectCode.from_cubin(str(pipe))})
    assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"


def test_a_cache_gives_what_stood_in_when_it_was_made(cubins: Any, elsewhere: Path) -> None:
    pytest.importorskip("cuda.core.utils")
    key = sha256(b"k for sm_90")
    own = cubins.cache()
    with cubins.use({"k": MINE}):
        over = cubins.cache()
    with cubins.use(elsewhere):
        theirs = cubins.cache()
    other = sha256(b"other for sm_90")
    assert [cache.get(key) for cache in (own, over, theirs)] == [b"k for sm_90", MINE, b"theirs"]
    assert [cache.get(other) for cache in (own, over, theirs)] == [b"other for sm_90"] * 2 + [None]


def test_fresh_code_adds_to_what_is_there(cubins: Any, elsewhere: Path) -> None:
    with cubins.use(elsewhere), cubins.use({"k": MINE}), cubins.use({"more": YOURS}):
        assert (cubins.read("k", cc=(9, 0)), cubins.read("more", cc=(9, 0))) == (MINE, YOURS)


def test_a_name_that_is_not_there_changes_nothing(cubins: Any) -> None:
    with pytest.raises(cubins.CubinNotFoundError):
        cubins.use({"k": MINE, "nothing": YOURS})
    assert seen(cubins) == IN_OWN


CUT = b"\x7fELF".ljust(32, b"\0") + (9000).to_bytes(8, "little") + b"\0.text.k\0" + b"\0" * 20


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"k",
        b'extern "C" __global__ void k() {}',
        b".version 8.0\n.entry kernel(",
        b"\x7fELF\0.text.kernel\0",
        pytest.param(CUT, id="a cubin without its end"),
    ],
)
def test_only_code_with_the_kernel_stands_in(cubins: Any, text: bytes) -> None:
    said = str(refusal(ValueError, cubins.use, {"k": text}))
    assert "the code for 'k' must be a whole cubin or PTX that defines k" in said
    assert seen(cubins) == IN_OWN


NO_FOLDER = "is not a folder (hatch-cubin unpack WHEEL --into DIR writes one)"
NOT_A_BUNDLE = {
    "nothing": f"nothing {NO_FOLDER}",
    "~/nothing": f"~/nothing {NO_FOLDER}",
    "wheel.whl": f"wheel.whl {NO_FOLDER}",
    "package": "package has no manifest.json; a package has its bundle in _cubins",
    "empty": "empty has no manifest.json; a package has its bundle in _cubins",
    "with a wheel": "with a wheel has no manifest.json; a package has its bundle in _cubins",
    "": " has no manifest.json; a package has its bundle in _cubins",
}


class BytesPath:
    def __init__(self, path: str) -> None:
        self.path = path

    def __fspath__(self) -> bytes:
        return os.fsencode(self.path)


@pytest.mark.parametrize("path", NOT_A_BUNDLE)
@pytest.mark.parametrize("kind", [str, Path, BytesPath])
def test_what_is_not_a_bundle_is_said_to_be_that(
    cubins: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: Any, path: str
) -> None:
    there = {"wheel.whl": b"", "package/_cubins/manifest.json": b"", "with a wheel/wheel.whl": b""}
    write_tree(tmp_path, there)
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    error = refusal(cubins.CubinError, cubins.use, kind(path))
    assert type(error) is cubins.CubinError
    said = f": use() takes the folder of a bundle, but {os.path.join(tmp_path, NOT_A_BUNDLE[path])}"
    assert said.replace("/ has", " has") in str(error)
    assert seen(cubins) == IN_OWN


def test_a_path_as_bytes_is_not_taken(cubins: Any, elsewhere: Path) -> None:
    with pytest.raises(
        TypeError, match=r"use\(\) takes a bundle's folder, a mapping of names to code, or None"
    ):
        cubins.use(os.fsencode(elsewhere))


def test_a_relative_path_is_of_the_folder_that_was_current(
    cubins: Any, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(elsewhere.parent)
    with cubins.use(BytesPath(elsewhere.name)):
        monkeypatch.chdir("/")
        assert seen(cubins) == IN_ELSEWHERE


def test_a_file_of_fresh_code_that_is_gone_is_named(cubins: Any, tmp_path: Path) -> None:
    class ObjectCode:
        code = str(tmp_path / "gone.cubin")

    with pytest.raises(ValueError, match=rf"'k' cannot be read from {ObjectCode.code}: {os.strerror(2)} "):
        cubins.use({"k": ObjectCode()})


def test_damage_elsewhere_names_the_file_there(cubins: Any, elsewhere: Path) -> None:
    (elsewhere / "manifest.json").write_bytes(b"")
    with pytest.raises(cubins.CubinDamagedError) as caught:
        cubins.use(elsewhere)
    assert f"{elsewhere / 'manifest.json'} is damaged" in str(caught.value)


def test_a_bundle_that_changed_is_read_anew(cubins: Any, elsewhere: Path) -> None:
    for data in (b"first", b"second"):
        write_tree(elsewhere, bundle(made("k", data=data)))
        with cubins.use(elsewhere):
            assert cubins.read("k", cc=(9, 0)) == data


def test_threads_see_one_or_the_other_and_at_the_end_their_own(cubins: Any, elsewhere: Path) -> None:
    barrier, wrong = threading.Barrier(6), []

    def work(number: int) -> None:
        barrier.wait()
        for _ in range(200):
            if number % 2:
                with cubins.use(elsewhere if number > 2 else {"k": MINE}):
                    data = cubins.read("k", cc=(9, 0))
            else:
                data = cubins.read("k", cc=(9, 0))
            if data not in (b"theirs", MINE, b"k for sm_90"):
                wrong.append(data)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    run_threads(threads)
    assert wrong == []
    assert seen(cubins) == IN_OWN
