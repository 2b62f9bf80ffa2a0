"""Link object files to modules: check the inputs, read the results, and explain errors.

nvJitLink links machine code even if a symbol is defined twice or declared differently, and reports this only
on standard error. nvJitLink may crash on damaged input, and does not report which input needs a missing
symbol. To report errors of the linker well, hatch-cubin itself compares the symbols of the inputs before
linking.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from .. import loader
from ..cache.entries import Compiled
from ..common import file_access, read_limits
from ..common.arch_names import parse_arch
from ..common.digest import file_digest
from ..config.toml_lines import setting
from ..cubin import elf, kernel_names, objects
from ..cubin.objects import LinkSymbols
from ..cubin.target import arch_of
from ..errors import HatchCubinError, Location
from ..keys.jobs import Job, request_of
from ..planning.unit_plan import Unit
from ..project.project import Project, read_sources
from ..project.source import Source, ptx_entries
from ..toolkit.linker import Input
from ..toolkit.requirements import device_runtime
from . import diagnostics
from .bake import Bake
from .definitions import Definition, base_of, definition, mention, plain_text, word_of
from .diagnostics import Diagnostic
from .executor import Result, Setup, Task
from .hints.conditions import certain_kernels
from .results import Results

_UNDEFINED = re.compile(r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'")
_TWICE = re.compile(
    r"Linking globals named '([^']+)': symbol multiply defined|Multiple definition of '([^']+)'"
)
_ABOUT = {  # Maps nvJitLink's message about two contradictory inputs to hatch-cubin's words.
    "Memory space doesn't match": "memory space",
    "Managed attribute doesn't match": "__managed__ attribute",
    "Size doesn't match": "size",
    "Prototype doesn't match": "parameters or result",
    "Duplicate weak parameter bank": "parameters",
}
_UNLIKE = re.compile(rf"({'|'.join(_ABOUT)}) for '([^']+)'")
_SIZES = re.compile(
    r"Size does not match for (\S+) in (.+) with size (\d+) specified in (.+) with size (\d+)"
)
_FUNCTION_ONCE = "define the symbol in one source and declare it in the others, or make it static or inline"
_KERNEL_ONCE = "rename one of the kernels, or define the kernel in one source of this module only"
# The hint does not propose `static`, because then each source would have its own variable, which the host
# cannot set.
_VARIABLE_ONCE = "declare the variable extern in the header and define it in one source, or make it inline"
_ALIKE = "use the same declaration as in the definition, in all inputs"
_NEWER = re.compile(r"may need newer version of nvJitLink|LTOIR arch newer than target arch")
_BAD = re.compile(r"bad input: ?(.*)$", re.MULTILINE)
_KERNEL = re.compile(r"__global__|\.entry\b")  # Matches a line of CUDA C++ or PTX that defines a kernel.
# If several static kernels are equal, nvJitLink adds a number to their symbols.
_COPY = re.compile(r"\$[0-9]+$")
_OPAQUE = ("fatbin", "library")  # the kinds of linker inputs whose symbols hatch-cubin cannot read
_OF_RUNTIME = ("__cudaCDP2", "cudaCDP", "cudaStream", "cudaEvent", "cudaDevice", "cudaMemcpy", "cudaMemset")
_NVSHMEM = "nvidia-nvshmem-cu{}:**/libnvshmem_device.a"

# The suffixes of archs. Code runs on all later archs without a suffix (sm_90), on a family with `f` (sm_90f),
# and on one arch with `a` (sm_90a).
_STRICTNESS = ("", "f", "a")

Content = tuple[str, bytes, bytes]  # An input of the linker: its kind, name and bytes.


class Links:
    """The linked modules of a build, with the inputs of the linker.

    If an input of a module is missing or wrong, the module is added to the failed units in *results*. Each
    input is read only once. An input that has changed since the module's cache key was made is an error.
    """

    def __init__(self, project: Project, jobs: Sequence[Job], results: Results) -> None:
        self._project, self._results = project, results
        self._contents: dict[Unit, tuple[Content, ...]] = {}
        self._symbols: dict[Unit, list[tuple[str, LinkSymbols]]] = {}
        # maps the digest of each input to the input's content, or to None if the content has changed
        self._read: dict[str, bytes | None] = {}
        self.ready = [job for job in jobs if self._is_ready(job)]

    def contents(self, unit: Unit) -> tuple[Content, ...]:
        """Return the inputs for linking a unit, in order."""
        return self._contents[unit]

    def probe(self, unit: Unit) -> tuple[tuple[bytes, ...], bytes]:
        """Return the symbols of inputs that are not LTO-IR, and C++ code that calls the inputs' functions.

        The worker process links the C++ code with the LTO-IR to find functions that are defined both in the
        LTO-IR and in another input.
        """
        symbols = [symbols for _name, symbols in self._symbols[unit]]
        defined = dict.fromkeys(name for each in symbols for name in each.strong if name.isidentifier())
        if not defined or all(kind != "lto" for kind, _name, _data in self._contents[unit]):
            return (), b""
        calls = [name for each in symbols for name in each.functions if name in defined]
        declared = "".join(f'extern "C" __device__ void {name}();\n' for name in calls)
        body = "".join(f" {name}();" for name in calls)
        code = f'{declared}extern "C" __global__ void hatch_cubin_probe() {{{body} }}\n'
        return tuple(name.encode() for name in defined), code.encode()

    def _is_ready(self, job: Job) -> bool:
        """Read and check the inputs for linking a module; return whether the module can be linked."""
        if any(each.unit is not None and each.unit not in self._results.done for each in job.linked):
            # The errors belong to the failed object file, so the linked module gets no errors of its own.
            self._results.failed.append((job.unit, []))
            return False
        wrong = list(self._load(job)) or [
            *(self._duplicate(job, *twice) for twice in self._defined_twice(job)),
            *self._disagreements(job),
        ]
        if wrong:
            self._results.failed.append((job.unit, wrong))
        return not wrong

    def _load(self, job: Job) -> Iterator[Diagnostic]:
        contents, symbols = list[Content](), list[tuple[str, LinkSymbols]]()
        for each in job.linked:
            if each.digest not in self._read:
                self._read[each.digest] = self._data(each)
            data = self._read[each.digest]
            if data is None:
                yield self._changed_input(job, each)
                continue
            if each.path is not None and each.kind == "lto":
                yield from self._doubts_about_lto(job, each, data, contents)
            if each.path is not None and each.kind == "cubin":
                yield from self._doubts_about_arch(job, each, data)
            contents.append((each.kind, each.name.encode(), data))
            if (found := objects.symbols_of(each.kind, data)) is not None:
                symbols.append((each.name, found))
        self._contents[job.unit], self._symbols[job.unit] = tuple(contents), symbols

    def _doubts_about_lto(
        self, job: Job, each: Input, data: bytes, before: Sequence[Content]
    ) -> Iterator[Diagnostic]:
        """Yield an error if nvJitLink cannot link a file of LTO-IR.

        The function checks the file before the link, because nvJitLink's own message would be unclear.
        """
        link = job.unit.module.link
        if link is not None and link.mode != "lto":
            yield self._error(
                "lto-mode-needed",
                f"{each.name} contains LTO-IR, which can be linked only with mode = 'lto'",
                job,
            )
        own = next((content for kind, _name, content in before if kind == "lto"), None)
        if own is not None and objects.is_newer_lto(data, own):
            what = (
                f"{each.name} contains LTO-IR of a compiler that is newer than "
                f"nvJitLink {job.toolkit.nvjitlink}"
            )
            hint = "use a file from this release of CUDA, or set 'toolkit' to a newer release"
            yield self._error("lto-too-new", what, job, hint=hint)

    def _doubts_about_arch(self, job: Job, each: Input, data: bytes) -> Iterator[Diagnostic]:
        """Yield an error if a linker input is a cubin that runs on fewer GPUs than the module.

        Some versions of nvJitLink accept a cubin that runs on fewer GPUs than the module.
        """
        target, real = job.unit.arch.real, arch_of(data)
        own = parse_arch(real) if real else target
        if _STRICTNESS.index(own.suffix) > _STRICTNESS.index(target.suffix):
            what = f"{each.name} contains code for {own}, which cannot be linked into code for {target}"
            hint = f"use a file that was built for {target}, or list {own} in 'archs'"
            yield self._error("link-input-for-other-arch", what, job, hint=hint)

    def _data(self, each: Input) -> bytes | None:
        """Return the content of a linker input; None if the content has changed since its digest was made."""
        if each.unit is not None:
            compiled = self._results.done[each.unit]
            return compiled.data if file_digest(compiled.data) == compiled.sha256 else None
        if each.path is None:
            return each.text
        with contextlib.suppress(OSError):
            data = file_access.read(each.path, read_limits.CODE)
            return data if file_digest(data) == each.digest else None
        return None

    def _changed_input(self, job: Job, each: Input) -> Diagnostic:
        if each.unit is None:
            what = f"{each.name} was changed during the build"
            return self._error("file-edited-during-build", what, job, hint="build again")
        what = f"the compiled result of {each.name} was changed during the build"
        return self._error("cache-edited-during-build", what, job, hint="build again")

    def _defined_twice(self, job: Job) -> Iterator[tuple[str, list[str]]]:
        """Yield each symbol that several inputs define, with the names of the inputs."""
        having: dict[str, list[str]] = defaultdict(list)
        for name, symbols in self._symbols[job.unit]:
            for symbol in symbols.strong:
                having[symbol].append(name)
        yield from ((symbol, inputs) for symbol, inputs in having.items() if len(inputs) > 1)

    def _duplicate(
        self,
        job: Job,
        symbol: str,
        inputs: Sequence[str],
        hint: str | None = None,
        opaque: Sequence[str] = (),
    ) -> Diagnostic:
        """Return an error for a symbol that *inputs* define, and perhaps some of the *opaque* inputs too."""
        texts = {source.path: source for source in _sources(job)}
        places = [str(_location(symbol, texts[name]) or name) if name in texts else name for name in inputs]
        label = _symbol_label(symbol)
        what = f"{label} is defined more than once, probably by a header that several sources include"
        if places:
            what = f"{label} is defined more than once, by {' and by '.join(places)}"
        if opaque:
            by = f", by {places[0]}" if places else ""
            what = f"{label} is defined more than once{by}; these inputs may define it: {', '.join(opaque)}"
        return self._error("symbol-defined-twice", what, job, hint=hint or self._once(job, symbol))

    def _once(self, job: Job, symbol: str) -> str:
        """Return a hint that explains how to define a symbol only once."""
        known = [symbols for _name, symbols in self._symbols[job.unit]]
        found = (definition(symbol, source) for source in _sources(job))
        texts = [each.text for each in found if each is not None]
        kinds = {each.shapes[symbol].kind for each in known if symbol in each.shapes}
        if "kernel" in kinds or any(map(_KERNEL.search, texts)):
            return _KERNEL_ONCE
        is_function = "(" in kernel_names.signature(symbol) or any(symbol in each.functions for each in known)
        called = re.compile(rf"{word_of(symbol).pattern}\s*\(")
        return _FUNCTION_ONCE if is_function or any(map(called.search, texts)) else _VARIABLE_ONCE

    def _lost_kernels(self, job: Job, linked: Sequence[str]) -> Iterator[Diagnostic]:
        """Yield an error for each kernel that several sources define, unless the linker has reported it.

        *linked* contains the symbols of the kernels in the linked code. If several sources define a kernel
        with the same symbol, the linked code contains only one of these kernels. If several sources define
        static kernels with the same symbol, the linked code contains all of them, because a static kernel
        belongs only to its own source. For static kernels in LTO-IR, the linker adds a number to the symbol,
        as in `k$2`.
        """
        symbols = [_COPY.sub("", symbol) for symbol in linked]
        of_name = Counter(map(kernel_names.demangle, {*symbols}))
        sources = _sources(job)
        having = [(source.path, certain_kernels(source.path, source.text)) for source in sources]
        for symbol, number in Counter(symbols).items():
            name = kernel_names.demangle(symbol)
            inputs = [path for path, kernels in having if name in kernels]
            if number > 1 or len(inputs) > of_name[name]:
                yield self._duplicate(job, symbol, inputs, _KERNEL_ONCE)

    def _disagreements(self, job: Job) -> Iterator[Diagnostic]:
        """Yield an error for each symbol that the inputs of a link declare differently.

        A symbol that several inputs define is left out, because another error reports it as defined twice.
        """
        twice = {symbol for symbol, _inputs in self._defined_twice(job)}
        for symbol, descriptions in objects.shape_conflicts(self._symbols[job.unit]):
            if symbol not in twice:
                yield self._disagreement(job, symbol, descriptions)

    def _disagreement(self, job: Job, symbol: str, descriptions: Mapping[str, Sequence[str]]) -> Diagnostic:
        declarations = ", and ".join(
            f"{description} in {' and in '.join(_place(job, symbol, name) for name in inputs)}"
            for description, inputs in descriptions.items()
        )
        what = f"{_symbol_label(symbol)} is declared differently: it {declarations}"
        return self._error("declarations-differ", what, job, hint=_ALIKE)

    def _dispute(self, job: Job, symbol: str, aspect: str, known: Mapping[str, LinkSymbols]) -> Diagnostic:
        """Return an error that says that inputs declare a symbol differently, and lists these inputs."""
        suspects = []
        for name in (each.name for each in job.linked):
            symbols = known.get(name)
            if symbols is None or symbol in {*symbols.strong, *symbols.weak, *symbols.needed}:
                suspects.append(_place(job, symbol, name))
        inputs = ", ".join(suspects)
        what = f"these inputs do not declare the same {aspect} of {_symbol_label(symbol)}: {inputs}"
        return self._error("declarations-differ", what, job, hint=_ALIKE)

    def _error(self, code: str, text: str, job: Job, *details: str, hint: str | None = None) -> Diagnostic:
        return diagnostics.failure(code, text, self._where(job), hint, details)

    def _where(self, job: Job) -> Location:
        """Return the line of pyproject.toml that lists the sources of a linked module."""
        config = self._project.config
        number = [rule.name for rule in config.module].index(job.unit.module.base)
        return config.place.of("module", number, "sources")

    def outcome_of(self, job: Job, result: Result) -> Compiled | list[Diagnostic]:
        """Return the code of a linked module, or the errors from linking."""
        if not result.ok:
            return self._explained(job, result)
        unit = job.unit
        try:
            cubin = elf.read_cubin(result.output)
        except ValueError as exc:
            return [self._error("wrong-linker-result", f"the linker's result {exc}", job)]
        if lost := [*self._lost_kernels(job, cubin.kernels)]:
            return lost
        kernels = ptx_entries(result.ptx.decode()) if unit.arch.is_ptx else cubin.kernels
        if not kernels:
            return [self._error("source-without-kernels", diagnostics.NO_KERNEL, job)]
        code = result.ptx if unit.arch.is_ptx else result.output
        named = kernel_names.kernels_by_name(kernels, self._instantiated(job))
        symbols = () if unit.arch.is_ptx else kernels
        if (wrong := request_of(unit).mismatch(named, symbols, code)) is not None:
            return [self._error("wrong-linker-result", f"the linker's result {wrong}", job)]
        return Compiled(code, named)

    def _instantiated(self, job: Job) -> dict[str, str]:
        wanted = {loader.normal_name(name) for name in job.unit.module.instantiate}
        done = (self._results.done[each.unit] for each in job.linked if each.unit is not None)
        return {name: symbol for each in done for name, symbol in each.kernels.items() if name in wanted}

    def _explained(self, job: Job, result: Result) -> list[Diagnostic]:
        missing = dict.fromkeys(_UNDEFINED.findall(result.log))
        twice = dict.fromkeys(one or other for one, other in _TWICE.findall(result.log))
        known = dict(self._symbols[job.unit])
        shown = {name: objects.ptx_symbols(text) for name, text in result.symbols.items()}
        # If a symbol is missing, the result contains the PTX of all LTO-IR inputs, because nvJitLink reports
        # only the first missing symbol.
        if missing and "" in shown:
            there = {symbol for each in known.values() for symbol in (*each.strong, *each.weak)}
            more = (symbol for symbol in shown.pop("").needed if symbol not in there)
            missing |= dict.fromkeys(symbol for symbol in more if not _is_of_driver(symbol))
        of_runtime = [symbol for symbol in missing if symbol.startswith(_OF_RUNTIME)]
        # One missing symbol of CUDA's device runtime is enough for the message, because one library defines
        # all of these symbols.
        asked = [symbol for symbol in missing if symbol not in of_runtime[1:]]
        found = [self._missing(job, symbol, {**known, **shown}) for symbol in asked]
        for symbol in twice:
            everyone = {**known, **shown}.items()
            having = [name for name, symbols in everyone if name and symbol in symbols.strong]
            having += [source.path for source in _sources(job) if definition(symbol, source)]
            opaque = [each.name for each in job.linked if each.kind in _OPAQUE]
            if len({*having}) == 1 and len(opaque) == 1:
                having += opaque
            # The symbol may be defined in a header, and headers are not searched.
            is_kernel = any(symbol in ptx_entries(text) for text in result.symbols.values())
            hint = _KERNEL_ONCE if is_kernel else None
            names = [*dict.fromkeys(having)]
            found.append(self._duplicate(job, symbol, names, hint, opaque if len(names) < 2 else ()))
        unlike = {symbol: about for about, symbol in _UNLIKE.findall(result.log) if symbol not in twice}
        found += [self._dispute(job, symbol, _ABOUT[about], known) for symbol, about in unlike.items()]
        for symbol, second, size, first, other in _SIZES.findall(result.log):
            sizes = {f"has {other} bytes": [first], f"has {size} bytes": [second]}
            found.append(self._disagreement(job, symbol, sizes))
        return found or [self._linker_message(job, result.log)]

    def _linker_message(self, job: Job, log: str) -> Diagnostic:
        """Return an error for a message of the linker that is not about symbols."""
        own = next(filter(None, (_named_text(job, line) for line in log.splitlines())), None)
        told = diagnostics.parse_log(log, own or job.unit.module.source.path, {})
        if _NEWER.search(log):
            what = "an input of this link contains LTO-IR of a newer compiler, or for a newer arch"
            hint = f"this link uses nvJitLink {job.toolkit.nvjitlink}, for {job.unit.arch}"
            return self._error("lto-too-new", what, job, *log.splitlines()[:4], hint=hint)
        if match := _BAD.search(log):
            bad_input = match[1] or "one of the inputs"
            what = f"nvJitLink cannot read {bad_input}: check that this file was built for {job.unit.arch}"
            return self._error("link-input-unreadable", what, job, *log.splitlines()[:4])
        first = next((each for each in told if each.kind == "error"), None)
        lines = log.strip().splitlines() or ["the linker failed without a message"]
        text = first.text if first else lines[0]
        if own and first and first.where and first.where.line:
            return replace(first, context=())
        return self._error("linker-error", text, job, *(line for line in lines[:20] if text not in line))

    def _missing(self, job: Job, symbol: str, known: Mapping[str, LinkSymbols]) -> Diagnostic:
        """Return an error for an undefined symbol: the inputs that need the symbol, and similar symbols."""
        users = [name for name, symbols in known.items() if symbol in symbols.needed]
        word = word_of(symbol)
        users = users or [each.path for each in _sources(job) if word.search(plain_text(each))]
        what = f"nothing defines {_symbol_label(symbol)}"
        if users:
            what = f"nothing defines {_symbol_label(symbol)}, which is used in {' and in '.join(users)}"
        if symbol.startswith(_OF_RUNTIME):
            hint = self._with_file(job, device_runtime(job.toolkit.major))
            return self._error("symbol-undefined", what, job, hint=hint)
        if "nvshmem" in symbol:
            hint = self._with_file(job, _NVSHMEM.format(job.toolkit.major))
            return self._error("symbol-undefined", what, job, hint=hint)
        elsewhere = self._definitions_elsewhere(job, symbol)
        near = [*_similar_symbols(symbol, known), *self._near_texts(job, symbol)]
        near += [_near_text(found) for found in elsewhere.values()]
        return self._error(
            "symbol-undefined", what, job, *dict.fromkeys(near), hint=_hint_to_add([*elsewhere])
        )

    def _with_file(self, job: Job, entry: str) -> str:
        link = job.unit.module.link
        there = link.files if link else ()
        return f"add the library to the table of this module: {setting('link', [*there, entry])}"

    def _near_texts(self, job: Job, symbol: str) -> Iterator[str]:
        for source in _sources(job):
            if (found := definition(symbol, source)) is not None:
                yield _near_text(found)

    def _definitions_elsewhere(self, job: Job, symbol: str) -> dict[str, Definition]:
        """Return definitions of a symbol's name in sources that are not linked into the module, by path."""
        own = {source.path for source in _sources(job)}
        texts = texts_of(self._project).items()
        found = {path: definition(symbol, Source(path, text)) for path, text in texts if path not in own}
        return {path: each for path, each in found.items() if each is not None and each.why_private is None}


class Linking(Bake):
    """Links modules; the base class `Bake` has the steps that linking and compiling have in common."""

    def run_with(self, links: Links) -> None:
        """Link all modules in *links* whose inputs are complete and correct."""
        self._links = links
        self.run()

    def _try_other_archs(self, _setup: Setup) -> list[Unit]:
        # Linking for other archs would not help, because only compiling a source may fail for some archs.
        return []

    def _prepared(self, task: Task, job: Job) -> Task:
        defined, probe = self._links.probe(job.unit)
        return replace(task, inputs=self._links.contents(job.unit), code=probe, instantiate=defined)

    def _outcome(self, job: Job, answer: Result, _found: Sequence[Diagnostic]) -> Compiled | list[Diagnostic]:
        return self._links.outcome_of(job, answer)


def _near_text(found: Definition) -> str:
    """Return a sentence about a definition that has the undefined name, but that the linker could not use."""
    if found.why_private is None:
        return (
            f"{found.where} has a definition of this name, "
            f"perhaps in another scope or with other parameters: {found.text}"
        )
    if found.why_private == "template":
        return (
            f"{found.where} has a template of this name, "
            f"which needs an explicit instantiation (template …;) in the same file: {found.text}"
        )
    return (
        f"the definition in {found.where} is {found.why_private}, "
        f"so other sources cannot use the definition: {found.text}"
    )


def _hint_to_add(sources: Sequence[str]) -> str | None:
    """Return a hint for a missing symbol that these sources may define."""
    if len(sources) == 1:
        return f"if this definition fits, add {sources[0]!r} to 'sources' of this module"
    return "add the source whose definition fits to 'sources' of this module" if sources else None


def _sources(job: Job) -> list[Source]:
    link = job.unit.module.link
    parts = link.parts if link else ()
    return [part if isinstance(part, Source) else part.source for part in parts]


def texts_of(project: Project) -> dict[str, str]:
    """Return the texts of all sources of the project that can be read; the keys are paths."""
    found: dict[str, str] = {}
    with contextlib.suppress(HatchCubinError):
        sources = read_sources(project)
        if not sources.is_complete:
            # lazy import: few projects have sources that a script produces
            from ..producing.produced_sources import complete

            sources = complete(project, sources)
        found = {source.path: source.text for source in sources}
    return found


def _symbol_label(symbol: str) -> str:
    name = kernel_names.signature(symbol)
    return f"{name!r}" if name == symbol else f"{name!r} ({symbol})"


def _is_of_driver(symbol: str) -> bool:
    """Return whether the CUDA driver defines a symbol when the driver loads a module."""
    return symbol in {"vprintf", "malloc", "free", "__assertfail"} or symbol.startswith(".")


def _location(symbol: str, source: Source) -> Location | None:
    found = definition(symbol, source)
    return found.where if found else None


def _place(job: Job, symbol: str, name: str) -> str:
    """Return the line of an input that defines or uses a symbol; the input's name if there is no line."""
    source = next((each for each in _sources(job) if each.path == name), None)
    return str((source and mention(symbol, source)) or name)


def _similar_symbols(symbol: str, known: Mapping[str, LinkSymbols]) -> Iterator[str]:
    """Yield symbols with the same name in another namespace or with other parameters."""
    base = base_of(symbol)
    for name, symbols in known.items():
        for each in (*symbols.strong, *symbols.weak):
            if each != symbol and base_of(each) == base:
                yield f"{name} has {_symbol_label(each)}"


def _named_text(job: Job, line: str) -> str | None:
    """Return the PTX source that a line of the linker's log mentions."""
    return next((each.name for each in job.linked if each.text and f"({each.name})" in line), None)
