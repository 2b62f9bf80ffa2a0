"""Hints about headers that were not found: which wheel or folder contains the header."""

from __future__ import annotations

import difflib
import functools
import itertools
import os
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ...config.value_checks import HEADER_SUFFIXES
from ...errors import Location
from ...headers.includes import Resolver
from ...project.conditional_lines import surely_read
from ...project.directives import INCLUDE
from ...project.scan import Include
from ...project.source import walk
from ...project.source_roots import ProjectTree
from ...toolkit.installed_wheels import name_of
from ..diagnostics import Diagnostic, Explanation, failure
from . import host_code
from .failed_compile import FailedCompile
from .include_chain import Step

_MISSING = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')
_CURAND = r"curand_(kernel|globals|discrete2?|(log)?normal(_static)?|philox4x32_x|poisson|precalc|uniform)\.h"
# Patterns for names of headers, and the wheels with these headers. Each wheel was tried. Some libraries have
# a wheel for each major version of CUDA. `_OF_MAJOR` contains their wheels for CUDA 12 and CUDA 13.
_PACKAGES = {
    r"(cutlass|cute)/.+": "nvidia-cutlass",
    _CURAND: "nvidia-curand",
    r"cupy/.+": "cupy",
    r"flashinfer/.+": "flashinfer-python",
    r"(cublasdx|cufftdx|curanddx)(/.+)?\.hpp": "nvidia-mathdx",
    r"nvshmemx?\.h|(device|device_host|non_abi|host)/nvshmem\w*\.(h|cuh)": "nvidia-nvshmem",
}
_OF_MAJOR = {
    "cupy": ("cupy-cuda12x", "cupy-cuda13x"),
    "nvidia-curand": ("nvidia-curand-cu12", "nvidia-curand"),
    "nvidia-nvshmem": ("nvidia-nvshmem-cu12", "nvidia-nvshmem-cu13"),
}
_DECLARED_ANEW = re.compile(r"declaration is incompatible with .*<(?:nvrtc|cuda)/")
# The CCCL headers of CUDA 13.0 can compile the headers in all wheels of `_PACKAGES`.
_WITH_OLDER_HEADERS = (13, 0)
_NOWHERE = (
    "neither the project nor a wheel in 'header-packages' contains this header: correct the name, "
    "or add the header's folder to 'include-dirs', or its wheel to 'header-packages'"
)
# Headers of other projects that no wheel contains, each with a hint that says how to replace the header.
_WITHOUT_WHEEL = {
    "helper_math.h": "this header is in NVIDIA's repository cuda-samples: copy the header into the project",
    "pycuda-complex.hpp": "this header of PyCUDA has no wheel: use <cuda/std/complex>",
}
_PRODUCED = (
    "a producer returns this header as a text, but sources can include only files: "
    "let the producer put the header's text into each source that needs it, "
    "or write the header to a file of the project"
)
_ABSOLUTE = (
    "an absolute path is right on one machine only: copy the header into the project, and include its path "
    "from this file, or from a folder in 'include-dirs'"
)
_NEARLY = 0.8  # The smallest similarity between a misspelled header name and the correct name.
_VENV = "pyvenv.cfg"  # A folder with a file pyvenv.cfg is a virtual environment.
# Matches CUDA headers in subfolders, whose names other packages probably do not use.
_FOLDERS_OF_TOOLKIT = re.compile(
    r"cuda/((std|experimental|__\w+)/.+|\w+)|cub/.+\.cuh|thrust/.+\.(h|inl)|nv/\w+|(cooperative_groups|crt)/.+"
)
_NAMES_OF_TOOLKIT = re.compile(
    r"(builtin_types|channel_descriptor|common_functions|cooperative_groups|cuComplex|cudart_platform"
    r"|cuda(EGL|GL|Profiler|VDPAU)?(Typedefs)?|cuda_(awbarrier|pipeline)(_helpers|_primitives)?"
    r"|cuda_(bf16|fp16|fp4|fp6|fp8|tf32|tile|occupancy|runtime|(device_)?runtime_api|(egl|gl|vdpau)_interop)"
    r"|device_((atomic_|double_)?functions|launch_parameters|types)|driver_(functions|types)"
    r"|host_(config|defines)|library_types|math_(constants|functions)|mma|sm_\d\d_(atomic_functions|intrinsics)"
    r"|surface_(indirect_functions|types)|texture_(indirect_functions|types)|vector_(functions|types))\.h"
)


def missing(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report all missing headers: the one that stopped the compiler, and those that would stop it later.

    The compiler itself reports only the first missing header.
    """
    for each in found:
        if each.hint is None and (match := _MISSING.search(each.text)):
            includer = each.where.path if each.where and each.is_own else failed.path
            nowhere = [step for step in _leading_nowhere(failed) if step.where != each.where]
            everything = [(match[1], includer), *((step.name, step.where.path) for step in nowhere)]
            others = [
                failure(
                    "header-not-found",
                    f'cannot open source file "{step.name}"',
                    step.where,
                    _about(step.name, step.where.path, failed, everything),
                )
                for step in nowhere
            ]
            where = failed.place_of_pre_include(match[1]) or each.where
            hint = _about(match[1], includer, failed, everything)
            return replace(each, where=where, hint=hint, code="header-not-found"), others
    return None


def _leading_nowhere(failed: FailedCompile) -> Iterator[Step]:
    """Yield each `#include` of a missing header in the project, unless an `#if` may hide the `#include`."""
    resolver = Resolver(failed.tree, failed.search)
    given = {name for name, value in failed.module.macros if value != "0"}
    pending = [failed.path]
    for path in pending:
        for line, number in surely_read(failed.text_of(path), given):
            if match := INCLUDE.match(line):
                include = Include(match[2], "quote" if match[1] == '"' else "angle")
                places = resolver.find(include, *resolver.own(path)).places
                if not places:
                    yield Step(Location(path, number), include.name)
                paths = [failed.tree.name_of(root.path / found) for root, found in places]
                pending += [own for own in paths if own in failed.headers and own not in pending]


def _about(name: str, includer: str, failed: FailedCompile, everything: Sequence[tuple[str, str]]) -> str:
    """Return a hint for a missing header.

    The hint contains lines to paste for all missing headers (*everything*).
    """
    if (hint := host_code.about_header(name)) is not None:
        return hint
    if folder_of(name, includer, failed) is not None:
        folders = [
            folder_of(each, by, failed) for each, by in everything if host_code.about_header(each) is None
        ]
        return failed.line("include-dirs", [*dict.fromkeys(filter(None, folders))])
    if (package := _package_of(name, failed)) is not None:
        packages = [_package_of(each, failed) for each, _by in everything]
        return _about_package(package, [*filter(None, packages)], failed)
    is_toolkits = _FOLDERS_OF_TOOLKIT.fullmatch(name) or _NAMES_OF_TOOLKIT.fullmatch(name)
    if is_toolkits:
        return _about_toolkit(name, failed)
    if _is_produced(name, failed):
        return _PRODUCED
    return _about_name(name, includer, failed) or _about_path(name, includer)


def _about_path(name: str, includer: str) -> str:
    """Return a hint for a missing header if no other header has a similar name."""
    if name.startswith("../"):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(includer), name))
        if not path.startswith("../"):
            return f"the project has no file {path}, to which this path leads: correct the path"
        return (
            f"this path leads to {path} outside of the project, which does not exist: correct the path, "
            "copy the header into the project, or add the header's folder to 'source-roots'"
        )
    return _WITHOUT_WHEEL.get(name) or (_ABSOLUTE if name.startswith("/") else _NOWHERE)


def _is_produced(name: str, failed: FailedCompile) -> bool:
    """Return whether *name* is a source that a producer (a Python function) returns, and not a file."""
    paths = [path for path in failed.sources if path.rpartition("/")[2] == name.rpartition("/")[2]]
    return any(not failed.tree.disk_path(path).is_file() for path in paths)


def _about_name(name: str, includer: str, failed: FailedCompile) -> str | None:
    """Return a hint for a missing header whose name is similar to the name of another header."""
    inside = name.replace("\\", "/").rpartition("/include/")[2].lstrip("/")
    stem = inside.rpartition(".")[0] or inside
    for each in (inside, *(f"{stem}{suffix}" for suffix in (*HEADER_SUFFIXES, ""))):
        if each != name and (_NAMES_OF_TOOLKIT.fullmatch(each) or _package_of(each, failed)):
            return f"did you mean {each!r}?"
        if each != name and (folder := folder_of(each, includer, failed)) is not None:
            is_searched = folder in failed.config.include_dirs
            return f"did you mean {each if is_searched else _from(includer, f'{folder}/{each}', failed)!r}?"
    if (package := _package_of(f"{stem}/{inside}", failed)) is not None:
        return f"the headers of {package} are in the folder {stem}/, as in <{stem}/…>"
    own = [PurePosixPath(path) for path in _files_of(failed.tree) if path.endswith(HEADER_SUFFIXES)]
    names = {path.stem.lower(): path for path in own}
    close = difflib.get_close_matches(PurePosixPath(stem).name.lower(), names, n=1, cutoff=_NEARLY)
    return f"did you mean {_from(includer, str(names[close[0]]), failed)!r}?" if close else None


def _from(includer: str, header: str, failed: FailedCompile) -> str:
    """Return the path by which the file *includer* can include a header."""
    if failed.tree.source_root_of(header) is not None:
        return posixpath.basename(header)
    return posixpath.relpath(header, posixpath.dirname(includer) or ".")


def older_than_cuda(found: Sequence[Diagnostic], failed: FailedCompile) -> Explanation | None:
    """Report a wheel with headers for another version of CUDA: they contradict the headers of the toolkit."""
    for each in found:
        if not each.is_own and each.where is not None and _DECLARED_ANEW.search(each.text):
            wheel = each.where.path.removeprefix("<").partition("/")[0]
            if any(name_of(wanted) == wheel for wanted in failed.config.header_packages):
                version = ".".join(map(str, failed.version))
                what = f"{wheel} does not fit CUDA {version}: use another version of the wheel or of CUDA"
                earlier = ': toolkit = "13.0"' if failed.version > _WITH_OLDER_HEADERS else ""
                told = replace(each, hint=f"{what}{earlier}")
                return told.followed_by(len(found) - 1), []
    return None


def folder_of(name: str, includer: str, failed: FailedCompile) -> str | None:
    """Return the nearest folder of the project from which an include of *name* finds a header."""
    return _folder_of(failed.tree, name, includer)


# cached: the function lists many files, and runs for each failed compile
@functools.lru_cache(maxsize=256)
def _folder_of(tree: ProjectTree, name: str, includer: str) -> str | None:
    called = (path for path in _files_of(tree) if path == name or path.endswith(f"/{name}"))
    files = (path for path in called if path != includer and os.path.isfile(tree.disk_path(path)))
    folders = [path.removesuffix(name).rstrip("/") or "." for path in files]
    near = PurePosixPath(includer).parent
    return min(folders, key=lambda folder: (_steps(near, PurePosixPath(folder)), folder), default=None)


def _files_of(tree: ProjectTree) -> list[str]:
    """Return the files of a project, without files of installed packages."""
    paths = [*walk(tree, ".")]
    installed = tuple(path.removesuffix(_VENV) for path in paths if path.endswith(f"/{_VENV}"))
    return [path for path in paths if not path.startswith(installed)]


def _steps(one: PurePosixPath, other: PurePosixPath) -> tuple[int, int]:
    """Return the number of steps on the path from one folder to another, and how many steps are `..`."""
    pairs = zip(one.parts, other.parts, strict=False)
    common = sum(1 for _pair in itertools.takewhile(lambda pair: pair[0] == pair[1], pairs))
    return len(one.parts) + len(other.parts) - 2 * common, len(one.parts) - common


def _package_of(name: str, failed: FailedCompile) -> str | None:
    """Return the wheel that contains a header; None if no known wheel contains the header."""
    package = next((package for pattern, package in _PACKAGES.items() if re.fullmatch(pattern, name)), None)
    of_12, of_13 = _OF_MAJOR.get(package or "", (package, package))
    return of_12 if failed.version[0] == 12 else of_13


def _about_package(package: str, packages: Sequence[str], failed: FailedCompile) -> str:
    def wanted(name: str) -> bool:
        return any(re.match(rf"{name}(?![\w.-])", each) for each in failed.config.header_packages)

    if wanted(package):
        return f"the installed version of {package} does not have this header; try another version"
    return failed.line("header-packages", [each for each in dict.fromkeys(packages) if not wanted(each)])


def _about_toolkit(name: str, failed: FailedCompile) -> str:
    wanted = failed.config.toolkit
    version = ".".join(map(str, failed.version))
    if wanted == "system":
        return "the toolkit in CUDA_HOME does not have this header"
    if _is_here(name, failed):
        return (
            f"CUDA {version} does not have this header: "
            "if a newer release has this header, set 'toolkit' to that release"
        )
    if wanted is None:
        return f'a build installs all headers of CUDA only if the table has this line: toolkit = "{version}"'
    return (
        f"a build with isolation installs the headers of CUDA {wanted}; "
        "without isolation, install the headers yourself"
    )


def _is_here(name: str, failed: FailedCompile) -> bool:
    """Return whether the compiler has searched the CUDA folder in which the header *name* should be."""
    # A folder with all headers of CUDA contains a folder crt/. NVRTC's own folder contains a folder crt/ too,
    # but it has only some of CUDA's headers.
    folder = name.partition("/")[0] if "/" in name else "crt"
    whole = "cuda/" if folder == "crt" else ""
    return any(
        root.tree and root.logical.startswith(whole) and (root.path / folder).is_dir()
        for root in failed.search
    )
