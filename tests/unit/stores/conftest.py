"""What tests of stores ask."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shelf import Shelf, shelf


@pytest.fixture
def server() -> Iterator[Shelf]:
    with shelf() as server:
        yield server
