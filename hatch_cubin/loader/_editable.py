# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Notice edits of the sources of an editable install, and wait for builds that replace its files."""

import os
import sys

from . import (
    _HERE,
    CubinDamagedError,
    CubinError,
    CubinStaleWarning,
    _compared,
    _find_spec,
    _import,
    _layer,
    _message,
    _sha256,
    _unreadable,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

_RETRY_SECONDS = 2.0  # how long to wait for builds that replace files


def compare_sources_once() -> None:
    """Warn once if sources changed since the kernels were built. With HATCH_CUBIN_REBUILD=1, rebuild them."""
    _compared.append(True)
    try:
        _compare_sources()
    except CubinError:  # a failed build is reported at each call
        _compared.clear()
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError) as exc:
        _compared.clear()
        path = getattr(exc, "filename", None) or os.path.join(_HERE, "editable.json")
        _unreadable(path, exc)


def _compare_sources() -> None:
    record = os.path.join(_HERE, "editable.json")
    if not os.path.isfile(record):
        raise CubinError(_message(f"{record} is missing or is not a file: install the package again"))
    with open(record, encoding="utf-8") as file:
        built = _import("json").load(file)
    root = os.path.normpath(os.path.join(_HERE, built["root"]))
    edited = [*_edited(root, built)]
    if edited and os.environ.get("HATCH_CUBIN_REBUILD", "").lower() in ("1", "true"):
        _rebuild(root, built)
    elif edited:
        listed = ", ".join(edited[:3]) + (f" and {len(edited) - 3} more" if len(edited) > 3 else "")
        fix = "install the package again, or set HATCH_CUBIN_REBUILD=1"
        what = _message(f"the kernels were built before these files changed: {listed}; {fix}")
        _import("warnings").warn(what, CubinStaleWarning, stacklevel=1 + _depth_of_loader())


def _edited(root: str, built: "Mapping[str, Any]") -> "Iterator[str]":
    """Yield the sources that changed since the build, and the TOML file if hatch-cubin's table changed."""
    for name, before in built["files"].items():
        path = os.path.join(root, name)
        if _differs(path, before):
            yield name if os.path.exists(path) else f"{name} (deleted)"
    for folder, before in built["folders"].items():
        path = os.path.join(root, folder)
        for name in sorted(os.listdir(path)) if os.path.isdir(path) else ():
            if name.endswith((".cu", ".ptx", ".tileir")) and name[0] != "." and name not in before:
                yield f"{folder}/{name} (new)"
    if built["table"] and _table_differs(root, *built["table"]):
        yield built["table"][0]


def _table_differs(
    root: str, name: str, before: "Sequence[Any]", keys: "Sequence[str]", table: "Any"
) -> bool:
    path = os.path.join(root, name)
    if not _differs(path, before):
        return False
    try:
        with open(path, encoding="utf-8") as file:
            found = _import("tomllib").loads(file.read())
        for key in keys:
            found = found[key]
    except ImportError:  # Python 3.10 does not have tomllib
        return False
    except (OSError, ValueError, LookupError, TypeError):
        return True
    return bool(found != table)


def _depth_of_loader() -> int:
    """Return how many calls on the stack are in the loader's files: the warning names the caller's line."""
    loader, depth = os.path.dirname(os.path.abspath(__file__)), 1
    while os.path.dirname(os.path.abspath(sys._getframe(depth).f_code.co_filename)) == loader:
        depth += 1
    return depth - 1


def _differs(path: str, before: "Sequence[int | str]") -> bool:
    size, written, changed, digest = before
    try:
        status = os.stat(path)
        # Programs can set the modification time (mtime), but not the change time (ctime).
        if (status.st_size, status.st_mtime_ns, status.st_ctime_ns) == (size, written, changed):
            return False
        # Reading a pipe might never end.
        if status.st_size != size or not _import("stat").S_ISREG(status.st_mode):
            return True
        with open(path, "rb") as file:
            return _sha256(file.read()) != digest
    except OSError:
        return True


def _rebuild(root: str, built: "Mapping[str, Any]") -> None:
    missing = [name for name in built["needs"] if _find_spec(name, None) is None]
    if missing:
        names = [name.replace("_", "-") for name in missing]
        what = f"HATCH_CUBIN_REBUILD is set, but these packages are not installed: {', '.join(names)}"
        raise CubinError(_message(f"{what}: {_install(root, names)}"))
    command = [sys.executable, *built["rebuild"]]
    done = _import("subprocess").run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CubinError(_message(f"the kernels could not be rebuilt:\n{done.stdout}{done.stderr}"))


def _install(root: str, names: "Sequence[str]") -> str:
    """Return a command that installs the project's build requirements, or *names* if they are unknown."""
    try:
        toml = _import("tomllib")  # Python 3.10 does not have it
        with open(os.path.join(root, "pyproject.toml"), "rb") as file:
            return _pip_install(toml.load(file)["build-system"]["requires"])
    except (ImportError, OSError, ValueError, LookupError, TypeError):
        return _pip_install(names)


def _pip_install(names: "Sequence[str]") -> str:
    return f"pip install {' '.join(map(_import('shlex').quote, names))}"


def retry(call: "Callable[[], Any]", error: CubinError) -> "Any":
    """Return the result of *call*, which is repeated until no build replaces the files at the same time."""
    layer, time = _layer(), _import("time")
    deadline = time.monotonic() + _RETRY_SECONDS
    while _may_be_rebuild(error):
        lock = _lock_out_builds(layer.folder)
        try:
            layer.manifests.clear()
            return call()
        except CubinError as exc:
            error = exc
            if lock is not None or time.monotonic() > deadline:
                break
        finally:
            if lock is not None:
                _import("fcntl").flock(
                    lock, 8
                )  # 8 is LOCK_UN: closing is not enough if a forked child has the file open
                os.close(lock)
        time.sleep(0.005)
    raise error


def _may_be_rebuild(error: CubinError) -> bool:
    """Return whether a running build can cause this error.

    On Windows, a file cannot be read while a build replaces the file.
    """
    if isinstance(error, CubinDamagedError):
        return True
    return sys.platform == "win32" and isinstance(error.__cause__, PermissionError)


def _lock_out_builds(folder: str) -> "int | None":
    """Return a file descriptor with a lock that stops builds, or None if the lock is not available."""
    try:
        fcntl = _import("fcntl")
        descriptor = os.open(folder, os.O_RDONLY)
    except (ImportError, OSError):
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


__build__ = "c8f3d0de63390474"
