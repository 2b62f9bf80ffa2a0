"""The identity of a compiling machine: everything that two machines must share to give the same results.

A build asks each worker of a cluster for its identity before the first task. The worker finds it out in a
separate process, because a process cannot unload NVRTC.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ... import __version__
from ...common.digest import digest
from ...common.environment import without_secrets
from ...errors import HatchCubinError
from ...headers.search_path import toolkit_roots
from ...keys.ingredients import KEY_SCHEMA
from ...project import disk
from ...toolkit.assembler import wheel as assembler_wheel
from ...toolkit.libraries import identity as installed
from ...toolkit.toolkit import DATA_MODEL, OTHER_MACHINE, Toolkit

_LIMIT_S = 60.0
_CODE = (
    "../executor.py",
    "../processes.py",
    "../../toolkit/worker.py",
    "lease.py",
    "worker_files.py",
    "worker_side.py",
)
_MAIN = f"""\
import sys
sys.path[:] = sys.argv[3:]
from {__name__} import main
main(*sys.argv[1:3])
"""


class Identity(NamedTuple):
    """Everything except the task itself that a result depends on."""

    version: str  # hatch-cubin's version
    schema: str
    code: str  # a digest of the code that runs on both sides
    data_model: str
    machine: str
    nvrtc: str
    nvjitlink: str | None = None  # if a module is linked
    ptxas: str | None = None  # if there are PTX sources


class Installed(NamedTuple):
    """The contents of a machine: its identity, the compiler's files, and its folders of headers by name."""

    identity: Identity
    libraries: tuple[str, ...]
    assembler: str
    headers: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """The files that the compiler consists of: the libraries, and ptxas if it is needed."""
        return (*self.libraries, self.assembler) if self.assembler else self.libraries


def local_identity(toolkit: Toolkit) -> Identity:
    """Return the identity of this machine with a toolkit."""
    tools = (toolkit.nvrtc, toolkit.nvjitlink_if_loaded, toolkit.ptxas_if_used)
    return Identity(__version__, KEY_SCHEMA, CODE, DATA_MODEL, OTHER_MACHINE, *tools)


def difference(theirs: Identity, mine: Identity) -> str | None:
    """Return how a worker differs from the identity that this build needs; None if it does not differ."""
    pairs = (
        ("hatch-cubin", theirs.version, mine.version),
        ("hatch-cubin with keys of", theirs.schema, mine.schema),
        ("data model", theirs.data_model, mine.data_model),
        ("processor", theirs.machine or "x86_64", mine.machine or "x86_64"),
        ("NVRTC", theirs.nvrtc, mine.nvrtc),
        ("nvJitLink", theirs.nvjitlink, mine.nvjitlink or theirs.nvjitlink),
    )
    for name, there, here in pairs:
        if there != here:
            return f"{name} {there}, this build has {here}"
    if theirs.code != mine.code:
        return f"another hatch-cubin {theirs.version} than this build's"
    return None


def remedy(mine: Identity) -> str:
    """Return the command that gives a worker the identity that this build needs."""
    major = mine.nvrtc.partition(".")[0]
    suffix = "" if int(major) >= 13 else f"-cu{major}"
    linker = [] if mine.nvjitlink is None else [f"nvidia-nvjitlink{suffix}=={mine.nvjitlink}"]
    assembler = [] if mine.ptxas is None else [assembler_wheel(int(major), mine.ptxas)]
    wheels = [
        f"hatch-cubin=={mine.version}",
        "'cuda-core>=1.2,<2'",
        f"'cuda-bindings=={major}.*'",
        f"nvidia-cuda-nvrtc{suffix}=={mine.nvrtc}",
        *linker,
        *assembler,
    ]
    return f"on each worker: pip install {' '.join(wheels)}"


_answers: dict[tuple[str | None, bool, bool], tuple[Installed, Sequence[str | None]]] = {}


def find_installed(wanted: str | None, *, links: bool, assembles: bool = False) -> Installed:
    """Return the contents of this machine, found out by another process.

    ValueError says why this machine cannot compile. *wanted* is "system" if the toolkit of CUDA_HOME is
    meant. nvJitLink is required if the build *links*, and ptxas if it *assembles*.
    """
    asked = (wanted, links, assembles)
    found, state = _answers.get(asked, (None, ()))
    if found is not None and state == _state(wanted, found.files):
        return found
    before = installed(wanted)
    uses = f"{'links ' * links}{'assembles' * assembles}"
    answer = _asked([sys.executable, "-c", _MAIN, wanted or "", uses, *sys.path])
    if "error" in answer:
        raise ValueError(answer["error"])
    identity = Identity(*answer["identity"])
    found = Installed(identity, tuple(answer["libraries"]), answer["assembler"], answer["headers"])
    _answers[asked] = found, [before, *_state(wanted, found.files)[1:]]
    return found


def _state(wanted: str | None, libraries: Sequence[str]) -> list[str | None]:
    """Return values that change when something is installed; the compiler's files may be outside wheels."""
    return [installed(wanted), *map(_stamp, libraries)]


def _stamp(library: str) -> str | None:
    try:
        return disk.state_from_status(os.stat(library))
    except OSError:
        return None


def _asked(command: Sequence[str]) -> dict[str, Any]:
    try:
        done = subprocess.run(  # noqa: S603 - our own script
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env=without_secrets(os.environ),
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"its compiler did not start within {_LIMIT_S:g} s"}
    except OSError as exc:
        return {"error": f"its compiler did not start: {exc.strerror}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return {"error": f"its compiler did not start: {said[-1] if said else 'it said nothing'}"}
    return answer


def main(wanted: str, uses: str) -> None:
    """Print the contents of this machine."""
    print(json.dumps(_answer(wanted or None, uses.split())))  # noqa: T201 - to the process that asked


def _answer(wanted: str | None, uses: Sequence[str]) -> dict[str, Any]:
    try:
        toolkit = Toolkit(wanted)
        if "links" in uses:
            _ = toolkit.nvjitlink
        if "assembles" in uses:
            _ = toolkit.ptxas
        roots = toolkit_roots(toolkit, system=wanted == "system", unpacks=False)
        return {
            "identity": local_identity(toolkit),
            "libraries": toolkit.libraries,
            "assembler": toolkit.assembler if "assembles" in uses else "",
            "headers": {root.logical: str(root.path) for root in roots},
        }
    except HatchCubinError as exc:
        return {"error": exc.problems[0].what}


def _code() -> str:
    """Return a digest of the code that both sides must share."""
    here = Path(__file__).parent
    return digest((here / name).read_bytes() for name in _CODE)


CODE = _code()  # at import, because the files may be replaced later
