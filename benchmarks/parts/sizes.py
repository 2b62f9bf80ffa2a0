"""Weigh the wheel of 200 kernels for six archs, and what would make it smaller."""

from __future__ import annotations

import lzma
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

from commands import build, bundle_of, wheel_of
from measuring import Goal, Row
from projects import plain_project, small_project

from hatch_cubin.cubin.elf import _sections

ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
_UNNEEDED = (
    ".debug_frame",
    ".rel.debug_frame",
    ".rela.debug_frame",
    ".note",
    ".nv.callgraph",
    ".nv.rel.action",
)


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    count = 20 if quick else 200
    root = small_project(folder / "sizes", count, ARCHS)
    build(root)
    files = bundle_of(root)
    cubins = {name: data for name, data in files.items() if name.endswith(".cubin")}
    plain = plain_project(folder / "plain", cubins)
    build(plain)
    what, against = f"wheel of {count} kernels × {len(ARCHS)} archs", "its cubins deflated one by one"
    alone = _kib(_deflated(data) for data in cubins.values())

    def row(
        name: str, size: float, other: str = against, theirs: float = alone, goal: Goal | None = None
    ) -> Row:
        return Row(name, other, size, theirs, goal, "KiB")

    ours, simple = (_kib([wheel_of(each).stat().st_size]) for each in (root, plain))
    yield row(what, ours, goal=Goal(1))
    yield row(what, ours, "a plain wheel of its cubins", simple, Goal(1))
    for name in sorted(files.keys() - cubins.keys()):
        yield row(f"{name} in it", _kib([_deflated(files[name])]))
    distinct = set(cubins.values())
    yield row(f"identical results once ({len(distinct)} of {len(cubins)})", _kib(map(_deflated, distinct)))
    stripped = [_deflated(_stripped(data)) for data in cubins.values()]
    yield row("without what no driver should need", _kib(stripped))
    modules: dict[str, list[bytes]] = {}
    for name in sorted(cubins):
        modules.setdefault(name.split(".")[0], []).append(cubins[name])
    together = (_deflated(b"".join(archs)) for archs in modules.values())
    yield row("one deflate stream for each module", _kib(together))
    by_module, by_arch = (
        b"".join(cubins[name] for name in sorted(cubins, key=lambda name: name.split(".")[::step]))
        for step in (1, -1)
    )
    yield row("all in one deflate stream, by module", _kib([_deflated(by_module)]))
    yield row("all in one deflate stream, by arch", _kib([_deflated(by_arch)]))
    yield row("all in one LZMA stream, by arch", _kib([len(lzma.compress(by_arch))]))


def _deflated(data: bytes) -> int:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return len(packer.compress(data) + packer.flush())


def _kib(sizes: Iterable[float]) -> float:
    return sum(sizes) / 1024


def _stripped(data: bytes) -> bytes:
    """Return the file without the bytes of some sections: to be weighed, not to be loaded."""
    gone = [each for each in _sections(data) if each.name.startswith(_UNNEEDED)]
    for section in sorted(gone, key=lambda each: each.offset, reverse=True):
        data = data[: section.offset] + data[section.offset + section.size :]
    return data
