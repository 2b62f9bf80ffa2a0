"""The finder that comes with some editable installs: it finds one bundle, and nothing else."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from hatch_cubin.loader import finder


def test_it_finds_the_bundle_in_the_tree_for_as_long_as_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    finder.find("some_package", str(tmp_path))
    assert importlib.util.find_spec("some_package") is None
    (tmp_path / "__init__.py").touch()
    found = importlib.util.find_spec("some_package")
    assert found is not None
    assert found.origin == str(tmp_path / "__init__.py")
    assert found.submodule_search_locations == [str(tmp_path)]
    assert importlib.util.find_spec("another_package") is None
