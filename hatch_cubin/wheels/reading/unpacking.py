"""Write a bundle with a file for the code of each module and arch, even if the bundle was packed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from ...bundle import layout, loader_files
from ...bundle.unpacked_form import files_without_packing
from ...common.digest import file_digest
from ...errors import BundleError, Location, Problem, problem
from .bundles import Bundle
from .compiled_code import read_results
from .survey import manifest_of

_UNCHANGED_FILES = (loader_files.CORE, "__init__.pyi", "keys.json")
_NOT_IN_PLAIN_BUNDLES = (loader_files.PACKED, loader_files.SPLIT, loader_files.EDITABLE)


def unpacked_files(bundle: Bundle) -> dict[str, bytes]:
    """Return the unpacked files of a bundle, by name. A BundleError names all damaged files."""
    manifest = manifest_of(bundle)
    if manifest.wheel_variant is not None:
        label = manifest.wheel_variant["label"]
        what = f"is the wheel variant {label}, which has only some of the compiled files"
        hint = "unpack the complete wheel from which the variant was made"
        raise BundleError(problem("already-split", what, Location(bundle.where), hint))
    is_plain = manifest.blocks is None and manifest.companions is None
    problems: list[Problem] = []
    codes: dict[tuple[str, str], bytes] = {}
    of_loader = {
        name for name in bundle.packed_sizes if name.endswith(".py") and name not in _NOT_IN_PLAIN_BUNDLES
    }
    files = {name: bundle.read(name) for name in sorted({*_UNCHANGED_FILES, *of_loader})}
    for module, entry, data in read_results(bundle, manifest):
        if not isinstance(data, bytes):
            problems += data.problems
        elif file_digest(data) != entry.sha256 or any(char in entry.file for char in "/\\:\0"):
            what = f"{module.name} for {entry.arch} is damaged"
            problems.append(problem("file-damaged", what, bundle.at(entry.file)))
        else:
            codes[module.name, entry.arch] = data
            files |= {entry.file: data} if is_plain else {}
    if problems:
        raise BundleError(*dict.fromkeys(problems))
    data = bundle.read("manifest.json")
    return {
        **files,
        **({"manifest.json": data} if is_plain else files_without_packing(data, manifest, codes)),
    }


def write_bundle(files: Mapping[str, bytes], folder: Path) -> None:
    """Write a bundle into a new or empty folder, or into a folder whose bundle is then replaced."""
    try:
        there = os.listdir(folder)
    except OSError:
        there = []  # Ignore this error, because writing the files reports it.
    if there and "manifest.json" not in there:
        what = "is not empty, and does not contain an unpacked bundle that could be replaced"
        hint = "name a new folder with --into"
        raise BundleError(problem("folder-not-empty", what, Location(str(folder)), hint))
    layout.write(files, folder)
