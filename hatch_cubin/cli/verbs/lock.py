"""Write the lock file cubin.lock, which lists all inputs of the project's kernels. Commit cubin.lock to git.

Kernels that are missing from the cache are compiled first, with the toolkit that is installed here. A build
does not need a compiler if the project matches the lock file and all results are in the cache. If a kernel
has to be compiled, the build requires exactly the compiler versions in the lock file. The option '--check'
writes and compiles nothing, and fails if the lock file is outdated. The project's producers (functions that
generate sources) run with and without '--check'. With '--check', a producer is skipped if a package that it
needs is not installed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ...common import git
from ...common.sizes import count
from ...errors import BundleError, CheckError, Location, problem
from ..verb_base import Answer, check_build, json_argument, open_project, project_arguments, require_compiler

if TYPE_CHECKING:
    from ...lockfile.lock_format import LockFile
    from ...project.project import Project


_MAKE_STABLE = (
    "change the producer, so that each run returns the same text: until then, each new lock is stale"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    project_arguments(parser)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, and end with an error if cubin.lock is outdated"
    )
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Write the lock file, or compare the existing file with the contents that would be written."""
    # `lock` runs the producers again, because the lock file must contain their present results.
    project = replace(open_project(args), recalls_texts=False)
    _refuse_variables(project)
    check_build(project)
    if args.check:
        # `lock --check` may skip producers, so the requirements of the producers need not be installed.
        require_compiler(_without_producers(project))
        return _check(project)
    require_compiler(project)
    from ...frontends import ignored_sources

    warnings = [*ignored_sources.warnings(project)]
    return _write(project)._replace(warnings=warnings)


def _refuse_variables(project: Project) -> None:
    """Raise CheckError if environment variables replace settings that the lock file would contain."""
    if problems := [
        problem(
            "variable-changes-lock",
            f"{variable} is set, but a lock is made for the value of {key!r} in {project.config.place.file}",
            hint=f"unset {variable}, or write its value in {key!r} and then unset {variable}",
        )
        for variable, key in project.variables_that_change_units().items()
    ]:
        raise CheckError(*problems)


def _without_producers(project: Project) -> Project:
    return replace(project, config=replace(project.config, producer=()))


def _check(project: Project) -> Answer:
    from ...building import pipeline
    from ...lockfile import lock_format

    found = lock_format.read(project.root)
    if found is None:
        what = f"there is no {lock_format.NAME}"
        raise CheckError(problem("lock-missing", what, hint=f"'hatch-cubin lock' writes {lock_format.NAME}"))
    changes, unchecked, unstable = pipeline.check_lock(project, found)
    facts = _facts(found, changes, unchecked)
    if changes:
        where = Location(lock_format.NAME)
        hint = _MAKE_STABLE if unstable else lock_format.HINT
        stale = problem("lock-stale", "is stale", where, hint, (*changes, *unstable))
        return Answer(facts, problems=[stale])
    verdict = "is up to date, except for parts that were not compared" if unchecked else "is up to date"
    return Answer(facts, [f"{lock_format.NAME} {verdict}", *unchecked])


def _write(project: Project) -> Answer:
    from ...building import pipeline
    from ...lockfile import lock_format

    made = pipeline.make_lock(project)
    try:
        (project.root / lock_format.NAME).write_bytes(lock_format.encode(made).encode())
    except OSError as exc:
        what = f"cannot be written: {exc.strerror}"
        raise BundleError(problem("file-not-writable", what, Location(lock_format.NAME))) from exc
    facts = _facts(made)
    units = count(facts["units"], "unit")
    ignored_by = git.rule_that_ignores(project.root, lock_format.NAME)
    step = "commit this file"
    if ignored_by:
        step = f"git ignores this file ({ignored_by}): add it with 'git add --force', and commit it"
    lines = [f"{lock_format.NAME} lists {units} to compile with NVRTC {made.builds['nvrtc']}: {step}"]
    lines += (
        f"the includes of {path} depend on the compiler's headers, so every build needs the compiler"
        for path in made.unsure
    )
    return Answer(facts, lines)


def _facts(found: LockFile, changes: Sequence[str] = (), unchecked: Sequence[str] = ()) -> dict[str, Any]:
    return {
        "units": sum(len(module["units"]) for module in found.modules.values()),
        "nvrtc": found.builds["nvrtc"],
        "wheels": [{"name": name, "version": version} for name, version in found.wheels.items()],
        "unsure": [*found.unsure],
        "changes": [*changes],
        "unchecked": [*unchecked],
    }
