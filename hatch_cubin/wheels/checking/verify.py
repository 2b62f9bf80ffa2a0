"""Compare the files of a bundle with its manifest: compiled code, keys, and the loader."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from ... import __version__
from ...bundle import layout, loader_files, sbom
from ...bundle.kernel_parameters import Parameter, signature, with_types
from ...bundle.layout import min_driver
from ...bundle.manifest import Manifest, ManifestEntry, is_of_call, prove_manifest, read_keys
from ...bundle.packs import MOST
from ...bundle.stub import stub
from ...common.arch_names import parse_arch
from ...common.digest import file_digest
from ...cubin.elf import read_cubin, read_kernels, read_resources
from ...cubin.kernel_names import names_may_fit_symbols
from ...cubin.ptx import ptx_parameters
from ...cubin.symbol_types import parameter_types
from ...cubin.target import differing_arch, oldest_toolkit
from ...errors import BundleError, Location, Problem, problem
from ...project.source import ptx_entries
from ..reading.bundles import Bundle, FileElsewhereError
from ..reading.compiled_code import read_results
from ..reading.survey import manifest_of
from . import loader_releases
from .editable_check import EDITABLE_FILE, check_editable_file

FILES_OF_EVERY_BUNDLE = (*loader_files.OF_EVERY, "__init__.pyi", "manifest.json", "keys.json")
_EDITABLE_FILES = (loader_files.EDITABLE, EDITABLE_FILE)
_GENERATOR = "hatch-cubin"


def bundle_problems(bundle: Bundle, *, in_wheel: bool) -> Iterator[Problem]:
    """Yield the problems of a bundle.

    *in_wheel* is true if the bundle is in a wheel, which must not contain files for editable installs.
    """
    try:
        manifest = manifest_of(bundle)
    except BundleError as exc:
        yield from exc.problems
        return
    entries = manifest.files | {*(manifest.blocks or ())}
    known = {
        *FILES_OF_EVERY_BUNDLE,
        *manifest.loader_files,
        sbom.NAME,
        *entries,
        *(() if in_wheel else _EDITABLE_FILES),
    }
    for name in sorted({*bundle.packed_sizes} - known):
        yield problem(
            "file-not-listed",
            "does not belong to the bundle: the manifest does not list this file",
            bundle.at(name),
        )
    for name, kind in bundle.not_files.items():
        # The files that every bundle has, and those with compiled code, are left out here: reading them
        # reports the problem.
        if name not in {*FILES_OF_EVERY_BUNDLE, *entries} and (name in known or kind != "is a folder"):
            yield problem("not-a-regular-file", f"must be a file, but {kind}", bundle.at(name))
    yield from _index_problems(bundle, manifest)
    yield from _loader_problems(bundle, manifest)
    ours = is_built_by_this_version(manifest)
    if ours:
        yield from _stub_problems(bundle, manifest)
    if EDITABLE_FILE in bundle.packed_sizes and not in_wheel:
        yield from _editable_problems(bundle, manifest)
    yield from _form_problems(bundle, manifest)
    yield from _result_problems(bundle, manifest)


def _result_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    reported: set[str] = set()
    for _module, entry, data in read_results(bundle, manifest):
        if any(char in entry.file for char in "/\\:\0"):
            what = f"lists a file outside the bundle: {entry.file!r}"
            yield problem("unsafe-path", what, bundle.at("manifest.json"))
        elif isinstance(data, FileElsewhereError):
            continue
        elif isinstance(data, bytes):
            yield from _unit_problems(bundle, manifest, entry, data)
        elif manifest.blocks is None or entry.file not in reported:  # A damaged block is reported only once.
            reported.add(entry.file)
            yield from data.problems


def is_built_by_this_version(manifest: Manifest) -> bool:
    """Return whether this version of hatch-cubin built a bundle, so that all details can be checked."""
    return manifest.generator == (_GENERATOR, __version__)


def _index_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    try:
        prove_manifest(bundle.read("manifest.json"))
    except ValueError as exc:
        yield problem("not-as-written", str(exc), bundle.at("manifest.json"))
    try:
        keys = read_keys(bundle.read("keys.json"))
    except BundleError as exc:
        yield from exc.problems
    except ValueError as exc:
        yield problem("not-as-written", str(exc), bundle.at("keys.json"))
    else:
        listed = {(name, arch) for name, archs in keys.items() for arch in archs}
        built = {(module.name, entry.arch) for module in manifest.modules for entry in module.entries}
        for name, arch in sorted(listed ^ built):
            if (name, arch) in built:
                what = f"does not have the cache key of {name} for {arch}, but the manifest lists this code"
            else:
                what = f"has a cache key of {name} for {arch}, but the manifest does not list this code"
            yield problem("keys-differ", what, bundle.at("keys.json"))


def _loader_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    """Yield a problem for each file of the loader that differs from the version in the manifest."""
    name, version = manifest.generator
    known = loader_releases.digests_of_version(version) if name == _GENERATOR else None
    if known is None:
        yield _unknown_loader(bundle, name, version)
        return
    for file, digest in known.items():
        if file in bundle.packed_sizes or file in manifest.loader_files:
            yield from _file_problems(bundle, file, version, digest)


def _unknown_loader(bundle: Bundle, name: str, version: str) -> Problem:
    where = bundle.at("manifest.json")
    if name != _GENERATOR:
        return problem(
            "unknown-release", f"names {name} as the builder of the wheel, not {_GENERATOR}", where
        )
    if loader_releases.is_newer(version):
        what = f"was made by hatch-cubin {version}, which is newer than this version"
        return problem("newer-release", what, where, "upgrade hatch-cubin to verify this wheel")
    what = (
        f"names hatch-cubin {version} as the builder of the wheel, "
        f"but hatch-cubin {__version__} does not know {version}"
    )
    return problem(
        "unknown-release",
        what,
        where,
        f"if hatch-cubin {version} exists, use this version to verify the wheel",
    )


def _stub_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    found = [module for module in manifest.modules if not is_of_call(module.name)]
    kernels = {kernel for module in found for entry in module.entries for kernel in entry.kernels}
    modules = {name for module in found for name in (module.name, module.base)}
    signatures = {
        signature(kernel, parameters)
        for module in found
        for entry in module.entries
        for kernel, parameters in entry.parameters.items()
    }
    expected = file_digest(stub(kernels, modules, signatures))
    yield from _file_problems(bundle, "__init__.pyi", __version__, expected)


def _file_problems(bundle: Bundle, name: str, version: str, digest: str) -> Iterator[Problem]:
    try:
        if file_digest(bundle.read(name)) != digest:
            yield problem(
                "not-as-written", f"differs from the file that hatch-cubin {version} writes", bundle.at(name)
            )
    except BundleError as exc:
        yield from exc.problems


def _editable_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    try:
        check_editable_file(bundle.read(EDITABLE_FILE), manifest.folder)
    except BundleError as exc:
        yield from exc.problems
    except ValueError as exc:
        yield problem("not-as-written", str(exc), bundle.at(EDITABLE_FILE))


def _form_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    """Yield a problem for a manifest that no build would write, for example with gaps in a packed block."""
    packed = {entry.offset is not None for module in manifest.modules for entry in module.entries}
    form = layout.RAW if manifest.blocks is None else layout.PACKED
    form = layout.SPLIT if manifest.companions is not None or manifest.wheel_variant is not None else form
    if packed - {manifest.blocks is not None} or manifest.format != form:
        what = f"has the format {manifest.format}, but contains an entry that this format does not allow"
        yield problem("manifest-inconsistent", what, bundle.at("manifest.json"))
        return
    parts: dict[str, set[tuple[int, int]]] = {name: set() for name in manifest.blocks or ()}
    for entry in (entry for module in manifest.modules for entry in module.entries):
        parts.setdefault(entry.file, set()).add((entry.offset or 0, entry.size))
    for name, block in (manifest.blocks or {}).items():
        ends = [0, *accumulate(size for _offset, size in sorted(parts[name]))]
        if [offset for offset, _size in sorted(parts[name])] != ends[:-1] or ends[-1] != block.size:
            what = f"lists entries that overlap in the block {name}, or that leave a gap"
            yield problem("manifest-inconsistent", what, bundle.at("manifest.json"))
        elif block.size > MOST and len(parts[name]) > 1:
            what = (
                f"lists several entries in the block {name}, but a block of more than {MOST} bytes "
                "must have only one entry"
            )
            yield problem("manifest-inconsistent", what, bundle.at("manifest.json"))


def _unit_problems(
    bundle: Bundle, manifest: Manifest, entry: ManifestEntry, data: bytes
) -> Iterator[Problem]:
    where = bundle.at(entry.file)
    if len(data) != entry.size:
        what = f"has {len(data)} bytes, but must have {entry.size} bytes according to the manifest"
        yield problem("file-changed", what, where)
    elif (digest := file_digest(data)) != entry.sha256:
        what = f"its sha256 is {digest}, but the manifest says {entry.sha256}"
        yield problem("file-changed", what, where)
    else:
        ours = is_built_by_this_version(manifest)
        of_code = _ptx_problems if entry.is_ptx else _cubin_problems
        try:
            wrong = next(of_code(data, entry, where, ours=ours), None)
            wrong = wrong or (next(_label_problems(data, entry, manifest, where), None) if ours else None)
        except ValueError as exc:
            wrong = problem("code-unreadable", str(exc), where)
        if wrong is not None:
            yield wrong


def _ptx_problems(data: bytes, entry: ManifestEntry, where: Location, *, ours: bool) -> Iterator[Problem]:
    if data.startswith(b"\x7fELF"):
        yield problem("wrong-arch", "is a cubin, but the manifest says that it is PTX", where)
    elif (real := differing_arch(data, entry.arch)) is not None:
        yield problem("wrong-arch", f"is PTX for {real}, but the manifest says {entry.arch}", where)
    else:
        symbols = ptx_entries(data.decode("utf-8", "replace"))
        yield from _kernel_problems(symbols, entry.kernels, where, ours=ours)


def _cubin_problems(data: bytes, entry: ManifestEntry, where: Location, *, ours: bool) -> Iterator[Problem]:
    """Yield a problem if the content of a cubin contradicts the manifest, although the digest is right."""
    cubin = read_cubin(data)
    if not cubin.loadable:
        yield problem("code-unreadable", "is relocatable code, which cannot be loaded", where)
    elif (real := differing_arch(data, entry.arch)) is not None:
        yield problem("wrong-arch", f"is code for {real}, but the manifest says {entry.arch}", where)
    elif ours and entry.resources and dict(entry.resources) != read_resources(data):
        what = "the kernels in this file use other resources than the manifest says"
        yield problem("wrong-kernel-facts", what, where)
    else:
        yield from _kernel_problems(cubin.kernels, entry.kernels, where, ours=ours)


def _label_problems(
    data: bytes, entry: ManifestEntry, manifest: Manifest, where: Location
) -> Iterator[Problem]:
    """Yield a problem if the manifest's arch, driver version or parameters do not fit a compiled file."""
    arch = parse_arch(entry.arch)
    if (entry.kind, entry.arch) != ("ptx" if arch.is_ptx else "cubin", str(arch)):
        what = f"is not a {entry.kind} for {entry.arch}, but the manifest says that it is"
        yield problem("wrong-arch", what, where)
    major = re.match(r"[0-9]{1,4}(?=\.)", str(manifest.toolchain.get("nvrtc")))
    known = {name: [(*each[:2],) for each in listed] for name, listed in entry.parameters.items()}
    if _parameter_places(data, entry) != known or any(
        _typed_parameters(entry, name) != entry.parameters[name] for name in known
    ):
        what = "the kernels in this file have other parameters than the manifest says"
        yield problem("wrong-kernel-facts", what, where)
    needed = min_driver(arch, data, int(major[0]) if major else 0)
    if not arch.is_ptx and (oldest := oldest_toolkit(data) * 1000) > needed:
        what = (
            f"was made by CUDA {oldest // 1000} and needs driver {oldest}, "
            f"but the manifest says {entry.min_driver}"
        )
        yield problem("wrong-driver", what, where)
    if needed != entry.min_driver:
        what = f"needs driver {needed}, but the manifest says {entry.min_driver}"
        yield problem("wrong-driver", what, where)


def _parameter_places(data: bytes, entry: ManifestEntry) -> dict[str, list[tuple[int, int]]]:
    """Return the offset and size of each parameter of each kernel in a compiled file."""
    found: Mapping[str, Sequence[tuple[int, int]] | None]
    if entry.is_ptx:
        found = ptx_parameters(data.decode())
    else:  # The manifest lists no resources if the build could not read the attributes of the cubin.
        kernels = read_kernels(data) if entry.resources else {}
        found = {symbol: kernel.parameters for symbol, kernel in kernels.items()}
    named = {name: found.get(symbol) for name, symbol in entry.kernels.items()}
    return {name: [*places] for name, places in named.items() if places is not None}


def _kernel_problems(
    found: tuple[str, ...], listed: Mapping[str, str], where: Location, *, ours: bool
) -> Iterator[Problem]:
    has, said = (", ".join(sorted({*symbols})) or "none" for symbols in (found, listed.values()))
    if has != said:
        yield problem(
            "wrong-kernels", f"the kernels in this file are {has}, but the manifest says {said}", where
        )
    elif ours and not names_may_fit_symbols(listed, found):
        what = "the kernels in this file do not have the names that the manifest says"
        yield problem("wrong-kernels", what, where)


def _typed_parameters(entry: ManifestEntry, kernel: str) -> list[Parameter]:
    """Return a kernel's parameters with the types in its symbol, or else with the types in the manifest."""
    listed, symbol = entry.parameters[kernel], entry.kernels[kernel]
    said = tuple((*each, None)[2] for each in listed)
    return with_types(
        [each[:2] for each in listed], parameter_types(symbol) if symbol.startswith("_Z") else said
    )
