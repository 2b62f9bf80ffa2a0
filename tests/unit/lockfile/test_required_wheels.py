"""A build whose front end installs hatch-cubin too late to ask it for the compiler."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.errors import ToolchainError, problem
from hatch_cubin.lockfile import required_wheels
from tests.helpers import Coded, pyproject, write_tree

LATE = 'requires = ["hatchling", "hatch-cubin"]; without build isolation, install the compiler yourself'
INSTALL = problem("ptxas-not-found", "no ptxas", hint="pip install ptxas")
OTHER = problem("compiler-error", "no such name", hint="correct the name")


@pytest.mark.parametrize(
    ("requires", "hints"),
    [
        ('"hatchling", "hatch-cubin"', ["pip install ptxas", "correct the name"]),
        ('"hatchling"', [LATE, "correct the name"]),
    ],
)
def test_a_wheel_that_nobody_could_ask_for_is_missing_for_this_reason(
    tmp_path: Path, requires: str, hints: list[str]
) -> None:
    text = pyproject('dependencies = ["hatch-cubin"]', requires=requires)
    write_tree(tmp_path, {"pyproject.toml": text})
    with pytest.raises(ToolchainError) as caught, required_wheels.explain_late_install(tmp_path):
        raise ToolchainError(INSTALL, OTHER)
    assert [each.hint for each in caught.value.problems] == hints


def test_setup_requires_keeps_setuptools_from_asking(tmp_path: Path) -> None:
    text = pyproject("", requires='"setuptools", "hatch-cubin"')
    late = required_wheels.installed_late(write_tree(tmp_path, {"pyproject.toml": text}), ["numpy"])
    hint = 'remove setup_requires, and write requires = ["setuptools", "hatch-cubin", "numpy"]; '
    assert late == Coded("hatch-cubin-not-required", "pyproject.toml:2", "setup_requires", hint)


def test_setuptools_is_what_a_project_without_a_build_backend_is_built_with(tmp_path: Path) -> None:
    late = required_wheels.installed_late(write_tree(tmp_path, {"pyproject.toml": "[tool.hatch-cubin]\n"}))
    assert late == Coded(
        "hatch-cubin-not-required", "pyproject.toml", 'requires = ["setuptools", "hatch-cubin"]'
    )
