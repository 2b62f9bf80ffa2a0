"""Compiler processes that start fast: forked from a process that has imported their modules."""

from __future__ import annotations

import functools
import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver, reduction
from multiprocessing.context import ForkServerContext
from typing import Any

from hatch_cubin.toolkit import worker

COMPILER = (sys.executable, "-I", worker.SCRIPT)


class _Stream:
    """A descriptor on its way to another process."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def __getstate__(self) -> Any:
        return reduction.DupFd(self.descriptor)

    def __setstate__(self, state: Any) -> None:
        self.descriptor = state.detach()


class _Forked:
    """A compiler process, as `subprocess` has processes."""

    def __init__(self, streams: Sequence[_Stream], environ: Mapping[str, str]) -> None:
        self._process = _context().Process(target=_compile, args=(streams, environ), daemon=True)
        self._process.start()
        self.pid = self._process.pid
        self.returncode: int | None = None

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self._process.join(timeout)
            self.returncode = self._process.exitcode
            if self.returncode is None:
                raise subprocess.TimeoutExpired(COMPILER, timeout or 0.0)
            self._process.close()
        return self.returncode

    def kill(self) -> None:
        if self.returncode is None:
            self._process.kill()


class Subprocess:
    """The module `subprocess`, but for how compilers start."""

    def __init__(self) -> None:
        _context()  # before a test has a place of its own for temporary files

    def __getattr__(self, name: str) -> Any:
        return getattr(subprocess, name)

    @staticmethod
    def Popen(command: Sequence[str], **how: Any) -> Any:  # noqa: N802
        if (*command,) != COMPILER or how["stdin"] == subprocess.PIPE:
            return subprocess.Popen(command, **how)
        assert how.keys() == {"stdin", "stdout", "stderr", "env", "start_new_session"}
        return _Forked([_Stream(how[name]) for name in ("stdin", "stdout", "stderr")], how["env"])


@functools.cache
def _context() -> ForkServerContext:
    """Start the process that the others are forked from."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["cuda.bindings.nvrtc", "tests.forked_compilers"])
    counts = {name: os.environ.pop(name) for name in [*os.environ] if name.startswith("COVERAGE_PROCESS")}
    forkserver.ensure_running()
    os.environ.update(counts)
    return context


def _compile(streams: Sequence[_Stream], environ: Mapping[str, str]) -> None:
    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream.descriptor, number)
        os.close(stream.descriptor)
    os.environ.clear()
    os.environ.update(environ)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - the one there was is closed
    worker.main()
