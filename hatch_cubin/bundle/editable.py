# Copied byte for byte into editable installs by hatch-cubin (Apache-2.0): standard library only.
"""Notice that sources changed since the kernels of this editable install were built."""

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import json
import os
import shlex
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence


def look(say: Callable[[str], str], error: type[Exception], warning: type[Warning]) -> None:
    """Warn where sources changed, or build again with HATCH_CUBIN_REBUILD=1."""
    here = os.path.dirname(os.path.abspath(__file__))
    notes = os.path.join(here, "editable.json")
    if not os.path.isfile(notes):
        raise error(say(f"{notes} is missing, or no plain file: install the package again"))
    with open(notes, encoding="utf-8") as file:
        built = json.load(file)
    root = os.path.normpath(os.path.join(here, built["root"]))
    edited = [name for name, before in built["files"].items() if _differs(os.path.join(root, name), before)]
    if edited and os.environ.get("HATCH_CUBIN_REBUILD", "").lower() in ("1", "true"):
        _rebuild(root, built, say, error)
    elif edited:
        listed = ", ".join(edited[:3]) + (f" and {len(edited) - 3} more" if len(edited) > 3 else "")
        fix = "install the package again, or set HATCH_CUBIN_REBUILD=1"
        what = say(f"the kernels are older than {listed}: {fix}")
        warnings.warn(what, warning, stacklevel=2 + _depth_of_loader())


def _depth_of_loader() -> int:
    """Count the calls inside of the loader, which is what called `look`."""
    frame = inspect.currentframe()
    frame = frame and frame.f_back and frame.f_back.f_back
    loader, depth = frame and frame.f_code.co_filename, 0
    while frame and frame.f_code.co_filename == loader:
        frame, depth = frame.f_back, depth + 1
    return depth


def _differs(path: str, before: Sequence[int | str]) -> bool:
    size, written, changed, digest = before
    try:
        status = os.stat(path)
        # A time of writing can be set back, but not that of the last change.
        if (status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (size, written, changed):
            return False
        # A pipe would never be read to its end.
        if status.st_size != size or not stat.S_ISREG(status.st_mode):
            return True
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).hexdigest() != digest
    except OSError:
        return True


def _rebuild(
    root: str, built: Mapping[str, Sequence[str]], say: Callable[[str], str], error: type[Exception]
) -> None:
    missing = [name for name in built["needs"] if importlib.util.find_spec(name) is None]
    if missing:
        names = [name.replace("_", "-") for name in missing]
        what = f"HATCH_CUBIN_REBUILD is set, but there is no {' and no '.join(names)} beside the package"
        raise error(say(f"{what}: {_install(root, names)}"))
    command = [sys.executable, *built["rebuild"]]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode:
        raise error(say(f"the kernels could not be built again:\n{done.stdout}{done.stderr}"))


def _install(root: str, names: Sequence[str]) -> str:
    """Return the line that installs what the project's builds require, or else what has these names."""
    with contextlib.suppress(ImportError, OSError, ValueError, LookupError, TypeError):
        toml = importlib.import_module("tomllib")  # which Python 3.10 lacks
        with open(os.path.join(root, "pyproject.toml"), "rb") as file:
            return f"pip install {' '.join(map(shlex.quote, toml.load(file)['build-system']['requires']))}"
    return f"pip install {' '.join(map(shlex.quote, names))}"
