"""Find GPU code that no manifest in a wheel lists, and that no other check reads."""

from __future__ import annotations

import contextlib
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Literal

from ...errors import BundleError, Location, Problem, problem
from ...project.source import BUNDLE_FOLDER, glob_regex
from ..reading.bundles import DAMAGE_ERRORS, OpenedWheel, installed_path, member_location

_EM_CUDA = (190).to_bytes(2, "little")  # the value of e_machine in the ELF header of a cubin
_FATBIN_MAGIC = b"\x50\xed\x55\xba"
_CODE_NAMES = re.compile(r".*\.(?:cubin|fatbin)", re.IGNORECASE | re.DOTALL)


def stray_problems(opened: OpenedWheel, excepted: Sequence[str] = ()) -> Iterator[Problem]:
    """Yield a problem for each file of GPU code outside the bundles, and for each bundle in a wrong folder.

    *excepted* are globs for the paths of files that may be outside the bundles.
    """
    if opened.archive is None:
        return
    rules = [glob_regex(glob) for glob in excepted]
    for info in opened.archive.infolist():
        name = info.filename
        inside = {BUNDLE_FOLDER, opened.companion} & {*name.split("/")[:-1]}
        if inside or info.is_dir() or any(rule.fullmatch(name) for rule in rules):
            continue
        if _CODE_NAMES.fullmatch(name) or machine_code_kind(opened.archive, name) == "gpu":
            what = "is GPU code outside the bundle, so no manifest lists it"
            hint = f"remove the file from the wheel, or allow it with --except '{name}'"
            yield problem("stray-code", what, member_location(opened.archive, name), hint)
    yield from _misplaced_bundles(opened)


def machine_code_kind(wheel: zipfile.ZipFile, name: str) -> Literal["gpu", "cpu"] | None:
    """Return which processor a file contains machine code for, judged by the file's first bytes."""
    head = b""
    # The integrity check reports a damaged file.
    with contextlib.suppress(*DAMAGE_ERRORS), wheel.open(name) as file:
        head = file.read(20)
    if head.startswith(b"\x7fELF"):
        return "gpu" if head[18:] == _EM_CUDA else "cpu"
    return "gpu" if head.startswith(_FATBIN_MAGIC) else None


def _misplaced_bundles(opened: OpenedWheel) -> Iterator[Problem]:
    first: dict[bytes, str] = {}
    for bundle in opened.bundles:
        if installed_path(bundle.place) == BUNDLE_FOLDER:
            what = f"is not in a package: it would be installed as the module {BUNDLE_FOLDER}"
            yield problem("bundle-outside-package", what, Location(bundle.where))
        with contextlib.suppress(BundleError):  # the integrity check reports an unreadable manifest
            other = first.setdefault(bundle.read("manifest.json"), bundle.place)
            if other != bundle.place:
                what = f"has the same manifest as {other}: one of the two folders is a copy"
                hint = "remove the copy from the wheel"
                yield problem("bundle-copied", what, Location(bundle.where), hint)
