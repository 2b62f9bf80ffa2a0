"""A process that stores results for a build that has many. It continues when the build has ended."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO

from ..cache.entries import Cache, CacheEntry
from ..toolkit.worker import receive, send

THREADS = 16  # as many as a disk serves well together; each is started when it is needed


def main() -> None:
    """Store the results that a build sends, in the folder named on the command line."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # output of libraries must not get between the answers
    serve(sys.stdin.buffer, answers, Path(sys.argv[1]))


def serve(requests: BinaryIO, answers: BinaryIO, folder: Path) -> None:
    """Store results until the requests end. Report each one when it is stored."""
    fault, one_at_a_time = list[str](), threading.Lock()  # only the first fault is reported
    cache = Cache(folder, None, fault.append)

    def say(answer: dict[str, Any]) -> None:
        with one_at_a_time, contextlib.suppress(OSError):  # if the build has ended, the rest is stored anyway
            send(answers, answer)

    def store(request: dict[str, Any]) -> None:
        try:
            for pair in request["pairs"]:
                cache.store(CacheEntry(*pair))
        except Exception:  # noqa: BLE001 - the build then stores it itself, and reports the fault
            say({"id": None, "fault": None})
        else:
            say({"id": request["id"], "fault": fault[0] if fault else None})

    say({"ready": True})
    with ThreadPoolExecutor(THREADS) as threads, contextlib.suppress(ConnectionError):
        if (first := receive(requests)) is not None:
            store(first)  # imports cuda.core, which several threads must not do at once
        while (request := receive(requests)) is not None:
            threads.submit(store, request)
