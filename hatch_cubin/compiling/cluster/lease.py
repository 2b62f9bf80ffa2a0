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
    """A list of all files that the compiles of a build can read, with the path of each file on a worker."""

    digest: str
    # For each file descriptor: the folder that the compiler process opens with this number.
    places: Mapping[int, str]
    folders: tuple[str, ...]  # The folders to create, even if they contain no file.
    # For each file, by path: its name in cache keys, and its digest.
    files: Mapping[str, tuple[str, str]]

    @classmethod
    def of(
        cls, places: Mapping[int, str], folders: Sequence[str], files: Mapping[str, tuple[str, str]]
    ) -> FileListing:
        """Make a file listing, and compute the digest that identifies the listing."""
        whole = json.dumps([sorted(places.items()), sorted(folders), sorted(files.items())])
        return cls(digest([whole]), places, tuple(folders), files)


class Lease(NamedTuple):
    """A group of tasks that one worker compiles one after another."""

    number: int
    build: str  # a unique name of the build
    # The identifier of the worker process that must compile the tasks. Empty if any worker process may
    # compile the tasks.
    process: str
    listing: str  # the digest of the `FileListing` with the files that the tasks read
    tasks: tuple[Task, ...]
    timeout_s: float  # the time limit for each task, in seconds
    memory: int  # How many bytes of memory the compiler process may use; 0 means no limit.


class Reply(NamedTuple):
    """The reply to a lease: a result for each task, or the reason why there are no results."""

    worker: str  # the host name and process number of the worker
    process: str
    number: int
    # For each task: the fields of the result, and a digest that proves to which task the result belongs.
    results: tuple[tuple[dict[str, Any], str], ...] = ()
    refusal: str = ""


def with_proof(task: Task, listing: str, result: Result) -> tuple[dict[str, Any], str]:
    """Return the fields of a result, and a digest that proves to which task the result belongs."""
    values = {name: getattr(result, name) for name in _TYPES}
    values["symbols"] = dict(result.symbols)
    return values, _proof(task, listing, result)


def checked_results(reply: object, lease: Lease) -> dict[int, Result]:
    """Return a mapping from task numbers to results; raise ValueError if the reply is wrong or damaged."""
    if not isinstance(reply, Reply) or reply.number != lease.number:
        raise ValueError("the reply belongs to a different group of tasks")
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
    """Return the results in a reply, and the digests that prove to which tasks the results belong."""
    try:
        return [(_result(values), proof) for values, proof in reply.results]
    except (TypeError, ValueError):  # A worker may send an object of any type.
        raise ValueError("the reply is damaged") from None


def _result(values: dict[str, Any]) -> Result:
    if {name: type(value) for name, value in {**values}.items()} != _TYPES:
        raise ValueError
    if {type(each) for item in values["symbols"].items() for each in item} - {str}:
        raise ValueError
    return Result(**values)


def _proof(task: Task, listing: str, result: Result) -> str:
    """Return a digest that covers *result*, its *task* and the *listing* of the files that the task reads."""
    asked: list[str | bytes] = [task.kind, task.code, task.name, str(task.ptx)]
    came: list[str | bytes] = [str(result.ok), result.output, result.ptx, result.log]
    symbols = [each for item in sorted(result.symbols.items()) for each in item]
    return digest([listing, *map(digest, (asked, task.options, task.instantiate, came, symbols))])
