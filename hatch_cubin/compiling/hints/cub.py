"""Hints about <cub/cub.cuh>, all of CUB at once, which no release of NVRTC compiles: the parts to include."""

from __future__ import annotations

import re

from ...project.source import without_comments
from .failed_compile import FailedCompile

WHOLE = "cub/cub.cuh"

_PARTS = re.compile(
    r"\bcub\s*::\s*(?:Block(?:AdjacentDifference|Discontinuity|Exchange|Histogram|Load|MergeSort|RadixRank"
    r"|RadixSort|Reduce|RunLengthDecode|Scan|Shuffle|Store)|Warp(?:Exchange|Load|MergeSort|Reduce|Scan|Store))\b"
)


def about_whole(failed: FailedCompile) -> str:
    """Return a hint at the headers for the parts of CUB that the source uses."""
    texts = (without_comments(failed.text_of(path)) for path in (failed.path, *failed.headers))
    used = sorted({re.split(r"\s*::\s*", name)[1] for text in texts for name in _PARTS.findall(text)})
    if not used:
        return "include the parts for device code, as in <cub/block/block_reduce.cuh>"
    return f"include what the source uses of it: {', '.join(map(_header, used))}"


def header_of(name: str) -> str | None:
    """Return the header of a part of CUB for device code."""
    return _header(name).strip("<>") if _PARTS.fullmatch(f"cub::{name}") else None


def _header(name: str) -> str:
    words = [word.lower() for word in re.findall(r"[A-Z][a-z]+", name)]
    return f"<cub/{words[0]}/{'_'.join(words)}.cuh>"
