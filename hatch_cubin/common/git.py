"""Run git in a project."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path


def output(root: Path, *arguments: str, text: str | None = None) -> str | None:
    """Return what git prints in the folder *root*, after it has read *text* from its standard input.

    Return None if git fails, is not installed or does not answer.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, in the user's repository
            ["git", *arguments],  # noqa: S607
            cwd=root,
            input=text,
            capture_output=True,
            text=True,
            check=True,
            timeout=30,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def rule_that_ignores(root: Path, name: str) -> str | None:
    """Return the place of the rule that makes git ignore a file, such as ".gitignore:3".

    Return None if git does not ignore the file, or if there is no git.
    """
    return rules_that_ignore(root, [name]).get(name)


def rules_that_ignore(root: Path, names: Iterable[str]) -> dict[str, str]:
    """Return the files among *names* that git ignores, each with the place of the rule that ignores it."""
    found = output(root, "check-ignore", "--verbose", "--stdin", "-z", text="\0".join(names)) or ""
    fields = found.split("\0")
    rules = zip(fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=False)
    # a rule with "!" lets git track the file
    return {name: f"{file}:{line}" for file, line, pattern, name in rules if not pattern.startswith("!")}
