"""The files that a worker of a cluster keeps for its compiles.

Each file is stored once under its digest, even if several builds need the file. For each build, the worker
makes a tree of folders (a layout) with links to the stored files. All stored files have the same modification
time, because some compilers write modification times into compiled code.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ...common import temporary_folders
from ...common.digest import file_digest
from .lease import FileListing

# How many layouts to keep. A layout is a tree of folders for a build. Several builds may run at once, and a
# build may run again.
_MOST_LAYOUTS = 16


@dataclass(slots=True)
class _Layout:
    """A tree of folders with the files of a build; *users* counts the tasks that are using the tree now."""

    folder: Path
    # For each file descriptor: the folder that a compiler process opens with this number.
    places: Mapping[int, str]
    users: int = 0


class WorkerFiles:
    """Keeps files, and a tree of folders (a layout) for each build, in a temporary folder."""

    def __init__(self) -> None:
        self._folder = temporary_folders.make()
        self._blobs, self._layouts = self._folder.path / "files", self._folder.path / "layouts"
        self._lock = threading.Lock()
        self._layouts_by_digest: dict[str, _Layout] = {}  # ordered by last use
        self._count = 0
        for folder in (self._blobs, self._layouts):
            folder.mkdir()

    def add(self, blobs: Iterable[bytes]) -> None:
        """Store files, which are given as bytes."""
        with self._lock:
            for blob in blobs:
                self._keep(file_digest(blob), blob)

    def missing_files(self, listing: FileListing, here: Mapping[str, str]) -> list[str]:
        """Return the digests of missing files; if no file is missing, make the folders of the build.

        *here* maps the names of header libraries that are installed on this machine to their folders. A file
        in a folder of *here* does not count as missing, because the worker copies the file from this folder.
        """
        with self._lock:
            if listing.digest not in self._layouts_by_digest:
                wanted = {content: logical for logical, content in listing.files.values()}
                missing_files = [
                    each for each, logical in wanted.items() if not self._has(each, logical, here)
                ]
                if missing_files:
                    return missing_files
                self._lay_out(listing)
            self._mark_used(listing.digest)
            return []

    @contextlib.contextmanager
    def using(self, listing: str) -> Iterator[Mapping[int, str]]:
        """Keep the folders of a build while the `with` block runs; provide their paths by file descriptor.

        Raise KeyError if the folders for *listing* do not exist, for example because they were removed.
        """
        with self._lock:
            layout = self._mark_used(listing)
            layout.users += 1
        try:
            yield layout.places
        finally:
            with self._lock:
                layout.users -= 1

    def close(self) -> None:
        """Remove all files and folders."""
        self._folder.close()

    def _has(self, content: str, logical: str, here: Mapping[str, str]) -> bool:
        if (self._blobs / content).is_file():
            return True
        for name, folder in here.items():
            if logical.startswith(f"{name}/"):
                with contextlib.suppress(OSError):
                    blob = Path(folder, logical[len(name) + 1 :]).read_bytes()
                    if file_digest(blob) == content:
                        self._keep(content, blob)
                        return True
        return False

    def _keep(self, content: str, blob: bytes) -> None:
        """Write a file atomically."""
        path, part = self._blobs / content, self._blobs / "part"
        if path.is_file():
            return
        part.write_bytes(blob)
        os.utime(part, (0, 0))
        part.replace(path)

    def _mark_used(self, listing: str) -> _Layout:
        self._layouts_by_digest[listing] = layout = self._layouts_by_digest.pop(listing)
        return layout

    def _lay_out(self, listing: FileListing) -> None:
        # If a layout is made again, it gets a new folder, because idle compiler processes keep the old folder
        # open.
        self._count += 1
        into, part = self._layouts / str(self._count), self._layouts / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for folder in listing.folders:
            (part / folder).mkdir(parents=True, exist_ok=True)
        for place, (_logical, content) in listing.files.items():
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(self._blobs / content, part / place)
        part.rename(into)
        places = {number: str(into / place) for number, place in listing.places.items()}
        self._layouts_by_digest[listing.digest] = _Layout(into, places)
        self._remove_unused()

    def _remove_unused(self) -> None:
        """Remove the layouts that were used least recently, and the files that were only in these layouts."""
        earlier = [*self._layouts_by_digest][:-1]
        unused = [name for name in earlier if not self._layouts_by_digest[name].users]
        dropped = unused[: max(0, len(self._layouts_by_digest) - _MOST_LAYOUTS)]
        for name in dropped:
            shutil.rmtree(self._layouts_by_digest.pop(name).folder, ignore_errors=True)
        if dropped:
            for path in self._blobs.iterdir():
                if path.stat().st_nlink == 1:
                    path.unlink()
