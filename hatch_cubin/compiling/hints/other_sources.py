"""Functions that are defined in one source of a project and called in another."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ...config.toml_lines import setting as setting_line
from ...project.source import Source, glob_regex, without_comments
from ..definitions import Definition, definition
from .failed_compile import FailedCompile
from .kernel_declarations import declared

_ONLY_THERE = re.compile(r"\b(?:static|inline|__forceinline__|constexpr|template)\b")

_VARIABLE = re.compile(
    r"^(?![^\n]*\b(?:extern|static)\b)[^\n;(){}=\[]*__(?:device|constant|managed)__[^;(){}=\[]*?\b(\w+)\s*[=;\[{]",
    re.MULTILINE,
)


def defined_elsewhere(symbol: str, failed: FailedCompile) -> tuple[str, Definition] | None:
    """Return the other source that defines a symbol's function, and the definition."""
    for path, text in failed.sources.items():
        found = None if path == failed.path else definition(symbol, Source(path, text))
        if found is not None:
            return path, found
    return None


def is_for_others(found: Definition, text: str) -> bool:
    """Return whether other sources can be linked to a definition in *text*.

    Static and inline functions, and templates, are visible only in the source that contains them.
    """
    lines = without_comments(text).splitlines()
    before = lines[: (found.where.line or 1) - 1][-1:]
    return not (_ONLY_THERE.search(found.text) or "".join(before).rstrip().endswith(">"))


def linked(name: str, sources: Sequence[str], failed: FailedCompile) -> str:
    """Return the table that links the sources, in the form that follows the words of a hint."""
    rule = {"name": name, "sources": [*sources], "mode": "lto"}
    lines = (setting_line(key, value) for key, value in rule.items())
    return "".join(f"\n    {line}" for line in (failed.config.place.tables("module"), *lines))


def _needed_by(path: str, what: str, failed: FailedCompile) -> str:
    """Return a hint for a source without kernels that the source at *path* uses."""
    module = next(
        (
            each
            for each in failed.config.module
            if any(glob_regex(glob).fullmatch(path) for glob in each.sources)
        ),
        None,
    )
    if module is not None:
        sources = setting_line("sources", [*module.sources, failed.path])
        return f"{path} {what}, so the table of {module.name!r} needs it: {sources}"
    table = linked(PurePosixPath(path).stem, [path, failed.path], failed)
    return f"{path} {what}, and this links the two:{table}"


def called_elsewhere(failed: FailedCompile) -> str | None:
    """Return a hint if another source uses a function or variable of this source, which has no kernels."""
    text = failed.text_of(failed.path)
    for function in declared({failed.path: text}).functions:
        own = definition(function.name, Source(failed.path, text))
        if own is None or not is_for_others(own, text):
            continue
        call = re.compile(rf"\b{re.escape(function.name.rpartition('::')[2])}\s*\(")
        for path, other in failed.sources.items():
            is_call = path != failed.path and call.search(without_comments(other))
            if is_call and definition(function.name, Source(path, other)) is None:
                return _needed_by(path, f"calls {function.name!r}", failed)
    for name in _VARIABLE.findall(without_comments(text)):
        declared_there = re.compile(rf"\bextern\b[^;{{}}()]*\b{name}\b")
        for path, other in failed.sources.items():
            if path != failed.path and declared_there.search(without_comments(other)):
                return _needed_by(path, f"declares {name!r}", failed)
    return None
