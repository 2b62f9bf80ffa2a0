"""Bake a project with compilers that only sleep, and print what that took the first process.

    python benchmarks/idle_compiler.py CUBIN SECONDS

Every worker is a real process with the real one's framing. In place of compiling it sleeps, and gives the
bytes of a file. It counts the time from one answer to the next: what is longer than the sleep, it waited.
"""

from __future__ import annotations

import functools
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

_WORKER = """\
import sys, time
sys.path.insert(0, {folder!r})
import worker

output, last = open({cubin!r}, "rb").read(), None

def compile_task(task):
    global last
    time.sleep({seconds})
    before, last = last, time.perf_counter()
    cycle = {seconds} if before is None else last - before
    return {{"id": task["id"], "ok": True, "output": output, "log": "", "symbols": {{}}, "seconds": cycle}}

worker.compile_task = compile_task
worker.main()
"""


def main() -> None:
    """Bake, with the script of a worker that sleeps; print JSON."""
    cubin, seconds = sys.argv[1], float(sys.argv[2])
    from hatch_cubin.cli import main as cli
    from hatch_cubin.compiling import executor
    from hatch_cubin.toolkit import worker

    with tempfile.TemporaryDirectory() as folder:
        script, report = Path(folder) / "worker.py", Path(folder) / "report.json"
        script.write_text(
            _WORKER.format(folder=os.path.dirname(worker.__file__), cubin=cubin, seconds=seconds)
        )
        executor.Setup = functools.partial(executor.Setup, script=str(script))  # type: ignore[assignment, misc]
        os.environ["HATCH_CUBIN_REPORT"] = str(report)
        sys.argv[1:] = ["bake"]
        start = time.perf_counter()
        code = cli.main()
        wall = time.perf_counter() - start
        cycles = [unit["seconds"] for unit in json.loads(report.read_text())["units"]]
    used = resource.getrusage(resource.RUSAGE_SELF)
    facts = {"cpu": used.ru_utime + used.ru_stime, "wall": wall, "units": len(cycles)}
    print(json.dumps({**facts, "busy": seconds * len(cycles) / sum(cycles)}))
    sys.exit(code)


if __name__ == "__main__":
    main()
