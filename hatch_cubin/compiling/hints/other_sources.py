"""Hints about functions and variables that one source of a project defines and another source uses."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ...config.toml_lines import setting as setting_line
from ...cubin.kernel_names import demangle
from ...project.directives import included_names
from ...project.source import Source, glob_regex, without_comments
from ..definitions import PART, Definition, defined_variables, definition, mention
from ..diagnostics import OF_ITS_OWN, Diagnostic, Explanation
from .failed_compile import FailedCompile

_UNRESOLVED = re.compile(r"(?:Unresolved extern (?:function|variable)|Undefined reference to) '([^']+)'")
_FUNCTION = re.compile(r"\b__device__\b[^;{}()=]*?\b(\w+)\s*\([^(){};]*\)\s*\{")
_HINT = (
    "each source is compiled alone: include the file with the definition, "
    "or link both sources with a module table"
)
_HINT_FOR_PTX = (
    "PTX sources are assembled separately: add the definition, or link both files with a module table"
)


def unresolved(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a function or variable that is not defined, at the line that declares it."""
    for each in found:
        if match := _UNRESOLVED.search(each.text):
            symbol, name = match[1], demangle(match[1])
            text = each.text if name == symbol else each.text.replace(f"'{symbol}'", f"'{name}' ({symbol})")
            hint = _HINT_FOR_PTX if failed.module.source.is_ptx else _at_definition(symbol, failed) or _HINT
            texts = (Source(path, failed.text_of(path)) for path in (failed.path, *failed.headers))
            where = next(filter(None, (mention(symbol, text) for text in texts)), each.where)
            return replace(each, text=text, where=where, hint=hint), [
                other for other in found if other is not each
            ]
    return None


def about_extern(warning: Diagnostic, failed: FailedCompile) -> str | None:
    """Return a hint for a warning about an `extern` variable: how two sources can share the variable."""
    name = OF_ITS_OWN.match(warning.text)
    return _at_definition(name[1], failed) if name and not failed.module.part_of else None


def used_elsewhere(failed: FailedCompile) -> str | None:
    """Return a hint if a source without kernels defines a function or variable that another source uses."""
    text = without_comments(failed.text_of(failed.path))
    return _variable_declared_elsewhere(text, failed) or _function_called_elsewhere(text, failed)


def _function_called_elsewhere(text: str, failed: FailedCompile) -> str | None:
    for name in _FUNCTION.findall(text):
        own = definition(name, Source(failed.path, text))
        if own is not None and own.why_private is None:
            for path, other in _others(failed):
                is_called = re.search(rf"\b{name}\s*\(", without_comments(other))
                if is_called and definition(name, Source(path, other)) is None:
                    return _needed_by(path, f"{path} calls {name!r}", failed)
    return None


def _variable_declared_elsewhere(text: str, failed: FailedCompile) -> str | None:
    """Return a hint if another source, or a header of another source, declares a variable `extern`."""
    texts = {failed.path: text, **{path: without_comments(failed.text_of(path)) for path in failed.headers}}
    for where, name in ((path, name) for path, each in texts.items() for name in defined_variables(each)):
        own = definition(name, Source(where, texts[where]))
        path = None if own is None else _declared_in(name, failed)
        if own is not None and path is not None:
            if own.why_private is not None:
                return (
                    f"{path} declares {name!r}, but cannot use the definition in {own.where}: "
                    "move the definition into a header"
                )
            return _needed_by(path, f"{path} declares {name!r}", failed)
    return None


def _declared_in(name: str, failed: FailedCompile) -> str | None:
    """Return the path of another source that contains or includes an `extern` declaration, or None.

    A source that mentions the variable is preferred to a source that only includes the declaration, because a
    source that mentions the variable probably defines it.
    """
    declaration, word = re.compile(rf"\bextern\b(?:{PART}|#){{0,400}}\b{name}\b"), re.compile(rf"\b{name}\b")
    declaring = {
        path for path in failed.headers if declaration.search(without_comments(failed.text_of(path)))
    }
    found: list[str] = []
    for path, text in _others(failed):
        code = without_comments(text)
        if definition(name, Source(path, text)) is not None:
            continue
        if word.search(code) and any(
            declaration.search(without_comments(each)) for each in failed.texts_of_other(path)
        ):
            return path
        names = {posixpath.basename(each) for each in included_names(code)}
        if any(posixpath.basename(each) in names for each in declaring):
            found.append(path)
    return next(iter(found), None)


def _others(failed: FailedCompile) -> Iterator[tuple[str, str]]:
    return ((path, text) for path, text in failed.sources.items() if path != failed.path)


def _at_definition(symbol: str, failed: FailedCompile) -> str | None:
    """Return how to use a symbol that another source defines: link both sources, or move the definition."""
    found = _defined_elsewhere(symbol, failed)
    if found is None:
        return None
    if found.why_private is not None:
        return _in_a_header(found)
    table = _linked(failed.module.base, [failed.path, found.where.path], failed)
    return f"the definition is in {found.where}: link both sources with this table:{table}"


def _in_a_header(found: Definition) -> str:
    return f"other sources cannot use the definition in {found.where}: move the definition into a header"


def _defined_elsewhere(symbol: str, failed: FailedCompile) -> Definition | None:
    found = (definition(symbol, Source(path, text)) for path, text in _others(failed))
    return next(filter(None, found), None)


def _needed_by(path: str, reason: str, failed: FailedCompile) -> str:
    """Return a hint to link the failed source, which has no kernels, with the source at *path*.

    *reason* says that the source at *path* needs the failed source.
    """
    modules = failed.config.module
    module = next(
        (each for each in modules if any(glob_regex(glob).fullmatch(path) for glob in each.sources)), None
    )
    if module is not None:
        sources = setting_line("sources", [*module.sources, failed.path])
        return f"{reason}: add {failed.path} to the sources of the module {module.name!r}:\n    {sources}"
    table = _linked(PurePosixPath(path).stem, [path, failed.path], failed)
    return f"{reason}: link {path} and {failed.path} with this table:{table}"


def _linked(name: str, sources: Sequence[str], failed: FailedCompile) -> str:
    """Return the lines of a [[module]] table that links *sources*, to be put at the end of a hint."""
    rule = {"name": name, "sources": [*sources], "mode": "lto"}
    lines = (setting_line(key, value) for key, value in rule.items())
    return "".join(f"\n    {line}" for line in (failed.config.place.tables("module"), *lines))
