"""What the tests of the loader share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.drivers import make_driver


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a driver and an NVML whose answers the environment sets."""
    return make_driver(tmp_path_factory.mktemp("stub") / "libraries")
