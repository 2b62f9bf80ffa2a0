"""Builds as users run them: isolated, by four front ends, and what the installed wheel can do."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import COPY_PTX, SAXPY, run, wheel_files, write_tree

from .conftest import Venv
from .projects import BILL, METADATA, NOTES, build, compiled, demo, in_bundle

pytestmark = pytest.mark.nvrtc

FILES = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": '#include "private.cuh"\n' + SAXPY,
    "demo/private.cuh": "#pragma once\n",
    "demo/copy.ptx": COPY_PTX,
}
OPTIONS = 'archs = ["sm_90", "compute_90"]'
UNITS = ("saxpy.sm_90.cubin", "saxpy.compute_90.ptx", "copy.sm_90.cubin", "copy.compute_80.ptx")
FRONT_ENDS = {
    "uv build": ("uv", "build", "--out-dir", "{out}"),
    "hatch build": ("hatch", "build", "{out}"),
    "pip wheel": ("pip", "wheel", "--no-deps", "--wheel-dir", "{out}", "."),
    # Makes the sdist first, and the wheel from that, in a folder of its own.
    "python -m build": ("build", "--installer", "uv", "--outdir", "{out}"),
}


@pytest.mark.usefixtures("isolated")
def test_one_cache_serves_every_front_end_and_all_make_the_same_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_DATA_DIR", str(tmp_path / "hatch"))
    counts: dict[str, int] = {}
    wheels: dict[str, bytes] = {}
    sdists: dict[str, list[bytes]] = {}
    for name, command in FRONT_ENDS.items():
        root, out = demo(tmp_path / name / "project", OPTIONS, FILES), tmp_path / name / "out"
        report = tmp_path / name / "report.json"
        arguments = [part.format(out=out) for part in command]
        run(sys.executable, "-m", *arguments, cwd=root, HATCH_CUBIN_REPORT=str(report))
        counts[name] = compiled(report)
        wheels[name] = (out / "demo-1.0-py3-none-any.whl").read_bytes()
        sdists[name] = [path.read_bytes() for path in out.glob("*.tar.gz")]
    assert counts == {"uv build": 4, "hatch build": 0, "pip wheel": 0, "python -m build": 0}
    assert set(wheels.values()) == {wheels["pip wheel"]}
    assert sdists == {name: sdists["uv build"] * (name != "pip wheel") for name in FRONT_ENDS}
    assert wheel_files(tmp_path / "pip wheel/out/demo-1.0-py3-none-any.whl").keys() == {
        "demo/__init__.py",
        *in_bundle(*UNITS),
        *METADATA,
        BILL,
    }


LOAD = """
import importlib.util, json, sys
from demo import _cubins
entry = _cubins.find("saxpy", cc=(9, 0))
print(json.dumps({
    "installed": [name for name in ("hatch_cubin", "hatchling", "cuda", "nvidia")
                  if importlib.util.find_spec(name)],
    "names": _cubins.names(),
    "archs": _cubins.archs(),
    "found": [entry.arch, entry.kind, entry.size],
    "read": len(_cubins.read("saxpy", cc=(9, 0))),
    "newer": _cubins.find("saxpy", cc=(12, 0)).arch,
}))
"""


def test_an_installed_wheel_finds_and_reads_with_nothing_else_installed(tmp_path: Path, venv: Venv) -> None:
    wheel = build(demo(tmp_path / "project", OPTIONS, FILES))
    venv.install("--no-index", wheel)
    cubin = wheel_files(wheel)["demo/_cubins/saxpy.sm_90.cubin"]
    assert json.loads(venv.run("-c", LOAD)) == {
        "installed": [],
        "names": ["copy", "saxpy"],
        "archs": ["sm_90", "compute_80", "compute_90"],
        "found": ["sm_90", "cubin", len(cubin)],
        "read": len(cubin),
        "newer": "compute_90",
    }


def test_the_cache_of_an_installed_wheel_is_one_that_program_compile_takes(tmp_path: Path) -> None:
    wheel = build(demo(tmp_path / "project", OPTIONS, FILES))
    installed = write_tree(tmp_path / "installed", wheel_files(wheel))
    code = """
from cuda.core.utils import ProgramCacheResource
from demo import _cubins
cache = _cubins.cache()
assert isinstance(cache, ProgramCacheResource)
"""
    keys = json.loads((installed / "demo/_cubins/keys.json").read_text())["units"]["saxpy"]
    code += f"print(cache[{keys['sm_90']['key']!r}] == _cubins.read('saxpy', cc=(9, 0)))\n"
    assert run(sys.executable, "-c", code, cwd=installed).stdout == "True\n"


# Editable installs

EDITABLE = ("install", "--no-deps", "--editable")


def _modified(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in (root / "demo/_cubins").iterdir()}


@pytest.mark.usefixtures("isolated")
def test_an_editable_install_writes_the_bundle_into_the_tree(
    tmp_path: Path, venv: Venv, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = tmp_path / "report.json"
    monkeypatch.setenv("HATCH_CUBIN_REPORT", str(report))
    root = demo(tmp_path / "project", OPTIONS, FILES)
    pip = (sys.executable, "-m", "pip", "--python", venv.python)
    run(*pip, *EDITABLE, root, cwd=tmp_path)
    assert compiled(report) == 4
    assert _modified(root).keys() == NOTES | {name.rpartition("/")[2] for name in in_bundle(*UNITS)}
    where = "from demo import _cubins; print(_cubins.find('saxpy', cc=(9, 0)).path)"
    assert venv.run("-c", where).strip() == str(root / "demo/_cubins/saxpy.sm_90.cubin")

    before = _modified(root)
    (root / "demo/copy.ptx").unlink()
    venv.uv(*EDITABLE, root)
    after = _modified(root)
    assert compiled(report) == 0
    assert before.keys() - after.keys() == {"copy.sm_90.cubin", "copy.compute_80.ptx"}
    assert {name for name in after if after[name] != before[name]} == {
        *("__init__.pyi", "editable.json", "keys.json", "manifest.json")
    }
    assert venv.run("-c", "from demo import _cubins; print(_cubins.names())") == "('saxpy',)\n"


@pytest.mark.usefixtures("isolated")
@pytest.mark.parametrize("mode", ["dev-mode-exact = true", 'dev-mode-dirs = ["src"]'])
def test_an_editable_install_works_in_hatchs_other_modes(tmp_path: Path, venv: Venv, mode: str) -> None:
    files = {f"src/{name}": content for name, content in FILES.items()}
    root = demo(tmp_path / "project", OPTIONS, files, f"[tool.hatch.build]\n{mode}\n")
    venv.uv(*EDITABLE, root)
    venv.install("editables")  # what hatchling's wheel asks for, in the first mode
    names = "from demo import _cubins; import demo; print(_cubins.names(), bool(demo.__file__))"
    assert venv.run("-c", names) == "('copy', 'saxpy') True\n"
    venv.uv("uninstall", "demo")
    shutil.rmtree(root)
    gone = "import importlib.util as util; print(util.find_spec('demo'))"
    assert venv.run("-c", gone) == "None\n"
