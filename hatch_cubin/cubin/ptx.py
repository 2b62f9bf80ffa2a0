"""Read which parameters the kernels of a PTX text have. Pure."""

from __future__ import annotations

import re

_ENTRY = re.compile(r"\.entry\s+([\w$%.]+)\s*(\([^()]*\))?")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+([0-9]{1,4})\s+)?\.(?:[busf]|bf)([0-9]{1,3})(x2)?\s+"
    r"(?:\.ptr\s+(?:\.(?:global|const|shared|local)\s+)?(?:\.align\s+[0-9]{1,4}\s+)?)?"
    r"[\w$%]+\s*(?:\[\s*([0-9]{1,6})\s*\])?"
)


def ptx_parameters(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the offset and size of each parameter of a text's kernels, but for kernels that have others."""
    found = {}
    for name, listed in _ENTRY.findall(text):
        parameters = _parameters(_COMMENT.sub(" ", listed[1:-1]).strip())
        if parameters is not None:
            found[name] = parameters
    return found


def _parameters(listed: str) -> tuple[tuple[int, int], ...] | None:
    parameters, end = [], 0
    for each in listed.split(",") if listed else ():
        match = _PARAMETER.fullmatch(each.strip())
        if match is None:
            return None
        aligned, bits, two, count = match.groups()
        one = int(bits) // 8 * (2 if two else 1)
        alignment = int(aligned or one)
        if not one or not alignment:
            return None
        offset = -(-end // alignment) * alignment
        parameters.append((offset, one * int(count or 1)))
        end = sum(parameters[-1])
    return tuple(parameters)
