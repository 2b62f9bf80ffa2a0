"""The folders outside the project where things are kept between builds, or a temporary stand-in."""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import shutil
import tempfile
import time
from pathlib import Path

from . import _temporary

HEADERS = "headers"  # the folder of NVRTC's bundled headers, in the user's

_WRITING_S = 3600  # a temporary file that is older was left by a build that was killed

_why: list[str] = []


def user_folder() -> Path:
    """Return the user's cache folder; a temporary one where the user has none."""
    try:
        return own_folder()
    except RuntimeError as exc:
        return instead(f"this user has no home folder: {exc}")


def own_folder() -> Path:
    """Return the user's cache folder; RuntimeError where HOME is not set and the system knows no home."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))


def cubins_folder(root: Path, configured: str | None) -> Path:
    """Return the folder of the cache: as configured for the project at *root*, or the user's own."""
    if configured is not None:
        return root / os.path.expanduser(configured)
    return user_folder() / "cubins"


def instead(why: str) -> Path:
    """Return a temporary folder for this process, and remember *why* the user's own is not used."""
    _why.append(why)
    return _process_folder()


def trouble() -> str | None:
    """Return a warning that says why a temporary folder is used; None where none is."""
    if not _why:
        return None
    return f"{_why[0]}; a temporary folder does instead, and the next build finds nothing in it"


@functools.cache
def _process_folder() -> Path:
    folder = _temporary.make()
    atexit.register(folder.close)
    return folder.path


def keep(path: Path, data: bytes, most: int) -> None:
    """Write *data* to *path* in one step, and keep at most so many files of its kind.

    Files of its kind are those in its folder with its suffix; those used last are kept. Temporary files that
    killed builds left are removed too.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
    files = sorted(path.parent.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True)
    kept = [file for file in files if file.suffix == path.suffix][:most]
    for file in files:
        left = file.suffix != path.suffix and time.time() - file.stat().st_mtime > _WRITING_S
        if left or (file.suffix == path.suffix and file not in kept):
            file.unlink()


def recall_folder() -> Path:
    """Return the folder of what builds recall; RuntimeError where the user has no cache folder."""
    return own_folder() / "recall"


def forget() -> None:
    """Remove what builds recall, so that the next one finds everything out again."""
    with contextlib.suppress(RuntimeError):
        shutil.rmtree(recall_folder(), ignore_errors=True)


def sweep() -> None:
    """Remove the temporary folders that builds which were killed have left."""
    with contextlib.suppress(OSError):  # there is no place for temporary files
        _temporary.sweep(Path(tempfile.gettempdir()))
    with contextlib.suppress(RuntimeError):
        _temporary.sweep(own_folder() / HEADERS)
