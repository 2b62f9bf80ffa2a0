"""Read from a source's text which kernels every compile of it has, as far as that needs no compiler. Pure.

Only a text that cannot mean anything else says that: a header, a condition or a macro may change every line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from .declared_kernels import declared_names
from .source import Source, ptx_entries

_FORWARD_DECLARATION = re.compile(r"\.extern\s+\.entry\b")


def required_kernels(source: Source, macros: Mapping[str, str]) -> Collection[str]:
    """Return the symbols of kernels that a source has whatever it is compiled for, with these *macros*."""
    if source.is_ptx:
        return () if _FORWARD_DECLARATION.search(source.text) else ptx_entries(source.text)
    return declared_names(source.text, macros)
