"""What people write where an arch should be: a GPU's name, a family's, a number, a list. Pure."""

from __future__ import annotations

import re

from . import _arch

# What is left of a name without its brand and what follows it, by the capability of NVIDIA's own table.
_NAMES = {
    70: "v100 titanv volta",
    72: "xavier",
    75: "t4 t4g t1000 1650 1660 2060 2070 2080 turing",
    80: "a100 a30 ampere",
    86: "a2 a10 a10g a16 a40 a2000 a4000 a4500 a5000 a5500 a6000 3050 3060 3070 3080 3090 ampere",
    87: "orin ampere",
    89: "l4 l20 l40 l40s 4050 4060 4070 4080 4090 6000ada adalovelace ada",
    90: "h20 h100 h200 h800 gh200 hopper",
    100: "b100 b200 gb200 blackwell",
    103: "b300 gb300 blackwell",
    110: "thor blackwell",
    120: "5050 5060 5070 5080 5090 pro6000 blackwell",
    121: "spark gb10 blackwell",
}
CAPABILITIES = tuple(_NAMES)
_BESIDE = re.compile(r"nvidia|geforce|tesla|quadro|jetson|[ad]gx|[rg]tx|laptop|gpu|sxm\d?|pcie|nvl|\d+gb")
_AROUND = re.compile(r"^[rg]tx|(?:ti|super)+$")
_CODE = re.compile(r"(?:code=\[?|(?<=,))((?:sm|compute)_[0-9]+[af]?)(?![0-9])")
_NUMBER = re.compile(r"(sm|compute|)[^a-z0-9]*([0-9]{1,2})\.?([0-9])([af]?)")


def capabilities(text: str) -> tuple[int, ...]:
    """Return the capabilities of the GPU or of the family that a text may name."""
    words = [word for word in re.split(r"[\s_-]+", text.lower()) if not _BESIDE.fullmatch(word)]
    name = _AROUND.sub("", "".join(words))
    return tuple(number for number, names in _NAMES.items() if name in names.split())


def archs_meant(text: str) -> tuple[str, ...]:
    """Return what a text may mean as an element of `archs`: `sm90`, `H100` and `80;90` do."""
    if match := _NUMBER.fullmatch(text.lower()):
        return _valid(f"{match[1] or 'sm'}_{match[2]}{match[3]}{match[4]}")
    if named := "code=" in text and _CODE.findall(text):  # as in nvcc's -gencode
        return tuple(arch for each in named for arch in _valid(each))
    if found := capabilities(text):
        return tuple(f"sm_{number}" for number in found)
    parts = _arch.split_specs(text)
    each = [_valid(part) or archs_meant(part) for part in parts] if parts[1:] else []
    return tuple(arch for archs in each for arch in archs) if all(each) else ()


def _valid(spec: str) -> tuple[str, ...]:
    try:
        _arch.parse_spec(spec)
    except ValueError:
        return ()
    return (spec,)
