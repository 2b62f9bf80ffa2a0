"""A call of cuda.core: it is compiled and recorded, built, found without a compiler, and launched."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import pytest_plugin
from hatch_cubin.building import pipeline
from tests.helpers import make_project, sha256

from . import codes, events, install
from .conftest import Run

pytestmark = [pytest.mark.gcc, pytest.mark.linux, pytest.mark.nvrtc]

PROGRAM = """
import json, warnings
from cuda.core import Device, LaunchConfig, ProgramOptions, launch
from pkg._cubins.core import Program

TEXT = "template <class T> __global__ void scale(T *x) { *x = *x / T(3) * N; }"
seen = []
warnings.simplefilter("always", UserWarning)
warnings.showwarning = lambda message, kind, *more: seen.append(kind.__name__)
for number in range(2):
    device = Device(number)
    device.set_current()
    options = ProgramOptions(use_fast_math=True, define_macro=("N", "4"), arch=f"sm_{device.arch}")
    program = Program(TEXT, "c++", options)
    kernel = program.compile("cubin", name_expressions=("scale<float>",)).get_kernel("scale<float>")
    launch(device.create_stream(), LaunchConfig(grid=1, block=1), kernel, 0)
    program.close()
print(json.dumps([seen, "libnvrtc" in open("/proc/self/maps").read()]))
"""


def build(tmp_path: Path) -> dict[str, Any]:
    """Build the project, install its bundle, and return the manifest."""
    table = 'archs = ["sm_80", "sm_90"]\nrecorded = ["demo/calls"]'
    cache = str(tmp_path / "cache")
    project = make_project(tmp_path / "project", {}, table, HATCH_CUBIN_CACHE_DIR=cache)
    files = pipeline.build(project)
    install(tmp_path / "pkg", files)
    manifest: dict[str, Any] = json.loads(files["manifest.json"])
    return manifest


def test_a_recorded_call_is_built_found_and_launched(python: Run, tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    gpus, calls = "8.6 9.0", tmp_path / "calls"
    calls.mkdir()
    assert build(tmp_path)["modules"] == {}
    compiled = python(PROGRAM, STANDIN_GPUS=gpus, HATCH_CUBIN_RECORD=str(calls))
    assert json.loads(compiled) == [["CompiledAtRunTimeWarning"] * 2, True]
    (recorded,) = [json.loads(path.read_bytes()) for path in calls.iterdir()]
    assert recorded["options"] == ["--use_fast_math", "--define-macro=N=4"]
    assert pytest_plugin.write_recorded(tmp_path / "project/demo/calls", tmp_path / "project", recorded)
    (tmp_path / "log").unlink()

    (module,) = build(tmp_path)["modules"].values()
    found = python(PROGRAM, STANDIN_GPUS=gpus, HATCH_CUBIN_NO_COMPILE="1")
    assert json.loads(found) == [[], False]
    shipped = [sha256((tmp_path / "pkg/_cubins" / each["file"]).read_bytes()) for each in module["entries"]]
    assert codes(events(tmp_path)) == shipped
    assert [each.what for each in events(tmp_path)].count("LAUNCH") == 2
