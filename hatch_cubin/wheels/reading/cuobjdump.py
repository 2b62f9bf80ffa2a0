"""Run cuobjdump, NVIDIA's own tool that reads cubins, if it is installed."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from ...common import temporary_folders

_USAGE = re.compile(r"^ Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+)", re.MULTILINE)


def find_cuobjdump(environ: Mapping[str, str]) -> str | None:
    """Return the path of cuobjdump, or None if it is not installed."""
    return find_tool("cuobjdump", environ)


def find_tool(name: str, environ: Mapping[str, str]) -> str | None:
    """Return the path of an NVIDIA tool: on PATH, in CUDA_HOME, or in an installed wheel of NVIDIA."""
    places = [environ.get("PATH", os.defpath)]
    if home := environ.get("CUDA_HOME"):
        places.append(os.path.join(home, "bin"))
    nvidia = importlib.util.find_spec("nvidia")
    for folder in (nvidia and nvidia.submodule_search_locations) or []:
        places += sorted(map(str, Path(folder).glob("*/bin")), reverse=True)
    return shutil.which(name, path=os.pathsep.join(places))


def fallback_reader(environ: Mapping[str, str]) -> Callable[[bytes], dict[str, dict[str, int]]] | None:
    """Return a function that reads cubins with cuobjdump, or None if cuobjdump is not installed.

    The returned function is used for cubins that `cubin/elf.py` cannot read.
    """
    program = find_cuobjdump(environ)
    return None if program is None else lambda data: read_usage(program, data)


def read_usage(program: str, data: bytes) -> dict[str, dict[str, int]]:
    """Return the resources of each kernel by symbol, like `elf.read_resources` but without register spills.

    Raise ValueError if cuobjdump cannot read the cubin. cuobjdump reads one file at a time, and takes some
    milliseconds for each file.
    """
    with temporary_folders.make() as folder:
        path = folder / "code.cubin"
        path.write_bytes(data)
        try:
            output = subprocess.run(  # noqa: S603
                [program, "-res-usage", str(path)], capture_output=True, check=True, timeout=60
            ).stdout
        except (OSError, subprocess.SubprocessError) as exc:
            raise ValueError(f"cannot be read by {program}: {exc}") from exc
    return {
        name: {"registers": int(registers), "shared": int(shared), "stack": int(stack)}
        for name, registers, stack, shared in _USAGE.findall(output.decode("utf-8", "replace"))
    }
