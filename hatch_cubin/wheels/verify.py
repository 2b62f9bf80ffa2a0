"""Check a bundle against its manifest: its files, their contents, its indexes and its loader."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from .. import __version__
from .._digest import file_digest
from ..bundle import runtime
from ..bundle.manifest import Entry, Manifest, prove_manifest, read_keys
from ..bundle.stub import stub
from ..cubin.elf import read_cubin, read_resources
from ..errors import BundleError, Location, Problem
from ..sources.source import ptx_entries
from .installed import Bundle
from .survey import manifest_of

_OF_EVERY = ("__init__.py", "__init__.pyi", "manifest.json", "keys.json")
_BILL = "hatch-cubin.cdx.json"  # here where the build backend has no place of its own for it
_OF_EDITABLE = ("_editable.py", "editable.json")


def bundle_problems(bundle: Bundle, *, in_wheel: bool) -> Iterator[Problem]:
    """Yield all that is wrong with a bundle. In a wheel, the files of an editable install are wrong too."""
    try:
        manifest = manifest_of(bundle)
    except BundleError as exc:
        yield from exc.problems
        return
    entries = {entry.file: entry for module in manifest.modules for entry in module.entries}
    known = {*_OF_EVERY, _BILL, *entries, *(() if in_wheel else _OF_EDITABLE)}
    for name in sorted({*bundle.packed} - known):
        yield _problem(bundle, name, "is not in the manifest: it is no part of the bundle")
    yield from _of_indexes(bundle, manifest)
    ours = is_of_this_version(manifest)
    if ours:
        yield from _of_loader(bundle, manifest)
    for module in manifest.modules:
        for entry in module.entries:
            yield from _of_entry(bundle, entry, ours=ours)


def is_of_this_version(manifest: Manifest) -> bool:
    """Say whether this very version made a bundle: then its loader and its numbers have to be ours."""
    return manifest.generator == ("hatch-cubin", __version__)


def _problem(bundle: Bundle, name: str, what: str) -> Problem:
    return Problem(what, Location(f"{bundle.place}/{name}"))


def _of_indexes(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
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


def _of_loader(bundle: Bundle, manifest: Manifest) -> Iterator[Problem]:
    kernels = {kernel for module in manifest.modules for entry in module.entries for kernel in entry.kernels}
    modules = {name for module in manifest.modules for name in (module.name, module.base)}
    expected = {
        "__init__.py": Path(runtime.__file__).read_bytes(),
        "__init__.pyi": stub(kernels, modules),
    }
    for name, data in expected.items():
        try:
            if bundle.read(name) != data:
                yield _problem(bundle, name, f"is not what hatch-cubin {__version__} writes")
        except BundleError as exc:
            yield from exc.problems


def _of_entry(bundle: Bundle, entry: Entry, *, ours: bool) -> Iterator[Problem]:
    if any(char in entry.file for char in "/\\:\0"):
        yield _problem(bundle, "manifest.json", f"it names a file outside the bundle: {entry.file!r}")
        return
    try:
        data = bundle.read(entry.file)
    except BundleError as exc:
        yield from exc.problems
        return
    if len(data) != entry.size:
        yield _problem(bundle, entry.file, f"has {len(data)} bytes, the manifest says {entry.size}")
    elif (digest := file_digest(data)) != entry.sha256:
        yield _problem(bundle, entry.file, f"its sha256 is {digest}, the manifest says {entry.sha256}")
    else:
        try:
            wrong = _wrong_text(data, entry) if entry.is_ptx else _wrong_code(data, entry, ours=ours)
        except ValueError as exc:
            wrong = str(exc)
        if wrong is not None:
            yield _problem(bundle, entry.file, wrong)


def _wrong_text(data: bytes, entry: Entry) -> str | None:
    return _wrong_kernels(ptx_entries(data.decode()), entry.kernels)


def _wrong_code(data: bytes, entry: Entry, *, ours: bool) -> str | None:
    """Say what is wrong with a cubin whose bytes have the digest that the manifest says."""
    cubin = read_cubin(data)
    if not cubin.loadable:
        return "is relocatable and cannot be loaded"
    if cubin.target is not None and f"sm_{cubin.target}" != entry.arch.rstrip("af"):
        return f"is code for sm_{cubin.target}, the manifest says {entry.arch}"
    if ours and entry.resources and dict(entry.resources) != read_resources(data):
        return "does not use what the manifest says of its kernels"
    return _wrong_kernels(cubin.kernels, entry.kernels)


def _wrong_kernels(found: tuple[str, ...], listed: Mapping[str, str]) -> str | None:
    has, said = ", ".join(sorted(found)) or "none", ", ".join(sorted(listed.values())) or "none"
    return None if has == said else f"its kernels are {has}; the manifest says {said}"
