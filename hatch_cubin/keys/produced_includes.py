"""Find project headers that a generated source includes, but that an sdist would not contain."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from ..config.toml_lines import setting
from ..errors import Problem, problem
from ..project.project import Project, include_folders
from ..project.source import Source


def undeclared_includes(
    project: Project, declared: AbstractSet[str], included: Iterable[tuple[Source, AbstractSet[str]]]
) -> list[Problem]:
    """Return a problem for each producer whose texts include project files that are not in *declared*.

    A producer is a function of the project that generates sources. An sdist is made without calling
    producers, so it contains only the declared files and the include folders. *included* contains each
    generated source with the project's files that the source includes.
    """
    folders = tuple(f"{folder}/" for folder, _key in include_folders(project.config))
    missing: dict[str, dict[str, None]] = {}
    for source, files in included:
        for path in sorted(files):
            real = project.tree.real_name(path) if ".." in path else path
            if source.produced and not real.startswith(("../", *folders)) and real not in declared:
                missing.setdefault(source.produced.by, {})[real] = None
    return [_problem(project, by, [*paths]) for by, paths in missing.items()]


def _problem(project: Project, by: str, paths: list[str]) -> Problem:
    rules = enumerate(project.config.producer)
    index, rule = next((index, rule) for index, rule in rules if rule.name == by)
    what = f"the texts that {rule.path} returns include {', '.join(paths)}, which 'inputs' does not list"
    hint = f"write in the producer table: {setting('inputs', [*rule.inputs, *paths])}"
    return problem("undeclared-include", what, project.config.place.of("producer", index), hint)
