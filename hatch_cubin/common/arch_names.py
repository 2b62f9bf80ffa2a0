"""Read GPU architecture names in every usual spelling, and compare them. This module reads no files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

from .capabilities import FIRST_A, FIRST_F, TEGRA

GROUPS = ("all", "all-major", "native")

_SPELLINGS = (
    (r"(sm|compute)_([0-9]{2,3})([af]?)", "plain"),
    (r"()([0-9]{2,3})([af]?)(-real|-virtual)?", "cmake"),
    (r"()([0-9]{1,2}\.[0-9])([af]?)(\+PTX)?", "pytorch"),
)


class Arch(NamedTuple):
    """A GPU architecture to compile for. `sm_90` means a cubin, and `compute_90` means PTX."""

    number: int
    suffix: str = ""
    kind: Literal["sm", "compute"] = "sm"

    def __str__(self) -> str:
        return f"{self.kind}_{self.number}{self.suffix}"

    @property
    def is_ptx(self) -> bool:
        return self.kind == "compute"

    @property
    def real(self) -> Arch:
        """The arch of the machine code that is made from the PTX of this arch: `sm_90a` for `compute_90a`."""
        return Arch(self.number, self.suffix)


class Target(NamedTuple):
    """An arch to build for; `named` is false if the user named only a group that contains the arch."""

    arch: Arch
    named: bool = True


class NoSuchArchError(ValueError):
    """Raised for an arch that is written correctly, but does not exist, such as sm_80a."""


def parse_spec(text: str) -> tuple[Arch, ...] | str:
    """Return the archs that *text* means, or the name of a group of archs.

    Raise ValueError if *text* is neither an arch nor a group.
    """
    if text in GROUPS:
        return text
    for pattern, style in _SPELLINGS:
        if match := re.fullmatch(pattern, text):
            return _archs(style, *match.groups(""))
    raise ValueError(f"{text!r} is not an arch")


def _archs(style: str, kind: str, number: str, suffix: str, tail: str = "") -> tuple[Arch, ...]:
    value = int(number.replace(".", ""))
    if (suffix == "a" and value < FIRST_A) or (suffix == "f" and value < FIRST_F):
        kind, first = kind or "sm", FIRST_A if suffix == "a" else FIRST_F
        raise NoSuchArchError(
            f"{kind}_{value}{suffix} does not exist: "
            f"the first arch with this suffix is {kind}_{first}{suffix}"
        )
    cubin, ptx = Arch(value, suffix), Arch(value, suffix, "compute")
    if style == "plain":
        return (ptx if kind == "compute" else cubin,)
    if tail in {"-real", "-virtual"}:
        return (cubin if tail == "-real" else ptx,)
    return (cubin,) if style == "pytorch" and not tail else (cubin, ptx)


def parse_arch(text: str) -> Arch:
    """Return the one arch that *text* names; ValueError if *text* names several archs, a group or no arch."""
    parsed = parse_spec(text)
    if isinstance(parsed, str) or len(parsed) != 1:
        raise ValueError(f"{text!r} is not a single arch")
    return parsed[0]


def number_of(text: str) -> int | None:
    """Return the number in the name of an arch, such as 90 for `sm_90a`.

    The result is None if *text* is not an arch, as in a damaged manifest.
    """
    try:
        arch = parse_arch(text)
    except ValueError:
        return None
    return arch.number if str(arch) == text else None


def split_specs(text: str) -> list[str]:
    """Split a list of archs or capabilities at commas, semicolons and spaces."""
    return [part for part in re.split(r"[\s,;]+", text) if part]


def expand(specs: Iterable[str], supported: Sequence[int], native: Sequence[int]) -> tuple[Target, ...]:
    """Return the targets for *specs* (a list of archs and groups of archs) in order, without duplicates.

    The field `named` of a target is true if *specs* contains the arch by its own name, even if *specs* also
    contains a group with this arch.
    """
    named: dict[Arch, bool] = {}
    for spec in specs:
        parsed = parse_spec(spec)
        is_group = isinstance(parsed, str)
        for arch in group(parsed, supported, native) if isinstance(parsed, str) else parsed:
            named[arch] = named.get(arch, False) or not is_group
    return tuple(Target(arch, name) for arch, name in named.items())


def group(name: str, supported: Sequence[int], native: Sequence[int]) -> tuple[Arch, ...]:
    """Return the archs of a group of archs, such as `all-major`, as nvcc and CMake define the group."""
    if name == "native":
        return tuple(Arch(number) for number in dict.fromkeys(native))
    numbers = sorted(supported)
    highest_major = numbers[-1] // 10
    newest = next(number for number in numbers if number // 10 == highest_major)
    if name == "all-major":
        numbers = [number for number in numbers if number % 10 == 0 or number == numbers[0]]
    return (*(Arch(number) for number in numbers), Arch(newest, kind="compute"))


def is_supported(arch: Arch, supported: Sequence[int], *, families: bool) -> bool:
    """Return whether a toolkit that supports the capabilities *supported* can compile for *arch*."""
    return arch.number in supported and (families or arch.suffix != "f")


def can_assemble(target: Arch, arch: Arch) -> bool:
    """Return whether ptxas can compile PTX, whose `.target` is *target*, for the arch *arch*."""
    if target.suffix == "a":
        return (arch.number, arch.suffix) == (target.number, "a")
    if target.suffix == "f":
        return in_family(target.number, arch.number)
    return arch.number >= target.number


def in_family(target: int, number: int) -> bool:
    """Return whether GPUs of capability *number* can run family-specific code for `sm_<target>f`."""
    same_line = (number in TEGRA) == (target in TEGRA)
    return same_line and number // 10 == target // 10 and number >= target
