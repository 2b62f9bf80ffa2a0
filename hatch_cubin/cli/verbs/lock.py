"""Write cubin.lock, which says what the units of the project are built from. Commit it.

What the cache lacks is compiled first, with the toolkit that is installed here. A build whose project is as
the lock says, and whose units are in its cache, needs no compiler; another one asks for exactly the lock's
builds of it. '--check' writes and compiles nothing: it fails where the lock is not what would be written.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...errors import BundleError, CheckError, Location, Problem
from ..verb import Answer, json_argument, open_project, project_arguments, require_compiler

if TYPE_CHECKING:
    from ...sources.project import Project


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    project_arguments(parser)
    parser.add_argument("--check", action="store_true", help="write nothing: a stale lock is an error")
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Write the lock, or compare it."""
    project = open_project(args)
    require_compiler(project)
    return _check(project) if args.check else _write(project)


def _check(project: Project) -> Answer:
    from ... import _pipeline
    from ...keys import lock

    found = lock.read(project.root)
    if found is None:
        raise CheckError(Problem(f"there is no {lock.NAME}", hint=lock.HINT))
    changes = _pipeline.check_lock(project, found)
    stale = Problem("is stale", Location(lock.NAME), lock.HINT, tuple(changes))
    lines = [] if changes else [f"{lock.NAME} is what would be written"]
    return Answer({"file": lock.NAME, "changes": changes}, lines, [stale] if changes else [])


def _write(project: Project) -> Answer:
    from ... import _pipeline
    from ...keys import lock

    made = _pipeline.make_lock(project)
    try:
        (project.root / lock.NAME).write_bytes(lock.encode(made).encode())
    except OSError as exc:
        raise BundleError(Problem(f"cannot be written: {exc.strerror}", Location(lock.NAME))) from exc
    units = sum(len(module["units"]) for module in made.modules.values())
    facts = {"file": lock.NAME, "units": units, "wheels": made.wheels, "unsure": made.unsure}
    lines = [f"{lock.NAME}: {units} unit{'s' * (units != 1)}, NVRTC {made.builds['nvrtc']}"]
    if made.unsure:
        paths = ", ".join(made.unsure)
        lines.append(f"what {paths} includes, only the compiler's headers tell: every build needs those")
    return Answer(facts, lines)
