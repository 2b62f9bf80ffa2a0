"""Pack results into blocks, in compiler processes: each block is a result of its own, kept in the cache."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from .._plan import Unit
from .._sizes import size
from ..bundle.packs import Block, Packed, Piece, assembled, cut
from ..cache.entries import Cache, Compiled, Content
from ..cache.proof import BLOCK
from ..errors import BundleError, Problem, ToolchainError
from ..keys.jobs import Job
from ..sources.project import Project
from . import cores, executor

_LIGHTER = "HATCH_CUBIN_JOBS=1 packs one block at a time, in the least memory; without 'pack' none is"


def require_packer(project: Project) -> None:
    """Raise ToolchainError where this Python cannot pack."""
    try:
        import lzma  # noqa: F401 - which few builds need, and some interpreters lack
    except ImportError as exc:
        what, fix = "'pack' needs lzma, which this Python lacks", "build with a Python that has liblzma"
        raise ToolchainError(Problem(what, project.config.place.of("pack"), fix)) from exc


def pack(project: Project, jobs: Sequence[Job], done: Mapping[Unit, Compiled], cache: Cache) -> Packed:
    """Return the blocks of the results of all *jobs*; what the cache lacks is packed now, and stored."""
    blocks = cut(_piece(job.unit, done[job.unit]) for job in jobs)
    found = {block.key: hit for block in blocks if (hit := cache.get(block.key)) is not None}
    misses = [block for block in blocks if block.key not in found]
    contents = {done[job.unit].sha256: done[job.unit].content for job in jobs}
    for block, packed in _packed(project, misses, contents):
        cache.put(block.key, packed, {BLOCK: [piece.sha256 for piece in block.pieces]})
        found[block.key] = cache.get(block.key) or packed  # which may be held, and leave the memory
    before, after = sum(block.size for block in blocks), sum(found[block.key].size for block in blocks)
    counts = f"{len(blocks) - len(misses)} cached, {len(misses)} packed"
    project.say(f"{len(blocks)} block{'s' * (len(blocks) != 1)}: {counts}, {size(before)} in {size(after)}")
    return assembled(blocks, found)


def _piece(unit: Unit, compiled: Compiled) -> Piece:
    return Piece(unit.module.base, unit.module.name, str(unit.arch), compiled.sha256, compiled.size)


def _packed(
    project: Project, blocks: Sequence[Block], contents: Mapping[str, Content]
) -> Iterator[tuple[Block, Compiled]]:
    """Yield each block as it is packed."""
    if not blocks:
        return
    tasks = (
        executor.Task(
            number, "xz", b"".join(_bytes(contents[piece.sha256]) for piece in block.pieces), b"", ()
        )
        for number, block in enumerate(blocks)
    )
    workers = min(cores.of(project.config), len(blocks))
    setup = executor.Setup((), {}, workers, project.config.timeout_s)
    answers = executor.run(lambda _held, _others: next(tasks, None), setup)
    with contextlib.closing(answers):
        for answer in answers:
            block = blocks[answer.id]
            if not answer.ok:
                what = (
                    f"the block {block.name} cannot be packed: {answer.log.removeprefix('fatal: ').rstrip()}"
                )
                raise BundleError(Problem(what, project.config.place.of("pack"), _LIGHTER))
            yield block, Compiled(answer.output, {})


def _bytes(content: Content) -> bytes:
    return Path(content).read_bytes() if isinstance(content, str) else b"".join(content)
