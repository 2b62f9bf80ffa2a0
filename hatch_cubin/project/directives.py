"""Patterns of preprocessor directives, for warnings and hints. Pure.

The regular expressions in this file may miss an include, so scan.py, which searches for headers, does not use
them.
"""

from __future__ import annotations

import re

INCLUDE = re.compile(r"""^[ \t]*#[ \t]*include[ \t]*(["<])([^">\n]+)[">]""", re.MULTILINE)
DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)", re.MULTILINE)
CONDITION = re.compile(r"^[ \t]*#[ \t]*(?:el)?if(?:n?def)?\b(.*)", re.MULTILINE)


def included_names(text: str) -> list[str]:
    """Return the name in each `#include "name"` and `#include <name>`."""
    return [match[2] for match in INCLUDE.finditer(text)]


def has_quoted_include(text: str) -> bool:
    """Return whether the text has an `#include "…"`, which can include a file from the folder of the text."""
    return any(match[1] == '"' for match in INCLUDE.finditer(text))
