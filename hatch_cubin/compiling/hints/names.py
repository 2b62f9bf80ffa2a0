"""About names that nothing defines: the header that has each, or the macro that the source waits for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...table.checks import guess
from ...table.reserved import NAMES as RESERVED
from ..diagnostics import Diagnostic, Told
from .setting import Setting

_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NOT_OF_STD = re.compile(r'namespace "std" has no (?:tag )?member(?: class)? "(\w+)"')
_NO_NAMESPACE = re.compile(r'name (?:followed by "::" must be a class or|must be a) namespace name')
_SHORTEST = 5  # of names that are guessed
_WORD = re.compile(r"\w+")
_MACRO = re.compile(r"(?:__)?[A-Z][A-Z0-9_]*")
_INTEGERS = r"u?int(_least|_fast)?(8|16|32|64)_t|u?int(ptr|max)_t"

# What nvcc includes by itself, what it does not, and what is meant where std lacks it: header, names, all
# of which the header has here with CUDA 12.9, 13.0 and 13.5.
_BY_NVCC = {
    "cstdint": rf"{_INTEGERS}|U?INT(_LEAST|_FAST)?\d+_(MAX|MIN)|(U?INT(PTR|MAX)|PTRDIFF|SIZE)_(MAX|MIN)",
    "cmath": r"INFINITY|NAN|HUGE_VALF?|M_(E|LN2|LN10|LOG2E|LOG10E|[12]?_?PI(_[24])?|2_SQRTPI|SQRT2|SQRT1_2)",
    "climits": r"CHAR_BIT|(S?CHAR|SHRT|INT|LONG|LLONG)_(MAX|MIN)|U(CHAR|SHRT|INT|LONG|LLONG)_MAX",
    "ctime": r"time_t",
    "sys/types.h": r"ushort|uint|ulong",
}
_ELSEWHERE = {
    "cfloat": r"(FLT|DBL)_(RADIX|DIG|EPSILON|(TRUE_)?MIN|MAX|MANT_DIG|M(IN|AX)_(10_)?EXP)",
    "cuda_fp16.h": r"(__)?half2?(_raw)?|__\w*2half2?(_\w+)?|__(half|low|high)2\w+|__h(add|mul|fma)2?",
    "cuda_bf16.h": r"(__)?nv_bfloat162?|__\w*2bfloat162?(_\w+)?|__bfloat162\w+",
    "cuda_fp8.h": r"__nv_fp8\w*",
    "cuda_fp6.h": r"__nv_fp6\w*",
    "cuda_fp4.h": r"__nv_fp4\w*",
    "cuda_pipeline.h": r"__pipeline_\w+",
    "cuda.h": r"CUtensorMap|CUdeviceptr|CUtexObject|CUsurfObject",
    "cuComplex.h": r"(make_)?cu(Float|Double)?Complex|cuC\w+",
    "curand_kernel.h": r"curand(_\w+|State\w*)",
    "math_constants.h": r"CUDART_\w+",
}
_OF_STD = {
    "cstdint": _INTEGERS,
    "cstddef": r"size_t|ptrdiff_t|nullptr_t|byte",
    "limits": r"numeric_limits",
    "utility": r"(make_)?pair|swap|exchange|declval|(make_)?(index|integer)_sequence",
    "tuple": r"(make_)?tuple|tie|apply|tuple_(size|element)\w*",
    "type_traits": r"(is|remove|add|make)_\w+|(enable_if|conditional|decay|common_type|underlying_type)(_t)?"
    r"|invoke_result(_t)?|integral_constant|(true|false)_type|void_t",
    "array": r"array",
    "optional": r"optional|nullopt",
    "complex": r"complex",
    "functional": r"plus|minus|multiplies|divides|less|greater|equal_to",
    "numeric": r"accumulate|iota|inner_product|gcd|lcm",
    "algorithm": r"min|max|clamp|minmax|(min|max)_element|fill|copy|(lower|upper)_bound",
    "cstring": r"mem(cpy|set)",
    "cmath": r"(a?(sin|cos|tan)h?|sqrt|cbrt|exp[2m]?1?|log(2|10|1p|b)?|pow|abs|f(abs|loor|max|min|mod|ma|dim)"
    r"|hypot|ceil|l{0,2}r(ound|int)|nearbyint|round|rint|trunc|erfc?|[lt]gamma|copysign|is(nan|inf|finite)|signbit)f?",
}
_OF_CUDA = (
    *("threadIdx", "blockIdx", "blockDim", "gridDim", "warpSize"),
    *("__syncthreads", "__syncwarp", "__activemask", "__threadfence", "__threadfence_block", "__ldg"),
    *("__shfl_sync", "__shfl_up_sync", "__shfl_down_sync", "__shfl_xor_sync", "__ballot_sync"),
    *(
        "__popc",
        "__ffs",
        "__clz",
        "atomicAdd",
        "atomicSub",
        "atomicMax",
        "atomicMin",
        "atomicCAS",
        "atomicExch",
    ),
)
_OF_CXX20 = frozenset({"concept", "requires", "consteval", "constinit"})
_NAMESPACES = {"cooperative_groups": "cooperative_groups.h", "nvcuda": "mma.h"}


def undefined(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of names that headers have which nothing includes.

    A type that is missing leads to errors anywhere, a value to errors in its line.
    """
    headers = {each: header for each in found if (header := _header_of(each)) is not None}
    if not headers:
        return None
    first = replace(next(iter(headers)), hint=_about_headers([*dict.fromkeys(headers.values())], setting))
    is_value = all(_MACRO.fullmatch(_name_in(each)) for each in headers)
    lines = {each.where for each in headers}
    others = [each for each in found if each.where not in lines] if is_value else []
    return first.followed_by(len(found) - len(others) - 1), others


def not_given(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of names that are written as macros are, and that nothing defines."""
    macros = {each: name for each in found if (name := _macro_in(each)) is not None}
    if not macros:
        return None
    pasted = setting.pasted("define", dict.fromkeys(macros.values(), "…"))
    first = replace(next(iter(macros)), hint=f"if the build has to give it, with its value:{pasted}")
    lines = {each.where for each in macros}
    others = [each for each in found if each.where not in lines]
    return first.followed_by(len(found) - len(others) - 1), others


def misspelled(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of a name that resembles one of CUDA's own, or that is a word of a later C++."""
    for each in found:
        name = _name_in(each) if each.is_own and each.hint is None else ""
        hint = guess(name, _OF_CUDA) if len(name) >= _SHORTEST else None
        if name in _OF_CXX20:
            hint = f"C++20 has it:{setting.pasted('options', {'std': 'c++20'})}"
        if hint is not None:
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _about_headers(headers: Sequence[str], setting: Setting) -> str:
    named = ", ".join(f"<{header}>" for header in headers)
    wanted = dict.fromkeys((*setting.module.pre_includes, *headers))
    pasted = setting.pasted("options", {"pre-include": [*wanted]})
    if all(header in _BY_NVCC for header in headers):
        return f"nvcc includes {named} by itself, NVRTC does not:{pasted}"
    return f"{named} {'has it' if len(headers) == 1 else 'have them'}:{pasted}"


def _header_of(error: Diagnostic) -> str | None:
    """Return the header that has the name which an error is about."""
    name = _name_in(error)
    if _NO_NAMESPACE.search(error.text):
        return _NAMESPACES.get(name)
    tables = (_OF_STD,) if _NOT_OF_STD.search(error.text) else (_BY_NVCC, _ELSEWHERE)
    for header, names in (item for table in tables for item in table.items()):
        if name and re.fullmatch(names, name):
            return header
    return None


def _name_in(error: Diagnostic) -> str:
    """Return the name that an error is about; where its text has none, the one that it points at."""
    if match := _UNDEFINED.search(error.text) or _NOT_OF_STD.search(error.text):
        return match[1]
    if _NO_NAMESPACE.search(error.text) and (match := _WORD.match(*_pointed_at(error))):
        return match[0]
    return ""


def _macro_in(error: Diagnostic) -> str | None:
    match = _UNDEFINED.search(error.text)
    if match is None or not _MACRO.fullmatch(match[1]) or match[1] in RESERVED or not error.is_own:
        return None
    code, at = _pointed_at(error)
    has_parameters = code[at + len(match[1]) :].lstrip().startswith("(")
    return None if has_parameters else match[1]


def _pointed_at(error: Diagnostic) -> tuple[str, int]:
    """Return the line of code that an error shows, and where in it the caret stands."""
    for code, mark in zip(error.context, error.context[1:], strict=False):
        if mark.strip() == "^":
            return code, mark.index("^")
    return "", 0
