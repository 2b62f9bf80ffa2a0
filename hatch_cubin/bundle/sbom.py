"""Write the bill of materials of a bundle in CycloneDX format: compilers, headers and sources.

The bill of materials contains no times, random numbers or absolute paths, so the same inputs give the same
bytes.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from .. import __version__
from ..common import git
from ..keys.jobs import Job, file_digests, files_of
from ..project.project import Project
from ..toolkit.toolkit import Toolkit

NAME = "hatch-cubin.cdx.json"

_SPEC = "1.6"
_AT_ONCE = 500  # The most files in one call of git, because the length of a command line has a limit.
Component = dict[str, Any]


def bill(project: Project, jobs: Sequence[Job], toolkit: Toolkit, headers: Mapping[str, str | None]) -> bytes:
    """Return the bill of materials of a bundle.

    *headers* are the wheels and folders outside the project that contain included headers.
    """
    made_with = tools(__version__, toolkit.compilers)
    parts = (*made_with, *_header_parts(headers), *starmap(file_part, sorted(file_digests(jobs).items())))
    return write_bill(bundle_part(project.package, _provenance(project, jobs)), parts)


def write_bill(bundle: Component, parts: Iterable[Component]) -> bytes:
    """Return the bytes of a bill of materials, which says that *bundle* depends on the components *parts*."""
    named = {part["bom-ref"]: part for part in parts}
    body: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": _SPEC,
        "version": 1,
        "metadata": {"component": bundle},
        "components": [named[ref] for ref in sorted(named)],
        "dependencies": [{"ref": "bundle", "dependsOn": sorted(named)}],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return (json.dumps({**body, "serialNumber": serial.urn}, sort_keys=True) + "\n").encode()


def bundle_part(package: str, provenance: Mapping[str, str]) -> Component:
    """Return the component of the bill of materials for the bundle itself."""
    part = {"type": "library", "name": f"{package}._cubins", "bom-ref": "bundle"}
    facts = [{"name": f"hatch-cubin:{name}", "value": provenance[name]} for name in sorted(provenance)]
    return part | ({"properties": facts} if facts else {})


def tools(version: str, toolchain: Mapping[str, str | None]) -> Iterator[Component]:
    """Yield components for hatch-cubin and for the compilers of a toolchain."""
    yield part("application", "hatch-cubin", version, wheel="hatch-cubin")
    yield part("application", "NVRTC", toolchain.get("nvrtc"))
    for compiler, name in (("nvjitlink", "nvJitLink"), ("ptxas", "ptxas"), ("tileiras", "tileiras")):
        if (build := toolchain.get(compiler)) is not None:
            yield part("application", name, build)


def file_part(path: str, digest: str) -> Component:
    """Return the component that describes a file of the project in the bill of materials."""
    hashes = [{"alg": "SHA-256", "content": digest}]
    return {"type": "file", "name": path, "bom-ref": f"file:{path}", "hashes": hashes}


def part(kind: str, name: str, version: str | None = None, *, wheel: str | None = None) -> Component:
    """Return the component that describes a tool or a package of headers in the bill of materials."""
    found: Component = {"type": kind, "name": name, "bom-ref": f"{name}@{version}" if version else name}
    if version is not None:
        found["version"] = version
    if wheel is not None:
        found["purl"] = f"pkg:pypi/{wheel}@{version}"
    return found


def _header_parts(headers: Mapping[str, str | None]) -> Iterator[Component]:
    """Yield a component for each name in *headers*, a wheel or a folder outside the project."""
    for name, version in headers.items():
        yield part("library", name, version, wheel=None if version is None else name)


def _provenance(project: Project, jobs: Iterable[Job]) -> dict[str, str]:
    """Return the git commit of the sources, if `provenance` is true and git knows the project."""
    if not project.config.provenance:
        return {}
    # An sdist may be unpacked inside another Git repository, whose commits do not contain the sdist.
    tracked = git.output(project.root, "ls-files", "--error-unmatch", "pyproject.toml")
    commit = tracked and git.output(project.root, "rev-parse", "HEAD")
    if not commit:
        return {}
    files = [*map(project.tree.path_from_project, [*files_of(jobs), *_files_of_producers(project)])]
    changed = _changes(project.root, files)
    if None in changed:
        return {}
    return {"commit": commit.strip(), "dirty": "true" if any(changed) else "false"}


def _files_of_producers(project: Project) -> Iterable[str]:
    """Return the files of the project that its producers (functions that generate sources) may read."""
    if not project.config.producer:
        return ()
    # Lazy import: only for projects with producers.
    from ..producing.produced_sources import files_for_producers

    return sorted(files_for_producers(project))


def _changes(root: Path, files: Sequence[str]) -> list[str | None]:
    """Return the outputs of `git status` for *files*: all are empty if no file differs from the commit."""
    status = ("--literal-pathspecs", "status", "--porcelain", "--untracked-files=all", "--ignored", "--")
    return [git.output(root, *status, *files[at : at + _AT_ONCE]) for at in range(0, len(files), _AT_ONCE)]
