"""Import the build backend that pyproject.toml names, or report why the import fails."""

from __future__ import annotations

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

from ..config.config import Config
from ..config.known_names import BACKENDS, WRAPPER, backend_meant
from ..errors import ConfigError, problem


def load(config: Config, root: Path) -> Any:
    """Return the wrapped build backend, an object with hooks, or raise ConfigError if its import fails."""
    if config.backend is None:
        what = f"'build-backend' in [build-system] is not {WRAPPER}"
        raise ConfigError(
            problem("not-the-build-backend", what, config.place.of(), f'build-backend = "{WRAPPER}"')
        )
    where = config.place.of("backend")
    module, _, inside = config.backend.partition(":")
    for folder in reversed(config.backend_path):
        if (path := str(root / folder)) not in sys.path:
            sys.path.insert(0, path)
    try:
        imported = importlib.import_module(module)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{module}.".startswith(f"{exc.name}."):  # an import of the backend fails
            what = f"the build backend {module!r} cannot be imported: {exc}"
            raise ConfigError(problem("backend-import-failed", what, where)) from exc
        what = f"the build backend {module!r} is not installed here"
        raise ConfigError(problem("backend-not-installed", what, where, _hint(config, module))) from exc
    try:
        backend = functools.reduce(getattr, filter(None, inside.split(".")), imported)
    except AttributeError as exc:
        what = f"{module!r} does not contain the build backend {inside!r}"
        raise ConfigError(problem("not-a-build-backend", what, where)) from exc
    if not hasattr(backend, "build_wheel"):
        what = f"{config.backend!r} is not a build backend: it does not have 'build_wheel'"
        raise ConfigError(problem("not-a-build-backend", what, where, _corrected_line(config.backend)))
    return backend


def _hint(config: Config, module: str) -> str:
    if config.backend_path:
        return f"check that one of the folders in 'backend-path' contains the module {module!r}"
    if (meant := _corrected_line(module)) is not None:
        return meant
    known = {backend: distribution for distribution, backend in BACKENDS.items()}
    distribution = known.get(module, module.partition(".")[0].replace("_", "-"))
    return f'add "{distribution}" to requires in [build-system]'


def _corrected_line(written: str) -> str | None:
    meant = backend_meant(written)
    return None if meant in {None, written} else f'backend = "{meant}"'
