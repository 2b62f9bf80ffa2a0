"""Texts that would be commands for a CI service or a terminal, and a search for such commands."""

from __future__ import annotations

import re
import unicodedata

COMMANDS = [
    "::stop-commands::token",
    "  ::add-mask::a",
    "a\n::error::b",
    "a\r::error::b",
    "a\r\n\t ::error::b",
    "a\x0b::error::b",
    "a\x85::warning::b",
    "a\u2028##[error]b",
    "\u3000::group::a",
    "\xa0::group::a",
    ":\u200b:debug::a",
    ":\u034f:debug::a",
    "\ufe0f::notice::a",
    "##[group]a",
    "a ##[add-path]/tmp",
    "a#\u034f#[debug]b",
    "a ##vso[task.setvariable variable=A]b",
    "##teamcity[buildStop comment='a']",
    "::cuda::std::foo()",
]
TERMINAL = [
    "\x1b[2J",
    "\x9b2J",
    "\u202egnp.exe",
    "\u2066a",
    "\ud800",
    "\0",
    "\x7f",
    "a\nhatch-cubin: error: b",
]
TEXTS = COMMANDS + TERMINAL

_FILLERS = "\u115f\u1160\u3164\uffa0"


def commands(output: str) -> list[str]:
    """Return the lines of an output that a service could take for commands.

    GitHub's runner trims a line before it looks for `::` at its beginning, and looks for `##[` anywhere. It
    compares as the language does, which is blind to characters without a glyph.
    """
    found = []
    for line in re.split(r"\r\n|\r|\n", output):
        seen = "".join(
            c for c in line if unicodedata.category(c) not in {"Cf", "Cc", "Mn"} and c not in _FILLERS
        )
        if seen.strip().startswith("::") or re.search(r"##[A-Za-z]*\[", seen):
            found.append(line)
    return found


def steering(output: str) -> str:
    """Return the characters of an output that could steer a terminal."""
    return "".join(char for char in output if not char.isprintable() and char not in "\n\t")
