"""Compare a build's requirements with the installed wheels; the package `packaging` is not needed."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterable, Iterator

CORE = "cuda-core>=1.2,<2"

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9._-]+)\s*(?:\[([^\]]*)\])?\s*([^;@]*)")
_CLAUSE = re.compile(r"(==|>=|<=|<|>)\s*([0-9.]+?)(\.\*)?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([\w.-]+)['\"]")
_COMPILER = (
    "cuda-toolkit",
    "nvidia-cuda-nvrtc",
    "nvidia-cuda-nvrtc-cu12",
    "nvidia-nvjitlink",
    "nvidia-nvjitlink-cu12",
    "cuda-bindings",
    "cuda-core",
)


def name_of(requirement: str) -> str:
    """Return the name of the distribution in a requirement, such as `cuda-core` for `cuda-core>=1.2`."""
    match = _REQUIREMENT.match(requirement)
    return match[1] if match else requirement


def version_of(requirement: str) -> str | None:
    """Return the installed version of a requirement's distribution; None if it is not installed."""
    try:
        return importlib.metadata.version(name_of(requirement))
    except importlib.metadata.PackageNotFoundError:
        return None


def unmet(requirements: Iterable[str]) -> list[str]:
    """Return the requirements that the installed wheels do not meet, including requirements of extras."""
    asked = [*requirements]
    named = {*map(name_of, asked)}
    found = [each for each in asked if not _is_met(each)]
    of_extras = (each for met in asked if met not in found for each in _of_extras(met))
    return [*found, *(each for each in of_extras if name_of(each) not in named and not _is_met(each))]


def shown(requirement: str) -> str:
    """Return an unmet requirement and the installed version as text, for a message."""
    match = _REQUIREMENT.match(requirement)
    assert match is not None
    here = version_of(requirement)
    wanted = f"{match[1]} {match[3].strip().removeprefix('==')}".rstrip()
    return wanted if here is None else f"{wanted} ({here} is installed)"


def compiler() -> list[str]:
    """Return the names and versions of all installed wheels that belong to the compiler."""
    return [f"{name} {version}" for name in _COMPILER if (version := version_of(name)) is not None]


def same_release(one: str, other: str) -> bool:
    """Return whether two versions mean the same release, such as 13.0.3 and 13.0.3.0."""
    return _numbers(one, 4) == _numbers(other, 4)


def _is_met(requirement: str) -> bool:
    version, match = version_of(requirement), _REQUIREMENT.match(requirement)
    if version is None or match is None:
        return False
    return all(_allows(clause.strip(), version) for clause in match[3].split(","))


def _allows(clause: str, version: str) -> bool:
    """Return whether one condition of a requirement, such as `>=1.2`, allows a version.

    A condition that this module does not understand allows all versions.
    """
    match = _CLAUSE.fullmatch(clause)
    if match is None:
        return True
    operator, text, is_prefix = match.groups()
    length = text.count(".") + 1
    wanted, here = _numbers(text, length), _numbers(version, length if is_prefix else 0)
    size = max(length, len(here))
    if not is_prefix:
        wanted, here = _numbers(text, size), _numbers(version, size)
    return {
        "==": here == wanted,
        ">=": here >= wanted,
        "<=": here <= wanted,
        "<": here < wanted,
        ">": here > wanted,
    }[operator]


def _numbers(version: str, length: int) -> tuple[int, ...]:
    """Return the first *length* numbers of a version, or all numbers if *length* is 0."""
    match = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = tuple(map(int, match[0].split("."))) if match else ()
    return (*numbers, *(0,) * length)[:length] if length else numbers


def _of_extras(requirement: str) -> Iterator[str]:
    """Yield the requirements that the extras in *requirement* add, as in `cuda-toolkit[nvrtc]`."""
    match = _REQUIREMENT.match(requirement)
    extras = {extra.strip() for extra in ((match and match[2]) or "").split(",")}
    for each in importlib.metadata.requires(name_of(requirement)) or () if extras - {""} else ():
        # The remaining conditions in an environment marker select platforms. The conditions for platforms are
        # ignored, because NVIDIA has wheels for all platforms that hatch-cubin supports.
        if extras.intersection(_EXTRA.findall(each)):
            yield each.partition(";")[0].strip()
