"""Hints about the options of calls of CuPy and cuda.core: a call is compiled only with its own options.

Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..config.config import Config, ModuleRule, SourceRule
from ..config.toml_lines import setting
from ..planning.unit_plan import call_of, rule_matcher, rules_of_source
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
    is_produced = source.own_rule is call
    line = f'"options": {json.dumps(options)}' if is_produced else setting("options", options)
    return (
        "'define' does not apply to a source with 'as': "
        f"in {table_or_settings}, write {line}, as in the library's call"
    )


def _name(macro: str) -> str:
    return macro.partition("(")[0]
