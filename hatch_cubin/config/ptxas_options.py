"""The options of ptxas that a project may set, and the values that each option accepts. Pure.

The allowed options can change the compiled code and the warnings, but cannot create files. Only known options
are allowed, because ptxas has more options than its help shows, and some of these options create files.

Measurements with ptxas, NVRTC and nvJitLink of CUDA 12.9, 13.0 and 13.5 show that each string of the array
`ptxas-options` is read as one option. CUDA 12.9, 13.0 and 13.5 do not accept an abbreviated name of an
option, or several options in one string. If the value of an option is missing, ptxas takes the next string of
the array as the value. ptxas reads a string without a hyphen as the name of a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from . import compiler_flags

_SWITCH = ""
_BOOLEAN = "true|false"
_NUMBER = "[0-9]{1,4}"
_REGISTERS = f"{_NUMBER}|archmax|archmin"
_BLOCK = r"[0-9]{1,4}(?:,[0-9]{1,4}){0,2}"
_CACHE = "ca|cg|cs|cv|lu|wb|wt"
_LEVEL = "0|min|mid|max"
_KERNELS = "[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*"
_TOOL = "memcheck|threadsteer"

# Each option's long name, followed by a slash and the short name if ptxas has one.
_NAMES = {
    _SWITCH: """
        compiler-annotations/annotate device-debug/g disable-optimizer-constants/disable-optimizer-consts
        disable-warnings/w dont-merge-basicblocks/no-bb-merge g-tensor-memory-access-check/g-tmem-access-check
        generate-line-info/lineinfo gno-fabric-access-check
        gno-tensor-memory-access-check/gno-tmem-access-check
        legacy-bar-warp-wide-behavior make-errors-visible-at-exit optimize-float-atomics/opt-fp-atomics
        override-directive-values return-at-end/ret-end sp-bounds-check
        suppress-async-bulk-multicast-advisory-warning suppress-debug-info suppress-double-demote-warning
        suppress-position-independent-code-warning suppress-sparse-mma-advisory-info
        suppress-stack-size-warning warn-on-double-precision-use/warn-double-usage
        warn-on-local-memory-usage/warn-lmem-usage warn-on-spills/warn-spills warning-as-error/Werror
    """,
    _BOOLEAN: """
        allow-expensive-optimizations device-stack-protector enable-func-clone-sc fmad
        position-independent-code/pic
    """,
    _NUMBER: "minnctapersm opt-level/O register-usage-level/regUsageLevel split-compile",
    _REGISTERS: "device-function-maxrregcount/func-maxrregcount maxrregcount",
    _BLOCK: "maxntid",
    _CACHE: "def-load-cache/dlcm def-store-cache/dscm force-load-cache/flcm force-store-cache/fscm",
    _LEVEL: "Ofast-compile/Ofc",
    _KERNELS: "entry/e",
    _TOOL: "sanitize",
}
_EXAMPLES = {_NUMBER: "2", _REGISTERS: "64", _BLOCK: "256", _KERNELS: "KERNEL"}

_FILE = "the option names a file, and the cache cannot know which files ptxas reads and writes"
_NOT_LOADABLE = "the compiled result could not be loaded as a kernel"
_NO_RESULT = "with this option, ptxas only prints information and does not compile"
_NOT_SHOWN = "a build does not show the registers that ptxas would print"
_REASONS = {
    _FILE: """
        apply-controls compiler-stats-file fdevice-time-trace input-as-string/ias options-file/optf
        output-file/o
    """,
    _NOT_LOADABLE: """
        compile-as-tools-patch/astoolspatch compile-only/c extensible-whole-program/ewp preserve-relocs
    """,
    _NO_RESULT: "help/h list-arch/arch-ls list-version/version-ls version/V",
    _NOT_SHOWN: "verbose/v verbose2/v2",
    "the archs to compile for are set with 'archs'": "gpu-name/arch machine/m",
    "ptxas would use the file descriptors or pipes of a job server": "jobserver",
    "a build does not show the statistics that ptxas would print": "compiler-stats",
}


def _spelled(names: Mapping[str, str]) -> dict[str, str]:
    """Return a dict that maps each spelling of an option, long and short, to the option's key in *names*.

    *names* maps a text, for example the reason why hatch-cubin refuses some options, to the names of these
    options, separated by blanks.
    """
    by_spelling: dict[str, str] = {}
    for value, group in names.items():
        for name in group.split():
            long, _slash, short = name.partition("/")
            by_spelling |= {f"--{long}": value, f"-{short or long}": value}
    return by_spelling


# a regular expression for each option's value, empty if the option has no value
ALLOWED: Mapping[str, str] = _spelled(_NAMES)
REFUSED: Mapping[str, str] = _spelled(_REASONS)  # the reason why each option cannot be set
_VERBOSE = frozenset(_spelled({_NOT_SHOWN: _REASONS[_NOT_SHOWN]}))
_OF_KERNELS = frozenset(_spelled({_KERNELS: _NAMES[_KERNELS]}))
LEVELS = "-O[0-9]"  # The only option whose value ptxas accepts without a "=".
# A regular expression for all allowed options. The JSON schema for editors contains this expression too.
PATTERN = "|".join([f"{name}=(?:{value})" if value else name for name, value in ALLOWED.items()] + [LEVELS])

NVCC_PREFIXES = ("-Xptxas", "--ptxas-options")  # the flags with which nvcc passes options to ptxas
_LONGEST = 200
_SEE_REFERENCE = (
    "the reference lists the allowed options under 'Options of ptxas'; open an issue if one is missing"
)


def is_allowed(option: str) -> bool:
    """Return whether a project can set an option of ptxas, such as `--maxrregcount=64`."""
    return re.fullmatch(PATTERN, option) is not None


def names_kernels(options: Iterable[str]) -> bool:
    """Return whether an option makes ptxas compile only some of the kernels in a PTX file."""
    return not _OF_KERNELS.isdisjoint(option.partition("=")[0] for option in options)


def check(option: str) -> str:
    """Return an option of ptxas unchanged. A ValueError gives the reason if the option is not allowed."""
    if is_allowed(option):
        return option
    name, is_set, _value = option.partition("=")
    if reason := REFUSED.get(name):
        raise ValueError(f"cannot contain {option!r}: {reason}")
    if name not in ALLOWED:
        raise ValueError(f"cannot contain {option!r}: it is not one of the allowed options of ptxas")
    if not ALLOWED[name]:
        raise ValueError(f"cannot contain {option!r}: {name} does not take a value")
    if is_set:
        raise ValueError(f"cannot contain {option!r}: {name} needs a different value")
    raise ValueError(f"cannot contain {option!r}: {name} needs a value")


def hint(option: str, *, alone: bool = False) -> str | None:
    """Return a hint for a wrong option of ptxas: the likely correct option, or where to find all options.

    *alone* is true if the user wrote the option as a string and not as an element of an array. If *alone* is
    true and *option* contains several options, the hint shows the options as an array.
    """
    name = option.partition("=")[0]
    if option in NVCC_PREFIXES:
        return f"leave {name!r} out: 'ptxas-options' has only options for ptxas"
    if name in REFUSED:
        return compiler_flags.REGISTERS if name in _VERBOSE else None
    if name in ALLOWED:
        return _of_value(name)
    # regular expressions and guesses would be slow for a text that is longer than any option
    if len(option) > _LONGEST:
        return _SEE_REFERENCE
    words = _words(option)
    return _as_written(words, alone=alone) if words[1:] or _is_known(words[0]) else _near(name)


def _near(name: str) -> str:
    import difflib  # lazy import: slow to import, and needed only for mistakes

    close = difflib.get_close_matches(name, [*ALLOWED, *_VERBOSE], n=1)
    if close and close[0] not in _VERBOSE:
        return f"did you mean {close[0]!r}?"
    return compiler_flags.REGISTERS if close else _SEE_REFERENCE


def _as_written(words: list[str], *, alone: bool) -> str:
    kept = [word for word in words if word not in _VERBOSE]
    if not kept:
        return compiler_flags.REGISTERS
    listed = ", ".join(map(repr, kept))
    shown = f"write [{listed}]" if alone and kept[1:] else f"write {listed}"
    return shown if len(kept) == len(words) else f"{shown}; {compiler_flags.INSPECT}"


def split_options(option: str) -> list[str]:
    """Return the options in a text such as `-Xptxas -O3,-v`, or an empty list if an option is unknown."""
    words = _words(option)
    return words if all(map(_is_known, words)) else []


def prints_registers(option: str) -> bool:
    """Return whether an option makes ptxas print the registers of each kernel, and has no other effect."""
    return option in _VERBOSE


def _words(option: str) -> list[str]:
    """Split a text with several options, and correct each option that is almost an allowed option."""
    bare = re.sub(rf"(?:{'|'.join(NVCC_PREFIXES)})[\s=,]+", "", option).strip()
    words = [re.sub(r"\s+", "=", word) for word in re.split(r"[\s,]+(?=-)", bare)]
    return [next(filter(_is_known, (word, f"-{word}", f"--{word}", word[1:])), word) for word in words]


def _is_known(option: str) -> bool:
    return option in _VERBOSE or is_allowed(option)


def _of_value(name: str) -> str:
    value = ALLOWED[name]
    if not value:
        return f"write {name!r}"
    values = [_EXAMPLES[value]] if value in _EXAMPLES else value.split("|")
    return f"write {' or '.join(repr(f'{name}={each}') for each in values)}"
