"""Measure a wheel, and estimate how many bytes a change of the project, such as fewer archs, would save.

Sizes are compressed sizes in the archive. To measure how many bytes a change would save, this module
compresses the files that the changed wheel would contain.
"""

from __future__ import annotations

import contextlib
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, NoReturn

from ...bundle.manifest import Manifest, ManifestModule
from ...bundle.packs import Piece, pack, plan_blocks
from ...common.natural_order import by_number
from ...common.sizes import decimal
from ...cubin.elf import read_kernel_code
from ...errors import BundleError, Location, Problem, problem
from ..reading.bundles import Bundle, OpenedWheel, open_wheel
from ..reading.compiled_code import packed_size
from ..reading.coverage import (
    GpuCover,
    capability,
    count_by_gpu,
    coverage,
    promised_capabilities,
    units_in_manifest,
)
from ..reading.survey import arch_order, manifest_of

_LARGEST = 5
# To estimate the saving of `pack = true`, at most this many bytes are packed: a larger bundle is sampled.
_MAX_TRIED_BYTES = 16 << 20
_MIN_SHARE = 0.01  # The smallest saving for which a change is suggested, as a share of the wheel's size.


# The name of a file, and the offset of the code in the unpacked file.
_FilePosition = tuple[str, "int | None"]


class Remedy(NamedTuple):
    """A change that makes a wheel smaller, and the number of bytes that the change saves."""

    what: str
    saves: int


def largest_files(opened: OpenedWheel) -> dict[str, int]:
    """Return the largest files of a wheel, by their compressed sizes."""
    assert opened.archive is not None
    sizes = {member.filename: member.compress_size for member in opened.archive.infolist()}
    names = sorted(sizes, key=lambda name: (-sizes[name], name))
    return {name: sizes[name] for name in names[:_LARGEST]}


def remedies(opened: OpenedWheel) -> list[Remedy]:
    """Return changes that make a large wheel smaller, the most effective first. Skip unreadable files."""
    total = os.path.getsize(opened.path)
    measured = [each for bundle in opened.bundles for each in _bundle_remedies(bundle, total)]
    worth = [each for each in measured if each.saves >= total * _MIN_SHARE]
    return sorted(worth, key=lambda each: (-each.saves, each.what))


def size_problem(opened: OpenedWheel, max_size: int) -> Problem | None:
    """Return a problem if a wheel is larger than *max_size* bytes, otherwise None."""
    total = os.path.getsize(opened.path)
    if total <= max_size:
        return None
    what = f"the wheel has {decimal(total)}, but max-size allows only {decimal(max_size)}"
    return problem("wheel-too-large", what, Location(opened.path), None, _details(opened))


def remove_large_wheel(path: str, max_size: int, where: Location) -> NoReturn:
    """Remove a wheel that is larger than *max_size*, and raise BundleError with suggestions.

    *where* is the line of the table that sets `max-size`.
    """
    name, total = os.path.basename(path), os.path.getsize(path)
    what = f"{name} has {decimal(total)}, but max-size allows only {decimal(max_size)}"
    details: tuple[str, ...] = ()
    # If a wheel has no kernels, `open_wheel` raises an error.
    with contextlib.suppress(BundleError), open_wheel(path) as opened:
        details = _details(opened)
    os.unlink(path)
    raise BundleError(problem("wheel-too-large", what, where, None, details))


def _details(opened: OpenedWheel) -> tuple[str, ...]:
    """Return lines about a large wheel: its largest files, and the savings of each suggested change."""
    parts = [f"{name} {decimal(packed)}" for name, packed in largest_files(opened).items()]
    savings = (f"{each.what} would save {decimal(each.saves)}" for each in remedies(opened))
    return (f"the largest files: {', '.join(parts)}", *savings)


def _bundle_remedies(bundle: Bundle, total: int) -> Iterator[Remedy]:
    try:
        manifest = manifest_of(bundle).here
    except BundleError:
        return
    yield from _leaving_out_an_arch(bundle, manifest)
    if manifest.wheel_variant is None:  # `split` cannot split a wheel variant again.
        yield from _splitting(bundle, manifest, total)
    # In a packed bundle, compression already removes code that is the same in several modules.
    if manifest.blocks is None:
        yield from _packing(bundle, manifest)
        yield from _instantiating(bundle, manifest)


def _leaving_out_an_arch(bundle: Bundle, manifest: Manifest) -> Iterator[Remedy]:
    """For each arch, yield how many bytes smaller the wheel would be without the code for this arch.

    Files that are also used for other archs are not counted.
    """
    archs: dict[str, dict[_FilePosition, int]] = {}
    for module in manifest.modules:
        for entry in module.entries:
            taken = packed_size(bundle, manifest, entry) or 0
            archs.setdefault(entry.arch, {})[entry.file, entry.offset] = taken
    for arch in sorted(archs, key=arch_order):
        others = {place for other, places in archs.items() if other != arch for place in places}
        saves = sum(taken for place, taken in archs[arch].items() if place not in others)
        yield Remedy(f"leaving out {arch} ({_consequence(manifest, arch)})", saves)


def _splitting(bundle: Bundle, manifest: Manifest, total: int) -> Iterator[Remedy]:
    """Yield how much smaller the largest wheel would be if `hatch-cubin split` divided this wheel."""
    archs: dict[str, dict[_FilePosition, int]] = {}
    for entry in (entry for module in manifest.modules for entry in module.entries if not entry.is_ptx):
        taken = packed_size(bundle, manifest, entry) or 0
        archs.setdefault(entry.arch, {})[entry.file, entry.offset] = taken
    sizes = [sum(places.values()) for places in archs.values()]
    if len(sizes) > 1:
        moved: dict[_FilePosition, int] = {}
        for places in archs.values():
            moved |= places
        most = max(total - sum(moved.values()), *sizes)
        what = (
            f"dividing the wheel into {len(sizes) + 1} wheels with 'hatch-cubin split' "
            "(first build the wheel with a higher max-size)"
        )
        yield Remedy(what, total - most)


def _consequence(manifest: Manifest, arch: str) -> str:
    """Describe what GPUs would run if a wheel did not contain code for *arch*."""
    units = units_in_manifest(manifest)
    numbers = promised_capabilities(units)
    # The compute capability of an imaginary future GPU, which needs PTX.
    newer = 10 * (max(numbers, default=0) // 10 + 1)
    numbers = [*numbers, newer]
    before = count_by_gpu(coverage(units, numbers))
    left = count_by_gpu(coverage((unit for unit in units if unit.arch != arch), numbers))
    after = {each["gpu"]: each for each in left}
    less = [each["gpu"] for each in before if _runnable(after.get(each["gpu"])) < _runnable(each)]
    if less:
        names = ("newer GPUs" if gpu == capability(newer) else gpu for gpu in less)
        return f"some kernels would not run on {', '.join(names)}"
    more = [each["gpu"] for each in before if after[each["gpu"]]["ptx"] > each["ptx"]]
    return (
        f"on {', '.join(more)}, drivers would translate PTX"
        if more
        else "every GPU would still run all kernels"
    )


def _runnable(count: GpuCover | None) -> int:
    return 0 if count is None else count["cubin"] + count["ptx"]


def _packing(bundle: Bundle, manifest: Manifest) -> Iterator[Remedy]:
    """Yield how many bytes `pack = true` would save.

    For a large bundle, the number of bytes that `pack = true` would save is an estimate.
    """
    entries = [(module, entry) for module in manifest.modules for entry in module.entries]
    files = {entry.sha256: entry.file for _module, entry in entries}
    blocks = plan_blocks(
        Piece(module.base, module.name, entry.arch, entry.sha256, entry.size) for module, entry in entries
    )
    total = sum(block.size for block in blocks)
    tried = blocks[:: 1 + total // _MAX_TRIED_BYTES]
    try:
        packed = sum(
            len(pack(b"".join(bundle.read(files[piece.sha256]) for piece in block.pieces))) for block in tried
        )
    except (ImportError, BundleError):  # Python does not have lzma, or the wheel is damaged.
        return
    forecast = round(packed * total / max(sum(block.size for block in tried), 1))
    yield Remedy("pack = true", sum(bundle.packed_sizes.get(file) or 0 for file in manifest.files) - forecast)


def _instantiating(bundle: Bundle, manifest: Manifest) -> Iterator[Remedy]:
    """Yield how many bytes smaller the wheel would be with template instantiations instead of variants.

    A single module with all instantiations contains the code of headers only once.
    """
    groups: dict[tuple[str, str], list[ManifestModule]] = {}
    for module in manifest.modules:
        if module.variant:
            groups.setdefault((module.source, module.base), []).append(module)
    for (source, _base), modules in sorted(groups.items(), key=lambda item: by_number(item[0][0])):
        what = f"template instantiations instead of the {len(modules)} variants of {source}"
        yield Remedy(what, _saved_by_merging(bundle, modules))


def _saved_by_merging(bundle: Bundle, modules: Sequence[ManifestModule]) -> int:
    """Return how many bytes would be saved if *modules* became one module.

    For large modules, the number of bytes that would be saved is an estimate.
    """
    archs: dict[str, dict[str, int]] = {}
    for entry in (entry for module in modules for entry in module.entries if not entry.is_ptx):
        archs.setdefault(entry.arch, {})[entry.file] = entry.size
    saves, examined, left = 0, 0, _MAX_TRIED_BYTES
    for files in archs.values():
        if left > 0 and len(files) > 1:
            saves += _saved_for_arch(bundle, files)
            examined += _packed_bytes(bundle, files)
            left -= sum(files.values())
    everything = sum(_packed_bytes(bundle, files) for files in archs.values() if len(files) > 1)
    return saves * everything // max(examined, 1)


def _packed_bytes(bundle: Bundle, files: Iterable[str]) -> int:
    return sum(bundle.packed_sizes.get(name) or 0 for name in files)


def _saved_for_arch(bundle: Bundle, files: Mapping[str, int]) -> int:
    """Return the bytes that would be saved if the files of all variants for one arch became one file."""
    first = max(files, key=lambda name: (files[name], name))
    try:
        more = [read_kernel_code(bundle.read(name)) for name in sorted(files) if name != first]
        together = len(zlib.compress(b"".join([bundle.read(first), *more])))
    except (BundleError, ValueError):  # the integrity check reports damaged files
        return 0
    return _packed_bytes(bundle, files) - together
