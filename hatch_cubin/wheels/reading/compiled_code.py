"""Read the compiled code in a bundle, from single files or from packed blocks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TypeAlias

from ...bundle.manifest import Manifest, ManifestEntry, ManifestModule
from ...bundle.packs import unpack
from ...errors import BundleError, problem
from .bundles import Bundle, FileElsewhereError, refuse_bomb
from .companions import Companions, companions_of

ReadResult: TypeAlias = "tuple[ManifestModule, ManifestEntry, bytes | BundleError]"


def read_results(bundle: Bundle, manifest: Manifest) -> Iterator[ReadResult]:
    """Yield each entry of the manifest with its compiled code, or with the error if the code is unreadable.

    In a packed bundle, the entries come in the order of the blocks, so that each block is unpacked only once.
    """
    with companions_of(bundle, manifest) as companions:
        yield from _read_all(bundle, manifest, companions)


def _read_all(bundle: Bundle, manifest: Manifest, companions: Companions) -> Iterator[ReadResult]:
    entries = [(module, entry) for module in manifest.modules for entry in module.entries]
    if manifest.blocks is None:
        for module, entry in entries:
            try:
                yield module, entry, _read_file(bundle, manifest, companions, entry)
            except BundleError as exc:
                yield module, entry, exc
        return
    entries.sort(key=lambda pair: (pair[1].file, pair[1].offset or 0))
    for _file_name, group in groupby(entries, key=lambda pair: pair[1].file):
        pairs = [*group]
        first = pairs[0][1]
        try:
            data: bytes | BundleError = _read_block(bundle, manifest, companions, first)
        except BundleError as exc:
            data = exc
        yield from ((module, entry, _slice_of_block(bundle, entry, data)) for module, entry in pairs)


def _read_file(bundle: Bundle, manifest: Manifest, companions: Companions, entry: ManifestEntry) -> bytes:
    """Return the file of a manifest entry, from the bundle or from a companion wheel."""
    if entry.absent:
        label = (manifest.wheel_variant or {}).get("label")
        what = f"is missing, because the wheel variant {label!r} does not contain this file"
        raise FileElsewhereError(problem("not-in-variant", what, bundle.at(entry.file)))
    if entry.companion is None:
        return bundle.read(entry.file)
    return companions.read(entry.companion, entry.file)


def _read_block(bundle: Bundle, manifest: Manifest, companions: Companions, entry: ManifestEntry) -> bytes:
    """Return an unpacked block, or raise BundleError if the block differs from the manifest."""
    name, blocks = entry.file, manifest.blocks or {}
    if name not in blocks:
        what = f"says that code is in the block {name!r}, but does not describe this block"
        raise BundleError(problem("manifest-inconsistent", what, bundle.at("manifest.json")))
    said = blocks[name]
    data = _read_file(bundle, manifest, companions, entry)
    refuse_bomb(len(data), said.size, bundle.at(name))
    try:
        return unpack(data, said.sha256, said.size)
    except ValueError as exc:
        raise BundleError(problem("file-damaged", str(exc), bundle.at(name))) from exc


def packed_size(bundle: Bundle, manifest: Manifest, entry: ManifestEntry) -> int | None:
    """Return the compressed size of a module's code for an arch.

    The size is an estimate if the bundle is packed.
    """
    of_file = packed_size_of_file(bundle, manifest, entry.file)
    if of_file is None or manifest.blocks is None:
        return of_file
    block = manifest.blocks.get(entry.file)
    return None if block is None else round(of_file * entry.size / max(block.size, 1))


def packed_size_of_file(bundle: Bundle, manifest: Manifest, file: str) -> int | None:
    """Return the compressed size of a file in the wheel.

    If the wheel is installed, the size of a packed block is read from the manifest.
    """
    of_file = bundle.packed_sizes.get(file)
    block = (manifest.blocks or {}).get(file)
    return block.packed if of_file is None and block is not None else of_file


def _slice_of_block(bundle: Bundle, entry: ManifestEntry, data: bytes | BundleError) -> bytes | BundleError:
    if isinstance(data, BundleError) or entry.offset is None:
        return data
    if not 0 <= entry.offset <= len(data) - entry.size:
        what = f"lists code that extends beyond the end of {entry.file}"
        return BundleError(problem("manifest-inconsistent", what, bundle.at("manifest.json")))
    return data[entry.offset : entry.offset + entry.size]
