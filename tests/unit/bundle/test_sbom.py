"""The bill of materials: what a bundle was made of, the same bytes for the same inputs."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.common import git
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import COPY_PTX, SAXPY, install_wheel, make_project, run, sha256, write_tree

pytestmark = pytest.mark.nvrtc

ONE = 'archs = ["sm_90"]\n'
HALF = '#include <cuda_fp16.h>\nextern "C" __global__ void halve(half *x) { *x = __hmul(*x, 0.5f); }\n'


def _bill(root: Path, files: dict[str, str], options: str = ONE) -> Any:
    return json.loads(pipeline.build(make_project(root, files, options))[sbom.NAME])


def _named(bill: Any, kind: str) -> dict[str, str | None]:
    return {part["name"]: part.get("version") for part in bill["components"] if part["type"] == kind}


def test_a_bill_names_the_compilers_the_sources_and_their_headers(tmp_path: Path) -> None:
    files = {"a.cu": f'#include "a.cuh"\n{SAXPY}', "a.cuh": "// nothing\n"}
    bill = _bill(tmp_path, files)
    nvrtc = Toolkit(None).nvrtc
    ours = f"hatch-cubin@{__version__}"
    assert bill["components"] == [
        {"type": "application", "name": "NVRTC", "version": nvrtc, "bom-ref": f"NVRTC@{nvrtc}"},
        *(
            {
                "type": "file",
                "name": f"demo/{name}",
                "bom-ref": f"file:demo/{name}",
                "hashes": [{"alg": "SHA-256", "content": sha256(files[name].encode())}],
            }
            for name in ("a.cu", "a.cuh")
        ),
        {
            "type": "application",
            "name": "hatch-cubin",
            "version": __version__,
            "bom-ref": ours,
            "purl": f"pkg:pypi/{ours}",
        },
    ]
    assert bill["metadata"] == {
        "component": {"type": "library", "name": "demo._cubins", "bom-ref": "bundle"},
    }
    assert bill["dependencies"] == [
        {"ref": "bundle", "dependsOn": [part["bom-ref"] for part in bill["components"]]}
    ]
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)


def test_what_assembles_ptx_is_named_where_there_is_some(tmp_path: Path) -> None:
    bill = _bill(tmp_path, {"copy.ptx": COPY_PTX})
    assert _named(bill, "application").keys() == {"NVRTC", "ptxas", "hatch-cubin"}


def test_headers_of_the_toolkit_are_named_by_its_build(tmp_path: Path) -> None:
    found = _named(_bill(tmp_path, {"half.cu": HALF}), "library")
    assert f"NVRTC {Toolkit(None).nvrtc} headers" in found
    wheels = {name: version for name, version in found.items() if name.startswith("nvidia-")}
    assert wheels == {name: importlib.metadata.version(name) for name in wheels}
    assert "nvidia-cuda-cuobjdump" not in wheels  # it has no headers


def test_header_wheels_are_named_with_their_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    install_wheel(site, "more-headers", {"more/include/more.h": "// more\n"}, version="4.2")
    install_wheel(site, "nvidia-less", {"nvidia/less/include/less.h": "// less\n"}, version="1.0")
    install_wheel(site, "nvidia-other", {"nvidia/less/include/other.h": "// other\n"}, version="1.0")
    monkeypatch.syspath_prepend(site)
    options = f'{ONE}header-packages = ["more-headers", "nvidia-less"]\n'
    source = f"#include <more.h>\n{SAXPY}"
    bill = _bill(tmp_path / "project", {"k.cu": source}, options)
    assert _named(bill, "library") == {"more-headers": "4.2"}
    (more,) = (part for part in bill["components"] if part["type"] == "library")
    assert more["purl"] == "pkg:pypi/more-headers@4.2"
    bill = _bill(tmp_path / "project", {"k.cu": source.replace("more", "less")}, options)
    assert _named(bill, "library") == {"nvidia-less": "1.0"}  # whose folder has others, too
    bill = _bill(tmp_path / "project", {"k.cu": f"#if 0\n#include ANY\n#endif\n{SAXPY}"}, options)
    assert _named(bill, "library").items() >= {"nvidia-less": "1.0", "nvidia-other": "1.0"}.items()


def test_two_builds_in_two_folders_have_one_bill(tmp_path: Path) -> None:
    bills = [pipeline.build(make_project(tmp_path / name, {"k.cu": SAXPY}, ONE))[sbom.NAME] for name in "ab"]
    assert bills[0] == bills[1]
    other = pipeline.build(make_project(tmp_path / "c", {"k.cu": f"{SAXPY}\n"}, ONE))[sbom.NAME]
    serials = {json.loads(each)["serialNumber"] for each in (*bills, other)}
    assert len(serials) == 2


# The commit

TRACED = f"{ONE}provenance = true\n"
GIT = ("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")


def _provenance(root: Path) -> dict[str, str]:
    project = make_project(root, {"k.cu": (root / "demo/k.cu").read_text()}, TRACED)
    component = json.loads(pipeline.build(project)[sbom.NAME])["metadata"]["component"]
    return {each["name"]: each["value"] for each in component.get("properties", [])}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    make_project(tmp_path, {"k.cu": SAXPY}, TRACED)
    run("git", "init", "-q", cwd=tmp_path)
    run("git", "add", "-A", cwd=tmp_path)
    run(*GIT, "commit", "-qm", "one", cwd=tmp_path)
    return tmp_path


def test_the_commit_is_named_where_that_is_asked_for(repository: Path) -> None:
    commit = run("git", "rev-parse", "HEAD", cwd=repository).stdout.strip()
    assert _provenance(repository) == {"hatch-cubin:commit": commit, "hatch-cubin:dirty": "false"}
    (repository / "notes.txt").write_text("not a source")
    assert _provenance(repository)["hatch-cubin:dirty"] == "false"
    (repository / "demo/k.cu").write_text(f"{SAXPY}\n")
    assert _provenance(repository)["hatch-cubin:dirty"] == "true"


def test_a_commit_knows_the_source_roots(tmp_path: Path) -> None:
    options = f'{TRACED}sources = ["csrc/*.cu"]\nsource-roots = {{ csrc = "../csrc" }}\n'
    project = make_project(write_tree(tmp_path, {"csrc/k.cu": SAXPY}) / "pkg", {}, options)
    run("git", "init", "-q", cwd=tmp_path)
    run("git", "add", "-A", cwd=tmp_path)
    run(*GIT, "commit", "-qm", "one", cwd=tmp_path)

    def found() -> Any:
        bill = json.loads(pipeline.build(project)[sbom.NAME])
        files = [part["name"] for part in bill["components"] if part["type"] == "file"]
        return files, bill["metadata"]["component"]["properties"][1]["value"]

    assert found() == (["csrc/k.cu"], "false")
    (tmp_path / "csrc/k.cu").write_text(f"{SAXPY}\n")
    assert found() == (["csrc/k.cu"], "true")


@pytest.mark.parametrize("at_once", [1, 500])
def test_a_source_that_git_ignores_is_of_no_commit(
    repository: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(sbom, "_AT_ONCE", at_once)
    (repository / ".gitignore").write_text("made.cu\n")
    run("git", "config", "status.showUntrackedFiles", "no", cwd=repository)
    (repository / "demo/made.cu").write_text(SAXPY)
    assert _provenance(repository)["hatch-cubin:dirty"] == "true"


def test_a_sources_name_is_no_pattern(repository: Path) -> None:
    write_tree(repository, {"demo/[k].cu": SAXPY})
    run("git", "--literal-pathspecs", "add", "demo/[k].cu", cwd=repository)
    run(*GIT, "commit", "-qm", "two", cwd=repository)
    assert _provenance(repository)["hatch-cubin:dirty"] == "false"
    (repository / "demo/[k].cu").write_text(f"{SAXPY}\n")
    assert _provenance(repository)["hatch-cubin:dirty"] == "true"


def test_where_git_cannot_tell_what_was_changed_nothing_is_said(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = git.output
    monkeypatch.setattr(
        git, "output", lambda root, *command: None if "status" in command else real(root, *command)
    )
    assert _provenance(repository) == {}


def test_what_lies_in_a_repository_and_is_not_of_it_has_no_commit(repository: Path) -> None:
    make_project(repository / "unpacked", {"k.cu": SAXPY}, TRACED)
    assert _provenance(repository / "unpacked") == {}


def test_without_git_there_is_no_commit(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert _provenance(repository) == {}
