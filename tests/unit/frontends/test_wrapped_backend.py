"""The backend inside of ours: where it is found, and what is said where it is not."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.config.config import Config, parse_config
from hatch_cubin.config.table_location import own_table
from hatch_cubin.errors import ConfigError
from hatch_cubin.frontends import wrapped_backend
from tests.helpers import Coded, refusal, write_tree

WRAPPED = '[build-system]\nbuild-backend = "hatch_cubin.backend"\n[tool.hatch-cubin]\n'


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what is imported here."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


def config(root: Path, options: str, system: str = WRAPPED) -> Config:
    write_tree(root, {"pyproject.toml": f"{system}{options}\n"})
    return parse_config(*own_table(root), {})


def test_it_is_an_installed_module(tmp_path: Path) -> None:
    assert (
        wrapped_backend.load(config(tmp_path, 'backend = "hatchling.build"'), tmp_path)
        is sys.modules["hatchling.build"]
    )


def test_it_may_be_an_object_inside_of_a_module_of_the_project(tmp_path: Path) -> None:
    text = "class Backends:\n    class legacy:\n        build_wheel = 7\n"
    write_tree(tmp_path, {"tools/_build.py": text, "other/_build.py": ""})
    options = 'backend = "_build:Backends.legacy"\nbackend-path = ["tools", "other"]'
    for _again in range(2):
        assert wrapped_backend.load(config(tmp_path, options), tmp_path).build_wheel == 7
    assert sys.path[:2] == [str(tmp_path / "tools"), str(tmp_path / "other")]


@pytest.mark.parametrize(
    ("options", "code", "values"),
    [
        (
            'backend = "no_such.api"',
            "backend-not-installed",
            [
                "the build backend 'no_such.api'",
                'add "no-such" to requires in [build-system]',
            ],
        ),
        (
            'backend = "flit_core"',
            "not-a-build-backend",
            [
                "'flit_core' is not a build backend: it does not have 'build_wheel'",
                'backend = "flit_core.buildapi"',
            ],
        ),
        ('backend = "json"', "not-a-build-backend", ["'json'"]),
        (
            'backend = "no_such"\nbackend-path = ["tools"]',
            "backend-not-installed",
            ["'no_such'", "check that one of the folders in 'backend-path' contains the module 'no_such'"],
        ),
        (
            'backend = "_needs"\nbackend-path = ["tools"]',
            "backend-import-failed",
            ["the build backend '_needs' cannot be imported: No module named 'no_such_module'"],
        ),
        ('backend = "hatchling.build:Nothing"', "not-a-build-backend", ["'hatchling.build'", "'Nothing'"]),
    ],
)
def test_one_that_cannot_be_used_is_told(tmp_path: Path, options: str, code: str, values: list[str]) -> None:
    write_tree(tmp_path, {"tools/_needs.py": "import no_such_module\n"})
    error = refusal(ConfigError, wrapped_backend.load, config(tmp_path, options), tmp_path)
    assert [*error.problems] == [Coded(code, "pyproject.toml:4", *values)]


def test_a_mistake_in_a_backend_of_the_project_is_told_as_it_is(tmp_path: Path) -> None:
    write_tree(tmp_path, {"_mistaken.py": "import sys\nsys.no_such_thing\n"})
    with pytest.raises(AttributeError, match="no_such_thing"):
        wrapped_backend.load(config(tmp_path, 'backend = "_mistaken"\nbackend-path = ["."]'), tmp_path)


@pytest.mark.parametrize(
    ("backend", "hint"),
    [
        ("mesonpy", 'add "meson-python" to requires in [build-system]'),
        ("pdm.backend", 'add "pdm-backend" to requires in [build-system]'),
        ("uv", 'backend = "uv_build"'),
        ("flit_core.build", 'backend = "flit_core.buildapi"'),
    ],
)
def test_one_that_is_known_is_named_as_it_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, hint: str
) -> None:
    monkeypatch.setitem(sys.modules, backend.partition(".")[0], None)  # not installed
    error = refusal(ConfigError, wrapped_backend.load, config(tmp_path, f'backend = "{backend}"'), tmp_path)
    assert [*error.problems] == [Coded("backend-not-installed", "pyproject.toml:4", repr(backend), hint)]


def test_without_our_backend_around_it_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        wrapped_backend.load(config(tmp_path, "", "[tool.hatch-cubin]\n"), tmp_path)
    assert str(caught.value) == (
        "pyproject.toml:1: 'build-backend' in [build-system] is not hatch_cubin.backend\n"
        '  hint: build-backend = "hatch_cubin.backend"'
    )
