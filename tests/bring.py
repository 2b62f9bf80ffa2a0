"""Run the tests on a machine that is rare among developers, and write a report to attach to an issue.

    hatch run bring [FOLDER]

The report has all versions, the output of the tests and, if the machine has a GPU, what day.py found on it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.capabilities import CAPABILITIES
from tests.gpu.pack_day import pack_day
from tests.helpers import REPOSITORY

VERSIONS = (sys.executable, "-m", "hatch_cubin", "--version", "--verbose")
TESTS = (sys.executable, "-m", "pytest", "-n", "auto", "-rfEs", "tests/unit", "tests/standin", "tests/build")


def bring(folder: Path, tests: Sequence[str] = TESTS) -> int:
    """Write `versions.txt`, `tests.txt` and, with a GPU, `gpu.json`. Return 1 if a test or a step failed."""
    folder.mkdir(parents=True, exist_ok=True)
    failed = [_write(folder / "versions.txt", VERSIONS), _write(folder / "tests.txt", tests)]
    if CAPABILITIES["gpu"]():
        with tempfile.TemporaryDirectory() as name:
            pack_day(Path(name), cuda12=True)
            command = (sys.executable, f"{name}/day.py", "--report", str(folder.absolute() / "gpu.json"))
            failed.append(_write(folder / "gpu.txt", command))
    return int(any(failed))


def _write(file: Path, command: Sequence[str]) -> int:
    with file.open("wb") as output:
        return subprocess.run(
            command, cwd=REPOSITORY, stdout=output, stderr=subprocess.STDOUT, check=False
        ).returncode


def main() -> None:
    """Write the report, and print its folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("bring"))
    folder = parser.parse_args().folder
    code = bring(folder)
    sys.stdout.write(f"attach the files in {folder} to an issue\n")
    sys.exit(code)


if __name__ == "__main__":
    main()
