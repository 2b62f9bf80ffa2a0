"""Compare a bundle with what its project gives when it is built again, with an empty cache.

The keys say whether both were built from the same inputs: sources, headers, options, compiler. Only then does
a difference in the result prove anything: that the bundle holds what these inputs do not compile to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from .. import _pipeline, _temporary
from ..bundle.manifest import Entry, Manifest, read_keys, read_manifest
from ..errors import BundleError, Location, Problem
from ..sources.project import Project
from .installed import Bundle

Unit = tuple[str, str]  # module and arch
Verdict = Literal["same", "differs", "other inputs", "only in the bundle", "only in the rebuild"]

_OF_THE_FIRST_BUILD = ("HATCH_CUBIN_REPORT", "HATCH_CUBIN_REQUIRE_HITS", "HATCH_CUBIN_SKIP")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of each unit, and what of the toolchain differs: name, shipped, here."""

    verdicts: Mapping[Unit, Verdict]
    toolchain: tuple[tuple[str, str, str], ...]


def rebuild(project: Project, bundle: Bundle) -> Comparison:
    """Build *project* from nothing and compare the result with what *bundle* says it has."""
    shipped = {name: bundle.read(name) for name in ("manifest.json", "keys.json")}
    environ = {name: value for name, value in project.environ.items() if name not in _OF_THE_FIRST_BUILD}
    with _temporary.make() as folder:
        config = replace(project.config, cache_dir=str(folder), cache_size=None)
        built = _pipeline.build(replace(project, config=config, environ=environ), noted=False)
    try:
        return compare(shipped, built)
    except ValueError as exc:
        raise BundleError(Problem(f"its indexes cannot be read: {exc}", Location(bundle.place))) from exc


def compare(shipped: Mapping[str, bytes], rebuilt: Mapping[str, bytes]) -> Comparison:
    """Compare two bundles by their indexes, which have the digests of all results."""
    ours, theirs = (read_manifest(files["manifest.json"]) for files in (shipped, rebuilt))
    our_keys, their_keys = (_keys(files["keys.json"]) for files in (shipped, rebuilt))
    our_units, their_units = _units(ours), _units(theirs)
    verdicts: dict[Unit, Verdict] = {}
    for unit in sorted({*our_units, *their_units}):
        if unit not in their_units:
            verdicts[unit] = "only in the bundle"
        elif unit not in our_units:
            verdicts[unit] = "only in the rebuild"
        elif _result(our_units[unit]) == _result(their_units[unit]):
            verdicts[unit] = "same"
        else:
            verdicts[unit] = "differs" if our_keys.get(unit) == their_keys.get(unit) else "other inputs"
    return Comparison(verdicts, _other_toolchain(ours, theirs))


def _units(manifest: Manifest) -> dict[Unit, Entry]:
    return {(module.name, entry.arch): entry for module in manifest.modules for entry in module.entries}


def _keys(data: bytes) -> dict[Unit, str]:
    return {(name, arch): key for name, archs in read_keys(data).items() for arch, key in archs.items()}


def _result(entry: Entry) -> tuple[object, ...]:
    """Return what a compile gives: the bytes, and the names that its kernels are found under."""
    return entry.sha256, dict(entry.kernels)


def _other_toolchain(shipped: Manifest, rebuilt: Manifest) -> tuple[tuple[str, str, str], ...]:
    before = {**shipped.toolchain, "data model": shipped.data_model}
    after = {**rebuilt.toolchain, "data model": rebuilt.data_model}
    pairs = {name: (before.get(name) or "none", after.get(name) or "none") for name in {*before, *after}}
    return tuple((name, *pair) for name, pair in sorted(pairs.items()) if pair[0] != pair[1])
