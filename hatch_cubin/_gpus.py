"""What people write where an arch should be: a GPU's name, a family's, a number, a list. Pure."""

from __future__ import annotations

import re

from . import _arch

# What is left of a name without its brand and what follows it, by the capability of NVIDIA's own table.
_NAMES = {
    70: r"v100|titanv|volta",
    72: r"xavier",
    75: r"t4g?|t1000|16[56]0|20[678]0|turing",
    80: r"a100|a30|ampere",
    86: r"a2|a10g?|a16|a40|a[2456]000|a[45]500|30[5-9]0|ampere",
    87: r"orin|ampere",
    89: r"l4|l20|l40s?|40[5-9]0|6000ada|adalovelace|ada",
    90: r"h20|h100|h200|h800|gh200|hopper",
    100: r"b100|b200|gb200|blackwell",
    103: r"b300|gb300|blackwell",
    110: r"thor|blackwell",
    120: r"50[5-9]0|pro6000|blackwell",
    121: r"spark|gb10|blackwell",
}
_BESIDE = re.compile(r"nvidia|geforce|tesla|quadro|jetson|[ad]gx|[rg]tx|laptop|gpu|sxm\d?|pcie|nvl|\d+gb")
_AROUND = re.compile(r"^[rg]tx|(?:ti|super)+$")
_NUMBER = re.compile(r"(sm|compute|)[^a-z0-9]*([0-9]{1,2})\.?([0-9])([af]?)")


def capabilities(text: str) -> tuple[int, ...]:
    """Return the capabilities of the GPU or of the family that a text may name."""
    words = [word for word in re.split(r"[\s_-]+", text.lower()) if not _BESIDE.fullmatch(word)]
    name = _AROUND.sub("", "".join(words))
    return tuple(number for number, names in _NAMES.items() if re.fullmatch(names, name))


def archs_meant(text: str) -> tuple[str, ...]:
    """Return what a text may mean as an element of `archs`: `sm90`, `H100` and `80;90` do."""
    if match := _NUMBER.fullmatch(text.lower()):
        return _valid(f"{match[1] or 'sm'}_{match[2]}{match[3]}{match[4]}")
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
