"""Forks at any moment: whatever another thread had begun, no child waits for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.bundle import loader_files
from tests.helpers import bundle, load_bundle, made, packed_bundle
from tests.standin import ask, install

pytestmark = [pytest.mark.linux]

# While a thread imports anything for the first time, the main thread tries to fork. The wait ends at the
# fork, or, if that has to wait for the import, after a moment. A child that hangs is ended by its alarm.
AT_EACH_IMPORT = """
import signal, sys, threading, warnings
warnings.simplefilter("ignore")
for name in [name for name in sys.modules if name.partition(".")[0] in AGAIN]: del sys.modules[name]
importing, forked, done = threading.Event(), threading.Event(), threading.Event()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if threading.current_thread() is caller and name not in seen:
            seen.append(name)
            forked.clear()
            importing.set()
            forked.wait(0.05)

def call():
    try: CALL
    finally:
        done.set()
        importing.set()

seen, statuses = [], []
sys.meta_path.insert(0, Finder())
caller = threading.Thread(target=call)
caller.start()
while importing.wait() and not done.is_set():
    importing.clear()
    child = os.fork()
    if not child:
        signal.alarm(20)
        CALL
        os._exit(0)
    forked.set()
    statuses.append(os.waitpid(child, 0)[1])
caller.join()
print(bool(seen), {*statuses})
"""
AGAIN = "fnmatch difflib hashlib _hashlib json lzma _lzma ctypes _ctypes stat errno _json time cuda"
READS = {
    "find": "cubins.find('k', cc=(9, 0))",
    "read": "cubins.read('k', cc=(9, 0))",
    "read packed": "packed.read('k', cc=(9, 0))",
    "misspelled": "fails(lambda: cubins.find('kk', cc=(9, 0)))",
    "is_available": "cubins.is_available('k')",
    "globs": "cubins._part('_loading')._matching(('*',))",
}


@pytest.mark.parametrize("call", READS)
def test_a_child_that_is_forked_during_a_first_call_can_make_it(tmp_path: Path, call: str) -> None:
    install(tmp_path / "other", packed_bundle(made("k"), made("l")))
    before = (
        "from other import _cubins as packed\n"
        "def fails(call):\n    try: call()\n    except cubins.CubinNotFoundError: return\n"
        "    raise SystemError\n"
    )
    program = AT_EACH_IMPORT.replace("AGAIN", repr(AGAIN.split())).replace("CALL", READS[call])
    assert ask(tmp_path, before + program, None) == "True {0}"


@pytest.mark.parametrize("call", ["cubins.cache()", "cubins._part('_loading'); cubins._import('cuda.core')"])
def test_a_child_that_is_forked_while_cuda_core_is_imported_can_import_it(tmp_path: Path, call: str) -> None:
    pytest.importorskip("cuda.core")
    few = "if threading.current_thread() is caller and name not in seen and len(seen) < 12:"
    program = AT_EACH_IMPORT.replace("AGAIN", "['cuda']").replace("CALL", call)
    program = program.replace("if threading.current_thread() is caller and name not in seen:", few)
    assert ask(tmp_path, program, None) == "True {0}"


WHILE_IT_STARTS = """
import signal, threading
os.mkfifo("pipe")
thread = threading.Thread(target=cubins._part("_loading")._driver_version)
thread.start()
while not os.path.exists("log") or "cuInit" not in open("log").read(): pass
child = os.fork()
if not child:
    signal.alarm(20)
    try: cubins.kernel("k")
    except cubins.CubinUnavailableError as exc: print(exc, cubins.is_available(), flush=True)
    os._exit(0)
os.waitpid(child, 0)
os.environ["STANDIN_FAULTS"] = ""
os.close(os.open("pipe", os.O_WRONLY))
thread.join()
print(cubins._part("_loading")._driver_version())
"""


@pytest.mark.gcc
def test_a_child_that_is_forked_while_the_driver_starts_leaves_it_alone(stub: Path, tmp_path: Path) -> None:
    said, version = ask(tmp_path, WHILE_IT_STARTS, stub, STANDIN_FAULTS="cuInit=hang").splitlines()
    assert "CUDA was used before this process was forked: start processes with spawn" in said
    assert (said.rpartition(" ")[2], version) == ("False", "13000")


def test_a_child_keeps_no_lock_on_an_editable_bundle(tmp_path: Path) -> None:
    """A lock of its parent's is on an open file that the child has too, until both close it."""
    code = """
import fcntl
cubins._compared.append(True)
seen = []
def call():
    if not seen:
        seen.append(cubins._damaged)
        cubins._damaged("k", "it is being replaced")
    seen.append(os.fork())
    if not seen[-1]:
        os.read(waits, 1)
        os._exit(0)
waits, ends = os.pipe()
cubins._retry_during_rebuild(call)
folder = os.open("pkg/_cubins", os.O_RDONLY)
fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.close(ends)
os.write
print("free")
"""
    code = code.replace("os.write\n", "").replace("os.read(waits, 1)", "os.close(ends); os.read(waits, 1)")
    install(tmp_path / "pkg", {**bundle(made("k")), "_editable.py": loader_files.read("_editable.py")})
    assert ask(tmp_path, code, None) == "free"


def test_what_is_imported_is_imported_once_and_under_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins = load_bundle(tmp_path, bundle(made("k")))
    assert cubins._import("hashlib") is sys.modules["hashlib"] is cubins._import("hashlib")
    assert cubins._no_fork() is cubins._no_fork()
    alone = load_bundle(tmp_path / "other", bundle(made("k")))
    monkeypatch.delattr("os.register_at_fork")  # as on Windows
    assert alone.read("k", cc=(9, 0)) == b"k for sm_90"
