"""How long the command line takes where nothing is compiled, against an interpreter that does nothing.

Processor time, the least of many runs: what else runs on the machine shows in the time that passes.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

RUNS = 25
WRONG = (
    'build-system = { requires = [], build-backend = "flit_core.buildapi" }\n[tool.hatch-cubin]\narch = 1\n'
)


def processor_ms(*arguments: str, cwd: str) -> float:
    """Return the milliseconds that one process of this Python takes."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before = used()
    subprocess.run([sys.executable, *arguments], cwd=cwd, capture_output=True, check=False)
    return (used() - before) * 1000


def main() -> None:
    """Print a line for each command."""
    commands = {
        "python -c pass": ("-c", "pass"),
        "hatch-cubin --help": ("-m", "hatch_cubin", "--help"),
        "hatch-cubin plan --help": ("-m", "hatch_cubin", "plan", "--help"),
        "hatch-cubin plan, wrong table": ("-m", "hatch_cubin", "plan"),
    }
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").write_text(WRONG, "utf-8")
        times = {
            name: min(processor_ms(*arguments, cwd=folder) for _ in range(RUNS))
            for name, arguments in commands.items()
        }
    least = times["python -c pass"]
    for name, time in times.items():
        print(f"{name:30} {time:6.1f} ms  {time / least:4.1f} x")


if __name__ == "__main__":
    main()
