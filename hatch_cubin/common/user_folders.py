"""The folders outside the project where things are kept between builds, or a temporary stand-in."""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from . import file_access, temporary_folders

HEADERS = "headers"  # the folder of NVRTC's bundled headers, in the user's
# For what was a file a moment ago: a pipe that took its place since is not waited for.
AT_ONCE = getattr(os, "O_NONBLOCK", 0)

_MOST = 1 << 28  # bytes: something is wrong with a file that has more
_WRITING_S = 3600  # a temporary file that is older was left by a build that was killed

_why: list[str] = []


def user_folder() -> Path:
    """Return the user's cache folder; a temporary one where the user has none."""
    try:
        folder = own_folder()
    except RuntimeError as exc:
        return instead(f"this user has no home folder: {exc}")
    try:
        make_way(folder)
    except NotADirectoryError:
        return instead(f"{folder} is not a folder")
    return folder


def own_folder() -> Path:
    """Return the user's cache folder; RuntimeError where HOME is not set and the system knows no home."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))


def cubins_folder(root: Path, configured: str | None) -> Path:
    """Return the folder of the cache: as configured for the project at *root*, or the user's own."""
    if configured is not None:
        return root / os.path.expanduser(configured)
    folder = user_folder() / "cubins"
    with contextlib.suppress(NotADirectoryError):  # which the cache itself will tell
        make_way(folder)
    return folder


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
    folder = temporary_folders.make()
    atexit.register(folder.close)
    return folder.path


def keep(path: Path, data: bytes, most: int) -> None:
    """Write *data* to *path* in one step, and keep at most so many files of its kind.

    Files of its kind are those in its folder with its suffix; those used last are kept. Temporary files that
    killed builds left are removed too.
    """
    for folder in (path.parent.parent, path.parent):
        make_way(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.unlink(missing_ok=True)  # of a process that had this number before
    try:
        with open(beside, "xb") as file:
            file.write(data)
        if path.is_dir() and not path.is_symlink():  # a file replaces anything else
            shutil.rmtree(path)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _drop_others(path, most)


def _drop_others(path: Path, most: int) -> None:
    """Remove what is of the kind of *path* but for so many, and what killed builds left beside."""
    found = [(file, file.lstat()) for file in path.parent.iterdir()]
    times = {file: status.st_mtime for file, status in found if stat.S_ISREG(status.st_mode)}
    files = sorted(times, key=times.__getitem__, reverse=True)
    kept = [file for file in files if file.suffix == path.suffix][:most]
    for file in files:
        left = file.suffix != path.suffix and time.time() - times[file] > _WRITING_S
        if left or (file.suffix == path.suffix and file not in kept):
            file.unlink(missing_ok=True)


def kept(path: Path, most: int = _MOST) -> BinaryIO:
    """Open a file that was kept; OSError if there is none, if it is not a file, or has more bytes."""
    return file_access.opened(path, most)


def make_way(folder: str | Path) -> None:
    """Remove what stands in a folder's place and can hold nothing: a pipe, a socket, a device.

    NotADirectoryError where it is a file, or a link to anything but a folder.
    """
    try:
        mode = os.lstat(folder).st_mode
    except OSError:  # nothing is there, or whoever makes the folder will say what is wrong
        return
    if stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not os.path.isdir(folder)):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder")
    if not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        with contextlib.suppress(OSError):
            os.unlink(folder)


def recall_folder() -> Path:
    """Return the folder of what builds recall; RuntimeError where the user has no cache folder."""
    return own_folder() / "recall"


def forget() -> None:
    """Remove what builds recall, so that the next one finds it out again; the folder may be a link."""
    with contextlib.suppress(RuntimeError, OSError):
        folder = recall_folder()
        for file in [*folder.iterdir()]:
            with contextlib.suppress(OSError):
                file.unlink()
        folder.rmdir()


def sweep() -> None:
    """Remove the temporary folders that builds which were killed have left."""
    with contextlib.suppress(OSError):  # there is no place for temporary files
        temporary_folders.sweep(Path(tempfile.gettempdir()))
    with contextlib.suppress(RuntimeError):
        temporary_folders.sweep(own_folder() / HEADERS)
