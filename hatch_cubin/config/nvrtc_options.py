"""The fields of cuda.core's `ProgramOptions` that a project may set, and the type of each field. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

_BOOLS = """
    debug lineinfo device_code_optimize ftz prec_sqrt prec_div fma use_fast_math extra_device_vectorization
    builtin_move_forward builtin_initializer_list disable_warnings restrict device_as_default_execution_space
    device_int128 device_float128 no_display_error_number brief_diagnostics minimal
"""
_INTS = "max_register_count split_compile"
_STRINGS = "std optimization_info frandom_seed ofast_compile"
_STRING_LISTS = "ptxas_options undefine_macro pre_include"
_INT_LISTS = "diag_error diag_suppress diag_warn"

ALLOWED: Mapping[str, str] = {
    name: kind
    for kind, names in {
        "a boolean": _BOOLS,
        "an integer": _INTS,
        "a string": _STRINGS,
        "a string or an array of strings": _STRING_LISTS,
        "an integer or an array of integers": _INT_LISTS,
    }.items()
    for name in names.split()
}

# The options that also apply to PTX sources: ptxas, which assembles PTX, has these options too.
_PTX = """
    debug disable_warnings fma lineinfo max_register_count ofast_compile ptxas_options split_compile
"""
OF_PTX = frozenset(_PTX.split())
OF_TILE_IR = frozenset({"debug", "lineinfo"})  # the options that tileiras has too

NOT_LOADABLE = "the compiled result could not be loaded as a kernel"
_NVVM_ONLY = "the option is for NVVM programs, and sources here are CUDA C++ or PTX"
_SIDE_EFFECT = "the compiler would write an extra file, which a result from the cache would not have"
_AUTOMATIC = "precompiled headers are automatic and never change the result"

REFUSED: Mapping[str, str] = {
    "arch": "the archs to compile for are set with 'archs'",
    "name": "a module has the name of its source, or the 'name' in a [[source]] table",
    "define_macro": "macros are set with 'define'",
    "include_path": "the search path is set with 'include-dirs' and 'header-packages'",
    "use_bundled_headers": "the toolkit's headers are found without this option",
    "no_source_include": "a quoted include is always searched first in the folder of the including file",
    "relocatable_device_code": NOT_LOADABLE,
    "extensible_whole_program": NOT_LOADABLE,
    "link_time_optimization": NOT_LOADABLE,
    "gen_opt_lto": NOT_LOADABLE,
    "fdevice_syntax_only": NOT_LOADABLE,
    "no_cache": "the option only turns off the linker's own cache, and does not change the result",
    "time": _SIDE_EFFECT,
    "fdevice_time_trace": _SIDE_EFFECT,
    "create_pch": _AUTOMATIC,
    "pch": _AUTOMATIC,
    "use_pch": _AUTOMATIC,
    "pch_dir": _AUTOMATIC,
    "pch_verbose": _AUTOMATIC,
    "pch_messages": _AUTOMATIC,
    "instantiate_templates_in_pch": _AUTOMATIC,
    "extra_sources": _NVVM_ONLY,
    "use_libdevice": _NVVM_ONLY,
    "numba_debug": _NVVM_ONLY,
}

_INTEGERS = range(-(2**31), 2**31)  # no option accepts more digits, and Python cannot print very long numbers
RANGES: Mapping[str, range] = {
    "max_register_count": range(256),  # Ptxas ignores larger values.
    "split_compile": range(1025),  # NVRTC crashes if it cannot start so many threads.
    **dict.fromkeys(_INT_LISTS.split(), range(1, 2**31)),  # The numbers of messages are positive.
}
# Patterns for the values of these options. The patterns match every value that the compilers know, and no
# text that could become several arguments.
PATTERNS: Mapping[str, str] = {
    # C++03 is not allowed, because hatch-cubin's scanner always reads raw strings, which C++03 does not have
    "std": r"c\+\+(?:11|14|17|20|23)",
    "optimization_info": "inline",
    "ofast_compile": "0|min|mid|max",
    "undefine_macro": "[A-Za-z_][A-Za-z0-9_]*",
}
_EXAMPLES: Mapping[str, str] = {
    "std": "a standard such as 'c++20'",
    "optimization_info": "'inline'",
    "ofast_compile": "one of '0', 'min', 'mid' and 'max'",
    "undefine_macro": "names of macros",
}

OptionValue = bool | int | str | tuple[str, ...] | tuple[int, ...]


def check_option(name: str, value: object) -> OptionValue:
    """Return *value* in the type that cuda.core expects. A ValueError describes the allowed values."""
    kind = ALLOWED[name]
    typed = _typed(kind, value)
    if typed is None:
        raise ValueError(f"must be {kind}, not {value!r}")
    texts = typed if isinstance(typed, tuple) else (typed,)
    if "" in texts:
        raise ValueError("must not be an empty string, which crashes NVRTC")
    for number in texts if name in RANGES else ():
        if number not in (limits := RANGES[name]):
            raise ValueError(f"must be from {limits[0]} to {limits[-1]}, not {number}")
    pattern = PATTERNS.get(name)
    if pattern is not None and not all(re.fullmatch(pattern, str(text)) for text in texts):
        raise ValueError(f"must be {_EXAMPLES[name]}, not {value!r}")
    return typed


def _typed(kind: str, value: object) -> OptionValue | None:
    if isinstance(value, list):
        strings = tuple(item for item in value if isinstance(item, str) and item.isprintable())
        numbers = tuple(item for item in value if _is_int(item))
        if "strings" in kind and len(strings) == len(value):
            return strings
        return numbers if "integers" in kind and len(numbers) == len(value) else None
    wanted: Mapping[str, bool] = {
        "boolean": isinstance(value, bool),
        "integer": _is_int(value),
        "string": isinstance(value, str) and value.isprintable(),
    }
    fits = wanted[kind.split(" or ", maxsplit=1)[0].rsplit(maxsplit=1)[-1]]
    return value if fits else None  # type: ignore[return-value]


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value in _INTEGERS
