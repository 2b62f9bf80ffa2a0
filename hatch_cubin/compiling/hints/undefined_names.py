"""Hints about undefined names: the header that has each name, or the macro that the source needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ...config.reserved_macros import NAMES as RESERVED
from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from . import cub, similar_names
from .failed_compile import FailedCompile
from .host_code import APART

_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_DEFINED = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", re.MULTILINE)
_NO_NAMESPACE = re.compile(r'name (?:followed by "::" must be a class or|must be a) namespace name')
_WORD = re.compile(r"\w+")
_MACRO = re.compile(r"(?:__)?[A-Z][A-Z0-9_]*")
_INTEGERS = r"u?int(_least|_fast)?(8|16|32|64)_t|u?int(ptr|max)_t"

# Headers that nvcc includes on its own, other headers, and headers for members that are missing from
# std, each with a pattern of names. Each header has all of its names with CUDA 12.9, 13.0 and 13.5.
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
# Names that device code has without an include, which a test compiles, and keywords.
_OF_MATH = str.split(
    """
    acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh cospi erf erfc erfinv exp exp10
    exp2 expm1 fabs fdim floor fma fmax fmin fmod hypot ldexp lgamma log log10 log1p log2 nearbyint pow
    rcbrt remainder rhypot rint round rsqrt sin sincos sincospi sinh sinpi sqrt tan tanh tgamma trunc
    """
)
_OF_CUDA = (
    *_OF_MATH,
    *(f"{name}f" for name in _OF_MATH),
    *(f"atomic{name}" for name in str.split("Add Sub Max Min CAS Exch And Or Xor Inc Dec")),
    *(f"{name}{count}" for name in str.split("float double int uint") for count in (2, 3, 4)),
    *(f"make_{name}{count}" for name in str.split("float double int uint char uchar") for count in (2, 3, 4)),
    *str.split(
        """
        threadIdx blockIdx blockDim gridDim warpSize min max abs isnan isinf isfinite signbit printf
        malloc free memcpy memset assert clock clock64 __syncthreads __syncthreads_count __syncwarp
        __activemask __threadfence __threadfence_block __threadfence_system __ldg __ldcg __ldcs
        __shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync
        __match_any_sync __popc __popcll __ffs __clz __brev __byte_perm __mul24 __umul24 __mulhi __umulhi
        __expf __exp10f __logf __log2f __log10f __sinf __cosf __tanf __powf __fdividef __saturatef
        __sincosf __frcp_rn __fsqrt_rn __fmaf_rn __float2int_rn __int2float_rn __float_as_int
        __int_as_float __nanosleep __trap __shared__ __device__ __constant__ __restrict__ return float
        void bool true false
        double unsigned const static inline template typename struct while switch break continue
        """
    ),
)
# Names from headers; a hint names the header only while it is not included.
_OF_HEADERS = str.split(
    """
    half half2 __half __half2 __half2float __float2half __hadd __hmul __hfma __nv_bfloat16
    __bfloat162float __float2bfloat16 uint8_t uint16_t uint32_t uint64_t int8_t int16_t int32_t int64_t
    size_t curand_init curand_uniform curand_normal curandState this_thread_block this_grid
    tiled_partition coalesced_threads this_cluster thread_block thread_block_tile
    """
)
_DIRECTIVES = str.split("include define undef ifdef ifndef elif else endif pragma error warning line")
_OF_CXX20 = frozenset({"concept", "requires", "consteval", "constinit"})
_NAMESPACES = {"cooperative_groups": "cooperative_groups.h", "nvcuda": "mma.h"}
# The headers of CUDA's namespaces; the headers of `cuda::std` have the same names as the headers of `std`.
_MEMBERS = {
    "cooperative_groups": {
        "cooperative_groups/reduce.h": r"reduce\w*|plus|less|greater|bit_(and|or|xor)",
        "cooperative_groups/scan.h": r"(in|ex)clusive_scan\w*",
        "cooperative_groups/memcpy_async.h": r"memcpy_async|wait(_prior)?",
    },
    "cuda": {
        "cuda/atomic": r"atomic\w*",
        "cuda/barrier": r"barrier|device|memcpy_async|aligned_size_t",
        "cuda/pipeline": r"(make_)?pipeline\w*",
        "cuda/semaphore": r"(counting|binary)_semaphore",
        "cuda/latch": r"latch",
        "cuda/ptx": r"ptx",
        "cuda/annotated_ptr": r"annotated_ptr|access_property",
    },
    "cuda::std": {f"cuda/std/{header}": names for header, names in _OF_STD.items()},
}
_ALIASES = {
    "wmma": ("mma.h", "using namespace nvcuda;"),
    "cg": ("cooperative_groups.h", "namespace cg = cooperative_groups;"),
}
_OF_CUTLASS = {"cute": "cute/tensor.hpp", "cutlass": "cutlass/cutlass.h"}
_OF_HOSTS = {"at": "PyTorch", "c10": "PyTorch", "torch": "PyTorch", "py": "pybind11", "thrust": "Thrust"}
_QUALIFIED = re.compile(r"\w+(?:\s*::\s*\w+)*")
_SCOPES = re.compile(r"\b(?:namespace|struct|class|enum(?:\s+class)?)\s+(\w+)")
_NO_MEMBER = re.compile(r'namespace "([\w:]+)" has no (?:tag )?member(?: class)? "(\w+)"')
_INCLUDED = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
# Intentionally similar names, such as TILE_X and TILE_Y, differ in a number or a letter at the end.
_NUMBERED = re.compile(r"(?:\d+|_[A-Za-z])$")


def undefined(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report names from headers that are not included.

    A missing type can cause errors anywhere, a missing value only in its own line.
    """
    included = {
        *failed.module.pre_includes,
        *(name for text in _texts(failed) for name in _INCLUDED.findall(text)),
    }
    named = {each: _header_of(each) for each in found}
    headers = {each: header for each, header in named.items() if header and header not in included}
    if not headers:
        return None
    first = replace(next(iter(headers)), hint=_about_headers([*dict.fromkeys(headers.values())], failed))
    is_value = all(_MACRO.fullmatch(_name_in(each)) for each in headers)
    lines = {each.where for each in headers}
    others = [each for each in found if each.where not in lines] if is_value else []
    return first.followed_by(len(found) - len(others) - 1), others


def not_given(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report undefined names that are written like macros."""
    macros = {each: name for each in found if (name := _macro_in(each)) is not None}
    if not macros:
        return None
    pasted = failed.pasted("define", dict.fromkeys(macros.values(), "…"))
    defined = {name for text in _texts(failed) for name in _DEFINED.findall(text)}
    error, name = next(iter(macros.items()))
    guess = similar_names.did_you_mean(name, _unlike(name, defined))
    given = f"if the build has to give it, with its value in place of …:{pasted}"
    first = replace(error, hint=f"{guess} {given[0].upper()}{given[1:]}" if guess else given)
    lines = {each.where for each in macros}
    others = [each for each in found if each.where not in lines]
    return first.followed_by(len(found) - len(others) - 1), others


def renamed(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a macro of the table that no text mentions, if its name resembles an undefined name."""
    words = {word for text in _texts(failed) for word in _WORD.findall(text)}
    unused = {name for name, _value in failed.module.macros} - words
    for each in found:
        name = _name_in(each)
        if each.is_own and (macro := similar_names.nearest(name, unused)) is not None:
            hint = f"{failed.place_of_macro(macro)} calls it {macro!r}: rename it to {name!r}"
            others = [other for other in found if _name_in(other) != name]
            return replace(each, hint=hint).followed_by(len(found) - len(others) - 1), others
    return None


def namespaces(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a namespace that is not declared, instead of all errors that follow from it."""
    for each in found:
        name = _name_in(each) if each.is_own and _NO_NAMESPACE.search(each.text) else ""
        hint = _about_namespace(name, failed) if name and each.hint is None else None
        if hint is not None:
            return replace(each, hint=hint).followed_by(len(found) - 1), []
    return None


def _about_namespace(name: str, failed: FailedCompile) -> str | None:
    texts = [*_texts(failed)]
    if name in _ALIASES:
        header, line = _ALIASES[name]
        included = any(header in _INCLUDED.findall(text) for text in texts)
        return f"{'' if included else f'#include <{header}>, and '}write this below the includes: {line}"
    if name in _OF_CUTLASS:
        packages = failed.line("header-packages", ["nvidia-cutlass"])
        return f"#include <{_OF_CUTLASS[name]}>, which this wheel has: {packages}"
    if name in _OF_HOSTS:
        return f"that is {_OF_HOSTS[name]}'s, for host code, which NVRTC does not compile: {APART}"
    scopes = {scope for text in texts for scope in _SCOPES.findall(text)}
    return similar_names.did_you_mean(name, scopes | {*_NAMESPACES})


def misspelled(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a name that resembles a name of the source or of CUDA, or that is a keyword of a later C++."""
    undefined = {_name_in(each) for each in found}
    for each in found:
        name = _name_in(each) if each.is_own and each.hint is None else ""
        words = {word for text in _texts(failed) for word in _WORD.findall(text)} if name else set[str]()
        hint = similar_names.did_you_mean(name, _unlike(name, words - undefined).union(_OF_CUDA, _OF_HEADERS))
        if name in _OF_CXX20:
            hint = f"C++20 has it:{failed.pasted('options', {'std': 'c++20'})}"
        if hint is not None and name not in {*_OF_CUDA, *_OF_HEADERS}:
            return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def directives(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """Report a misspelt directive of the preprocessor."""
    for each in found:
        match = re.match(r"\s*#\s*(\w+)", "".join(each.context[:1]))
        if match and each.is_own and each.hint is None and "preprocessing directive" in each.text:
            hint = similar_names.did_you_mean(match[1], _DIRECTIVES)
            if hint is not None:
                return replace(each, hint=hint), [other for other in found if other is not each]
    return None


def _unlike(name: str, words: Iterable[str]) -> set[str]:
    """Return the words without those that are similar to a name by intent."""
    return {word for word in words if _NUMBERED.sub("", word) != _NUMBERED.sub("", name)}


def _texts(failed: FailedCompile) -> Iterator[str]:
    return (without_comments(failed.text_of(path)) for path in (failed.path, *failed.headers))


def _about_headers(headers: Sequence[str], failed: FailedCompile) -> str:
    named = ", ".join(f"<{header}>" for header in headers)
    wanted = dict.fromkeys((*failed.module.pre_includes, *headers))
    pasted = failed.pasted("options", {"pre-include": [*wanted]})
    if all(header in _BY_NVCC for header in headers):
        return f"nvcc includes {named} by itself, NVRTC does not:{pasted}"
    return f"{named} {'has it' if len(headers) == 1 else 'have them'}:{pasted}"


def _header_of(error: Diagnostic) -> str | None:
    """Return the header with the name that an error is about."""
    name = _name_in(error)
    if _NO_NAMESPACE.search(error.text):
        return _NAMESPACES.get(name) or _of_member(*_qualified(error))
    if match := _NO_MEMBER.search(error.text):
        scope, name = match.groups()
        return _in(_OF_STD if scope == "std" else _MEMBERS.get(scope, {}), name)
    return _in({**_BY_NVCC, **_ELSEWHERE}, name)


def _of_member(scope: str, name: str) -> str | None:
    """Return the header of a name in one of CUDA's namespaces."""
    outer, _, inner = scope.partition("::")
    if outer == "cub":
        return cub.header_of(name)
    if outer == "cuda" and inner not in {"", "std"}:  # such as cuda::ptx::…
        return _in(_MEMBERS["cuda"], inner.partition("::")[0])
    return _in(_MEMBERS.get(scope, {}), name)


def _in(headers: Mapping[str, str], name: str) -> str | None:
    return next((header for header, names in headers.items() if name and re.fullmatch(names, name)), None)


def _qualified(error: Diagnostic) -> tuple[str, str]:
    """Return the name that an error points at, and the scope before it: scope first."""
    code, at = _pointed_at(error)
    match = _QUALIFIED.match(code, at)
    scope, _, name = re.sub(r"\s", "", match[0] if match else "").rpartition("::")
    return scope, name


def _name_in(error: Diagnostic) -> str:
    """Return the name that an error is about: the name in its text, or else the name that it points at."""
    if match := _UNDEFINED.search(error.text):
        return match[1]
    if match := _NO_MEMBER.search(error.text):
        return match[2]
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
    """Return the line of code that an error shows, and the caret's position in it."""
    for code, mark in zip(error.context, error.context[1:], strict=False):
        if mark.strip() == "^":
            return code, mark.index("^")
    return "", 0
