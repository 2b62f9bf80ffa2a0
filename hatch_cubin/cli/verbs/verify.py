"""Check that a wheel, a folder or an installed package holds together.

'verify' proves that a wheel holds together, and that its loader is one that a release shipped. Every file
of a bundle is compared with the manifest, the manifest and the keys with what is written for their facts, and
the loader with that of the release that the manifest names. In a wheel the bill of materials has to fit the
manifest, and every file RECORD.

Only 'verify --rebuild' proves that all that hatch-cubin put into it is what the project builds. It compiles
the kernels again, with an empty cache, and compares the bytes. It needs the sources and the compiler that the
wheel was built with: with others a difference proves nothing, and this says so.

What hatch-cubin did not make, such as the package's own '__init__.py', only a signature proves: RECORD holds
against damage alone.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import BundleError, HatchCubinError, Location, Problem
from ...wheels.bill import bill_of, bill_problems
from ...wheels.installed import Bundle, Found, bundles_of, opened
from ...wheels.record import record_problems
from ...wheels.survey import manifest_of, unit_name
from ...wheels.verify import bundle_problems, is_of_this_version
from ..verb import Answer, json_argument, open_project, project_arguments, require_compiler

if TYPE_CHECKING:
    from ...sources.project import Project
    from ...wheels.rebuild import Comparison, Verdict

_OF_ITS_BUILD = "verify it with the sources and the toolkit that it was built with"
_FINDINGS: Mapping[Verdict, tuple[str, str | None]] = {
    "differs": (
        "not what its inputs compile to",
        "a poisoned cache does this, or a changed wheel: empty the cache, and build again",
    ),
    "other inputs": (
        "built from another source, header, option or compiler",
        _OF_ITS_BUILD,
    ),
    "only in the bundle": ("shipped, and not built by the project", None),
    "only in the rebuild": ("built by the project, and not shipped", None),
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument(
        "what",
        metavar="WHEEL|DIR|PACKAGE",
        help="a wheel, a folder, or the import name of an installed package",
    )
    parser.add_argument("--rebuild", action="store_true", help="compile the project again, and compare")
    project_arguments(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Check everything, and return all that is wrong."""
    with opened(args.what) as found:
        problems = [] if found.wheel is None else [*record_problems(found.wheel)]
        for bundle in found.bundles:
            problems += bundle_problems(bundle, in_wheel=found.wheel is not None)
        facts: dict[str, Any] = {"path": found.path, "bundles": [bundle.place for bundle in found.bundles]}
        problems += bill_problems(found)
        lines = [] if problems else [_agrees(bundle) for bundle in found.bundles]
        if args.rebuild:
            try:
                comparison = _compare(args, found)
            except HatchCubinError as exc:  # what is known already must not be lost
                problems += exc.problems
            else:
                facts["rebuild"] = _facts(comparison)
                lines += _summary(comparison, len(found.bundles) - 1)
                problems += _findings(comparison)
    facts |= {"ok": not problems, "problems": [_fact(problem) for problem in problems]}
    return Answer(facts, lines, problems)


def _agrees(bundle: Bundle) -> str:
    manifest = manifest_of(bundle)
    loader = f"the loader is that of {' '.join(manifest.generator)}"
    unknown = "" if is_of_this_version(manifest) else ", the stub was not compared"
    return f"{bundle.place}: all {len(bundle.packed)} files agree with its manifest; {loader}{unknown}"


def _fact(problem: Problem) -> dict[str, Any]:
    path = None if problem.where is None else problem.where.path
    return {"path": path, "what": problem.what, "details": [*problem.details], "hint": problem.hint}


# --- the rebuild ---------------------------------------------------------------------------------


def _compare(args: argparse.Namespace, found: Found) -> Comparison:
    from ...doors import open as door

    told = (manifest_of(bundle).folder for bundle in found.bundles)
    project = door.aimed_at_one_of(open_project(args), filter(None, told))
    require_compiler(project)
    bundle = _bundle_of(project, found)
    bill = bill_of(found, bundle)
    from ...wheels import rebuild

    return rebuild.rebuild(project, bundle, bill and bill.data)


def _bundle_of(project: Project, found: Found) -> Bundle:
    """Return the bundle that the project builds: others beside it may say of themselves what they like."""
    own = _own(project, found)
    if len(own) == 1:
        return own[0]
    if own:
        places = ", ".join(bundle.place for bundle in own)
        what = f"has several bundles that this project ({project.bundle_folder}) may have built: {places}"
        raise BundleError(Problem(what, Location(found.path), "verify one of them"))
    places = ", ".join(bundle.place for bundle in found.bundles)
    what = f"has no bundle that this project builds ({project.bundle_folder}), only {places}"
    raise BundleError(Problem(what, Location(found.path), "--project DIR names the project"))


def _own(project: Project, found: Found) -> list[Bundle]:
    if found.wheel is not None:  # what is imported is decided by the place, whatever a manifest says
        return bundles_of(found, project.package)
    folders = (project.bundle_folder, None)  # one without kernels has none
    return [bundle for bundle in found.bundles if manifest_of(bundle).folder in folders]


def _facts(comparison: Comparison) -> dict[str, Any]:
    return {
        "toolchain": [
            {"name": name, "shipped": shipped, "here": here} for name, shipped, here in comparison.toolchain
        ],
        "units": [
            {"module": module, "arch": arch, "verdict": verdict}
            for (module, arch), verdict in comparison.verdicts.items()
        ],
        "files": [{"file": name, "same": same} for name, same in comparison.files.items()],
    }


def _summary(comparison: Comparison, others: int) -> Iterator[str]:
    counts = Counter(comparison.verdicts.values())
    yield f"{_count(len(comparison.verdicts), 'unit')} compiled again: {_same(counts['same'])}"
    same = sum(comparison.files.values())
    yield f"{_count(len(comparison.files), 'other file')} made again: {_same(same)}"
    if others:
        yield f"{_count(others, 'other bundle')} not of this project: not compared with a build"


def _same(number: int) -> str:
    return f"{number} {'is' if number == 1 else 'are'} the same to the byte"


def _findings(comparison: Comparison) -> Iterator[Problem]:
    """Yield a problem for each kind of difference, with the units or the files that have it."""
    for verdict, (what, hint) in _FINDINGS.items():
        units = [unit_name(*unit) for unit, found in comparison.verdicts.items() if found == verdict]
        if units:
            why = _toolchain(comparison) if verdict == "other inputs" else ()
            yield Problem(f"{_count(len(units), 'unit')} {what}", None, hint, (*units, *why))
    files = [name for name, same in comparison.files.items() if not same]
    if files and {*comparison.verdicts.values()} <= {"same"}:  # otherwise they have to differ
        what = f"{_count(len(files), 'file')} not what the project gives, though all units are"
        yield Problem(what, None, _OF_ITS_BUILD, (*files, *_toolchain(comparison)))


def _count(number: int, kind: str) -> str:
    return f"{number} {kind}{'s' * (number != 1)}"


def _toolchain(comparison: Comparison) -> Iterator[str]:
    if comparison.toolchain:
        yield "this proves nothing, for these differ:"
        for name, shipped, here in comparison.toolchain:
            yield f"  {name}: {shipped} when it was built, {here} here"
