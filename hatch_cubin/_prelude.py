"""Which includes a source's variants have in common, so that a compiler can parse them once for many.

Only where that cannot change a byte: the macros that differ are then defined after the includes, so no header
may know them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from ._jobs import Job
from ._plan import Module

_PAYS_FROM = 4  # compiles in one process: to precompile takes as long as two of them, or three
_MOST = 8  # processes that do so at once: each takes 300 MB of memory, and as much of disk
_WORTH_BYTES = 1 << 20  # of headers, below which parsing is no great part of a compile
_KEEPS_PLACES = frozenset(
    {"lineinfo", "debug", "pre_include"}
)  # what names, or adds to, the source's own lines
_INCLUDE = re.compile(
    r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*"
    r'#[ \t]*include[ \t]*(?:"[^"\n]*"|<[^>\n]*>)[ \t\r]*(?://[^\n]*)?\n'
)
_COMPILERS_OWN = re.compile(r"_|CUDA|NV|NDEBUG")  # names that NVRTC's built-in header may know
_PLAIN_VALUE = re.compile(r"[\w .,:<>()+*-]*")
_JOINED_LINES = re.compile(rb"(?:\\|\?\?/)\r?\n")


def end_of_includes(text: str) -> int:
    """Return where the includes end that a text begins with; 0 where it begins otherwise."""
    end = 0
    while match := _INCLUDE.match(text, end):
        end = match.end()
    return 0 if "\\" in text[:end] or "??" in text[:end] else end


def names_any(text: bytes, macros: Iterable[str]) -> bool:
    """Say whether a header knows one of these macros by name."""
    names = b"|".join(re.escape(name.partition("(")[0].encode()) for name in macros)
    return re.search(rb"(?<!\w)(?:" + names + rb")(?!\w)", _JOINED_LINES.sub(b"", text)) is not None


def shared_includes(jobs: Sequence[Job], project: Path, workers: int) -> dict[int, int]:
    """Return where the includes end in the source of each job, by its number, whose includes many share.

    A precompiled header serves one arch and one process, so that each of the *workers* makes its own.
    """
    if workers > _MOST:
        return {}
    groups: dict[object, list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        module = job.unit.module
        if module.variant and not module.source.is_ptx:
            groups[module.source.path, job.unit.arch].append(number)
    ends: dict[str, int] = {}
    found: dict[int, int] = {}
    for numbers in groups.values():
        path = jobs[numbers[0]].unit.module.source.path
        if len(numbers) >= _PAYS_FROM * workers and all(_is_plain(jobs[each]) for each in numbers):
            if path not in ends:  # the same for every arch
                ends[path] = _end(jobs[numbers[0]], project)
            found |= dict.fromkeys(numbers, ends[path])
    return {number: end for number, end in found.items() if end}


def without_variant(module: Module) -> Module:
    """Return a module without what tells it from the other variants of its source."""
    names = tuple(name for name, _value in module.variant)
    return replace(module, variant=(), undefined=names)


def behind_includes(module: Module, end: int) -> str:
    """Return how a source goes on behind its includes: the variant's macros, then the rest of its lines."""
    text, variant = module.source.text, dict(module.variant)
    macros = "".join(f"#define {name} {value}\n" for name, value in module.macros if name in variant)
    return f'{macros}#line {text.count(chr(10), 0, end) + 1} "{module.source.path}"\n{text[end:]}'


def _is_plain(job: Job) -> bool:
    """Say whether a unit's macros can as well be defined by directives, and nothing depends on where."""
    module = job.unit.module
    values = (value for _name, value in module.variant)
    return not _KEEPS_PLACES & module.options.keys() and all(map(_PLAIN_VALUE.fullmatch, values))


def _end(job: Job, project: Path) -> int:
    """Return where the includes of a source end, if its headers are many and know none of its variants."""
    end = end_of_includes(job.unit.module.source.text)
    macros = [name for name, _value in job.unit.module.variant]
    if not end or job.closure.trees or job.closure.computed or any(map(_COMPILERS_OWN.match, macros)):
        return 0
    size = 0
    for logical in job.closure.files:
        try:
            text = _path(job, project, logical).read_bytes()
        except OSError:
            return 0
        own = logical.startswith("project/")
        if names_any(text, macros) or (own and b"##" in text):  # which can make a name of two halves
            return 0
        size += len(text)
    return end if size >= _WORTH_BYTES else 0


def _path(job: Job, project: Path, logical: str) -> Path:
    """Return the file that a logical name of a closure means."""
    roots = ((root.logical, root.path) for root in job.search)
    for name, folder in (*roots, ("project", project)):
        if logical.startswith(f"{name}/") and (path := folder / logical[len(name) + 1 :]).is_file():
            return path
    return Path(logical)
