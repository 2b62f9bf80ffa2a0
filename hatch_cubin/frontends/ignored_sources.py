"""Warn of sources that git ignores: a clone of the repository does not have them, and builds without them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ..common import git
from ..common.sizes import count
from ..errors import Location, Problem, problem
from ..project.project import Project
from ..project.source import ProjectFiles

_SHOWN = 8  # a warning names at most this many sources


def warnings(project: Project) -> Iterator[Problem]:
    """Yield a warning for each rule of git that makes git ignore sources of the project."""
    config, files = project.config, ProjectFiles(project.tree, project.packages)
    paths = {*files.find(config.sources, config.exclude)[0]}
    paths.update(*(files.matching(pattern) for rule in config.module for pattern in rule.sources))
    named = sorted(map(project.tree.path_from_project, paths))
    rules = git.rules_that_ignore(project.root, [path for path in named if not path.startswith("../")])
    for rule in dict.fromkeys(rules.values()):
        ignored = [path for path, by in rules.items() if by == rule]
        file, _colon, line = rule.rpartition(":")
        sources = count(len(ignored), "source")
        what = f"because of this rule, git ignores {sources}, so a clone builds a wheel without these kernels"
        shown = " ".join(map(shlex.quote, ignored[:_SHOWN]))
        hint = f"run 'git add --force {shown}', and commit the result"
        yield problem("source-ignored-by-git", what, Location(file, int(line)), hint)
