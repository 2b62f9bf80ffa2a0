"""The project that is built: its folder, packages, configuration and sources."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath

from ..common import user_folders
from ..common.console import Progress
from ..common.environment import (
    REMOTE,
    REMOTE_TOKEN,
    REMOTE_WRITE,
    REQUIRE_SIGNED,
    SIGNING_KEY,
    as_written,
    is_on,
    variables_of_others,
)
from ..config import toml_lines
from ..config.config import DEFAULT_SOURCES, Config, ModuleRule, SourceRule
from ..config.misplaced_keys import misplaced_keys
from ..config.reader import variables_unread
from ..config.value_checks import guess_path
from ..errors import ConfigError, Location, Problem, SourceError, problem
from .source import (
    BUNDLE_FOLDER,
    SUFFIXES,
    ProjectFiles,
    Source,
    glob_regex,
    is_glob,
    is_ptx,
    may_have_kernel,
    read_source,
    walk,
)
from .source_roots import MARK_OF_SDISTS, ProjectTree, find_tree
from .tile_kernels import has_tile_kernels

_NOT_MODULES = frozenset(
    {"__init__.py", "conftest.py", "hatch_build.py", "noxfile.py", "setup.py", "tasks.py"}
)
_SHOWN_FOLDERS = 5
_NO_FOLDER = (
    "a path in 'include-dirs' begins at the project's folder; "
    "'header-packages' is for headers in wheels such as nvidia-cutlass"
)
_LIKE_SOURCES = frozenset({".cuda", ".cuh", ".h", ".hpp", ".c", ".cc", ".cpp", ".cxx", ".cl", ".inl"})


def _silent(_message: str) -> None:
    """Print nothing."""


def _no_progress(total: int, cached: int) -> AbstractContextManager[Progress]:
    return nullcontext(Progress(total, cached))


@dataclass(frozen=True, kw_only=True)
class Project:
    """The project to build, and the functions that print messages of the build."""

    root: Path
    packages: Mapping[str, str]  # top-level import package → project-relative folder
    config: Config
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    inform: Callable[[str], object] = _silent
    warn: Callable[[str], object] = _silent
    show_progress: Callable[[int, int], AbstractContextManager[Progress]] = (
        # called with the number of units (modules for one arch), and the number of units that are cached
        _no_progress
    )
    verbose: bool = False
    recalls_texts: bool = True  # whether texts that producers returned in an earlier build may be used again

    @cached_property
    def tree(self) -> ProjectTree:
        """The locations of the project's files on the disk; ConfigError if a source root is wrong."""
        return find_tree(self.root, self.config.source_roots, self.config.place)

    @property
    def package(self) -> str:
        """The import package into which the compiled kernels are written."""
        wanted, place = self.config.package, self.config.place
        known = ", ".join(map(repr, self.packages)) or "none"
        if wanted is None:
            if not self.packages:
                what = "the wheel does not contain a package into which the kernels could be written"
                raise ConfigError(
                    problem(
                        "no-package-for-kernels",
                        what,
                        place.of(),
                        (place.wraps and _namespace_package(self.root)) or _how_to_have_a_package(self.root),
                    )
                )
            if len(self.packages) != 1:
                what = f"the wheel has several packages ({known}): choose the package for the kernels"
                example = f"for example: {toml_lines.setting('package', self._package_with_sources())}"
                raise ConfigError(problem("package-not-chosen", what, place.of(), example))
            return next(iter(self.packages))
        folder = self._folder(wanted)
        if folder is None or not os.path.isdir(self.root / folder):
            what = f"package {wanted!r} is not in the wheel, whose packages are: {known}"
            hint = toml_lines.setting("package", *self.packages) if len(self.packages) == 1 else None
            raise ConfigError(problem("package-not-in-wheel", what, place.of("package"), hint))
        return wanted

    def _package_with_sources(self) -> str:
        """Return the first package whose folder contains a source, or else the first package."""
        having = (
            name
            for name, folder in self.packages.items()
            if any(next((self.root / folder).rglob(f"*{suffix}"), None) for suffix in SUFFIXES)
        )
        return next(having, next(iter(self.packages)))

    def _folder(self, package: str) -> str | None:
        """Return a package's folder, which may not exist; None if the wheel does not contain the package."""
        for top, folder in self.packages.items():
            if package == top or package.startswith(top + "."):
                return str(PurePosixPath(folder, *package.split(".")[len(top.split(".")) :]))
        return None

    @property
    def bundle_folder(self) -> str:
        """The folder in the project into which an editable install writes the compiled kernels."""
        return str(PurePosixPath(self._folder(self.package) or "", BUNDLE_FOLDER))

    @property
    def cache_folder(self) -> Path:
        """The cache folder: the folder that pyproject.toml configures, or the user's default cache folder."""
        return user_folders.cubins_folder(self.root, self.config.cache_dir)

    @property
    def is_skipped(self) -> bool:
        """Whether the user has requested a wheel without kernels (`HATCH_CUBIN_SKIP`)."""
        return self.is_switched_on("HATCH_CUBIN_SKIP")

    @property
    def uses_signatures(self) -> bool:
        """Whether the build signs cache entries or checks signatures."""
        return bool(self.config.trusted_keys or self.environ.get(SIGNING_KEY))

    def warn_of_variables(self) -> None:
        """Warn of environment variables without effect, and print the variables that change compiled code."""
        for message in variables_unread(self.environ):
            self.warn(message)
        for note in variables_of_others(self.environ):
            self.inform(note)
        for variable, key in self.variables_that_change_units().items():
            place = self.config.place
            value = self.environ[variable]
            if place.has(key):
                self.inform(f"{variable}={value} replaces {key!r} ({place.of(key)})")
            else:
                self.inform(f"{variable}={value} sets {key!r}, a key that is not in {place}")
        self._warn_of_missing_signatures()
        self._warn_of_lost_cache()
        self._warn_of_idle_store_settings()

    def warn_of_misplaced_keys(self) -> None:
        """Warn of keys of hatch-cubin that are in tables of other tools, so that no build reads them."""
        for misplaced in misplaced_keys(self.config.place):
            self.warn(misplaced.with_code())

    def _warn_of_lost_cache(self) -> None:
        """Warn if the cache is in an unpacked sdist, which build front ends remove after the build."""
        configured = self.config.cache_dir
        if configured is None or os.path.isabs(os.path.expanduser(configured)):
            return
        if (self.root / MARK_OF_SDISTS).is_file():
            self.warn(
                f"the cache folder {configured} is in an unpacked sdist, so later builds cannot reuse it: "
                "set HATCH_CUBIN_CACHE_DIR to an absolute path, or build only a wheel (python -m build -w)"
            )

    def _warn_of_missing_signatures(self) -> None:
        key = self.environ.get(SIGNING_KEY)
        if key == "":
            self.warn(f"{SIGNING_KEY} is empty, so results are not signed")
        elif key and self.config.trusted_keys and not self.is_switched_on(REQUIRE_SIGNED):
            self.warn(
                f"{SIGNING_KEY} is set, but {REQUIRE_SIGNED} is not: results that are already in the cache "
                "without a signature stay unsigned"
            )

    def variables_that_change_units(self) -> dict[str, str]:
        """Return the environment variables that replace 'archs' or 'toolkit', each with the replaced key."""
        return {by: key for key, by in self.replaced_keys_of_units().items() if by in self.environ}

    def replaced_keys_of_units(self) -> dict[str, str]:
        """Return the variables or options that replace the keys 'archs' and 'toolkit', if any do so."""
        return {key: by for key, by in self.config.replaced.items() if key in {"archs", "toolkit"}}

    def _warn_of_idle_store_settings(self) -> None:
        # Credentials are sent only to a remote cache whose URL is in the environment (see
        # `remote/location.py`).
        if self.environ.get(REMOTE):
            return
        idle = [REMOTE_TOKEN] if self.environ.get(REMOTE_TOKEN) else []
        if self.config.remote_cache is None and self.is_switched_on(REMOTE_WRITE):
            idle.append(REMOTE_WRITE)
        for variable in idle:
            self.warn(f"{variable} has no effect: set {REMOTE} to the URL of the remote cache too")

    def as_written(self, variable: str) -> str:
        """Return the name of the command-line option that set a variable, or else the variable's name."""
        return as_written(self.environ, variable)

    def is_switched_on(self, switch: str) -> bool:
        """Return whether a switch, such as `HATCH_CUBIN_SKIP`, is on in the environment."""
        return is_on(self.environ, switch)


def _namespace_package(root: Path) -> str | None:
    """Return a hint with lines to paste if the project has exactly one package in a namespace package."""
    inits = [*root.glob("src/*/*/__init__.py"), *root.glob("*/*/__init__.py")]
    folders = [path.parent.relative_to(root) for path in inits if path.parent.parent != root / "src"]
    if len(folders) != 1:
        return None
    name = ".".join(part for part in folders[0].parts if part != "src")
    lines = {"package": name, "package-dir": folders[0].as_posix()}
    listed = "".join(f"\n    {toml_lines.setting(key, value)}" for key, value in lines.items())
    return f"for a namespace package, paste these lines:{listed}"


def _how_to_have_a_package(root: Path) -> str:
    """Return a hint that says how to make a package, because the project may have only a Python module."""
    modules = sorted(
        path.relative_to(root).as_posix()
        for folder in (root / "src", root)
        for path in folder.glob("*.py")
        if path.name not in _NOT_MODULES and not path.name.startswith(("test_", "."))
    )
    if not modules:
        return "add a package: a folder with a file __init__.py, which the build backend puts into the wheel"
    package = modules[0].removesuffix(".py")
    return f"kernels need a package, but {modules[0]} is a single module: move it to {package}/__init__.py"


def cache_folders(project: Project) -> list[str]:
    """Return the paths of the cache folder in the project: as configured, and with links followed.

    The list is empty if the cache folder is outside the project.
    """
    root, cache = os.path.abspath(project.root), os.path.abspath(project.cache_folder)
    pairs = {(root, cache), (os.path.realpath(root), os.path.realpath(cache))}
    return sorted(
        {Path(path).relative_to(base).as_posix() for base, path in pairs if Path(path).is_relative_to(base)}
    )


def cache_entries(project: Project) -> list[str]:
    """Return the paths of the folders `entries` and `tmp` of each cache folder, relative to the project."""
    return [f"{folder}/{part}" for folder in cache_folders(project) for part in ("entries", "tmp")]


def needed_extras(project: Project) -> frozenset[str]:
    """Return the extras of NVIDIA's wheel cuda-toolkit for the assemblers that the project's sources need.

    PTX sources need ptxas, and tile kernels need tileiras. Producers (Python functions) are not called: their
    [[producer]] tables say whether they may return PTX or Tile IR.
    """
    config, files = project.config, ProjectFiles(project.tree, project.packages)
    linked = {path for rule in config.module for pattern in rule.sources for path in files.matching(pattern)}
    paths, _unmatched = files.find(config.sources, config.exclude)
    suffixes = {suffix for rule in config.producer for suffix in rule.produces}
    alone = [path for path in paths if path not in linked]
    has_ptx = "ptx" in suffixes or any(map(is_ptx, alone))
    has_tile = "tileir" in suffixes or any(has_tile_kernels(project.tree, path) for path in alone)
    return frozenset(["nvcc"] * has_ptx + ["tileiras"] * has_tile)


@dataclass(frozen=True, slots=True)
class ProjectSources:
    """The project's sources, sorted by path, and the paths that each pattern in [[module]] tables matches.

    The list of sources is incomplete until producers (Python functions) were called, which needs time and
    installed packages.
    """

    all: tuple[Source, ...]
    named: tuple[Mapping[str, Sequence[str]], ...]
    is_complete: bool = True
    declared: frozenset[str] = frozenset()  # the files that producers may use
    excluded: tuple[str, ...] = ()  # the files that 'exclude' removes from the sources

    @property
    def by_module_table(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the sources of each [[module]] table, in the same order as the [[module]] tables."""
        return tuple(tuple(dict.fromkeys(itertools.chain(*each.values()))) for each in self.named)

    def __iter__(self) -> Iterator[Source]:
        return iter(self.all)


def read_sources(project: Project) -> ProjectSources:
    """Find and read the project's source files.

    Raise SourceError with all sources that are missing or unreadable. `with_produced` adds the sources
    that producers return.
    """
    config = project.config
    files = ProjectFiles(project.tree, project.packages)
    every, unmatched = files.find(config.sources, ())
    paths = files.without(every, config.exclude)
    excluded = tuple(sorted({*every} - {*paths}))
    named = [{pattern: files.matching(pattern) for pattern in rule.sources} for rule in config.module]
    recorded = {path for folder in config.recorded for path in _recorded_calls(project, folder)}
    if recorded:
        paths = [path for path in paths if path not in recorded]
        named = [
            {pattern: [path for path in found if path not in recorded] for pattern, found in each.items()}
            for each in named
        ]
    paths = sorted({*paths, *(path for each in named for found in each.values() for path in found)})
    problems = [
        _no_match(project, pattern, config.place.of("sources", index))
        for index, pattern in enumerate(config.sources)
        if pattern in unmatched and pattern not in DEFAULT_SOURCES
    ]
    if not config.producer:
        problems += _unmatched_members(project, named)
    if not paths and not problems and not (config.producer or config.recorded):
        problems.append(_no_sources(project, every))
    _warn_of_exclude(project, files, every)
    _warn_of_capitals(project, files)
    problems += _include_folder_problems(project)
    sources = []
    for path in sorted({*paths, *recorded}):
        try:
            sources.append(_read(project, path) if path in recorded else read_source(project.tree, path))
        except SourceError as exc:
            problems += exc.problems
    if problems:
        raise SourceError(*problems)
    return ProjectSources(tuple(sources), tuple(named), is_complete=not config.producer, excluded=excluded)


def _recorded_calls(project: Project, folder: str) -> Iterator[str]:
    """Yield the files in a folder that contain recorded calls. Warn if the folder does not exist."""
    if not project.tree.disk_path(folder).is_dir():
        what = f"recorded: {folder!r} is not a folder of the project, so no recorded calls are compiled"
        hint = "pytest with --record-cubins creates this folder when a test launches or compiles a kernel"
        where = project.config.place.of("recorded", project.config.recorded.index(folder))
        project.warn(problem("recorded-folder-not-found", what, where, hint).with_code())
    yield from (path for path in walk(project.tree, folder, strict=True) if path.endswith(".cu"))


def _read(project: Project, path: str) -> Source:
    from .recorded_calls import read_recorded  # lazy import: few projects record calls

    return read_recorded(project.tree, path)


def with_produced(
    project: Project, sources: ProjectSources, produced: Iterable[Source], declared: Iterable[str]
) -> ProjectSources:
    """Combine *sources* with *produced*, which are the sources that producers returned.

    *declared* are the files that producers may use.

    Raise SourceError if a produced source has the name of another source, or if a pattern of a [[module]]
    table matches no source.
    """
    produced = sorted(produced, key=lambda source: source.path)
    problems = [*_taken_names(project, produced)]
    named = [
        {
            pattern: [
                *paths,
                *(each.path for each in produced if glob_regex(pattern).fullmatch(each.path_for_globs)),
            ]
            for pattern, paths in each.items()
        }
        for each in sources.named
    ]
    problems += _unmatched_members(project, named)
    if problems:
        raise SourceError(*problems)
    every = sorted((*sources.all, *produced), key=lambda source: source.path)
    return ProjectSources(tuple(every), tuple(named), declared=frozenset(declared), excluded=sources.excluded)


def _taken_names(project: Project, produced: Iterable[Source]) -> Iterator[Problem]:
    """Yield a problem for each source from a producer that has the path of another source."""
    seen: dict[str, str] = {}
    for source in produced:
        by = source.produced.by if source.produced else ""
        is_file = os.path.lexists(project.tree.disk_path(source.path))
        other = "a file of the project" if is_file else seen.get(source.path)
        seen[source.path] = by
        if other is not None:
            what = f"{by} returns a source with this name, but {other} already has this name"
            hint = (
                "two tables name this function: delete one table"
                if other == by
                else "rename one of the two sources"
            )
            if is_file:
                hint = f"delete the file if {by} wrote it earlier; otherwise rename the file"
            yield problem("produced-name-taken", what, Location(source.path), hint)


def _unmatched_members(project: Project, named: Sequence[Mapping[str, Sequence[str]]]) -> Iterator[Problem]:
    """Yield a problem for each pattern of a [[module]] table that matches no source."""
    for number, rule in enumerate(project.config.module):
        for index, pattern in enumerate(rule.sources):
            if not named[number][pattern]:
                yield _no_match(project, pattern, project.config.place.of("module", number, "sources", index))


def _warn_of_exclude(project: Project, files: ProjectFiles, every: Sequence[str]) -> None:
    """Warn of each path and glob in 'exclude' that matches no source, but was probably meant to match one.

    *every* contains the paths of the sources if 'exclude' is ignored. A glob that matches no source may be
    right, because the sources that it excludes may not exist yet, or may not be in an sdist. The glob is
    probably wrong if it would match sources after a change that users often forget.
    """
    config = project.config
    for index, path in enumerate(config.exclude):
        if files.without(every, [path]) != every:
            continue
        globs = (f"{path}/**", f"**/{path}", f"**/{path}/**")
        meant = next((glob for glob in globs if files.without(every, [glob]) != every), None)
        if meant is None and is_glob(path):
            continue
        what, where = f"exclude: {path!r} matches no source", config.place.of("exclude", index)
        hint = (
            _why_excludes_nothing(project.tree.disk_path(path))
            if meant is None
            else f'write "{meant}" in place of "{path}"'
        )
        project.warn(str(problem("exclude-matches-nothing", what, where, hint)))


def _why_excludes_nothing(on_disk: Path) -> str:
    # The hint must not suggest a similar path: if the user excluded that source, its kernels would be
    # missing.
    if on_disk.is_file():
        return "only sources are compiled, so headers and other files need not be excluded: remove the path"
    return "'hatch-cubin plan' lists the sources"


def _warn_of_capitals(project: Project, files: ProjectFiles) -> None:
    """Warn of each file in a package that would be a source if its suffix were not in capital letters."""
    capitals = [f"**/*{suffix.upper()}" for suffix in SUFFIXES]
    paths, _unmatched = files.find(capitals, project.config.exclude)
    for path in paths if project.config.sources == DEFAULT_SOURCES else ():
        what = "is not compiled, because its suffix is in capital letters"
        project.warn(str(problem("suffix-in-capitals", what, Location(path), "rename the file")))


def _no_sources(project: Project, excluded: Sequence[str]) -> Problem:
    """Return a problem that says that the project does not have a source to compile."""
    config = project.config
    if excluded:
        what = f"'exclude' excludes all sources: {', '.join(excluded)}"
        hint = "a project without kernels does not need hatch-cubin"
        return problem("all-sources-excluded", what, config.place.of("exclude"), hint)
    where = ", ".join(f"{folder}/" for folder in project.packages.values()) or "the project"
    what = f"there are no .cu, .ptx or .tileir sources in {where}"
    found = _sources_elsewhere(project)
    hint = (
        "write a source there, or set 'sources' to the folder of your sources"
        if found is None
        else toml_lines.setting("sources", found)
    )
    return problem("no-sources-found", what, config.place.of(), hint)


def _no_match(project: Project, pattern: str, where: Location) -> Problem:
    """Return a problem that says that a pattern in 'sources' does not match any file."""
    hint = _why_none_matches(project, pattern)
    return problem("pattern-matches-nothing", f"sources: {pattern!r} matches no file", where, hint)


def _why_none_matches(project: Project, pattern: str) -> str | None:
    home = project.tree.source_root_of(pattern)
    if home is not None and home.is_partial and not home.folder.is_dir():
        folder = home.path_from_project
        return (
            f"this project is an sdist (it has PKG-INFO) without {folder}: build the sdist with hatch-cubin"
        )
    if project.tree.disk_path(pattern).is_dir():
        return f'the path is a folder: write "{pattern}/**/*.cu" for the sources in the folder'
    if not is_glob(pattern):
        suffixes = {*SUFFIXES, PurePosixPath(pattern).suffix}
        paths = (path for path in walk(project.tree, ".") if PurePosixPath(path).suffix.lower() in suffixes)
        return guess_path(pattern, sorted(paths))
    if not pattern.startswith("*"):
        files = map(PurePosixPath, walk(project.tree, "."))
        there = {f"{path.parent}/*{path.suffix}" for path in files if path.suffix.lower() in SUFFIXES}
        return f"sources are in: {', '.join(sorted(there)[:_SHOWN_FOLDERS])}" if there else None
    found = _sources_elsewhere(project)
    reason = "a glob that begins with a wildcard matches only files in packages"
    return None if found is None else f"{reason}: {toml_lines.setting('sources', found)}"


def _sources_elsewhere(project: Project) -> list[str] | None:
    """Return globs to suggest for the key 'sources', or None if no file looks like a source.

    The suggested globs match sources outside the project's Python packages. If the project has no sources
    outside packages, the suggested globs match other files that may contain kernels: files with a suffix in
    capitals, or files with a suffix such as `.cu.txt` in a Python package.
    """
    packages = tuple(f"{folder}/" for folder in project.packages.values())
    paths = [*map(PurePosixPath, walk(project.tree, "."))]
    found = [path for path in paths if path.suffix.lower() in SUFFIXES and not str(path).startswith(packages)]
    if at_top := [str(path) for path in found if len(path.parts) == 1]:
        # listed by name, because a glob that begins with a wildcard matches only files in packages
        return at_top
    if found:
        return [str(found[0].parent / "**" / f"*{found[0].suffix}")]
    if in_capitals := [str(path) for path in paths if path.suffix.lower() in SUFFIXES]:
        return in_capitals
    like_sources = [
        str(path)
        for path in paths
        if str(path).startswith(packages) and (path.suffix in _LIKE_SOURCES or path.name.endswith(".cu.txt"))
    ]
    return [path for path in like_sources if _may_have_kernel(project, path)] or None


def _may_have_kernel(project: Project, path: str) -> bool:
    with contextlib.suppress(SourceError):
        return may_have_kernel(read_source(project.tree, path).text)
    return False


def _folder_meant(project: Project, path: str) -> str | None:
    """Return a hint that names a folder: of the file *path*, or one with a name similar to *path*."""
    if os.path.isfile(project.tree.disk_path(path)):  # `isfile` returns False if the path cannot be read
        return f'the path is a file: write the name of its folder, "{PurePosixPath(path).parent}"'
    folders = {str(parent) for each in walk(project.tree, ".") for parent in PurePosixPath(each).parents}
    return guess_path(path, sorted(folders)) or _NO_FOLDER


def _include_folder_problems(project: Project) -> list[Problem]:
    """Return a problem for each include folder that is missing, or is a link to a place outside the project.

    The compiler itself reports no error for a missing include folder.
    """
    tree, problems = project.tree, []
    for folder, key in include_folders(project.config):
        home, where = tree.source_root_of(folder), project.config.place.of(*key)
        if home is not None and home.is_partial and not os.path.lexists(tree.disk_path(folder)):
            continue  # an sdist does not contain include folders that no kernel uses
        if not os.path.isdir(tree.disk_path(folder)):
            what = f"include-dirs: {folder!r} is not a folder of the project"
            problems.append(problem("include-folder-not-found", what, where, _folder_meant(project, folder)))
        elif not tree.is_inside(folder):
            what = f"include-dirs: {folder!r} is a link to a place outside the project"
            hint = "copy the headers into the project"
            problems.append(problem("link-leads-outside", what, where, hint))
    return problems


def include_folders(config: Config) -> Iterator[tuple[str, tuple[str | int, ...]]]:
    """Yield each include folder in pyproject.toml, with the keys and index that lead to its entry."""
    yield from ((folder, ("include-dirs", index)) for index, folder in enumerate(config.include_dirs))
    tables: tuple[tuple[str, Sequence[SourceRule | ModuleRule]], ...] = (
        ("source", config.source),
        ("module", config.module),
    )
    for name, rules in tables:
        for number, rule in enumerate(rules):
            for index, folder in enumerate(rule.include_dirs):
                yield folder, (name, number, "include-dirs", index)
