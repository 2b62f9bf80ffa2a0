"""The identity of a machine: all versions that must be the same for two machines to give the same results.

A build asks each worker of a cluster for the worker's identity before the first task. The worker determines
its identity in a separate process, because a process cannot unload NVRTC.
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
from ...toolkit.tile_assembler import wheels as tile_wheels
from ...toolkit.toolkit import DATA_MODEL, OTHER_MACHINE, Toolkit

_LIMIT_S = 60.0
_TOOLS = ("nvjitlink", "ptxas", "tileiras")
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
    """The versions and properties of a machine that can change the result of a task."""

    version: str  # the version of hatch-cubin
    schema: str
    code: str  # a digest of the code that must be the same on the worker and in the build
    data_model: str
    machine: str
    nvrtc: str
    nvjitlink: str | None = None  # the version of nvJitLink; None if the build does not link modules
    ptxas: str | None = None  # The version of ptxas; None if the build has no PTX sources.
    # The versions of tileiras and of its tools; None if the build has no tile kernels.
    tileiras: str | None = None

    @property
    def uses(self) -> tuple[str, ...]:
        """The tools besides NVRTC that the build needs."""
        return tuple(tool for tool in _TOOLS if getattr(self, tool) is not None)


class Installed(NamedTuple):
    """What is installed on a machine; *headers* maps the name of each header library to its folder."""

    identity: Identity
    libraries: tuple[str, ...]
    assembler: str
    tile_assembler: str
    headers: Mapping[str, str]

    @property
    def files(self) -> tuple[str, ...]:
        """The files of the compiler: its libraries, and ptxas and tileiras if the build needs them."""
        return (*self.libraries, *filter(None, (self.assembler, self.tile_assembler)))


def local_identity(toolkit: Toolkit) -> Identity:
    """Return the identity of this machine, with the versions of *toolkit*."""
    tools = (toolkit.nvrtc, toolkit.nvjitlink_if_loaded, toolkit.ptxas_if_used, toolkit.tileiras_if_used)
    return Identity(__version__, KEY_SCHEMA, CODE, DATA_MODEL, OTHER_MACHINE, *tools)


def difference(theirs: Identity, mine: Identity) -> str | None:
    """Return how a worker's identity differs from the build's identity; None if the identities are equal."""
    pairs = (
        ("hatch-cubin", theirs.version, mine.version),
        ("cache key format", theirs.schema, mine.schema),
        ("data model", theirs.data_model, mine.data_model),
        ("processor", theirs.machine or "x86_64", mine.machine or "x86_64"),
        ("NVRTC", theirs.nvrtc, mine.nvrtc),
        ("nvJitLink", theirs.nvjitlink, mine.nvjitlink or theirs.nvjitlink),
        ("tileiras", theirs.tileiras, mine.tileiras or theirs.tileiras),
    )
    for name, there, here in pairs:
        if there != here:
            return f"the worker has {name} {there}, but this build has {here}"
    if theirs.code != mine.code:
        return f"the worker's hatch-cubin {theirs.version} differs from this build's hatch-cubin"
    return None


def remedy(mine: Identity) -> str:
    """Return a hint with the command that installs the right versions on a worker."""
    major = mine.nvrtc.partition(".")[0]
    suffix = "" if int(major) >= 13 else f"-cu{major}"
    linker = [] if mine.nvjitlink is None else [f"nvidia-nvjitlink{suffix}=={mine.nvjitlink}"]
    assembler = [] if mine.ptxas is None else [assembler_wheel(int(major), mine.ptxas)]
    tile = [] if mine.tileiras is None else tile_wheels(".".join(mine.nvrtc.split(".")[:2]))
    wheels = [
        f"hatch-cubin=={mine.version}",
        "'cuda-core>=1.2,<2'",
        f"'cuda-bindings=={major}.*'",
        f"nvidia-cuda-nvrtc{suffix}=={mine.nvrtc}",
        *linker,
        *assembler,
        *tile,
    ]
    return f"on each worker: pip install {' '.join(wheels)}"


_answers: dict[tuple[str | None, tuple[str, ...]], tuple[Installed, Sequence[str | None]]] = {}


def find_installed(wanted: str | None, uses: tuple[str, ...]) -> Installed:
    """Find out, in a separate process, what is installed on this machine.

    *wanted* is "system" if the build uses the toolkit in CUDA_HOME, otherwise None. *uses* are the tools
    besides NVRTC that the build needs. Raise ValueError with the reason if this machine cannot compile.
    """
    asked = (wanted, uses)
    found, state = _answers.get(asked, (None, ()))
    if found is not None and state == _state(wanted, found.files):
        return found
    before = installed(wanted)
    answer = _asked([sys.executable, "-c", _MAIN, wanted or "", " ".join(uses), *sys.path])
    if "error" in answer:
        raise ValueError(answer["error"])
    identity = Identity(*answer["identity"])
    found = Installed(identity, tuple(answer["libraries"]), *(answer[name] for name in Installed._fields[2:]))
    _answers[asked] = found, [before, *_state(wanted, found.files)[1:]]
    return found


def _state(wanted: str | None, libraries: Sequence[str]) -> list[str | None]:
    """Return values that change if packages are installed, or if the compiler's files change."""
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
        return {"error": f"the worker's compiler did not start within {_LIMIT_S:g} s"}
    except OSError as exc:
        return {"error": f"the worker's compiler did not start: {exc.strerror}"}
    try:
        answer: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        said = done.stderr.decode("utf-8", "replace").strip().splitlines()
        return {
            "error": f"the worker's compiler did not start: {said[-1] if said else 'it printed no message'}"
        }
    return answer


def main(wanted: str, uses: str) -> None:
    """Print what is installed on this machine, as JSON."""
    print(json.dumps(_answer(wanted or None, uses.split())))  # noqa: T201 - the parent process reads it


def _answer(wanted: str | None, uses: Sequence[str]) -> dict[str, Any]:
    try:
        toolkit = Toolkit(wanted)
        for tool in uses:
            getattr(toolkit, tool)  # reading this attribute marks the tool as used
        roots = toolkit_roots(toolkit, system=wanted == "system", unpacks=False)
        return {
            "identity": local_identity(toolkit),
            "libraries": toolkit.libraries,
            "assembler": toolkit.assembler if "ptxas" in uses else "",
            "tile_assembler": toolkit.tile_assembler if "tileiras" in uses else "",
            "headers": {root.logical: str(root.path) for root in roots},
        }
    except HatchCubinError as exc:
        return {"error": exc.problems[0].what}


def _code() -> str:
    """Return a digest of the code that must be the same on the worker and in the build."""
    here = Path(__file__).parent
    return digest((here / name).read_bytes() for name in _CODE)


# The digest is computed at import, because an update of hatch-cubin may replace the files later.
CODE = _code()
