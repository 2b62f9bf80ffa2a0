"""Where things are kept between builds: the user's cache folder, or what stands in for it."""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from pathlib import Path

from .errors import BundleError, Problem

_why: list[str] = []


def user_folder() -> Path:
    """Return the user's cache folder; a temporary one where the user has none."""
    import platformdirs

    try:
        return Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))
    except RuntimeError as exc:  # neither HOME nor an entry among the system's users
        return instead(f"this user has no home folder: {exc}")


def instead(why: str) -> Path:
    """Return the temporary folder that serves this process where the user's own does not."""
    _why.append(why)
    return _process_folder()


def trouble() -> str | None:
    """Say why a temporary folder had to do, where one had to."""
    if not _why:
        return None
    return f"{_why[0]}; a temporary folder does instead, and the next build finds nothing in it"


@functools.cache
def _process_folder() -> Path:
    folder = make_temporary()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def make_temporary() -> Path:
    """Return a new temporary folder, which is the caller's to remove."""
    try:
        return Path(tempfile.mkdtemp(prefix="hatch-cubin-"))
    except OSError as exc:
        raise BundleError(Problem(f"there is no place for temporary files: {exc.strerror}")) from exc
