"""Name and write the files of a bundle: the compiled kernels, their manifest and keys, and the loader."""

from __future__ import annotations

import contextlib
import itertools
import os
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import __version__
from ..cache.entries import Compiled, Content
from ..common import file_access, read_limits, temporary_folders
from ..common.arch_names import Arch
from ..common.digest import file_digest
from ..common.file_lock import wait_for_lock
from ..common.sizes import size
from ..cubin.ptx import ptx_version
from ..errors import BundleError, Location, problem
from ..planning.unit_plan import Module, Unit
from ..project import disk
from ..project.source import SUFFIXES
from ..project.source_roots import ProjectTree
from ..toolkit.toolkit import Keys
from . import kernel_parameters, loader_files
from .manifest import canonical, keys_line, module_line, write_keys, write_manifest
from .stub import MOST_SIGNATURES, stub

if TYPE_CHECKING:
    from .packs import PackedBlocks

# The formats of a manifest. An old loader cannot read a newer format of the manifest. Each bundle has the
# oldest format that is possible.
RAW, PACKED, SPLIT = 1, 2, loader_files.FORMAT
# The file with the compiled code, or its packed block and the offset in it.
ResultLocation = Mapping[str, str | int]

GENERATOR = {"name": "hatch-cubin", "version": __version__}

# Suffixes of a bundle's files; .ptx is also possible.
_SUFFIXES = frozenset({".cubin", ".json", ".py", ".pyi", ".xz"})
_HEAD = 200  # the first 200 bytes of each Python file of the loader contain the name hatch-cubin
_TEMPORARY = ".writing-"
_WORKPLACE = ".hatch"  # build backends do not put files of this folder into a wheel.
# The age in seconds at which a build removes temporary files of other builds, with and without the folder's
# lock.
_WRITTEN_S, _ABANDONED_S = 60, 3600
_PATIENCE_S = 10.0  # How many seconds to wait for another build that writes to the same folder.
_ROUNDS = 3


class BuiltUnit(NamedTuple):
    """A unit (a module that is compiled for one arch), its compiled code, and its cache keys."""

    unit: Unit
    compiled: Compiled
    keys: Keys
    declared: kernel_parameters.TypesInSources = dict


class EditableInputs(NamedTuple):
    """The files of an editable install that the user may edit."""

    sources: Iterable[str]
    # The configuration: the name of the TOML file, the keys that lead to the table, and the content of the
    # table.
    table: tuple[str, Sequence[str], Any] | None = None


class RebuildCommand(NamedTuple):
    """The command that builds an editable install again. The command runs in the project's folder."""

    command: tuple[str, ...]  # The command that builds again, without the path of Python.
    needs: tuple[str, ...]  # The modules that this command imports.


HATCH_REBUILD = RebuildCommand(
    command=("-m", "hatchling", "build", "-t", "wheel:editable", "--hooks-only"),
    needs=("hatchling", "hatch_cubin"),
)
WRAPPER_REBUILD = RebuildCommand(
    command=("-c", "from hatch_cubin import backend; backend.rebuild()"), needs=("hatch_cubin",)
)


def setuptools_rebuild(mode: str) -> RebuildCommand:
    """Return the command that rebuilds an editable install of setuptools in *mode*, such as 'strict'."""
    command = ("-c", f"from hatch_cubin.frontends.rebuild import rebuild; rebuild({mode!r})")
    return RebuildCommand(command, needs=("setuptools", "hatch_cubin"))


def bundle_files(
    built: Iterable[BuiltUnit], header: Mapping[str, Any], major: int, packed: PackedBlocks | None = None
) -> dict[str, Content]:
    """Return every file of the bundle by name: its bytes, or the path of a file that already contains them.

    *built*: all compiled units. All units of a module must follow each other, because the manifest has one
    line for a module. *header* contains the manifest's values about the whole bundle. *major* is the major
    version of the toolkit. *packed* are the blocks that contain the compiled code, if the bundle is packed.
    """
    files: dict[str, Content] = {}
    stored: dict[str, str] = {}  # Equal compiled code is stored once.
    taken: set[str] = set()
    kernels: dict[str, list[str]] = defaultdict(list)
    names: set[str] = set()
    fronts = {*header.get("fronts", ())}
    signatures: set[str] = set()
    lines, keys, count = [], {}, 0
    for name, group in itertools.groupby(built, key=lambda item: item.unit.module.name):
        units = [*group]
        module = units[0].unit.module
        count += len(units)
        if packed is None:
            stem = free_stem(module.file_stem, name, taken)
            named = [stored.setdefault(item.compiled.sha256, stem + item.unit.suffix) for item in units]
            files |= {file: item.compiled.content for item, file in zip(units, named, strict=True)}
            places = [{"file": file} for file in named]
        else:
            places = [packed.slots[str(item.unit.arch), item.compiled.sha256]._asdict() for item in units]
        entry = _module_fields(module, [*zip(units, places, strict=True)], major)
        lines.append(module_line(name, entry))
        keys[name] = keys_line(name, _keys_by_arch(units))
        if module.front:  # The loader finds this module by a key of the source text, and not by a name.
            fronts.add(module.front)
            continue
        names |= {name, module.base}
        # The stub file lists at most MOST_SIGNATURES signatures.
        if len(signatures) <= MOST_SIGNATURES:
            signatures |= kernel_parameters.module_signatures(entry)
        for kernel in entry["kernels"]:
            kernels[kernel].append(name)
    manifest = {"format": RAW, "generator": GENERATOR, **header}
    if fronts:
        manifest["fronts"] = sorted(fronts)
    if packed is not None:
        manifest |= {"format": PACKED, "blocks": packed.manifest_entries}
        files = {**packed.files}
    indexes = {"manifest.json": write_manifest(manifest, kernels, lines), "keys.json": write_keys(keys)}
    for name, index in indexes.items():
        _refuse_large(name, sum(map(len, index)), len(lines))
    needed = loader_files.needed_by(units=count, packed=packed is not None, split=False, fronts=fronts)
    return {
        **{name: [loader_files.read(name)] for name in needed},
        "__init__.pyi": [stub(kernels, names, signatures)],
        **indexes,
        **files,
    }


def _refuse_large(name: str, count: int, modules: int) -> None:
    """Raise BundleError if manifest.json or keys.json exceeds the loader's size limit."""
    if count > read_limits.INDEX:
        limit = size(read_limits.INDEX)
        what = (
            f"the {name} of {modules} modules has a size of {size(count)}, but loaders read at most {limit}"
        )
        hint = "divide the project into several packages, each with its own kernels"
        raise BundleError(problem("bundle-too-large", what, hint=hint))


def free_stem(stem: str, name: str, taken: set[str]) -> str:
    """Return *stem* as the file name for a module, or a hash if another module has this file name."""
    if stem.casefold() in taken:
        return file_digest(name.encode())[:10]
    taken.add(stem.casefold())
    return stem


def _module_fields(
    module: Module, items: Sequence[tuple[BuiltUnit, ResultLocation]], major: int
) -> dict[str, Any]:
    kernels: dict[str, str] = {}
    for item, _place in items:
        for spelled, symbol in item.compiled.kernels.items():
            kernels.setdefault(spelled, symbol)
    entries = []
    parameters, signatures = kernel_parameters.manifest_parameters(
        [(item.unit, item.compiled) for item, _place in items], items[0][0].declared
    )
    for (item, place), added in zip(items, signatures, strict=True):
        entry = _entry_fields(item, place, major)
        # A source may define different kernels for different archs.
        if dict(item.compiled.kernels) != kernels:
            entry["kernels"] = dict(item.compiled.kernels)
        entries.append(entry | added)
    paths = (
        module.sources
        if module.link or module.equal
        else [*dict.fromkeys(item.unit.module.source.path for item, _place in items)]
    )
    several = {"sources": paths} if module.link or len(paths) > 1 else {}
    return {
        **parameters,
        **several,
        "source": module.source.path,
        "variant": dict(module.variant),
        "kernels": kernels,
        "options": _options(module),
        "entries": sorted(entries, key=lambda entry: (entry["kind"], entry["arch"])),
    }


def _options(module: Module) -> dict[str, Any]:
    return module.plain_options | (
        {"define_macro": [f"{name}={value}" for name, value in module.define]} if module.define else {}
    )


def _entry_fields(item: BuiltUnit, place: ResultLocation, major: int) -> dict[str, Any]:
    compiled, arch = item.compiled, item.unit.arch
    return {
        "arch": str(arch),
        "kind": "ptx" if arch.is_ptx else "cubin",
        **place,
        "size": compiled.size,
        "sha256": compiled.sha256,
        "min_driver": min_driver(arch, compiled.data if arch.is_ptx else b"", major),
    }


def min_driver(arch: Arch, data: bytes, major: int) -> int:
    """Return the oldest driver version that can load compiled code from a toolkit of version *major*."""
    return _ptx_driver(data) if arch.is_ptx else major * 1000


def _ptx_driver(data: bytes) -> int:
    """Return the first CUDA release that can load the PTX *data*, such as 12080 for CUDA 12.8."""
    major, minor = ptx_version(data.decode("utf-8", "replace")) or (0, 0)
    if major >= 9:
        return (major + 4) * 1000 + minor * 10
    if major == 8:  # CUDA 12.5 introduced PTX 8.5, and CUDA 12.7 introduced PTX 8.6
        return 12000 + (minor + (minor > 5)) * 10
    if major == 7:
        return 11000 + minor * 10
    return 10000 + max(0, minor - 3) * 10 if major == 6 else 9000  # the oldest supported driver


def _keys_by_arch(built: Iterable[BuiltUnit]) -> dict[str, Any]:
    return {
        str(item.unit.arch): dict(zip(("key", "program_key"), item.keys.hex(), strict=True)) for item in built
    }


def describe_editable(
    tree: ProjectTree,
    folder: str,
    inputs: EditableInputs,
    rebuild: RebuildCommand,
    found_at: str | None = None,
) -> dict[str, bytes]:
    """Return the files by which an editable install notices edits, as a mapping from names to contents.

    *found_at* is the path by which the loader finds the project's folder. By default, the loader finds the
    project's folder by a path that is relative to the bundle's *folder*.
    """
    table = inputs.table
    paths = [Path(tree.path_from_project(name)) for name in inputs.sources]
    folders = {path.parent for path in paths if path.suffix.lower() in SUFFIXES}
    built = {
        "files": {path.as_posix(): _stamp(tree.root / path) for path in paths},
        "folders": {
            each.as_posix(): sorted(name for name in os.listdir(tree.root / each) if name.endswith(SUFFIXES))
            for each in folders
        },
        "needs": rebuild.needs,
        "rebuild": rebuild.command,
        "root": found_at or Path(os.path.relpath(".", folder)).as_posix(),
        "table": [table[0], _stamp(tree.root / table[0]), *table[1:]] if table else [],
    }
    return {
        loader_files.EDITABLE: loader_files.read(loader_files.EDITABLE),
        "editable.json": f"{canonical(built)}\n".encode(),
    }


def _stamp(path: Path) -> list[int | str | None]:
    """Return the facts by which the loader notices an edit of a file: size, two time stamps and digest."""
    status = os.stat(path)
    # The next change of a file that was changed a moment ago may not change its time stamp. So the time stamp
    # of such a file is left out, and the loader compares the file's content.
    settled = disk.are_settled([disk.state_from_status(status)], time.time_ns())
    changed = status.st_ctime_ns if settled else None
    return [status.st_size, status.st_mtime_ns, changed, file_digest(path.read_bytes())]


def stage(files: Mapping[str, Content], folder: Path) -> dict[str, str]:
    """Write *files* into *folder*, which no other process uses, and return the path of each file.

    If *files* contains a path instead of bytes, the file at this path is not copied, and the path is
    returned.
    """
    places = {}
    try:
        for name, content in files.items():
            if isinstance(content, str):
                places[name] = content
                continue
            places[name] = str(folder / name)
            with open(places[name], "wb") as file:
                file.writelines(content)
    except OSError as exc:
        raise _unwritable(exc, folder) from exc
    return places


def refuse_foreign(folder: Path) -> None:
    """Raise BundleError if a bundle's folder has files of the user, which a build would remove or hide."""
    what = f"a build would remove or hide this file, because only hatch-cubin may write into {folder.name}/"
    hint = "rename this file, or move it to another folder"
    problems = [
        problem("foreign-files-in-bundle", what, Location(str(path)), hint) for path in _foreign(folder)
    ]
    if problems:
        raise BundleError(*problems)


def _foreign(folder: Path) -> list[Path]:
    """Return the files of the user that a build of a bundle would remove or hide.

    The result contains the user's files in the bundle's *folder*, which a build would remove, and a module
    `_cubins.py`, which the folder `_cubins` would hide.
    """
    module = folder.with_suffix(".py")
    try:
        own = {*_SUFFIXES, ".ptx"} if (folder / "manifest.json").exists() else _SUFFIXES
        files = [path for path in sorted(folder.glob("[!.]*")) if path.is_file()]
        found = [path for path in files if path.suffix not in own or _is_users_module(path)]
        return [*found, module] if module.is_file() else found
    except OSError:  # writing the bundle reports a folder that is not accessible
        return []


def _is_users_module(path: Path) -> bool:
    """Return whether a file is a Python module that hatch-cubin did not write."""
    return path.suffix == ".py" and b"hatch-cubin" not in path.read_bytes()[:_HEAD]


def write(files: Mapping[str, bytes], folder: Path, outside: Path | None = None) -> None:
    """Write *files* into *folder*, and remove all other files from the folder.

    A file that is already correct keeps its time stamp.

    Builds that write to the same folder at the same time wait for each other. All files are first written
    under temporary names, and then moved to their final paths, the manifest last. Because the manifest is
    moved last, a loader that reads the old manifest and then a new file notices the difference, and only has
    to try again a moment later.

    *outside* is the folder for temporary files. By default, temporary files are in the nearest folder that is
    not a package, because build backends put only the files of packages into a wheel.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (
            wait_for_lock(folder, _PATIENCE_S) as lock,
            _workplace(folder, outside or outside_of(folder)) as place,
        ):
            # Recent temporary files are not removed, because a build that could not get the lock may be
            # writing them now.
            for left_over in folder.glob(f"{_TEMPORARY}*") if lock.real else ():
                if not _is_in_work(left_over, _WRITTEN_S):
                    left_over.unlink(missing_ok=True)
            # Without the lock, another build may remove files that this build has just written. A build
            # without the lock checks all its files again.
            for _ in range(_ROUNDS):
                if not _write_once(files, folder, place):
                    break
    except OSError as exc:
        raise _unwritable(exc, folder) from exc


@contextlib.contextmanager
def _workplace(folder: Path, outside: Path) -> Iterator[Path]:
    """Yield a folder for unfinished files, so that a build that is killed does not leave them in a package.

    *outside* is a folder that is not part of a package. Usually, the yielded folder is a new folder inside
    *outside*. If *outside* is not writable or is on another file system, the yielded folder is the bundle's
    own *folder*.
    """
    home = outside / _WORKPLACE
    with contextlib.ExitStack() as stack:
        place = folder
        with contextlib.suppress(OSError):
            home.mkdir(exist_ok=True)
            if home.stat().st_dev == folder.stat().st_dev:
                temporary_folders.sweep(home)
                place = stack.enter_context(temporary_folders.make_in(home))
        yield place
    with contextlib.suppress(OSError):  # The folder is not removed if another build or another tool uses it.
        home.rmdir()


def outside_of(folder: Path) -> Path:
    """Return the nearest folder that contains the bundle *folder*, but is not a package."""
    around = folder.absolute().parents
    return next((each for each in around if not (each / "__init__.py").exists()), folder)


def _unwritable(exc: OSError, folder: Path) -> BundleError:
    place, why = exc.filename2 or exc.filename or folder, exc.strerror
    if isinstance(exc, (FileExistsError, IsADirectoryError)):
        with contextlib.suppress(OSError):  # Another process has already removed the file.
            why = f"it {file_access.kind(file_access.status_of(place).st_mode)}"
    return BundleError(problem("file-not-writable", f"cannot write the bundle: {why}", Location(str(place))))


def _write_once(files: Mapping[str, bytes], folder: Path, place: Path) -> bool:
    """Write new and changed files, the manifest last, and remove files that do not belong to the bundle.

    Return whether anything changed.
    """
    names = sorted(files, key=lambda name: (name == "manifest.json", name))
    with contextlib.ExitStack() as left_over:
        written = {
            folder / name: _written(files[name], place, left_over)
            for name in names
            if not _holds(folder / name, files[name])
        }
        for path, temporary in written.items():
            temporary.replace(path)
    stale = [
        path
        for path in folder.iterdir()
        if path.name not in files and not path.is_dir() and not _is_in_work(path, _ABANDONED_S)
    ]
    for path in stale:
        path.unlink(missing_ok=True)
    return bool(written or stale)


def _is_in_work(path: Path, seconds: float) -> bool:
    """Return whether *path* is a temporary file that another build may still be writing."""
    try:
        return path.name.startswith(_TEMPORARY) and time.time() - path.stat().st_mtime < seconds
    except FileNotFoundError:
        return True


def _holds(path: Path, data: bytes) -> bool:
    """Return whether a path is a regular file with the bytes *data*."""
    try:
        return path.is_file() and path.stat().st_size == len(data) and path.read_bytes() == data
    except FileNotFoundError:  # Another build has already removed the file.
        return False


def _written(data: bytes, place: Path, left_over: contextlib.ExitStack) -> Path:
    """Write *data* to a temporary file in the folder *place*.

    The exit stack *left_over* removes the file, unless the file was moved.
    """
    descriptor, name = tempfile.mkstemp(dir=place, prefix=_TEMPORARY)
    temporary = Path(name)
    left_over.callback(temporary.unlink, missing_ok=True)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    temporary.chmod(0o644)
    return temporary
