"""Find the units that have a kernel, by the name that a user has for it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..cache.entries import Cache
from ..keys.jobs import Job
from ..planning.unit_plan import Module
from ..project.source import Source, ptx_entries

_KERNEL = re.compile(r"\b__global__\s+(?:\w+(?:\s*\([^()]*\))?\s+)*([^\W\d]\w*)\s*\(")


def by_kernel(jobs: Sequence[Job], cache: Cache) -> dict[str, list[Job]]:
    """Return the units by the names of their kernels: those in the table, in the sources and in the cache.

    A kernel of a variant is there as `reduce` and as `reduce[BLOCK=64]`.
    """
    found: dict[str, list[Job]] = {}
    for job in jobs:
        module = job.unit.module
        if module.part_of:
            continue
        hit = job.found_in(cache)
        for kernel in {*_named(module), *(hit.kernels if hit else ())}:
            for name in {kernel, kernel + module.name[len(module.base) :]}:
                found.setdefault(plain(name), []).append(job)
    return found


def plain(name: str) -> str:
    """Return a name as it is compared: neither blanks nor the order of a variant's macros matter."""
    name = "".join(name.split())
    kernel, bracket, macros = name.removesuffix("]").partition("[")
    return f"{kernel}[{','.join(sorted(macros.split(',')))}]" if bracket else name


def _named(module: Module) -> Iterator[str]:
    yield from module.instantiate
    for source in _sources(module):
        if source.is_ptx:
            yield from ptx_entries(source.text)
        else:
            yield from _KERNEL.findall(source.text)


def _sources(module: Module) -> list[Source]:
    if module.link is None:
        return [module.source]
    return [*(each.source for each in module.link.objects), *module.link.texts]
