"""Find absolute paths in the files that hatch-cubin writes, because such paths reveal the build machine.

Only paths in folders where people and CI jobs usually build are reported, because a kernel may contain a
harmless path, for example a path in /dev.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from ...errors import BundleError, Problem, problem
from ..reading.bundles import Bundle, OpenedWheel
from ..reading.compiled_code import read_results
from ..reading.survey import manifest_of
from .sbom_check import sbom_of
from .verify import FILES_OF_EVERY_BUNDLE

_SHOWN = 3
_FOLDERS = (
    rb"__w|build|builds|data|github|home|host|io|mnt|opt|private|project|root|srv|tmp|usr/local|Users|var|work"
    rb"|workspace|workspaces"
)
# The pattern requires many characters, so that machine code does not match by chance.
_UNIX = rb"(?<![\w.:/\\@~+-])/(?:%b)/[\w.+@~-][\w.+@~/-]{3,}" % _FOLDERS
_WINDOWS = rb"(?<!\w)[A-Za-z]:\\\\?[\w.+@~ -]{3,}(?:\\\\?[\w.+@~ -]{2,})+"
_PATH = re.compile(rb"%b|%b" % (_UNIX, _WINDOWS))


def path_problems(opened: OpenedWheel) -> Iterator[Problem]:
    """Yield a problem for each file of a bundle, and each bill of materials, that contains absolute paths."""
    for bundle in opened.bundles:
        for name, data in _written_files(bundle):
            if paths := absolute_paths(data):
                what = f"contains the absolute path of a folder: {_listed(paths)}"
                yield problem("absolute-path", what, bundle.at(name), _hint(name))
        with contextlib.suppress(BundleError):  # the integrity check reports an unreadable file
            bill = sbom_of(opened, bundle)
            if bill is not None and (paths := absolute_paths(bill.data)):
                what = f"contains the absolute path of a folder: {_listed(paths)}"
                yield problem("absolute-path", what, opened.at(bill.path))


def absolute_paths(data: bytes) -> list[str]:
    """Return the absolute paths in a file, without duplicates."""
    found = (match[0].decode("ascii", "backslashreplace").rstrip() for match in _PATH.finditer(data))
    return [*dict.fromkeys(found)]


def _written_files(bundle: Bundle) -> Iterator[tuple[str, bytes]]:
    """Yield the files that hatch-cubin wrote. Packed files are unpacked."""
    for name in FILES_OF_EVERY_BUNDLE:
        if name.endswith((".json", ".pyi")):
            with contextlib.suppress(BundleError):  # the integrity check reports an unreadable file
                yield name, bundle.read(name)
    with contextlib.suppress(BundleError):
        seen: set[tuple[str, int | None]] = set()
        for _module, entry, data in read_results(bundle, manifest_of(bundle)):
            if isinstance(data, bytes) and (entry.file, entry.offset) not in seen:
                seen.add((entry.file, entry.offset))
                yield entry.file, data


def _listed(paths: list[str]) -> str:
    return ", ".join(paths[:_SHOWN]) + ", …" * (len(paths) > _SHOWN)


def _hint(name: str) -> str | None:
    if not name.endswith((".json", ".pyi")):
        return "the path comes from a macro or a string of the source, or from debug information"
    return None
