"""The recipes for CI, run as they are printed: every job, command by command, twice."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from hatch_cubin.cache import housekeeping
from hatch_cubin.cache.signing import new_key
from tests.helpers import REPOSITORY, SAXPY, run, wheel_files

from .projects import BILL, METADATA, demo, in_bundle
from .services import GitHub, GitLab, Ran, Service

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]

ARCHS = ("sm_90", "compute_90")
PRIVATE, PUBLIC = new_key()
SERVICES: dict[str, type[Service]] = {"docs/ci/github.yml": GitHub, "docs/ci/gitlab.yml": GitLab}
SHARDED: dict[str, type[Service]] = {
    "docs/ci/github-shards.yml": GitHub,
    "docs/ci/gitlab-shards.yml": GitLab,
}


@pytest.fixture(scope="module")
def environ(own_wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A machine with a Python that has pip and nothing else, and that finds hatch-cubin's own wheel."""
    venv = tmp_path_factory.mktemp("machine") / "venv"
    run(sys.executable, "-m", "uv", "venv", "--seed", "--python", sys.executable, venv, cwd=venv.parent)
    known = os.environ.get("PIP_FIND_LINKS", "")
    return {
        **{name: value for name, value in os.environ.items() if not name.startswith("HATCH_CUBIN_")},
        "PATH": os.pathsep.join([str(venv / "bin"), os.environ["PATH"]]),
        "PIP_FIND_LINKS": f"{own_wheels} {known}".strip(),
        "UV_FIND_LINKS": str(own_wheels),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }


def project(tmp_path: Path, **more: str) -> Path:
    options = f'toolkit = "13.0"\narchs = {[*ARCHS]}\ntrusted-keys = ["{PUBLIC}"]\n'
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY, ".gitignore": "_cubins/\ncubin-cache/\n"}
    return demo(tmp_path / "project", options, {**files, **more})


def counts(jobs: list[Ran]) -> dict[str, tuple[int, int]]:
    return {job.name: (job.hits, job.compiled) for job in jobs}


@pytest.mark.parametrize("recipe", SERVICES)
def test_the_second_run_of_a_recipe_compiles_nothing(
    tmp_path: Path, environ: dict[str, str], recipe: str
) -> None:
    service = SERVICES[recipe](recipe, project(tmp_path), tmp_path, environ, PRIVATE)
    first = service.push()
    caches = dict(service.caches)
    assert counts(first) == {**{f"kernels {arch}": (0, 1) for arch in ARCHS}, "wheel": (2, 0)}
    assert len(caches) == 2
    for job in first[: len(ARCHS)]:
        records = [*housekeeping.records(job.workspace / "cubin-cache")]
        files = (job.workspace / "cubin-cache/entries").glob("*/*")
        signed = [data for data in map(Path.read_bytes, files) if f"\n{PUBLIC} ".encode() in data]
        assert len(signed) == len(records) == 1
    assert not any(PRIVATE.encode() in data for data in caches.values())

    second = service.pull_request()
    assert counts(second) == {**{f"kernels {arch}": (1, 0) for arch in ARCHS}, "wheel": (2, 0)}
    assert service.caches == caches

    wheels = {path.read_bytes() for job in (first, second) for path in job[-1].workspace.glob("dist/*.whl")}
    assert len(wheels) == 1
    (wheel,) = second[-1].workspace.glob("dist/*.whl")
    units = ("saxpy.sm_90.cubin", "saxpy.compute_90.ptx")
    assert wheel_files(wheel).keys() == {"demo/__init__.py", BILL, *in_bundle(*units), *METADATA}


@pytest.mark.parametrize("recipe", SHARDED)
def test_shards_compile_each_unit_once_and_make_one_wheel(
    tmp_path: Path, environ: dict[str, str], recipe: str
) -> None:
    """What one compile serves is in one shard."""
    root = project(tmp_path, **{"demo/axpy.cu": SAXPY.replace("saxpy", "axpy")})
    service = SHARDED[recipe](recipe, root, tmp_path, environ, PRIVATE)
    first = service.push()
    assert counts(first) == {"kernels 1": (0, 2), "kernels 2": (0, 2), "wheel": (4, 0)}
    second = service.pull_request()
    assert counts(second) == {"kernels 1": (2, 0), "kernels 2": (2, 0), "wheel": (4, 0)}
    wheels = {path.read_bytes() for job in (first, second) for path in job[-1].workspace.glob("dist/*.whl")}
    assert len(wheels) == 1


def test_the_steps_of_the_guide_are_those_of_a_recipe() -> None:
    guide = (REPOSITORY / "docs/guides/ci.md").read_text("utf-8")
    commands = re.findall(r"^\| [^|]+ \| `([^`…]+)", guide, re.MULTILINE)
    assert len(commands) == 5
    recipe = (REPOSITORY / "docs/ci/github.yml").read_text("utf-8")
    assert [command for command in commands if command not in recipe] == []
