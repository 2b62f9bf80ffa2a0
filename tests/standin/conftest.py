"""What the tests beside the stand-in share."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from . import make_driver, run_beside

Run = Callable[..., str]


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver and an NVML, of which the environment says what they answer."""
    if importlib.util.find_spec("cuda.core") is None:
        pytest.skip("this environment has no cuda.core")
    return make_driver(tmp_path_factory.mktemp("standin") / "libraries")


@pytest.fixture
def python(driver: Path, tmp_path: Path) -> Run:
    """Return what runs a program in the test's folder beside the driver, and gives what it printed."""

    def run(code: str, **environ: str) -> str:
        (tmp_path / "program.py").write_text(code)
        done = run_beside(driver, tmp_path, "program.py", **environ)
        assert not done.returncode, done.stderr
        return done.stdout.strip()

    return run
