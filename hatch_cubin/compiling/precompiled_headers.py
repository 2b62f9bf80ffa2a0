"""Decide which includes the variants of a source share, so that a compiler parses these once for many.

They are shared only where that cannot change a byte. The macros that tell variants apart are then defined
after the includes, so no header may know them.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence, Sized
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from ..cubin.elf import read_symbol_order
from ..headers.resolve import OWN
from ..keys.jobs import Job
from ..planning.unit_plan import Module, Unit
from ..project.source_roots import ProjectTree

_PAYS_FROM = 4  # compiles in one process: to precompile takes as long as two of them, or three
_MOST = 8  # processes with a precompiled header: each takes 300 MB of memory, and as much of disk
_WORTH_BYTES = 1 << 20  # of headers, below which parsing is no great part of a compile
_NOT_WITH = frozenset({"lineinfo", "debug", "pre_include", "undefine_macro"})  # for lines, or macros
_INCLUDE = re.compile(
    r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*"
    r'#[ \t]*include[ \t]*(?:"[^"\n]*"|<[^>\n]*>)[ \t\r]*(?://[^\n]*)?\n'
)
_COMPILERS_OWN = re.compile(r"_|CUDA|NV|NDEBUG|NULL|NOMINMAX")  # names that NVRTC's built-in header may know
_PLAIN_VALUE = re.compile(r"[\w .,:<>()+*-]*")
_JOINED_LINES = re.compile(rb"(?:\\|\?\?/)\r?\n")
_PASTE = re.compile(rb"(?:#|%:|\?\?=){2}")  # makes one word of two
_WORD = re.compile(rb"\w+")
# Definitions in PTX; what only one kernel uses is indented, and not meant.
_DEFINED = re.compile(rb"^(?:\.\w+ )*\.(?:entry|func|global|const|shared)\b.*", re.MULTILINE)
_ARGUMENT = re.compile(r"(?<=L[a-z])n?[0-9]+(?=E)|\[[0-9]+\]| = .*")  # of templates; also sizes and values
_MOST_ORDERS = 4  # of a source, before any is of use: if each variant had its own, all would compile twice

Order: TypeAlias = tuple[tuple[str, bool], ...]


def end_of_includes(text: str) -> int:
    """Return where the includes at the beginning of a text end; 0 where there are none, or odd ones."""
    end = 0
    while match := _INCLUDE.match(text, end):
        end = match.end()
    return 0 if "\\" in text[:end] or "??" in text[:end] else end


def know_any(texts: Iterable[tuple[bytes, bool]], macros: Iterable[str]) -> bool:
    """Say whether headers can know one of these macros.

    *texts* are those of the headers, each with whether it is the project's. A header knows a macro if it has
    the name, or may paste it together. One that pastes may make any name in the project, and elsewhere a name
    of two words.
    """
    words: set[bytes] = set()
    pasted = False
    for text, own in texts:
        joined = _JOINED_LINES.sub(b"", text)
        words.update(_WORD.findall(joined))
        pastes = _PASTE.search(joined) is not None
        if pastes and own:
            return True
        pasted = pasted or pastes
    names = (name.partition("(")[0].encode() for name in macros)
    return any(name in words or (pasted and _is_made_of(name, words)) for name in names)


def _is_made_of(name: bytes, words: Container[bytes]) -> bool:
    return any(name[:at] in words and name[at:] in words for at in range(1, len(name)))


def shared_includes(jobs: Sequence[Job], tree: ProjectTree, workers: int) -> dict[int, int]:
    """Return the numbers of the jobs that share their includes, each with the end of these in its source.

    A precompiled header serves one arch. With few jobs for each worker, all are done sooner without any.
    """
    if len(jobs) < _PAYS_FROM * workers:
        return {}
    groups: dict[object, list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        module = job.unit.module
        if module.variant and not (module.source.is_ptx or module.part_of or module.link):
            groups[module.source.path, job.unit.arch].append(number)
    ends: dict[str, int] = {}
    found: dict[int, int] = {}
    for numbers in groups.values():
        path = jobs[numbers[0]].unit.module.source.path
        if len(numbers) >= _PAYS_FROM and all(_is_plain(jobs[each]) for each in numbers):
            if path not in ends:  # the same for every arch
                ends[path] = _end(jobs[numbers[0]], tree)
            found |= dict.fromkeys(numbers, ends[path])
    return {number: end for number, end in found.items() if end}


def choose(left: Mapping[int | None, Sized], held: int | None, others: Sequence[int]) -> int | None:
    """Return the prelude whose tasks a worker goes on with; None for the tasks without a prelude.

    It is the first of these with tasks left: the prelude *held*, which the worker has precompiled; one that
    none of the *others* has; none; the one with the most tasks left.
    """
    if held is not None and held in left:
        return held
    alone = (each for each in left if each is not None and each not in others)
    if (first := next(alone, None)) is not None or None in left:
        return first
    return max(left, key=lambda each: len(left[each]))


def pays(wanted: int, count: int, held: int | None, others: Sequence[int]) -> bool:
    """Say whether a worker is done sooner if it precompiles the prelude *wanted*, which so many tasks need.

    *held* is the prelude that it has. Those *others* that have *wanted* too do their share of the tasks.
    """
    if wanted == held:
        return True
    room = held is not None or len(others) < _MOST
    return room and count >= _PAYS_FROM * (others.count(wanted) + 1)


class Trust:
    """Decides which results made with precompiled headers are those of the plain compile.

    With precompiled headers, templates that the headers' own functions use are instantiated sooner. So
    functions and variables may come in another order. A result with kernels alone has no such order, and is
    believed. Any other unit is compiled again without precompiled headers. If that makes no difference, later
    results in the same order are believed.
    """

    def __init__(self) -> None:
        self._orders: dict[str, list[Order]] = defaultdict(list)
        self._served: Counter[str] = Counter()  # how many were taken
        self._doubted: dict[Unit, bytes] = {}
        self._differing: set[str] = set()

    def allows(self, unit: Unit) -> bool:
        """Say whether a unit's headers may be precompiled.

        They may as long as all results of its source agreed with the plain compile, in only a few orders.
        """
        path = unit.module.source.path
        few = len(self._orders[path]) <= _MOST_ORDERS + self._served[path] // 2
        return few and path not in self._differing

    def accepts(self, unit: Unit, output: bytes, *, shared: bool, edited: bool = False) -> bool:
        """Say whether a result can be taken; if not, the unit is compiled again without a precompiled header.

        *shared* says that the result was made with one, *edited* that headers were written in the meantime.
        """
        path = unit.module.source.path
        if shared and (edited or not self._believes(unit, output)):
            self._doubted[unit] = output
            return False
        self._served[path] += shared
        if unit in self._doubted:
            if self._doubted.pop(unit) != output:
                self._differing.add(path)
            elif not self._believes(unit, output):
                self._orders[path].append(order_of(output, is_ptx=unit.arch.is_ptx))
        return True

    def _believes(self, unit: Unit, output: bytes) -> bool:
        path, order = unit.module.source.path, order_of(output, is_ptx=unit.arch.is_ptx)
        agreed = [] if path in self._differing else self._orders[path]
        return not order or any(are_alike(each, order) for each in agreed)


def order_of(output: bytes, *, is_ptx: bool) -> Order:
    """Return the names of what a result has, in their order, and whether each is left out if nobody uses it.

    Functions and their static variables are left out then. A result with kernels alone has no order.
    """
    try:
        if is_ptx:
            named = [(line.decode(), b".func" in line) for line in _DEFINED.findall(output)]
            named = [] if all(".entry" in line for line, _function in named) else named
        else:
            named = [*read_symbol_order(output)]
    except ValueError:
        named = [("unreadable", True)]  # whoever takes the result reports that
    return tuple((name, fixed or "_ZZ" in name) for name, fixed in named)


def are_alike(known: Order, order: Order) -> bool:
    """Say whether two orders are the same, apart from numbers that are arguments of templates.

    A name may differ in such numbers on two conditions. It is not among the *known* names, for a header may
    use those. And what it names is never left out, as an unused function is: a header may use a function,
    which then comes sooner.
    """
    taken = {name for name, _optional in known}
    return len(known) == len(order) and all(
        one == other
        or (not other[1] and other[0] not in taken and _numberless(one[0]) == _numberless(other[0]))
        for one, other in zip(known, order, strict=True)
    )


def _numberless(name: str) -> str:
    return _ARGUMENT.sub("", name)


def without_variant(module: Module) -> Module:
    """Return a module without the macros that tell it from the other variants of its source."""
    names = tuple(name for name, _value in module.variant)
    return replace(module, variant=(), undefined=names)


def behind_includes(module: Module, end: int) -> str:
    """Return how a source goes on behind its includes: the variant's macros, then the rest of its lines."""
    text, variant = module.source.text, dict(module.variant)
    macros = "".join(f"#define {name} {value}\n" for name, value in module.macros if name in variant)
    return f'{macros}#line {text.count(chr(10), 0, end) + 1} "{module.source.path}"\n{text[end:]}'


def _is_plain(job: Job) -> bool:
    """Say whether `#define` lines after the includes can take the place of a unit's options for macros."""
    module = job.unit.module
    values = (value for _name, value in module.variant)
    return not _NOT_WITH & module.options.keys() and all(map(_PLAIN_VALUE.fullmatch, values))


def _end(job: Job, tree: ProjectTree) -> int:
    """Return where a source's includes end; 0 unless its headers are large and know no macro of a variant."""
    end = end_of_includes(job.unit.module.source.text)
    macros = [name for name, _value in job.unit.module.variant]
    if not end or job.closure.guessed or any(map(_COMPILERS_OWN.match, macros)):
        return 0
    try:
        headers = [_header(job, tree, logical) for logical in job.closure.files]
    except OSError:
        return 0
    # The value of another macro may name one of these macros, and a header may use that other one.
    values = [(value.encode(), True) for name, value in job.unit.module.macros if name not in macros]
    size = sum(len(text) for text, _own in headers)
    return end if size >= _WORTH_BYTES and not know_any([*headers, *values], macros) else 0


def _header(job: Job, tree: ProjectTree, logical: str) -> tuple[bytes, bool]:
    """Return a header's text, and whether it is the project's."""
    return header_path(job, tree, logical).read_bytes(), logical.startswith(OWN)


def header_path(job: Job, tree: ProjectTree, logical: str) -> Path:
    """Return the file that a logical name of a closure means."""
    roots = ((root.logical, root.path) for root in job.search)
    for name, folder in roots:
        if logical.startswith(f"{name}/") and (path := folder / logical[len(name) + 1 :]).is_file():
            return path
    return tree.disk_path(logical[len(OWN) :]) if logical.startswith(OWN) else Path(logical)
