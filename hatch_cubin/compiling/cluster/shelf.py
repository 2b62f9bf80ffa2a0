"""The files that a worker of a cluster has for its compiles: kept by content, laid out for each build.

Two builds, and two versions of one project, share what is the same. Every file has the same time, for some
compilers put times into what they make.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from ... import _temporary
from ..._digest import file_digest
from .lease import Listing

_MOST_LAYOUTS = 4  # of builds at once, or of one that is made again and again


class Shelf:
    """Keeps files by their digests, and layouts of them, in a temporary folder of this process."""

    def __init__(self) -> None:
        self._folder = _temporary.make()
        self._blobs, self._layouts = self._folder.path / "files", self._folder.path / "layouts"
        self._lock = threading.Lock()
        self._laid: dict[
            str, Mapping[int, str]
        ] = {}  # folders for descriptors, the layout used last at the end
        for folder in (self._blobs, self._layouts):
            folder.mkdir()

    def add(self, blobs: Iterable[bytes]) -> None:
        """Keep files."""
        with self._lock:
            for blob in blobs:
                self._keep(file_digest(blob), blob)

    def lacking(self, listing: Listing, here: Mapping[str, str]) -> list[str]:
        """Return the digests of what is lacking; lay all out where nothing is.

        *here* are folders of headers that are installed here: what is the same in them is copied.
        """
        with self._lock:
            if listing.digest not in self._laid:
                wanted = {content: logical for logical, content in listing.files.values()}
                lacking = [each for each, logical in wanted.items() if not self._has(each, logical, here)]
                if lacking:
                    return lacking
                self._lay_out(listing)
            self._laid[listing.digest] = self._laid.pop(listing.digest)
            return []

    def folders(self, listing: str) -> Mapping[int, str]:
        """Return the folder for each descriptor; KeyError where that was never laid out, or long ago."""
        return self._laid[listing]

    def close(self) -> None:
        """Remove all of it."""
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
        """Write a file, whole or not at all."""
        path, part = self._blobs / content, self._blobs / "part"
        part.write_bytes(blob)
        os.utime(part, (0, 0))
        part.replace(path)

    def _lay_out(self, listing: Listing) -> None:
        into, part = self._layouts / listing.digest, self._layouts / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for folder in listing.folders:
            (part / folder).mkdir(parents=True, exist_ok=True)
        for place, (_logical, content) in listing.files.items():
            (part / place).parent.mkdir(parents=True, exist_ok=True)
            os.link(self._blobs / content, part / place)
        part.rename(into)
        self._laid[listing.digest] = {number: str(into / place) for number, place in listing.places.items()}
        while len(self._laid) > _MOST_LAYOUTS:
            self._drop(next(iter(self._laid)))

    def _drop(self, listing: str) -> None:
        """Remove a layout, and the files that no other has."""
        del self._laid[listing]
        shutil.rmtree(self._layouts / listing, ignore_errors=True)
        for path in self._blobs.iterdir():
            if path.stat().st_nlink == 1:
                path.unlink()
