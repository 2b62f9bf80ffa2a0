"""Make a task for each compile: the text and options that are sent to a compiler process.

One compile makes both the cubin (`sm_90`) and the PTX (`compute_90`) of a module, if the module needs both.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..common import temporary_folders
from ..common.arch_names import Arch
from ..headers.resolve import OWN
from ..keys.jobs import Job
from ..planning.unit_plan import Module, Unit
from ..project.project import Project
from ..toolkit.linker import link_options
from ..toolkit.toolkit import Toolkit, assembled_for, compiler_options, flags, mode_of, preamble
from . import precompiled_headers
from .compiler_paths import CompilePaths
from .executor import PrecompiledHeader, Task

# Since CUDA 12.9, an option of NVRTC sets the seed of random names. Before CUDA 12.9, each source gets a line
# of code with the seed, which rules out precompiled headers.
_FIRST_WITH_PRECOMPILED_HEADERS = (12, 9)
# Since CUDA 13.4, debug information does not contain the modification times of headers.
_FIRST_WITHOUT_TIMES = (13, 4)


def served_together(jobs: Iterable[Job], toolkit: Toolkit) -> list[list[Job]]:
    """Group the jobs whose results one compile can make, such as the cubin and the PTX of a module."""
    groups: dict[tuple[Module, Arch], list[Job]] = {}
    for job in jobs:
        groups.setdefault((job.unit.module, assembled_for(job.unit, toolkit)), []).append(job)
    return [*groups.values()]


def make_tasks(
    project: Project,
    groups: Sequence[Sequence[Job]],
    paths: CompilePaths,
    toolkit: Toolkit,
    workers: int,
) -> list[Task]:
    """Return a task for each group of jobs.

    Tasks of the same source and arch share a precompiled header if this saves time.
    """
    jobs = [group[0] for group in groups]
    tasks = [_task(number, group, paths, toolkit) for number, group in enumerate(groups)]
    if not paths.descriptors or toolkit.version < _FIRST_WITH_PRECOMPILED_HEADERS:
        return tasks
    first: dict[tuple[str, Arch], int] = {}
    for number, end in precompiled_headers.shared_includes(jobs, project.tree, workers).items():
        unit, search = jobs[number].unit, tuple(map(paths.of_root, jobs[number].search))
        shared = unit._replace(module=precompiled_headers.without_variant(unit.module))
        precompiled_header = PrecompiledHeader(
            first.setdefault((unit.module.source.path, unit.arch), number),
            unit.module.source.text[:end].encode(),
            compiler_options(shared, toolkit, search),
            precompiled_headers.behind_includes(unit.module, end).encode(),
        )
        tasks[number] = replace(tasks[number], precompiled_header=precompiled_header)
    return tasks


def _task(number: int, jobs: Sequence[Job], paths: CompilePaths, toolkit: Toolkit) -> Task:
    job, unit, source = jobs[0], jobs[0].unit, jobs[0].unit.module.source
    if job.linked:
        name, wants_ptx = unit.module.name.encode(), any(each.unit.arch.is_ptx for each in jobs)
        return Task(number, "link", b"", name, link_options(unit), ptx=wants_ptx)
    options = compiler_options(_with_pre_includes(job, paths), toolkit, tuple(map(paths.of_root, job.search)))
    if not source.is_cpp:
        kind = "ptx" if source.is_ptx else "tileir"
        return Task(number, kind, source.code, source.path.encode(), options)
    # For an include in quotes, NVRTC searches the folder of the program's name, which is a path. The line
    # `#line` sets the path for messages, `__FILE__` and debug information.
    code = f'{preamble(unit.module, toolkit)}#line 1 "{source.path}"\n'.encode() + source.code
    instantiate = tuple(name.encode() for name in unit.module.instantiate)
    name, ptx = paths.of_source(source.path).encode(), any(each.unit.arch.is_ptx for each in jobs)
    kind = "lto" if mode_of(unit.module) == "lto" else "c++"
    task = Task(number, kind, code, name, options, instantiate, searches=job.closure.includes, ptx=ptx)
    if not unit.module.is_tile:
        return task
    # The PTX shows whether the source also has kernels that are not tile kernels.
    return replace(
        task, kind="tile", ptx=True, tile_flags=tuple(flag.encode() for flag in flags(unit, toolkit))
    )


def _with_pre_includes(job: Job, paths: CompilePaths) -> Unit:
    """Return a unit with the option `pre_include` changed to the paths that the compiler sees."""
    own, module = job.closure.at_root, job.unit.module
    if not own:
        return job.unit
    named = tuple(paths.of_source(name) if name in own else name for name in module.pre_includes)
    return job.unit._replace(module=replace(module, options={**module.options, "pre_include": named}))


def folders_for(
    jobs: Sequence[Job], paths: CompilePaths, toolkit: Toolkit, stack: contextlib.ExitStack
) -> Mapping[int, str]:
    """Return a mapping from each file descriptor to the folder that a compiler process opens."""
    if toolkit.version >= _FIRST_WITHOUT_TIMES or not any(
        job.unit.module.options.get(name) for job in jobs for name in ("lineinfo", "debug")
    ):
        return paths.joined(Path(make_scratch(stack))) if paths.are_scattered else paths.descriptors
    return paths.copies(Path(make_scratch(stack)), (job.closure for job in jobs), folders_of(jobs))


def folders_of(jobs: Sequence[Job]) -> set[str]:
    """Return the project's folders with the sources of *jobs*, and with headers that they can include."""
    folders = {job.unit.module.source.folder for job in jobs}
    return folders | {root.logical.removeprefix(OWN) for job in jobs for root in job.search if not root.tree}


def make_scratch(stack: contextlib.ExitStack) -> str:
    """Make a temporary folder that is removed when *stack* is closed, and return its path."""
    return str(stack.enter_context(temporary_folders.make()))
