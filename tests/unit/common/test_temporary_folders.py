"""Temporary folders: gone with their process, however that ends."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hatch_cubin.common import temporary_folders
from hatch_cubin.common.file_lock import FileLock, try_lock
from hatch_cubin.errors import BundleError
from tests.helpers import run

pytestmark = pytest.mark.counted

A_DAY_S = 86_400


@pytest.fixture(autouse=True)
def place(temporary: Path) -> Path:
    """Where the system wants what is temporary."""
    return temporary


def names(folder: Path) -> list[str]:
    return sorted(os.listdir(folder))


def left(place: Path, name: str = "hatch-cubin-leftover.held", age_s: float = 0) -> Path:
    """Make a folder as a process that was killed leaves it, so long ago."""
    folder = place / name
    (folder / "some").mkdir(parents=True)
    (folder / "some" / "file").write_text("")
    then = time.time() - age_s
    os.utime(folder, (then, then))
    return folder


# --- made and closed --------------------------------------------------------------------------------


def test_a_folder_goes_with_all_that_is_in_it_when_it_is_closed(place: Path) -> None:
    with temporary_folders.make() as folder:
        (folder / "some").mkdir()
        (folder / "some" / "file").write_text("")
        assert names(place) == [folder.name]
        assert (folder.parent, stat.S_IMODE(folder.stat().st_mode)) == (place, 0o700)
    assert names(place) == []


def test_to_close_a_folder_twice_is_no_error(place: Path) -> None:
    folder = temporary_folders.make()
    folder.close()
    folder.close()
    assert names(place) == []


def test_no_place_for_a_folder_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def mkdtemp(**_options: object) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(tempfile, "mkdtemp", mkdtemp)
    with pytest.raises(BundleError) as caught:
        temporary_folders.make()
    assert str(caught.value) == "temporary files cannot be written: No space left on device"


@pytest.mark.linux
@pytest.mark.parametrize("faster", ["locks", "removes"])
def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(
    place: Path, monkeypatch: pytest.MonkeyPatch, faster: str
) -> None:
    def sweep_first(folder: Path) -> FileLock | None:
        if swept:
            return try_lock(folder)
        folder.rmdir()
        swept.append(folder.name)
        return None if faster == "locks" else FileLock(None)

    swept: list[str] = []
    monkeypatch.setattr(temporary_folders, "try_lock", sweep_first)
    with temporary_folders.make_in(place) as folder:
        assert names(place) == [folder.name]
    assert len(swept) == 1


# --- ended by a signal ------------------------------------------------------------------------------

MADE = """\
import os, signal, threading
from hatch_cubin.common import temporary_folders
folder = temporary_folders.make()
(folder.path / "file").write_text("")
end = lambda name: os.kill(os.getpid(), getattr(signal, name))
"""
ENDINGS = pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])


@pytest.mark.linux
@ENDINGS
def test_a_signal_that_ends_the_process_removes_its_folders_first(place: Path, name: str) -> None:
    code = f"{MADE}temporary_folders.make()\nend({name!r})\nprint('went on')"
    done = run(sys.executable, "-c", code, cwd=place, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-getattr(signal, name), "", "")
    assert names(place) == []


@pytest.mark.linux
@ENDINGS
def test_a_hosts_own_handler_is_left_to_it(place: Path, name: str) -> None:
    own = f"import signal\nsignal.signal(signal.{name}, lambda *_: print('mine', flush=True))\n"
    done = run(sys.executable, "-c", f"{own}{MADE}end({name!r})\nfolder.close()\nend({name!r})", cwd=place)
    assert (done.stdout, names(place)) == ("mine\nmine\n", [])


@pytest.mark.linux
@ENDINGS
def test_a_handler_that_the_host_sets_meanwhile_stays(place: Path, name: str) -> None:
    own = f"before = signal.signal(signal.{name}, lambda *_: print('mine', flush=True))\n"
    after = f"folder.close()\nend({name!r})\nsignal.signal(signal.{name}, before)\nend({name!r})"
    done = run(sys.executable, "-c", MADE + own + after, cwd=place, check=False)
    assert (done.stdout, done.returncode, names(place)) == ("mine\n", -getattr(signal, name), [])


@pytest.mark.linux
def test_a_hangup_that_is_ignored_stays_ignored(place: Path) -> None:
    ignored = "import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
    code = f"{ignored}{MADE}end('SIGHUP')\nprint(len(os.listdir(folder.path)))\nfolder.close()"
    assert run(sys.executable, "-c", code, cwd=place).stdout == "1\n"


@pytest.fixture
def _nothing_open(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process have no folder, whatever stands in for a home in it."""
    monkeypatch.setattr(temporary_folders, "_open", set())
    before = {number: signal.signal(number, signal.SIG_DFL) for number in temporary_folders._ENDINGS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.linux
@pytest.mark.usefixtures("_nothing_open")
def test_with_the_last_folder_the_handlers_go() -> None:
    before = [signal.getsignal(number) for number in temporary_folders._ENDINGS]
    assert before == [signal.SIG_DFL, signal.SIG_DFL]
    with temporary_folders.make():
        with temporary_folders.make():
            pass
        assert [signal.getsignal(number) for number in temporary_folders._ENDINGS] == [
            temporary_folders._end
        ] * 2
    assert [signal.getsignal(number) for number in temporary_folders._ENDINGS] == before


@pytest.mark.linux
def test_the_process_ends_as_if_nobody_had_answered(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[int, int, object]] = []
    monkeypatch.setattr(
        os, "kill", lambda process, number: sent.append((process, number, signal.getsignal(number)))
    )
    monkeypatch.setattr(os, "_exit", lambda _status: None)
    temporary_folders.make()
    signal.raise_signal(signal.SIGHUP)
    assert sent == [(os.getpid(), signal.SIGHUP, signal.SIG_DFL)]
    assert names(place) == []


@pytest.mark.linux
@ENDINGS
def test_a_process_that_no_signal_ends_by_default_ends_all_the_same(place: Path, name: str) -> None:
    """Such is the first process of a container."""
    code = f"{MADE}os.kill = lambda *_: None\nsignal.raise_signal(signal.{name})\nprint('went on')"
    done = run(sys.executable, "-c", code, cwd=place, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (128 + getattr(signal, name), "", "")
    assert names(place) == []


@pytest.mark.linux
def test_in_a_thread_there_are_no_handlers(place: Path) -> None:
    def make_and_look() -> None:
        with temporary_folders.make() as folder:
            seen.append((names(place) == [folder.name], signal.getsignal(signal.SIGTERM)))

    seen: list[object] = []
    thread = threading.Thread(target=make_and_look)
    thread.start()
    thread.join()
    assert seen == [(True, signal.SIG_DFL)]
    assert names(place) == []


def test_only_its_maker_removes_a_folder(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary_folders.make() as folder:
        with monkeypatch.context() as other:
            other.setattr(os, "getpid", lambda: -1)
            for each in temporary_folders._open:
                each.close()
        assert names(place) == [folder.name]


@pytest.mark.linux
def test_a_process_that_was_forked_off_leaves_the_folder_alone(place: Path) -> None:
    code = (
        f"{MADE}child = os.fork()\n"
        "if not child:\n    folder.close()\n    end('SIGTERM')\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), len(os.listdir(folder.path)))\n"
        "folder.close()"
    )
    assert run(sys.executable, "-c", code, cwd=place).stdout == "-15 1\n"
    assert names(place) == []


@pytest.mark.linux
def test_a_process_that_was_forked_off_has_neither_folders_nor_handlers(place: Path) -> None:
    handlers = "[signal.getsignal(number).name for number in temporary_folders._ENDINGS]"
    look = f"len(temporary_folders._open), {handlers}"
    code = (
        f"{MADE}child = os.fork()\nif not child:\n    print({look}, flush=True)\n    os._exit(0)\n"
        "os.waitpid(child, 0)\nprint(len(temporary_folders._open), flush=True)\nend('SIGTERM')"
    )
    done = run(sys.executable, "-c", code, cwd=place, check=False)
    assert (done.stdout, done.returncode) == ("0 ['SIG_DFL', 'SIG_DFL']\n1\n", -signal.SIGTERM)
    assert names(place) == []


@pytest.mark.linux
def test_a_last_folder_that_a_thread_closes_leaves_a_process_that_signals_end(place: Path) -> None:
    code = (
        f"{MADE}thread = threading.Thread(target=folder.close)\nthread.start()\nthread.join()\nend('SIGTERM')"
    )
    done = run(sys.executable, "-c", code, cwd=place, check=False)
    assert (done.returncode, done.stderr, names(place)) == (-signal.SIGTERM, "", [])


# --- killed, and swept ------------------------------------------------------------------------------


@pytest.fixture
def living(place: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that has a folder, and that can be killed."""
    code = f"{MADE}print(folder.path.name, flush=True)\ninput()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=place
    )
    with process:
        yield process
        process.kill()


@pytest.mark.linux
def test_what_a_killed_process_left_is_swept_and_what_a_living_one_has_is_not(
    place: Path, living: subprocess.Popen[str]
) -> None:
    assert living.stdout is not None
    name = living.stdout.readline().strip()
    with temporary_folders.make() as own:
        temporary_folders.sweep(place)
        assert names(place) == sorted([own.name, name])
        living.kill()
        living.wait()
        assert names(place) == sorted([own.name, name])
        temporary_folders.sweep(place)
        assert names(place) == [own.name]


@pytest.mark.linux
def test_nothing_is_swept_but_folders_that_are_named_so(place: Path) -> None:
    spared = [
        "hatch-cubin",
        "hatch-cubin-checkout",
        "hatch-cubin-checkout.held.d",
        "xhatch-cubin-12345678.held",
    ]
    for name in spared:
        left(place, name, age_s=2 * A_DAY_S)
    (place / "hatch-cubin-anyfile_.held").write_text("")
    os.mkfifo(place / "hatch-cubin-anypipe_.held")
    left(place)
    temporary_folders.sweep(place)
    assert names(place) == sorted([*spared, "hatch-cubin-anyfile_.held", "hatch-cubin-anypipe_.held"])


@pytest.mark.linux
def test_no_link_is_followed(place: Path, tmp_path: Path) -> None:
    elsewhere = left(tmp_path, "elsewhere")
    (place / "hatch-cubin-alinked_.held").symlink_to(elsewhere)
    (left(place) / "link").symlink_to(elsewhere)
    temporary_folders.sweep(place)
    assert names(place) == ["hatch-cubin-alinked_.held"]
    assert names(elsewhere / "some") == ["file"]


@pytest.mark.linux
def test_what_another_user_left_is_theirs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, theirs = left(place), os.geteuid() + 1
    monkeypatch.setattr(os, "geteuid", lambda: theirs)
    temporary_folders.sweep(place)
    assert names(place) == [folder.name]


def test_where_there_are_no_locks_age_decides(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    monkeypatch.delattr(os, "geteuid", raising=False)
    monkeypatch.setattr(temporary_folders, "_user", lambda: place.stat().st_uid)
    left(place, "hatch-cubin-of_today.tmp", age_s=A_DAY_S / 2)
    left(place, "hatch-cubin-too_old_.tmp", age_s=A_DAY_S * 2)
    left(
        place, "hatch-cubin-nolocks_.held", age_s=A_DAY_S * 2
    )  # of a process that has locks: perhaps it lives
    with temporary_folders.make() as own:
        temporary_folders.sweep(place)
        assert names(place) == sorted([own.name, "hatch-cubin-nolocks_.held", "hatch-cubin-of_today.tmp"])
        assert own.suffix == ".tmp"


@pytest.mark.linux
def test_a_folder_that_could_not_be_locked_is_not_swept_by_who_can(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "fcntl", None)
        folder = temporary_folders.make()
    temporary_folders.sweep(place)
    assert names(place) == [folder.path.name]
    folder.close()


def test_windows_has_one_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "geteuid", raising=False)
    assert temporary_folders._user() == 0


def test_a_place_that_is_not_there_has_nothing_to_sweep(tmp_path: Path) -> None:
    temporary_folders.sweep(tmp_path / "gone")


@pytest.mark.linux
def test_what_goes_while_it_is_looked_at_is_no_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = left(place)
    monkeypatch.setattr(os, "listdir", lambda _place: ["hatch-cubin-isgone__.held", folder.name])
    temporary_folders.sweep(place)
    assert not folder.exists()
