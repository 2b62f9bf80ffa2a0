"""Which wheels a build needs: the compiler, its bindings and its headers."""

from __future__ import annotations

import importlib.metadata
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping

from .._environment import SIGNING_KEY, is_on
from ..table.config import Config
from .libraries import system_major

_NEWEST_LINE = "13"
# On CUDA 12 the folder crt/, which mma.h includes, comes in the compiler's wheel alone.
_METAPACKAGE_EXTRAS = {"12": "nvrtc,nvjitlink,cudart,cccl,nvcc", "13": "nvrtc,nvjitlink,cudart,cccl,crt"}
# What makes a release of the toolkit, as far as a build needs it.
_PARTS = {
    12: (
        "nvidia-cuda-cccl-cu12",
        "nvidia-cuda-nvcc-cu12",
        "nvidia-cuda-nvrtc-cu12",
        "nvidia-cuda-runtime-cu12",
        "nvidia-nvjitlink-cu12",
    ),
    13: (
        "nvidia-cuda-cccl",
        "nvidia-cuda-crt",
        "nvidia-cuda-nvrtc",
        "nvidia-cuda-runtime",
        "nvidia-nvjitlink",
    ),
}
# No result depends on its version, and the newest one differs with Python's.
_NOT_LOCKED = {"cuda-bindings"}
SIGNATURES = "cryptography>=42"
CLUSTERS = "distributed>=2025.4"
_NVRTC_WHEELS = ("nvidia-cuda-nvrtc", "nvidia-cuda-nvrtc-cu12")


def build_requirements(
    config: Config, environ: Mapping[str, str], locked: Mapping[str, str] | None = None
) -> list[str]:
    """Return what the build front end has to install for a wheel; the *locked* versions where there are."""
    if is_on(environ, "HATCH_CUBIN_SKIP"):
        return []
    wanted = [*_toolkit_requirements(config.toolkit), *config.packages]
    exact = _exact(wanted, locked) if wanted and locked else wanted
    others = [*store_requirements(config), *of_signatures(config, environ), *of_clusters(config)]
    return [*exact, *others]


def of_signatures(config: Config, environ: Mapping[str, str]) -> list[str]:
    """Return what a build needs that has to sign its results, or to check who has signed others."""
    return [SIGNATURES] if config.trusted_keys or environ.get(SIGNING_KEY) else []


def of_clusters(config: Config) -> list[str]:
    """Return what a build needs that has the workers of a Dask cluster compile."""
    return [CLUSTERS] if (config.executor or "").startswith(("dask://", "tls://")) else []


def store_requirements(config: Config) -> list[str]:
    """Return what a shared store needs: one that speaks HTTP nothing."""
    return (
        [] if config.remote_cache is None or config.remote_cache.startswith("http") else ["obstore>=0.11,<1"]
    )


def _exact(wanted: Iterable[str], locked: Mapping[str, str]) -> list[str]:
    exact = [f"{name}=={version}" for name, version in locked.items()]
    return [*exact, *(each for each in wanted if _name(each) in _NOT_LOCKED)]


def install_command(config: Config, environ: Mapping[str, str]) -> str:
    """Return the command that installs the same by hand, where no build front end does."""
    return f"pip install {shlex.join(build_requirements(config, environ))}"


def locked_command(config: Config, locked: Mapping[str, str]) -> str:
    """Return the command that installs the *locked* versions by hand."""
    return f"pip install {shlex.join(_exact(_toolkit_requirements(config.toolkit), locked))}"


def versions(config: Config, major: int, others: Iterable[str]) -> dict[str, str]:
    """Return the wheels that make a difference to results, and *others*, with the versions that are here."""
    parts = () if config.toolkit == "system" else ("cuda-toolkit", *_PARTS[13 if major >= 13 else 12])
    names = {"cuda-core", *parts, *map(_name, config.packages), *others}
    return {name: importlib.metadata.version(name) for name in sorted(names) if is_installed(name)}


def _toolkit_requirements(toolkit: str | None) -> list[str]:
    core = "cuda-core>=1.2,<2"
    if toolkit == "system":
        there = system_major()
        return [core, "cuda-bindings" if there is None else f"cuda-bindings=={there}.*"]
    if toolkit is None:
        if (
            is_installed("cuda-core")
            and is_installed("cuda-bindings")
            and any(map(is_installed, _NVRTC_WHEELS))
        ):
            return []
        toolkit = _NEWEST_LINE
    major = toolkit.split(".")[0]
    minor = ".".join(toolkit.split(".")[:2])
    pin = toolkit if toolkit.count(".") >= 2 else f"{toolkit}.*"
    # The metapackage knows which patch level of each component makes a release; some of its
    # releases leave nvJitLink open.
    linker = "nvidia-nvjitlink-cu12" if major == "12" else "nvidia-nvjitlink"
    extras = _METAPACKAGE_EXTRAS[major]
    return [
        core,
        f"cuda-bindings=={major}.*",
        f"cuda-toolkit[{extras}]=={pin}",
        f"{linker}=={minor}.*",
    ]


def asked_for(config: Config, required: Iterable[str] | None = None) -> set[str]:
    """Return the names of the wheels that bring a build its headers.

    If the project's build is known to have *required* some, also all that those and the others need, as far
    as they are installed here.
    """
    left = [*_PARTS[12], *_PARTS[13], *config.packages, *(required or ())]
    found: set[tuple[str, tuple[str, ...]]] = set()
    while left:
        each = left.pop()
        name = re.sub(r"[-_.]+", "-", _name(each)).lower()
        extras = re.match(r"[\w.-]+\s*\[([^]]*)\]", each)
        if (known := (name, tuple(re.findall(r"[\w.-]+", extras[1])) if extras else ())) not in found:
            found.add(known)
            if required is not None:
                left += _needs(*known)
    return {name for name, _extras in found}


def _needs(name: str, extras: Iterable[str]) -> Iterator[str]:
    """Yield what an installed wheel needs, with these extras."""
    try:
        needs = importlib.metadata.requires(name) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for need, _semicolon, marker in (each.partition(";") for each in needs):
        wanted = re.findall(r"extra\s*==\s*['\"]([^'\"]*)", marker)
        if not wanted or not {*wanted}.isdisjoint(extras):
            yield need


def _name(requirement: str) -> str:
    return re.split(r"[\[\s<>=!~]", requirement, maxsplit=1)[0]


def is_installed(requirement: str) -> bool:
    """Say whether some version of what a requirement names is installed here."""
    try:
        importlib.metadata.version(_name(requirement))
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
