"""Check a bundle against its manifest: its files, their contents, its indexes and what runs of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from ... import __version__
from ...bundle import layout, loader_files, sbom
from ...bundle.kernel_parameters import Parameter, signature, typed
from ...bundle.layout import min_driver
from ...bundle.manifest import Entry, Manifest, prove_manifest, read_keys
from ...bundle.packs import MOST
from ...bundle.stub import stub
from ...common.arch_names import parse_arch
from ...common.digest import file_digest
from ...cubin.elf import read_cubin, read_kernels, read_resources
from ...cubin.kernel_names import names_may_fit_symbols
from ...cubin.ptx import ptx_parameters
from ...cubin.symbol_types import parameter_types
from ...cubin.target import differing_arch, oldest_toolkit
from ...errors import BundleError, Problem
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
    """Yield all that is wrong with a bundle. In a wheel, the files of an editable install are wrong too."""
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
        yield _problem(bundle, name, "is not in the manifest: it is no part of the bundle")
    for name, kind in bundle.not_files.items():
        # What every bundle has is told where it is read.
        if name not in {*FILES_OF_EVERY_BUNDLE, *entries} and (name in known or kind != "is a folder"):
            yield _problem(bundle, name, f"{kind}, and no part of a bundle")
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
    told: set[str] = set()
    for _module, entry, data in read_results(bundle, manifest):
        if any(char in entry.file for char in "/\\:\0"):
            yield _problem(bundle, "manifest.json", f"it names a file outside the bundle: {entry.file!r}")
        elif isinstance(data, FileElsewhereError):
            continue
        elif isinstance(data, bytes):
            yield from _unit_problems(bundle, manifest, entry, data)
        elif manifest.blocks is None or entry.file not in told:  # once of a block
            told.add(entry.file)
            yield from data.problems


def is_built_by_this_version(manifest: Manifest) -> bool:
    """Say whether this very version made a bundle, so that its stub and its numbers have to be ours."""
    return manifest.generator == (_GENERATOR, __version__)


def _problem(bundle: Bundle, name: str, what: str) -> Problem:
    return Problem(what, bundle.at(name))


def _index_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    try:
        prove_manifest(bundle.read("manifest.json"))
    except ValueError as exc:
        yield _problem(bundle, "manifest.json", str(exc))
    try:
        keys = read_keys(bundle.read("keys.json"))
    except BundleError as exc:
        yield from exc.problems
    except ValueError as exc:
        yield _problem(bundle, "keys.json", str(exc))
    else:
        listed = {(name, arch) for name, archs in keys.items() for arch in archs}
        built = {(module.name, entry.arch) for module in manifest.modules for entry in module.entries}
        for name, arch in sorted(listed ^ built):
            where = "only the manifest has" if (name, arch) in built else "only it has"
            yield _problem(bundle, "keys.json", f"{where} {name} for {arch}")


def _loader_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    """Yield what would run and is not, byte for byte, that of the version which the manifest names."""
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
        return Problem(f"says that {name} made it, not {_GENERATOR}", where)
    if loader_releases.is_newer(version):
        return Problem(f"made by a newer hatch-cubin, {version}", where, "upgrade hatch-cubin to verify it")
    what = f"says that hatch-cubin {version} made it, a release that hatch-cubin {__version__} does not know"
    return Problem(what, where, "verify it with that version, if there is one")


def _stub_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    kernels = {kernel for module in manifest.modules for entry in module.entries for kernel in entry.kernels}
    modules = {name for module in manifest.modules for name in (module.name, module.base)}
    signatures = {
        signature(kernel, parameters)
        for module in manifest.modules
        for entry in module.entries
        for kernel, parameters in entry.parameters.items()
    }
    expected = file_digest(stub(kernels, modules, signatures))
    yield from _file_problems(bundle, "__init__.pyi", __version__, expected)


def _file_problems(bundle: Bundle, name: str, version: str, digest: str) -> Iterator[Problem]:
    try:
        if file_digest(bundle.read(name)) != digest:
            yield _problem(bundle, name, f"is not what hatch-cubin {version} writes")
    except BundleError as exc:
        yield from exc.problems


def _editable_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    try:
        check_editable_file(bundle.read(EDITABLE_FILE), manifest.folder)
    except BundleError as exc:
        yield from exc.problems
    except ValueError as exc:
        yield _problem(bundle, EDITABLE_FILE, str(exc))


def _form_problems(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    """Yield what of a packed bundle no packing leaves so: bytes that belong to no entry above all."""
    packed = {entry.offset is not None for module in manifest.modules for entry in module.entries}
    form = layout.RAW if manifest.blocks is None else layout.PACKED
    form = layout.SPLIT if manifest.companions is not None or manifest.wheel_variant is not None else form
    if packed - {manifest.blocks is not None} or manifest.format != form:
        yield _problem(bundle, "manifest.json", f"is of format {manifest.format}, and not packed as that is")
        return
    parts: dict[str, set[tuple[int, int]]] = {name: set() for name in manifest.blocks or ()}
    for entry in (entry for module in manifest.modules for entry in module.entries):
        parts.setdefault(entry.file, set()).add((entry.offset or 0, entry.size))
    for name, block in (manifest.blocks or {}).items():
        ends = [0, *accumulate(size for _offset, size in sorted(parts[name]))]
        if [offset for offset, _size in sorted(parts[name])] != ends[:-1] or ends[-1] != block.size:
            yield _problem(bundle, "manifest.json", f"its entries are not all of {name}, one after another")
        elif block.size > MOST and len(parts[name]) > 1:
            yield _problem(bundle, "manifest.json", f"its entries cannot share {name}, which is too large")


def _unit_problems(bundle: Bundle, manifest: Manifest, entry: Entry, data: bytes) -> Iterator[Problem]:
    if len(data) != entry.size:
        yield _problem(bundle, entry.file, f"has {len(data)} bytes, the manifest says {entry.size}")
    elif (digest := file_digest(data)) != entry.sha256:
        yield _problem(bundle, entry.file, f"its sha256 is {digest}, the manifest says {entry.sha256}")
    else:
        ours = is_built_by_this_version(manifest)
        try:
            wrong = (
                _wrong_ptx(data, entry, ours=ours) if entry.is_ptx else _wrong_cubin(data, entry, ours=ours)
            )
            wrong = wrong or (_wrong_label(data, entry, manifest) if ours else None)
        except ValueError as exc:
            wrong = str(exc)
        if wrong is not None:
            yield _problem(bundle, entry.file, wrong)


def _wrong_ptx(data: bytes, entry: Entry, *, ours: bool) -> str | None:
    if data.startswith(b"\x7fELF"):
        return "is a cubin, the manifest says that it is PTX"
    if (real := differing_arch(data, entry.arch)) is not None:
        return f"is PTX for {real}, the manifest says {entry.arch}"
    return _wrong_kernels(ptx_entries(data.decode("utf-8", "replace")), entry.kernels, ours=ours)


def _wrong_cubin(data: bytes, entry: Entry, *, ours: bool) -> str | None:
    """Say what is wrong with a cubin whose bytes have the digest that the manifest says."""
    cubin = read_cubin(data)
    if not cubin.loadable:
        return "is relocatable and cannot be loaded"
    if (real := differing_arch(data, entry.arch)) is not None:
        return f"is code for {real}, the manifest says {entry.arch}"
    if ours and entry.resources and dict(entry.resources) != read_resources(data):
        return "does not use what the manifest says of its kernels"
    return _wrong_kernels(cubin.kernels, entry.kernels, ours=ours)


def _wrong_label(data: bytes, entry: Entry, manifest: Manifest) -> str | None:
    """Say what of a file the loader would be told wrong."""
    arch = parse_arch(entry.arch)
    if (entry.kind, entry.arch) != ("ptx" if arch.is_ptx else "cubin", str(arch)):
        return f"is no {entry.kind} for {entry.arch}, as the manifest says"
    major = re.match(r"[0-9]{1,4}(?=\.)", str(manifest.toolchain.get("nvrtc")))
    told = {name: [(*each[:2],) for each in listed] for name, listed in entry.parameters.items()}
    if _parameter_places(data, entry) != told or any(
        _typed_parameters(entry, name) != entry.parameters[name] for name in told
    ):
        return "does not take what the manifest says of its kernels"
    needed = min_driver(arch, data, int(major[0]) if major else 0)
    if not arch.is_ptx and (oldest := oldest_toolkit(data) * 1000) > needed:
        return f"is of CUDA {oldest // 1000}, and needs driver {oldest}; the manifest says {entry.min_driver}"
    if needed != entry.min_driver:
        return f"needs driver {needed}, the manifest says {entry.min_driver}"
    return None


def _parameter_places(data: bytes, entry: Entry) -> dict[str, list[tuple[int, int]]]:
    """Return where the parameters of a file's kernels are and how large, as far as the file says it."""
    found: Mapping[str, Sequence[tuple[int, int]] | None]
    if entry.is_ptx:
        found = ptx_parameters(data.decode())
    else:  # resources are there, too, if its attributes can be read
        kernels = read_kernels(data) if entry.resources else {}
        found = {symbol: kernel.parameters for symbol, kernel in kernels.items()}
    named = {name: found.get(symbol) for name, symbol in entry.kernels.items()}
    return {name: [*places] for name, places in named.items() if places is not None}


def _wrong_kernels(found: tuple[str, ...], listed: Mapping[str, str], *, ours: bool) -> str | None:
    has, said = (", ".join(sorted({*symbols})) or "none" for symbols in (found, listed.values()))
    if has != said:
        return f"its kernels are {has}; the manifest says {said}"
    if ours and not names_may_fit_symbols(listed, found):
        return "does not have its kernels under the names that the manifest gives them"
    return None


def _typed_parameters(entry: Entry, kernel: str) -> list[Parameter]:
    """Return a kernel's parameters with the types that its symbol tells, or else those that fit its file."""
    listed, symbol = entry.parameters[kernel], entry.kernels[kernel]
    said = tuple((*each, None)[2] for each in listed)
    return typed([each[:2] for each in listed], parameter_types(symbol) if symbol.startswith("_Z") else said)
