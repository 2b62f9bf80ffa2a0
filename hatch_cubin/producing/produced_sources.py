"""Add the sources that producers return to the project's sources."""

from __future__ import annotations

from ..project.project import Project, ProjectSources, with_produced
from ..project.source import Source
from . import memo
from .produced_texts import sources_of
from .producer_inputs import Producer, find_producers


def complete(project: Project, sources: ProjectSources) -> ProjectSources:
    """Return all sources of a project. A producer runs if its texts are not known from an earlier build."""
    if sources.is_complete:
        return sources
    produced = [
        source
        for index, producer in enumerate(find_producers(project))
        for source in _sources(project, index, producer)
    ]
    return with_produced(project, sources, produced)


def _sources(project: Project, index: int, producer: Producer) -> list[Source]:
    rule, place = producer.rule, project.config.place
    key = producer.key()
    produced = memo.read(project, key) if project.recalls_texts else None
    if produced is not None:
        return sources_of(produced, rule, place)
    from .running import run  # lazy: a build that knows all texts starts no process

    project.inform(f"running {rule.path}")
    produced = run(project, producer, place.of("producer", index))
    sources = sources_of(produced, rule, place)
    if project.recalls_texts:
        memo.write(project, key, produced)
    return sources
