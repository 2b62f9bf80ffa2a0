"""The build backend `hatch_cubin.backend` around real ones: wheels, sdists, editable installs, front ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from hatch_cubin.bundle import sbom
from tests.cubins import OTHERS
from tests.helpers import SAXPY, run, wheel_files, write_tree

from .backends import BACKENDS, project
from .conftest import Venv
from .projects import BILL, compiled, in_bundle, unpack

pytestmark = pytest.mark.nvrtc

OPTIONS = 'archs = ["sm_90"]\ninclude-dirs = ["include"]\n'
NEEDED = {"pyproject.toml", "include/far.cuh", "src/demo/near.cuh", "src/demo/saxpy.cu"}
NATIVE = ("meson", "scikit-build", "setuptools")
READ = "from demo import _cubins as c; print(len(c.read('saxpy', cc=(9, 0))))"


def call(root: Path, *calls: str, check: bool = True, **environ: str) -> subprocess.CompletedProcess[str]:
    """Call hooks of our backend in the project's folder, with the tools of this environment."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    code = "".join(f"backend.{each}\n" for each in calls)
    environ = {"PATH": path, "SOURCE_DATE_EPOCH": "1700000000", **environ}
    return run(
        sys.executable, "-c", f"from hatch_cubin import backend\n{code}", cwd=root, check=check, **environ
    )


def built(folder: Path) -> Path:
    (made,) = folder.iterdir()  # and nothing that was left over
    return made


def committed(root: Path) -> Path:
    """Return the project with its first commit, in which the kernel is not."""
    run("git", "init", "-q", cwd=root)
    run("git", "add", ".", ":!*.cu", cwd=root)
    who = ("-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false")
    run("git", *who, "commit", "-qm", "x", cwd=root)
    return root


def interpreter(folder: Path) -> Venv:
    """Return a virtual environment that sees what this one has: a build tool, which an import may call."""
    venv = Venv(folder)
    sees = run(
        sys.executable, "-c", "import site; print(*site.getsitepackages(), sep='\\n')", cwd=folder
    ).stdout
    site = venv.run("-c", "import site; print(site.getsitepackages()[0])").strip()
    Path(site, "seen.pth").write_text(sees, "utf-8")
    return venv


@pytest.fixture
def _installed(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have scikit-build-core here alone: where it is installed, hatchling and setuptools always load it."""
    if name == "scikit-build":
        folder = tmp_path / "scikit-build"
        folder.mkdir()
        run(sys.executable, "-m", "uv", "pip", "install", "--target", folder, "scikit-build-core", cwd=folder)
        monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.mark.gcc
@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.python_headers] if name in NATIVE else []) for name in BACKENDS],
)
def test_a_backend_makes_wheels_sdists_and_editable_installs_with_the_same_kernels(
    tmp_path: Path, name: str
) -> None:
    root = committed(project(tmp_path / "project", name, OPTIONS))
    write_tree(root, {"src/demo/_cubins/stale.cubin": "stale"})
    once, again, sdists, unpacked, last, editable = (
        tmp_path / each for each in ("once", "again", "sdists", "unpacked", "last", "editable")
    )
    for folder in (editable, unpacked):
        folder.mkdir()
    call(root, f"build_wheel({str(once)!r})")  # a process for each: setuptools cannot build two wheels in one
    call(root, f"build_wheel({str(again)!r})", f"build_sdist({str(sdists)!r})")
    wheel = built(once)
    assert wheel.read_bytes() == built(again).read_bytes()

    files = wheel_files(wheel)
    natives = {member for member in files if "native" in member}
    assert len(natives) == (name in NATIVE)
    info = {member for member in files if ".dist-info/" in member}
    assert {member for member in files if not member.endswith("/")} - natives - info == {
        "demo/__init__.py",
        *in_bundle("saxpy.sm_90.cubin"),
    }
    assert BILL in info
    assert [*files][-1] == "demo-1.0.dist-info/RECORD"

    with tarfile.open(built(sdists)) as archive:
        names = {member.partition("/")[2] for member in archive.getnames()}
    assert names >= NEEDED
    assert not any("_cubins" in member for member in names)
    # What was compiled once is a hit from now on: the keys are the same.
    call(unpack(built(sdists), unpacked), f"build_wheel({str(last)!r})", HATCH_CUBIN_REQUIRE_HITS="1")
    from_sdist = wheel_files(built(last))
    compared = {*in_bundle("saxpy.sm_90.cubin"), BILL}
    assert from_sdist.keys() == files.keys()
    assert {member: from_sdist[member] for member in compared} == {
        member: files[member] for member in compared
    }

    call(root, f"build_editable({str(editable)!r})", HATCH_CUBIN_REQUIRE_HITS="1")
    venv = interpreter(tmp_path / "venv")
    venv.install("--no-deps", built(editable))
    assert venv.run("-c", READ) == f"{len(files['demo/_cubins/saxpy.sm_90.cubin'])}\n"
    assert sbom.NAME not in {path.name for path in (root / "src/demo/_cubins").iterdir()}

    said = run(sys.executable, "-m", "hatch_cubin", "verify", wheel, "--rebuild", cwd=root).stdout
    assert "of 1 unit compiled again, 1 has exactly the same bytes\n" in said


@pytest.mark.usefixtures("isolated")
def test_front_ends_install_the_backend_inside_and_the_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = project(tmp_path / "project", "flit", f'toolkit = "12.9"\n{OPTIONS}')
    monkeypatch.setenv("HATCH_CUBIN_REPORT", str(tmp_path / "report.json"))
    # Makes the sdist first, and the wheel from that, in a folder of its own.
    run(sys.executable, "-m", "build", "--installer", "uv", "--outdir", tmp_path / "build", cwd=root)
    run(sys.executable, "-m", "uv", "build", "--wheel", "--out-dir", tmp_path / "uv", cwd=root)
    assert compiled(tmp_path / "report.json") == 0
    by_build, by_uv = (
        wheel_files(tmp_path / each / "demo-1.0-py2.py3-none-any.whl") for each in ("build", "uv")
    )
    assert by_build == by_uv
    assert in_bundle("saxpy.sm_90.cubin") < by_uv.keys()
    manifest = json.loads(by_uv["demo/_cubins/manifest.json"])
    assert manifest["toolchain"]["nvrtc"].startswith("12.9.")


def test_an_editable_install_builds_itself_again(tmp_path: Path) -> None:
    root = project(tmp_path / "project", "flit", OPTIONS)
    (tmp_path / "editable").mkdir()
    call(root, f"build_editable({str(tmp_path / 'editable')!r})")
    said = run(sys.executable, "-m", "hatch_cubin", "verify", "src/demo", "--rebuild", cwd=root).stdout
    assert said.endswith(f"of {OTHERS} other files made again, {OTHERS} have exactly the same bytes\n")
    bundle = root / "src/demo/_cubins"
    before = (bundle / "saxpy.sm_90.cubin").read_bytes()
    (root / "src/demo/saxpy.cu").write_text(SAXPY.replace("+=", "-="))
    code = f"import sys; sys.path.insert(0, {str(root / 'src')!r}); {READ}"
    run(sys.executable, "-c", code, cwd=tmp_path, HATCH_CUBIN_REBUILD="1")
    assert (bundle / "saxpy.sm_90.cubin").read_bytes() != before


def test_a_backend_that_is_not_installed_is_told(tmp_path: Path) -> None:
    root = project(tmp_path / "project", "flit")
    text = (root / "pyproject.toml").read_text()
    (root / "pyproject.toml").write_text(text.replace("flit_core.buildapi", "no_such_backend.api"))
    done = call(root, "build_wheel('dist')", check=False)
    assert done.returncode == 1
    assert (
        done.stderr
        == """\
hatch-cubin: error: pyproject.toml:11: the build backend 'no_such_backend.api' is not installed here \
[backend-not-installed]
  hint: add "no-such-backend" to requires in [build-system]
hatch-cubin: 1 error, nothing was built
"""
    )
