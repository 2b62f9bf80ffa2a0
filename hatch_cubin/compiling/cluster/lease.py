"""The data sent to a worker of a cluster, its reply, and the proof that they belong together. Does no I/O.

This does not protect against a worker that lies: a build that accepts a worker's replies trusts the worker.
It detects a reply that was cut off, damaged, confused with another one, or sent twice.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from ...common.digest import digest
from ..executor import Result, Task

_NONE = Result(0, ok=False)
_TYPES = {field.name: type(getattr(_NONE, field.name)) for field in fields(Result) if field.name != "worker"}


class FileListing(NamedTuple):
    """The files that compiles can read, by content, and their places on a worker."""

    digest: str
    places: Mapping[int, str]  # the folder for each descriptor
    folders: tuple[str, ...]  # all folders that must exist
    files: Mapping[str, tuple[str, str]]  # by place: logical name and digest

    @classmethod
    def of(
        cls, places: Mapping[int, str], folders: Sequence[str], files: Mapping[str, tuple[str, str]]
    ) -> FileListing:
        """Return the listing of some files, with a name made from its content."""
        whole = json.dumps([sorted(places.items()), sorted(folders), sorted(files.items())])
        return cls(digest([whole]), places, tuple(folders), files)


class Lease(NamedTuple):
    """A group of tasks that one worker compiles in sequence."""

    number: int
    build: str  # a name that no other build has
    process: str  # the worker's name for its process; empty if any process will do
    listing: str  # the digest of the listing of the files that it reads
    tasks: tuple[Task, ...]
    timeout_s: float  # for each task
    memory: int  # bytes that the compiler's process may use; 0 if there is no limit


class Reply(NamedTuple):
    """The reply to a lease: a result for each task, or the reason for their absence."""

    worker: str  # the worker's own name
    process: str
    number: int
    results: tuple[tuple[dict[str, Any], str], ...] = ()  # the fields of each result, and its proof
    refusal: str = ""


def with_proof(task: Task, listing: str, result: Result) -> tuple[dict[str, Any], str]:
    """Return a result in the form in which it is sent, with its proof."""
    values = {name: getattr(result, name) for name in _TYPES}
    values["symbols"] = dict(result.symbols)
    return values, _proof(task, listing, result)


def checked_results(reply: object, lease: Lease) -> dict[int, Result]:
    """Return the results of a lease by task number. ValueError describes the fault of a wrong reply."""
    if not isinstance(reply, Reply) or reply.number != lease.number:
        raise ValueError("a reply to something else")
    tasks = {task.id: task for task in lease.tasks}
    found: dict[int, Result] = {}
    for result, proof in _results(reply):
        task = tasks.get(result.id)
        if task is None or result.id in found:
            raise ValueError("a result that nobody asked for")
        if _proof(task, lease.listing, result) != proof:
            raise ValueError("a damaged result")
        found[result.id] = replace(result, worker=reply.worker)
    if found.keys() != tasks.keys():
        raise ValueError("a reply that lacks results")
    return found


def _results(reply: Reply) -> list[tuple[Result, str]]:
    """Return the results with their proofs. ValueError if the reply does not contain results."""
    try:
        return [(_result(values), proof) for values, proof in reply.results]
    except (TypeError, ValueError):  # the reply may contain anything
        raise ValueError("a damaged reply") from None


def _result(values: dict[str, Any]) -> Result:
    if {name: type(value) for name, value in {**values}.items()} != _TYPES:
        raise ValueError
    if {type(each) for item in values["symbols"].items() for each in item} - {str}:
        raise ValueError
    return Result(**values)


def _proof(task: Task, listing: str, result: Result) -> str:
    """Return a digest of a result together with everything that it was made from."""
    asked: list[str | bytes] = [task.kind, task.code, task.name, str(task.ptx)]
    came: list[str | bytes] = [str(result.ok), result.output, result.ptx, result.log]
    symbols = [each for item in sorted(result.symbols.items()) for each in item]
    return digest([listing, *map(digest, (asked, task.options, task.instantiate, came, symbols))])
