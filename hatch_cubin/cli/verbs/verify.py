"""Check that a wheel, a folder or an installed package has the kernels that its manifest says.

Every file is compared with its digest in the manifest, each cubin's kernels and arch with the manifest, and
in a wheel every file with RECORD. The manifest and the keys must be, to the byte, what hatch-cubin writes for
their facts. This proves that nothing was changed after the build.

--rebuild proves that the build was right: it compiles the project's kernels again, with an empty cache, and
compares the results. It finds what a poisoned cache has put into a wheel. It needs the sources and the
compiler that the wheel was built with. With others a difference proves nothing, and this says so.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ...errors import BundleError, HatchCubinError, Location, Problem
from ...wheels.installed import Bundle, Found, opened
from ...wheels.record import record_problems
from ...wheels.survey import manifest_of, unit_name
from ...wheels.verify import bundle_problems, is_of_this_version
from ..verb import Answer, json_argument, open_project, project_arguments, require_compiler

if TYPE_CHECKING:
    from ...sources.project import Project
    from ...wheels.rebuild import Comparison, Verdict

_FINDINGS: Mapping[Verdict, tuple[str, str | None]] = {
    "differs": (
        "not what its inputs compile to",
        "a cache that somebody has poisoned does this: empty it, and build again",
    ),
    "other inputs": (
        "built from another source, header, option or compiler",
        "verify it with the sources and the toolkit that it was built with",
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
        lines = [] if problems else [_as_built(bundle) for bundle in found.bundles]
        if args.rebuild:
            try:
                comparison = _compare(args, found)
            except HatchCubinError as exc:  # what is known already must not be lost
                problems += exc.problems
            else:
                facts["rebuild"] = _facts(comparison)
                lines += _summary(comparison)
                problems += _findings(comparison)
    facts |= {"ok": not problems, "problems": [_fact(problem) for problem in problems]}
    return Answer(facts, lines, problems)


def _as_built(bundle: Bundle) -> str:
    manifest = manifest_of(bundle)
    said = f"{bundle.place}: all {len(bundle.packed)} files are as they were built"
    if is_of_this_version(manifest):
        return said
    return f"{said}; the loader is that of {' '.join(manifest.generator)} and was not compared"


def _fact(problem: Problem) -> dict[str, Any]:
    path = None if problem.where is None else problem.where.path
    return {"path": path, "what": problem.what, "details": [*problem.details], "hint": problem.hint}


# --- the rebuild ---------------------------------------------------------------------------------


def _compare(args: argparse.Namespace, found: Found) -> Comparison:
    project = open_project(args)
    require_compiler(project)
    bundle = _bundle_of(project, found)
    from ...wheels import rebuild

    return rebuild.rebuild(project, bundle)


def _bundle_of(project: Project, found: Found) -> Bundle:
    """Return the bundle that the project builds; there may be other bundles beside it."""
    for bundle in found.bundles:
        if manifest_of(bundle).folder in (project.bundle_folder, None):  # one without kernels has none
            return bundle
    places = ", ".join(bundle.place for bundle in found.bundles)
    what = f"has no bundle that this project builds ({project.bundle_folder}), only {places}"
    raise BundleError(Problem(what, Location(found.path), "--project DIR names the project"))


def _facts(comparison: Comparison) -> dict[str, Any]:
    return {
        "toolchain": [
            {"name": name, "shipped": shipped, "here": here} for name, shipped, here in comparison.toolchain
        ],
        "units": [
            {"module": module, "arch": arch, "verdict": verdict}
            for (module, arch), verdict in comparison.verdicts.items()
        ],
    }


def _summary(comparison: Comparison) -> Iterator[str]:
    counts = Counter(comparison.verdicts.values())
    yield f"{len(comparison.verdicts)} units compiled again: {counts['same']} are the same to the byte"


def _findings(comparison: Comparison) -> Iterator[Problem]:
    """Yield a problem for each kind of difference, with the units that have it."""
    for verdict, (what, hint) in _FINDINGS.items():
        units = [unit_name(*unit) for unit, found in comparison.verdicts.items() if found == verdict]
        if units:
            count = f"{len(units)} unit{'s' * (len(units) != 1)}"
            yield Problem(f"{count} {what}", hint=hint, details=(*units, *_toolchain(comparison, verdict)))


def _toolchain(comparison: Comparison, verdict: Verdict) -> Iterator[str]:
    if verdict == "other inputs" and comparison.toolchain:
        yield "this proves nothing, for the toolchain is another one:"
        for name, shipped, here in comparison.toolchain:
            yield f"  {name}: {shipped} when it was built, {here} here"
