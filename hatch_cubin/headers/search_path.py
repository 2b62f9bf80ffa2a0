"""The search path for headers: folders of the project, of header packages, and of the CUDA toolkit."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

from .. import __version__
from ..common import temporary_folders, user_folders
from ..common.digest import digest
from ..common.distribution_names import comparable_name
from ..config.config import Config
from ..errors import ConfigError, ToolchainError, problem
from ..project.source_roots import ProjectTree
from ..toolkit.libraries import system_home
from ..toolkit.requirements import asked_for
from ..toolkit.toolkit import Toolkit
from .resolve import OWN, SearchFolder

_FIRST_WITH_BUNDLED = (13, 3)
_SHIMS = Path(__file__).with_name("host_headers")
_NVIDIA = "NVIDIA's wheels"
_HEADER_SUFFIXES = (".h", ".hpp", ".cuh", ".hxx", ".inl")


def project_roots(tree: ProjectTree, folders: Iterable[str]) -> Iterator[SearchFolder]:
    """Yield the project's own include *folders*, as folders of the search path."""
    for folder in folders:
        yield SearchFolder(tree.disk_path(folder), f"{OWN}{PurePosixPath(folder)}")


def package_roots(config: Config) -> Iterator[SearchFolder]:
    """Yield the include folders of the wheels that the setting `header-packages` of the project lists."""
    problems = []
    for index, requirement in enumerate(config.header_packages):
        name = re.split(r"[\s<>=!~]", requirement, maxsplit=1)[0]
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            what = f"header-packages: {name!r} is not installed in the build environment"
            command = f"pip install {shlex.quote(requirement)}"
            hint = f"a build with isolation installs this wheel; for a build without isolation: {command}"
            problems.append(
                problem("wheel-not-installed", what, config.place.of("header-packages", index), hint)
            )
            continue
        folders = sorted(_include_folders(found))
        for folder in folders:
            shared = _wheels_label() if folder.startswith("nvidia/") else ""
            label = f"{found.metadata['Name']}=={found.version} {shared}".rstrip()
            yield SearchFolder(Path(str(found.locate_file(folder))), f"{name.lower()}/{folder}", label)
        if not folders:
            problems.append(
                problem(
                    "no-headers-in-wheel",
                    f"header-packages: {name!r} has no include folder",
                    config.place.of("header-packages", index),
                    f"remove {name!r} from header-packages: the wheel does not have a folder of headers",
                )
            )
    if problems:
        raise ConfigError(*problems)


def _include_folders(found: importlib.metadata.Distribution) -> set[str]:
    folders = set()
    for file in found.files or ():
        if "include" in file.parts[:-1] and file.suffix in _HEADER_SUFFIXES:
            folders.add("/".join(file.parts[: file.parts.index("include") + 1]))
    return folders


def toolkit_roots(toolkit: Toolkit, *, system: bool, unpacks: bool = True) -> list[SearchFolder]:
    """Return the folders with the toolkit's headers (NVRTC's bundled headers, shims, and NVIDIA's wheels).

    If *unpacks* is false, NVRTC's bundled headers are used only if an earlier build has already unpacked the
    headers.

    The shims are hatch-cubin's replacements for headers of the host's standard library, which many sources
    include although NVRTC does not provide these headers. hatch-cubin also has a replacement (a shim) for
    CUDA's own header cuda.h, because the original cuda.h declares functions of the host.
    """
    roots = []
    look = _bundled_headers if unpacks else _bundled_headers_before
    if toolkit.version >= _FIRST_WITH_BUNDLED and not system and (bundled := look(toolkit)) is not None:
        label = f"NVRTC {toolkit.nvrtc} headers"
        roots += [SearchFolder(bundled, "nvrtc", label), SearchFolder(bundled / "cccl", "nvrtc/cccl", label)]
    roots.append(SearchFolder(_SHIMS, "shims", f"shims of hatch-cubin {__version__}"))
    label = f"CUDA_HOME {toolkit.nvrtc}" if system else _wheels_label()
    trees = _system_trees() if system else _wheel_trees(toolkit.major)
    tree = next((tree for tree in trees if _has_toolkit_version(next(iter(tree.values())), toolkit)), {})
    return [*roots, *(SearchFolder(folder, name, label) for name, folder in tree.items() if folder.is_dir())]


def _wheels_label() -> str:
    """Return one label for the versions of all installed NVIDIA wheels, which share folders."""
    found = {path.name for entry in sys.path for path in Path(entry).glob("nvidia_*.dist-info")}
    return f"{_NVIDIA} {digest(sorted(found))}"


def wheels_of(tree: str, files: Collection[str] | None) -> dict[str, str]:
    """Return the names and versions of the wheels that contain the headers of a header tree.

    NVIDIA's wheels share folders. If *files* is not None, only wheels that contain one of the *files* are
    returned.
    """
    named = re.match(r"(\S+)==(\S+)", tree)
    wheels = {named[1]: named[2]} if named else {}
    if _NVIDIA in tree:
        installed = None if files is None else set(_install_paths(files))
        for found in importlib.metadata.distributions():
            name = found.metadata["Name"]
            if name.startswith("nvidia-") and _contains_any(found, installed):
                wheels.setdefault(name, found.version)
    return wheels


def unrequired_headers(config: Config, required: Callable[[], Iterable[str]]) -> dict[str, str]:
    """Return a mapping from header to wheel for installed wheels that an isolated build would not install.

    NVIDIA's wheels share a folder, so the compiler would also find headers of wheels that the project does
    not require. The function *required* returns the requirements of the project's build.
    """
    wheels = {
        comparable_name(path.name.partition("-")[0]): path
        for entry in sys.path
        for path in Path(entry).glob("nvidia_*.dist-info")
    }
    others = wheels.keys() - asked_for(config)
    found = {
        str(file): name
        for name in sorted(others)
        for file in importlib.metadata.Distribution.at(wheels[name]).files or ()
        if file.suffix in _HEADER_SUFFIXES and "include" in file.parts
    }
    required_wheels = asked_for(config, required()) if found else ()
    return {file: name for file, name in found.items() if name not in required_wheels}


def wheels_at(files: Iterable[str], places: Mapping[str, str]) -> dict[str, str]:
    """Return a mapping from header to wheel for the *files* (logical names) installed at one of *places*."""
    return {
        logical: places[place] for logical in files for place in _install_paths([logical]) if place in places
    }


def is_shared(root: SearchFolder) -> bool:
    """Return whether *root* is a folder of the search path that several NVIDIA wheels share."""
    return _NVIDIA in root.tree


def _install_paths(files: Iterable[str]) -> Iterator[str]:
    """For each of the headers *files* (logical names), yield the paths in site-packages where it may be."""
    for logical in files:
        place = logical.partition("/")[2]
        yield from (place, f"nvidia/{place}")


def _contains_any(found: importlib.metadata.Distribution, files: Collection[str] | None) -> bool:
    """Return whether a wheel contains one of the *files*, or contains any header if *files* is None."""
    if files is None:
        return bool(_include_folders(found))
    return any(str(file) in files for file in found.files or ())


def _wheel_trees(major: int) -> Iterator[Mapping[str, Path]]:
    """Yield the folders with NVIDIA's headers in each sys.path entry; the runtime's folder comes first."""
    names = ["cu13/include", "cu13/include/cccl"]
    if major < 13:
        names = ["cuda_runtime/include", "cuda_cccl/include", "cuda_nvcc/include"]
    for entry in sys.path:
        yield {f"cuda/{name}": Path(entry, "nvidia", name) for name in names}


def _system_trees() -> Iterator[Mapping[str, Path]]:
    include = system_home() / "include"
    yield {"cuda/include": include, "cuda/include/cccl": include / "cccl"}


def _has_toolkit_version(runtime: Path, toolkit: Toolkit) -> bool:
    """Return whether headers have the compiler's version; headers of other versions could change the code.

    Only the CUDA runtime's headers state a version. All other CUDA headers in a folder have the same version
    as the runtime's headers, because all CUDA headers in the folder were installed together.
    """
    header = runtime / "cuda_runtime_api.h"
    text = header.read_text("latin-1") if header.is_file() else ""
    match = re.search(r"#define\s+CUDART_VERSION\s+(\d+)", text)
    return match is not None and (int(match[1]) // 1000, int(match[1]) % 1000 // 10) == toolkit.version


def _bundled_headers(toolkit: Toolkit) -> Path | None:
    """Return the folder with NVRTC's bundled headers, which are unpacked into the user's cache folder."""
    try:
        return _unpack_headers(toolkit, user_folders.user_folder() / user_folders.HEADERS)
    except OSError as exc:
        reason = exc.strerror
        why = f"NVRTC's headers cannot be unpacked into the user's cache folder: {reason}"
    try:
        return _unpack_headers(toolkit, user_folders.use_temporary_folder(why))
    except OSError as exc:
        raise ToolchainError(
            problem(
                "headers-not-unpacked",
                f"NVRTC's headers cannot be unpacked into the user's cache folder ({reason}), "
                f"nor into a temporary folder ({exc.strerror})",
            )
        ) from exc


def _bundled_headers_before(toolkit: Toolkit) -> Path | None:
    folder = user_folders.user_folder() / user_folders.HEADERS / toolkit.nvrtc
    return folder / "include" if _is_complete(folder) else None


def _unpack_headers(toolkit: Toolkit, home: Path) -> Path | None:
    """Unpack NVRTC's bundled headers below *home*, once per NVRTC version, and return their folder."""
    folder = home / toolkit.nvrtc
    if _is_complete(folder):
        return folder / "include"
    user_folders.clear_path(home)
    home.mkdir(parents=True, exist_ok=True)
    with temporary_folders.make_in(home) as scratch:
        staged = scratch / toolkit.nvrtc
        staged.mkdir()
        if not toolkit.install_headers(staged / "include"):
            return None
        (staged / "complete").touch()
        try:
            staged.rename(folder)
        except OSError:
            # The existing folder is incomplete, because the build that made the folder was interrupted.
            if not _is_complete(folder):
                folder.rename(scratch / "stale")
                staged.rename(folder)
    return folder / "include"


def _is_complete(folder: Path) -> bool:
    return (folder / "complete").is_file() and (folder / "include" / "cccl").is_dir()
