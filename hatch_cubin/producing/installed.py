"""One digest of everything that is installed beside this build: a producer may import any of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from ..common.digest import digest


def installed_digest(path: Iterable[str]) -> str:
    """Return a digest of the files that the RECORDs of all distributions on *path* list, with their hashes.

    Files of an editable install are not in its RECORD, so their edits do not change the digest.
    """
    return digest(row for folder in dict.fromkeys(path) for row in sorted(_rows(folder)))


def _rows(folder: str) -> Iterator[str]:
    infos: list[str] = []
    with contextlib.suppress(OSError):  # an entry of sys.path may be an archive, or absent
        infos = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
    for info in infos:
        yield info
        try:
            with open(os.path.join(folder, info, "RECORD"), encoding="utf-8", errors="replace") as record:
                yield from (row for row in record if _is_installed_file(row, info))
        except OSError:  # an installer of the system does not write it: the name has the version
            continue


def _is_installed_file(row: str, info: str) -> bool:
    """Return whether a row has a file that can be imported. Scripts contain the path of their environment."""
    return ",sha256=" in row and not row.startswith(("../", info, f'"{info}'))
