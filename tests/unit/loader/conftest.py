"""Fixtures of the tests of the loader."""

from __future__ import annotations

import types
from pathlib import Path

import pytest

from tests.standin import make_driver

from .doubles import put_into_place


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver and an NVML of which the environment says what they answer."""
    return make_driver(tmp_path_factory.mktemp("stub") / "libraries")


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    """Put a cuda.core into place that records what it is given."""
    return put_into_place(monkeypatch)
