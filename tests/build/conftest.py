"""The wheel of hatch-cubin itself, where every front end's isolated build finds it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.helpers import REPOSITORY, run


@pytest.fixture(scope="session")
def own_wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with hatch-cubin's own wheel, built once."""
    folder = tmp_path_factory.mktemp("wheels")
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation")
    run(*pip, "-w", folder, REPOSITORY, cwd=folder)
    return folder


@pytest.fixture
def isolated(own_wheels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let isolated builds install hatch-cubin from its own wheel."""
    for variable, separator in {"PIP_FIND_LINKS": " ", "UV_FIND_LINKS": ","}.items():
        known = os.environ.get(variable)
        monkeypatch.setenv(variable, separator.join(filter(None, (str(own_wheels), known))))


@pytest.fixture(scope="session")
def compiled_before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache of all tests that want only what is around their kernels: each kernel is compiled once."""
    return tmp_path_factory.mktemp("compiled-before")


@pytest.fixture
def warm(compiled_before: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take kernels as they were compiled for another test: what is built of them is this test's claim."""
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(compiled_before))


class Venv:
    """A virtual environment with what a test puts into it, and nothing else."""

    def __init__(self, folder: Path) -> None:
        run(sys.executable, "-m", "uv", "venv", "--python", sys.executable, folder, cwd=folder.parent)
        self.python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")

    def install(self, *what: str | Path) -> None:
        self.uv("install", *what)

    def uv(self, *arguments: str | Path) -> str:
        command = (sys.executable, "-m", "uv", "pip", arguments[0], "--python", self.python)
        return run(*command, *arguments[1:], cwd=self.python.parent).stdout

    def run(self, *arguments: str | Path) -> str:
        """Return what this environment's Python prints, in a folder with nothing to import."""
        return run(self.python, *arguments, cwd=self.python.parent).stdout


@pytest.fixture
def venv(tmp_path: Path) -> Venv:
    """A new virtual environment."""
    return Venv(tmp_path / "venv")
