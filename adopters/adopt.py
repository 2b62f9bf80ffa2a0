"""Build real libraries with hatch-cubin, and find their kernels in an environment without a compiler.

    hatch run adopters [--folder FOLDER] [NAME ...]

Each library in libraries.toml is downloaded as an sdist, changed by its patch, and built by its own build
backend. The results go to results.json, and to the page docs/reference/adopters.md. The exit code is 1 if a
library failed.
"""

from __future__ import annotations

import argparse
import datetime as dt
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

import page

HERE = Path(__file__).parent
REPOSITORY = HERE.parent
CAPABILITIES = ("8.6", "9.0", "10.3", "12.0")
# What `hatch-cubin verify --rebuild` needs, besides the build requirements of the library: the compiler, and
# the headers that the patches name.
REBUILD = (
    *("cuda-core>=1.2,<2", "cuda-bindings==13.*", "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*"),
    "cupy-cuda13x",
)

Row = dict[str, Any]


class Work:
    """The folder of one library, and the log of the programs that run for it."""

    def __init__(self, folder: Path, row: Row, links: Path) -> None:
        self.folder = folder
        self.row = row
        self.links = links  # the folder with the wheel of hatch-cubin
        self.step = ""
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / "log.txt"

    def run(self, *command: str | Path, text: str = "", **variables: str) -> str:
        """Run a program, and return what it printed. `CalledProcessError` if the program failed."""
        environment = {**os.environ, "HATCH_CUBIN_CACHE_DIR": str(self.folder / "cache"), **variables}
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(map(str, command))}\n")
            log.flush()
            done = subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                input=text,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
            log.write(done.stdout)
        done.check_returncode()
        return done.stdout

    def python(self, name: str, *installs: Sequence[str | Path]) -> Path:
        """Return the Python of a new virtual environment, after one `pip install` for each of *installs*."""
        self.run(sys.executable, "-m", "venv", "--clear", self.folder / name)
        python = self.folder / name / "bin/python"
        for install in installs:
            self.run(python, "-m", "pip", "install", "-q", "--find-links", self.links, *install)
        return python

    def empty(self, name: str) -> Path:
        """Return the path of a folder that does not exist any more."""
        shutil.rmtree(self.folder / name, ignore_errors=True)
        return self.folder / name


def download(row: Row, folder: Path) -> Path:
    """Return the sdist of a library. pip compares the digest before it runs code of the sdist."""
    folder.mkdir(parents=True, exist_ok=True)
    pins = folder / "requirements.txt"
    pins.write_text(f"{row['name']}=={row['version']} --hash=sha256:{row['sha256']}\n", "utf-8")
    kept = [path for path in folder.glob("*.tar.gz") if _digest(path) == row["sha256"]]
    if not kept:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", row["name"]]
        subprocess.run([*command, "--require-hashes", "-r", pins, "-d", folder], check=True)
        kept = [*folder.glob("*.tar.gz")]
    return kept[0]


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def unpack(archive: Path, folder: Path) -> Path:
    """Return the root folder of an sdist, which is unpacked into *folder*."""
    with tarfile.open(archive) as files:
        files.extractall(folder, filter="data")
    (root,) = folder.iterdir()
    return root


def patch_of(row: Row) -> Path:
    """Return the path of the patch of a library."""
    return HERE / "patches" / f"{row['name']}.patch"


def apply_patch(patch: Path, root: Path) -> None:
    """Change the files below *root*. `CalledProcessError`, and no change, if a part does not fit."""
    outside = {**os.environ, "GIT_CEILING_DIRECTORIES": str(root.parent)}  # of the repository around *root*
    command = [
        "git",
        "apply",
        "-p1",
        "--ignore-space-change",
        str(patch.absolute()),
    ]  # and with any line ends
    subprocess.run(command, cwd=root, env=outside, check=True)


def changed_lines(patch: str) -> list[int]:
    """Return how many lines a patch adds, and how many it removes."""
    return [len(re.findall(rf"^{sign}(?!{sign * 2} )", patch, re.MULTILINE)) for sign in (r"\+", "-")]


def build(work: Work, root: Path, name: str) -> tuple[Path, float]:
    """Return the wheel that the library's own build backend makes, and the seconds that pip took."""
    folder = work.empty(name)
    pip = (
        work.folder / "pip/bin/python",
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--find-links",
        work.links,
    )
    begin = time.monotonic()
    work.run(*pip, "-w", folder, root, HATCH_CUBIN_REPORT=f"{folder}.json")
    seconds = time.monotonic() - begin
    (wheel,) = folder.glob("*.whl")
    return wheel, round(seconds, 1)


def record(work: Work, root: Path) -> None:
    """Record the calls of CuPy in the source tree, with a test that requests the kernels. It needs no GPU."""
    wheel, _ = build(work, root, "wheel-without-kernels")
    python = work.python("record", work.row["requires"], [wheel, "hatch-cubin[pytest]"])
    test = work.folder / "test_record.py"
    lines = textwrap.indent(work.row["kernels"], " " * 8)
    test.write_text(
        f"import contextlib\ndef test():\n    with contextlib.suppress(Exception):\n{lines}", "utf-8"
    )
    work.run(python, "-m", "pytest", "-q", test, "--record-cubins", root / work.row["recorded"])


def adopt(work: Work, say: Callable[[str], None]) -> Row:
    """Return the figures of one library. `CalledProcessError` if a step failed."""

    def step(name: str) -> None:
        work.step = name
        say(f"{work.row['name']}: {name}")

    row = work.row
    step("download")
    archive = download(row, work.folder / "sdist")
    step("build without hatch-cubin")
    work.python("pip")
    before, seconds_before = build(work, unpack(archive, work.empty("before")), "wheel-before")
    step("patch")
    root = unpack(archive, work.empty("after"))
    apply_patch(patch_of(row), root)
    if row.get("recorded"):
        step("record the calls")
        record(work, root)
    step("build with an empty cache")
    work.empty("cache")
    wheel, cold = build(work, root, "wheel-cold")
    step("build with a filled cache")
    _, warm = build(work, root, "wheel-warm")
    if json.loads((work.folder / "wheel-warm.json").read_text("utf-8"))["compiled"]:
        raise ValueError("the second build compiled units again")
    step("check and verify --rebuild")
    backend = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["build-system"]["requires"]
    tool = (work.python("tool", ["hatch-cubin[cli]", *REBUILD, *backend]), "-m", "hatch_cubin")
    work.run(*tool, "check", wheel, "--project", root)
    work.run(*tool, "verify", wheel, "--rebuild", "--project", root)
    step("find the kernels without a compiler")
    alone = ["--no-deps", *row["without-dependencies"]] if "without-dependencies" in row else []
    python = work.python("run", row["requires"], [*alone, wheel])
    found = json.loads(
        work.run(python, HERE / "probe.py", row["package"], *CAPABILITIES, text=row["kernels"])
    )
    report = json.loads((work.folder / "wheel-cold.json").read_text("utf-8"))
    return {
        "kernels": found["kernels"],
        "units": report["compiled"],
        "compiling": round(sum(unit["seconds"] for unit in report["units"]), 1),
        "seconds": [seconds_before, cold, warm],
        "bytes": [before.stat().st_size, wheel.stat().st_size],
        "lines": changed_lines(patch_of(row).read_text("utf-8")),
        "python": found["python"],
        "toolchain": toolchain(wheel),
    }


def toolchain(wheel: Path) -> Row:
    """Return the versions that the manifest of a wheel names."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith("_cubins/manifest.json"))
        manifest = json.loads(archive.read(name))
    return {"hatch-cubin": manifest["generator"]["version"], **manifest["toolchain"]}


def libraries() -> list[Row]:
    """Return the rows of libraries.toml."""
    rows: list[Row] = tomllib.loads((HERE / "libraries.toml").read_text("utf-8"))["library"]
    return rows


def fingerprint(row: Row) -> str:
    """Return a digest of a row and of its patch: a result is for these, and is old if they were edited."""
    described = {key: value for key, value in row.items() if key not in {"kind", "missing"}}
    data = json.dumps(described, sort_keys=True).encode() + patch_of(row).read_bytes()
    return hashlib.sha256(data).hexdigest()[:16]


def results() -> dict[str, Row]:
    """Return the committed results, by the name of the library."""
    read: dict[str, Row] = json.loads((HERE / "results.json").read_text("utf-8"))
    return read


def write(found: Mapping[str, Row]) -> None:
    """Write the results, and their page."""
    (HERE / "results.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    (REPOSITORY / page.PAGE).write_text(page.text(libraries(), found), "utf-8")


def main() -> None:
    """Adopt the libraries, one after another, and write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="by default all")
    parser.add_argument("--folder", type=Path, help="keep everything there, by default nothing is kept")
    arguments = parser.parse_args()
    rows = [row for row in libraries() if row["name"] in (arguments.names or [row["name"]])]
    with tempfile.TemporaryDirectory() as temporary:
        folder = (arguments.folder or Path(temporary)).absolute()
        links = folder / "links"
        shutil.rmtree(links, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", links, REPOSITORY]
        subprocess.run(pip, check=True)
        failed = False
        for row in rows:
            work = Work(folder / row["name"], row, links)
            result = {"date": f"{dt.datetime.now(dt.timezone.utc):%Y-%m-%d}", "of": fingerprint(row)}
            try:
                result |= adopt(work, print)
            except (subprocess.CalledProcessError, OSError, ValueError) as exc:
                print(f"{row['name']}: failed: {exc}; see {work.log}")
                result["failed"], failed = work.step, True
            write({**results(), row["name"]: result})
    sys.exit(failed)


if __name__ == "__main__":
    main()
