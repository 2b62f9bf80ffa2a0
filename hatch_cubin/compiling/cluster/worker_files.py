"""The files that a cluster's worker has for its compiles: stored by content, laid out for each build.

Builds and versions of a project share equal files. All files have the same time because some compilers put
times into their results.
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

_MOST_LAYOUTS = 16  # enough for several builds at once, or for repeated builds


@dataclass(slots=True)
class _Layout:
    """Files laid out for a build, and the number of leases that read them."""

    folder: Path
    places: Mapping[int, str]  # a folder for each descriptor
    users: int = 0


class WorkerFiles:
    """Keeps files by their digests, and layouts of them, in a temporary folder of this process."""

    def __init__(self) -> None:
        self._folder = temporary_folders.make()
        self._blobs, self._layouts = self._folder.path / "files", self._folder.path / "layouts"
        self._lock = threading.Lock()
        self._layouts_by_digest: dict[str, _Layout] = {}  # the most recently used one is last
        self._count = 0
        for folder in (self._blobs, self._layouts):
            folder.mkdir()

    def add(self, blobs: Iterable[bytes]) -> None:
        """Store files."""
        with self._lock:
            for blob in blobs:
                self._keep(file_digest(blob), blob)

    def missing_files(self, listing: FileListing, here: Mapping[str, str]) -> list[str]:
        """Return the digests of the missing files. If none are missing, lay all files out.

        *here* are folders of headers installed on this machine: files that are equal in them are copied.
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
        """Lend the folder for each descriptor.

        KeyError if the listing was never laid out, or was removed since.
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
        """Remove all files."""
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
        """Write a file, completely or not at all."""
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
        # A layout made again gets a new folder: waiting compilers have the folders of the first one open.
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
        """Remove layouts that have not been used for long, and files that no other layout uses."""
        earlier = [*self._layouts_by_digest][:-1]
        unused = [name for name in earlier if not self._layouts_by_digest[name].users]
        dropped = unused[: max(0, len(self._layouts_by_digest) - _MOST_LAYOUTS)]
        for name in dropped:
            shutil.rmtree(self._layouts_by_digest.pop(name).folder, ignore_errors=True)
        if dropped:
            for path in self._blobs.iterdir():
                if path.stat().st_nlink == 1:
                    path.unlink()
