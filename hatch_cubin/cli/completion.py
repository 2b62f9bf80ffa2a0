"""Print a script that lets a shell complete verbs and options. The script comes from the package shtab."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from ..errors import ConfigError, problem

# The placeholders for paths in the help texts, and what shtab completes for them: files or folders.
_PATHS = {"DIR": "DIRECTORY", "FILE": "FILE", "SOURCE": "FILE", "WHEEL|DIR|PACKAGE": "FILE"}


def completion(parser: argparse.ArgumentParser, shell: str) -> str:
    """Return the completion script for *shell*."""
    try:
        import shtab
    except ImportError:
        what = "the package shtab, which writes the script, is not installed here"
        raise ConfigError(
            problem("shtab-not-installed", what, hint="pip install 'hatch-cubin[cli]'")
        ) from None
    for action in _actions(parser):
        if kind := _PATHS.get(str(action.metavar)):
            action.complete = getattr(shtab, kind)  # type: ignore[attr-defined]
    return shtab.complete(parser, shell)


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - no public list exists
        yield action
        if isinstance(action.choices, dict):
            for each in action.choices.values():
                yield from _actions(each)
