"""About what the compiler takes only where an option switches it on."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Told
from .setting import Setting

_TYPES = re.compile(r'only supported in Linux with the "--(device-(?:int|float)128)" flag')


def types_of_128_bits(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of the types that an option allows, in place of all that follows from their absence."""
    named = {each: match[1] for each in found if (match := _TYPES.search(each.text))}
    if not named:
        return None
    pasted = setting.pasted("options", dict.fromkeys(named.values(), True))
    first = replace(next(iter(named)), hint=f"an option allows it:{pasted}")
    others = [each for each in found if each not in named]
    return first.followed_by(len(named) - 1), others
