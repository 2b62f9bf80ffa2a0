"""Write the digests of generated sources into a lock file, and load sources from a lock file.

A producer is a function of the project that returns the texts of generated sources. A lock file contains the
digest of each generated text, but not the text itself. The lock file also contains the settings of each
generated source, the first lines of each PTX text (these lines name the target arch), and the kinds of
kernels in each source with tile code. If all results are in the cache, a build needs only the lock file, and
not the generated texts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from ..errors import ConfigError, Location, problem
from ..planning.unit_plan import call_key, call_of, rules_of_source
from ..producing.produced_sources import add_sources
from ..producing.produced_texts import sources_of
from ..producing.producer_inputs import Producer, find_producers
from ..producing.producer_script import plain
from ..project.project import Project, ProjectSources
from ..project.source import TILE_IR_MAGIC, Source, is_tile_ir
from ..project.tile_kernels import kernel_kinds
from .lock_format import HINT, NAME

Locked = Mapping[str, Mapping[str, Any]]

_UNKNOWN = "text that the lock does not have"
_CHANGES = {
    "modules": "{} is changed, and a producer imports it",
    "files": "{} is changed, and a producer reads it",
    "folders": "files in the folder {} are added or removed, and a producer may read the folder's file names",
    "environment": "the environment variable {} is changed, and a producer reads it",
}


def locked_producers(project: Project, sources: Iterable[Source]) -> dict[str, dict[str, Any]]:
    """Return the entries for a project's producers (functions that generate sources) in its lock file."""
    texts: dict[str, dict[str, Any]] = {rule.name: {} for rule in project.config.producer}
    for source in sources:
        if source.produced:
            texts[source.produced.by][PurePosixPath(source.path).name] = _text_entry(project, source)
    return {
        producer.rule.name: {
            **{name: dict(value) for name, value in producer.inputs._asdict().items()},
            "texts": texts[producer.rule.name],
        }
        for producer in find_producers(project)
    }


def _text_entry(project: Project, source: Source) -> dict[str, Any]:
    settings = source.produced.settings if source.produced else {}
    entry = {"sha256": source.sha256, "settings": dict(settings)}
    if (call := call_of(rules_of_source(project.config, source))) is not None:
        entry["key"] = call_key(call, source)
    if source.is_ptx:
        major, minor = source.ptx.version
        entry["ptx"] = f".version {major}.{minor}\n.target {source.ptx.target}\n"
    if source.is_cpp and (kinds := kernel_kinds(source)).tile:
        entry["tile"] = kinds.as_text()
    return entry


def producer_changes(locked: Locked, producers: Sequence[Producer]) -> Iterator[str]:
    """Yield a sentence for each difference between the producers' inputs and the lock file."""
    now = {producer.rule.name: producer.inputs for producer in producers}
    yield from (f"the producer {name} is gone" for name in sorted(locked.keys() - now.keys()))
    for name, inputs in now.items():
        if name not in locked:
            yield f"the producer {name} is new"
            continue
        for kind, values in inputs._asdict().items():
            before = locked[name][kind]
            differing = (before.items() ^ values.items()) if before != values else ()
            yield from (_CHANGES[kind].format(each) for each in sorted({each for each, _value in differing}))


def with_locked_texts(
    locked: Locked, project: Project, sources: ProjectSources
) -> tuple[ProjectSources, list[str]]:
    """Return all sources as the lock file lists them, or the reasons why the lock file cannot be used.

    No producer runs.

    If the lock file cannot be used, the result does not contain generated sources.
    """
    producers = find_producers(project)
    if changes := [*producer_changes(locked, producers)]:
        return sources, changes
    produced = [
        source for each in producers for source in _sources(locked[each.rule.name]["texts"], each, project)
    ]
    return add_sources(project, sources, producers, produced), []


def _known_text(name: str, entry: Mapping[str, Any]) -> Any:
    """Return a substitute for a producer's text, made from the facts in the lock file."""
    if is_tile_ir(name):
        return plain(TILE_IR_MAGIC)
    return entry.get("ptx", entry.get("tile", _UNKNOWN))


def _sources(
    texts: Mapping[str, Mapping[str, Any]], producer: Producer, project: Project
) -> Iterator[Source]:
    values = [
        (name, {**entry["settings"], "text": _known_text(name, entry)}) for name, entry in texts.items()
    ]
    for source in sources_of(values, producer.rule, project.config.place):
        entry = texts[PurePosixPath(source.path).name]
        if source.is_ptx != ("ptx" in entry):
            what = f"has a wrong entry for a text of the producer {producer.rule.name}"
            raise ConfigError(problem("lock-damaged", what, Location(NAME), HINT))
        key = entry.get("key", "")
        yield replace(source, sha256=entry["sha256"], is_text_known=False, locked_key=key)
