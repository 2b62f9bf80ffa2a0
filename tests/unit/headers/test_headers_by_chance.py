"""A header that only this environment has: a build here fails as one with isolation does, or not at all."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import HatchCubinError, Problem
from tests.helpers import install_wheel, make_project

pytestmark = pytest.mark.nvrtc

RANDOM = "#pragma once\n__device__ inline float drawn() { return 4; }\n"
INCLUDED = '#include <curand_kernel.h>\nextern "C" __global__ void k(float *x) { *x = drawn(); }\n'
UNUSED = (
    '#ifdef DRAWS\n#include <curand_kernel.h>\n#endif\nextern "C" __global__ void k(float *x) { *x = 4; }\n'
)
ASKED = UNUSED.replace("#ifdef DRAWS", "#if __has_include(<curand_kernel.h>)")
SHARED = "#include <of_runtime.h>\n"
OPTIONS = 'archs = ["sm_90"]\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with the toolkit's headers, before all others on the path of modules."""
    site = tmp_path / "site"
    theirs = next(path for path in sys.path if Path(path, "nvidia/cu13/include/cuda_runtime_api.h").is_file())
    header = "nvidia/cu13/include/cuda_runtime_api.h"
    version = Path(theirs, header).read_text("latin-1")
    install_wheel(site, "nvidia-cuda-runtime", {header: version, "nvidia/cu13/include/of_runtime.h": ""})
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    return site


def install(site: Path) -> None:
    install_wheel(site, "nvidia-curand", {"nvidia/cu13/include/curand_kernel.h": RANDOM})


def built(root: Path, text: str, options: str = OPTIONS, requires: str = "") -> str | Problem:
    """Return the key of the project's unit, or what is wrong with it."""
    project = make_project(root, {"k.cu": text}, options)
    path = root / "pyproject.toml"
    path.write_text(path.read_text().replace('"hatch-cubin"', f'"hatch-cubin"{requires}'))
    try:
        plan = pipeline.make_plan(project)
        pipeline.bake(project, plan)
    except HatchCubinError as exc:
        (problem,) = exc.problems
        return problem
    return plan.jobs[0].keys.key.hex()


@pytest.mark.parametrize("before", ["", SHARED], ids=["alone", "beside another header"])
def test_what_is_included_is_refused_with_the_same_hint(tmp_path: Path, site: Path, before: str) -> None:
    isolated = built(tmp_path / "one", before + INCLUDED)
    install(site)
    here = built(tmp_path / "two", before + INCLUDED)
    assert isinstance(here, Problem)
    assert isinstance(isolated, Problem)
    assert here.what.startswith('cannot open source file "curand_kernel.h"')
    assert isolated.what.startswith('cannot open source file "curand_kernel.h"')
    assert here.where == isolated.where
    line = 'header-packages = ["nvidia-curand"]'
    assert here.hint == isolated.hint == f"under [tool.hatch.build.hooks.cubin]: {line}"
    assert isinstance(built(tmp_path / "two", before + INCLUDED, f"{OPTIONS}{line}\n"), str)


@pytest.mark.parametrize("text", [UNUSED, ASKED], ids=["left out", "asked for"])
def test_what_is_not_read_changes_nothing(tmp_path: Path, site: Path, text: str) -> None:
    isolated = built(tmp_path / "one", text)
    install(site)
    assert built(tmp_path / "two", text) == isolated
    shutil.rmtree(tmp_path / "two")


def test_what_the_projects_build_requires_is_not_here_by_chance(tmp_path: Path, site: Path) -> None:
    install(site)
    assert isinstance(built(tmp_path / "one", INCLUDED, requires=', "nvidia-curand"'), str)


def test_a_header_of_a_header_is_told_without_a_line(tmp_path: Path, site: Path) -> None:
    install(site)
    project = make_project(tmp_path, {"k.cu": '#include "a.cuh"\n', "a.cuh": SHARED + INCLUDED}, OPTIONS)
    with pytest.raises(HatchCubinError) as caught:
        pipeline.make_plan(project)
    assert str(caught.value).startswith('demo/k.cu: cannot open source file "curand_kernel.h"')
