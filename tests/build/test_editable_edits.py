"""Editable installs: the loader notices that a source was edited, says so once, or builds again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_cubin.bundle import loader_files
from tests.build.projects import build, demo
from tests.helpers import SAXPY, sha256

pytestmark = pytest.mark.nvrtc

HEADER = "#define FACTOR 1\n"
FILES: dict[str, str | bytes] = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": '#include "factor.h"\n' + SAXPY,
    "demo/factor.h": HEADER,
}
EDITED = SAXPY.replace("+= a", "-= a")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = demo(tmp_path, files=FILES)
    build(root, "editable", hooks_only=True)
    return root


def use(project: Path, code: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    """Read the kernel twice in a process of its own, every warning shown."""
    code = (
        "from demo import _cubins as cubins\n"
        f"for _ in range(2):\n    try: print(len(cubins.read('saxpy', cc=(9, 0))))\n"
        f"    except cubins.CubinError as exc: print(exc)\n{code}"
    )
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        cwd=project,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=True,
    )


def warned(project: Path) -> list[str]:
    return [line for line in use(project).stderr.splitlines() if " CubinStaleWarning: " in line]


def test_what_an_editable_install_was_built_from_is_written_down(project: Path) -> None:
    bundle = project / "demo/_cubins"
    assert (bundle / "_editable.py").read_bytes() == loader_files.read("_editable.py")
    header, source = project / "demo/factor.h", project / "demo/saxpy.cu"
    written = json.loads((bundle / "editable.json").read_text("utf-8"))
    for path in (header, source):  # without the time of a change that was just before the build
        assert written["files"][f"demo/{path.name}"].pop(2) in {None, path.stat().st_ctime_ns}
    assert written.pop("folders") == {"demo": ["saxpy.cu"]}
    assert written.pop("table")[0] == "pyproject.toml"
    assert written == {
        "files": {
            f"demo/{path.name}": [path.stat().st_size, path.stat().st_mtime_ns, sha256(path.read_bytes())]
            for path in (header, source)
        },
        "needs": ["hatchling", "hatch_cubin"],
        "rebuild": ["-m", "hatchling", "build", "-t", "wheel:editable", "--hooks-only"],
        "root": "../..",
    }


def test_nothing_is_said_while_the_kernels_are_up_to_date(project: Path) -> None:
    (project / "demo/saxpy.cu").touch()
    assert use(project).stderr == ""


@pytest.mark.parametrize(
    ("path", "content"),
    [
        pytest.param("demo/saxpy.cu", EDITED, id="a source"),
        pytest.param("demo/factor.h", HEADER.replace("1", "2"), id="a header, its length the same"),
        pytest.param("demo/factor.h", None, id="a header that is gone"),
    ],
)
def test_an_edit_is_said_once(project: Path, path: str, content: str | None) -> None:
    if content is None:
        (project / path).unlink()
    else:
        (project / path).write_text(content)
    (line,) = warned(project)
    fix = "install the package again, or set HATCH_CUBIN_REBUILD=1"
    shown = f"{path} (deleted)" if content is None else path
    assert f"demo._cubins: the kernels were built before these files changed: {shown}; {fix}" in line


def test_many_edits_are_counted(tmp_path: Path) -> None:
    names = [f"demo/{letter}.cu" for letter in "abcde"]
    files = {"demo/__init__.py": "", **{name: SAXPY.replace("saxpy", Path(name).stem) for name in names}}
    root = demo(tmp_path, files={**files, "demo/saxpy.cu": SAXPY})
    build(root, "editable", hooks_only=True)
    for name in names:
        (root / name).write_text("edited")
    (line,) = warned(root)
    assert "changed: demo/a.cu, demo/b.cu, demo/c.cu and 2 more; " in line


@pytest.mark.parametrize("switch", ["0", "1", "true"])
def test_it_builds_again_where_that_is_asked_for(project: Path, switch: str) -> None:
    before = (project / "demo/_cubins/saxpy.sm_90.cubin").read_bytes()
    (project / "demo/saxpy.cu").write_text(EDITED)
    done = use(project, HATCH_CUBIN_REBUILD=switch)
    changed = (project / "demo/_cubins/saxpy.sm_90.cubin").read_bytes() != before
    assert (changed, "CubinStaleWarning" in done.stderr) == (
        (False, True) if switch == "0" else (True, False)
    )
    if changed:
        assert use(project).stderr == ""
        assert not (project / "dist").exists() or not list((project / "dist").iterdir())


def test_a_source_that_does_not_compile_any_more_is_an_error_with_its_line(project: Path) -> None:
    (project / "demo/saxpy.cu").write_text("oops\n")
    done = use(project, HATCH_CUBIN_REBUILD="1")
    assert done.stdout.count("could not be rebuilt:\nhatch-cubin: error: demo/saxpy.cu:1: ") == 2


def test_without_the_builder_it_says_what_is_missing(project: Path) -> None:
    (project / "demo/saxpy.cu").write_text(EDITED)
    (project / "hide.py").write_text(
        "import sys\n"
        "class Without:\n"
        "    def __init__(self, finder):\n"
        "        self.finder = finder\n"
        "    def find_spec(self, name, *where):\n"
        "        return None if name.startswith('hatch') else self.finder.find_spec(name, *where)\n"
        "sys.meta_path[:] = map(Without, sys.meta_path)\n"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            "import hide\nfrom demo import _cubins as cubins\ncubins.read('saxpy', cc=(9, 0))",
        ],
        cwd=project,
        env={**os.environ, "HATCH_CUBIN_REBUILD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr.splitlines()[-1].endswith(
        "HATCH_CUBIN_REBUILD is set, but these packages are not installed: hatchling, hatch-cubin: "
        "pip install hatchling hatch-cubin"
    )


def test_the_source_of_an_entry_is_found(project: Path) -> None:
    code = "print(cubins.find('saxpy', cc=(9, 0)).source_path)"
    assert use(project, code).stdout.splitlines()[-1] == str(project / "demo/saxpy.cu")


def test_a_skipped_build_notices_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    root = demo(tmp_path, files=FILES)
    build(root, "editable", hooks_only=True)
    names = {*loader_files.OF_EVERY, "__init__.pyi", "keys.json", "manifest.json"}
    assert {path.name for path in (root / "demo/_cubins").iterdir()} == names
