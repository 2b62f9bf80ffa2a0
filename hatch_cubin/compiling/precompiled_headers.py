"""Decide which variants of a source share a precompiled header, so that the headers are parsed only once.

A precompiled header is used only if it cannot change the results. If a header uses a macro that differs
between variants, the header is not precompiled, because these macros are defined after the includes.
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

# The fewest compiles for which a process precompiles a header. Precompiling takes as long as two or three
# compiles.
_PAYS_FROM = 4
# The most processes that precompile a header. Each of them needs 300 MB of memory and 300 MB on the disk.
_MOST = 8
# The fewest bytes of headers that are precompiled. Parsing smaller headers takes only a small part of a
# compile.
_WORTH_BYTES = 1 << 20
# The options that change line numbers or macros, and so do not work with precompiled headers.
_NOT_WITH = frozenset({"lineinfo", "debug", "pre_include", "undefine_macro"})
_INCLUDE = re.compile(
    r"(?:\s|//[^\n]*\n|/\*(?:[^*]|\*(?!/))*\*/)*"
    r'#[ \t]*include[ \t]*(?:"[^"\n]*"|<[^>\n]*>)[ \t\r]*(?://[^\n]*)?\n'
)
# names of macros that NVRTC's built-in header may use
_COMPILERS_OWN = re.compile(r"_|CUDA|NV|NDEBUG|NULL|NOMINMAX")
_PLAIN_VALUE = re.compile(r"[\w .,:<>()+*-]*")
_JOINED_LINES = re.compile(rb"(?:\\|\?\?/)\r?\n")
_PASTE = re.compile(rb"(?:#|%:|\?\?=){2}")  # Matches the preprocessor operator `##`, which joins two words.
_WORD = re.compile(rb"\w+")
# Matches a definition in PTX, except definitions inside a kernel, which are indented.
_DEFINED = re.compile(rb"^(?:\.\w+ )*\.(?:entry|func|global|const|shared)\b.*", re.MULTILINE)
_ARGUMENT = re.compile(
    r"(?<=L[a-z])n?[0-9]+(?=E)|\[[0-9]+\]| = .*"
)  # Numbers in a symbol or a PTX line: template arguments, array sizes and initial values.
# The most different orders of symbols in the results of a source. With more orders, most variants would be
# compiled twice.
_MOST_ORDERS = 4

Order: TypeAlias = tuple[tuple[str, bool], ...]


def end_of_includes(text: str) -> int:
    """Return the position after the includes at the beginning of a source; 0 without such includes."""
    end = 0
    while match := _INCLUDE.match(text, end):
        end = match.end()
    return 0 if "\\" in text[:end] or "??" in text[:end] else end


def may_use_macros(texts: Iterable[tuple[bytes, bool]], macros: Iterable[str]) -> bool:
    """Return whether headers may use one of the *macros*.

    *texts* contains a pair for each header: the bytes, and whether the header is part of the project. A
    header may use a macro if the header contains the macro's name, or if the header can build the name with
    the operator `##`. If a header of the project contains `##`, the function returns True, because the
    project can build any name with `##`. If only headers outside the project contain `##`, the function
    assumes that `##` joins two words of the headers, and returns True only if a macro's name consists of two
    of these words, or is itself one of the words.
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
    """Return which *jobs* to compile with a precompiled header, and where the includes of each source end.

    A precompiled header can be used for only one arch. If there are only a few jobs for each worker process,
    compiling without precompiled headers is faster.
    """
    if len(jobs) < _PAYS_FROM * workers:
        return {}
    groups: dict[object, list[int]] = defaultdict(list)
    for number, job in enumerate(jobs):
        module = job.unit.module
        if module.variant and module.source.is_cpp and not (module.is_tile or module.part_of or module.link):
            groups[module.source.path, job.unit.arch].append(number)
    ends: dict[str, int] = {}
    found: dict[int, int] = {}
    for numbers in groups.values():
        path = jobs[numbers[0]].unit.module.source.path
        if len(numbers) >= _PAYS_FROM and all(_is_plain(jobs[each]) for each in numbers):
            if path not in ends:  # The position where a source's includes end is the same for all archs.
                ends[path] = _end(jobs[numbers[0]], tree)
            found |= dict.fromkeys(numbers, ends[path])
    return {number: end for number, end in found.items() if end}


def choose_header(left: Mapping[int | None, Sized], held: int | None, others: Sequence[int]) -> int | None:
    """Choose the precompiled header for a worker's next task; None for a task without a precompiled header.

    *left* maps each precompiled header to the tasks that remain for this header. *held* is the header that
    the worker process has already precompiled, and *others* are the headers that the other worker processes
    have precompiled. The function chooses only among the keys of *left*: it prefers *held*, then a header
    that is not in *others*, then a task without a precompiled header (None), and last the header with the
    most tasks.
    """
    if held is not None and held in left:
        return held
    alone = (each for each in left if each is not None and each not in others)
    if (first := next(alone, None)) is not None or None in left:
        return first
    return max(left, key=lambda each: len(left[each]))


def saves_time(wanted: int, count: int, held: int | None, others: Sequence[int]) -> bool:
    """Return whether a worker process saves time if it precompiles a header for the next *count* tasks.

    *wanted* is the header that the tasks need. *held* is the header that the worker process has already
    precompiled, and *others* are the headers that the other worker processes have precompiled. Each worker
    process that precompiles the header *wanted* compiles a part of the *count* tasks.
    """
    if wanted == held:
        return True
    room = held is not None or len(others) < _MOST
    return room and count >= _PAYS_FROM * (others.count(wanted) + 1)


class PlainCompileCheck:
    """Checks that compiles with precompiled headers give the same results as plain compiles.

    A precompiled header can change the order of functions and variables in the compiled code, because the
    compiler then instantiates templates in the header earlier than in a plain compile (a compile without a
    precompiled header). Code that contains only kernels needs no plain compile, because it has no functions
    or variables whose order could change. If code contains variables, or functions that are not kernels, the
    same source is also compiled without a precompiled header. If the compiles with and without a precompiled
    header give the same result, the check accepts all later results with the same order of functions and
    variables.
    """

    def __init__(self) -> None:
        self._orders: dict[str, list[Order]] = defaultdict(list)
        self._served: Counter[str] = Counter()  # The number of accepted results for each source.
        self._doubted: dict[Unit, bytes] = {}
        self._differing: set[str] = set()

    def allows(self, unit: Unit) -> bool:
        """Return whether a unit may be compiled with a precompiled header.

        A precompiled header is allowed if no precompiled header has changed a result of the unit's source
        yet. A precompiled header is not allowed if the results for the source have many different orders of
        functions and variables, because each new order requires one more compile, without a precompiled
        header.
        """
        path = unit.module.source.path
        few = len(self._orders[path]) <= _MOST_ORDERS + self._served[path] // 2
        return few and path not in self._differing

    def accepts(self, unit: Unit, output: bytes, *, shared: bool, edited: bool = False) -> bool:
        """Return whether *output* may be used as the compiled code of a unit.

        If the output may not be used, the caller compiles the unit again without a precompiled header.

        *shared* says whether a precompiled header was used. *edited* says whether a header file was changed
        after it was precompiled.
        """
        path = unit.module.source.path
        if shared and (edited or not self._is_known_order(unit, output)):
            self._doubted[unit] = output
            return False
        self._served[path] += shared
        if unit in self._doubted:
            if self._doubted.pop(unit) != output:
                self._differing.add(path)
            elif not self._is_known_order(unit, output):
                self._orders[path].append(order_of(output, is_ptx=unit.arch.is_ptx))
        return True

    def _is_known_order(self, unit: Unit, output: bytes) -> bool:
        path, order = unit.module.source.path, order_of(output, is_ptx=unit.arch.is_ptx)
        agreed = [] if path in self._differing else self._orders[path]
        return not order or any(is_same_order(each, order) for each in agreed)


def order_of(output: bytes, *, is_ptx: bool) -> Order:
    """Return the names of the functions and variables in compiled code, in the order of the code.

    The value beside each name tells whether the compiler would omit the function or variable if the program
    did not use it. The compiler omits unused functions, and the static variables in unused functions. Return
    an empty tuple if the code contains only kernels.
    """
    try:
        if is_ptx:
            named = [(line.decode(), b".func" in line) for line in _DEFINED.findall(output)]
            named = [] if all(".entry" in line for line, _function in named) else named
        else:
            named = [*read_symbol_order(output)]
    except ValueError:
        named = [("unreadable", True)]  # The caller of the compiler reports damaged code.
    return tuple((name, fixed or "_ZZ" in name) for name, fixed in named)


def is_same_order(known: Order, order: Order) -> bool:
    """Return whether two orders of names are the same, apart from numbers in template arguments.

    Two names at the same position may have different numbers in their template arguments, with two
    exceptions. The names must be equal if *known* contains the second name at another position, because a use
    of the function in a header may have moved the function. The names must also be equal if the compiler
    omits the function when no code uses it, because the position of this function depends on whether a header
    uses it.
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
    """Return a module without the macros in `variants`, for compiling the headers that all variants share."""
    names = tuple(name for name, _value in module.variant)
    return replace(module, variant=(), undefined=names)


def behind_includes(module: Module, end: int) -> str:
    """Return a `#define` line for each macro of the variant, and then the source text after the includes."""
    text, variant = module.source.text, dict(module.variant)
    macros = "".join(f"#define {name} {value}\n" for name, value in module.macros if name in variant)
    return f'{macros}#line {text.count(chr(10), 0, end) + 1} "{module.source.path}"\n{text[end:]}'


def _is_plain(job: Job) -> bool:
    """Return whether `#define` lines after the includes can replace the options that define macros."""
    module = job.unit.module
    values = (value for _name, value in module.variant)
    return not _NOT_WITH & module.options.keys() and all(map(_PLAIN_VALUE.fullmatch, values))


def _end(job: Job, tree: ProjectTree) -> int:
    """Return where a source's includes end, or 0 if its headers must not be precompiled.

    Headers are not precompiled if they are so small that a precompiled header would save little time, or if
    they may use a variant's macros.
    """
    end = end_of_includes(job.unit.module.source.text)
    macros = [name for name, _value in job.unit.module.variant]
    if not end or job.closure.guessed or any(map(_COMPILERS_OWN.match, macros)):
        return 0
    try:
        headers = [_header(job, tree, logical) for logical in job.closure.files]
    except OSError:
        return 0
    # The values of all other macros are checked too: a header may use a macro whose value contains a macro of
    # the variants.
    values = [(value.encode(), True) for name, value in job.unit.module.macros if name not in macros]
    size = sum(len(text) for text, _own in headers)
    return end if size >= _WORTH_BYTES and not may_use_macros([*headers, *values], macros) else 0


def _header(job: Job, tree: ProjectTree, logical: str) -> tuple[bytes, bool]:
    """Return the bytes of a header, and whether the header is part of the project."""
    return header_path(job, tree, logical).read_bytes(), logical.startswith(OWN)


def header_path(job: Job, tree: ProjectTree, logical: str) -> Path:
    """Return the path of the header that has the name *logical* in cache keys."""
    roots = ((root.logical, root.path) for root in job.search)
    for name, folder in roots:
        if logical.startswith(f"{name}/") and (path := folder / logical[len(name) + 1 :]).is_file():
            return path
    return tree.disk_path(logical[len(OWN) :]) if logical.startswith(OWN) else Path(logical)
