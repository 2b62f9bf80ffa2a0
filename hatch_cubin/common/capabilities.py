"""Facts about GPUs for each compute capability, such as their names and the CUDA releases that support them.

A new capability needs a row in `GPUS`. No other code has to change for a new capability: builds ask NVRTC
which capabilities it can compile for (`toolkit/toolkit.py`), and the loader accepts any number. The loader
has its own copy of the list of Tegra capabilities (`_TEGRA` in `loader/__init__.py`), because it cannot
import other modules of hatch-cubin. A test compares both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Release = tuple[int, int]  # major and minor version of a CUDA release

# the first capabilities with arch-specific code (`sm_90a`) and family-specific code (`sm_100f`)
FIRST_A, FIRST_F = 90, 100
FAMILIES_SINCE: Release = (12, 9)  # The first CUDA release that compiles family-specific code (`sm_100f`).
# The first CUDA release that compiles tile kernels, and the first capability that can run them.
TILE_SINCE: Release = (13, 3)
FIRST_TILE = 80
# Maps the suffix of an arch to the first `.version` of PTX that accepts an arch with this suffix.
_PTX_SINCE: Mapping[str, Release] = {"": (1, 0), "a": (8, 0), "f": (8, 8)}


class Gpu(NamedTuple):
    """Facts about the GPUs of one compute capability."""

    # GPU names from NVIDIA's list of GPUs, without the brand and without additions such as "Laptop"
    names: str = ""
    ptx: Release = (1, 0)  # The first `.version` of PTX that accepts this capability as `.target`.
    # The first CUDA release that can compile for these GPUs; None if all supported releases can.
    since: Release | None = None
    # the last major version of CUDA that can compile for these GPUs; None if the newest version can
    last: int | None = None
    # whether the GPU is in a system on a chip, which does not run machine code of other capabilities
    is_tegra: bool = False
    # if the next major version of CUDA gives the same GPUs a new capability: this capability
    renamed: int | None = None


GPUS: Mapping[int, Gpu] = {
    50: Gpu("", (4, 0), last=12),
    52: Gpu("", (4, 1), last=12),
    53: Gpu("", (4, 2), last=12, is_tegra=True),
    60: Gpu("", (5, 0), last=12),
    61: Gpu("", (5, 0), last=12),
    62: Gpu("", (5, 0), last=12, is_tegra=True),
    70: Gpu("v100 titanv volta", (6, 0), last=12),
    72: Gpu("xavier", (6, 1), last=12, is_tegra=True),
    75: Gpu("t4 t4g t1000 1650 1660 2060 2070 2080 turing", (6, 3)),
    80: Gpu("a100 a30 ampere", (7, 0)),
    86: Gpu(
        "a2 a10 a10g a16 a40 a2000 a4000 a4500 a5000 a5500 a6000 3050 3060 3070 3080 3090 ampere", (7, 1)
    ),
    87: Gpu("orin ampere", (7, 4), is_tegra=True),
    88: Gpu("", (9, 0), since=(13, 0)),
    89: Gpu("l4 l20 l40 l40s 4050 4060 4070 4080 4090 6000ada adalovelace ada", (7, 8)),
    90: Gpu("h20 h100 h200 h800 gh200 hopper", (7, 8)),
    100: Gpu("b100 b200 gb200 blackwell", (8, 6), since=(12, 8)),
    101: Gpu("", (8, 6), since=(12, 8), last=12, is_tegra=True, renamed=110),
    103: Gpu("b300 gb300 blackwell", (8, 8), since=(12, 9)),
    107: Gpu("", (9, 4), since=(13, 5)),
    110: Gpu("thor blackwell", (9, 0), since=(13, 0), is_tegra=True),
    120: Gpu("5050 5060 5070 5080 5090 pro6000 blackwell", (8, 7), since=(12, 8)),
    121: Gpu("spark gb10 blackwell", (8, 8), since=(12, 9)),
}
NAMED = tuple(number for number, gpu in GPUS.items() if gpu.names)
TEGRA = frozenset(number for number, gpu in GPUS.items() if gpu.is_tegra)


def first_ptx(number: int, suffix: str) -> Release | None:
    """Return the first `.version` of PTX that accepts an arch as `.target`; None if the arch is unknown."""
    return max(GPUS[number].ptx, _PTX_SINCE[suffix]) if number in GPUS else None
