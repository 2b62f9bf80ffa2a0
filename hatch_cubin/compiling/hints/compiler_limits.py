"""About limits of the compiler: what an option switches on, and what shared memory cannot be."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ..diagnostics import Diagnostic, Told
from .failed_compile import Setting

_TYPES = re.compile(r'only supported in Linux with the "--(device-(?:int|float)128)" flag')
_TOO_MUCH = re.compile(r"uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)")
_PARAMETERS = re.compile(r"Formal parameter space overflowed")
_INCOMPATIBLE = re.compile(r'declaration is incompatible with previous "(\w+)"')


def memory(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Report parameters or shared memory that are too large, or shared memory with two types."""
    for each in found:
        hint = _about_memory(each, setting) if each.hint is None else None
        if hint is not None:
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _about_memory(error: Diagnostic, setting: Setting) -> str | None:
    if match := _TOO_MUCH.search(error.text):
        size, most = (int(text, 16) for text in match.groups())
        return (
            f"__shared__ arrays of fixed size have {most} bytes at most, these have {size}: "
            "extern __shared__ gets more where it is launched"
        )
    if _PARAMETERS.search(error.text):
        return (
            "pass a pointer to device memory that has the large parameter, or make it a __constant__ variable"
        )
    match = _INCOMPATIBLE.search(error.text)
    texts = map(setting.text_of, (setting.path, *setting.headers))
    if match and any(re.search(rf"\bextern\s+__shared__[^;]*\b{match[1]}\s*\[", text) for text in texts):
        name = match[1]
        return (
            f"all instantiations share one extern __shared__ {name}, which has one type: "
            f"extern __shared__ unsigned char {name}_bytes[]; T* {name} = reinterpret_cast<T*>({name}_bytes);"
        )
    return None


def types_of_128_bits(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of the types that an option allows, in place of all that follows from their absence."""
    named = {each: match[1] for each in found if (match := _TYPES.search(each.text))}
    if not named:
        return None
    pasted = setting.pasted("options", dict.fromkeys(named.values(), True))
    first = replace(next(iter(named)), hint=f"an option allows it:{pasted}")
    others = [each for each in found if each not in named]
    return first.followed_by(len(named) - 1), others
