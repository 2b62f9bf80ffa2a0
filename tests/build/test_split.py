"""A wheel is split, and its parts installed, upgraded and uninstalled by pip and uv."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cubins import OTHERS
from tests.helpers import SAXPY, run

from .conftest import Venv
from .projects import build, demo

pytestmark = pytest.mark.nvrtc

OPTIONS = 'pack = true\narchs = ["sm_80", "sm_90", "compute_90"]\n'
READ = """
from demo import _cubins as cubins
for cc in (8, 0), (9, 0), (10, 0):
    try:
        cubins.read("saxpy", cc=cc)
        print("read")
    except cubins.CubinError as exc:
        print(str(exc).partition(": ")[2].partition(" (bundle of")[0])
"""


def split(root: Path, wheel: Path, into: Path) -> None:
    run(sys.executable, "-m", "hatch_cubin", "split", wheel, "--by", "arch", "--into", into, cwd=root)


def verified(root: Path, *what: Path) -> list[str]:
    command = (
        sys.executable,
        "-m",
        "hatch_cubin",
        "verify",
        *map(str, what),
        "--rebuild",
        "--project",
        str(root),
    )
    return [line.partition("/_cubins: ")[2] for line in run(*command, cwd=root).stdout.splitlines()]


def absent(arch: str, version: str) -> str:
    where = f"in demo-cubins-{arch}, which is not installed: pip install 'demo[{arch}]=={version}'"
    return f"'saxpy' for sm_{arch[2:]} is {where}"


@pytest.fixture
def parts(tmp_path: Path) -> Path:
    """Return a folder with the parts of two versions, of which the second has another kernel."""
    root = demo(tmp_path / "project", OPTIONS, {"src/demo/__init__.py": "", "src/demo/saxpy.cu": SAXPY})
    split(root, build(root), tmp_path / "parts")
    pyproject = root / "pyproject.toml"
    pyproject.write_text(pyproject.read_text("utf-8").replace('version = "1.0"', 'version = "1.1"'), "utf-8")
    (root / "src/demo/saxpy.cu").write_text(SAXPY.replace("a * x", "a - x"), "utf-8")
    shutil.rmtree(root / "dist")
    split(root, build(root), tmp_path / "parts")
    return tmp_path / "parts"


def by_uv(venv: Venv, parts: Path) -> Callable[..., object]:
    return lambda *what: venv.install("--no-index", "--find-links", parts, *what)


def by_pip(venv: Venv, parts: Path) -> Callable[..., object]:
    pip = (sys.executable, "-m", "pip", "--python", venv.python, "install", "-q", "--no-index")

    def install(*what: str) -> None:
        run(*pip, "--find-links", parts, *what, cwd=parts)

    return install


@pytest.mark.parametrize("tool", [by_uv, by_pip])
def test_an_environment_gets_what_its_extras_ask_for(
    tmp_path: Path, parts: Path, venv: Venv, tool: Callable[..., Callable[..., object]]
) -> None:
    del tmp_path
    install, said = tool(venv, parts), list[list[str]]()
    for what in (["demo==1.0"], ["demo[sm90]==1.0"], ["--upgrade", "demo"], ["--upgrade", "demo[all]"]):
        install(*what)
        said.append(venv.run("-c", READ).splitlines())
    venv.uv("uninstall", "demo-cubins-sm90")
    said.append(venv.run("-c", READ).splitlines())
    site = venv.run("-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    place = f"demo-cubins-sm90 in {Path(site, 'demo_cubins_sm90')}"
    other = f"the installed {place} belongs to another version, '1.0': pip install 'demo[sm90]==1.1'"
    assert said == [
        [absent("sm80", "1.0"), absent("sm90", "1.0"), "read"],
        [absent("sm80", "1.0"), "read", "read"],
        [absent("sm80", "1.1"), other, "read"],
        ["read", "read", "read"],
        ["read", absent("sm90", "1.1"), "read"],
    ]


@pytest.mark.counted
def test_parts_are_what_their_project_builds(tmp_path: Path, parts: Path) -> None:
    root = tmp_path / "project"
    wheel = parts / "demo-1.1-py3-none-any.whl"
    files = OTHERS + 4  # three companions, and the part of the loader that finds them
    assert verified(root, wheel)[1:] == [
        "of 3 units compiled again, 3 have exactly the same bytes",
        f"of {files} other files made again, {files} have exactly the same bytes",
    ]
    (parts / "demo_cubins_sm80-1.1-py3-none-any.whl").unlink()
    assert verified(root, wheel)[1:] == [
        "of 3 units compiled again, 2 have exactly the same bytes",
        "1 unit in missing companion wheels not compared",
        f"of {files - 1} other files made again, {files - 1} have exactly the same bytes",
    ]
    shutil.copy(
        parts / "demo_cubins_sm90-1.0-py3-none-any.whl", parts / "demo_cubins_sm90-1.1-py3-none-any.whl"
    )
    command = (sys.executable, "-m", "hatch_cubin", "verify", wheel, "--rebuild", "--project", root)
    said = run(*command, cwd=root, check=False).stderr
    what = "is a companion of another wheel, or of another version of this wheel"
    assert f"demo_cubins_sm90-1.1-py3-none-any.whl: {what}" in said
    assert "the rebuild differs in 1 unit although all inputs are equal" in said
