"""Leases, which are groups of tasks that a build sends to a worker, and the replies with the results.

Each result has a digest that proves to which task it belongs. The digest detects a reply that was cut off,
damaged, sent twice, or confused with another reply. The digest does not protect against a worker that cheats:
a build must trust its workers.
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
    """The list of all files that compiles can read, with their digests and their places on a worker."""

    digest: str
    places: Mapping[int, str]  # the folder for each descriptor number
    folders: tuple[str, ...]  # all folders that must exist
    files: Mapping[str, tuple[str, str]]  # by place: the logical name and the digest of each file

    @classmethod
    def of(
        cls, places: Mapping[int, str], folders: Sequence[str], files: Mapping[str, tuple[str, str]]
    ) -> FileListing:
        """Make a listing, and compute the digest that identifies it."""
        whole = json.dumps([sorted(places.items()), sorted(folders), sorted(files.items())])
        return cls(digest([whole]), places, tuple(folders), files)


class Lease(NamedTuple):
    """A group of tasks that one worker compiles one after another."""

    number: int
    build: str  # a unique name of the build
    process: str  # the worker's name for its process; empty if any process may compile the lease
    listing: str  # the digest of the listing of the files that the tasks read
    tasks: tuple[Task, ...]
    timeout_s: float  # time-out in seconds for each task
    memory: int  # bytes of memory that the compiler process may use; 0 for no limit


class Reply(NamedTuple):
    """The reply to a lease: a result for each task, or the reason why there are no results."""

    worker: str  # the name that the worker gives itself
    process: str
    number: int
    # the fields of each result, and its proof (a digest)
    results: tuple[tuple[dict[str, Any], str], ...] = ()
    refusal: str = ""


def with_proof(task: Task, listing: str, result: Result) -> tuple[dict[str, Any], str]:
    """Return the fields of a result, and the digest that proves to which task it belongs."""
    values = {name: getattr(result, name) for name in _TYPES}
    values["symbols"] = dict(result.symbols)
    return values, _proof(task, listing, result)


def checked_results(reply: object, lease: Lease) -> dict[int, Result]:
    """Return the results in a reply by task number; ValueError if the reply is wrong or damaged."""
    if not isinstance(reply, Reply) or reply.number != lease.number:
        raise ValueError("the worker replied to another lease")
    tasks = {task.id: task for task in lease.tasks}
    found: dict[int, Result] = {}
    for result, proof in _results(reply):
        task = tasks.get(result.id)
        if task is None or result.id in found:
            raise ValueError("the reply contains a result of an unknown task")
        if _proof(task, lease.listing, result) != proof:
            raise ValueError("the reply contains a damaged result")
        found[result.id] = replace(result, worker=reply.worker)
    if found.keys() != tasks.keys():
        raise ValueError("the reply does not contain all results")
    return found


def _results(reply: Reply) -> list[tuple[Result, str]]:
    """Return the results in a reply with their proofs; ValueError if the reply is not valid."""
    try:
        return [(_result(values), proof) for values, proof in reply.results]
    except (TypeError, ValueError):  # the reply may contain anything
        raise ValueError("the reply is damaged") from None


def _result(values: dict[str, Any]) -> Result:
    if {name: type(value) for name, value in {**values}.items()} != _TYPES:
        raise ValueError
    if {type(each) for item in values["symbols"].items() for each in item} - {str}:
        raise ValueError
    return Result(**values)


def _proof(task: Task, listing: str, result: Result) -> str:
    """Return a digest of a result, its task and the listing of files."""
    asked: list[str | bytes] = [task.kind, task.code, task.name, str(task.ptx)]
    came: list[str | bytes] = [str(result.ok), result.output, result.ptx, result.log]
    symbols = [each for item in sorted(result.symbols.items()) for each in item]
    return digest([listing, *map(digest, (asked, task.options, task.instantiate, came, symbols))])
