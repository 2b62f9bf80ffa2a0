"""The Hatch build hook: translates between hatchling and the pipeline."""

from __future__ import annotations

import os
import posixpath
import sys
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder
from hatchling.plugin import hookimpl

from ..common import temporary_folders
from ..common.console import Console
from ..config import table_location
from ..config.config import Config, parse_config
from ..config.known_names import MISNAMED_HOOKS
from ..errors import PREFIX, ConfigError, problem, reported
from ..lockfile import required_wheels
from ..project.project import Project, cache_entries, cache_folders
from ..project.source import BUNDLE_FOLDER
from . import max_size

_NOTHING = ", nothing was built"


class CubinBuildHook(BuildHookInterface[Any]):
    """Compiles the project's kernels into its wheel."""

    PLUGIN_NAME = table_location.HOOK
    _unstage: Callable[[], object] | None = None
    _built: Config | None = None  # of a wheel that is not an editable one

    def dependencies(self) -> list[str]:
        """Ask for the compiler that the configuration names."""
        if self.target_name != "wheel":
            return []
        with reported(self.app.display_error, _NOTHING):
            return required_wheels.required_wheels(self._read_config(), self.root, self._project)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the bundle and hand it to the wheel, or put what it is built from into the sdist."""
        with reported(self.app.display_error, _NOTHING, verbose=self.app.verbosity > 0):
            if self.target_name == "wheel":
                self._wheel(self._project(), version, build_data)
            elif self.target_name == "sdist":
                self._sdist(self._project(), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove what was staged for the wheel, and the wheel if it is larger than the table allows."""
        if self._unstage is not None:
            self._unstage()
        if self._built is not None:
            with reported(self.app.display_error, _NOTHING):
                max_size.keep(self._built, artifact_path)

    def _wheel(self, project: Project, version: str, build_data: dict[str, Any]) -> None:
        from ..building import pipeline  # lazy: not for the question which wheels a build needs
        from ..bundle import layout, sbom

        if version == "editable":
            pipeline.build_in_place(project, layout.OF_HATCH)
            self._warn_of_leaks(project, project.bundle_folder, *cache_folders(project))
            return
        self._built = project.config
        staging = self._staging()
        # Links would show the cache's own times and modes in a wheel that is not reproducible.
        hold = staging if self.build_config.reproducible else None
        files, sources = pipeline.build_held(project, hold)
        folder = project.bundle_folder
        self._warn_of_leaks(project, *cache_folders(project))
        self._keep_out(
            folder,
            *cache_entries(project),
            *(() if project.config.ship_sources else sources),
        )
        places = layout.stage(files, staging)
        if sbom.NAME in files and "sbom_files" in build_data:  # hatchling 1.28 has a place for it
            build_data["sbom_files"].append(places.pop(sbom.NAME))
        # The targets are paths in the project: hatchling rewrites them as it does the package's own files.
        build_data["force_include"] |= {place: os.path.join(folder, name) for name, place in places.items()}
        _declare_tag(build_data, sys.platform, last=build_data["build_hooks"][-1] == self.PLUGIN_NAME)

    def _sdist(self, project: Project, build_data: dict[str, Any]) -> None:
        from ..building import pipeline

        self._keep_out(project.bundle_folder, *cache_entries(project))
        files = pipeline.sdist_files(project)
        build_data["force_include"] |= {str(path): place for place, path in files.items()}

    def _staging(self) -> Path:
        """Return a folder for the bundle outside the tree, so that nothing can leak into it."""
        folder = temporary_folders.make()
        # Runs at exit if finalize never does: after --hooks-only, or a failure.
        self._unstage = weakref.finalize(self, folder.close)
        return folder.path

    def _keep_out(self, *paths: str) -> None:
        """Keep paths of the project out of what hatchling selects by itself."""
        config, shared = self.build_config.target_config, self.build_config.build_config
        added = {"exclude": list(_patterns(self.root, paths))}
        if config.get("artifacts", shared.get("artifacts")):
            # The pattern of an artifact names files, and only a pattern that names them too undoes it.
            added["artifacts"] = [f"!{pattern}{end}" for pattern in added["exclude"] for end in ("", "/**")]
        for key, patterns in added.items():
            before = config.get(key, shared.get(key, []))
            config[key] = [*before, *(pattern for pattern in patterns if pattern not in before)]
        vars(self.build_config).pop("exclude_spec", None)  # it may be there, without what was added

    def _warn_of_leaks(self, project: Project, *folders: str) -> None:
        """Warn where sdists, for which a wheel's hook does not run, would ship what is only for this tree."""
        if self.PLUGIN_NAME in self.build_config.build_config.get("hooks", {}):
            return
        sdist = SdistBuilder(self.root, metadata=self.metadata)
        files = [file.relative_path for file in sdist.recurse_selected_project_files()]
        for folder in map(os.path.normpath, folders):
            if any(file.startswith(folder + os.sep) for file in files):
                path = folder.replace(os.sep, "/")
                line = f"{BUNDLE_FOLDER}/" if path.endswith(f"/{BUNDLE_FOLDER}") else f"/{path}/"
                project.warn(f"add '{line}' to .gitignore, or sdists ship {path}/")

    def _project(self) -> Project:
        console = Console(
            sys.stderr,
            say=lambda message: self.app.display_info(PREFIX + message),
            warn=lambda message: self.app.display_warning(f"{PREFIX}warning: {message}"),
        )
        return Project(
            root=Path(self.root),
            packages=_packages(self.root, self.metadata),
            config=self._read_config(),
            inform=console.say,
            warn=console.warn,
            show_progress=console.units,
            verbose=self.app.verbosity > 0,
        )

    def _read_config(self) -> Config:
        """Read the table that the wheel is built with, also while an sdist is made."""
        build = self.metadata.hatch.build_config
        return parse_config(*table_location.hatch_table(Path(self.root), build, self.target_name), os.environ)


def packages_of(root: Path) -> dict[str, str]:
    """Return the top-level packages of the project at *root* and their folders."""
    try:
        return _packages(str(root), WheelBuilder(str(root)).metadata)
    except (TypeError, ValueError) as exc:  # what hatchling raises, whatever is wrong with a project
        what = " ".join(str(exc).split())
        raise ConfigError(
            problem("project-not-buildable", f"hatchling cannot build this project: {what}")
        ) from exc


def runs_hook(root: Path) -> bool:
    """Say whether hatchling runs our hook for a wheel of the project at *root*, in this environment."""
    return table_location.HOOK in WheelBuilder(str(root)).config.hook_config


def _patterns(root: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield patterns for *paths*; one stands for all files of a folder with a suffix if all are in *paths*.

    hatchling tries each pattern on each file, which takes time where there are thousands of both.
    """
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in map(posixpath.normpath, paths):
        folder, name = posixpath.split(path)
        alike[folder, posixpath.splitext(name)[1]].append(name)
    for (folder, suffix), names in alike.items():
        place = f"/{_escaped(folder)}/" if folder else "/"
        there = [name for name in _listed(root, folder) if posixpath.splitext(name)[1] == suffix]
        if suffix and len(names) > 1 and sorted(there) == sorted(names):
            yield f"{place}*{_escaped(suffix)}"
        else:
            yield from (place + _escaped(name) for name in names)


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in text)


def _listed(root: str, folder: str) -> list[str]:
    path = os.path.join(root, folder)
    return os.listdir(path) if os.path.isdir(path) else []


def _packages(root: str, metadata: Any) -> dict[str, str]:
    """Return the wheel's top-level packages and their folders, as hatchling would select them.

    A builder of our own is asked: the hook's reads `exclude` at the first question, before we add to it.
    """
    folders: dict[str, str] = {}
    for file in WheelBuilder(root, metadata=metadata).recurse_selected_project_files():
        inside, name = os.path.split(file.distribution_path)
        if inside and name == "__init__.py" and BUNDLE_FOLDER not in Path(inside).parts:
            folder = os.path.dirname(file.relative_path).replace(os.sep, "/")
            folders[inside.replace(os.sep, ".")] = folder or "."
    if not folders:
        _require_listed(root)
    return {
        package: folder
        for package, folder in sorted(folders.items())
        if not any(package.startswith(other + ".") for other in folders)
    }


def _require_listed(root: str) -> None:
    """Raise ConfigError if Hatch's `packages` names a folder that is not there: hatchling says nothing."""
    outer = ("tool", "hatch", "build")
    places = [table_location.place_of(root, path) for path in ((*outer, "targets", "wheel"), outer)]
    place = next((each for each in places if each.has("packages")), places[0])
    problems = [
        problem(
            "package-folder-not-found",
            f"packages: there is no {each} in the project",
            place.of("packages", index),
        )
        for index, each in enumerate(WheelBuilder(root).config.packages)
        if not os.path.exists(os.path.join(root, each))
    ]
    if problems:
        raise ConfigError(*problems)


def _declare_tag(build_data: dict[str, Any], platform: str, *, last: bool) -> None:
    """Set the wheel's tag, unless another hook does: code in another language needs a tag of its own."""
    if "tag" in build_data or build_data["infer_tag"] or not build_data["pure_python"]:
        return
    if platform == "win32":  # `long` is 32 bits where the kernels were compiled
        build_data.update(tag="py3-none-win_amd64", pure_python=False)
    elif last:  # without a tag, hatchling chooses nearly the same, and later hooks can still choose
        build_data["tag"] = "py3-none-any"


class _Misnamed(BuildHookInterface[Any]):
    """Stands where some look for our hook: hatchling would say no more than that there is none."""

    def dependencies(self) -> list[str]:
        self._complain()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        self._complain()

    def _complain(self) -> NoReturn:
        with reported(self.app.display_error, _NOTHING):
            raise table_location.misnamed_hook(self.root, self.PLUGIN_NAME)


@hookimpl
def hatch_register_build_hook() -> list[type[BuildHookInterface[Any]]]:
    """Name the hook to hatchling, also by names that it does not have."""
    wrong = (type("Misnamed", (_Misnamed,), {"PLUGIN_NAME": name}) for name in MISNAMED_HOOKS)
    return [CubinBuildHook, *wrong]
