"""Warn about kernels that compile but need more than a GPU offers for one launch. Does no I/O."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping

from ..cubin import elf
from ..errors import Location, Problem, problem
from ..project.source import without_comments
from .hints.kernel_declarations import declared

# From "Technical Specifications per Compute Capability" in the CUDA programming guide. All GPUs have the same
# limits.
_MOST_THREADS = 1024
_DEEPEST = 64  # limit of a block's third dimension
_MOST_STACK = 512 * 1024
_MOST_BLOCKS_PORTABLE = 8
_MOST_BLOCKS = 16


def exceeded(
    data: bytes, kernels: Mapping[str, str], texts_of: Callable[[], Mapping[str, str]], source: str
) -> list[Problem]:
    """Return a problem for each kernel of a cubin that needs more than GPUs offer.

    *kernels* maps the names that people write to symbols. *texts_of* returns the texts of *source* and of the
    project's headers, by path.
    """
    try:
        limits, resources = elf.read_limits(data), elf.read_resources(data)
    except ValueError:  # for example LTO-IR, or an unknown layout
        return []
    names = {symbol: name for name, symbol in kernels.items()}
    found: list[Problem] = []
    for symbol, limit in sorted(limits.items()):
        name = names.get(symbol, symbol)
        wrong = _exceeded(f"kernel {name!r}", limit, resources[symbol]["stack"])
        found += [each._replace(where=_place(name, texts_of(), source)) for each in wrong]
    return found


def _exceeded(kernel: str, limits: Mapping[str, tuple[int, ...]], stack: int) -> Iterator[Problem]:
    required, most = limits.get("required_threads", ()), limits.get("max_threads", ())
    if math.prod(required) > _MOST_THREADS or required[2:] > (_DEEPEST,):
        shown = " x ".join(map(str, required))
        what = f"{kernel} requires blocks of {shown} threads, which no GPU can launch"
        hint = f"a block has {_MOST_THREADS} threads at most, and {_DEEPEST} in its third dimension"
        yield problem("block-too-large", what, hint=hint)
    if math.prod(most) > _MOST_THREADS:
        threads = math.prod(most)
        what = f"{kernel} allows blocks of {threads} threads, and no GPU launches more than {_MOST_THREADS}"
        hint = f"give its __launch_bounds__, or its .maxntid, {_MOST_THREADS} or less"
        yield problem("block-too-large", what, hint=hint)
    # "cluster" is a fixed size, "max_cluster" the limit for a size given at launch.
    blocks = max(math.prod(limits.get("cluster", (1,))), *limits.get("max_cluster", (1,)))
    if blocks > _MOST_BLOCKS:
        what = f"{kernel} asks for clusters of {blocks} blocks, which no GPU can launch"
        hint = f"a cluster has {_MOST_BLOCKS_PORTABLE} blocks at most on every GPU that has clusters"
        yield problem("cluster-too-large", what, hint=hint)
    elif blocks > _MOST_BLOCKS_PORTABLE:
        what = f"{kernel} asks for clusters of {blocks} blocks, which not every GPU can launch"
        hint = (
            f"{_MOST_BLOCKS_PORTABLE} are the most that every GPU with clusters has; more need the "
            "kernel's attribute CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
        )
        yield problem("cluster-too-large", what, hint=hint)
    if stack > _MOST_STACK:
        what = f"{kernel} has {stack} bytes of stack for each thread, and a GPU has {_MOST_STACK} at most"
        hint = "give it a pointer to device memory in place of its large local arrays"
        yield problem("stack-too-large", what, hint=hint)


def _place(name: str, texts: Mapping[str, str], source: str) -> Location:
    """Return the location of a kernel's declaration; without a line if no text has it."""
    base = name.partition("<")[0].partition("(")[0].rpartition("::")[2]
    if source.endswith(".ptx"):
        lines = without_comments(texts[source]).splitlines()
        found = (i for i, line in enumerate(lines, 1) if ".entry" in line and base in line)
        return Location(source, next(found, None))
    return next((each.where for each in declared(texts) if each.base == base), Location(source))
