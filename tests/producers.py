"""Small projects whose sources a script produces."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from hatch_cubin.project.project import Project
from tests.helpers import make_project

GEN = "demo/gen.py"
KERNEL = 'extern "C" __global__ void {name}(float *x) {{ x[0] = {value}; }}\n'
SCRIPT = f"""\
def sources():
    return {{"one.cu": {KERNEL.format(name="one", value=1)!r}}}
"""


def producer_table(options: str = "", path: str = GEN) -> str:
    """Return a table of one producer, with these further lines."""
    return f'[[tool.hatch.build.hooks.cubin.producer]]\npath = "{path}"\n{options}'


def producer_project(
    root: Path,
    script: str = SCRIPT,
    options: str = "",
    files: Mapping[str, str | bytes] | None = None,
    archs: str = 'archs = ["sm_80"]\n',
    **environ: str,
) -> Project:
    """Return a project with this script as demo/gen.py, and with *options* in the table of its producer."""
    table = archs + producer_table(options)
    return make_project(root, {"gen.py": script, **(files or {})}, table, **environ)


def returning(value: str) -> str:
    """Return a script whose function returns the value of an expression."""
    return f"def sources():\n    return {value}\n"
