"""Read the directives of a PTX text, and the parameters and launch limits of its kernels."""

from __future__ import annotations

import re
from typing import NamedTuple

_ENTRY_PARAMETERS = re.compile(r"\.entry\s+([\w$%.]+)\s*(\([^()]*\)|\(?)")
# The pattern does not accept numbers that begin with 0, because these numbers are octal. The pattern does not
# accept alignments above 16, because ptxas ignores such alignments.
_PARAMETER = re.compile(
    r"\.param\s+(?:\.align\s+(1|2|4|8|16)\s+)?\.(?:[busf]|bf)([0-9]{1,3})(x2)?\s+"
    r"(?:\.ptr\s+(?:\.(?:global|const|shared|local)\s+)?(?:\.align\s+[0-9]{1,4}\s+)?)?"
    r"[\w$%]+\s*(?:\[\s*([1-9][0-9]{0,5})\s*\])?"
)

_COMMENT_OR_STRING = re.compile(r'/(?:/[^\n]*|\*.*?\*/)|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_VERSION = re.compile(r"\.version\s+([0-9]{1,4})\.([0-9]{1,4})\b")
_BEFORE_VERSION = re.compile(r"(?:\s|//[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*")  # blanks and comments
_TARGET = re.compile(r"(?<![\w.$%])\.target\s+(\w+(?:\s*,\s*\w+)*)")
_ARCH = re.compile(r"sm_([0-9]{2,4})([af]?)")
_ENTRY_HEADER = re.compile(r"\.entry\s+([\w$%.]+)([^{;]*)")
_LIMIT = re.compile(r"\.(\w+)\s+([0-9]{1,9}(?:\s*,\s*[0-9]{1,9})*)")
_LIMIT_NAMES = {
    "maxntid": "max_threads",
    "reqntid": "required_threads",
    "maxnreg": "max_registers",
    "minnctapersm": "min_blocks",
    "reqnctapercluster": "cluster",
    "maxclusterrank": "max_cluster",
}


class Directives(NamedTuple):
    """The archs in the `.target` directives of PTX, and whether the PTX was compiled for a debugger (-G)."""

    targets: tuple[tuple[int, str], ...]  # The number and the suffix of each arch, such as (90, "a").
    debug: bool


def ptx_version(text: str) -> tuple[int, int] | None:
    """Return the PTX version in the `.version` directive of a text; None if the directive is missing."""
    start = _BEFORE_VERSION.match(text)
    found = _VERSION.match(text, start.end() if start else 0) or _VERSION.search(
        _COMMENT_OR_STRING.sub(" ", text)
    )
    return (int(found[1]), int(found[2])) if found else None


def read_directives(text: str) -> Directives:
    """Return the facts in the `.target` directives of a PTX text; comments and strings are ignored."""
    code = _COMMENT_OR_STRING.sub(" ", text)
    words = [word.strip() for listed in _TARGET.findall(code) for word in listed.split(",")]
    archs = [match for word in words if (match := _ARCH.fullmatch(word))]
    return Directives(
        tuple((int(number), suffix) for number, suffix in (match.groups() for match in archs)),
        "debug" in words,
    )


def ptx_limits(text: str) -> dict[str, dict[str, tuple[int, ...]]]:
    """Return the launch limits that each kernel of a PTX text declares, such as the number of threads."""
    found: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, between in _ENTRY_HEADER.findall(_COMMENT_OR_STRING.sub(" ", text)):
        found[name] = {
            _LIMIT_NAMES[what]: tuple(int(each) for each in value.split(","))
            for what, value in _LIMIT.findall(between)
            if what in _LIMIT_NAMES
        }
    return found


def ptx_parameters(text: str) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the offset and size of each parameter, for each kernel of a PTX text.

    The result leaves out kernels with parameters of unknown kinds, and kernels that are declared differently
    in two places.
    """
    found: dict[str, set[tuple[tuple[int, int], ...] | None]] = {}
    for name, listed in _ENTRY_PARAMETERS.findall(_COMMENT_OR_STRING.sub(" ", text)):
        found.setdefault(name, set()).add(_parameter_layout(listed))
    alone = ((name, parameters) for name, (parameters, *others) in found.items() if not others)
    return {name: parameters for name, parameters in alone if parameters is not None}


def _parameter_layout(listed: str) -> tuple[tuple[int, int], ...] | None:
    """Return the offset and size of each parameter in a list of parameters; None if a type is unknown."""
    if listed == "(":
        return None
    parameters, end = [], 0
    inner = listed[1:-1].strip()
    for each in inner.split(",") if inner else ():
        match = _PARAMETER.fullmatch(each.strip())
        if match is None:
            return None
        aligned, bits, two, count = match.groups()
        one = int(bits) // 8 * (2 if two else 1)
        if not one:
            return None
        alignment = max(int(aligned or 1), one)
        offset = -(-end // alignment) * alignment
        parameters.append((offset, one * int(count or 1)))
        end = sum(parameters[-1])
    return tuple(parameters)
