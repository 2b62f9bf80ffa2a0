"""Find results in the cache that another version of the compiler made for the units of a build."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..cache.entries import Cache
from ..config.toml_lines import setting
from ..keys.ingredients import NVJITLINK, NVRTC, UnitInputs
from ..keys.jobs import Job
from ..planning.unit_plan import Unit
from ..project.project import Project

_TITLES = {NVRTC: "NVRTC", NVJITLINK: "nvJitLink"}
_VERSION = re.compile(r"[0-9]{1,6}\.[0-9]{1,6}\.[0-9]{1,6}( \w+)?")
_SAME = ("path", "arch", "source", "define", "options")  # the inputs that do not depend on the compiler


class OtherCompiler(NamedTuple):
    """The compiler whose results are in the cache, the compiler of the build, and a hint for the user."""

    cached: str
    own: str
    hint: str


def other_compilers(project: Project, jobs: Sequence[Job], cache: Cache) -> Mapping[Unit, OtherCompiler]:
    """For each unit that is cached only for other compiler versions, return these compiler versions."""
    found: dict[tuple[str, ...], set[str]] = {}
    for record in cache.inputs().values():
        if isinstance(record, dict) and _VERSION.fullmatch(str(record.get("compiler"))):
            found.setdefault(_identity(record), set()).add(record["compiler"])
    others = {}
    for job in jobs:
        inputs = job.inputs
        versions, own = sorted(found.get(_identity(inputs), ()), key=_numbers), inputs["compiler"]
        if versions and own not in versions:
            tool = UnitInputs(job.unit, job.toolkit).tool
            title = _TITLES.get(tool, tool)
            names = (f"{title} {' and '.join(versions)}", f"{title} {own}")
            others[job.unit] = OtherCompiler(*names, _hint(project, versions[-1], own, names[1]))
    return others


def _identity(inputs: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(repr(inputs.get(name)) for name in _SAME)


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall("[0-9]+", version)]


def _hint(project: Project, cached: str, own: str, compiler: str) -> str:
    """Return a hint for results that are cached only for another compiler version.

    The hint is to build with *cached*, the compiler version of the cached results, or to fill the cache by
    building with *own*, the compiler version of this build.
    """
    release, own_release = (".".join(version.split(".")[:2]) for version in (cached, own))
    if project.config.toolkit == "system" or _numbers(cached) == _numbers(own):
        return f"fill the cache with {compiler}"
    if release == own_release:
        return (
            f"fill the cache with {compiler}; "
            "or run 'hatch-cubin lock' where the cache was filled, and commit cubin.lock"
        )
    variable = project.config.replaced.get("toolkit")
    choice = f"{variable}={release}" if variable else setting("toolkit", release)
    return (
        f"fill the cache with {compiler}; or let all builds use the release that filled the cache: {choice}"
    )
