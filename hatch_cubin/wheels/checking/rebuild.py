"""Build a project again, with an empty cache, and compare the result with the bundle in a wheel.

Equal cache keys prove that the wheel and the rebuild had the same inputs: sources, headers, options,
compiler. If the cache keys are equal but the compiled code differs, the code in the wheel was not compiled
from the inputs for which its cache key was computed. If the cache keys differ, the wheel and the rebuild had
different inputs, so a difference in the compiled code proves nothing. The files of the bundle that do not
contain code depend only on the compiled code and on the project's configuration.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from ...building import pipeline
from ...bundle import sbom
from ...bundle.manifest import Manifest, read_keys, read_manifest
from ...bundle.unpacked_form import manifest_before_split
from ...common import temporary_folders
from ...common.digest import file_digest
from ...common.natural_order import by_number
from ...errors import BundleError, Location, problem
from ...project.project import Project
from ..reading.bundles import Bundle, FileElsewhereError
from ..reading.companions import companions_of
from ..reading.compiled_code import read_results
from ..reading.survey import manifest_of
from .editable_check import EDITABLE_FILE, rebuilt_editable_file
from .sbom_check import provenance
from .verify import FILES_OF_EVERY_BUNDLE

ModuleAndArch = tuple[str, str]  # module and arch
UnitVerdict = Literal[
    "same", "differs", "other inputs", "only in the bundle", "only in the rebuild", "not looked at"
]

_IGNORED_VARIABLES = (
    "HATCH_CUBIN_LOCKED",
    "HATCH_CUBIN_REPORT",
    "HATCH_CUBIN_REQUIRE_HITS",
    "HATCH_CUBIN_SIGNING_KEY",
    "HATCH_CUBIN_SKIP",
)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """The result of building a project with an empty cache: the files of the bundle, by name."""

    project: Project
    files: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class RebuildComparison:
    """The result of comparing the bundle in a wheel with a rebuild of the project."""

    verdicts: Mapping[ModuleAndArch, UnitVerdict]
    files: Mapping[str, bool]  # For each file without compiled code, by name: whether its bytes are equal.
    # A tool, its version in the wheel, and its version in the rebuild.
    toolchain: tuple[tuple[str, str, str], ...]


def rebuild(project: Project) -> Rebuilt:
    """Build a project on this machine alone, with an empty cache and without a remote cache.

    The project's producers run again, too.
    """
    environ = {name: value for name, value in project.environ.items() if name not in _IGNORED_VARIABLES}
    with temporary_folders.make() as folder:
        alone = replace(project.config, remote_cache=None, executor=None)
        config = replace(alone, cache_dir=str(folder), cache_size=None)
        again = replace(project, config=config, environ=environ, recalls_texts=False)
        return Rebuilt(again, pipeline.build(again, noted=False))


def compare_bundle(bundle: Bundle, bill: bytes | None, again: Callable[[], Rebuilt]) -> RebuildComparison:
    """Compare a bundle and its *bill* of materials with a rebuild.

    *again* is a function that rebuilds the project.
    """
    shipped = {name: bundle.read(name) for name in ("manifest.json", "keys.json")}
    for name in {*bundle.packed_sizes} - {*shipped}:
        with contextlib.suppress(
            BundleError
        ):  # A damaged file counts as different here. `verify` reports the damage.
            shipped[name] = bundle.read(name)
    if bill is not None:
        shipped[sbom.NAME] = bill
    elsewhere = _add_companions(bundle, shipped)
    rebuilt = again()
    built, project = {**rebuilt.files}, rebuilt.project
    try:
        if EDITABLE_FILE in shipped:
            built[EDITABLE_FILE] = rebuilt_editable_file(
                project, shipped[EDITABLE_FILE], pipeline.needed_files(project)
            )
        return compare(shipped, built, elsewhere)
    except ValueError as exc:
        what = f"the manifest or the cache keys of this bundle cannot be read: {exc}"
        raise BundleError(problem("manifest-unreadable", what, Location(bundle.where))) from exc


def _add_companions(bundle: Bundle, shipped: dict[str, bytes]) -> set[str]:
    """Undo a split: add the compiled files of companion wheels to *shipped*, the files of the main wheel.

    Return the names of the files that could not be added, because the wheels that contain them are missing.
    """
    manifest = manifest_of(bundle)
    if manifest.companions is None and manifest.wheel_variant is None:
        return set()
    elsewhere = {each.file for one in manifest.modules for each in one.entries if each.absent}
    files = {(each.file, each.companion) for one in manifest.modules for each in one.entries}
    with companions_of(bundle, manifest) as companions:
        for file, package in files:
            if package is not None:
                try:
                    shipped[file] = companions.read(package, file)
                except FileElsewhereError:
                    elsewhere.add(file)
                except BundleError:  # `verify` reports a damaged file
                    continue
    shipped["manifest.json"] = manifest_before_split(shipped["manifest.json"])
    return elsewhere


def compare(
    shipped: Mapping[str, bytes], rebuilt: Mapping[str, bytes], elsewhere: Collection[str] = ()
) -> RebuildComparison:
    """Compare a bundle with a rebuilt bundle: keys, bytes and kernel names of the code, and all other files.

    *elsewhere* are the names of files that are not compared, because they are in missing wheels.
    """
    ours, theirs = (read_manifest(files["manifest.json"]) for files in (shipped, rebuilt))
    our_keys, their_keys = (_keys(files["keys.json"]) for files in (shipped, rebuilt))
    unseen = {(one.name, each.arch) for one in ours.modules for each in one.entries if each.file in elsewhere}
    our_results, their_results = _compile_results(ours, shipped), _compile_results(theirs, rebuilt)
    verdicts: dict[ModuleAndArch, UnitVerdict] = {}
    for unit in sorted({*our_results, *their_results}, key=lambda unit: (by_number(unit[0]), unit[1])):
        if unit not in their_results:
            verdicts[unit] = "only in the bundle"
        elif unit not in our_results:
            verdicts[unit] = "only in the rebuild"
        elif unit in unseen:
            verdicts[unit] = "not looked at"
        elif our_results[unit] == their_results[unit]:
            verdicts[unit] = "same"
        else:
            verdicts[unit] = "differs" if our_keys.get(unit) == their_keys.get(unit) else "other inputs"
    blocks = sorted({*(ours.blocks or ()), *(theirs.blocks or ())} - {*elsewhere})
    names = (
        *dict.fromkeys((*FILES_OF_EVERY_BUNDLE, *ours.loader_files)),
        *(name for name in (sbom.NAME, EDITABLE_FILE) if name in shipped),
        *blocks,
    )
    files = {name: name in rebuilt and shipped.get(name) == rebuilt[name] for name in names}
    return RebuildComparison(
        verdicts, files, _toolchain_differences(_toolchain_of(ours, shipped), _toolchain_of(theirs, rebuilt))
    )


def _keys(data: bytes) -> dict[ModuleAndArch, str]:
    return {(name, arch): key for name, archs in read_keys(data).items() for arch, key in archs.items()}


def _compile_results(
    manifest: Manifest, files: Mapping[str, bytes]
) -> dict[ModuleAndArch, tuple[object, ...]]:
    """Return the digest and the kernel names of the compiled code of each module, for each arch."""
    bundle = Bundle("", dict.fromkeys(files), files.__getitem__)
    return {
        (module.name, entry.arch): (
            file_digest(data) if isinstance(data, bytes) else None,
            dict(entry.kernels),
        )
        for module, entry, data in read_results(bundle, manifest)
    }


def _toolchain_of(manifest: Manifest, files: Mapping[str, bytes]) -> dict[str, str | None]:
    commit = provenance(files[sbom.NAME]) if sbom.NAME in files else {}
    return {
        **manifest.toolchain,
        **commit,
        "data model": manifest.data_model,
        manifest.generator[0]: manifest.generator[1],
    }


def _toolchain_differences(
    before: Mapping[str, str | None], after: Mapping[str, str | None]
) -> tuple[tuple[str, str, str], ...]:
    pairs = {name: (before.get(name) or "none", after.get(name) or "none") for name in {*before, *after}}
    return tuple((name, *pair) for name, pair in sorted(pairs.items()) if pair[0] != pair[1])
