"""Hints about undefined names: which header declares a name, or how to define a macro in pyproject.toml."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import replace

from ...config.reserved_macros import NAMES as RESERVED
from ...project.directives import included_names
from ...project.source import without_comments
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .host_code import is_c_function

_UNDEFINED = re.compile(r'identifier "(\w+)" is undefined')
_NO_NAMESPACE = re.compile(r'name (?:followed by "::" must be a class or|must be a) namespace name')
# The compiler's errors about a name of std if the source includes no header with the namespace std.
_NO_STD = re.compile(r"explicit type is missing|qualified name is not allowed")
_NO_MEMBER = re.compile(r'namespace "([\w:]+)" has no (?:tag )?member(?: class)? "(\w+)"')
_WORD = re.compile(r"\w+")
_PATH = re.compile(r"\w+(?:\s*::\s*\w+)*")
_STD_NAME = re.compile(r"std::(\w+)")
_MACRO = re.compile(r"(?:__)?[A-Z][A-Z0-9_]*")
_TYPE = re.compile(r"\b(?:struct|class|union|enum|using)\s+(\w+)\s*[={:]")
_NUMBERS = r"(float|double|u?int|u?short|u?char|u?ll|floats|float2|half|halves)"
_ROUNDED = r"(_r[nduz])?"
_INTEGERS = r"u?int(_least|_fast)?(8|16|32|64)_t|u?int(ptr|max)_t"

# Each table maps a header to a pattern for the names that the header declares. The tables were tested with
# CUDA 12.9, 13.0 and 13.5. The rows of cuda, cuda::std and cub were tested only with CUDA 13.5.
#
# Headers that nvcc includes automatically:
_BY_NVCC = {
    "cstdint": rf"{_INTEGERS}|U?INT(_LEAST|_FAST)?\d+_(MAX|MIN)|(U?INT(PTR|MAX)|PTRDIFF|SIZE)_(MAX|MIN)",
    "cmath": r"INFINITY|NAN|HUGE_VALF?|M_(E|LN2|LN10|LOG2E|LOG10E|[12]?_?PI(_[24])?|2_SQRTPI|SQRT2|SQRT1_2)",
    "climits": r"CHAR_BIT|(S?CHAR|SHRT|INT|LONG|LLONG)_(MAX|MIN)|U(CHAR|SHRT|INT|LONG|LLONG)_MAX",
    "ctime": r"time_t",
    "sys/types.h": r"ushort|uint|ulong",
}
# Headers that nvcc does not include automatically:
_ELSEWHERE = {
    "cfloat": r"(FLT|DBL)_(RADIX|DIG|EPSILON|(TRUE_)?MIN|MAX|MANT_DIG|M(IN|AX)_(10_)?EXP)",
    "cuda_fp16.h": (
        rf"(__)?half2?(_raw)?|__{_NUMBERS}2half2?{_ROUNDED}|__half2{_NUMBERS}{_ROUNDED}|__half22float2"
        r"|__(low|high)2(half|float)|__h(add|mul|fma)2?"
    ),
    "cuda_bf16.h": rf"(__)?nv_bfloat162?|__{_NUMBERS}2bfloat162?{_ROUNDED}|__bfloat162{_NUMBERS}{_ROUNDED}",
    "cuda_fp8.h": r"__nv_fp8\w*",
    "cuda_fp6.h": r"__nv_fp6\w*",
    "cuda_fp4.h": r"__nv_fp4\w*",
    "cuda_pipeline.h": r"__pipeline_\w+",
    "cuda.h": r"CUtensorMap|CUdeviceptr|CUtexObject|CUsurfObject",
    "cuComplex.h": r"(make_)?cu(Float|Double)?Complex|cuC(real|imag|add|sub|mul|div|abs|onj|fma)f?",
    "cupy/carray.cuh": r"CUPY_FOR",
    "curand_kernel.h": r"curand(_\w+|State\w*)",
    "math_constants.h": r"CUDART_(\w+_)?(INF|NAN|ZERO|ONE|HALF|TWO|THIRD|PI|PIO[24]|L2E|L2T|LN2|LNT)(_F)?",
}
# Headers that declare the names of a namespace, for each namespace:
_MEMBERS = {
    "std": {
        "cstdint": _INTEGERS,
        "cstddef": r"size_t|ptrdiff_t|nullptr_t|byte",
        "limits": r"numeric_limits",
        "utility": r"(make_)?pair|swap|exchange|declval|(make_)?(index|integer)_sequence",
        "tuple": r"(make_)?tuple|tie|apply|tuple_(size|element)\w*",
        "type_traits": (
            r"is_(void|integral|floating_point|arithmetic|pointer|reference|const|enum|class|(un)?signed|same"
            r"|base_of|convertible|invocable|trivially_copyable|(default_|copy_|move_)?constructible)(_v)?"
            r"|(enable_if|conditional|decay|common_type|underlying_type|invoke_result|make_(un)?signed"
            r"|remove_(cv|const|reference|cvref|pointer|extent)|add_(const|pointer))(_t)?"
            r"|integral_constant|(true|false)_type|void_t"
        ),
        "array": r"array",
        "optional": r"optional|nullopt",
        "complex": r"complex",
        "functional": r"plus|minus|multiplies|divides|less|greater|equal_to",
        "numeric": r"accumulate|iota|inner_product|gcd|lcm",
        "algorithm": r"min|max|clamp|minmax|(min|max)_element|fill|copy|(lower|upper)_bound",
        "cstring": r"mem(cpy|set)",
        "cmath": (
            r"(a?(sin|cos|tan)h?|sqrt|cbrt|exp[2m]?1?|log(2|10|1p|b)?|pow|abs|f(abs|loor|max|min|mod|ma|dim)|hypot"
            r"|ceil|l{0,2}r(ound|int)|nearbyint|round|rint|trunc|erfc?|[lt]gamma|copysign|is(nan|inf|finite)|signbit)f?"
        ),
    },
    "cuda": {
        "cuda/annotated_ptr": r"annotated_ptr|((associate|apply)_)?access_property|discard_memory",
        "cuda/atomic": r"atomic(_ref|_thread_fence|_signal_fence)?|thread_scope(_\w+)?",
        "cuda/barrier": r"barrier|device|aligned_size_t|memcpy_async(_tx)?",
        "cuda/cmath": r"ceil_div",
        "cuda/functional": r"proclaim_return_type|maximum|minimum",
        "cuda/latch": r"latch",
        "cuda/pipeline": r"(make_)?pipeline(_\w+)?",
        "cuda/ptx": r"ptx",
        "cuda/semaphore": r"(binary|counting)_semaphore",
    },
    "cooperative_groups": {
        "cooperative_groups/reduce.h": r"reduce\w*|plus|less|greater|bit_(and|or|xor)",
        "cooperative_groups/scan.h": r"(in|ex)clusive_scan\w*",
        "cooperative_groups/memcpy_async.h": r"memcpy_async|wait(_prior)?",
    },
}
_OF_CUDA_STD_ALONE = {
    "atomic": r"atomic(_ref|_thread_fence)?|memory_order(_\w+)?",
    "bit": r"bit_cast|popcount|count[lr]_(zero|one)|bit_(ceil|floor|width)|has_single_bit|rot[lr]",
    "bitset": r"bitset",
    "chrono": r"chrono",
    "expected": r"(un)?expected",
    "initializer_list": r"initializer_list",
    "inplace_vector": r"inplace_vector",
    "mdspan": r"mdspan|d?extents|layout_(left|right|stride)",
    "numbers": r"numbers",
    "span": r"span|dynamic_extent",
    "string_view": r"string_view",
    "variant": r"variant|visit|monostate|holds_alternative",
}
_MEMBERS["cuda::std"] = {
    f"cuda/std/{header}": names for header, names in {**_MEMBERS["std"], **_OF_CUDA_STD_ALONE}.items()
}
_OF_CUB = (
    r"block_(adjacent_difference|discontinuity|exchange|histogram|load|merge_sort|radix_(rank|sort)|reduce"
    r"|run_length_decode|scan|shuffle|store)|warp_(exchange|load|merge_sort|reduce|scan|store)"
)
# For each namespace: names that sources use without the namespace by mistake.
_UNQUALIFIED = {
    "cooperative_groups": (
        r"this_(thread|thread_block|grid|cluster)|coalesced_threads|tiled_partition|(labeled|binary)_partition"
        r"|thread_(block|group|block_tile)|(grid|cluster|coalesced)_group"
    ),
    "cuda": r"atomic_ref|thread_scope_\w+|make_pipeline|pipeline_shared_state|annotated_ptr",
    "nvcuda::wmma": r"(load|store)_matrix_sync|(fill_)?fragment|mma_sync|mem_(row|col)_major",
    "cub": r"(Block|Warp)(Reduce|Scan|Load|Store|Exchange|MergeSort)|BlockRadixSort",
}
_ALIASES = {
    "cg": "cooperative_groups",
    "wmma": "nvcuda::wmma",
    "ptx": "cuda::ptx",
    "cde": "cuda::device::experimental",
}
_NAMES_OF_CUDA = """
__global__ __device__ __host__ __shared__ __constant__ __managed__ __restrict__ __launch_bounds__ __inline__
__forceinline__ __noinline__ __grid_constant__ __cluster_dims__ __tile_global__ __align__ __volatile__ printf
threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp __threadfence __threadfence_block __ldg
__shfl_sync __shfl_up_sync __shfl_down_sync __shfl_xor_sync __ballot_sync __any_sync __all_sync __activemask
__match_any_sync __match_all_sync __reduce_add_sync __reduce_min_sync __reduce_max_sync
__popc __clz atomicAdd atomicSub atomicMin atomicMax atomicExch atomicCAS atomicAnd atomicOr atomicXor
int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t
"""
_QUALIFIER = re.compile(r"\b__\w+__\b")
_NEARLY = 0.8  # the minimum similarity between a misspelled name and the correct name
# For each namespace that has a header for each name, or that NVRTC does not compile: a hint.
_OF_MANY_HEADERS = {
    "cub": "include the header that declares this name, such as <cub/block/block_reduce.cuh> for BlockReduce",
    "cuda": "include the header that declares this name, such as <cuda/std/atomic> for cuda::std::atomic",
    "cute": "include the header that declares this name, such as <cute/tensor.hpp> for cute::Tensor",
    "cutlass": "include the header that declares this name, such as <cutlass/numeric_types.h> for half_t",
    "thrust": "NVRTC does not compile Thrust: use <cuda/std/…> and <cub/block/…> for device code",
}
_NAMESPACES = {"cooperative_groups": "cooperative_groups.h", "nvcuda": "mma.h"}


def misspelled(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """If a name of CUDA C++ is misspelled (`__gloabl__`), report only this, and not the resulting errors."""
    for each in found:
        words = _QUALIFIER.findall("".join(each.context[:1])) if each.is_own else []
        for word in filter(None, (_name_in(each) if each.is_own else "", *words)):
            if (right := _nearest(word)) is not None and _header_of(each) is None:
                mask = ", with a mask of threads as its first argument" if right.endswith("_sync") else ""
                others = [other for other in found if other.where != each.where]
                told = replace(each, hint=f"did you mean {right!r}{mask}?")
                return told.followed_by(len(found) - len(others) - 1), others
    return None


def _nearest(word: str) -> str | None:
    """Return the correct spelling if *word* is a misspelled or old name of CUDA C++; otherwise None."""
    import difflib  # lazy import: slow, and needed only for mistakes

    if is_c_function(word):
        return None
    names = _NAMES_OF_CUDA.split()
    if f"{word}_sync" in names:  # CUDA 9 replaced such a function
        return f"{word}_sync"
    close = difflib.get_close_matches(word, names, n=1, cutoff=_NEARLY)
    is_same = not close or close[0] == word or re.sub(r"\D", "", close[0]) != re.sub(r"\D", "", word)
    return None if is_same else close[0]


def of_unknown_namespace(found: Sequence[Diagnostic], _failed: FailedCompile) -> Explanation | None:
    """If the header for a name of CCCL or CUTLASS is not known, report this, not the resulting errors."""
    for each in found:
        hint = _OF_MANY_HEADERS.get(_name_in(each)) if _NO_NAMESPACE.search(each.text) else None
        if hint is not None and _header_of(each) is None:
            others = [other for other in found if other.where != each.where]
            told = replace(each, hint=hint)
            return told.followed_by(len(found) - len(others) - 1), others
    return None


def unqualified(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a name that is used without its namespace, or an undeclared alias of a namespace."""
    for each in found:
        namespace, fix = _without_namespace(each)
        if namespace is not None and each.is_own:
            header = _header_of_path(f"{namespace}::{_name_in(each)}")
            is_missing = header is not None and header not in _included(failed)
            about = f"; {_about_headers([header], failed)}" if header and is_missing else ""
            return replace(each, hint=f"{fix}{about}").followed_by(len(found) - 1), []
    return None


def _without_namespace(error: Diagnostic) -> tuple[str | None, str]:
    """Return the namespace of an undefined name, and a hint to write this namespace.

    Return (None, "") if the namespace is unknown.
    """
    name = _name_in(error)
    code, at = _pointed_at(error)
    if _NO_NAMESPACE.search(error.text) and name in _ALIASES and not code[:at].endswith("::"):
        declared = f"namespace {name} = {_ALIASES[name]};"
        return _ALIASES[name], f"write {declared} before this line, outside of functions"
    member = _NO_MEMBER.search(error.text)
    if member and member[1] == "std" and _in(_OF_CUDA_STD_ALONE, name):
        return "cuda::std", f"write cuda::std::{name}"
    if not _UNDEFINED.search(error.text):
        return None, ""
    namespace = next((each for each, names in _UNQUALIFIED.items() if re.fullmatch(names, name)), None)
    return namespace, f"write {namespace}::{name}, or put using namespace {namespace}; before this line"


def undefined(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report undefined names that a header declares, if the source does not include this header.

    An undefined type can cause errors in any line. An undefined constant causes errors only in the line that
    uses the constant.
    """
    included = _included(failed)
    named = {each: _header_of(each) for each in found}
    headers = {each: header for each, header in named.items() if header and header not in included}
    if not headers:
        return None
    first = next(iter(headers))
    qualified = f"write std::{_name_in(first)}; " if _is_of_std(first) else ""
    about = _about_headers([*dict.fromkeys(headers.values())], failed)
    first = replace(first, hint=f"{qualified}{about}")
    is_value = all(_MACRO.fullmatch(_name_in(each)) for each in headers)
    lines = {each.where for each in headers}
    others = [each for each in found if each.where not in lines] if is_value else []
    return first.followed_by(len(found) - len(others) - 1), others


def not_given(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report undefined names that are probably macros, or that are types without their namespace.

    An undefined name is probably a macro if it is in capital letters, or if the name of a produced source
    contains a value for the undefined name, as `sum[BLOCK=64]` does for BLOCK.
    """
    values = dict(failed.module.source.variant)
    macros = {each: name for each in found if (name := _macro_in(each, values, failed)) is not None}
    if not macros:
        return None
    name = next(iter(macros.values()))
    pasted = failed.pasted("define", dict.fromkeys(macros.values(), "…"))
    hint = f"if this name is a macro, replace … by its value:{pasted}"
    if defined := {name: values[name] for name in macros.values() if name in values}:
        hint = (
            "a value in a source's name, as in sum[BLOCK=64].cu, does not define a macro: "
            "let the producer write the value into the text"
        )
        if RESERVED.isdisjoint(defined):
            hint = (
                "a value in a source's name, as in sum[BLOCK=64].cu, does not define a macro: "
                "let the producer write the value into the text, "
                f'or return {{"text": …, "define": {json.dumps(defined)}}}'
            )
    if place := failed.place_of_false(name):
        hint = (
            f"the value false in {place} leaves the macro undefined: write 0 in place of false, "
            "or test the macro with #ifdef"
        )
    types = {name for text in _texts(failed) for name in _TYPE.findall(text)}
    if name in types:
        hint = f"{name} is a type: write its namespace before the name, or declare the type before this line"
    lines = {each.where for each in macros}
    others = [each for each in found if each.where not in lines]
    return replace(next(iter(macros)), hint=hint).followed_by(len(found) - len(others) - 1), others


def _included(failed: FailedCompile) -> set[str]:
    """Return the headers that the source, its own headers and pyproject.toml include."""
    names = (name for text in _texts(failed) for name in included_names(text))
    return {*failed.module.pre_includes, *names}


def _texts(failed: FailedCompile) -> Iterator[str]:
    return (without_comments(failed.text_of(path)) for path in (failed.path, *failed.headers))


def _about_headers(headers: Sequence[str], failed: FailedCompile) -> str:
    named = ", ".join(f"<{header}>" for header in headers)
    wanted = dict.fromkeys((*failed.module.pre_includes, *headers))
    pasted = failed.pasted("options", {"pre-include": [*wanted]})
    if all(header in _BY_NVCC for header in headers):
        return f"nvcc includes {named} automatically, but NVRTC does not:{pasted}"
    return f"include {named}, which the source needs:{pasted}"


def _header_of(error: Diagnostic) -> str | None:
    """Return the header that declares the undefined name in an error; None if the header is not known."""
    code, at = _pointed_at(error)
    if _NO_NAMESPACE.search(error.text):
        match = _PATH.match(code, at)
        return _header_of_path(re.sub(r"\s", "", match[0])) if match else None
    if match := _NO_MEMBER.search(error.text):
        return _header_in(match[1], match[2])
    if _NO_STD.search(error.text) and (match := _STD_NAME.match(code, at)):
        return _in(_MEMBERS["std"], match[1])
    known = {**_BY_NVCC, **_ELSEWHERE}
    return _in(_MEMBERS["std"] if _is_of_std(error) else known, _name_in(error))


def _header_of_path(path: str) -> str | None:
    """Return the header that declares a qualified name such as `cuda::std::array`; None if it is unknown."""
    if (header := _NAMESPACES.get(path.partition("::")[0])) is not None:
        return header
    namespace = next((each for each in ("cuda::std", "cuda", "cub") if path.startswith(f"{each}::")), None)
    return namespace and _header_in(namespace, path[len(namespace) + 2 :].partition("::")[0])


def _header_in(namespace: str, name: str) -> str | None:
    if namespace != "cub":
        return _in(_MEMBERS.get(namespace, {}), name)
    snake_case = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    match = re.match(_OF_CUB, snake_case)
    return f"cub/{match[0].partition('_')[0]}/{match[0]}.cuh" if match else None


def _is_of_std(error: Diagnostic) -> bool:
    """Return whether an undefined name is a template of the namespace std, as in `complex<float>`."""
    code, at = _pointed_at(error)
    name = _name_in(error)
    is_template = re.match(rf"{name}\s*<(?!<)", code[at:]) is not None
    return bool(_UNDEFINED.search(error.text) and is_template and _in(_MEMBERS["std"], name))


def _in(headers: Mapping[str, str], name: str) -> str | None:
    return next((header for header, names in headers.items() if name and re.fullmatch(names, name)), None)


def _name_in(error: Diagnostic) -> str:
    """Return the undefined name that an error is about: from its text, or from the position of the error."""
    if match := _UNDEFINED.search(error.text):
        return match[1]
    if match := _NO_MEMBER.search(error.text):
        return match[2]
    if _NO_NAMESPACE.search(error.text) and (match := _WORD.match(*_pointed_at(error))):
        return match[0]
    return ""


def _macro_in(error: Diagnostic, keys: Container[str], failed: FailedCompile) -> str | None:
    match = _UNDEFINED.search(error.text)
    if match is None or not error.is_own:
        return None
    if match[1] in keys:
        return match[1]
    is_macro = _MACRO.fullmatch(match[1]) or failed.place_of_false(match[1])
    if not is_macro or match[1] in RESERVED:
        return None
    code, at = _pointed_at(error)
    has_parameters = code[at + len(match[1]) :].lstrip().startswith("(")
    return None if has_parameters else match[1]


def _pointed_at(error: Diagnostic) -> tuple[str, int]:
    """Return the line of code that the compiler shows for an error, and the column of the error."""
    for code, mark in zip(error.context, error.context[1:], strict=False):
        if mark.strip() == "^":
            return code, mark.index("^")
    return "", 0
