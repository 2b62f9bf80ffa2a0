"""Run git in a project."""

from __future__ import annotations

import subprocess
from pathlib import Path


def output(root: Path, *arguments: str) -> str | None:
    """Return what git prints in the folder *root*; None if git fails, is not installed or does not answer."""
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command, in the user's repository
            ["git", *arguments],  # noqa: S607
            cwd=root,
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
    found = output(root, "check-ignore", "--verbose", "--", name)
    if not found:
        return None
    file, line, pattern = found.split(":", 2)
    return None if pattern.startswith("!") else f"{file}:{line}"  # a rule with "!" lets git track the file
