"""Map errors in generated PTX to the source lines with the inline assembly.

ptxas reports errors in inline assembly at lines of the generated PTX, which the user cannot see.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

_REFUSED = re.compile(
    r"^ptxas (?:application ptx input, line (?P<line>\d+); )?(?:error|fatal)\s*: "
    r"(?P<text>.*?)(?: on line (?P<named>\d+))?$",
    re.MULTILINE,
)
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(.*?)"', re.MULTILINE)
_LOCATION = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s")
# Matches a register. The compiler numbers registers differently for each arch.
_REGISTER = re.compile(r"%[a-z]+\d+\b")


class _Place(NamedTuple):
    path: str
    line: str
    instruction: str


def with_source_lines(log: str, ptx: str, source: str) -> str:
    """If *ptx* has line information, replace the PTX line numbers in a log by line numbers of the source.

    *source* is the path under which the compiler has opened the source. *ptx* names the source by the path
    *source*, but with an additional `/` at its beginning.
    """
    places = _places(ptx, source)

    def said(match: re.Match[str]) -> str:
        place = places.get(int(match["line"] or match["named"] or 0))
        if place is None:
            return match[0]
        return f"{place.path}({place.line}): error: {match['text']}\n    {place.instruction}"

    return _REFUSED.sub(said, log)


def _places(ptx: str, source: str) -> Mapping[int, _Place]:
    """Return a mapping from line numbers of a PTX text to lines of the source."""
    files = {number: source if path == f"/{source}" else path for number, path in _FILE.findall(ptx)}
    places: dict[int, _Place] = {}
    path = line = ""
    last: _Place | None = None
    for number, text in enumerate(ptx.split("\n"), start=1):
        if match := _LOCATION.match(text):
            path, line = files.get(match[1], ""), match[2]
            place = last  # If an instruction has no semicolon, ptxas reports the line after the instruction.
        else:
            path = "" if text.startswith("}") else path
            instruction = _REGISTER.sub("%…", text.strip())
            place = _Place(path, line, instruction) if path and line != "0" else None
            last = last if instruction.startswith("//") else place
        if place is not None:
            places[number] = place
    return places
