"""About headers that were not found: whose each is, and what brings it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from ...sources.includes import Resolver
from ...sources.search import Root
from ...sources.source import walk
from ..diagnostics import Diagnostic, Told
from . import host
from .setting import Setting

_MISSING = re.compile(r'(?:cannot|could not) open source file "([^"]+)"')
_CURAND = r"curand_(kernel|globals|discrete2?|(log)?normal(_static)?|philox4x32_x|poisson|precalc|uniform)\.h"
_PACKAGES = {r"(cutlass|cute)/.+": "nvidia-cutlass", _CURAND: "nvidia-curand"}
# Folders that the toolkit's headers stand in, as far as they tell them from a project's.
_FOLDERS_OF_TOOLKIT = re.compile(
    r"cuda/((std|experimental|__\w+)/.+|\w+)|cub/.+\.cuh|thrust/.+\.(h|inl)|nv/\w+|(cooperative_groups|crt)/.+"
)
_NAMES_OF_TOOLKIT = re.compile(
    r"(builtin_types|channel_descriptor|common_functions|cooperative_groups|cuComplex|cudart_platform"
    r"|cuda(EGL|GL|Profiler|VDPAU)?(Typedefs)?|cuda_(awbarrier|pipeline)(_helpers|_primitives)?"
    r"|cuda_(bf16|fp16|fp4|fp6|fp8|tf32|tile|occupancy|runtime|(device_)?runtime_api|(egl|gl|vdpau)_interop)"
    r"|device_((atomic_|double_)?functions|launch_parameters|types)|driver_(functions|types)"
    r"|host_(config|defines)|library_types|math_(constants|functions)|mma|sm_\d\d_(atomic_functions|intrinsics)"
    r"|surface_(indirect_functions|types)|texture_(indirect_functions|types)|vector_(functions|types))\.(h|hpp)"
)


def missing(found: Sequence[Diagnostic], setting: Setting) -> Told | None:
    """Tell of a header that was not found: compilation ends there, and what else was said follows from it."""
    for each in found:
        if match := _MISSING.search(each.text):
            includer = each.where.path if each.where and each.is_own else setting.path
            return replace(each, hint=_about(match[1], includer, setting)), []
    return None


def _about(name: str, includer: str, setting: Setting) -> str:
    """Return what to do about a header that was not found."""
    if (folder := folder_of(name, includer, setting)) is not None:
        return setting.line("include-dirs", [folder])
    if (hint := host.about_header(name)) is not None:
        return hint
    for pattern, package in _PACKAGES.items():
        if re.fullmatch(pattern, name):
            return _about_package(f"{package}-cu12" if _is_of_cuda_12(package, setting) else package, setting)
    if _FOLDERS_OF_TOOLKIT.fullmatch(name) or _NAMES_OF_TOOLKIT.fullmatch(name):
        return _about_toolkit(name, setting)
    return "no folder of 'include-dirs' has it, and no wheel of 'header-packages'"


def folder_of(name: str, includer: str, setting: Setting) -> str | None:
    """Return the folder of the project from which the header *name* would be found, the nearest first.

    Of those that are as near, one whose header asks for nothing of the host's.
    """
    paths = (path for path in walk(setting.root, ".") if path == name or path.endswith(f"/{name}"))
    folders = [path.removesuffix(name).rstrip("/") or "." for path in paths if path != includer]
    near = os.path.dirname(includer)
    return min(
        folders, key=lambda each: (_steps(near, each), _leads_astray(name, each, setting), each), default=None
    )


def _steps(one: str, other: str) -> int:
    """Return how many folders lie between two of the project."""
    parts, others = PurePosixPath(one).parts, PurePosixPath(other).parts
    common = 0
    while parts[common : common + 1] == others[common : common + 1] != ():
        common += 1
    return len(parts) + len(others) - 2 * common


def _leads_astray(name: str, folder: str, setting: Setting) -> bool:
    """Say whether the header that a folder has includes what only hosts have."""
    root = Root(setting.root / folder, f"project/{folder}")
    text = f"#include <{name}>\n"
    closure = Resolver(setting.root, (root, *setting.search)).resolve("", text, setting.module.macros, ())
    return any(host.about_header(each) for each in closure.missing)


def _is_of_cuda_12(package: str, setting: Setting) -> bool:
    return package == "nvidia-curand" and setting.version[0] == 12


def _about_package(package: str, setting: Setting) -> str:
    if any(re.match(rf"{package}(?![\w.-])", wanted) for wanted in setting.config.header_packages):
        return f"the {package} of 'header-packages' has no such header; another version may"
    return setting.line("header-packages", [package])


def _about_toolkit(name: str, setting: Setting) -> str:
    wanted = setting.config.toolkit
    version = ".".join(map(str, setting.version))
    if wanted == "system":
        return "the toolkit in CUDA_HOME has no such header"
    if _is_here(name, setting):
        return f"CUDA {version} has no such header: where a newer one has it, 'toolkit' names that"
    if wanted is None:
        return f'toolkit = "{version}" brings the toolkit\'s headers with the compiler'
    return f'toolkit = "{wanted}" brings its headers where builds are isolated; elsewhere, install them'


def _is_here(name: str, setting: Setting) -> bool:
    """Say whether the part of the toolkit that would have a header was searched."""
    folder = name.partition("/")[0] if "/" in name else "crt"  # beside which the wheels' single headers stand
    whole = "cuda/" if folder == "crt" else ""  # NVRTC's own has some of these, and a folder of that name
    return any(
        root.tree and root.logical.startswith(whole) and (root.path / folder).is_dir()
        for root in setting.search
    )
