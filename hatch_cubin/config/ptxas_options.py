"""Which options of ptxas a project may set, and what each of them takes. Pure.

The listed options only change code and warnings. ptxas knows more options than its help shows, and some of
them create files. So an option that is not listed here is refused, whatever it may do.

Measured with ptxas, NVRTC and nvJitLink of CUDA 12.9, 13.0 and 13.5: each string is one option. No release
takes the beginning of a name for the name, or separates options at a comma or a blank. But an option that
needs a value and has none takes the next string as its value, and a string without a hyphen names a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_SWITCH = ""
_BOOLEAN = "true|false"
_NUMBER = "[0-9]{1,4}"
_REGISTERS = f"{_NUMBER}|archmax|archmin"
_BLOCK = r"[0-9]{1,4}(?:,[0-9]{1,4}){0,2}"
_CACHE = "ca|cg|cs|cv|lu|wb|wt"
_LEVEL = "0|min|mid|max"
_KERNELS = "[A-Za-z_][A-Za-z0-9_]*(?:,[A-Za-z_][A-Za-z0-9_]*)*"
_TOOL = "memcheck|threadsteer"

# Each long name, the short one behind a slash where ptxas has another one.
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
        suppress-stack-size-warning verbose/v verbose2/v2 warn-on-double-precision-use/warn-double-usage
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

_FILE = "it names a file, and a unit's key cannot see what ptxas reads or writes there"
_NOT_LOADABLE = "its result cannot be loaded as a kernel"
_NO_RESULT = "ptxas prints something and compiles nothing"
_REASONS = {
    _FILE: """
        apply-controls compiler-stats-file fdevice-time-trace input-as-string/ias options-file/optf
        output-file/o
    """,
    _NOT_LOADABLE: """
        compile-as-tools-patch/astoolspatch compile-only/c extensible-whole-program/ewp preserve-relocs
    """,
    _NO_RESULT: "help/h list-arch/arch-ls list-version/version-ls version/V",
    "targets are set with 'archs'": "gpu-name/arch machine/m",
    "ptxas would use descriptors or pipes that the environment names": "jobserver",
    "it prints where nobody reads": "compiler-stats",
}


def _spelled(names: Mapping[str, str]) -> dict[str, str]:
    """Return what each name has, by all spellings of the name."""
    found: dict[str, str] = {}
    for of_it, group in names.items():
        for name in group.split():
            long, _slash, short = name.partition("/")
            found |= {f"--{long}": of_it, f"-{short or long}": of_it}
    return found


ALLOWED: Mapping[str, str] = _spelled(_NAMES)  # the pattern of the value, empty where there is none
REFUSED: Mapping[str, str] = _spelled(_REASONS)  # the reason
_OF_KERNELS = frozenset(_spelled({_KERNELS: _NAMES[_KERNELS]}))
LEVELS = "-O[0-9]"  # ptxas takes this one value without a "="
# The whole list as one expression, for the schema that editors read too.
PATTERN = "|".join([f"{name}=(?:{value})" if value else name for name, value in ALLOWED.items()] + [LEVELS])

HANDED_ON = ("-Xptxas", "--ptxas-options")  # as nvcc hands options on to ptxas
_LONGEST = 200
_WHERE = "the reference lists what can be set, under 'Options of ptxas'; ask for another one in an issue"


def is_allowed(option: str) -> bool:
    """Say whether an option of ptxas can be set, with the value that it has."""
    return re.fullmatch(PATTERN, option) is not None


def names_kernels(options: Iterable[str]) -> bool:
    """Say whether options tell ptxas by name which kernels of a source its result has."""
    return not _OF_KERNELS.isdisjoint(option.partition("=")[0] for option in options)


def check(option: str) -> str:
    """Return an option of ptxas as it is; ValueError says why it cannot be set."""
    if is_allowed(option):
        return option
    name, is_set, _value = option.partition("=")
    if reason := REFUSED.get(name):
        raise ValueError(f"must not hold {option!r}: {reason}")
    if name not in ALLOWED:
        raise ValueError(f"must not hold {option!r}, which is not one of the ptxas options that can be set")
    if not ALLOWED[name]:
        raise ValueError(f"must not hold {option!r}: {name} takes no value")
    raise ValueError(f"must not hold {option!r}: {name} {'takes another' if is_set else 'needs a'} value")


def meant(option: str, *, alone: bool = False) -> str | None:
    """Return what an option that cannot be set may have been meant as, or where to look.

    Several that were written as one that stands *alone* need an array.
    """
    name = option.partition("=")[0]
    if option in HANDED_ON:
        return f"leave {name!r} out: these options are all for ptxas"
    if name in REFUSED:
        return None
    if name in ALLOWED:
        return _of_value(name)
    if len(option) > _LONGEST:  # patterns and guesses would take long
        return _WHERE
    import difflib

    if written := rewritten(option):
        listed = ", ".join(map(repr, written))
        return f"write [{listed}]" if alone and written[1:] else f"write {listed}"
    close = difflib.get_close_matches(name, ALLOWED, n=1)
    return f"did you mean {close[0]!r}?" if close else _WHERE


def rewritten(option: str) -> list[str]:
    """Return the options that a text has in another way of writing; none if one of them cannot be set."""
    bare = re.sub(rf"(?:{'|'.join(HANDED_ON)})[\s=,]+", "", option).strip()
    words = [re.sub(r"\s+", "=", word) for word in re.split(r"[\s,]+(?=-)", bare)]
    found = [next(filter(is_allowed, (word, f"-{word}", f"--{word}")), None) for word in words]
    return [each for each in found if each is not None] if None not in found else []


def _of_value(name: str) -> str:
    value = ALLOWED[name]
    if not value:
        return f"write {name!r}"
    values = [_EXAMPLES[value]] if value in _EXAMPLES else value.split("|")
    return f"write {' or '.join(repr(f'{name}={each}') for each in values)}"
