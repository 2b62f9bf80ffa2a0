"""What stands where a file of the bundle belongs: known before it is opened, and told as what it is."""

from __future__ import annotations

import errno
import gc
import os
import stat
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from tests.helpers import bundle, load_bundle, made, refusal, write_tree

FILES = bundle(made("k"))
CUBIN = "k.sm_90.cubin"
READERS = {
    "manifest.json": "cubins.names()",
    "keys.json": "cubins._part('_loading')._read_keys(cubins._HERE)",
    CUBIN: "cubins.read('k', cc=(9, 0))",
}


def link(to: str) -> Callable[[Path], None]:
    return lambda path: path.symlink_to(to)


def linked_pipe(path: Path) -> None:
    os.mkfifo(path.parent.parent / "pipe")
    path.symlink_to("../pipe")


NO_PLAIN_FILE: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "link to a pipe": linked_pipe,
    "link to zeros": link("/dev/zero"),
    "link to a terminal": link("/dev/ptmx"),
    "socket": lambda path: os.mknod(path, stat.S_IFSOCK),
    "folder": Path.mkdir,
}


def ask(package: Path, code: str) -> str:
    """Run *code* in a process with little memory, which must end, and return what it printed."""
    # A Python without a GIL reserves 1 GiB at the start.
    first = "import os, resource; resource.setrlimit(resource.RLIMIT_AS, (5 << 28, 5 << 28))"
    done = subprocess.run(
        [sys.executable, "-c", f"{first}\nfrom pkg import _cubins as cubins\n{code}"],
        cwd=package.parent,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,  # a hang is a failure
    )
    assert not done.returncode, done.stderr
    return done.stdout.strip()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    return write_tree(
        tmp_path / "pkg", {"__init__.py": "", **{f"_cubins/{name}": data for name, data in FILES.items()}}
    )


@pytest.mark.linux
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", NO_PLAIN_FILE)
def test_what_is_no_plain_file_is_damage_and_never_opened(package: Path, name: str, kind: str) -> None:
    path = package / "_cubins" / name
    path.unlink()
    NO_PLAIN_FILE[kind](path)
    code = f"try: {READERS[name]}\nexcept cubins.CubinDamagedError as exc: print(exc)"
    said = f"{path} is damaged: it cannot be read (not a plain file); reinstall the package"
    assert said in ask(package, code)


def system(**instead: Callable[..., Any]) -> types.SimpleNamespace:
    """Return `os` with some calls replaced, for one module to use."""
    return types.SimpleNamespace(**{**vars(os), **instead})


def spoiled(cubins: Any, name: str) -> str:
    """Return what the reader of that file says of it."""
    return str(refusal(cubins.CubinDamagedError, eval, READERS[name], {"cubins": cubins}))


@pytest.mark.parametrize("name", READERS)
def test_a_link_that_leads_nowhere_says_so(tmp_path: Path, name: str) -> None:
    cubins = load_bundle(tmp_path, FILES)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to(name)
    assert f"{name} is damaged: it cannot be read ({os.strerror(errno.ELOOP)}); " in spoiled(cubins, name)


def test_what_has_another_size_is_not_even_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    cubins.names()
    monkeypatch.setattr(cubins, "_opened", None)
    os.truncate(tmp_path / CUBIN, 1 << 32)
    assert f"{CUBIN} is damaged: it has 4294967296 bytes, more than 11;" in spoiled(cubins, CUBIN)


@pytest.mark.parametrize("name", ["manifest.json", "keys.json"])
def test_an_index_of_endless_zeros_is_not_even_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "_opened", None)
    os.truncate(tmp_path / name, 1 << 32)
    assert f"{name} is damaged: it has 4294967296 bytes, more than 33554432; " in spoiled(cubins, name)


@pytest.mark.parametrize("name", READERS)
def test_what_says_that_it_is_empty_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Such files of /proc and /sys wait until there is something to say."""
    cubins = load_bundle(tmp_path, FILES)
    if name == CUBIN:
        cubins.names()
    monkeypatch.setattr(cubins, "_opened", None)
    (tmp_path / name).write_bytes(b"")
    assert f"{name} is damaged: " in spoiled(cubins, name)


def test_of_what_grows_meanwhile_no_more_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins, read = load_bundle(tmp_path, FILES), list[int]()
    sha256 = cubins._sha256

    def watched(data: bytes) -> str:
        read.append(len(data))
        digest: str = sha256(data)
        return digest

    assert cubins.find("k", cc=(9, 0)).size == 11
    monkeypatch.setattr(cubins, "_plain_size", lambda _path: 11)
    monkeypatch.setattr(cubins, "_sha256", watched)
    (tmp_path / CUBIN).write_bytes(FILES[CUBIN] + bytes(1000))
    assert f"{CUBIN} is damaged: its digest is " in spoiled(cubins, CUBIN)
    assert read == [12]


def test_what_comes_in_pieces_is_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As of more than 2 GiB on Linux."""
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "os", system(read=lambda descriptor, size: os.read(descriptor, min(size, 4))))
    assert cubins.read("k", cc=(9, 0)) == FILES[CUBIN]


def test_what_shrinks_meanwhile_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    assert cubins.find("k", cc=(9, 0)).size == 11
    monkeypatch.setattr(cubins, "_plain_size", lambda _path: 11)
    (tmp_path / CUBIN).write_bytes(FILES[CUBIN][:-1])
    assert f"{CUBIN} is damaged: its digest is " in spoiled(cubins, CUBIN)


def test_every_descriptor_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins, still_open = load_bundle(tmp_path, FILES), set[int]()
    opened = cubins._opened

    def watched(path: str) -> int:
        descriptor: int = opened(path)
        still_open.add(descriptor)
        return descriptor

    def close(descriptor: int) -> None:
        still_open.remove(descriptor)
        os.close(descriptor)

    monkeypatch.setattr(cubins, "_opened", watched)
    monkeypatch.setattr(cubins, "os", system(close=close))
    monkeypatch.setattr(cubins._part("_large"), "os", system(close=close))
    cubins._part("_loading")._read_keys(cubins._HERE)
    for mapped in (1 << 20, 0):
        monkeypatch.setattr(cubins, "_READ_WHOLE", mapped)
        cubins.use(tmp_path).close()
    cubins.read("k", cc=(9, 0))
    (tmp_path / CUBIN).write_bytes(b"damaged now")
    spoiled(cubins, CUBIN)
    cubins._own.clear()  # a large manifest stays open for as long as it is used
    gc.collect()
    assert still_open == set()


def test_a_path_that_cannot_be_is_told(tmp_path: Path) -> None:
    cubins = load_bundle(tmp_path, FILES)
    with pytest.raises(
        cubins.CubinError, match=r"use\(\) takes the folder of a bundle, but .* is not a folder"
    ):
        cubins.use("a\0b")


# --- faults of the system, which say nothing about the package --------------------------------------

FAULTS = (errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EPERM, errno.EIO, errno.ENOMEM, errno.ESTALE)
AT_FAULT = "the system is at fault, not the package"


def failing(number: int) -> Callable[..., Any]:
    def fail(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize("number", FAULTS, ids=errno.errorcode.get)
@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("mapped", [False, True], ids=["read", "mapped"])
def test_a_fault_of_the_system_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int, *, mapped: bool
) -> None:
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "_READ_WHOLE", 0 if mapped else 1 << 20)
    if name == CUBIN:
        cubins.names()
    monkeypatch.setattr(cubins, "_opened", failing(number))
    error = refusal(cubins.CubinError, eval, READERS[name], {"cubins": cubins})
    said = f"{tmp_path / name} cannot be read: {os.strerror(number)}; {AT_FAULT}"
    assert str(error).removesuffix(f" (bundle of hatch-cubin {__version__})") == f"{cubins.__name__}: {said}"
    assert type(error) is cubins.CubinError
    assert isinstance(error.__cause__, OSError)
    monkeypatch.undo()
    eval(READERS[name], {"cubins": cubins})  # noqa: S307


def test_a_disk_that_fails_while_it_is_read_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    cubins.names()
    monkeypatch.setattr(cubins, "os", system(read=failing(errno.EIO)))
    with pytest.raises(
        cubins.CubinError, match=r"k\.sm_90\.cubin cannot be read: Input/output error; the system"
    ):
        cubins.read("k", cc=(9, 0))


def test_a_folder_that_may_not_be_searched_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "_plain_size", failing(errno.EACCES))
    with pytest.raises(
        cubins.CubinError, match=r"manifest\.json cannot be read: Permission denied; the system"
    ):
        cubins.names()


EXHAUSTED = """
import hashlib, resource
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
{before}
held = []
try:
    while True: held.append(os.open(os.devnull, os.O_RDONLY))
except OSError: pass
try: cubins.read('k', cc=(9, 0))
except cubins.CubinError as exc: said = type(exc).__name__, str(exc)
for each in held: os.close(each)
print(*said)
print(cubins.read('k', cc=(9, 0)))
"""


@pytest.mark.linux
@pytest.mark.parametrize(("before", "name"), [("", "manifest.json"), ("cubins.names()", CUBIN)])
def test_a_process_without_descriptors_is_told_and_reads_once_it_has_some(
    package: Path, before: str, name: str
) -> None:
    said, read = ask(package, EXHAUSTED.format(before=before)).splitlines()
    assert said.startswith("CubinError pkg._cubins: ")
    fault = f"cannot be read: Too many open files; {AT_FAULT}"
    assert f"{package / '_cubins' / name} {fault}" in said
    assert read == repr(FILES[CUBIN])


@pytest.mark.parametrize(
    ("raised", "kind", "reason"),
    [
        (OSError(errno.EMFILE, "Too many open files"), "CubinError", "cannot be read: Too many open files;"),
        (OSError(0, "", "manifest.json"), "CubinDamagedError", "(No such file or directory)"),
        (AttributeError("get_data"), "CubinDamagedError", "(No such file or directory)"),
        (OSError("zipimport: can't read data"), "CubinDamagedError", "(zipimport: can't read data)"),
        (ImportError("bad local file header"), "CubinDamagedError", "(bad local file header)"),
        (EOFError(), "CubinDamagedError", "(EOFError())"),
    ],
    ids=["fault", "not in the archive", "no importer of data", "cut off", "not a member", "without words"],
)
def test_what_an_importer_cannot_give_is_told_as_of_a_file(
    tmp_path: Path, raised: Exception, kind: str, reason: str
) -> None:
    cubins: Any = load_bundle(tmp_path, {})

    class Importer:
        def get_data(self, _path: str) -> bytes:
            raise raised

    cubins.__spec__.loader = Importer()
    error = refusal(cubins.CubinError, cubins.names)
    assert type(error).__name__ == kind
    assert reason in str(error)
