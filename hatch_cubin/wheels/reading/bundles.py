"""Find and read bundles (folders named `_cubins`) in a wheel, in a folder, or in an installed package."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from pathlib import Path

from ...common import file_access, read_limits
from ...common.sizes import size
from ...errors import BundleError, Location, Problem, problem
from ...project.source import BUNDLE_FOLDER

# A file of each companion wheel, which contains the name of the main wheel.
COMPANION_FILE = "companion.json"
# Only these compression methods are allowed, because Python can limit the unpacked size only for them.
_WHEEL_COMPRESSIONS = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENCRYPTED = 1  # a bit of the flags of a file in a zip archive
_PIECE_BYTES = 1 << 20
_TAIL_BYTES = 22 + (1 << 16)  # The largest size of the record at the end of a zip archive.
_HOW_TO_BUILD = (
    "build a wheel with 'hatch build', 'uv build', 'pipx run hatch build' or 'pip wheel --no-deps -w dist .'"
)
_SITE_PACKAGES_DATA = re.compile(r"[^/]+\.data/(?:purelib|platlib)/")
_OF_SOURCES = (".cu", ".cuh")
DAMAGE_ERRORS = (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


class FileElsewhereError(BundleError):
    """A file is missing because it is in a companion wheel or in another wheel variant."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """The files of a bundle: their names, their compressed sizes, and a function that reads a file.

    *not_files* describes each item in the folder that is not a file. Items that are not files are never
    opened, because reading a pipe could wait forever.
    """

    place: str
    packed_sizes: Mapping[str, int | None]
    _read: Callable[[str], bytes]
    wheel: str | None = None
    not_files: Mapping[str, str] = field(default_factory=dict)

    @property
    def where(self) -> str:
        """The path of the bundle.

        If the bundle is in a wheel, the path begins with the wheel's path.
        """
        return self.place if self.wheel is None else f"{self.wheel}/{self.place}"

    def at(self, name: str) -> Location:
        """Return the path of the bundle's file *name* for a message."""
        return Location(f"{self.where}/{name}")

    def read(self, name: str) -> bytes:
        """Return a file's bytes, or raise BundleError if the file is missing or damaged."""
        if name in self.not_files:
            raise BundleError(problem("not-a-regular-file", self.not_files[name], self.at(name)))
        if name not in self.packed_sizes:
            raise BundleError(problem("file-missing", "is missing", self.at(name)))
        return self._read(name)


@dataclass(frozen=True, slots=True)
class OpenedWheel:
    """An open wheel, folder or package, with the bundles in it."""

    path: str
    bundles: tuple[Bundle, ...]
    archive: zipfile.ZipFile | None = None
    companion: str | None = None  # The name of the import package, if the wheel is a companion.

    def at(self, name: str) -> Location:
        """Return the path of the file *name*, in the wheel or folder, for a message."""
        return Location(name) if self.archive is None else member_location(self.archive, name)


def expand_patterns(words: Iterable[str]) -> list[str]:
    """Replace each glob pattern in *words* by the paths that it matches.

    Patterns are expanded here because the shells of Windows do not expand them.
    """
    return [each for word in words for each in _matching_paths(word) or [word]]


def _matching_paths(word: str) -> list[str]:
    return [] if os.path.exists(word) or not glob.has_magic(word) else sorted(glob.glob(word))


@contextlib.contextmanager
def open_wheel(what: str, *, companions: bool = False) -> Iterator[OpenedWheel]:
    """Open a wheel or folder, or find an installed package by its import name without importing the package.

    A companion wheel, which does not contain a bundle, may be opened only if *companions* is true.
    """
    if os.path.exists(what) and not (os.path.isdir(what) or os.path.isfile(what)):  # for example a pipe
        raise BundleError(problem("not-a-regular-file", "is neither a file nor a folder", Location(what)))
    if os.path.isdir(what):
        opened = OpenedWheel(what, tuple(_bundles_in_folder(Path(what))))
        yield _require_bundle(opened, _hint_at_wheels(what) or _hint_at_project(what))
    elif os.path.exists(what):
        with open_archive(what) as archive:
            opened = OpenedWheel(what, tuple(_bundles_in_archive(archive)), archive, _find_companion(archive))
            yield opened if companions and opened.companion is not None else _require_bundle(opened)
    else:
        folders = _package_folders(what)
        bundles = tuple(bundle for folder in folders for bundle in _bundles_in_folder(Path(folder)))
        yield _require_bundle(OpenedWheel(folders[0], bundles or tuple(_bundles_of_editable(what, folders))))


def package_at(place: str) -> str:
    """Return the import package that contains a bundle.

    *place* is the path of the bundle in its wheel.
    """
    return installed_path(place).removesuffix(f"/{BUNDLE_FOLDER}").replace("/", ".")


def installed_path(name: str) -> str:
    """Return the path to which a file of a wheel is installed, relative to site-packages."""
    found = _SITE_PACKAGES_DATA.match(name)
    return name[found.end() :] if found else name


def may_be_package(place: str, package: str) -> bool:
    """Return whether a bundle can belong to *package*.

    *place* is the path of the bundle in its wheel.

    The result may be true for several packages, because a parent folder in *place* may be a namespace package
    or an ordinary folder.
    """
    return f".{package_at(place)}".endswith(f".{package}")


def bundles_of_package(opened: OpenedWheel, package: str) -> list[Bundle]:
    """Return the bundles of *package*.

    If no bundle certainly belongs to *package*, return the bundles that can belong to it (see
    `may_be_package`).
    """
    exact = [bundle for bundle in opened.bundles if package_at(bundle.place) == package]
    return exact or [bundle for bundle in opened.bundles if may_be_package(bundle.place, package)]


@contextlib.contextmanager
def open_archive(path: str) -> Iterator[zipfile.ZipFile]:
    """Open a wheel as a zip archive, or raise BundleError if it is not a zip archive."""
    try:
        refuse_large_directory(path)
        archive = zipfile.ZipFile(path)
    except (*DAMAGE_ERRORS, ValueError) as exc:
        why = getattr(exc, "strerror", None) or exc
        what = f"cannot be read as a wheel, which is a zip archive: {why}"
        raise BundleError(problem("not-a-wheel", what, Location(path), _what_to_name(path, exc))) from exc
    with archive:
        yield archive


def _what_to_name(path: str, error: Exception) -> str | None:
    """Return a hint for a file that is not a wheel.

    The hint names the file that the user should give instead.
    """
    if path.endswith(".whl"):
        is_cut = isinstance(error, zipfile.BadZipFile)
        return "the file may be incomplete: download or build the wheel again" if is_cut else None
    if path.endswith((".cubin", ".ptx")):
        folder = os.path.dirname(path) or os.curdir
        return f"name the folder of the whole bundle instead of one file: {folder}"
    if path.endswith(_OF_SOURCES):
        return _name_a_wheel(path)
    if path.endswith(".tar.gz"):
        wheels = os.path.join(os.path.dirname(path), "*.whl")
        what_to_do = f"name only wheels: {wheels}" if glob.glob(wheels) else _HOW_TO_BUILD
        return f"an sdist contains only sources: {what_to_do}"
    return _HOW_TO_BUILD


def refuse_large_directory(path: str | Path) -> None:
    """Raise ValueError for a zip archive whose list of members is so long that it would fill the memory."""
    with open(path, "rb") as file:
        file.seek(max(0, os.path.getsize(path) - _TAIL_BYTES))
        tail = file.read(_TAIL_BYTES)
    at = tail.rfind(b"PK\x05\x06")
    said = int.from_bytes(tail[at + 12 : at + 16], "little") if at >= 0 else 0
    if (at64 := tail.rfind(b"PK\x06\x06", 0, max(at, 0))) >= 0:
        said = int.from_bytes(tail[at64 + 40 : at64 + 48], "little")
    if said > read_limits.DIRECTORY:
        most = size(read_limits.DIRECTORY)
        raise ValueError(f"the archive's list of files has {size(said)}, but the limit is {most}")


def metadata_file(members: Iterable[str], name: str, wheel: str) -> str:
    """Return the path of the metadata file *name*; BundleError if the wheel does not have exactly one."""
    places = [each for each in members if re.fullmatch(rf"[^/]+\.dist-info/{name}", each)]
    if len(places) != 1:
        what = f"has {len(places)} .dist-info/{name} files, but a wheel has exactly one"
        raise BundleError(problem("metadata-not-once", what, Location(wheel)))
    return places[0]


def member_location(archive: zipfile.ZipFile, name: str) -> Location:
    """Return the location of a file in an archive: the path of the archive, then the path in the archive."""
    return Location(f"{archive.filename}/{name}")


def read_member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return a file of an archive. Raise BundleError if the file is damaged or far too large."""
    info, where = archive.getinfo(name), member_location(archive, name)
    refuse_bomb(info.compress_size, info.file_size, where)
    if info.file_size > (most := read_limits.most(name)):
        what = f"is too large to unpack: it has {size(info.file_size)}, but the limit is {size(most)}"
        raise BundleError(problem("file-too-large", what, where))
    data = b"".join(read_in_pieces(archive, name))
    if name.endswith(".json") and read_limits.is_crowded(data):
        what = f"is too large to read: it has more than {read_limits.PARTS} arrays and objects"
        raise BundleError(problem("file-too-large", what, where))
    return data


def read_in_pieces(archive: zipfile.ZipFile, name: str) -> Iterator[bytes]:
    """Yield a file of an archive, 1 MiB at a time. Raise BundleError if the file is damaged or far too large.

    The size in an archive may be wrong, so unpacking the whole file at once could fill the memory.
    """
    info, where = archive.getinfo(name), member_location(archive, name)
    refuse_bomb(info.compress_size, info.file_size, where)
    if info.flag_bits & _ENCRYPTED:
        raise BundleError(problem("file-damaged", "is encrypted, so it cannot be unpacked", where))
    if info.compress_type not in _WHEEL_COMPRESSIONS:
        what = "is compressed with a method that wheels do not use"
        raise BundleError(problem("unknown-compression", what, where))
    try:
        with archive.open(info) as file:
            while piece := file.read(_PIECE_BYTES):
                yield piece
    except DAMAGE_ERRORS as exc:
        raise BundleError(problem("file-damaged", f"cannot be unpacked: {exc}", where)) from exc


def refuse_bomb(packed: int, unpacked: int, where: Location) -> None:
    """Raise BundleError if a file would unpack to far more bytes than compiled code can have."""
    if read_limits.is_bomb(packed, unpacked):
        what = f"is probably a zip bomb: {size(packed)} in the archive would become {size(unpacked)}"
        raise BundleError(problem("compression-bomb", what, where))


def _require_bundle(opened: OpenedWheel, hint: str | None = None) -> OpenedWheel:
    if not opened.bundles and opened.companion is not None:
        what = f"is a companion of {_main_wheel_of(opened)}"
        hint = (
            "name the main wheel instead: hatch-cubin then also reads the companion wheels in the same folder"
        )
        raise BundleError(problem("companion-alone", what, Location(opened.path), hint))
    if not opened.bundles:
        if opened.archive is not None:
            hint = "run 'hatch-cubin plan' in the wheel's project to see which kernels a build compiles"
        what = f"does not contain a bundle (a folder {BUNDLE_FOLDER} with compiled kernels)"
        raise BundleError(problem("no-bundle", what, Location(opened.path), hint))
    return opened


def _main_wheel_of(opened: OpenedWheel) -> str:
    """Return the project and version of a companion's main wheel, from the companion's description."""
    assert opened.archive is not None
    try:
        said = json.loads(read_member(opened.archive, f"{opened.companion}/{COMPANION_FILE}"))
        return f"{said['project']} {said['version']}"
    except (TypeError, ValueError, LookupError, RecursionError):
        return "another wheel"


def _find_companion(archive: zipfile.ZipFile) -> str | None:
    """Return the package name of a companion wheel, or None for a wheel that is not a companion."""
    packages = (
        name.removesuffix(f"/{COMPANION_FILE}")
        for name in archive.namelist()
        if name.endswith(f"/{COMPANION_FILE}")
    )
    return next((package for package in packages if package.isidentifier()), None)


def _bundles_in_archive(archive: zipfile.ZipFile) -> Iterator[Bundle]:
    bundles: dict[str, dict[str, int | None]] = {}
    for member in archive.infolist():
        # The path is not normalised, because `a//b` and `a/b` are different files in an archive.
        parts = member.filename.split("/")
        inside = parts.index(BUNDLE_FOLDER) + 1 if BUNDLE_FOLDER in parts else len(parts)
        if name := "/".join(parts[inside:]):
            bundles.setdefault("/".join(parts[:inside]), {})[name] = member.compress_size
    for place, packed in sorted(bundles.items()):
        yield Bundle(place, packed, _member_reader(archive, place), archive.filename)


def _member_reader(archive: zipfile.ZipFile, place: str) -> Callable[[str], bytes]:
    return lambda name: read_member(archive, f"{place}/{name}")


def _bundles_in_folder(root: Path) -> Iterator[Bundle]:
    if root.name == BUNDLE_FOLDER or os.path.isfile(root / "manifest.json"):
        yield _folder_bundle(root)
        return
    for parent, folders, _names in os.walk(root):
        if BUNDLE_FOLDER in folders:
            yield _folder_bundle(Path(parent, BUNDLE_FOLDER))
        folders[:] = sorted(name for name in folders if _may_hold_bundles(Path(parent, name)))


def _may_hold_bundles(folder: Path) -> bool:
    """Return whether a folder can contain bundles: hidden folders and virtual environments cannot."""
    name = folder.name
    known = name in (BUNDLE_FOLDER, "__pycache__", "node_modules") or name.startswith(".")
    return not known and not os.path.isfile(folder / "pyvenv.cfg")


def _folder_bundle(folder: Path) -> Bundle:
    found = {
        path.relative_to(folder).as_posix(): file_access.status_of(path).st_mode
        for path in sorted(folder.rglob("*"))
        if "__pycache__" not in path.parts
    }
    names = [name for name, mode in found.items() if stat.S_ISREG(mode)]
    not_files = {name: file_access.kind(mode) for name, mode in found.items() if not stat.S_ISREG(mode)}

    def read(name: str) -> bytes:
        try:
            return file_access.read(folder / name, read_limits.most(name))
        except OSError as exc:
            what = f"cannot be read: {exc.strerror}"
            raise BundleError(problem("file-not-readable", what, Location(str(folder / name)))) from exc

    return Bundle(folder.as_posix(), dict.fromkeys(names), read, not_files=not_files)


def _hint_at_wheels(folder: str) -> str | None:
    wheels = sorted(Path(folder).glob("dist/*.whl")) or sorted(Path(folder).glob("*.whl"))
    if len(wheels) > 1:
        return f"there are {len(wheels)} wheels: {wheels[0].with_name('*.whl').as_posix()}"
    return f"there is a wheel: {wheels[0].as_posix()}" if wheels else None


def _hint_at_project(folder: str) -> str | None:
    """Return a hint: the wheels of the project that contains *folder*, or a command that builds a wheel."""
    top = Path(os.path.abspath(folder))
    root = next((each for each in (top, *top.parents) if (each / "pyproject.toml").is_file()), None)
    return None if root is None else _hint_at_wheels(str(root)) or _HOW_TO_BUILD


def _name_a_wheel(source: str) -> str:
    folder = os.path.dirname(source)
    return f"name a wheel, not a source: {_hint_at_project(folder) or _HOW_TO_BUILD}"


def _package_folders(name: str) -> Sequence[str]:
    """Return the folders from which Python imports a package."""
    path: Sequence[str] | None = None
    full = ""
    for part in name.split("."):
        full = f"{full}.{part}" if full else part
        spec = _find_spec(full, path) if part.isidentifier() else None
        path = None if spec is None else list(spec.submodule_search_locations or ())
        if not path:
            raise BundleError(_not_found(name))
    return path or []


def _bundles_of_editable(package: str, folders: Sequence[str]) -> Iterator[Bundle]:
    """Yield the bundle of an editable install: a folder in the source tree, outside the package's folders."""
    spec = _find_spec(f"{package}.{BUNDLE_FOLDER}", folders)
    for folder in (spec and spec.submodule_search_locations) or ():
        yield from _bundles_in_folder(Path(folder))


def _not_found(name: str) -> Problem:
    """Return an error message for a name that is neither an installed package nor an existing path."""
    if name.endswith(_OF_SOURCES):
        return problem("no-such-wheel", "no such file or folder exists", Location(name), _name_a_wheel(name))
    if name.endswith(".whl") or "/" in name or os.sep in name or glob.has_magic(name):
        near = _hint_at_wheels(os.path.dirname(name) or os.curdir)
        what = "no such file or folder exists"
        return problem("no-such-wheel", what, Location(name), near or _HOW_TO_BUILD)
    what = "is not a file, a folder, or a package that is installed in this Python"
    return problem("no-such-wheel", what, Location(name), f"this Python is {sys.executable}")


def _find_spec(name: str, path: Sequence[str] | None) -> ModuleSpec | None:
    """Find a package, but unlike `importlib.util.find_spec`, without importing its parent packages."""
    for finder in sys.meta_path:
        if (spec := finder.find_spec(name, path)) is not None:
            return spec
    return None
