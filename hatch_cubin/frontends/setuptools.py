"""The entry point for setuptools.

setuptools imports this module in every build, even in builds of projects that do not use hatch-cubin, so slow
modules are imported only if a project has kernels.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from setuptools import Distribution


def finalize(distribution: Distribution) -> None:
    """Let setuptools build the kernels if the project's pyproject.toml has a configuration of hatch-cubin."""
    try:
        text = Path(distribution.src_root or os.curdir, "pyproject.toml").read_text("utf-8")
    except (OSError, ValueError):
        return
    if "cubin" in text:
        from . import setuptools_commands

        setuptools_commands.add_kernels(distribution)


def packages_of(root: Path) -> dict[str, str]:
    """Return the top-level packages of the project at *root*, each with its folder.

    setuptools runs in a separate process, because setup.py is a program that depends on the current folder.
    """
    import importlib.util
    import json
    import subprocess
    import sys

    from ..common import temporary_folders
    from ..errors import ConfigError, Location, problem

    here = Location("pyproject.toml")
    if importlib.util.find_spec("setuptools") is None:
        what = "this project's build backend, setuptools, is not installed here"
        raise ConfigError(problem("backend-not-installed", what, here, "pip install setuptools"))
    script = (
        ["setup.py"] if (root / "setup.py").is_file() else ["-c", "import setuptools; setuptools.setup()"]
    )
    with temporary_folders.make() as folder:
        answer = folder / "packages"  # a file, because setup.py may write other text to standard output
        command = [sys.executable, *script, "-q", "cubin_packages", f"--into={answer}"]
        done = subprocess.run(  # noqa: S603
            command, cwd=root, capture_output=True, text=True, errors="replace", check=False
        )
        if done.returncode or not answer.is_file():  # the file is missing if setup.py does not call `setup`
            what = "setuptools cannot build this project, so its packages are unknown"
            raise ConfigError(
                problem("project-not-buildable", what, here, details=tuple(_reason(done.stderr)))
            )
        packages: dict[str, str] = json.loads(answer.read_text("utf-8"))
    return packages


def _reason(stderr: str) -> list[str]:
    """Return the lines of setuptools' last error message, or the last lines if there is no such message."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    errors = [number for number, line in enumerate(lines) if line.startswith("error: ")]
    return lines[errors[-1] :] if errors else lines[-5:]
