"""Add the sources that producers return to the project's sources."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from ..errors import ToolchainError, problem
from ..project.project import Project, ProjectSources, include_folders, with_produced
from ..project.source import Source, walk
from . import memo
from .produced_texts import sources_of
from .producer_inputs import Producer, find_producers


def complete(project: Project, sources: ProjectSources) -> ProjectSources:
    """Return all sources of a project.

    A producer runs only if its texts were not saved by an earlier build.
    """
    if sources.is_complete:
        return sources
    producers = find_producers(project)
    produced = [
        source for index, producer in enumerate(producers) for source in _sources(project, index, producer)
    ]
    return add_sources(project, sources, producers, produced)


def add_sources(
    project: Project, sources: ProjectSources, producers: Iterable[Producer], produced: Iterable[Source]
) -> ProjectSources:
    """Add the sources that producers returned in this build, or in the build that wrote the lock file."""
    return with_produced(project, sources, produced, _declared(producers))


def files_for_producers(project: Project) -> set[str]:
    """Return the files that an sdist needs for its producers; an edit of these files makes kernels stale.

    The result contains all inputs of the producers, and all files in include folders, because a produced text
    may include any file in an include folder.
    """
    config, tree = project.config, project.tree
    folders = dict.fromkeys(folder for folder, _key in include_folders(config))
    headers = (path for folder in folders for path in walk(tree, folder))
    linked = (path for rule in config.module for path in rule.link if tree.disk_path(path).is_file())
    return {*_declared(find_producers(project)), *headers, *linked}


def _declared(producers: Iterable[Producer]) -> set[str]:
    return {path for producer in producers for path in producer.inputs.paths}


def _sources(project: Project, index: int, producer: Producer) -> list[Source]:
    rule, place = producer.rule, project.config.place
    key = producer.key()
    produced = memo.read(project, key) if project.recalls_texts else None
    if produced is not None:
        return sources_of(produced, rule, place)
    from ..toolkit import (
        installed_wheels,
    )  # lazy import: not needed if all texts are known from an earlier build
    from .running import run  # lazy import: not needed if all texts are known from an earlier build

    if missing := installed_wheels.unmet(rule.requires):
        named = ", ".join(map(installed_wheels.shown, missing))
        what = f"{rule.path} needs packages that are not installed here: {named}"
        where, hint = place.of("producer", index, "requires"), f"pip install {shlex.join(missing)}"
        raise ToolchainError(problem("requirement-not-installed", what, where, hint))
    project.inform(f"running {rule.path}")
    produced = run(project, producer, place.of("producer", index))
    sources = sources_of(produced, rule, place)
    if project.recalls_texts:
        memo.write(project, key, produced)
    return sources
