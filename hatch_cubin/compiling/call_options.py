"""Hints about the options of calls of CuPy and cuda.core: a call is compiled only with its own options.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from ..config.config import Config, ModuleRule, SourceRule
from ..config.toml_lines import setting
from ..errors import Problem, problem
from ..keys.jobs import Job
from ..planning.unit_plan import call_of, rule_matcher, rules_of_source
from ..project.project import Project
from ..project.scan import IDENTIFIER
from ..project.source import Source, without_comments


def place_of_options(config: Config, source: Source) -> str | None:
    """Return a name for the place where a project sets the options of a call; None for a recorded call."""
    if source.recorded is not None:
        return None
    if source.produced is not None and source.produced.rule.front:
        return f"the settings that {source.produced.producer} returns for this source"
    matching = rule_matcher(config)(source.path_for_globs)
    index = max(index for index in matching if config.source[index].front)
    return f"the table at {config.place.of('source', index)}"


def with_macros(config: Config, source: Source, missing: Iterable[str]) -> str | None:
    """Return how to add macros of `define` to the call of a source; None if this is not possible.

    *missing* are macros that the call seems to need. The call probably also needs each macro of `define`
    whose name is in the source's text.
    """
    call = call_of(rules_of_source(config, source))
    if call is None or (table_or_settings := place_of_options(config, source)) is None:
        return None
    plain = [each for each in config.source if not each.front]
    tables: list[Config | ModuleRule | SourceRule] = [*config.module, *plain, config]
    given = {_name(macro) for macro, _text in call.define}
    defined = {_name(macro): f"-D{macro}={text}" for table in tables for macro, text in table.define}
    named = {*missing, *IDENTIFIER.findall(without_comments(source.text))} - given
    if not defined.keys() & {*missing} - given:
        return None
    options = [*call.call_options, *(option for name, option in defined.items() if name in named)]
    return (
        "'define' does not apply to a source with 'as': "
        f"in {table_or_settings}, write {_line(source, call, options)}, as in the library's call"
    )


def settings_of_no_call(project: Project, jobs: Iterable[Job]) -> list[Problem]:
    """Return a problem for `options` and `include-dirs` of the main table if all sources belong to calls."""
    config, modules = project.config, [job.unit.module for job in jobs]
    keys = [key for key in ("options", "include-dirs") if config.place.has(key)]
    if not keys or not modules or not all(module.front for module in modules):
        return []
    sources = (module.source for module in modules)
    of_first = next(((each, place) for each in sources if (place := place_of_options(config, each))), None)
    problems = []
    for key in keys:
        what = (
            f"{key!r} has no effect, because all sources are compiled for calls of CuPy or cuda.core, with "
            "only the settings of the calls"
        )
        hint = f"remove {key!r}"
        if of_first:
            source, place = of_first
            line = _options_line(config, source) if key == "options" else "the same line"
            hint = f"remove {key!r}; if the library's call needs it, write {line} into {place}"
        problems.append(problem("setting-without-effect", what, config.place.of(key), hint))
    return problems


def _options_line(config: Config, source: Source) -> str:
    """Return the line that adds the options of the main table to the options of the call of *source*."""
    from ..config.calls import written_in_call  # lazy import: few projects have such sources

    call = call_of(rules_of_source(config, source))
    assert call is not None  # only sources that are compiled for a call are asked about
    added = (each for each in written_in_call(call.front, config.options) if each not in call.call_options)
    return _line(source, call, [*call.call_options, *added])


def _line(source: Source, call: SourceRule, options: Sequence[str]) -> str:
    is_produced = source.own_rule is call
    return f'"options": {json.dumps(options)}' if is_produced else setting("options", options)


def _name(macro: str) -> str:
    return macro.partition("(")[0]
