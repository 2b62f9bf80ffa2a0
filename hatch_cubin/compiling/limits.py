"""Warn about kernels that no GPU can launch, and about kernels that do nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping

from ..cubin import elf
from ..errors import Location, Problem, problem
from ..project.source import without_comments
from .hints.kernel_declarations import declared

# Limits for kernels, from "Technical Specifications per Compute Capability" in the CUDA programming guide.
# These limits are the same for all GPUs.
_MOST_THREADS = 1024
_DEEPEST = 64  # The largest third dimension of a block, in threads.
_MOST_STACK = 512 * 1024
_MOST_BLOCKS_PORTABLE = 8
_MOST_BLOCKS = 16
# Matches the end of an empty kernel: its body has at most marks such as `(void)x;` and `return;`.
_NOTHING = re.compile(r"(?:\s*(?:(?:\(void\)\s*\w+|return|\[\[.*?\]\])?\s*;))*\s*\}")


def exceeded(
    data: bytes, kernels: Mapping[str, str], texts_of: Callable[[], Mapping[str, str]], source: str, arch: str
) -> list[Problem]:
    """Return a problem for each kernel of a cubin that exceeds a limit of GPUs, or that does nothing.

    *kernels* maps the name of each kernel to its symbol in the cubin. The function *texts_of* returns a
    mapping from the path of *source* and of each header of the project to the text of the file. *arch* is the
    arch of the cubin.
    """
    try:
        limits, resources, empty = elf.read_limits(data), elf.read_resources(data), elf.empty_kernels(data)
    except ValueError:
        # The result is not a cubin (for example, LTO-IR), or is a cubin with an unknown layout.
        return []
    names = {symbol: name for name, symbol in kernels.items()}
    found: list[Problem] = []
    for symbol, limit in sorted(limits.items()):
        name = names.get(symbol, symbol)
        wrong = _exceeded(f"kernel {name!r}", limit, resources[symbol]["stack"])
        found += [each._replace(where=_place(name, texts_of(), source)) for each in wrong]
        if symbol in empty:
            found += [each for each in _without_code(name, arch, texts_of()) if each not in found]
    return found


def _without_code(name: str, arch: str, texts: Mapping[str, str]) -> Iterator[Problem]:
    """Yield a problem for a kernel whose compiled code is empty, although its function body is not empty."""
    kernel = next((each for each in declared(texts) if each.base == _base(name)), None)
    if kernel is not None and not _NOTHING.fullmatch(kernel.code.partition("{")[2]):
        what = f"kernel {kernel.name!r} does nothing: its compiled code for {arch} is empty"
        hint = (
            "check the conditions in the kernel's body, such as #if __CUDA_ARCH__, "
            "and check that the kernel stores its results"
        )
        yield problem("empty-kernel", what, kernel.where, hint)


def _base(name: str) -> str:
    return name.partition("<")[0].partition("(")[0].rpartition("::")[2]


def _exceeded(kernel: str, limits: Mapping[str, tuple[int, ...]], stack: int) -> Iterator[Problem]:
    required, most = limits.get("required_threads", ()), limits.get("max_threads", ())
    if math.prod(required) > _MOST_THREADS or required[2:] > (_DEEPEST,):
        shown = " x ".join(map(str, required))
        what = f"{kernel} requires blocks of {shown} threads, which no GPU can launch"
        hint = (
            f"a block can have at most {_MOST_THREADS} threads, and at most {_DEEPEST} in its third dimension"
        )
        yield problem("block-too-large", what, hint=hint)
    if math.prod(most) > _MOST_THREADS:
        threads = math.prod(most)
        what = f"{kernel} allows blocks of {threads} threads, but GPUs launch at most {_MOST_THREADS}"
        hint = f"set the kernel's __launch_bounds__ or .maxntid to {_MOST_THREADS} or less"
        yield problem("block-too-large", what, hint=hint)
    # "cluster" is a size that the code fixes. "max_cluster" limits a size that the launch sets.
    blocks = max(math.prod(limits.get("cluster", (1,))), *limits.get("max_cluster", (1,)))
    if blocks > _MOST_BLOCKS:
        what = f"{kernel} needs clusters of {blocks} blocks, which no GPU can launch"
        hint = f"all GPUs with clusters support clusters of up to {_MOST_BLOCKS_PORTABLE} blocks"
        yield problem("cluster-too-large", what, hint=hint)
    elif blocks > _MOST_BLOCKS_PORTABLE:
        what = f"{kernel} needs clusters of {blocks} blocks, which not every GPU can launch"
        hint = (
            f"all GPUs with clusters support up to {_MOST_BLOCKS_PORTABLE} blocks; larger clusters need the "
            "kernel's attribute CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
        )
        yield problem("cluster-too-large", what, hint=hint)
    if stack > _MOST_STACK:
        what = f"{kernel} needs {stack} bytes of stack for each thread, but a GPU has at most {_MOST_STACK}"
        hint = "replace large local arrays by a pointer to device memory"
        yield problem("stack-too-large", what, hint=hint)


def _place(name: str, texts: Mapping[str, str], source: str) -> Location:
    """Return the file and line of a kernel's declaration; only the file if the declaration is not found."""
    base = _base(name)
    if source.endswith(".ptx"):
        lines = without_comments(texts[source]).splitlines()
        found = (i for i, line in enumerate(lines, 1) if ".entry" in line and base in line)
        return Location(source, next(found, None))
    return next((each.where for each in declared(texts) if each.base == base), Location(source))
