"""List the wheels that a build needs: the compiler, its bindings and its headers."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from ..common.capabilities import TILE_SINCE
from ..common.distribution_names import comparable_name
from ..common.environment import SIGNING_KEY, is_on
from ..config import nvidia_wheels
from ..config.config import Config
from .installed_wheels import CORE, name_of, unmet, version_of
from .libraries import system_major

_NEWEST_LINE = "13"
# On CUDA 12, only the compiler's wheel has the folder crt/, which mma.h includes.
_HEADERS = {"12": ["cudart", "cccl", "nvcc"], "13": ["cudart", "cccl", "crt"]}
# The wheels of a toolkit release that a build needs.
_PARTS = {
    12: (
        "nvidia-cuda-cccl-cu12",
        "nvidia-cuda-nvcc-cu12",
        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cuda-runtime-cu12",
    ),
    13: (
        "nvidia-cuda-cccl",
        "nvidia-cuda-crt",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
    ),
}
TILEIRAS = "tileiras"
_OF_TILEIRAS = {"nvidia-cuda-tileiras", "nvidia-nvvm"}
_LINKER = {12: "nvidia-nvjitlink-cu12", 13: "nvidia-nvjitlink"}
_TOOLKIT = "cuda-toolkit"  # the metapackage, whose extras are the wheels of a release
# Wheels that a lock file does not pin. Compiled results do not depend on the version of cuda-bindings. The
# newest version of cuda-bindings depends on the version of Python.
_NOT_LOCKED = {"cuda-bindings", "cuda-python"}
# Releases of cuda-python up to 12.6 contain the files that are in cuda-bindings now, and overwrite them. If a
# wheel required cuda-python without a lowest version, pip would install such an old release together with the
# newest cuda-bindings.
_PYTHON = {"12": "cuda-python>=12.8,<13", "13": "cuda-python==13.*"}
SIGNATURES = "cryptography>=42"
_NVRTC_WHEELS = {"12": "nvidia-cuda-nvrtc-cu12", "13": "nvidia-cuda-nvrtc"}
CLUSTERS = "distributed>=2025.4"
BUCKETS = "obstore>=0.11,<1"
device_runtime = nvidia_wheels.device_runtime


def build_requirements(
    config: Config,
    environ: Mapping[str, str],
    locked: Mapping[str, str] | None = None,
    *,
    extras: Collection[str] = (),
) -> list[str]:
    """Return the requirements that a build front end has to install, with the versions in *locked*.

    The requirements include cuda-toolkit with its *extras*, and all packages that producers import. If the
    build links modules, the requirements also include nvJitLink. The extra "nvcc" contains ptxas, and
    "tileiras" contains all tools for tile kernels.
    """
    if is_on(environ, "HATCH_CUBIN_SKIP"):
        return []
    return _requirements(config, environ, locked, extras)


def _requirements(
    config: Config,
    environ: Mapping[str, str],
    locked: Mapping[str, str] | None = None,
    extras: Collection[str] = (),
) -> list[str]:
    """Return the requirements of a build that compiles kernels."""
    wanted = [*_toolkit_requirements(config, extras), *config.packages]
    exact = _exact(wanted, locked, extras) if wanted and locked else wanted
    return [*exact, *_unlocked(config, environ)]


def _unlocked(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Return those of a build's requirements that are not in a lock file."""
    others = [*store_requirements(config), *of_signatures(config, environ), *of_clusters(config)]
    produced = dict.fromkeys(each for rule in config.producer for each in rule.requires)
    return [*others, *produced]


def nvrtc_requirement(toolkit: str | None) -> list[str]:
    """Return the requirement for the NVRTC of a toolkit release, such as `nvidia-cuda-nvrtc==13.0.*`."""
    if toolkit in {None, "system"}:
        return []
    release = ".".join(str(toolkit).split(".")[:2])
    return [f"{_NVRTC_WHEELS[release.split('.')[0]]}=={release}.*"]


def of_signatures(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Return the requirements of a build that signs results, or checks signatures of results."""
    return [SIGNATURES] if config.trusted_keys or environ.get(SIGNING_KEY) else []


def of_clusters(config: Config) -> list[str]:
    """Return the requirements of a build that compiles on a Dask cluster."""
    return [CLUSTERS] if (config.executor or "").startswith(("dask://", "tls://")) else []


def store_requirements(config: Config) -> list[str]:
    """Return the requirements of a build with a shared store. An HTTP store requires no package."""
    return [] if config.remote_cache is None or config.remote_cache.startswith("http") else [BUCKETS]


def _exact(wanted: Iterable[str], locked: Mapping[str, str], extras: Collection[str] = ()) -> list[str]:
    """Return the requirements of a build, with the versions in *locked*.

    If the lock file is older than the first PTX source, tile kernel or linked module of the project, the lock
    file does not contain the assembler or the linker. The requirements include them nevertheless.
    """
    exact = [f"{name}=={version}" for name, version in locked.items()]
    exact += [each for each in wanted if name_of(each) in _NOT_LOCKED]
    if (release := locked.get(_TOOLKIT)) is None:
        return exact
    linkers = {name_of(each) for each in wanted}.intersection(_LINKER.values()) - locked.keys()
    exact += [f"{name}=={_minor(release)}.*" for name in linkers]
    known = " ".join(locked)
    absent = [
        extra
        for extra in sorted(extras)
        if not re.search(rf"\bnvidia-cuda-{extra}\b", known) and _has_extra(release, extra)
    ]
    return [*exact, f"{_TOOLKIT}[{','.join(absent)}]=={release}"] if absent else exact


def _minor(release: str) -> str:
    """Return the major and minor version of a CUDA release, such as `13.0` for `13.0.2`."""
    return ".".join(release.split(".")[:2])


def _has_extra(release: str, extra: str) -> bool:
    """Return whether a release of cuda-toolkit has an extra; the build reports a release without tileiras."""
    return extra != TILEIRAS or tuple(map(int, _minor(release).split("."))) >= TILE_SINCE


def install_command(config: Config, environ: Mapping[str, str], extras: Collection[str] = ()) -> str:
    """Return a pip command that installs the packages that a build needs, or upgrades these packages.

    If the project's configuration does not choose a toolkit, the command installs the wheels of the newest
    toolkit.
    """
    chosen = config if config.toolkit else replace(config, toolkit=_NEWEST_LINE)
    return f"pip install --upgrade {shlex.join(_requirements(chosen, environ, extras=extras))}"


def locked_command(
    config: Config, environ: Mapping[str, str], locked: Mapping[str, str], extras: Collection[str] = ()
) -> str:
    """Return a pip command that installs the packages that a build needs, in the *locked* versions."""
    exact = _exact(_toolkit_requirements(config), locked, extras)
    return f"pip install {shlex.join([*exact, *_unlocked(config, environ)])}"


def versions(
    config: Config, major: int, others: Iterable[str], extras: Collection[str] = ()
) -> dict[str, str]:
    """Return the installed version of each wheel that can change results, and of each wheel in *others*."""
    parts: set[str] = set()
    if config.toolkit != "system":
        parts = {_TOOLKIT, *_PARTS[13 if major >= 13 else 12]}
        parts |= {_LINKER[13 if major >= 13 else 12]} if config.module else set()
        if extras:
            from .assembler import wheel_name  # lazy import: needed only for PTX sources and tile kernels

            parts.add(wheel_name(major))
        if TILEIRAS in extras:
            parts |= _OF_TILEIRAS
    names = {"cuda-core", *parts, *map(name_of, config.packages), *others}
    return {name: version for name in sorted(names) if (version := version_of(name)) is not None}


def _toolkit_requirements(config: Config, extras: Collection[str] = ()) -> list[str]:
    toolkit = config.toolkit
    if toolkit == "system":
        there = system_major()
        bindings = "cuda-bindings" if there is None else f"cuda-bindings=={there}.*"
        return [CORE, bindings, *_cuda_python(config, str(there))]
    if toolkit is None:
        if not unmet([CORE]) and version_of("cuda-bindings") and any(map(version_of, _NVRTC_WHEELS.values())):
            return []
        toolkit = _NEWEST_LINE
    major = toolkit.split(".")[0]
    minor = _minor(toolkit)
    pin = toolkit if toolkit.count(".") >= 2 else f"{toolkit}.*"
    # The metapackage cuda-toolkit pins the patch level of each component, but some releases do not pin that
    # of nvJitLink.
    linker = [f"{_LINKER[int(major)]}=={minor}.*"] if config.module else []
    wanted = [extra for extra in sorted(extras) if major == minor or _has_extra(toolkit, extra)]
    parts = ["nvrtc", *["nvjitlink"] * bool(linker), *_HEADERS[major], *wanted]
    return [
        CORE,
        f"cuda-bindings=={major}.*",
        *_cuda_python(config, major),
        f"{_TOOLKIT}[{','.join(dict.fromkeys(parts))}]=={pin}",
        *linker,
    ]


def _cuda_python(config: Config, major: str) -> list[str]:
    """Return the requirement for cuda-python if a header package requires cuda-python."""
    needed = any(nvidia_wheels.requires_cuda_python(name_of(each)) for each in config.header_packages)
    return [_PYTHON[major]] if needed and major in _PYTHON else []


def asked_for(config: Config, required: Iterable[str] | None = None) -> set[str]:
    """Return the names of the wheels whose headers a build may use.

    *required* are the requirements of the project's build, if the caller knows them. With *required*, the
    result also includes the names of the required wheels, and of all wheels that the required wheels depend
    on.
    """
    left = [*_PARTS[12], *_PARTS[13], *config.packages, *(required or ())]
    found: set[tuple[str, tuple[str, ...]]] = set()
    while left:
        each = left.pop()
        name = comparable_name(name_of(each))
        extras = re.match(r"[\w.-]+\s*\[([^]]*)\]", each)
        if (known := (name, tuple(re.findall(r"[\w.-]+", extras[1])) if extras else ())) not in found:
            found.add(known)
            if required is not None:
                left += _needs(*known)
    return {name for name, _extras in found}


def _needs(name: str, extras: Iterable[str]) -> Iterator[str]:
    """Yield the requirements of an installed wheel, together with the requirements that *extras* add."""
    try:
        needs = importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for need, _semicolon, marker in (each.partition(";") for each in needs):
        wanted = re.findall(r"extra\s*==\s*['\"]([^'\"]*)", marker)
        if not wanted or not {*wanted}.isdisjoint(extras):
            yield need
