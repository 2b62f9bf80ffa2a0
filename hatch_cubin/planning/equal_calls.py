"""Merge sources that are compiled for the same call of a library (such as CuPy) into one module. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ..errors import ConfigError, Problem, problem
from ..project.directives import has_quoted_include
from .unit_plan import Module


def merge_equal_calls(modules: Iterable[Module]) -> list[Module]:
    """Return the modules, with modules for equal calls merged into one.

    A merged module has the template names and archs of all modules from which it was merged.

    Because a wheel can contain only one result for equal calls, raise ConfigError if the texts of these calls
    could include different headers.
    """
    merged: dict[object, Module] = {}
    problems: list[Problem] = []
    for module in modules:
        first = merged.setdefault(module.name if module.front else module, module)
        if first is module:
            continue
        problems += _different_headers(first, module)
        merged[module.name] = replace(
            first,
            instantiate=tuple(dict.fromkeys((*first.instantiate, *module.instantiate))),
            targets=tuple(dict.fromkeys((*first.targets, *module.targets))),
            equal=(*first.equal, module.source),
        )
    if problems:
        raise ConfigError(*problems)
    return [*merged.values()]


def _different_headers(first: Module, module: Module) -> Iterator[Problem]:
    one, other = first.source, module.source
    in_folder = has_quoted_include(other.text)
    if first.include_dirs != module.include_dirs or (in_folder and one.folder != other.folder):
        what = f"has the same text and options as {one.path}, but may include other headers"
        hint = (
            "a wheel can contain both sources only if they include the same headers: set the same "
            "'include-dirs' for both sources, or remove one source"
        )
        if first.include_dirs == module.include_dirs:
            hint = (
                "a wheel can contain both sources only if they include the same headers: move both "
                "sources into one folder, or remove one source"
            )
        yield problem("same-call-other-headers", what, module.location, hint)
