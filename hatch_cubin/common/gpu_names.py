"""Guess which archs a user means by a text: the name of a GPU, a number, or a list of names and numbers."""

from __future__ import annotations

import re

from . import arch_names
from .capabilities import GPUS

_BESIDE = re.compile(r"nvidia|geforce|tesla|quadro|jetson|[ad]gx|[rg]tx|laptop|gpu|sxm\d?|pcie|nvl|\d+gb")
_AROUND = re.compile(r"^[rg]tx|(?:ti|super)+$")
_CODE = re.compile(r"(?:code=\[?|(?<=,))((?:sm|compute)_[0-9]+[af]?)(?![0-9])")
_NUMBER = re.compile(r"(sm|compute|)[^a-z0-9]*([0-9]+)\.?([0-9]?)([af]?)(?:-real)?")


def capabilities(text: str) -> tuple[int, ...]:
    """Return the compute capabilities of the GPU or GPU family that *text* may name, such as "H100"."""
    words = [word for word in re.split(r"[\s_-]+", text.lower()) if not _BESIDE.fullmatch(word)]
    name = _AROUND.sub("", "".join(words))
    return tuple(number for number, gpu in GPUS.items() if name in gpu.names.split())


def archs_meant(text: str) -> tuple[str, ...]:
    """Return the archs that a user may mean by *text*, such as `sm90`, `H100` or `80;90`."""
    if match := _NUMBER.fullmatch(text.lower()):
        digits = match[2] + match[3]
        if known := _valid(f"{match[1] or 'sm'}_{with_right_zeros(digits) or digits}{match[4]}"):
            return known
    if match := re.fullmatch(r"(sm_?[0-9]+)\+ptx", text.lower()):  # like PyTorch's 9.0+PTX
        return tuple(arch for real in archs_meant(match[1]) for arch in (real, real.replace("sm", "compute")))
    if named := "code=" in text and _CODE.findall(text):  # as in nvcc's -gencode
        return tuple(arch for each in named for arch in _valid(each))
    if found := capabilities(text):
        return tuple(f"sm_{number}" for number in found)
    parts = arch_names.split_specs(text)
    each = [_valid(part) or archs_meant(part) for part in parts] if parts[1:] else []
    return tuple(arch for archs in each for arch in archs) if all(each) else ()


def with_right_zeros(digits: str) -> str:
    """Return the capability that a user means by a number with missing or extra zeros: 90 for 9 or 900."""
    return next((str(each) for each in GPUS if str(each).rstrip("0") == digits.rstrip("0")), "")


def _valid(spec: str) -> tuple[str, ...]:
    try:
        arch_names.parse_spec(spec)
    except ValueError:
        return ()
    return (spec,)
