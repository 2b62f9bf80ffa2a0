"""How long the command line takes where nothing is compiled, against an interpreter that does nothing.

Processor time, the least of many runs: what else runs on the machine shows in the time that passes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 40
HATCH = """\
build-system = { requires = [], build-backend = "hatchling.build" }
[tool.hatch.build.hooks.cubin]
archs = ["sm_9x"]
"""
OTHER = """\
build-system = { requires = [], build-backend = "flit_core.buildapi" }
[tool.hatch-cubin]
arch = 1
"""
ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def processor_ms(*arguments: str) -> float:
    """Return the milliseconds that one process of this Python takes."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    subprocess.run([sys.executable, *arguments], env=ENVIRON, capture_output=True, check=False)
    return (used() - before) * 1000


def main() -> None:
    """Print a line for each command; they are run in turn, so that a slow minute hits all."""
    with tempfile.TemporaryDirectory() as folder:
        commands = {
            "python -c pass": ("-c", "pass"),
            "python -c 'import argparse, tomllib'": ("-c", "import argparse, tomllib"),
            "hatch-cubin --help": ("-m", "hatch_cubin", "--help"),
            "hatch-cubin plan --help": ("-m", "hatch_cubin", "plan", "--help"),
        }
        for name, text in (("Hatch's", HATCH), ("another's", OTHER)):
            project = Path(folder, name)
            project.mkdir()
            (project / "pyproject.toml").write_text(text, "utf-8")
            commands[f"hatch-cubin plan, {name} wrong table"] = (
                *("-m", "hatch_cubin", "plan", "--project"),
                str(project),
            )
        runs = [[processor_ms(*arguments) for arguments in commands.values()] for _ in range(RUNS)]
    times = [min(each) for each in zip(*runs, strict=True)]
    for name, time in zip(commands, times, strict=True):
        print(f"{name:40} {time:6.1f} ms  {time / times[0]:4.1f} x")


if __name__ == "__main__":
    main()
