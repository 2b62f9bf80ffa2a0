"""Hints for sources that need a later C++ standard, an option, or a feature that CUDA has removed."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace

from ...errors import Location
from ..definitions import base_of
from ..diagnostics import Diagnostic, Explanation
from .failed_compile import FailedCompile
from .kernel_declarations import declared

_LATER = re.compile(
    r"\b(?:is|are) a C\+\+(20|23) feature|#error.*(?:requires|needs) (?:at least )?C\+\+ ?(\d\d)\b"
)
# Patterns of errors about features of C++20. Each pattern matches the compiler's message and the line of code
# after it. A "^" in this line marks the position of the error.
_OF_CXX20 = re.compile(
    r"\^(?:requires\s*[\w({]|(?:concept|consteval|constinit|co_await|co_yield)\s+\w)"
    r'|"auto" is not allowed here\n.*[(,]\s*(?:const\s+)?\^auto\b[\s*&.]+\w'
    r'|"auto" is not allowed here\n\s*(?:const\s+)?\^auto\b[\s*&.]+\w+\s*[,)]'
    r"|expected an expression\n.*[{,]\s*\^\.\s*\w+\s*[={]"
    r"|argument list for variable template .*\n.*\btemplate\s*<(?:[^>]*,)?\s*\^[\w:]+\s+\w"
)
_NEEDS_FLAG = re.compile(r'only supported in Linux with the "--([a-z0-9-]+)" flag')
_POINTER = "pass a pointer to device memory to the kernel"
# Maps patterns to hints. Each pattern matches a compiler's message and the line of code.
_MESSAGES = {
    r"too much shared data": (
        "__shared__ arrays with fixed sizes have at most 48 KiB: for more, declare an array without a size "
        "(extern __shared__), set the kernel's attribute MAX_DYNAMIC_SHARED_SIZE_BYTES, and pass the size to "
        "the launch"
    ),
    r"too much global constant data|Formal parameter space overflowed": _POINTER,
    r"without '\.sync' is not supported": (
        "use the function with _sync at the end of its name, and a mask of threads as its first argument"
    ),
    r"declaration is incompatible with previous .*\n.*\b__shared__\b": (
        "all extern __shared__ arrays of one name have one type: declare extern __shared__ __align__(16) "
        "char name[], and convert the pointer, as in reinterpret_cast<T *>(name)"
    ),
    r'more than one instance of overloaded function "\w+" has "C" linkage'
    r"|incompatible with previous .* \(declared (?:implicitly|at line \d+ of __nv_nvrtc_builtin)": (
        'another function, perhaps one of CUDA, has this name too: rename the kernel, or leave out extern "C"'
    ),
    r'no instance of overloaded function "__\w+_sync".*\n\s*argument types are: \((?!unsigned)': (
        "the first argument is a mask of the threads that take part, such as 0xffffffff for a whole warp"
    ),
    r"operand types are: (?:\w+[1-4] \S+|\w+ \S+ \w*[a-z][1-4]$)": (
        "vector types such as float4 have no operators: calculate with their members, or define the operators"
    ),
    r'namespace "std" has no member "(?:printf|malloc|free|clock)"': (
        "write this function of CUDA without std::, as in printf"
    ),
    r"\n.*\*\s*(?:const\s+)?restrict\b": "C++ does not have the keyword restrict: write __restrict__",
    r"\n.*\b__kernel__\b": "CUDA C++ marks a kernel with __global__, not with __kernel__",
    r"attributes are not permitted in a function definition.*\n.*\)\s*__\w+__\b": (
        "write marks such as __launch_bounds__ before the kernel's name"
    ),
    r"\n.*\bextern\s+C\b": 'write extern "C", with quotes',
}
_NEWER_PTX = re.compile(r"Unsupported \.version (\d+\.\d+)")
# Maps each version of PTX to the first value of `toolkit` that assembles it. ptxas of each minor version
# was tried. There is no wheel of CUDA 12.7. In CUDA 13.3.1, NVRTC and ptxas have different versions.
TOOLKITS = {
    "8.1": "12.1",
    "8.2": "12.2",
    "8.3": "12.3",
    "8.4": "12.4",
    "8.5": "12.5",
    "8.6": "12.8",
    "8.7": "12.8",
    "8.8": "12.9",
    "9.0": "13.0",
    "9.1": "13.1",
    "9.2": "13.2",
    "9.3": "13.3.0",
    "9.4": "13.4",
    "9.5": "13.5",
}
_ENTRY = re.compile(r"Entry function '([^']+)'")
_DIRECTIVES = ("include", "define", "ifdef", "ifndef", "elif", "else", "endif", "undef", "pragma", "error")
_REFERENCE = re.compile(r"(texture|surface) is not a template")


def needs_of_source(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Replace a source's errors by one error: a C++ standard, an option or a feature of CUDA is missing."""
    for each in found:
        if each.hint is None and (hint := _about(each, failed)) is not None:
            others = [other for other in found if each.is_own and not _follows(other, each)]
            told = replace(each, where=_place_of_kernel(each, failed) or each.where, hint=hint)
            return told.followed_by(len(found) - len(others) - 1), others
    return None


def _follows(other: Diagnostic, error: Diagnostic) -> bool:
    return other.where == error.where or other.text.startswith("At end of source")


def _place_of_kernel(error: Diagnostic, failed: FailedCompile) -> Location | None:
    """Return the source line of the kernel that is named in a message of ptxas."""
    match = _ENTRY.match(error.text)
    kernels = declared(
        {path: failed.text_of(path) for path in (failed.path, *failed.headers)} if match else {}
    )
    return next((each.where for each in kernels if match and each.base == base_of(match[1])), None)


def _about(error: Diagnostic, failed: FailedCompile) -> str | None:
    if (standard := _standard(error, failed)) is not None:
        return f"to compile as C++{standard}:{failed.pasted('options', {'std': f'c++{standard}'})}"
    if match := _NEEDS_FLAG.search(error.text):
        return f"to allow this with an option:{failed.pasted('options', {match[1]: True})}"
    if match := _NEWER_PTX.search(error.text):
        return _about_ptx(match[1])
    shown = "\n".join((error.text, *(error.context[:1] if error.is_own else ())))
    if hint := next((hint for pattern, hint in _MESSAGES.items() if re.search(pattern, shown)), None):
        return hint
    if match := _REFERENCE.search(error.text):
        return (
            f"CUDA 12 and later do not have {match[1]} references: "
            f"pass a cuda{match[1].title()}Object_t to the kernel instead"
        )
    return _about_syntax(error)


def _about_ptx(version: str) -> str:
    """Return a hint for a PTX source whose version is newer than the toolkit."""
    if (release := TOOLKITS.get(version)) is None:
        return (
            f"this version of hatch-cubin knows no release of CUDA that can read PTX {version}: "
            "make the PTX again with the compiler of this toolkit, or with an older compiler"
        )
    return (
        "make the PTX again with the compiler of this toolkit, or with an older compiler, "
        f'or write toolkit = "{release}"'
    )


def _about_syntax(error: Diagnostic) -> str | None:
    code, mark = (*error.context[:2], "", "")[:2]
    if error.text == 'expected a ";"' and mark.strip() == "^":
        before, at = code[: mark.index("^")], code[mark.index("^") :]
        is_first = not before.strip() and not at.startswith("{")
        return "the ; at the end of the code before this line is missing" if is_first else None
    if error.text == "unrecognized preprocessing directive":
        words = code.partition("#")[2].split(maxsplit=1)
        close = difflib.get_close_matches(words[0], _DIRECTIVES, n=1) if words else ()
        return f"did you mean #{close[0]}?" if close else "a comment in CUDA C++ begins with //"
    return None


def _standard(error: Diagnostic, failed: FailedCompile) -> str | None:
    """Return the C++ standard that the code in an error needs; None if the project already uses it."""
    if match := _LATER.search(error.text):
        return match[1] or match[2]
    code, mark = (*error.context[:2], "", "")[:2]
    is_later = str(failed.module.options.get("std", ""))[-2:] in {"20", "23"}
    if not error.is_own or is_later or mark.strip() != "^":
        return None
    at = mark.index("^")
    return "20" if _OF_CXX20.search(f"{error.text}\n{code[:at]}^{code[at:]}") else None
