"""Sources that a script produces, in the wheels, sdists and editable installs of real front ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import run, wheel_files, write_tree

from .projects import SETUPTOOLS, build, build_sdist, compiled, demo, in_bundle, tree, unpack, wheel

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("warm")]

GEN = """\
from pathlib import Path

from demo.kernels.parts import CALL


def sources():
    template = Path(__file__).with_name("body.txt").read_text()
    return {
        "one.cu": '#include "own.cuh"\\n' + template % CALL,
        "two[N=2].cu": 'extern "C" __global__ void two(float *x) { *x = 2; }',
    }
"""
FILES: dict[str, str | bytes] = {
    "src/demo/__init__.py": "from demo._cubins import kernel\n",
    "src/demo/kernels/__init__.py": "",
    "src/demo/kernels/gen.py": GEN,
    "src/demo/kernels/parts.py": 'CALL = "own(x)"\n',
    "src/demo/kernels/body.txt": 'extern "C" __global__ void one(float *x) { *x = %s; }\n',
    "include/own.cuh": "#pragma once\n__device__ inline float own(float *x) { return *x + 1; }\n",
    "include/unused.cuh": "#pragma once\n",
}
NEEDED = {path for path in FILES if "__init__" not in path}
KERNELS = in_bundle("one.sm_90.cubin", "two.N-2.sm_90.cubin")
OPTIONS = 'archs = ["sm_90"]\ninclude-dirs = ["include"]\n'
PRODUCER = '[[{}.producer]]\npath = "src/demo/kernels/gen.py"\ninputs = ["src/demo/kernels/body.txt"]\n'
HOOK, OWN = PRODUCER.format("tool.hatch.build.hooks.cubin"), PRODUCER.format("tool.hatch-cubin")
HATCH = '[tool.hatch.build.targets.wheel]\npackages = ["src/demo"]\n'


def hatch_project(root: Path) -> Path:
    return demo(root, f"{OPTIONS}{HOOK}", FILES, HATCH)


def kernels(files: dict[str, bytes]) -> dict[str, bytes]:
    """Return the compiled files of a wheel, and its indexes."""
    return {name: data for name, data in files.items() if "/_cubins/" in name}


def test_a_wheel_is_the_same_from_the_tree_and_from_its_sdist(tmp_path: Path) -> None:
    root = hatch_project(tmp_path / "tree")
    from_tree = wheel(root)
    top = unpack(build_sdist(root), tmp_path / "sdist")
    assert tree(top) >= NEEDED
    assert wheel(top) == from_tree
    assert {*kernels(from_tree)} == KERNELS
    assert {"demo/kernels/gen.py", "demo/kernels/parts.py", "demo/kernels/body.txt"} <= from_tree.keys()


def test_an_edit_of_a_file_that_the_script_uses_is_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    report = tmp_path / "report.json"
    monkeypatch.setenv("HATCH_CUBIN_REPORT", str(report))
    root = hatch_project(tmp_path / "tree")
    counts = []
    for name, text in (
        ("kernels/gen.py", f"{GEN}# more\n"),
        ("kernels/parts.py", 'CALL = "own(x) * 3"\n'),
        ("kernels/body.txt", 'extern "C" __global__ void one(float *x) { *x = %s * 5; }\n'),
        ("../../include/own.cuh", "__device__ inline float own(float *x) { return *x + 7; }\n"),
        ("kernels/__init__.py", "X = 1\n"),
    ):
        build(root)
        (root / "src/demo" / name).write_text(text)
        build(root)
        counts.append(compiled(report))
    assert counts == [0, 1, 1, 1, 0]


def test_an_editable_install_notices_edits_of_what_the_script_uses(tmp_path: Path) -> None:
    root = hatch_project(tmp_path)
    (root / "src/demo/__init__.py").write_text("")
    build(root, "editable", hooks_only=True)
    code = "from demo import _cubins as c; print(len(c.read('one', cc=(9, 0))))"

    def warnings() -> int:
        done = subprocess.run(
            [sys.executable, "-W", "always", "-c", code],
            cwd=root / "src",
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stderr.count("CubinStaleWarning")

    assert warnings() == 0
    for name in ("src/demo/kernels/gen.py", "src/demo/kernels/body.txt", "include/own.cuh"):
        text = (root / name).read_text()
        (root / name).write_text(f"{text}\n")
        assert warnings() == 1, name
        (root / name).write_text(text)
        build(root, "editable", hooks_only=True)
        assert warnings() == 0, name


@pytest.mark.parametrize("backend", ["setuptools.build_meta", "hatch_cubin.backend"])
def test_other_backends_make_the_same_kernels_from_the_tree_and_the_sdist(
    tmp_path: Path, backend: str
) -> None:
    inner = 'backend = "flit_core.buildapi"\n' if backend == "hatch_cubin.backend" else ""
    text = f"{SETUPTOOLS}[tool.hatch-cubin]\n{inner}{OPTIONS}{OWN}"
    text = text.replace('"setuptools.build_meta"', f'"{backend}"').replace(
        '"setuptools"', '"flit_core", "setuptools"'
    )
    text = text.replace('version = "1.0"', 'version = "1.0"\ndescription = "x"')
    root = write_tree(tmp_path / "tree", {**FILES, "pyproject.toml": text})
    files = wheel_files(_made(root, backend, "build_wheel"))
    assert {*kernels(files)} == KERNELS
    assert "demo/kernels/gen.py" in files
    assert not any(name.endswith(".cuh") for name in files)
    top = unpack(_made(root, backend, "build_sdist"), tmp_path / "sdist")
    assert tree(top) >= NEEDED
    assert kernels(wheel_files(_made(top, backend, "build_wheel"))) == kernels(files)


def _made(root: Path, module: str, hook: str) -> Path:
    code = f"import importlib; print(getattr(importlib.import_module({module!r}), {hook!r})('dist'))"
    (root / "dist").mkdir(exist_ok=True)
    return root / "dist" / run(sys.executable, "-c", code, cwd=root).stdout.splitlines()[-1]


@pytest.mark.usefixtures("isolated")
def test_an_isolated_build_installs_what_the_script_imports(tmp_path: Path) -> None:
    gen = GEN.replace("from pathlib", "import jinja2\nfrom pathlib")
    gen = gen.replace("template % CALL", "jinja2.Template(template).render(call=CALL)")
    files = {**FILES, "src/demo/kernels/gen.py": gen}
    files["src/demo/kernels/body.txt"] = 'extern "C" __global__ void one(float *x) { *x = {{ call }}; }\n'
    options = f'toolkit = "13.0"\n{OPTIONS}{HOOK}requires = ["jinja2==3.*"]\n'
    root = demo(tmp_path / "tree", options, files, HATCH)
    run(sys.executable, "-m", "build", "--installer", "uv", "--wheel", ".", cwd=root)
    (made,) = (root / "dist").glob("*.whl")
    assert {*kernels(wheel_files(made))} == KERNELS
