"""Kernel names: what a symbol was called in the source, as far as a reader would call it. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_LENGTH = re.compile(r"L?([0-9]{1,4})")
_ANONYMOUS = re.compile(r"_GLOBAL__N_|_INTERNAL_|_NV_ANON_NAMESPACE|<unnamed>")


def plain_name(symbol: str) -> str:
    """Return `ns::fill` for `_ZN2ns4fillEPf`; the symbol itself for templates and what is not mangled."""
    if not symbol.startswith("_Z"):
        return symbol
    rest = symbol[2:]
    nested = rest.startswith("N")
    rest = rest[1:] if nested else rest
    parts = []
    while match := _LENGTH.match(rest):
        end = match.end() + int(match[1])
        if end > len(rest):
            return symbol
        parts.append(rest[match.end() : end])
        rest = rest[end:]
        if not nested:
            break
    complete = all(parts) and not rest.startswith("I") and (not nested or rest.startswith("E"))
    name = "::".join(part for part in parts if not _ANONYMOUS.match(part))
    return name if complete and name else symbol


def spelled_names(symbols: Iterable[str], instantiated: Mapping[str, str]) -> dict[str, str]:
    """Return spelled name → symbol for every kernel; an overloaded name keeps its symbols apart."""
    known = set(instantiated.values())
    names = dict(instantiated)
    others = [symbol for symbol in symbols if symbol not in known]
    counts = Counter(map(plain_name, others))
    for symbol in others:
        name = plain_name(symbol)
        names[name if counts[name] == 1 and name not in names else symbol] = symbol
    return dict(sorted(names.items()))
