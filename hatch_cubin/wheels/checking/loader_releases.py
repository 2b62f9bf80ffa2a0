"""The digests of the loader's files for each version of hatch-cubin.

This module lists the loader's digests for all released versions of hatch-cubin. The digests for the running
version are computed from the files of its loader. Each release adds the digests of its own loader to the
list, as CONTRIBUTING.md describes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ... import __version__
from ...bundle import loader_files
from ...common.digest import file_digest

RELEASED: Mapping[str, Mapping[str, str]] = {}  # version → file → sha256


def own_digests() -> dict[str, str]:
    """Return the digests of the loader's files in this version of hatch-cubin."""
    return {name: file_digest(data) for name, data in loader_files.all_files().items()}


def digests_of_version(version: str) -> Mapping[str, str] | None:
    """Return the digests of the loader's files in a version, or None if the version is unknown."""
    return own_digests() if version == __version__ else RELEASED.get(version)


def is_newer(version: str) -> bool:
    """Return whether a version number is higher than the version of the running hatch-cubin."""
    return _numbers(version) > _numbers(__version__)


def _numbers(version: str) -> list[int]:
    found = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})*", version)
    return [int(number) for number in found[0].split(".")] if found else []
