"""Store the results of a build in the cache, in a separate process that may outlive the build."""

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

THREADS = 16  # How many results are written at the same time. Disks handle several writes at once well.


def main() -> None:
    """Receive results from a build, and store them in the cache folder that a command-line argument names."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # Libraries must print to standard error, because standard output carries the answers.
    serve(sys.stdin.buffer, answers, Path(sys.argv[1]))


def serve(requests: BinaryIO, answers: BinaryIO, folder: Path) -> None:
    """Read results from the stream *requests*, store each result, and report that the result is stored."""
    # If the cache cannot be written, only the first error is reported.
    fault, one_at_a_time = list[str](), threading.Lock()
    cache = Cache(folder, None, fault.append)

    def say(answer: dict[str, Any]) -> None:
        # If the main process of the build has ended, no process reads the answer. The remaining results are
        # stored anyway.
        with one_at_a_time, contextlib.suppress(OSError):
            send(answers, answer)

    def store(request: dict[str, Any]) -> None:
        try:
            for pair in request["pairs"]:
                cache.store(CacheEntry(*pair))
        except Exception:  # noqa: BLE001 - the build's main process then stores the result
            say({"id": None, "fault": None})
        else:
            say({"id": request["id"], "fault": fault[0] if fault else None})

    say({"ready": True})
    with ThreadPoolExecutor(THREADS) as threads, contextlib.suppress(ConnectionError):
        if (first := receive(requests)) is not None:
            # The first result is stored before other threads start: storing imports cuda.core, which several
            # threads must not import at once.
            store(first)
        while (request := receive(requests)) is not None:
            threads.submit(store, request)
