"""Check that the files of wheels, folders or installed packages agree with each other.

'verify' proves that a wheel's files agree with each other, and that the wheel's loader comes from a release
of hatch-cubin. The loader is the Python code in '_cubins' that loads the kernels. Every file in '_cubins' is
compared with manifest.json. The loader is compared with the loader of the hatch-cubin version in
manifest.json. The text of manifest.json and keys.json must be exactly what hatch-cubin writes. In a wheel,
'verify' also compares the bill of materials with the manifest, and all files with RECORD.

Only 'verify --rebuild' proves that every file that hatch-cubin put into the wheel is what the project builds.
The option '--rebuild' compiles the kernels again, with an empty cache, and compares the bytes. The comparison
needs the same sources and the same compiler as the wheel's build. If the sources or the compiler differ, a
difference between the kernels proves nothing, and the command says so.

For files that hatch-cubin did not make, such as the package's own '__init__.py', only a signature proves that
nobody changed them. RECORD protects only against damage.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from ...common.digest import file_digest
from ...common.sizes import count
from ...errors import BundleError, HatchCubinError, Location, Problem, problem
from ...wheels.checking.editable_check import EDITABLE_FILE
from ...wheels.checking.integrity import integrity_problems
from ...wheels.checking.sbom_check import sbom_of
from ...wheels.checking.verify import is_built_by_this_version
from ...wheels.reading.bundles import Bundle, OpenedWheel, bundles_of_package, expand_patterns, open_wheel
from ...wheels.reading.companions import fits_manifest, main_project_of, missing_companions, read_description
from ...wheels.reading.survey import manifest_of, unit_name
from ..verb_base import (
    Answer,
    json_argument,
    open_project,
    project_arguments,
    require_compiler,
    wheels_argument,
)

if TYPE_CHECKING:
    from ...bundle.manifest import Manifest
    from ...project.project import Project
    from ...wheels.checking.rebuild import RebuildComparison, Rebuilt, UnitVerdict

T = TypeVar("T")

_UNCHANGED = frozenset(("same", "not looked at"))
_OF_ITS_BUILD = "verify the wheel with the sources and the toolkit of its build"
_WRONG: tuple[UnitVerdict, ...] = ("differs", "other inputs", "only in the bundle", "only in the rebuild")


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    wheels_argument(parser)
    parser.add_argument(
        "--rebuild", action="store_true", help="compile the project again, and compare the bytes"
    )
    project_arguments(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Check all wheels, and return all problems."""
    again = _Rebuilder(args) if args.rebuild else None
    checked = [_checked(what, again) for what in expand_patterns(args.wheels)]
    if again is not None:
        checked = [again.with_whole(each) for each in checked]
    facts = {"ok": not any(each.problems for each in checked), "results": [each.facts for each in checked]}
    lines = [line for each in checked for line in each.lines]
    return Answer(facts, lines, [problem for each in checked for problem in each.problems])


def _checked(what: str, again: _Rebuilder | None) -> Answer:
    """Check one wheel. If the wheel cannot be read, the result contains the reason."""
    facts: dict[str, Any] = {"named": what, "path": what, "bundles": []}
    lines: list[str] = []
    problems: list[Problem] = []
    try:
        with open_wheel(what, companions=True) as opened:
            facts |= {"path": opened.path, "bundles": [bundle.place for bundle in opened.bundles]}
            problems += integrity_problems(opened)
            lines += [] if problems else [*_agreed(opened)]
            if again is not None and opened.companion is not None:
                again.note_part(opened, read_description(opened) if not problems else None)
            elif again is not None:
                again.note_named(opened)
                bundle, comparison = _compare(again, opened)
                others = [each for each in opened.bundles if each is not bundle]
                facts["rebuild"] = {**_facts(comparison), "others": [each.place for each in others]}
                lines += _summary(bundle, comparison)
                problems += _findings(bundle, comparison, again)
                problems += _not_of_project(bundle, others)
    except HatchCubinError as exc:  # The problems that were found before the error are reported too.
        problems += exc.problems
    return Answer({**facts, "ok": not problems}, lines, problems)


def _agreed(opened: OpenedWheel) -> Iterator[str]:
    yield from map(_agrees, opened.bundles)
    if opened.companion is not None:
        main = main_project_of(opened)
        yield f"{opened.path}: all files match companion.json; this is a companion of the main wheel {main}"


def _agrees(bundle: Bundle) -> str:
    manifest = manifest_of(bundle)
    loader = f"the loader is from {' '.join(manifest.generator)}"
    empty = "; no kernels, because HATCH_CUBIN_SKIP was set in the build" if manifest.skipped else ""
    unknown = "" if is_built_by_this_version(manifest) else ", the type stub __init__.pyi was not compared"
    label = f"; this is the wheel variant {manifest.wheel_variant['label']}" if manifest.wheel_variant else ""
    absent = missing_companions(bundle, manifest)
    part = f"; not found, so not checked: {', '.join(absent)}" if absent else ""
    agree = f"all {len(bundle.packed_sizes)} files agree with the manifest"
    return f"{bundle.where}: {agree}; {loader}{unknown}{empty}{label}{part}"


# --- the rebuild ---------------------------------------------------------------------------------


class _Rebuilder:
    """The project that `verify --rebuild` compiles again to compare it with wheels.

    Each package of the project is compiled only once.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        self._opened = _once(lambda: _opened_project(args))
        self._rebuilt: dict[tuple[str, bool], Callable[[], Rebuilt]] = {}
        self._named: set[str] = set()  # The digests of the manifests of all wheels on the command line.
        # The manifest of each wheel that was compared, by its digest.
        self._wholes: dict[str, Manifest] = {}
        # For each companion wheel, by path: its import package and its companion.json.
        self._parts: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def project(self, opened: OpenedWheel) -> Project:
        """Return the project.

        If the project has several packages, choose the package whose kernels the wheel contains.
        """
        from ...frontends import open_project as frontend

        told = (manifest_of(bundle).folder for bundle in opened.bundles)
        return frontend.with_package_of_bundle(self._opened(), filter(None, told))

    def install_command(self) -> str | None:
        """Return the command that installs the toolkit in the lock file; None if there is no lock file."""
        from ...lockfile import locked_build

        return locked_build.install_command(self._opened())

    def has_producers(self) -> bool:
        """Return whether the project has producers, which are Python functions that generate sources."""
        return bool(self._opened().config.producer)

    def rebuilt(self, project: Project) -> Rebuilt:
        """Return the result of compiling the project again. The project is compiled only once per package."""
        from ...wheels.checking.rebuild import rebuild

        form = project.bundle_folder, project.config.pack
        return self._rebuilt.setdefault(form, _once(lambda: rebuild(project)))()

    def note_named(self, opened: OpenedWheel) -> None:
        """Remember the manifests of a main wheel.

        `verify` uses the manifests to report an error of a main wheel only once, and not again for its
        companion wheels.
        """
        for bundle in opened.bundles:
            with contextlib.suppress(BundleError):  # the integrity check reports an unreadable manifest
                self._named.add(file_digest(bundle.read("manifest.json")))

    def note_whole(self, bundle: Bundle) -> None:
        """Remember the manifest of a main wheel.

        The manifest contains the digests of all files in the companion wheels.
        """
        self._wholes[file_digest(bundle.read("manifest.json"))] = manifest_of(bundle)

    def note_part(self, opened: OpenedWheel, said: Mapping[str, Any] | None) -> None:
        """Remember the description of a companion wheel, to compare the wheel later.

        *said* is the content of companion.json, or None if this file is damaged.
        """
        if said is not None:
            self._parts[opened.path] = (opened.companion or "", said)

    def with_whole(self, checked: Answer) -> Answer:
        """Add an error to *checked* if a companion wheel's files differ from the main wheel's manifest."""
        package, said = self._parts.get(checked.facts["path"], ("", None))
        if said is None or said["index"] in self._named - self._wholes.keys():
            return checked
        path = Location(checked.facts["path"])
        whole = self._wholes.get(said["index"])
        if whole is None:
            main = f"{said['project']} {said['version']} of the same build"
            what = f"this companion wheel was not compared, because the main wheel {main} is missing"
            hint = "also name the main wheel that 'hatch-cubin split' wrote together with this companion"
            wrong = problem("companion-not-compared", what, path, hint)
        elif not fits_manifest(package, said, whole):
            what = "this companion wheel does not have the files that the main wheel's manifest lists"
            wrong = problem("companion-differs", what, path, "split the wheel again")
        else:
            return checked
        return Answer({**checked.facts, "ok": False}, checked.lines, [*checked.problems, wrong])


def _opened_project(args: argparse.Namespace) -> Project:
    project = open_project(args)
    require_compiler(project)
    return project


def _once(make: Callable[[], T]) -> Callable[[], T]:
    """Return a function that calls *make* only once: later calls return the result of the first call."""

    @functools.cache
    def outcome() -> T | HatchCubinError:
        try:
            return make()
        except HatchCubinError as exc:
            return exc

    def get() -> T:
        made = outcome()
        if isinstance(made, HatchCubinError):
            raise made
        return made

    return get


def _compare(again: _Rebuilder, opened: OpenedWheel) -> tuple[Bundle, RebuildComparison]:
    from ...wheels.checking.rebuild import compare_bundle

    project = again.project(opened)
    bundle = _bundle_of(project, opened)
    if EDITABLE_FILE in bundle.packed_sizes:  # A bundle of an editable install is never packed.
        project = replace(project, config=replace(project.config, pack=False))
    bill = sbom_of(opened, bundle)
    again.note_whole(bundle)
    return bundle, compare_bundle(bundle, bill and bill.data, lambda: again.rebuilt(project))


def _bundle_of(project: Project, opened: OpenedWheel) -> Bundle:
    """Find the bundle of *project* in a wheel; raise BundleError if the wheel has none or several."""
    own = _own(project, opened)
    if len(own) == 1:
        return own[0]
    if own:
        places = ", ".join(bundle.place for bundle in own)
        what = (
            f"contains several bundles that this project ({project.bundle_folder}) may have built: {places}"
        )
        raise BundleError(problem("several-bundles", what, Location(opened.path), "name only one bundle"))
    places = ", ".join(bundle.place for bundle in opened.bundles)
    what = f"does not contain a bundle of this project ({project.bundle_folder}), only {places}"
    hint = "name the project that built the wheel with --project DIR"
    raise BundleError(problem("bundle-of-other-project", what, Location(opened.path), hint))


def _own(project: Project, opened: OpenedWheel) -> list[Bundle]:
    # The path of a bundle in a wheel shows to which package the bundle belongs.
    if opened.archive is not None:
        return bundles_of_package(opened, project.package)
    # The folder is None in the manifest of a bundle without kernels.
    folders = (project.bundle_folder, None)
    return [bundle for bundle in opened.bundles if manifest_of(bundle).folder in folders]


def _facts(comparison: RebuildComparison) -> dict[str, Any]:
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


def _summary(bundle: Bundle, comparison: RebuildComparison) -> Iterator[str]:
    counts = Counter(comparison.verdicts.values())
    units = count(len(comparison.verdicts), "unit")
    same = counts["same"]
    has = "has" if same == 1 else "have"
    yield f"{bundle.where}: of {units} compiled again, {same} {has} exactly the same bytes"
    if unseen := counts["not looked at"]:
        where = "other wheel variants" if manifest_of(bundle).wheel_variant else "missing companion wheels"
        yield f"{bundle.where}: {count(unseen, 'unit')} in {where} not compared"
    files, same = count(len(comparison.files), "other file"), sum(comparison.files.values())
    has = "has" if same == 1 else "have"
    yield f"{bundle.where}: of {files} made again, {same} {has} exactly the same bytes"


def _not_of_project(bundle: Bundle, others: Sequence[Bundle]) -> Iterator[Problem]:
    """Yield a problem for each bundle that was not compared: such a bundle may contain arbitrary code."""
    for other in others:
        what = f"was not compared with a rebuild, because this project builds only {bundle.place}"
        hint = "remove this bundle: the kernels of another project belong into that project's own wheel"
        yield problem("bundle-not-compared", what, Location(other.where), hint if other.wheel else None)


def _findings(bundle: Bundle, comparison: RebuildComparison, again: _Rebuilder) -> Iterator[Problem]:
    """Yield a problem for each kind of difference, with the names of the compiled files that differ."""
    where, install = Location(bundle.where), again.install_command()
    for verdict in _WRONG:
        units = [unit_name(*unit) for unit, found in comparison.verdicts.items() if found == verdict]
        if units:
            why = [*_toolchain(comparison)] if verdict == "other inputs" else []
            wrong = _about(verdict, count(len(units), "unit"))
            hint = (
                wrong.hint
                if install is None or not why
                else f"install the toolkit that cubin.lock names, and verify the wheel again: {install}"
            )
            if verdict == "other inputs" and not why and again.has_producers():
                hint = (
                    f"{hint}; if this is already the right commit, a producer has returned a different text"
                )
            yield wrong._replace(where=where, hint=hint, details=(*units, *why))
    files = [name for name, same in comparison.files.items() if not same]
    # If compiled code differs, the manifest differs too. Other files are reported only if all compiled code
    # is equal.
    if files and {*comparison.verdicts.values()} <= _UNCHANGED:
        what = f"the rebuild differs in {count(len(files), 'file')} although all compiled code is equal"
        details = (*files, *_toolchain(comparison))
        yield problem("file-differs", what, where, _where(comparison), details)


def _about(verdict: UnitVerdict, units: str) -> Problem:
    if verdict == "differs":
        hint = "the cache or the wheel was probably tampered with: empty the cache, and build again"
        return problem(
            "unit-differs", f"the rebuild differs in {units} although all inputs are equal", hint=hint
        )
    if verdict == "other inputs":
        what = f"the inputs of {units} differ in the rebuild: a source, a header, an option or the compiler"
        return problem("unit-inputs-differ", what, hint=_OF_ITS_BUILD)
    if verdict == "only in the bundle":
        return problem("unit-not-built", f"the wheel has {units} that the project does not build")
    hint = "if HATCH_CUBIN_ARCHS was set when the wheel was built, set it to the same archs again"
    return problem("unit-not-shipped", f"the project builds {units} that the wheel does not have", hint=hint)


def _where(comparison: RebuildComparison) -> str:
    """Return a hint that says from which sources to rebuild, such as a checkout of the wheel's commit."""
    before = {name: shipped for name, shipped, _here in comparison.toolchain}
    if not before or not before.keys() <= {"commit", "dirty"}:
        return _OF_ITS_BUILD
    if before.get("commit") == "none":
        return "the wheel was built from an sdist: unpack the sdist, and verify the wheel there"
    return "verify the wheel in a checkout of the commit that it was built from"


def _toolchain(comparison: RebuildComparison) -> Iterator[str]:
    if comparison.toolchain:
        yield "the difference proves nothing, because the wheel's build and the rebuild differ in:"
        for name, shipped, here in comparison.toolchain:
            yield f"  {name}: {shipped} in the wheel, {here} in the rebuild"
