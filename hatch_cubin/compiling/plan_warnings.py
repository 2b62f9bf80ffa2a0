"""Warn before a build about likely mistakes in settings, and about headers that sdists will not contain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ..config.config import Config, Macros, SourceRule
from ..config.reader import KEYS, option_of_compiler
from ..config.toml_lines import setting
from ..errors import Location, Problem, SourceError, problem
from ..headers.includes import Closure
from ..headers.resolve import OWN
from ..keys.jobs import Job, lies_outside
from ..planning.unit_plan import Module, call_of, rule_matcher, rules_of_source
from ..project import disk
from ..project.directives import CONDITION
from ..project.project import Project
from ..project.scan import IDENTIFIER, PASTE_OPERATOR, join_continued_lines
from ..project.source import without_comments
from .call_options import with_macros

NEARER = (
    "copy the header into the project, or add its folder to 'source-roots' and to 'include-dirs', and "
    "include it without '..'"
)
_PTX_WITH_SUFFIX = re.compile("compute_([0-9]+[af])")  # PTX that newer GPUs cannot translate
_Table: TypeAlias = "tuple[str | int, ...]"  # the keys that lead to a table
_Key: TypeAlias = "tuple[str, ...]"
# names of macros that NVRTC's built-in header may use
_NOT_OURS = re.compile(r"_|CUDA|CUDART|NV_|NVRTC|NDEBUG$")


def outside_headers(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem for each header outside the project that a build reads: sdists omit such headers."""
    found: dict[str, Problem] = {}
    # Many modules share one set of headers; each set is checked only once.
    for job in {id(job.closure): job for job in jobs}.values():
        for path in _own(job.closure):
            real = project.tree.real_name(path) if ".." in path else path
            if (lies_outside(real) or real.startswith("/")) and real not in found:
                what = f"reads {real}, which is outside the project, so an sdist does not contain it"
                where = Location(job.unit.module.source.path)
                found[real] = problem("header-outside-project", what, where, NEARER)
    return [*found.values()]


def unread_macros(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem for each macro in `define` that no compiled file uses.

    *jobs* are all compiles of the project. A macro is not reported if a file uses the operator `##`, which
    can build the macro's name. A macro that a header outside the project may use is reported only if an `#if`
    contains a very similar name, because the macro is then probably misspelled.
    """
    config = project.config
    tables: list[tuple[tuple[str | int, ...], Macros]] = [(("define",), config.define)]
    tables += [(("source", index, "define"), rule.define) for index, rule in enumerate(config.source)]
    tables += [(("module", index, "define"), rule.define) for index, rule in enumerate(config.module)]
    places = {name.partition("(")[0]: (*path, name) for path, macros in tables for name, _text in macros}
    if not places:
        return []
    every = [job for job in _one_of_each(jobs) if job.unit.module.source.is_cpp]
    problems = []
    for name, path in places.items():
        users = [
            job for job in every if name in (each.partition("(")[0] for each, _ in job.unit.module.define)
        ]
        others = [job.unit.module for job in every if job not in users and _names(job, name)]
        to_call = _hint_for_call(config, name, others)
        if (users or to_call) and not _NOT_OURS.match(name):
            meant = _CompiledTexts(project, users).unread(name)
            if meant is not None:
                hint = f"did you mean {meant}?" if meant else _hint_for_setting(config, name)
                if path[0] != "define" and (plain := [each for each in others if not each.front]):
                    hint = (
                        f"{plain[0].source.path} uses {name}, but this table does not apply to "
                        f"that source: move {name} to 'define' of {config.place}, above the first "
                        f"[[…{path[0]}]]"
                    )
                elif to_call:
                    hint = to_call
                what = (
                    f"the macro {name} has no effect, because the sources that are compiled with the macro, "
                    f"and their headers, do not use {name}"
                )
                problems.append(problem("unused-macro", what, config.place.of(*path), hint))
    return problems


def _hint_for_setting(config: Config, name: str) -> str:
    """Return a hint for a macro that no source uses, but that may be a setting in the wrong table."""
    if name.replace("_", "-") in KEYS:
        return f"if {name} is meant as an option of {config.place}, write it outside of the table 'define'"
    return option_of_compiler(name) or "remove the macro, or use it"


def _names(job: Job, name: str) -> bool:
    return name in IDENTIFIER.findall(without_comments(job.unit.module.source.text))


def _hint_for_call(config: Config, name: str, modules: Iterable[Module]) -> str | None:
    """Return how to define the macro *name* for the first call of CuPy or cuda.core that uses the name."""
    hints = ((each.source, with_macros(config, each.source, {name})) for each in modules if each.front)
    return next((f"{source.path} uses {name}, but {hint}" for source, hint in hints if hint), None)


def archs_by_default(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem if [[source]] tables set `archs`, but some source still has the default archs.

    In TOML, a key below the header of a [[source]] table belongs to this table even if an empty line is
    between the header and the key.
    """
    config = project.config
    with_archs = [index for index, rule in enumerate(config.source) if rule.archs]
    if not with_archs or config.place.has("archs") or "archs" in config.replaced:
        return []
    for source in (job.unit.module.source for job in jobs if job.unit.module.link is None):
        if not any(rule.archs for rule in rules_of_source(config, source)):
            where = config.place.of("source", with_archs[0], "archs")
            what = (
                f"{source.path} has the default archs, because this line is in a source table whose 'path' "
                f"does not match {source.path}"
            )
            hint = (
                f"to set the archs of all sources, move this line to {config.place}, above the first "
                f"[[…source]]; to keep the default archs, write there: {setting('archs', config.archs)}"
            )
            return [problem("archs-by-default", what, where, hint)]
    return []


def ptx_that_no_gpu_loads(config: Config) -> list[Problem]:
    """Return a problem for each PTX such as compute_90a that is built in addition to sm_90a.

    No GPU loads this PTX, because every GPU that could load it loads the code for sm_90a instead.
    """
    tables: list[tuple[_Table, Sequence[str]]] = [
        ((), () if "archs" in config.replaced else config.archs),
        *((("source", index), rule.archs or ()) for index, rule in enumerate(config.source)),
    ]
    return [
        problem(
            "ptx-not-loaded",
            f"no GPU loads the PTX for {spec}, because each GPU that could load this PTX loads the code for "
            f"sm_{code[1]} instead",
            config.place.of(*table, "archs", index),
            f"remove {spec}; PTX for newer GPUs is compute_{code[1][:-1]}",
        )
        for table, archs in tables
        for index, spec in enumerate(archs)
        if (code := _PTX_WITH_SUFFIX.fullmatch(spec)) and f"sm_{code[1]}" in archs
    ]


def replaced_settings(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem for each setting that has no effect, because [[source]] tables replace it everywhere.

    The settings are `archs`, macros and options. A setting is not reported if another table replaces it by an
    equal value.
    """
    config = project.config
    tables: dict[_Table, dict[_Key, object]] = {(): {} if config.module else _settings(config)}
    tables |= {("source", index): _settings(rule) for index, rule in enumerate(config.source)}
    if "archs" in config.replaced:
        tables[()].pop(("archs",), None)
    winners: dict[tuple[_Table, _Key], _Table | None] = {}
    matching = rule_matcher(config)
    for source in {job.unit.module.source: None for job in jobs if job.unit.module.link is None}:
        indexes = matching(source.path_for_globs)
        chain: list[_Table] = [(), *(("source", index) for index in indexes)]
        last = {key: table for table in chain for key in tables[table]}
        is_known = source.own_rule is None and call_of(config.source[index] for index in indexes) is None
        for table in chain:
            for key, value in tables[table].items():
                is_used = not is_known or tables[last[key]][key] == value
                if is_used:
                    winners[table, key] = None
                else:
                    winners.setdefault((table, key), last[key])
    return [
        problem(
            "setting-without-effect",
            f"{'.'.join(key)} has no effect: {config.place.of(*winner, *key)} replaces it for each source",
            config.place.of(*table, *key),
            "remove one of the two lines: if several source tables match a source, the last table counts",
        )
        for (table, key), winner in winners.items()
        if winner is not None and config.place.has(*table, key[0])
    ]


def _settings(rule: Config | SourceRule) -> dict[_Key, object]:
    """Return the archs, the macros and the options that a table sets."""
    return {
        **({("archs",): rule.archs} if rule.archs else {}),
        **{("define", name): None for name in (rule.undefined if isinstance(rule, SourceRule) else ())},
        **{("define", name): text for name, text in rule.define},
        **{("options", name): value for name, value in rule.options.items()},
    }


@dataclass(frozen=True, slots=True)
class _CompiledTexts:
    """Searches for a macro's name in all files that are compiled with this macro."""

    project: Project
    jobs: Sequence[Job]

    def unread(self, name: str) -> str | None:
        """Return a name in an `#if` that is similar to the unused macro *name*.

        Return an empty text if no name is similar, and None if a file may use the macro *name*.
        """
        if not all(job.unit.module.source.is_text_known for job in self.jobs):
            return None
        named = re.compile(rf"\b{name}\b")
        if any(
            named.search(text) or PASTE_OPERATOR.search(text) for text in self._own()
        ):  # Usually the search ends early, because the first file uses the macro.
            return None
        # lazy import: it is slow, and most projects do not have unused macros
        import difflib

        asked = {
            word
            for text in self._own()
            for line in CONDITION.findall(text)
            for word in IDENTIFIER.findall(line)
        }
        close = difflib.get_close_matches(name, sorted(asked), n=1, cutoff=0.75)
        if not any(_others(job.closure) for job in self.jobs):
            return close[0] if close else ""
        return close[0] if close and not self._is_named_by_others(name) else None

    def _own(self) -> Iterator[str]:
        """Yield the texts of the project's sources and headers, and the code fragments in pyproject.toml."""
        paths: set[str] = set()
        for job in self.jobs:
            yield join_continued_lines(job.unit.module.source.text)
            yield "\n".join((*job.unit.module.instantiate, *_values(job.unit.module)))
            paths.update(_own(job.closure))
        for path in sorted(paths):
            try:
                data = disk.read_file(
                    Path(path) if path.startswith("/") else self.project.tree.disk_path(path),
                    self.project.tree,
                )
            except SourceError:  # The header was removed after the build had found it.
                continue
            yield join_continued_lines(data.decode("utf-8", "replace"))

    def _is_named_by_others(self, name: str) -> bool:
        """Return whether a header outside the project uses or may use the macro *name*."""
        if any(job.closure.trees for job in self.jobs):
            return True
        roots = {f"{root.logical}/": root.path for job in self.jobs for root in job.search}
        files = {logical for job in self.jobs for logical in _others(job.closure)}
        places = [
            path / logical[len(start) :]
            for logical in files
            for start, path in roots.items()
            if logical.startswith(start)
        ]
        word = re.compile(rf"\b{name}\b".encode())
        return any(word.search(path.read_bytes()) for path in places if path.is_file())


def _values(module: Module) -> Iterator[str]:
    yield from (text for _name, text in module.macros)
    yield from (name.partition("(")[2] for name, _text in module.macros)


def _own(closure: Closure) -> list[str]:
    """Return the paths of all headers except the headers of installed libraries such as CUDA."""
    named = (logical for logical in closure.own if logical not in closure.widened)
    return [logical.removeprefix(OWN) for logical in named]


def _others(closure: Closure) -> list[str]:
    """Return the names of the headers that come from installed libraries such as CUDA."""
    return [*closure.trees, *(logical for logical in closure.files if logical not in closure.own)]


def _one_of_each(jobs: Iterable[Job]) -> list[Job]:
    """Return one job for each module, because all jobs of a module read the same files."""
    return [*{job.unit.module: job for job in jobs if job.unit.module.link is None}.values()]
