"""Find the units that contain a kernel, by the kernel's name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..cache.entries import Cache
from ..keys.jobs import Job
from ..planning.unit_plan import Module
from ..project.source import Source, ptx_entries

_KERNEL = re.compile(r"\b__(?:tile_)?global__\s+(?:\w+(?:\s*\([^()]*\))?\s+)*([^\W\d]\w*)\s*\(")


def units_by_kernel(jobs: Sequence[Job], cache: Cache) -> dict[str, list[Job]]:
    """Return a mapping from the name of each kernel to the units that contain the kernel.

    Names of kernels come from the project's configuration, from the sources and from the cache.

    A kernel of a variant is listed under two names, such as `reduce` and `reduce[BLOCK=64]`.
    """
    found: dict[str, list[Job]] = {}
    for job in jobs:
        module = job.unit.module
        if module.part_of:
            continue
        hit = job.cached_result(cache)
        for kernel in {*_kernel_names(module), *(hit.kernels if hit else ())}:
            for name in {kernel, kernel + module.name[len(module.base) :]}:
                found.setdefault(normalized_name(name), []).append(job)
    return found


def normalized_name(name: str) -> str:
    """Return a kernel's name in a uniform spelling: without blanks, and with a variant's macros sorted."""
    name = "".join(name.split())
    kernel, bracket, macros = name.removesuffix("]").partition("[")
    return f"{kernel}[{','.join(sorted(macros.split(',')))}]" if bracket else name


def _kernel_names(module: Module) -> Iterator[str]:
    yield from module.instantiate
    for source in _sources_of(module):
        if source.is_ptx:
            yield from ptx_entries(source.text)
        elif source.is_cpp:
            yield from _KERNEL.findall(source.text)


def _sources_of(module: Module) -> list[Source]:
    if module.link is None:
        return [module.source]
    return [*(each.source for each in module.link.objects), *module.link.texts]
