"""Warn about compiled code that depends on the time of the build, or that does not contain a kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from ..cache.entries import Compiled
from ..errors import Location, Problem, SourceError, problem
from ..keys.jobs import Job, named_files
from ..planning.unit_plan import Module
from ..project import disk
from ..project.build_time_macros import TimeMacroUse, time_macro_uses
from ..project.project import Project
from ..project.source import Source, glob_regex
from . import launch_hazards, limits, templates
from .hints.not_cuda import place_of_tile_code

# A path for the macros in pyproject.toml, which are checked like a file with one macro in each line.
_TABLE = ""


class TextFindings(NamedTuple):
    """Warnings about a module's source and headers, and the location of tile code that NVRTC ignores."""

    warnings: tuple[str, ...] = ()
    tile_code: Location | None = None


def text_findings(project: Project, job: Job) -> TextFindings:
    """Search the source and headers of a module for problems that the compiler does not report."""
    module = job.unit.module
    if not module.source.is_cpp:
        return TextFindings()
    texts = texts_of(project, job)
    found = [_time_warning(stamp, project, module) for stamp in _time_macros(module, texts)]
    tile_code = None if module.has_tile_code else place_of_tile_code(texts)
    return TextFindings(tuple(map(Problem.with_code, found)), tile_code)


def result_warnings(
    project: Project, job: Job, compiled: Compiled, cubin: bytes, sources: Mapping[str, str]
) -> tuple[str, ...]:
    """Return warnings about the compiled code of a module, such as kernels that no GPU can launch.

    *cubin* is the machine code of the module. *compiled* is the result that goes into the wheel: *cubin*, or
    the PTX from which *cubin* was made. *sources* maps the path of each source to its text.
    """
    module, arch = job.unit.module, str(job.unit.arch)
    if module.link:
        parts = (part if isinstance(part, Source) else part.source for part in module.link.parts)
        texts = {part.path: part.text for part in parts}
        found = limits.exceeded(cubin, compiled.kernels, lambda: texts, module.source.path, arch)
        return tuple(map(Problem.with_code, found))
    found = []
    if not module.part_of:  # The kernels of object files are checked after linking.
        texts_of_job = partial(texts_of, project, job)
        found = limits.exceeded(cubin, compiled.kernels, texts_of_job, module.source.path, arch)
    tables = project.config.place.tables("source")
    found += launch_hazards.found_in(module.source, compiled.kernels)
    # Modules for calls of a library are not checked here. The call lists the templates to instantiate, and
    # the loader does not find these modules by kernel names.
    if not module.front:
        found += templates.uninstantiated_templates(module, compiled.kernels, sources, tables)
    return tuple(map(Problem.with_code, found))


def texts_of(project: Project, job: Job) -> dict[str, str]:
    """Return a mapping from path to text for a source and the project's headers that the source includes."""
    source = job.unit.module.source
    texts = {source.path: source.text}
    for path in named_files(project, [job]):
        if path != source.path:
            with contextlib.suppress(SourceError):  # The header was removed after the build had found it.
                texts[path] = disk.read_file(project.tree.disk_path(path), project.tree).decode(
                    "utf-8", "replace"
                )
    return texts


def _time_macros(module: Module, texts: Mapping[str, str]) -> Iterator[TimeMacroUse]:
    table = "\n".join(f"#define {name} {value}" for name, value in module.macros)
    return time_macro_uses({_TABLE: table, **texts})


def _time_warning(stamp: TimeMacroUse, project: Project, module: Module) -> Problem:
    where, what = Location(stamp.path, stamp.line), stamp.name
    if stamp.path == _TABLE:
        what = module.macros[stamp.line - 1][0]
        where = _place_of(what, project, module)
    what = f"{what} gives different code at every compile; the cache keeps the code of the first compile"
    return problem("result-depends-on-time", what, where)


def _place_of(macro: str, project: Project, module: Module) -> Location:
    """Return the line of pyproject.toml that defines a macro for a module."""
    place, rules = project.config.place, [*enumerate(project.config.source)]
    of_rules = (
        place.of("source", index, key, macro)
        for index, rule in reversed(rules)
        if glob_regex(rule.path).fullmatch(module.source.path_for_globs)
        for key, macros in (("variants", rule.variants), ("define", rule.define))
        if macro in dict(macros)
    )
    return next(of_rules, place.of("define", macro))
