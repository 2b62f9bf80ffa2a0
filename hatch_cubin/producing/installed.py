"""Compute one digest of all installed distributions, because a producer may import each of them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator

from ..common.digest import digest


def installed_digest(path: Iterable[str]) -> str:
    """Return a digest of the lines in the RECORD files of all distributions on *path*.

    RECORD does not list the source files of an editable install, so edits of these files do not change the
    digest.
    """
    return digest(row for folder in dict.fromkeys(path) for row in sorted(_rows(folder)))


def _rows(folder: str) -> Iterator[str]:
    infos: list[str] = []
    with contextlib.suppress(OSError):  # an entry of sys.path may be an archive, or may not exist
        infos = [name for name in os.listdir(folder or ".") if name.endswith((".dist-info", ".egg-info"))]
    for info in infos:
        yield info
        try:
            with open(os.path.join(folder, info, "RECORD"), encoding="utf-8", errors="replace") as record:
                yield from (row for row in record if _is_installed_file(row, info))
        # the system's package manager may not write RECORD, but the folder's name contains the version
        except OSError:
            continue


def _is_installed_file(row: str, info: str) -> bool:
    """Return whether a line of RECORD names a file that can be imported.

    Scripts are left out, because they contain the path of their environment.
    """
    return ",sha256=" in row and not row.startswith(("../", info, f'"{info}'))
