"""The recipes for CI, run as they are printed: every job, command by command, twice."""

from __future__ import annotations

import io
import os
import re
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from hatch_cubin.cache.signing import new_key
from tests.helpers import REPOSITORY, SAXPY, run, wheel_files

from .projects import BILL, METADATA, demo, in_bundle
from .services import GitHub, GitLab, Ran, Service, with_signatures

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


def project(tmp_path: Path, options: str = "", **more: str) -> Path:
    """Return a project as `hatch-cubin init` leaves it, but with fewer archs."""
    options = f'toolkit = "13.0"\narchs = {[*ARCHS]}\n{options}'
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SAXPY, ".gitignore": "_cubins/\n"}
    return demo(tmp_path / "project", options, {**files, **more})


def counts(jobs: list[Ran]) -> dict[str, tuple[int, int]]:
    return {job.name: (job.hits, job.compiled) for job in jobs}


def wheels(*jobs: Ran) -> set[bytes]:
    return {path.read_bytes() for job in jobs for path in job.workspace.glob("dist/*.whl")}


def signed(caches: dict[str, bytes]) -> int:
    """Return how many records in what a service saved have the signature of the project's key."""
    found = 0
    for data in caches.values():
        archive = zipfile.ZipFile(io.BytesIO(data)) if data[:2] == b"PK" else None
        if archive is not None:
            texts = [archive.read(name) for name in archive.namelist()]
        else:
            with tarfile.open(fileobj=io.BytesIO(data)) as opened:
                files = [opened.extractfile(member) for member in opened.getmembers()]
                texts = [file.read() for file in files if file is not None]
        found += sum(f"\n{PUBLIC} ".encode() in text for text in texts)
    return found


@pytest.mark.parametrize("recipe", SERVICES)
def test_the_second_run_of_a_recipe_compiles_nothing(
    tmp_path: Path, environ: dict[str, str], recipe: str
) -> None:
    """The recipe is as it is printed, and the project has nothing that is there for it."""
    service = SERVICES[recipe](recipe, project(tmp_path), tmp_path, environ)
    (first,) = service.push()
    assert (first.hits, first.compiled) == (0, 2)
    (caches,) = [dict(service.caches)]
    assert len(caches) == 1
    assert signed(caches) == 0

    (second,) = service.pull_request()
    assert (second.hits, second.compiled) == (2, 0)
    assert service.caches == caches
    assert len(wheels(first, second)) == 1
    (wheel,) = second.workspace.glob("dist/*.whl")
    units = ("saxpy.sm_90.cubin", "saxpy.compute_90.ptx")
    assert wheel_files(wheel).keys() == {"demo/__init__.py", BILL, *in_bundle(*units), *METADATA}


@pytest.mark.parametrize("recipe", SERVICES)
def test_with_its_commented_lines_a_recipe_signs_and_takes_nothing_else(
    tmp_path: Path, environ: dict[str, str], recipe: str
) -> None:
    root = project(tmp_path, f'trusted-keys = ["{PUBLIC}"]\n')
    unsigned = SERVICES[recipe](recipe, root, tmp_path / "before", environ)
    (before,) = unsigned.push()
    service = SERVICES[recipe](recipe, root, tmp_path, environ, PRIVATE)
    restored = {re.sub(r"-\d+-1$", "-earlier", name): data for name, data in unsigned.caches.items()}
    service.caches |= restored
    (first,) = service.push()
    assert [(job.hits, job.compiled) for job in (before, first)] == [(0, 2), (0, 2)]
    saved = {name: data for name, data in service.caches.items() if restored.get(name) != data}
    assert signed(saved) == 2
    assert not any(PRIVATE.encode() in data for data in saved.values())
    (second,) = service.pull_request()
    assert (second.hits, second.compiled) == (2, 0)
    assert len(wheels(before, first, second)) == 1


@pytest.mark.parametrize("recipe", SHARDED)
def test_shards_compile_each_unit_once_and_make_one_wheel(
    tmp_path: Path, environ: dict[str, str], recipe: str
) -> None:
    """What one compile serves is in one shard."""
    root = project(tmp_path, **{"demo/axpy.cu": SAXPY.replace("saxpy", "axpy")})
    service = SHARDED[recipe](recipe, root, tmp_path, environ)
    first = service.push()
    assert counts(first) == {"kernels 1": (0, 2), "kernels 2": (0, 2), "wheel": (4, 0)}
    second = service.pull_request()
    assert counts(second) == {"kernels 1": (2, 0), "kernels 2": (2, 0), "wheel": (4, 0)}
    assert len(wheels(first[-1], second[-1])) == 1


@pytest.mark.parametrize("recipe", SHARDED)
def test_with_their_commented_lines_shards_sign(tmp_path: Path, environ: dict[str, str], recipe: str) -> None:
    root = project(
        tmp_path, f'trusted-keys = ["{PUBLIC}"]\n', **{"demo/axpy.cu": SAXPY.replace("saxpy", "axpy")}
    )
    service = SHARDED[recipe](recipe, root, tmp_path, environ, PRIVATE)
    jobs = service.push()
    assert counts(jobs) == {"kernels 1": (0, 2), "kernels 2": (0, 2), "wheel": (4, 0)}
    assert signed(service.caches) == 4
    assert not any(PRIVATE.encode() in data for data in service.caches.values())


@pytest.mark.parametrize("recipe", [*SERVICES, *SHARDED])
def test_only_what_signs_is_a_comment_in_a_recipe(recipe: str) -> None:
    """A line that is taken in is a setting of YAML then, and says no more than what it is for."""
    text = (REPOSITORY / recipe).read_text("utf-8")
    taken = {line.strip() for line in with_signatures(text).splitlines()}
    new = {line.split(":")[0] for line in taken - {line.strip() for line in text.splitlines()}}
    assert new - {"env", "variables"} <= {"HATCH_CUBIN_REQUIRE_SIGNED", "HATCH_CUBIN_SIGNING_KEY"}
    assert "HATCH_CUBIN_REQUIRE_SIGNED" in new


def test_the_steps_of_the_guide_are_those_of_a_recipe() -> None:
    guide = (REPOSITORY / "docs/guides/ci.md").read_text("utf-8")
    commands = re.findall(r"^\| [^|]+ \| `([^`…]+)", guide, re.MULTILINE)
    assert len(commands) == 5
    recipe = (REPOSITORY / "docs/ci/github-shards.yml").read_text("utf-8")
    assert [command for command in commands if command not in recipe] == []
