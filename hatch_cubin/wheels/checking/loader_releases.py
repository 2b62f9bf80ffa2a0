"""The digests of the loader's files, by version of hatch-cubin: releases are listed, this version is read.

Making a release adds its line, as CONTRIBUTING.md says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ... import __version__
from ...bundle import loader_files
from ...common.digest import file_digest

RELEASED: Mapping[str, Mapping[str, str]] = {}  # version → file → sha256


def own_digests() -> dict[str, str]:
    """Return the digest of each file of the loader of this version."""
    return {name: file_digest(data) for name, data in loader_files.all_files().items()}


def digests_of_version(version: str) -> Mapping[str, str] | None:
    """Return the digest of each file of the loader of a version; None if the version is not known."""
    return own_digests() if version == __version__ else RELEASED.get(version)


def is_newer(version: str) -> bool:
    """Return whether a version is later than this version, by its numbers."""
    return _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> list[int]:
    found = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", version)
    return [int(number) for number in found[0].split(".")] if found else []
