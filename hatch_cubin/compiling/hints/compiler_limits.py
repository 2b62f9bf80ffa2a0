"""Hints about limits of the compiler: features that need an option, and the largest sizes of memory."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile

_TYPES = re.compile(r'only supported in Linux with the "--(device-(?:int|float)128)" flag')
_TOO_MUCH = re.compile(r"uses too much shared data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)")
_TOO_MUCH_CONSTANT = re.compile(
    r"uses too much global constant data \(0x([0-9a-f]+) bytes, 0x([0-9a-f]+) max\)"
)
_SIZED = re.compile(r"\bextern\s+__shared__[^;\[]*?(\w+)\s*\[\s*[^\]\s]")
_BY_LAUNCH = "and give the bytes of all such arrays where the kernel is launched"
_MOST_OF_A_BLOCK = 227 * 1024  # on sm_90, sm_100 and sm_103; all other archs have less
_PARAMETERS = re.compile(r"Formal parameter space overflowed")
_INCOMPATIBLE = re.compile(r'declaration is incompatible with previous "(\w+)"')


def memory(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report parameters or shared memory that are too large, or shared memory with two types."""
    for each in found:
        hint = _about_memory(each, failed) if each.hint is None else None
        if hint is not None:
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _about_memory(error: Diagnostic, failed: FailedCompile) -> str | None:
    if match := _TOO_MUCH.search(error.text):
        return _about_shared(int(match[1], 16), int(match[2], 16), failed)
    if match := _TOO_MUCH_CONSTANT.search(error.text):
        size, most = (int(text, 16) for text in match.groups())
        return (
            f"all __constant__ variables of a source have {most} bytes at most, these have {size}: "
            "write __device__ in place of __constant__ for the largest"
        )
    if _PARAMETERS.search(error.text):
        return (
            "pass a pointer to device memory that has the large parameter, or make it a __constant__ variable"
        )
    match = _INCOMPATIBLE.search(error.text)
    texts = map(failed.text_of, (failed.path, *failed.headers))
    if match and any(re.search(rf"\bextern\s+__shared__[^;]*\b{match[1]}\s*\[", text) for text in texts):
        name = match[1]
        return (
            f"all instantiations share one extern __shared__ {name}, which has one type: "
            f"extern __shared__ unsigned char {name}_bytes[]; T* {name} = reinterpret_cast<T*>({name}_bytes);"
        )
    return None


def _about_shared(size: int, most: int, failed: FailedCompile) -> str:
    """Return a hint for too much static shared memory: memory that a launch sizes can be larger."""
    told = f"__shared__ arrays of fixed size have {most} bytes at most, these have {size}"
    if size > _MOST_OF_A_BLOCK:
        return f"{told}; and no block of any GPU has more than {_MOST_OF_A_BLOCK}, however it gets them"
    texts = map(failed.text_of, (failed.path, *failed.headers))
    sized = next(filter(None, (_SIZED.search(without_comments(text)) for text in texts)), None)
    if sized is not None:
        return f"{told}: write {sized[1]}[] without a size, {_BY_LAUNCH}"
    return f"{told}: make the largest an extern __shared__ array without a size, {_BY_LAUNCH}"


def types_of_128_bits(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report the types that need an option, instead of all errors that follow from their absence."""
    named = {each: match[1] for each in found if (match := _TYPES.search(each.text))}
    if not named:
        return None
    pasted = failed.pasted("options", dict.fromkeys(named.values(), True))
    first = replace(next(iter(named)), hint=f"an option allows it:{pasted}")
    others = [each for each in found if each not in named]
    return first.followed_by(len(named) - 1), others
