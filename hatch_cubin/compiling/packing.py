"""Compress the code of a bundle: a block is a compressed file with the code of several modules for one arch.

Worker processes compress the blocks. Blocks are also stored in the cache.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..bundle.packs import Block, PackedBlocks, Piece, assemble_blocks, block_holds, plan_blocks
from ..cache.entries import Cache, Compiled, Content
from ..cache.records import BLOCK, RecalledResult, describe
from ..common.digest import digest
from ..common.sizes import count, size
from ..errors import BundleError, ToolchainError, problem
from ..keys.jobs import Job
from ..keys.recall import Recall, Units
from ..planning.unit_plan import Unit
from ..project.project import Project
from ..toolkit.toolkit import Keys
from . import cores, executor

# The key of the recorded facts about a block. (The recorded facts about a module have an arch as key.)
_XZ = "xz"
# The cache describes a block like a unit without kernels.
_PLAIN = describe({}, (), "{}")
_LIGHTER = "use HATCH_CUBIN_JOBS=1 to pack one block at a time with less memory, or build without 'pack'"


def require_packer(project: Project) -> None:
    """Raise ToolchainError if this Python does not have the module lzma, which compresses blocks."""
    try:
        import lzma  # noqa: F401 - imported only to find out whether this Python has lzma
    except ImportError as exc:
        what, fix = (
            "'pack' needs lzma, which this Python does not have",
            "build with a Python that has liblzma",
        )
        raise ToolchainError(
            problem("lzma-not-available", what, project.config.place.of("pack"), fix)
        ) from exc


def pack(
    project: Project, jobs: Sequence[Job], done: Mapping[Unit, Compiled], cache: Cache, recall: Recall
) -> PackedBlocks:
    """Compress the results of all *jobs* into blocks, and return the blocks.

    A block that is missing in the cache is compressed, and stored in the cache.

    The cache does not record from which results a block was made, so a block from the cache is used only if
    it unpacks to exactly the results in *done*.
    """
    blocks = plan_blocks(
        Piece(unit.module.base, unit.module.name, str(unit.arch), done[unit].sha256, done[unit].size)
        for unit in (job.unit for job in jobs)
    )
    there = [(block, hit) for block in blocks if (hit := _cached(block, cache, recall)) is not None]
    found = {
        block.key: hit for block, hit in there if hit.recalled or block_holds(block, _bytes(hit.content))
    }
    if wrong := len(there) - len(found):
        project.warn(f"wrong blocks in the cache, which are packed again: {wrong}")
    misses = [block for block in blocks if block.key not in found]
    contents = {done[job.unit].sha256: done[job.unit].content for job in jobs}
    for block, packed in _packed(project, misses, contents):
        cache.put(block.key, packed, {BLOCK: [piece.sha256 for piece in block.pieces]})
        again = cache.get(block.key, _known(packed, ""))
        # The block is read from the cache when its bytes are needed. The bytes of the block need not stay in
        # memory.
        found[block.key] = again or packed
    before, after = sum(block.size for block in blocks), sum(found[block.key].size for block in blocks)
    counts = f"{len(blocks) - len(misses)} cached, {len(misses)} packed"
    project.inform(f"{count(len(blocks), 'block')}: {counts}, {size(before)} in {size(after)}")
    return assemble_blocks(blocks, found)


def recalled(packed: PackedBlocks, cache: Cache) -> dict[str, Units]:
    """Return the blocks that this build has verified, so that the next build need not verify them again."""
    return {
        _recall_name(key): {
            _XZ: (Keys(key, None), RecalledResult(block.sha256, block.size, cache.record_stamp(key), _PLAIN))
        }
        for key, block in packed.results.items()
        if not block.recalled
    }


def _cached(block: Block, cache: Cache, recall: Recall) -> Compiled | None:
    """Return a block from the cache; None on a cache miss.

    If an earlier build has verified the block, the cached block must have the digest that the earlier build
    recorded.
    """
    recalled = recall.units(_recall_name(block.key)).get(_XZ)
    return cache.get(block.key, recalled[1] if recalled else None)


def _recall_name(key: bytes) -> str:
    return digest(["block", key])


def _known(packed: Compiled, record: str) -> RecalledResult:
    """Return the digest and size that a block from the cache must have."""
    return RecalledResult(packed.sha256, packed.size, record, _PLAIN)


def _packed(
    project: Project, blocks: Sequence[Block], contents: Mapping[str, Content]
) -> Iterator[tuple[Block, Compiled]]:
    """Compress blocks in worker processes, and yield each block when it is done."""
    if not blocks:
        return
    tasks = (
        executor.Task(
            number, "xz", b"".join(_bytes(contents[piece.sha256]) for piece in block.pieces), b"", ()
        )
        for number, block in enumerate(blocks)
    )
    workers = min(cores.worker_count(project.config), len(blocks))
    setup = executor.Setup((), {}, workers, project.config.timeout_s)
    answers = executor.run(lambda _held, _others: next(tasks, None), setup)
    with contextlib.closing(answers):
        for answer in answers:
            block = blocks[answer.id]
            if not answer.ok:
                what = (
                    f"the block {block.name} cannot be packed: {answer.log.removeprefix('fatal: ').rstrip()}"
                )
                raise BundleError(
                    problem("block-not-packed", what, project.config.place.of("pack"), _LIGHTER)
                )
            yield block, Compiled(answer.output, {})


def _bytes(content: Content) -> bytes:
    return Path(content).read_bytes() if isinstance(content, str) else b"".join(content)
