"""A driver and an NVML without a device, what programs say beside them, and what reached them.

They show what this project asks of a driver. What a driver or a device does with it they cannot show.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.helpers import bundle, made, sha256, write_tree

HERE = Path(__file__).parent
OURS = ("CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH")  # the machine's own would show


@dataclass(frozen=True)
class Event:
    """One line of the log: a call of the driver's, or in capitals what it did."""

    process: int
    thread: int
    what: str
    device: int  # of the context that was current, -1 without one
    detail: str

    @property
    def sha256(self) -> str:
        """The digest of the code that reached the driver."""
        return sha256(bytes.fromhex(self.detail))


def make_driver(folder: Path, code: Path | None = None) -> Path:
    """Make a driver and an NVML, of other code where given, in a folder that `ask` takes."""
    folder.mkdir()
    sources = sorted(HERE.glob("*.c")) if code is None else [code]
    for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
        flags = ("-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread")
        subprocess.run(["gcc", *flags, "-o", folder / name, *sources, "-ldl"], check=True)
    return folder


def make_half_a_driver(folder: Path, *calls: str) -> Path:
    """Make a driver and an NVML that have these calls alone."""
    code = folder.with_suffix(".c")
    code.write_text("".join(f"int {call}(void) {{ return 0; }}\n" for call in calls))
    return make_driver(folder, code)


def ask(tmp_path: Path, code: str, libraries: Path | None, **environ: str) -> str:
    """Run *code* on a bundle in a process of its own and return what it printed."""
    package = tmp_path / "pkg"
    if not package.exists():
        install(package, bundle(made("k", "sm_90"), made("k", "compute_80")))
    code = f"import os\nfrom pkg import _cubins as cubins\n{code}"
    done = run_beside(libraries, tmp_path, "-c", code, **environ)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


def install(package: Path, files: dict[str, bytes]) -> None:
    """Write a package that has this bundle."""
    write_tree(package, {"__init__.py": "", **{f"_cubins/{name}": data for name, data in files.items()}})


def run_beside(
    libraries: Path | None, folder: Path, *arguments: str, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a folder, beside this driver, and return how it ended."""
    clean = {name: text for name, text in os.environ.items() if name not in OURS}
    searched = {} if libraries is None else {"LD_LIBRARY_PATH": str(libraries)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**clean, **searched, "STANDIN_LOG": str(folder / "log"), **environ},
        capture_output=True,
        text=True,
        check=False,
    )


def events(folder: Path, *kinds: str) -> list[Event]:
    """Return what the driver was asked and did, in its order; of these kinds alone where given."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [each for each in map(_parsed, lines) if not kinds or each.what in kinds]


def calls(folder: Path) -> list[str]:
    """Return the calls that reached the driver."""
    return [each.what for each in events(folder)]


def codes(found: Iterable[Event]) -> list[str]:
    """Return the digests of the code that reached the driver."""
    return [each.sha256 for each in found if each.what == "CODE"]


def _parsed(line: str) -> Event:
    process, thread, what, device, *detail = line.split(" ", 4)
    return Event(int(process), int(thread), what, int(device), *detail)
