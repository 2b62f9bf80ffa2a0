"""The bill of materials of a bundle, in CycloneDX's format: its compilers, headers and sources.

No time, no random number and no path of the machine is in it, so that the same inputs give the same bytes.
"""

from __future__ import annotations

import json
import subprocess
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from .. import __version__
from ..keys import headers
from ..keys.jobs import Job, digests_of, files_of
from ..sources.project import Project
from ..toolkit.toolkit import Toolkit

NAME = "hatch-cubin.cdx.json"

_SPEC = "1.6"
_AT_ONCE = 500  # files that git is asked about: the length of a command line is limited
_Component = dict[str, Any]


def bill(project: Project, jobs: Sequence[Job], toolkit: Toolkit) -> bytes:
    """Return the bill of what a bundle of *jobs* is made of."""
    parts = {part["bom-ref"]: part for part in (*_tools(toolkit), *_headers_of(jobs), *_files(jobs))}
    bundle = {"type": "library", "name": f"{project.package}._cubins", "bom-ref": "bundle"}
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {"component": bundle | _provenance(project, jobs)},
        "components": [parts[ref] for ref in sorted(parts)],
        "dependencies": [{"ref": "bundle", "dependsOn": sorted(parts)}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return (json.dumps({**body, "serialNumber": serial.urn}, sort_keys=True) + "\n").encode()


def _tools(toolkit: Toolkit) -> Iterator[_Component]:
    yield _part("application", "hatch-cubin", __version__, wheel="hatch-cubin")
    yield _part("application", "NVRTC", toolkit.nvrtc)
    if toolkit.nvjitlink_if_loaded is not None:
        yield _part("application", "nvJitLink", toolkit.nvjitlink_if_loaded)


def _headers_of(jobs: Iterable[Job]) -> Iterator[_Component]:
    """Yield the wheels and other trees outside the project whose headers the kernels can read."""
    used = {
        root.tree
        for job in jobs
        for root in job.search
        if root.tree in job.closure.trees
        or any(file.startswith(f"{root.logical}/") for file in job.closure.files)
    }
    for tree in used - {""}:
        wheels = headers.wheels_of(tree)
        for name, version in wheels.items():
            yield _part("library", name, version, wheel=name)
        if not wheels:
            yield _part("library", tree)


def _files(jobs: Iterable[Job]) -> Iterator[_Component]:
    for path, digest in sorted(digests_of(jobs).items()):
        yield {
            "type": "file",
            "name": path,
            "bom-ref": f"file:{path}",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }


def _part(kind: str, name: str, version: str | None = None, *, wheel: str | None = None) -> _Component:
    part: _Component = {"type": kind, "name": name, "bom-ref": f"{name}@{version}" if version else name}
    if version is not None:
        part["version"] = version
    if wheel is not None:
        part["purl"] = f"pkg:pypi/{wheel}@{version}"
    return part


def _provenance(project: Project, jobs: Iterable[Job]) -> _Component:
    """Return the sources' git commit, if the table asks for it and there is one."""
    if not project.config.provenance:
        return {}
    # An unpacked sdist may lie in somebody's repository without being part of any commit there.
    tracked = _git(project.root, "ls-files", "--error-unmatch", "pyproject.toml")
    commit = tracked and _git(project.root, "rev-parse", "HEAD")
    if not commit:
        return {}
    changed = _changes(project.root, files_of(jobs))
    if None in changed:
        return {}
    facts = {"commit": commit.strip(), "dirty": "true" if any(changed) else "false"}
    return {"properties": [{"name": f"hatch-cubin:{name}", "value": facts[name]} for name in facts]}


def _changes(root: Path, files: Sequence[str]) -> list[str | None]:
    """Return what git says of files that differ from the commit or are not in it; None where git fails."""
    status = ("--literal-pathspecs", "status", "--porcelain", "--untracked-files=all", "--ignored", "--")
    return [_git(root, *status, *files[at : at + _AT_ONCE]) for at in range(0, len(files), _AT_ONCE)]


def _git(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 - a command of ours, on the user's own repository
            ["git", *arguments],  # noqa: S607
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout
