"""The commands of setuptools for a project with kernels: they build the kernels as a part of the wheel."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePath, PurePosixPath
from typing import ClassVar

from setuptools import Command, Distribution
from setuptools.command.build import build
from setuptools.command.egg_info import egg_info
from setuptools.command.sdist import sdist
from setuptools.discovery import find_package_path

from ..building import pipeline
from ..bundle import layout, sbom
from ..common import streams, temporary_folders
from ..common.console import Console
from ..config import table_location
from ..config.config import Config, parse_config
from ..config.known_names import WRAPPER
from ..errors import PREFIX, ConfigError, Location, problem, reported
from ..lockfile import required_wheels
from ..project.project import Project, cache_entries
from ..project.source import BUNDLE_FOLDER, glob_regex
from . import max_size, named_sources

_NOTHING_BUILT = ", nothing was built"
_BUILD_CUBINS = "build_cubins"


def add_kernels(distribution: Distribution) -> None:
    """Let the build of *distribution* also build kernels, if the project configures hatch-cubin."""
    with reported(_print, _NOTHING_BUILT):
        if not _builds_kernels(_root(distribution)):
            return
    # Setting `cmdclass` would not work: a `cmdclass` in the project's configuration replaces it later.
    extended = functools.partial(_extended, distribution.get_command_class)
    distribution.get_command_class = functools.cache(extended)


def _builds_kernels(root: Path) -> bool:
    """Return whether setuptools builds the project's kernels.

    Raise ConfigError if the project requires hatch-cubin, but does not have a configuration for it.
    """
    try:
        _pyproject, backend = table_location.read_project(root)
        required = table_location.requires_hatch_cubin(root)
    except ConfigError:  # the file is not valid TOML, and setuptools reports the mistake
        return False
    # `hatch_cubin.backend` builds the kernels, and calls setuptools only as the wrapped backend
    if backend == WRAPPER:
        return False
    if not table_location.has_own_table(root) and required and backend not in table_location.HATCH_BACKENDS:
        # raises an error with the location of the table, if the table is in a wrong place
        table_location.own_table(root)
    return table_location.has_own_table(root)


def _extended(found: Callable[[str], type[Command]], name: str) -> type[Command]:
    """Return the class of a setuptools command, with hatch-cubin's extension of the command, if any."""
    command = found(name)
    return type(name, (_EXTENSIONS[name], command), {}) if name in _EXTENSIONS else command


def _report_requirements(distribution: Distribution) -> None:
    """If a build front end asks for the requirements of a wheel, report them and end setuptools."""
    # setuptools uses this class only if a build front end asks for requirements. For an sdist, the request is
    # ignored, because building an sdist needs no compiler.
    if type(distribution).__module__ != "setuptools.build_meta" or _called_by("get_requires_for_build_sdist"):
        return
    with reported(_print, _NOTHING_BUILT):
        root = _root(distribution)
        requirements = required_wheels.required_wheels(
            _read_config(root), root, lambda: _project(distribution)
        )
    if requirements:
        distribution.fetch_build_eggs(requirements)


def _refuse_cuda_extensions(distribution: Distribution) -> None:
    """Raise ConfigError if `ext_modules` has CUDA sources that setuptools' own compiler would reject."""
    if not distribution.get_command_class("build_ext").__module__.startswith("setuptools."):
        return  # for example PyTorch's BuildExtension, which runs nvcc
    problems = [
        problem(
            "cuda-source-in-extension",
            f"the extension {extension.name!r} in 'ext_modules' lists this CUDA source, but setuptools "
            "cannot compile it",
            Location(str(source)),
            "remove the source from 'ext_modules', because hatch-cubin compiles it; if the extension has "
            "no other source, remove the extension",
        )
        for extension in distribution.ext_modules or ()
        for source in extension.sources
        if str(source).endswith(".cu")
    ]
    if problems:
        raise ConfigError(*problems)


def _called_by(function: str) -> bool:
    frame = sys._getframe().f_back  # noqa: SLF001
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


class BuildCubins(Command):
    """The command that compiles kernels into the build folder (editable installs: into the source tree)."""

    description = "compile CUDA kernels"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = []
    editable_mode: bool
    build_lib: str
    bill: bytes | None  # the bill of materials, set by `run`

    def initialize_options(self) -> None:
        self.editable_mode, self.build_lib, self.bill = False, "", None

    def finalize_options(self) -> None:
        self.build_lib = self.get_finalized_command("build_py").build_lib

    def run(self) -> None:
        root = _root(self.distribution)
        requires = self.distribution.setup_requires or []
        listed = requires.split("\n") if isinstance(requires, str) else requires
        with reported(_print, _NOTHING_BUILT), required_wheels.explain_late_install(root, listed):
            project = _project(self.distribution)
            if self.editable_mode:
                self._build_in_place(project)
            else:
                files, sources = pipeline.build_with_sources(project)
                self.bill = files.pop(sbom.NAME, None)
                if not project.config.ship_sources:
                    named_sources.warn_of_patterns(project, sources, _package_data(self.distribution))
                self._remove_unshipped(project, sources)
                layout.write(files, self._bundle_in_build(project), Path(self.build_lib).absolute().parent)

    def _build_in_place(self, project: Project) -> None:
        mode = (self.distribution.get_command_obj("editable_wheel").mode or "lenient").lower()
        # A strict editable install has a separate folder of links to the files in _cubins.
        pipeline.build_in_place(project, layout.setuptools_rebuild(mode), linked=mode == "strict")

    def _remove_unshipped(self, project: Project, sources: Iterable[str]) -> None:
        """Clean the build folder, which setuptools reuses: remove files that must not be in the wheel."""
        for folder in [*Path(self.build_lib).rglob(BUNDLE_FOLDER)]:
            shutil.rmtree(folder)
        for _path, place in self._paths_in_build(project, cache_entries(project)):
            shutil.rmtree(place, ignore_errors=True)
        for path, place in self._paths_in_build(project, sources):
            if project.config.ship_sources:
                self.mkpath(str(place.parent))
                self.copy_file(str(project.tree.disk_path(path)), str(place))
            else:
                place.unlink(missing_ok=True)

    def _paths_in_build(self, project: Project, paths: Iterable[str]) -> Iterator[tuple[str, Path]]:
        """Yield each of *paths* that is in a package of the project, with its path in the build folder."""
        for path in map(PurePosixPath, paths):
            candidates = [
                (folder, package)
                for package, folder in project.packages.items()
                if path.is_relative_to(folder)
            ]
            if candidates:
                folder, package = max(candidates, key=lambda candidate: len(candidate[0]))
                yield str(path), Path(self.build_lib, *package.split("."), path.relative_to(folder))

    def _bundle_in_build(self, project: Project) -> Path:
        """Return the path of the folder _cubins in setuptools' build folder."""
        return Path(self.build_lib, *project.package.split("."), BUNDLE_FOLDER)

    def get_outputs(self) -> list[str]:
        """Return the paths of the compiled kernels in setuptools' build folder."""
        project = _project(self.distribution)
        built = self._bundle_in_build(project)
        folder = project.root / project.bundle_folder if self.editable_mode else built
        return [str(built / path.name) for path in sorted(folder.iterdir()) if path.is_file()]

    def get_output_mapping(self) -> dict[str, str]:
        """Return each file of an editable install, with its path in the source tree."""
        folder = _project(self.distribution).bundle_folder
        outputs = self.get_outputs() if self.editable_mode else []
        return {output: os.path.join(folder, os.path.basename(output)) for output in outputs}


class _Build(build):
    def get_sub_commands(self) -> list[str]:
        return [*super().get_sub_commands(), _BUILD_CUBINS]


class _EggInfo(egg_info):
    def finalize_options(self) -> None:
        """Report the requirements for building a wheel, now that setuptools knows the project's packages."""
        super().finalize_options()
        with reported(_print, _NOTHING_BUILT):
            _refuse_cuda_extensions(self.distribution)
        _report_requirements(self.distribution)

    def find_sources(self) -> None:
        """Keep _cubins and cache folders out of sdists and out of files that `include_package_data` adds."""
        super().find_sources()
        with reported(_print, _NOTHING_BUILT):
            cache = cache_entries(_project(self.distribution))
        self.filelist.files = [
            file
            for file in self.filelist.files
            if BUNDLE_FOLDER not in PurePath(file).parts
            and not any(PurePath(file).is_relative_to(folder) for folder in cache)
        ]
        lines = (file.replace(os.sep, "/") for file in self.filelist.files)
        Path(self.egg_info, "SOURCES.txt").write_text("\n".join(lines), encoding="utf-8")


class _Sdist(sdist):
    def make_distribution(self) -> None:
        """Add the files that a build of the kernels needs, even if MANIFEST.in excludes them.

        The files are added only after setuptools has written SOURCES.txt, because setuptools adds all files
        in SOURCES.txt to wheels.
        """
        with reported(_print, _NOTHING_BUILT):
            project = _project(self.distribution)
            files = pipeline.sdist_files(project)
        self._from_above = {place: path for place, path in files.items() if path != project.root / place}
        self.filelist.extend(place for place in files if place not in self._from_above)
        self.filelist.remove_duplicates()
        super().make_distribution()

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Copy files from folders above the project into the sdist, under the names of their source roots."""
        super().make_release_tree(base_dir, files)
        for place, path in self._from_above.items():
            self.mkpath(os.path.join(base_dir, os.path.dirname(place)))
            self.copy_file(str(path), os.path.join(base_dir, place))


class _Wheel(Command):
    def run(self) -> None:
        """Make the wheel, and remove the wheel if it is larger than `max-size`."""
        super().run()
        with reported(_print, _NOTHING_BUILT):
            _kind, _python, wheel = self.distribution.dist_files[-1]
            max_size.enforce(_read_config(_root(self.distribution)), wheel)

    def write_wheelfile(self, folder: str, *rest: str) -> None:
        """Write the wheel's metadata, and the bill of materials (SBOM) beside the metadata."""
        super().write_wheelfile(folder, *rest)
        if bill := self.get_finalized_command(_BUILD_CUBINS).bill:
            file = Path(folder, "sboms", sbom.NAME)
            file.parent.mkdir(exist_ok=True)
            file.write_bytes(bill)

    def get_tag(self) -> tuple[str, str, str]:
        python, abi, platform = super().get_tag()
        # Code for Windows treats a `long` as 32 bits, so the wheel's tag must name Windows.
        return python, abi, "win_amd64" if (sys.platform, platform) == ("win32", "any") else platform


def rebuild(mode: str) -> None:
    """Rebuild the editable install (of kind *mode*) of the project in the current folder."""
    from setuptools.build_meta import build_editable

    with temporary_folders.make() as folder:
        build_editable(str(folder), {"editable_mode": mode})


class CubinPackages(Command):
    """The command that writes the project's packages and their folders to a JSON file."""

    description = "list the packages that may have CUDA kernels"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = [("into=", None, "the file to write")]
    into: str

    def initialize_options(self) -> None:
        self.into = os.devnull

    def finalize_options(self) -> None:
        """Do nothing, because the options do not depend on each other."""

    def run(self) -> None:
        Path(self.into).write_text(json.dumps(_packages(self.distribution)), encoding="utf-8")


_EXTENSIONS = {"build": _Build, "egg_info": _EggInfo, "sdist": _Sdist, "bdist_wheel": _Wheel}


def _project(distribution: Distribution) -> Project:
    root = _root(distribution)
    console = Console(
        sys.stderr,
        say=lambda message: _print(PREFIX + message),
        warn=lambda message: _print(f"{PREFIX}warning: {message}"),
    )
    return Project(
        root=root,
        packages=_packages(distribution),
        config=_read_config(root),
        inform=console.say,
        warn=console.warn,
        show_progress=console.units,
        verbose=distribution.verbose > 1,
    )


def _root(distribution: Distribution) -> Path:
    return Path(os.path.abspath(distribution.src_root or os.curdir))


def _read_config(root: Path) -> Config:
    return parse_config(*table_location.own_table(root), os.environ)


def _packages(distribution: Distribution) -> dict[str, str]:
    """Return packages with their folders: top-level packages, and packages outside their parent's folder."""
    folders: dict[str, str] = {}
    for package in sorted(distribution.packages or (), key=lambda name: (name.count("."), name)):
        folder = _folder(distribution, package)
        inside = any(
            package.startswith(f"{other}.")
            and PurePosixPath(folders[other], *package[len(other) + 1 :].split(".")) == PurePosixPath(folder)
            for other in folders
        )
        if os.path.isfile(f"{folder}/__init__.py") and BUNDLE_FOLDER not in package.split(".") and not inside:
            folders[package] = folder
    return dict(sorted(folders.items(), key=lambda item: (-item[0].count("."), item[0])))


def _folder(distribution: Distribution, package: str) -> str:
    """Return the folder of a package, relative to the project."""
    return PurePath(find_package_path(package, distribution.package_dir or {}, "")).as_posix()


def _package_data(distribution: Distribution) -> Iterator[named_sources.Pattern]:
    """Yield each pattern of `package_data`, with the pattern's line if the pattern is in pyproject.toml."""
    place = table_location.place_of(_root(distribution), ("tool", "setuptools", "package-data"))
    for package in distribution.packages or ():
        for key in ("", "*", package):
            line = key or "*"  # setuptools replaces "*" in pyproject.toml by ""
            for pattern in distribution.package_data.get(key, ()):
                matches = glob_regex(str(PurePosixPath(_folder(distribution, package), pattern))).fullmatch
                where = place.of(line) if place.has(line) else None
                yield named_sources.Pattern("package_data", pattern, where, matches)


def _print(message: str) -> None:
    with streams.Lossy(sys.stderr):
        streams.write(sys.stderr, f"{message}\n")
