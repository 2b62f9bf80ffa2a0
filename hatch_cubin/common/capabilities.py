"""Facts about GPUs that no compiler reports, by compute capability: names, Tegra parts, CUDA releases.

Which capabilities can be compiled for is asked of NVRTC (`toolkit/toolkit.py`). The loader imports nothing
from the package, so it has its own copy of the Tegra parts. A test compares the two.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Release = tuple[int, int]  # a release of CUDA

FIRST_A, FIRST_F = 90, 100  # the first capabilities with arch-specific and family-specific code
FAMILIES_SINCE: Release = (12, 9)  # the first release that compiles family-specific code


class Gpu(NamedTuple):
    """Facts about the GPUs of one capability."""

    names: str = ""  # as in NVIDIA's table, without the brand and without additions such as "Laptop"
    since: Release | None = None  # the first release that can target them, if some that we support cannot
    last: int | None = None  # the last major version of CUDA that can target them
    is_tegra: bool = False  # a system on a chip: machine code of other capabilities does not run on it
    tensor: str = ""  # the line of GPUs whose tensor core instructions it has, since Hopper
    renamed: int | None = None  # their capability in the next major version of CUDA, if it changed


HOPPER, DATACENTER, DESKTOP = "hopper", "datacenter", "desktop"

GPUS: Mapping[int, Gpu] = {
    50: Gpu(last=12),
    52: Gpu(last=12),
    53: Gpu(last=12, is_tegra=True),
    60: Gpu(last=12),
    61: Gpu(last=12),
    62: Gpu(last=12, is_tegra=True),
    70: Gpu("v100 titanv volta", last=12),
    72: Gpu("xavier", last=12, is_tegra=True),
    75: Gpu("t4 t4g t1000 1650 1660 2060 2070 2080 turing"),
    80: Gpu("a100 a30 ampere"),
    86: Gpu("a2 a10 a10g a16 a40 a2000 a4000 a4500 a5000 a5500 a6000 3050 3060 3070 3080 3090 ampere"),
    87: Gpu("orin ampere", is_tegra=True),
    88: Gpu(since=(13, 0)),
    89: Gpu("l4 l20 l40 l40s 4050 4060 4070 4080 4090 6000ada adalovelace ada"),
    90: Gpu("h20 h100 h200 h800 gh200 hopper", tensor=HOPPER),
    100: Gpu("b100 b200 gb200 blackwell", since=(12, 8), tensor=DATACENTER),
    101: Gpu(since=(12, 8), last=12, is_tegra=True, tensor=DATACENTER, renamed=110),
    103: Gpu("b300 gb300 blackwell", since=(12, 9), tensor=DATACENTER),
    107: Gpu(since=(13, 5), tensor=DATACENTER),
    110: Gpu("thor blackwell", since=(13, 0), is_tegra=True, tensor=DATACENTER),
    120: Gpu("5050 5060 5070 5080 5090 pro6000 blackwell", since=(12, 8), tensor=DESKTOP),
    121: Gpu("spark gb10 blackwell", since=(12, 9), tensor=DESKTOP),
}
NAMED = tuple(number for number, gpu in GPUS.items() if gpu.names)
TEGRA = frozenset(number for number, gpu in GPUS.items() if gpu.is_tegra)


def with_tensor(line: str) -> frozenset[int]:
    """Return the capabilities whose tensor cores have the instructions of a line of GPUs."""
    return frozenset(number for number, gpu in GPUS.items() if gpu.tensor == line)
