"""Find the inputs of a producer (a Python function) without calling it, and make a key of the inputs."""

from __future__ import annotations

import json
import os
import posixpath
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple

from ..common import file_access
from ..common.digest import digest, file_digest, stream_digest
from ..config.config import ProducerRule
from ..config.value_checks import guess_path, path_elsewhere
from ..errors import ConfigError, Problem, problem
from ..project import disk
from ..project.project import Project
from ..project.source import ProjectFiles, glob_regex, is_glob, walk
from .import_closure import import_closure, module_name, packages_for
from .installed import installed_digest
from .producer_script import Packages, is_listed, undeclared_in

Produced = Sequence[tuple[Any, Any]]  # names and values of the mapping that a producer returned

_SCRIPT = re.compile(r"(?<!__init__)\.py$")
_FORMAT = 1  # a new number makes every producer run again


class ProducerInputs(NamedTuple):
    """The files, folders and environment variables that one producer depends on, each with a digest."""

    # The producer's Python file, and the project's modules that this file can import.
    modules: Mapping[str, str]
    files: Mapping[str, str]  # The files that the key `inputs` lists.
    # Folders that the producer may list, each with a digest of the names in the folder.
    folders: Mapping[str, str]
    environment: Mapping[str, str | None]  # None for a variable that is not set

    @property
    def paths(self) -> list[str]:
        """The paths of all files that are inputs."""
        return sorted({*self.modules, *self.files})


class Producer(NamedTuple):
    """A [[producer]] table with its inputs, and the names under which the producer's modules are imported."""

    rule: ProducerRule
    inputs: ProducerInputs
    module: str
    packages: Packages

    def key(self) -> str:
        """Return a digest of everything that can change the texts that the producer returns."""
        rule, python = self.rule, f"{sys.implementation.cache_tag} {sys.platform}"
        known = [_FORMAT, python, rule.name, rule.produces, self.packages, self.inputs]
        return digest([json.dumps(known, sort_keys=True), installed_digest(sys.path)])


def find_producers(project: Project) -> list[Producer]:
    """Return the producers of a project; ConfigError or SourceError if a file of a producer is missing."""
    files = ProjectFiles(project.tree, project.packages)
    problems: list[Problem] = []
    found: list[Producer] = []
    for index, rule in enumerate(project.config.producer):
        problems += _missing_files(project, index, rule, files)
        if not problems:
            found.append(_producer(project, rule, files))
    if problems:
        raise ConfigError(*problems)
    return found


def _producer(project: Project, rule: ProducerRule, files: ProjectFiles) -> Producer:
    packages = packages_for(project.packages, rule.path)
    name = module_name(project.packages, rule.path)
    modules = import_closure(project.tree, packages, name, rule.path)
    matched = sorted({path for pattern in rule.inputs for path in files.matching(pattern, hidden=True)})
    searched = {each for pattern in rule.inputs for each in _searched_folders(project, pattern)}
    folders = [folder for folder in sorted(searched) if _are_declared(project, folder, {*matched, *modules})]
    inputs = ProducerInputs(
        {path: file_digest(modules[path]) for path in sorted(modules)},
        {path: _file_digest(project, path) for path in matched},
        {folder: digest(_names_in(project, folder)) for folder in folders},
        {name: _value_digest(project.environ.get(name)) for name in sorted(rule.environment)},
    )
    return Producer(rule, inputs, name, packages)


def _missing_files(
    project: Project, index: int, rule: ProducerRule, files: ProjectFiles
) -> Iterator[Problem]:
    place = project.config.place
    if not disk.is_file(project.tree.disk_path(rule.path), project.tree):
        what, where = f"path: {rule.path!r} is not a file of the project", place.of("producer", index, "path")
        scripts = sorted(path for path in walk(project.tree, ".") if _SCRIPT.search(path))
        yield problem("producer-not-found", what, where, guess_path(rule.path, scripts))
    for number, pattern in enumerate(rule.inputs):
        if not files.matching(pattern, hidden=True):
            is_folder = project.tree.disk_path(pattern).is_dir()
            hint = f'the path is a folder: write "{pattern}/**" for the files in it' if is_folder else None
            beside = posixpath.join(posixpath.dirname(rule.path), pattern)
            if files.matching(beside, hidden=True):
                hint = f"did you mean {beside!r}? The paths in 'inputs' begin at the project's folder"
            elif hint is None and not is_glob(pattern):
                hint = path_elsewhere(pattern, sorted(walk(project.tree, ".")))
            what, where = (
                f"inputs: {pattern!r} matches no file",
                place.of("producer", index, "inputs", number),
            )
            yield problem("pattern-matches-nothing", what, where, hint)


def _file_digest(project: Project, path: str) -> str:
    if not project.tree.is_inside(path):
        raise disk.outside_link_error(project.tree, path)
    try:
        with file_access.open_plain(project.tree.disk_path(path)) as file:
            return stream_digest(file)
    except OSError as exc:
        raise disk.unreadable_error(exc, project.tree.disk_path(path), project.tree) from exc


def _value_digest(value: str | None) -> str | None:
    return None if value is None else file_digest(value.encode("utf-8", "surrogateescape"))


def _searched_folders(project: Project, pattern: str) -> Iterator[str]:
    """Yield the folders that a Python script has to list to find all files that a glob matches."""
    if not is_glob(pattern):
        return
    parts = pattern.split("/")
    first = next(number for number, part in enumerate(parts) if is_glob(part))
    searched = [glob_regex("".join(f"{part}/" for part in parts[:end])) for end in range(first, len(parts))]
    if "**" in parts[-1]:
        searched.append(glob_regex("".join(f"{part}/" for part in (*parts[:-1], "**"))))
    starts = ["/".join(parts[:first])] if first else [*project.packages.values()]
    for start in starts:
        for folder in _folders_below(project, start):
            inner = folder[len(start) + 1 :] if not first else folder
            names = (f"{inner}/" if inner else "", f"{folder}/")
            if any(regex.fullmatch(name) for regex in searched for name in names):
                yield folder


def _folders_below(project: Project, start: str) -> Iterator[str]:
    begin = str(project.tree.disk_path(start))
    for parent, folders, _files in os.walk(begin):
        folders[:] = sorted(filter(is_listed, folders))
        inner = os.path.relpath(parent, begin).replace(os.sep, "/")
        yield start if inner == "." else f"{start}/{inner}".removeprefix("./")


def _are_declared(project: Project, folder: str, files: AbstractSet[str]) -> bool:
    """Return whether all files in a folder are declared as inputs.

    An sdist contains only declared files, so a folder with only declared files has the same listing in an
    sdist.
    """
    return not undeclared_in(folder, str(project.tree.disk_path(folder)), files)


def _names_in(project: Project, folder: str) -> list[str]:
    return sorted(filter(is_listed, os.listdir(project.tree.disk_path(folder))))
