"""Split a finished wheel by arch: into a main wheel and a companion wheel for each arch.

Nothing is compiled, and no compiled code changes. The manifest in the main wheel lists the companion wheel of
each file that was moved.
"""

from __future__ import annotations

import email.parser
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ... import __version__
from ...bundle import loader_files, sbom
from ...bundle.layout import SPLIT
from ...bundle.manifest import Manifest, canonical, prove_manifest, split_manifest
from ...common.digest import file_digest
from ...common.distribution_names import underscored_name
from ...errors import BundleError, Location, problem
from ..checking.record_check import record_problems
from ..checking.sbom_check import sbom_of, sbom_problems
from ..reading.bundles import COMPANION_FILE, Bundle, OpenedWheel, metadata_file, read_member
from ..reading.survey import arch_order, manifest_of

_COPIED_FIELDS = ("Requires-Python", "License", "License-Expression", "Author", "Author-email")
_EXTRA_FOR_ALL = "all"


class CompanionWheel(NamedTuple):
    """A companion wheel, which contains the compiled code for one arch."""

    name: str
    metadata: str  # The path of the wheel's .dist-info folder.
    files: Mapping[str, bytes]


class SplitWheel(NamedTuple):
    """The result of splitting a wheel: changes to the files of the main wheel, and the companion wheels."""

    written: Mapping[str, bytes]
    gone: frozenset[str]
    companions: Sequence[CompanionWheel]
    all_companions: str  # A pattern for the file names of companions for any arch.


class MainWheel(NamedTuple):
    """Facts about the wheel to split: project, version, tag, and the path and text of METADATA."""

    project: str
    version: str
    tag: str
    place: str
    text: str

    def package(self, arch: str) -> str:
        return f"{underscored_name(self.project)}_cubins_{_extra_name(arch)}"

    def companion(self, arch: str) -> str:
        return self.package(arch).replace("_", "-")

    def companion_file(self, arch: str) -> str:
        return f"{self.package(arch)}-{self.version}-{self.tag}.whl"


class SplittableWheel(NamedTuple):
    """A wheel that can be split: its only bundle, its manifest, and its metadata."""

    archive: zipfile.ZipFile
    bundle: Bundle
    manifest: Manifest
    home: MainWheel

    @property
    def metadata(self) -> str:
        """The path of the wheel's `.dist-info` folder."""
        return self.home.place.partition("/")[0]


def check_splittable(opened: OpenedWheel) -> SplittableWheel:
    """Return the parts of a wheel that `split` needs, or raise BundleError if the wheel cannot be split."""
    wheel = opened.archive
    if wheel is None or len(opened.bundles) != 1:
        if wheel is None:
            what = "is not a wheel: only a wheel with one bundle can be split"
        else:
            what = f"has {len(opened.bundles)} bundles: only a wheel with one bundle can be split"
        raise BundleError(problem("not-splittable", what, Location(opened.path)))
    (bundle,) = opened.bundles
    manifest, home = manifest_of(bundle), _read_metadata(opened, wheel)
    if manifest.companions is not None or manifest.wheel_variant is not None:
        raise BundleError(problem("already-split", "was split already", bundle.at("manifest.json")))
    # `split` adds a file of this version's loader to the wheel. This file would not work with the loader of
    # another version.
    if bundle.read(loader_files.CORE) != loader_files.read(loader_files.CORE):
        hint = f"split the wheel with the version that built it: {' '.join(manifest.generator)}"
        what = f"is the loader of another version, so hatch-cubin {__version__} cannot split the wheel"
        raise BundleError(problem("not-splittable", what, bundle.at(loader_files.CORE), hint))
    bill = sbom_of(opened, bundle)
    if problems := [*record_problems(wheel), *(sbom_problems(opened) if bill else ())]:
        raise BundleError(*problems)
    return SplittableWheel(wheel, bundle, manifest, home)


def split(opened: OpenedWheel) -> SplitWheel:
    """Split a wheel, or raise BundleError if the wheel cannot be split."""
    _archive, bundle, manifest, home = check_splittable(opened)
    files = _files_by_arch(manifest)
    if not files:
        what = "does not contain machine code that could be moved into a companion wheel"
        raise BundleError(problem("not-splittable", what, Location(bundle.where)))
    packages = {file: home.package(arch) for arch, own in files.items() for file in own}
    known = {home.package(arch): _companion_entry(home, arch) for arch in files}
    data = manifest_of_part(bundle, {"companions": known}, lambda entry: _with_companion(entry, packages))
    bill = sbom_of(opened, bundle)
    made = [
        _companion_wheel(
            home, arch, {file: bundle.read(file) for file in files[arch]}, data, bill and bill.data
        )
        for arch in files
    ]
    written = {
        f"{bundle.place}/manifest.json": data,
        f"{bundle.place}/{loader_files.SPLIT}": loader_files.read(loader_files.SPLIT),
        home.place: _with_extras(home, [*files]),
    }
    gone = frozenset(f"{bundle.place}/{file}" for file in packages)
    return SplitWheel(written, gone, made, home.companion_file("sm_[0-9]*"))


def manifest_of_part(
    bundle: Bundle, fields: Mapping[str, Any], changed: Callable[[Mapping[str, Any]], dict[str, Any]]
) -> bytes:
    """Return a bundle's manifest with the additional *fields*.

    The function *changed* is called with each compiled file's entry in the manifest, and returns the new
    entry.
    """
    data = bundle.read("manifest.json")
    try:
        prove_manifest(data)
    except ValueError as exc:
        raise BundleError(problem("not-as-written", str(exc), bundle.at("manifest.json"))) from exc
    parts = split_manifest(data)
    return parts.write({**parts.header, "format": SPLIT, **fields}, lambda _module, entry: changed(entry))


def _extra_name(arch: str) -> str:
    return arch.replace("_", "")


def _files_by_arch(manifest: Manifest) -> dict[str, list[str]]:
    """Return the files of machine code that move into the companion wheel of each arch.

    PTX files, and files that several archs share, stay in the main wheel.
    """
    archs: dict[str, set[str]] = {}
    for module in manifest.modules:
        for entry in module.entries:
            archs.setdefault(entry.file, set()).add("" if entry.is_ptx else entry.arch)
    files: dict[str, list[str]] = {}
    for file, (first, *more) in ((file, sorted(own)) for file, own in sorted(archs.items())):
        if first and not more:
            files.setdefault(first, []).append(file)
    return {arch: files[arch] for arch in sorted(files, key=arch_order)}


def _with_companion(entry: Mapping[str, Any], packages: Mapping[str, str]) -> dict[str, Any]:
    package = packages.get(entry.get("block", entry.get("file")))
    return {**entry, **({"companion": package} if package else {})}


def _companion_entry(home: MainWheel, arch: str) -> dict[str, str]:
    install = f"{home.project}[{_extra_name(arch)}]=={home.version}"
    return {"install": install, "project": home.companion(arch)}


def _companion_wheel(
    home: MainWheel, arch: str, data: Mapping[str, bytes], main_manifest: bytes, bill: bytes | None
) -> CompanionWheel:
    package = home.package(arch)
    metadata = f"{package}-{home.version}.dist-info"
    bound = {
        "files": {file: {"sha256": file_digest(each), "size": len(each)} for file, each in data.items()},
        "index": file_digest(main_manifest),
        "project": home.project,
        "version": home.version,
    }
    text = f'"""Compiled CUDA kernels for {arch}, which {home.project} loads from this package."""\n'
    inside = {
        f"{package}/__init__.py": text.encode(),
        f"{package}/{COMPANION_FILE}": f"{canonical(bound)}\n".encode(),
    }
    inside |= {f"{package}/{file}": each for file, each in data.items()}
    inside[f"{metadata}/METADATA"] = _companion_metadata(home, arch)
    tag = (
        f"Wheel-Version: 1.0\nGenerator: hatch-cubin {__version__}\nRoot-Is-Purelib: true\nTag: {home.tag}\n"
    )
    inside[f"{metadata}/WHEEL"] = tag.encode()
    if bill is not None:
        said = json.loads(bill)
        part = {**said["metadata"]["component"], "name": package}
        inside[f"{metadata}/sboms/{sbom.NAME}"] = sbom.write_bill(part, said["components"])
    return CompanionWheel(home.companion_file(arch), metadata, inside)


def _read_metadata(opened: OpenedWheel, wheel: zipfile.ZipFile) -> MainWheel:
    place = metadata_file(wheel.namelist(), "METADATA", opened.path)
    try:
        text = read_member(wheel, place).decode()
    except UnicodeDecodeError as exc:
        raise BundleError(problem("metadata-unreadable", "is not text in UTF-8", opened.at(place))) from exc
    known = email.parser.HeaderParser().parsestr(text)
    if absent := [field for field in ("Metadata-Version", "Name", "Version") if field not in known]:
        what = f"does not have the fields {' and '.join(absent)}"
        raise BundleError(problem("metadata-unreadable", what, opened.at(place)))
    # Code for Windows differs, because `long` is shorter there.
    system = "win_amd64" if opened.path.endswith("win_amd64.whl") else "any"
    return MainWheel(known["Name"], known["Version"], f"py3-none-{system}", place, text)


def _companion_metadata(home: MainWheel, arch: str) -> bytes:
    known = email.parser.HeaderParser().parsestr(home.text)
    lines = [
        f"Metadata-Version: {known['Metadata-Version']}",
        f"Name: {home.companion(arch)}",
        f"Version: {home.version}",
        f"Summary: CUDA kernels of {home.project} for {arch}",
        *(f"{field}: {known[field]}" for field in _COPIED_FIELDS if field in known),
        f"Requires-Dist: {home.project}=={home.version}",
    ]
    return ("\n".join(lines) + "\n").encode()


def _with_extras(home: MainWheel, archs: Sequence[str]) -> bytes:
    """Return the metadata of the main wheel, with an extra for each companion, and the extra `all`."""
    head, blank, body = home.text.partition("\n\n")
    known = email.parser.HeaderParser().parsestr(home.text).get_all("Provides-Extra", [])
    extras = {_extra_name(arch): [arch] for arch in archs} | {_EXTRA_FOR_ALL: [*archs]}
    lines = [f"Provides-Extra: {extra}" for extra in extras if extra not in known]
    lines += [
        f"Requires-Dist: {home.companion(arch)}=={home.version} ; extra == '{extra}'"
        for extra, own in extras.items()
        for arch in own
    ]
    return ("\n".join([head.rstrip("\n"), *lines]) + (blank or "\n") + body).encode()
