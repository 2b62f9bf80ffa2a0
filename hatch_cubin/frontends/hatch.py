"""The build hook for Hatch, which connects hatchling to the build of the kernels."""

from __future__ import annotations

import contextlib
import importlib.util
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
from pathspec import GitIgnoreSpec

from ..common import temporary_folders
from ..common.console import Console
from ..config import table_location
from ..config.config import Config, parse_config
from ..config.known_names import MISNAMED_HOOKS
from ..errors import PREFIX, ConfigError, ToolchainError, problem, reported
from ..lockfile import required_wheels
from ..project.project import Project, cache_entries, cache_folders
from ..project.source import BUNDLE_FOLDER
from . import max_size, named_sources

_NOTHING_BUILT = ", nothing was built"
_BUILD = ("tool", "hatch", "build")
_WHEEL = (*_BUILD, "targets", "wheel")


# Not `BuildHookInterface[Any]`, because this class takes no type argument in some releases of hatchling.
class CubinBuildHook(BuildHookInterface):  # type: ignore[type-arg]
    """The hook that compiles the project's kernels and adds them to the wheel."""

    PLUGIN_NAME = table_location.HOOK
    _remove_staging: Callable[[], object] | None = None
    _wheel_config: Config | None = None  # None, except while a wheel is built that is not editable

    def dependencies(self) -> list[str]:
        """Return the packages that pip has to install for a build of the wheel, such as the compiler."""
        if self.target_name != "wheel":
            return []
        with reported(self.app.display_error, _NOTHING_BUILT):
            return required_wheels.required_wheels(self._read_config(), self.root, self._project)

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the compiled kernels to a wheel, or add to an sdist the files from which kernels are built."""
        with (
            reported(self.app.display_error, _NOTHING_BUILT, verbose=self.app.verbosity > 0),
            required_wheels.explain_late_install(self.root),
        ):
            if self.target_name == "wheel":
                self._add_to_wheel(self._project(), version, build_data)
            elif self.target_name == "sdist":
                self._add_to_sdist(self._project(), build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002
        """Remove the staging folder, and remove the wheel if it is larger than `max-size`."""
        if self._remove_staging is not None:
            self._remove_staging()
        if self._wheel_config is not None:
            with reported(self.app.display_error, _NOTHING_BUILT):
                max_size.enforce(self._wheel_config, artifact_path)

    def _add_to_wheel(self, project: Project, version: str, build_data: dict[str, Any]) -> None:
        from ..building import pipeline  # lazy import: slow to import, and `dependencies` does not need it
        from ..bundle import layout, sbom

        if version == "editable":
            is_rebuild = "--hooks-only" in sys.argv  # hatchling then runs only the hooks
            with _asking_for_editables(needed=not (is_rebuild or self.build_config.dev_mode_dirs)):
                pipeline.build_in_place(project, layout.HATCH_REBUILD)
            self._warn_about_sdists(project, project.bundle_folder, *cache_folders(project))
            return
        self._wheel_config = project.config
        staging = self._staging()
        # Links to the cache would add the times and modes of cache files to a wheel that is not reproducible.
        hold = staging if self.build_config.reproducible else None
        files, sources = pipeline.build_held(project, hold)
        folder = project.bundle_folder
        self._warn_about_sdists(project, *cache_folders(project))
        left_out = [] if project.config.ship_sources else sources
        named_sources.warn_of_patterns(project, left_out, self._patterns_for_wheels())
        self._exclude(folder, *cache_entries(project), *left_out)
        places = layout.stage(files, staging)
        if sbom.NAME in files and "sbom_files" in build_data:  # hatchling 1.28 or later
            build_data["sbom_files"].append(places.pop(sbom.NAME))
        # Each target is a path in the project: hatchling maps the path to a path in the wheel.
        build_data["force_include"] |= {place: os.path.join(folder, name) for name, place in places.items()}
        _declare_tag(build_data, sys.platform, last=build_data["build_hooks"][-1] == self.PLUGIN_NAME)

    def _add_to_sdist(self, project: Project, build_data: dict[str, Any]) -> None:
        from ..building import pipeline

        self._exclude(project.bundle_folder, *cache_entries(project))
        files = pipeline.sdist_files(project)
        build_data["force_include"] |= {str(path): place for place, path in files.items()}

    def _staging(self) -> Path:
        """Return a temporary folder for the kernels, outside the source tree."""
        folder = temporary_folders.make()
        # The folder is also removed at exit: `finalize` does not run after a failure or with --hooks-only.
        self._remove_staging = weakref.finalize(self, folder.close)
        return folder.path

    def _exclude(self, *paths: str) -> None:
        """Exclude paths of the project from the files that hatchling selects."""
        config, shared = self.build_config.target_config, self.build_config.build_config
        added = {"exclude": list(_patterns(self.root, paths))}
        if config.get("artifacts", shared.get("artifacts")):
            # hatchling ships a file that matches `artifacts` even if `exclude` matches the file too. Only a
            # negative pattern in `artifacts` prevents this.
            added["artifacts"] = [f"!{pattern}{end}" for pattern in added["exclude"] for end in ("", "/**")]
        for key, patterns in added.items():
            before = config.get(key, shared.get(key, []))
            config[key] = [*before, *(pattern for pattern in patterns if pattern not in before)]
        # hatchling may have cached the old exclude patterns
        vars(self.build_config).pop("exclude_spec", None)

    def _patterns_for_wheels(self) -> Iterator[named_sources.Pattern]:
        """Yield the patterns of `artifacts` and `include` that select files only for wheels.

        If Hatch's table for wheels has no key `artifacts`, the patterns in the `artifacts` of all targets are
        used.
        """
        wheel, shared = self.build_config.target_config, self.build_config.build_config
        table = _WHEEL if "artifacts" in wheel else _BUILD
        settings: list[tuple[tuple[str, ...], str, list[str]]] = [
            (table, "artifacts", wheel.get("artifacts", shared.get("artifacts", []))),
            (_WHEEL, "include", wheel.get("include", [])),
        ]
        for path, key, patterns in settings:
            place = table_location.place_of(self.root, path)
            for index, pattern in enumerate(patterns):
                matches = GitIgnoreSpec.from_lines([pattern]).match_file
                yield named_sources.Pattern(key, pattern, place.of(key, index), matches)

    def _warn_about_sdists(self, project: Project, *folders: str) -> None:
        """Warn if sdists would contain one of the *folders*, which are useful only in this source tree.

        If the hook is configured only for wheels, it does not run for sdists, and so it cannot exclude a
        folder from sdists.
        """
        if self.PLUGIN_NAME in self.build_config.build_config.get("hooks", {}):
            return
        sdist = SdistBuilder(self.root, metadata=self.metadata)
        files = [file.relative_path for file in sdist.recurse_selected_project_files()]
        for folder in map(os.path.normpath, folders):
            if any(file.startswith(folder + os.sep) for file in files):
                path = folder.replace(os.sep, "/")
                line = f"{BUNDLE_FOLDER}/" if path.endswith(f"/{BUNDLE_FOLDER}") else f"/{path}/"
                project.warn(f"add '{line}' to .gitignore, or else sdists will contain {path}/")

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
        """Return the configuration for wheels.

        The configuration for wheels also applies to sdists, because an sdist must contain all files that a
        wheel needs.
        """
        build = self.metadata.hatch.build_config
        return parse_config(*table_location.hatch_table(Path(self.root), build, self.target_name), os.environ)


def packages_of(root: Path) -> dict[str, str]:
    """Return the top-level packages of the project at *root*, each with its folder."""
    with _refusals_reported():
        return _packages(str(root), WheelBuilder(str(root)).metadata)


@contextlib.contextmanager
def _asking_for_editables(*, needed: bool) -> Iterator[None]:
    """If the `with` block fails because the compiler is incomplete, also ask for the package editables.

    hatchling imports editables only after the hook has run. *needed* is false if hatchling does not import
    editables for this editable install.
    """
    try:
        yield
    except ToolchainError as exc:
        if needed and importlib.util.find_spec("editables") is None:
            first, *others = exc.problems
            own = "hatchling also needs editables: pip install editables"
            exc.problems = (first._replace(hint="; ".join(filter(None, (own, first.hint)))), *others)
        raise


@contextlib.contextmanager
def _refusals_reported() -> Iterator[None]:
    """Raise ConfigError in place of the errors that hatchling raises for mistakes in a project."""
    try:
        yield
    except (TypeError, ValueError) as exc:  # hatchling raises these errors for mistakes in a project
        reason = " ".join(str(exc).split())
        raise ConfigError(
            problem("project-not-buildable", f"hatchling cannot build this project: {reason}")
        ) from exc


def runs_hook(root: Path) -> bool:
    """Return whether hatchling would run hatch-cubin's hook for a wheel of the project at *root*."""
    with _refusals_reported():
        return table_location.HOOK in WheelBuilder(str(root)).config.hook_config


def _patterns(root: str, paths: Iterable[str]) -> Iterator[str]:
    """Yield patterns that match exactly *paths*, with as few patterns as possible.

    If *paths* contains all files of a folder that end with the same suffix, one pattern such as `/demo/*.cu`
    is enough.
    """
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for path in map(posixpath.normpath, paths):
        folder, name = posixpath.split(path)
        alike[folder, posixpath.splitext(name)[1]].append(name)
    for (folder, suffix), names in alike.items():
        place = f"/{_escaped(folder)}/" if folder else "/"
        there = [name for name in _names_in(root, folder) if posixpath.splitext(name)[1] == suffix]
        if suffix and len(names) > 1 and sorted(there) == sorted(names):
            yield f"{place}*{_escaped(suffix)}"
        else:
            yield from (place + _escaped(name) for name in names)


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "\\*?[]!# " else char for char in text)


def _names_in(root: str, folder: str) -> list[str]:
    path = os.path.join(root, folder)
    return os.listdir(path) if os.path.isdir(path) else []


def _packages(root: str, metadata: Any) -> dict[str, str]:
    """Return the top-level packages that hatchling would put into the wheel, each with its folder.

    The function does not use the hook's builder, because a builder reads `exclude` only once, and the hook
    adds patterns to `exclude` later.
    """
    folders: dict[str, str] = {}
    for file in WheelBuilder(root, metadata=metadata).recurse_selected_project_files():
        inside, name = os.path.split(file.distribution_path)
        if inside and name == "__init__.py" and BUNDLE_FOLDER not in Path(inside).parts:
            folder = os.path.dirname(file.relative_path).replace(os.sep, "/")
            folders[inside.replace(os.sep, ".")] = folder or "."
    if not folders:
        _require_package_folders(root)
    return {
        package: folder
        for package, folder in sorted(folders.items())
        if not any(package.startswith(other + ".") for other in folders)
    }


def _require_package_folders(root: str) -> None:
    """Raise ConfigError if Hatch's settings name a missing folder, which hatchling would silently ignore."""
    places = [table_location.place_of(root, path) for path in (_WHEEL, _BUILD)]
    config = WheelBuilder(root).config
    problems = [
        problem(
            "package-folder-not-found",
            f"{key}: {each} does not exist in the project",
            place.of(key),
            f'write packages = ["src/{each}"]' if os.path.exists(os.path.join(root, "src", each)) else None,
        )
        for key, named in (("packages", config.packages), ("only-include", config.only_include))
        for place in [place for place in places if place.has(key)][:1]
        for each in (os.path.relpath(os.path.join(root, path), root).replace(os.sep, "/") for path in named)
        if not os.path.exists(os.path.join(root, each))
    ]
    if problems:
        raise ConfigError(*problems)


def _declare_tag(build_data: dict[str, Any], platform: str, *, last: bool) -> None:
    """Set the wheel's tag, unless another hook sets a tag or adds compiled code.

    A wheel with compiled code needs a different tag.
    """
    if "tag" in build_data or build_data["infer_tag"] or not build_data["pure_python"]:
        return
    # code for Windows treats a `long` as 32 bits, so the wheel's tag must name Windows
    if platform == "win32":
        build_data.update(tag="py3-none-win_amd64", pure_python=False)
    elif last:  # otherwise, a later hook may still set a tag; hatchling's default tag is nearly the same
        build_data["tag"] = "py3-none-any"


class _MisnamedHook(BuildHookInterface):  # type: ignore[type-arg]
    """A hook whose name is a misspelling of the name of hatch-cubin's hook.

    The hook reports the right name, which hatchling's own error does not contain.
    """

    def dependencies(self) -> list[str]:
        self._complain()

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        self._complain()

    def _complain(self) -> NoReturn:
        with reported(self.app.display_error, _NOTHING_BUILT):
            raise table_location.misnamed_hook(self.root, self.PLUGIN_NAME)


@hookimpl
def hatch_register_build_hook() -> list[type[BuildHookInterface]]:  # type: ignore[type-arg]
    """Register the hook of hatch-cubin.

    For each misspelling of the hook's name, register another hook that reports the right name.
    """
    misnamed = (type("MisnamedHook", (_MisnamedHook,), {"PLUGIN_NAME": name}) for name in MISNAMED_HOOKS)
    return [CubinBuildHook, *misnamed]
