"""Compiles that failed, and what the compiler said of them."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from hatch_cubin.compiling.diagnostics import Diagnostic
from hatch_cubin.compiling.hints.failed_compile import FailedCompile
from hatch_cubin.errors import Location
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.planning.unit_plan import plan_modules
from hatch_cubin.project.source import Source
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import read_config, write_tree

TABLES = "[[tool.hatch.build.hooks.cubin.source]]"
APART = (
    "move the kernels into a separate file, or put the host code between #ifndef __CUDACC_RTC__ and #endif"
)


def error(text: str, path: str = "demo/a.cu", line: int | None = 1, *context: str) -> Diagnostic:
    return Diagnostic("error", Location(path, line), text, context)


def undefined(name: str, line: int = 1, path: str = "demo/a.cu") -> Diagnostic:
    return error(f'identifier "{name}" is undefined', path, line)


def setting(
    root: Path,
    options: str = "",
    *,
    path: str = "demo/a.cu",
    text: str = "",
    version: tuple[int, int] = (13, 4),
    search: tuple[SearchFolder, ...] = (),
    files: dict[str, str] | None = None,
) -> FailedCompile:
    """Return a compile of one source in a project with *files*, all of which it can read."""
    config = read_config(options)
    (module,) = plan_modules(config, [Source(path, text)], defaultdict(tuple))
    write_tree(root, {path: text, **(files or {})})
    return FailedCompile(ProjectTree(root), config, module, search, tuple(files or ()), version)


def table(*lines: str) -> str:
    """Return the lines of a source's table as hints have them."""
    return "".join(f"\n    {line}" for line in (TABLES, 'path = "demo/a.cu"', *lines))
