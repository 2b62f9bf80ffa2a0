"""Find the files that are linked with a module's compiled sources, in the project and in wheels."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from ..cache.records import RecalledResult
from ..common import file_access, read_limits
from ..common.digest import digest, file_digest
from ..config import nvidia_wheels
from ..config.value_checks import guess_path
from ..cubin.elf import read_cubin
from ..cubin.objects import kind_of
from ..errors import ConfigError, HatchCubinError, Problem, SourceError, problem
from ..planning.linked_modules import location_of_file
from ..planning.unit_plan import Module, Unit
from ..project import disk
from ..project.project import Project
from ..project.source import LFS_HINT, glob_regex, is_lfs_pointer, walk
from ..project.source_roots import ProjectTree
from ..toolkit import requirements
from ..toolkit.linker import Input, refuse_older
from ..toolkit.toolkit import Keys, Toolkit
from .ingredients import UnitInputs, inputs_of, keys_of
from .recall import Recall


class LinkedFiles:
    """The files that the setting `link` in the project's [[module]] tables lists.

    Each of the linked files is read only once.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._found: dict[str, list[tuple[Input, int | None]]] = {}

    def files_of(self, module: Module) -> list[tuple[Input, int | None]]:
        """Return the files that are linked into a module; for each cubin, also the number of its arch."""
        problems, found = list[Problem](), list[tuple[Input, int | None]]()
        for index, entry in enumerate(module.link.files if module.link else ()):
            try:
                found += self._of_entry(entry)
            except HatchCubinError as exc:
                where = location_of_file(self._project.config, module, index)
                problems += (each._replace(what=f"link: {each.what}", where=where) for each in exc.problems)
        if problems:
            raise ConfigError(*problems)
        return found

    def _of_entry(self, entry: str) -> list[tuple[Input, int | None]]:
        if entry not in self._found:
            wheel, colon, files = entry.partition(":")
            found = _of_wheel(wheel, files, self._project) if colon else [self._of_project(entry)]
            self._found[entry] = list(found)
        return self._found[entry]

    def _of_project(self, path: str) -> tuple[Input, int | None]:
        tree = self._project.tree
        place = tree.disk_path(path)
        if not os.path.isfile(place):
            raise SourceError(
                problem(
                    "linked-file-not-found",
                    f"{path!r} is not a file of the project",
                    hint=_hint_for_path(path, tree),
                )
            )
        if not tree.is_inside(path):
            raise disk.outside_link_error(tree, path)
        return _input(path, disk.read_file(place, tree), place, None)


def _hint_for_path(path: str, tree: ProjectTree) -> str:
    close = None if any(mark in path for mark in "*?[") else guess_path(path, sorted(walk(tree, ".")))
    if close is None and nvidia_wheels.may_be_host_library(path):
        return nvidia_wheels.HOST_LIBRARY
    return close or "write a file of a wheel as WHEEL:GLOB, as in 'nvidia-cuda-runtime:**/libcudadevrt.a'"


def _of_wheel(requirement: str, pattern: str, project: Project) -> Iterator[tuple[Input, int | None]]:
    """Yield an installed wheel's files that match a glob; SourceError if a file differs from RECORD."""
    name = re.split(r"[\s<>=!~]", requirement, maxsplit=1)[0]
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        what = f"{name!r} is not installed in the build environment"
        install_command = requirements.install_command(project.config, project.environ)
        hint = f"a build with isolation installs this wheel; for a build without isolation: {install_command}"
        raise SourceError(problem("wheel-not-installed", what, hint=hint)) from None
    rule = glob_regex(pattern)
    files = sorted((file for file in found.files or () if rule.fullmatch(str(file))), key=str)
    if not files:
        what = f"{name!r} {found.version} has no file that matches {pattern!r}"
        raise SourceError(problem("linked-file-not-found", what, hint=_hint_for_glob(found, pattern)))
    for file in files:
        place = Path(str(file.locate()))
        try:
            data = file_access.read(place, read_limits.CODE)
        except OSError as exc:
            raise SourceError(
                problem("file-not-readable", f"{file} of {name!r} cannot be read: {exc.strerror}")
            ) from exc
        recorded = file.hash.value if file.hash and file.hash.mode == "sha256" else None
        now = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        if recorded != now:
            what = f"{file} does not match its digest in the RECORD of {name!r} {found.version}"
            raise SourceError(problem("installed-file-changed", what, hint=f"install {name} again"))
        logical = f"{found.metadata['Name'].lower()}/{file}"
        yield _input(logical, data, place, (found.metadata["Name"], found.version))


def _hint_for_glob(found: importlib.metadata.Distribution, pattern: str) -> str | None:
    """Return a hint that lists those files of a wheel that the glob *pattern* may mean."""
    ends = (".a", ".ptx", ".cubin", ".fatbin", ".ltoir", ".o")
    names = sorted(str(file) for file in found.files or () if str(file).endswith(ends))
    last = pattern.rpartition("/")[2].strip("*")
    close = [name for name in names if last and last in name] or names
    return f"the wheel contains {', '.join(close[:5])}" if close else None


def _input(name: str, data: bytes, place: Path, wheel: tuple[str, str] | None) -> tuple[Input, int | None]:
    try:
        kind = kind_of(data)
    except ValueError as exc:
        hint = LFS_HINT if is_lfs_pointer(data[:200].decode("latin-1")) else None
        raise SourceError(problem("not-linkable", f"{name} {exc}", hint=hint)) from exc
    target = read_cubin(data).target if kind == "cubin" else None
    return Input(name, kind, file_digest(data), path=place, wheel=wheel), target


def _inputs_of(
    unit: Unit, keys: Mapping[Unit, Keys], files: Sequence[tuple[Input, int | None]]
) -> tuple[Input, ...]:
    """Return the inputs of a linked unit, in the order of the setting `link`.

    Cubins for other archs are left out.
    """
    link, real = unit.module.link, unit.arch.real
    assert link is not None
    parts = []
    for part in link.parts:
        if isinstance(part, Module):
            each = Unit(part, real)
            kind = "lto" if link.mode == "lto" else "cubin"
            parts.append(Input(part.source.path, kind, keys[each].key.hex(), unit=each))
        else:
            parts.append(Input(part.path, "ptx", part.sha256, text=part.code))
    own = (each for each, target in files if target in {None, real.number})
    return (*parts, *own)


def _lto_mode_problem(project: Project, module: Module) -> Problem:
    number = [rule.name for rule in project.config.module].index(module.base)
    what = f"all inputs of {module.base} are PTX, but mode = 'lto' needs at least one input with LTO-IR"
    return problem("rdc-mode-needed", what, project.config.place.of("module", number, "mode"), 'mode = "rdc"')


class LinkedUnit(NamedTuple):
    """A linked unit with its cache keys, the result of an earlier build, and the inputs of its link."""

    unit: Unit
    keys: Keys
    module_digest: str
    recorded: RecalledResult | None
    linked: tuple[Input, ...]


def find_links(
    project: Project,
    groups: Sequence[tuple[Module, tuple[Unit, ...]]],
    keys: Mapping[Unit, Keys],
    toolkit: Toolkit,
    recall: Recall,
) -> list[LinkedUnit]:
    """Return all linked units. *keys* are the cache keys of the object files from which the units are linked.

    Raise ConfigError with a problem for each file that cannot be linked.
    """
    files, found, problems = LinkedFiles(project), list[LinkedUnit](), list[Problem]()
    for module, units in groups:
        if module.link is None:
            continue
        if module.link.mode == "lto" and module.link.objects:
            refuse_older(toolkit)
        try:
            there = files.files_of(module)
        except ConfigError as exc:
            problems += exc.problems
            continue
        for unit in units:
            linked = _inputs_of(unit, keys, there)
            if module.link.mode == "lto" and all(each.kind == "ptx" for each in linked):
                problems.append(_lto_mode_problem(project, module))
                break
            unit_inputs = UnitInputs(unit, toolkit, linked=linked)
            module_digest = digest([json.dumps(inputs_of(unit_inputs), sort_keys=True)])
            recalled = recall.units(module_digest).get(str(unit.arch))
            own, recorded = recalled or (keys_of(unit_inputs), None)
            found.append(LinkedUnit(unit, own, module_digest, recorded, linked))
    if problems:
        raise ConfigError(*problems)
    return found
