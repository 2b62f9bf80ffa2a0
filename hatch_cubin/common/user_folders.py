"""The folders inside the user's cache folder, with files that are kept between builds."""

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

HEADERS = "headers"  # The folder for NVRTC's bundled headers, inside the user's cache folder.
# A flag for opening files: if a pipe is in place of the file, opening the pipe does not wait.
NONBLOCKING = getattr(os, "O_NONBLOCK", 0)

_MOST = 1 << 28  # bytes: a larger file is damaged
_WRITING_S = 3600  # seconds: an older temporary file is left over from a killed build

_why: list[str] = []


def user_folder() -> Path:
    """Return the user's cache folder, or a temporary folder if the user's cache folder cannot be used."""
    try:
        folder = own_folder()
    except RuntimeError as exc:
        return use_temporary_folder(f"this user has no home folder: {exc}")
    try:
        clear_path(folder)
    except NotADirectoryError:
        return use_temporary_folder(f"{folder} is not a folder")
    return folder


def own_folder() -> Path:
    """Return the user's cache folder; RuntimeError if the user has no home folder."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))


def cubins_folder(root: Path, configured: str | None) -> Path:
    """Return the cache folder of the project at *root*; if *configured* is None, this is the user's cache."""
    if configured is not None:
        return root / os.path.expanduser(configured)
    folder = user_folder() / "cubins"
    with contextlib.suppress(NotADirectoryError):  # the cache reports this error later
        clear_path(folder)
    return folder


def use_temporary_folder(why: str) -> Path:
    """Return a temporary folder for this process, and keep the reason *why* for a later warning."""
    _why.append(why)
    return _process_folder()


def fallback_warning() -> str | None:
    """Return a warning that says why this build uses a temporary folder as cache folder.

    The result is None if the build does not use a temporary folder.
    """
    if not _why:
        return None
    return (
        f"this build uses a temporary folder as cache folder, because {_why[0]}; "
        "the next build cannot reuse the results of this build"
    )


@functools.cache
def _process_folder() -> Path:
    folder = temporary_folders.make()
    atexit.register(folder.close)
    return folder.path


def write_retained(path: Path, data: bytes, most: int) -> None:
    """Write *data* to *path* atomically; in the folder, keep at most *most* files with the suffix of *path*.

    Other files with the suffix of *path* are removed, least recently used first. The function also removes
    temporary files that killed builds have left in the folder.
    """
    for folder in (path.parent.parent, path.parent):
        clear_path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(f".{os.getpid()}")
    beside.unlink(missing_ok=True)  # left over from an earlier process with the same process ID
    try:
        with open(beside, "xb", opener=_for_this_user) as file:
            file.write(data)
        # `replace` can replace a file, but not a folder, so a folder at this path is removed first
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
    _drop_others(path, most)


def _for_this_user(path: str, flags: int) -> int:
    """Open a new file that other users cannot read, because the file may contain the texts of sources."""
    return os.open(path, flags, 0o600)


def _drop_others(path: Path, most: int) -> None:
    """Remove old temporary files; if more than *most* files have the suffix of *path*, remove the oldest."""
    found = [(file, file.lstat()) for file in path.parent.iterdir()]
    times = {file: status.st_mtime for file, status in found if stat.S_ISREG(status.st_mode)}
    files = sorted(times, key=times.__getitem__, reverse=True)
    kept = [file for file in files if file.suffix == path.suffix][:most]
    for file in files:
        left = file.suffix != path.suffix and time.time() - times[file] > _WRITING_S
        if left or (file.suffix == path.suffix and file not in kept):
            file.unlink(missing_ok=True)


def open_retained(path: Path, most: int = _MOST) -> BinaryIO:
    """Open a file of an earlier build; OSError if the file is missing, too large or not a regular file."""
    return file_access.open_plain(path, most)


def clear_path(folder: str | Path) -> None:
    """Remove a pipe, a socket or a device at the path of a folder: these files do not contain data.

    Raise NotADirectoryError if the path is a regular file, or a link that does not lead to a folder.
    """
    try:
        mode = os.lstat(folder).st_mode
    except OSError:  # the path does not exist, or `mkdir` will report the error
        return
    if stat.S_ISREG(mode) or (stat.S_ISLNK(mode) and not os.path.isdir(folder)):
        raise NotADirectoryError(errno.ENOTDIR, f"{folder} is not a folder")
    if not (stat.S_ISDIR(mode) or stat.S_ISLNK(mode)):
        with contextlib.suppress(OSError):
            os.unlink(folder)


def recall_folder() -> Path:
    """Return the folder in which builds record facts for later builds.

    Raise RuntimeError if the user has no home folder.
    """
    return own_folder() / "recall"


def remove_recalled_facts() -> None:
    """Remove the facts that builds have recorded; the next build determines these facts again."""
    with contextlib.suppress(RuntimeError, OSError):
        folder = recall_folder()
        for file in [*folder.iterdir()]:
            with contextlib.suppress(OSError):
                file.unlink()
        folder.rmdir()


def sweep() -> None:
    """Remove temporary folders that killed builds left in the user's cache folder."""
    with contextlib.suppress(OSError):  # the system has no folder for temporary files
        temporary_folders.sweep(Path(tempfile.gettempdir()))
    with contextlib.suppress(RuntimeError):
        temporary_folders.sweep(own_folder() / HEADERS)
