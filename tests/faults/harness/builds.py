"""Builds by the thousand: the whole pipeline of this process around a compiler that hashes what it reads."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import os
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import executor
from hatch_cubin.compiling.executor import Next, Result, Setup, Task
from hatch_cubin.errors import HatchCubinError
from hatch_cubin.project.project import Project
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from tests.helpers import make_project

KERNEL = 'extern "C" __global__ void {0}() {{ }}\n'
FILES: Mapping[str, str] = {
    "a.cu": '#include "near.cuh"\n' + KERNEL.format("k"),
    "near.cuh": "#pragma once\n#include <deep.cuh>\n",
    "b.cu": '#if __has_include("maybe.cuh")\n#include "maybe.cuh"\n#endif\n' + KERNEL.format("k"),
    "maybe.cuh": "#define MAYBE 1\n",
    "inner/c.cu": KERNEL.format("k"),
    "inner/__init__.py": "",
    "../include/deep.cuh": "#define DEEP 1\n",
}
OPTIONS = 'archs = ["sm_90"]\ninclude-dirs = ["include"]\n'
UNITS = 3
_INCLUDE = re.compile(rb'#include ["<]([^">]+)[">]')


def read_as_before(path: str) -> bytes:
    """Read a file as another process would: past what lets a call of this one fail."""
    with io.FileIO(path) as file:
        return file.readall()


def read_as_now(path: str) -> bytes:
    """Read a file through what lets the calls of this process fail, as a disk fails for all."""
    os.stat(path)
    return Path(path).read_bytes()


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a build: what it made or its error, what it warned of, how many units it compiled."""

    made: Mapping[str, Any] | None
    error: HatchCubinError | None
    warnings: tuple[str, ...]
    compiled: int


class Builds:
    """Builds of one project."""

    def __init__(self, root: Path, cache: Path, options: str = OPTIONS) -> None:
        self.project = make_project(root, FILES, options, HATCH_CUBIN_CACHE_DIR=str(cache))

    def build(self, read: Callable[[str], bytes] = read_as_before) -> Outcome:
        """Build the bundle with a compiler that has a way to *read* of its own."""
        return self._outcome(pipeline.build, read)

    def bake(self) -> Outcome:
        """Do the part of a build that has to do with the cache."""
        return self._outcome(
            lambda project: {
                unit.name: compiled for unit, compiled in pipeline.bake(project, self._plan).done.items()
            }
        )

    @property
    def keys(self) -> list[bytes]:
        """What the units are stored under."""
        return [job.keys.key for job in self._plan.jobs]

    @functools.cached_property
    def _plan(self) -> pipeline.Plan:
        with self.stubbed():
            return pipeline.make_plan(self.project)

    def _outcome(
        self, work: Callable[[Project], Mapping[str, Any]], read: Callable[[str], bytes] = read_as_before
    ) -> Outcome:
        said: list[str] = []
        with self.stubbed(read) as stub:
            try:
                made = work(replace(self.project, warn=said.append))
            except HatchCubinError as exc:
                return Outcome(None, exc, tuple(said), stub.compiled)
        return Outcome(made, None, tuple(said), stub.compiled)

    @staticmethod
    @contextlib.contextmanager
    def stubbed(read: Callable[[str], bytes] = read_as_before) -> Iterator[Stub]:
        """Let the stub compile, in what is called meanwhile."""
        stub = Stub(read)
        with patch.object(executor, "run", stub.run), patch.object(pipeline, "Toolkit", toolkit):
            yield stub


@functools.cache
def toolkit(wanted: str | None, install: str, _facts: Facts | None) -> Toolkit:
    """Return the one toolkit of all these builds: to ask NVRTC what it is takes longer than the rest."""
    return Toolkit(wanted, install)


class Stub:
    """A compiler that gives a cubin which ends in a digest of every file and option it was given."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        self.compiled = 0
        self._read = read

    def run(self, upcoming: Next, setup: Setup, *_heard: object) -> Generator[Result]:
        while (task := upcoming(None, [])) is not None:
            self.compiled += 1
            try:
                yield Result(task.id, ok=True, output=_cubin() + self._digest(task, setup.folders))
            except FileNotFoundError as exc:
                log = f'{task.name.decode()}(1): catastrophic error: cannot open source file "{exc}"\n'
                yield Result(task.id, ok=False, log=log)

    def _digest(self, task: Task, folders: Mapping[int, str]) -> bytes:
        search = [
            option.partition(b"=")[2].decode() for option in task.options if b"--include-path=" in option
        ]
        parts: list[bytes] = [task.code, *sorted(task.options)]
        pending = [(str(Path(task.name.decode()).parent), task.code)]
        while pending:
            folder, code = pending.pop()
            for name in map(bytes.decode, _INCLUDE.findall(code)):
                path, text = self._find(name, (folder, *search), folders)
                if text is None and f'__has_include("{name}")'.encode() not in code:
                    raise FileNotFoundError(name)
                if text is not None and text not in parts:
                    parts.append(text)
                    pending.append((str(Path(path).parent), text))
        return hashlib.sha256(repr(parts).encode()).digest()

    def _find(self, name: str, places: Iterable[str], folders: Mapping[int, str]) -> tuple[str, bytes | None]:
        for path in (f"{place}/{name}" for place in places):
            real = re.sub(r"^/proc/self/fd/(\d+)", lambda match: folders[int(match[1])], path)
            with contextlib.suppress(OSError):
                return path, self._read(real)
        return name, None


@functools.cache
def _cubin() -> bytes:
    task: dict[str, Any] = {"id": 0, "kind": "c++", "code": KERNEL.format("k").encode(), "name": b"k.cu"}
    result = worker.compile_task(task | {"options": [b"-arch=sm_90"], "instantiate": []})
    return bytes(result["output"])
