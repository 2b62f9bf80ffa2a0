"""Find kernels that every compile of a source contains, as far as the text of the source alone proves this.

A header, a condition or a macro may change the meaning of every line, so for most sources the result is
empty.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from .declared_kernels import declared_names
from .source import Source, ptx_entries

_FORWARD_DECLARATION = re.compile(r"\.extern\s+\.entry\b")


def required_kernels(source: Source, macros: Mapping[str, str]) -> Collection[str]:
    """Return the symbols of kernels that every compile of a source with these *macros* contains."""
    if source.is_ptx:
        return () if _FORWARD_DECLARATION.search(source.text) else ptx_entries(source.text)
    return declared_names(source.text, macros) if source.is_cpp else ()
