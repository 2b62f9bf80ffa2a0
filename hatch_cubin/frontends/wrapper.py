"""The build backend of hatch-cubin: it calls the hooks of another backend, and adds kernels to wheels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import Any

from ..building import pipeline
from ..bundle import layout, sbom
from ..cache.entries import Content
from ..common import streams, temporary_folders
from ..config import table_location
from ..config.config import Config, parse_config
from ..config.reader import variable_of
from ..errors import ConfigError, problem, reported
from ..lockfile import required_wheels
from ..project.project import Project, cache_entries
from ..project.source import BUNDLE_FOLDER
from . import editable_finder, max_size, repack, source_archive, wrapped_backend
from .open_project import open_project

Settings = Mapping[str, Any] | None

_NOTHING_BUILT = ", nothing was built"
_METADATA = ("prepare_metadata_for_build_wheel", "prepare_metadata_for_build_editable")


def hook(name: str) -> Callable[..., Any]:
    """Return a hook of `hatch_cubin.backend`; AttributeError if the wrapped backend does not have it."""
    if name not in (*_METADATA, *vars(_Hooks)) or name.startswith("_"):
        raise AttributeError(f"{name} is not a hook of a build backend")
    with reported(_print, _NOTHING_BUILT):
        root = Path.cwd()
        config = parse_config(*table_location.own_table(root), os.environ)
        backend = wrapped_backend.load(config, root)
    if name in (*_METADATA, "build_editable") and not hasattr(backend, name):
        raise AttributeError(f"the build backend {config.backend} does not have the hook {name}")
    ours: Callable[..., Any] = getattr(backend if name in _METADATA else _Hooks(config, backend), name)
    return ours


class _Hooks:
    """The build hooks that add kernels.

    Settings from the build front end (such as pip) are passed on to the wrapped backend.
    """

    def __init__(self, config: Config, backend: Any) -> None:
        self._config, self._inner = config, backend

    def get_requires_for_build_wheel(self, config_settings: Settings = None) -> list[str]:
        return [*self._inner_requirements("wheel", config_settings), *self._own_requirements()]

    def get_requires_for_build_editable(self, config_settings: Settings = None) -> list[str]:
        return [*self._inner_requirements("editable", config_settings), *self._own_requirements()]

    def get_requires_for_build_sdist(self, config_settings: Settings = None) -> list[str]:
        return self._inner_requirements("sdist", config_settings)

    def _inner_requirements(self, kind: str, settings: Settings) -> list[str]:
        ask = getattr(self._inner, f"get_requires_for_build_{kind}", None)
        return [] if ask is None else [*ask(settings)]

    def _own_requirements(self) -> list[str]:
        with reported(_print, _NOTHING_BUILT):
            return required_wheels.required_wheels(self._config, Path.cwd(), _current_project)

    def build_wheel(
        self, wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
    ) -> str:
        with reported(_print, _NOTHING_BUILT), temporary_folders.make() as folder:
            project = _current_project()
            _warn_of_unread_settings(project, config_settings)
            name = self._inner.build_wheel(str(folder), config_settings, metadata_directory)
            with repack.open_wheel(folder / name) as wheel:
                return _add_kernels(
                    _with_shipped_packages(project, wheel), wheel, folder, Path(wheel_directory)
                )

    def build_editable(
        self, wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
    ) -> str:
        with reported(_print, _NOTHING_BUILT), temporary_folders.make() as folder:
            project = _current_project()
            _warn_of_unread_settings(project, config_settings)
            pipeline.build_in_place(project, layout.WRAPPER_REBUILD)
            name = self._inner.build_editable(str(folder), config_settings, metadata_directory)
            with repack.open_wheel(folder / name) as wheel:
                finder = editable_finder.finder_files(project, wheel)
                return repack.write_copy(wheel, Path(wheel_directory), finder, lambda _name: False)

    def build_sdist(self, sdist_directory: str, config_settings: Settings = None) -> str:
        with reported(_print, _NOTHING_BUILT), temporary_folders.make() as folder:
            project = _current_project()
            name: str = self._inner.build_sdist(str(folder), config_settings)
            # Some build backends take pyproject.toml from the last commit, but kernels need its current
            # content.
            files = {**pipeline.sdist_files(project), "pyproject.toml": project.root / "pyproject.toml"}
            source_archive.write_copy(folder / name, Path(sdist_directory), files, cache_entries(project))
            return name


def rebuild() -> None:
    """Rebuild the kernels of the editable install of the project in the current folder."""
    with reported(_print, _NOTHING_BUILT):
        pipeline.build_in_place(_current_project(), layout.WRAPPER_REBUILD)


def _current_project() -> Project:
    return open_project(os.curdir, os.environ, sys.stderr, verbose=False)


def _warn_of_unread_settings(project: Project, settings: Settings) -> None:
    """Warn of config settings that would have changed the kernels as environment variables."""
    for name in settings or ():
        if (variable := variable_of(name)) is not None:
            what = f"hatch-cubin does not read config settings, so {name!r} does not change the kernels"
            hint = f"set the environment variable {variable}"
            project.warn(problem("config-setting-not-read", what, hint=hint).with_code())


def _with_shipped_packages(project: Project, wheel: repack.Wheel) -> Project:
    """Return the project without the packages that are not in its wheel.

    Raise ConfigError if no package in the wheel can contain the kernels.
    """
    config, place = project.config, project.config.place
    in_wheel = ", ".join(map(repr, wheel.packages)) or "none"
    if config.package is not None and config.package not in wheel.packages:
        what = (
            f"the package {config.package!r} is not in the wheel that {config.backend} builds; "
            f"packages in this wheel: {in_wheel}"
        )
        raise ConfigError(problem("package-not-in-wheel", what, place.of("package")))
    shipped = {name: folder for name, folder in project.packages.items() if name in wheel.packages}
    wanted = f"{config.package or next(iter(shipped), '')}."
    if not any(wanted.startswith(f"{name}.") for name in shipped):
        what = (
            "the folder of the package for the kernels is unknown; "
            f"packages in the wheel that {config.backend} builds: {in_wheel}"
        )
        raise ConfigError(
            problem("package-folder-not-found", what, place.of(), _package_hint(project, wheel))
        )
    project = replace(project, packages=shipped)
    _ = project.package  # raises an error if the wheel still has several packages
    return project


def _package_hint(project: Project, wheel: repack.Wheel) -> str:
    """Return a hint with the lines that set the package's folder, or advice if several folders match."""
    if not wheel.packages:
        return "to contain kernels, the wheel needs a package: a folder with __init__.py"
    root, package = project.root, project.config.package
    found = [
        (name, path.parent.relative_to(root).as_posix())
        for name in ([package] if package else wheel.packages)
        for above in ("", "*/")
        for path in root.glob(f"{above}{name.replace('.', '/')}/__init__.py")
    ]
    if len(found) > 1:
        listed = " or ".join(f'"{folder}"' for _name, folder in found)
        return f"set 'package-dir' to one of these folders: {listed}"
    if not found:
        name = package or next(iter(wheel.packages))
        folder = f"src/{name.replace('.', '/')}"
        return f"set 'package-dir' to the folder of {name!r} in the project, as in package-dir = \"{folder}\""
    ((name, folder),) = found
    if package or "." not in name:
        return f'package-dir = "{folder}"'
    return f'paste these lines:\n    package = "{name}"\n    package-dir = "{folder}"'


def _add_kernels(project: Project, wheel: repack.Wheel, folder: Path, into: Path) -> str:
    """Add the kernels to a copy of the wheel, and return the name of the copy."""
    hold = folder / "held"
    hold.mkdir()
    files, sources = pipeline.build_held(project, hold)
    bill = files.pop(sbom.NAME, None)
    home = wheel.packages[project.package]
    added = {f"{home}/{BUNDLE_FOLDER}/{name}": content for name, content in files.items()}
    if bill is not None:
        added[f"{wheel.metadata}/sboms/{sbom.NAME}"] = bill
    places = dict(_wheel_paths(project, wheel, sources))
    caches = tuple(f"{place}/" for place in dict(_wheel_paths(project, wheel, cache_entries(project))))
    there = {info.filename for info in wheel.members}
    if project.config.ship_sources:
        shipped: dict[str, Content] = {
            place: str(project.tree.disk_path(path)) for place, path in places.items()
        }
        added |= {place: content for place, content in shipped.items() if place not in there}
        places = {}
    name = repack.write_copy(
        wheel,
        into,
        added,
        lambda name: BUNDLE_FOLDER in name.split("/") or name in places or name.startswith(caches),
    )
    max_size.enforce(project.config, str(into / name))
    return name


def _wheel_paths(project: Project, wheel: repack.Wheel, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each of the project's *paths* that is in a package, with its path in the wheel."""
    for path in map(PurePosixPath, paths):
        for package, folder in project.packages.items():
            if path.is_relative_to(folder):
                yield f"{wheel.packages[package]}/{path.relative_to(folder)}", str(path)


def _print(message: str) -> None:
    streams.write(sys.stderr, f"{message}\n")
