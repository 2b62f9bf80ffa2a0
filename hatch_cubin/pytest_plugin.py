"""A pytest plugin that finds texts that CuPy or cuda.core compiles at run time, during tests.

`--record-cubins FOLDER` writes the texts that were compiled at run time into a folder. If the key `recorded`
in pyproject.toml lists the folder, a build compiles these texts. `--forbid-run-time-compiles` makes the test
session fail if any text was compiled at run time.

The plugin sets HATCH_CUBIN_RECORD, so that the classes of `_cubins.cupy` and `_cubins.core` write each call
into a temporary folder. The plugin finds a run-time compile even if a test filters the warning about it or
catches its error. Workers of pytest-xdist, and other processes that tests start, write into the same folder.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

_VARIABLE = "HATCH_CUBIN_RECORD"
_MOST_LINES = 20
# Matches the error of an import of a module that only some bundles contain. The bundle itself was found.
_ABSENT = re.compile(r"ModuleNotFoundError: No module named '([\w.]+\._cubins\.(?:cupy|core))'")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the two options of this plugin."""
    group = parser.getgroup("hatch-cubin")
    group.addoption(
        "--record-cubins",
        metavar="FOLDER",
        help="write each text that CuPy or cuda.core compiles at run time into this folder, for later builds",
    )
    group.addoption(
        "--forbid-run-time-compiles",
        action="store_true",
        help="fail if CuPy or cuda.core compiles a text at run time because a package does not contain it",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Watch run-time compiles even before test modules are imported, except in workers of pytest-xdist."""
    options = early_config.known_args_namespace
    is_on = options.record_cubins or options.forbid_run_time_compiles
    is_worker = {"PYTEST_XDIST_WORKER", _VARIABLE} <= {*os.environ}
    if is_on and not is_worker:
        early_config.pluginmanager.register(
            _Watch(early_config, options.record_cubins, forbids=options.forbid_run_time_compiles)
        )


class _Watch:
    """Collects the calls that are written during a test session, and records or reports these calls."""

    def __init__(self, config: pytest.Config, folder: str | None, *, forbids: bool) -> None:
        self._calls = Path(tempfile.mkdtemp(prefix="hatch-cubin-calls-"))
        self._recorded = None if folder is None else Path(folder).absolute()
        self._forbids = forbids
        self._root = config.rootpath
        self._session: pytest.Session | None = None
        self._reported: set[str] = set()
        self._absent: set[str] = set()  # modules such as `mypkg._cubins.cupy` that a test could not import
        self._before = os.environ.get(_VARIABLE)
        self._process = os.getpid()
        os.environ[_VARIABLE] = str(self._calls)
        atexit.register(self._at_exit)
        config.add_cleanup(self._finish)  # the first clean-up to be added runs last

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self, session: pytest.Session) -> None:
        self._session = session

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Remember modules such as `mypkg._cubins.cupy` that a test file could not import."""
        self._absent.update(_ABSENT.findall(report.longreprtext))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remember modules such as `mypkg._cubins.cupy` that a test could not import."""
        self._absent.update(_ABSENT.findall(report.longreprtext))

    def _finish(self) -> None:
        if self._before is None:
            os.environ.pop(_VARIABLE, None)
        else:
            os.environ[_VARIABLE] = self._before
        fails = self._fails()
        if self._session is None:
            return
        self._report_empty_record(self._session)
        self._report_absent_modules(self._session)
        if fails:
            failed = self._session.exitstatus or pytest.ExitCode.TESTS_FAILED
            is_empty = failed == pytest.ExitCode.NO_TESTS_COLLECTED
            self._session.exitstatus = pytest.ExitCode.TESTS_FAILED if is_empty else failed

    def _report_empty_record(self, session: pytest.Session) -> None:
        has_run = session.exitstatus in {pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED}
        if self._recorded is None or self._reported or not has_run or session.config.option.collectonly:
            return
        _print(
            f"nothing was recorded in {self._recorded}: the tests compiled no text that is missing from "
            "the package. Creating an object compiles nothing, so let a test launch the kernel or call "
            "compile(). The class of the object must be from PACKAGE._cubins.cupy or PACKAGE._cubins.core"
        )

    def _report_absent_modules(self, session: pytest.Session) -> None:
        folder = "FOLDER"
        if self._recorded is not None:
            folder = Path(os.path.relpath(self._recorded, session.config.rootpath)).as_posix()
        for module in sorted(self._absent):
            library = "cupy" if module.endswith("cupy") else "cuda.core"
            _print(
                f"there is no module {module}, because the package was built without the key 'recorded' and "
                f"without sources for {library}: install the package again, after you add this line to the "
                f'table of hatch-cubin: recorded = ["{folder}"]'
            )

    def _at_exit(self) -> None:
        """Check the recorded calls a second time when Python exits, because exit handlers may make calls."""
        if os.getpid() != self._process:  # this is a forked process, and the session still needs the folder
            return
        fails = self._fails()
        shutil.rmtree(self._calls, ignore_errors=True)
        if fails:
            sys.stderr.flush()
            os._exit(pytest.ExitCode.TESTS_FAILED)

    def _fails(self) -> bool:
        """Record and report new calls, and return whether the test session must fail because of them."""
        new = {path.name: path for path in self._calls.glob("*.json") if path.name not in self._reported}
        self._reported |= {*new}
        calls = [json.loads(path.read_bytes()) for path in new.values()]
        if self._recorded is not None and calls:
            count = sum(write_recorded(self._recorded, self._root, call) for call in calls)
            _print(f"{count} new recorded calls in {self._recorded}")
        for call in sorted(calls, key=lambda call: (call["package"], call["text"]))[:_MOST_LINES]:
            _print(_line_of(call))
        if calls and self._forbids:
            _print(f"{len(calls)} calls compiled at run time: --forbid-run-time-compiles fails this session")
        return self._forbids and bool(calls)


def _print(text: str) -> None:
    sys.__stderr__ and print(f"hatch-cubin: {text}", file=sys.__stderr__)


def _line_of(call: dict[str, Any]) -> str:
    begin = " ".join(call["text"].split(None, 12)[:12])
    options = f" with {call['options']}" if call["options"] else ""
    record = "" if _can_be_recorded(call) else "; this call cannot be recorded"
    return f"{call['package']} compiled {begin!r:.60}{options}: {call['reason']}{record}"


def _can_be_recorded(call: dict[str, Any]) -> bool:
    """Return whether a build would compute the same key for the call after it reads the text from a file."""
    from .loader._text_key import text_of_key  # lazy import: pytest imports this file in each session

    text = text_of_key(call["text"])
    is_utf8 = text.encode(errors="ignore").decode() == text
    return bool(call["key"]) and is_utf8 and "\r" not in text  # a build reads a lone \r in a file as \n


def write_recorded(folder: Path, root: Path, call: dict[str, Any]) -> bool:
    """Write a call into a folder of recorded calls. Return whether the folder did not contain the call yet.

    The name of the file is the key of the call. If the call has template names or include folders, a digest
    of them is added to the name of the file. If one call is recorded with different template names, each
    recording is a separate file, so that two people can merge their recordings without a conflict. If one
    call is recorded with different include folders, each recording is a separate file, so that a build can
    report the different folders.
    """
    from .loader._text_key import text_of_key

    if not _can_be_recorded(call):
        return False
    options = [*_portable(call["options"], root)]
    fields = {"front": call["front"], "options": options}
    name = call["key"]
    if call["names"]:
        fields["instantiate"] = call["names"]
    if outside_key := [*(each for each in options if each.startswith("-I")), *call["names"]]:
        name += "-" + hashlib.sha256("\0".join(outside_key).encode()).hexdigest()[:16]
    data = f"// {json.dumps(fields, sort_keys=True)}\n{text_of_key(call['text'])}".encode()
    path = folder / f"{name}.cu"
    if path.is_file() and path.read_bytes() == data:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return True


def _portable(options: Iterable[str], root: Path) -> Iterator[str]:
    """Yield a call's options with relative include folders, but without folders outside the project."""
    rest = iter(options)
    for option in rest:
        flag = next((flag for flag in ("--include-path", "-I") if option.startswith(flag)), None)
        if flag is None:
            yield option
            continue
        value = option[len(flag) :].removeprefix("=" if flag != "-I" else "") or next(rest, "")
        place = Path(os.path.normpath(root / value))
        if place.is_relative_to(root):
            yield f"-I{place.relative_to(root).as_posix()}"
