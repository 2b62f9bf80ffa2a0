"""Hints about tile kernels: NVRTC leaves them out without an option that hatch-cubin never sets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from ...errors import Location
from ..diagnostics import Diagnostic, Explanation, failure
from .conditions import surely_read
from .failed_compile import FailedCompile

_TILE = re.compile(r"\b__tile(?:_global)?__(?!\w)")


def place_in(texts: Mapping[str, str]) -> Location | None:
    """Return the location of tile code that the compiler surely reads in *texts*, a mapping by path."""
    for path, text in texts.items():
        if "__tile" in text:
            for line, number in surely_read(text, frozenset()):
                if _TILE.search(line):
                    return Location(path, number)
    return None


def tile_code_error(where: Location, failed: FailedCompile) -> Diagnostic:
    """Return an error that tile code is not supported."""
    text = failed.text_of(failed.path)
    if where.path != failed.path:
        hint = f"{failed.path} has to do without what includes it"
    elif "__global__" in text:
        hint = "move it into a file of its own, and leave that out with 'exclude'"
    else:
        hint = f"leave the file out: {failed.line('exclude', [failed.path])}"
    line = text.splitlines()[(where.line or 1) - 1 :][:1] if where.path == failed.path else []
    shown = tuple(f"    {each}" for each in line)
    what = "tile kernels (__tile_global__) are not supported yet"
    return failure("tile-kernels-not-supported", what, where, hint, shown)


def unsupported(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report tile code, instead of the compiler's errors in it or in the headers that it needs."""
    where = place_in({path: failed.text_of(path) for path in (failed.path, *failed.headers)})
    return None if where is None or not found else (tile_code_error(where, failed), [])
