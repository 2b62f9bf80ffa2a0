"""Markers by folder, skips by capability, and the fixtures that every kind of test uses."""

from __future__ import annotations

import functools
import itertools
import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from hatch_cubin.common import user_folders
from hatch_cubin.compiling import cores, processes

from . import forked_compilers
from .capabilities import CAPABILITIES
from .fault_counts import KEY, Figures

if TYPE_CHECKING:
    from .command_line import Command
    from .store_server import StoreServer

_TESTS = Path(__file__).parent
_FOLDERS = ("unit", "build", "faults", "property", "standin", "gpu")
_SHIPS = {_TESTS / "unit/bundle", _TESTS / "unit/loader", _TESTS / "standin/test_layouts.py"}
_TEXT = {_TESTS / place for place in ("unit/docs", "unit/test_consistency.py", "unit/test_layering.py")}
# Coverage takes as long as what it counts. It counts what these tests do in their own process, which is
# nearly all there is, and what those that are marked do in all of theirs.
_COUNTED = _TESTS / "unit"
_AGAIN = _TESTS / "unit/keys/test_cost_of_edits.py"  # goes where others have gone, for long
# Where compilers start as users' do: what is forked shares its parent's addresses, hashes and limits.
_STARTS = {
    _TESTS / place
    for place in (
        "build",
        "faults",
        "unit/cli/verbs/test_verify_rebuild.py",
        "unit/cli/verbs/test_verify_rebuild_split.py",
        "unit/compiling/cluster/test_worker_side.py",
        "unit/compiling/test_executor.py",
        "unit/compiling/test_precompiled_headers.py",
        "unit/compiling/test_processes.py",
    )
}

pytest_plugins = ["tests.isolation_plugin"]  # no test uses a folder that is not its own

# The same examples each time: a law that fails must fail for whoever looks.
settings.register_profile("default", derandomize=True, deadline=None)
settings.load_profile("default")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="faults in the numbers of a release: an hour")
    parser.addoption("--require", default="", help="capabilities that must not be missing: nvrtc,gpu,…")
    parser.addoption("--seed", type=int, default=0, help="of the faults that are made by chance")


def pytest_configure(config: pytest.Config) -> None:
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if (
            signal.getsignal(number) is signal.SIG_IGN
        ):  # in the background, behind nohup: processes inherit it
            signal.signal(number, usual)
    for name in CAPABILITIES:
        if name != "gpu":
            config.addinivalue_line("markers", f"{name}: needs this capability")
    for folder in _FOLDERS:
        config.addinivalue_line("markers", f"{folder}: lives in tests/{folder}")
    config.addinivalue_line("markers", "ships: is about what travels in wheels, to any Python")
    config.addinivalue_line("markers", "text: compares what the project says with what it is")
    config.addinivalue_line("markers", "counted: goes where no other test's own process goes")


@functools.cache
def _has(name: str) -> bool:
    return CAPABILITIES[name]()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist's
def pytest_xdist_auto_num_workers() -> int:
    """Have one process more than there are cores, for builds wait."""
    return cores.available_cores() + 1


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for marker in _markers(item.path):
            item.add_marker(marker)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import a file of which `-m` takes no test: some shares of them take less time than that."""
    expression = config.getoption("markexpr")
    if collection_path.is_dir() or not re.fullmatch(r"[\w ()]+", expression):
        return None
    names = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    known = set(_markers(collection_path))
    unknown = sorted(names - {*_FOLDERS, "ships", "text"})
    for count in range(len(unknown) + 1):
        for some in itertools.combinations(unknown, count):
            marks = known.union(some)
            try:
                runs = eval(expression, {}, {name: name in marks for name in names})  # noqa: S307 - words
            except SyntaxError:  # which pytest tells
                return None
            if runs:
                return None
    return True


@functools.cache
def _markers(path: Path) -> list[str]:
    """Return what the place of a file says of its tests, and nothing else does."""
    folder = path.relative_to(_TESTS).parts[0]
    around = {path, *path.parents}
    told = {folder: folder in _FOLDERS, "ships": _SHIPS & around, "text": _TEXT & around}
    return [marker for marker, holds in told.items() if holds]


def pytest_runtest_setup(item: pytest.Item) -> None:
    required = item.config.getoption("--require").split(",")
    for name in CAPABILITIES:
        if item.get_closest_marker(name) and not _has(name):
            outcome = pytest.fail if name in required else pytest.skip
            outcome(f"this machine has no {name}")


def pytest_report_header() -> str:
    return "capabilities: " + ", ".join(f"{name}={'yes' if _has(name) else 'no'}" for name in CAPABILITIES)


@pytest.fixture
def server() -> Iterator[StoreServer]:
    """Return a server of a shared store."""
    from .store_server import store_server  # which most tests need not wait for

    with store_server() as server:
        yield server


@pytest.fixture
def unmeasured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure no coverage in other processes: one that is killed would leave an incomplete file."""
    for name in ("COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command of hatch-cubin in this process."""
    from .command_line import runner  # which most tests need not wait for

    return runner(capsys)


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> Figures:
    """Return what a test of faults takes its numbers from and tells its counts to."""
    node = request.node
    return Figures(node.name, node.user_properties, long=request.config.getoption("--long"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = (report for each in terminalreporter.stats.values() for report in each)
    calls = (report for report in reports if getattr(report, "when", None) == "call")
    if told := [text for report in calls for key, text in report.user_properties if key == KEY]:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(map(str, told)))


@pytest.fixture(autouse=True)
def _uncounted(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let coverage, where it runs, count what is its to count."""
    coverage: Any = sys.modules.get("coverage")
    counter = coverage and coverage.Coverage.current()
    if counter is None or request.node.get_closest_marker("counted"):
        yield
        return
    monkeypatch.delenv("COVERAGE_PROCESS_CONFIG", raising=False)  # of what counts in processes that it starts
    path = request.node.path
    counts = _COUNTED in path.parents and path != _AGAIN
    if not counts:
        counter.stop()
    yield
    if not counts:
        counter.start()


@pytest.fixture(autouse=True)
def _forked_compilers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have compilers of many tests start at once: a new Python takes longer than what they compile."""
    around = {request.node.path, *request.node.path.parents}
    many = sys.platform == "linux" and "PYTEST_XDIST_WORKER" in os.environ
    if many and request.node.get_closest_marker("nvrtc") and not _STARTS & around:
        monkeypatch.setattr(processes, "subprocess", forked_compilers.Subprocess())


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for temporary files that nobody else uses."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@pytest.fixture
def no_endless_wait() -> Iterator[None]:
    """Let a test that waits for ever fail; what it is about takes a second."""

    def fail(_signal: int, _frame: object) -> None:
        raise AssertionError("this waits for ever")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def no_trouble(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget, before and after, that the user's cache folder did not serve."""
    monkeypatch.setattr(user_folders, "_why", [])
    user_folders._process_folder.cache_clear()
    yield
    user_folders._process_folder.cache_clear()
