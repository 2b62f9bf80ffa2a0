"""Builds of projects whose sources a script produces."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.errors import CompileError, SourceError
from hatch_cubin.lockfile import required_wheels
from hatch_cubin.producing import running
from hatch_cubin.project.project import Project
from tests.helpers import COPY_PTX, REPOSITORY, SAXPY, found, refusal
from tests.producers import KERNEL, SCRIPT, producer_project, producer_table, returning

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("unmeasured")]

MM = {f"mm[B={size}].cu": KERNEL.format(name="mm", value=size) for size in (1, 2)}
MANY = {
    **MM,
    "mm[B=2].sm_90a.cu": KERNEL.format(name="mm", value=290),
    "scale.cu": {
        "text": "template <class T> __global__ void scale(T *x) { *x *= N; }",
        "instantiate": ["scale<float>"],
        "define": {"N": 4},
    },
    "copy.ptx": COPY_PTX,
}
PTX = 'produces = ["cu", "ptx"]'


def built(project: Project) -> dict[str, bytes]:
    return pipeline.build(project)


def modules(files: dict[str, bytes]) -> dict[str, dict[str, object]]:
    lines = files["manifest.json"].decode().splitlines()
    found = (json.loads(line.rstrip(",").partition(":")[2] or "0") for line in lines if '"entries"' in line)
    return {str(entry["source"]): entry for entry in found}


def test_a_bundle_has_the_modules_that_a_script_returns(tmp_path: Path) -> None:
    files = built(producer_project(tmp_path, returning(repr(MANY)), PTX))
    cubins = sorted(name for name in files if name.endswith(".cubin"))
    assert cubins == [
        "copy.sm_80.cubin",
        "mm.B-1.sm_80.cubin",
        "mm.B-2.sm_80.cubin",
        "mm.B-2.sm_90a.cubin",
        "scale.sm_80.cubin",
    ]
    bill = {each["name"] for each in json.loads(files[sbom.NAME])["components"]}
    assert {"demo/mm[B=1].cu", "demo/mm[B=2].sm_90a.cu", "demo/copy.ptx"} <= bill
    assert b'"sources":["demo/mm[B=2].cu","demo/mm[B=2].sm_90a.cu"]' in files["manifest.json"]


def test_a_produced_text_gives_the_code_of_a_file_with_that_text(tmp_path: Path) -> None:
    script = returning(repr({"saxpy.cu": SAXPY}))
    project = producer_project(tmp_path / "one", script)
    plain = producer_project(tmp_path / "two", files={"saxpy.cu": SAXPY, "gen.py": ""})
    plain = replace(plain, config=replace(plain.config, producer=()))
    (plain.root / "demo/gen.py").unlink()
    (one,) = pipeline.choose_plan(project).jobs
    (two,) = pipeline.choose_plan(plain).jobs
    assert one.keys == two.keys
    assert built(project)["saxpy.sm_80.cubin"] == built(plain)["saxpy.sm_80.cubin"]


def test_a_warm_build_starts_no_process_and_imports_nothing_of_the_producer(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning(repr(MM)))
    built(project)
    text = f"""\
import os, subprocess, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from hatch_cubin.building import pipeline
from hatch_cubin.frontends.open_project import open_project
project = open_project({str(project.root)!r}, os.environ, None, verbose=False)
def refuse(*_arguments, **_named):
    raise AssertionError("a process")
subprocess.Popen.__init__ = refuse
files = pipeline.build(project)
assert "mm.B-1.sm_80.cubin" in files
loaded = {{"hatch_cubin.producing.running", "hatch_cubin.producing.failures", "demo"}} & {{*sys.modules}}
assert not loaded, loaded
"""
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_build_without_producers_imports_nothing_of_them(tmp_path: Path) -> None:
    text = f"""\
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from hatch_cubin.frontends import hatch
from hatch_cubin.building import pipeline
from hatch_cubin.lockfile import required_wheels
assert not [name for name in sys.modules if name.startswith("hatch_cubin.producing")]
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_error_shows_the_lines_of_the_text_and_names_the_script(tmp_path: Path) -> None:
    text = "// one\n" * 3 + "__global__ void k() { wrong; }\n// two\n// three\n// four\n"
    error = refusal(CompileError, built, producer_project(tmp_path, returning(repr({"a.cu": text}))))
    (one,) = error.problems
    assert str(one.where) == "demo/a.cu:4"
    assert one.details[-7:-1] == (
        "produced by demo/gen.py:",
        "    2 | // one",
        "    3 | // one",
        "    4 | __global__ void k() { wrong; }",
        "    5 | // two",
        "    6 | // three",
    )


def test_an_error_without_a_line_names_the_script(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning("{'a.cu': '__device__ int x;'}"))
    (one,) = refusal(CompileError, built, project).problems
    assert one.details[-2] == "produced by demo/gen.py"


LINKED = {
    "a.cu": "__device__ int f() { return 2; }\n",
    "b.cu": 'extern "C" __global__ void k(int *x) { *x = g(); }\n',
}
MODULE = '[[tool.hatch.build.hooks.cubin.module]]\nname = "m"\nmode = "rdc"\nsources = ["demo/*.cu"]\n'


def test_errors_of_links_show_produced_texts(tmp_path: Path) -> None:
    texts = {**LINKED, "b.cu": f"__device__ int g();\n{LINKED['b.cu']}"}
    project = producer_project(tmp_path, returning(repr(texts)), MODULE)
    error = refusal(CompileError, built, project)
    assert any("demo/b.cu" in str(each) for each in error.problems)
    texts["a.cu"] = "__device__ int g() { return 2; }\n"
    assert "m.sm_80.cubin" in built(producer_project(tmp_path / "right", returning(repr(texts)), MODULE))


def test_the_lists_of_files_have_no_produced_names(tmp_path: Path) -> None:
    files, sources = pipeline.build_held(producer_project(tmp_path, files={"two.cu": SAXPY}), None)
    assert "one.sm_80.cubin" in files
    assert sources == ["demo/two.cu"]


def test_a_failed_producer_fails_the_build(tmp_path: Path) -> None:
    error = refusal(SourceError, built, producer_project(tmp_path, returning("{}")))
    assert found(error) == [("producer-returns-nothing", "demo/gen.py")]


def test_two_producers_fill_one_bundle(tmp_path: Path) -> None:
    more = f"{SCRIPT}def more():\n    return {{'two.cu': {KERNEL.format(name='two', value=2)!r}}}\n"
    files = built(producer_project(tmp_path, more, producer_table('call = "more"')))
    assert {"one.sm_80.cubin", "two.sm_80.cubin"} <= files.keys()


INCLUDING = {"a.cu": f'#include "near.cuh"\n#include <far.cuh>\n{SAXPY}'}
HEADERS = {"near.cuh": "#pragma once\n", "inc/far.cuh": "#pragma once\n", "inc/other.txt": "", "parts.py": ""}
FOLDERS = 'archs = ["sm_80"]\ninclude-dirs = ["demo/inc"]\n'


def including(root: Path, options: str = "") -> Project:
    script = f"from . import parts\n{returning(repr(INCLUDING))}"
    return producer_project(root, script, options, HEADERS, FOLDERS)


def test_a_produced_text_may_include_declared_files_and_the_include_folders(tmp_path: Path) -> None:
    error = refusal(SourceError, built, including(tmp_path))
    assert found(error) == [("undeclared-include", "pyproject.toml:12")]
    pasted = 'inputs = ["demo/near.cuh"]'
    assert error.problems[0].hint == f"in its table: {pasted}"
    files, sources = pipeline.build_held(including(tmp_path, pasted), None)
    assert "a.sm_80.cubin" in files
    assert sources == ["demo/inc/far.cuh", "demo/near.cuh"]


def test_an_sdist_has_what_producers_may_use_and_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = including(tmp_path, 'inputs = ["demo/near.cuh"]')
    monkeypatch.setattr(running, "run", None)
    needed = ["demo/gen.py", "demo/inc/far.cuh", "demo/inc/other.txt", "demo/near.cuh", "demo/parts.py"]
    assert sorted(pipeline.sdist_files(project)) == needed
    assert pipeline.needed_files(project) == needed
    assert pipeline.needed_files(project, by_name=True) == []


def test_files_to_link_are_needed_even_if_all_sources_are_produced(tmp_path: Path) -> None:
    table = f'{MODULE}link = ["demo/copy.ptx", "demo/no.ptx", "a-wheel:x.ptx"]\n'
    project = producer_project(tmp_path, SCRIPT, table, {"copy.ptx": COPY_PTX})
    assert pipeline.needed_files(project) == ["demo/copy.ptx", "demo/gen.py"]


def test_a_build_without_kernels_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run", None)
    project = producer_project(tmp_path, HATCH_CUBIN_SKIP="1")
    assert not any(name.endswith(".cubin") for name in built(project))


def required(project: Project) -> set[str]:
    return {*required_wheels.required_wheels(project.config, project.root, lambda: project)}


def test_build_requirements_need_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run", None)
    archs = 'toolkit = "13.0"\narchs = ["sm_80"]\n'
    options = ('produces = ["ptx"]\nrequires = ["jinja2==3.*"]', 'requires = ["jinja2==3.*"]')
    ptx, plain = (producer_project(tmp_path, SCRIPT, each, archs=archs) for each in options)
    for_ptx, for_plain = map(required, (ptx, plain))
    assert {"jinja2==3.*", "cuda-toolkit[nvrtc,cudart,cccl,crt,nvcc]==13.0.*"} <= for_ptx
    assert {"jinja2==3.*", "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*"} <= for_plain
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    assert required(ptx) == set()
