"""Warn about kernels that compile, but do not work as expected when a program launches them."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence

from ..cubin.symbol_types import parameter_types
from ..errors import Location, Problem, problem
from ..project.conditional_lines import surely_read
from ..project.source import Source, without_comments
from .hints.kernel_declarations import Kernel, declared

_MAY_TAKE_REFERENCES = re.compile(r"__global__[^{;]*&")
_REFERENCE = re.compile(r"[\w>*]\s*&\s*\w*\s*$")
_NO_THREADS = re.compile(r"__launch_bounds__\s*\(\s*(0[uU]?|-\s*\d+)\s*[,)]")


def found_in(source: Source, kernels: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for each kernel that has a reference parameter or `__launch_bounds__(0)`.

    *kernels* maps the name of each kernel to its symbol in the compiled code.
    """
    if not source.is_cpp:
        return
    shown = _declared_kernels(source.path, source.text) if _MAY_TAKE_REFERENCES.search(source.text) else ()
    for name, symbol in kernels.items():
        # The parameter types of an extern "C" kernel are unknown, because its symbol does not contain them.
        types = parameter_types(symbol)
        kernel = _declaration(name, shown)
        if _has_reference(kernel) if types is None else any(each.endswith("&") for each in types):
            what = f"kernel {name!r} has a parameter that is a reference, which a launch passes as an address"
            hint = (
                "pass the value, or a pointer to device memory, "
                "because a kernel cannot use an address of the host"
            )
            where = kernel.where if kernel else Location(source.path)
            yield problem("kernel-takes-reference", what, where, hint)
    if _NO_THREADS.search(source.text):
        for line, number in surely_read(source.text, frozenset()):
            if match := _NO_THREADS.search(line):
                what = f"the compiler ignores __launch_bounds__ of {match[1]} threads"
                hint = "write the number of threads of the largest block, or remove __launch_bounds__"
                yield problem("launch-bounds-ignored", what, Location(source.path, number), hint)


# cached: a build calls this function with the same text for each arch and variant
@functools.lru_cache(maxsize=64)
def _declared_kernels(path: str, text: str) -> tuple[Kernel, ...]:
    return declared({path: text})


def _declaration(name: str, shown: Sequence[Kernel]) -> Kernel | None:
    """Return the declaration of a kernel in the source's text; None if a header or a macro declares it."""
    base = name.partition("<")[0].rpartition("::")[2]
    return next((each for each in shown if each.base == base), None)


def _has_reference(kernel: Kernel | None) -> bool:
    code = without_comments(kernel.code) if kernel else ""
    listed = re.search(rf"\b{re.escape(kernel.base)}\s*\(([^()]*)\)", code) if kernel else None
    return any(_REFERENCE.search(each.partition("=")[0]) for each in (listed[1] if listed else "").split(","))
