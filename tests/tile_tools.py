"""A stand-in for tileiras, which is too large for most test environments: it copies finished cubins."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from hatch_cubin.planning.unit_plan import tile_arch
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit

TILE = """\
#include <cuda_tile.h>
extern "C" __tile_global__ void negate(const float* __restrict__ x, float* __restrict__ y, int n) {
  namespace ct = cuda::tiles;
  auto at = (int)ct::bid().x * 256 + ct::iota<ct::tile<int, ct::shape<256>>>();
  auto inside = at < n;
  ct::store_masked(y + at, 0.0f - ct::load_masked(x + at, inside, 0.0f), inside);
}
"""
TILE_IR = b"\x7fTileIR\0\x0d\x03 and more \xff\r\n"
# What the stand-in gives for a tile kernel: as many parameters, and the symbol that tileiras defines.
_RESULT = """\
extern "C" __device__ int ___NV_TILE_LAUNCH_META_DATA___[16];
extern "C" __global__ void negate(const float *x, float *y, int n) {
  y[n] = -x[___NV_TILE_LAUNCH_META_DATA___[0]];
}
"""
_SCRIPT = """\
#!/bin/sh
# release {release}, V{build}
{then}
for last; do shift; [ "$last" = -o ] && break; source=$last; done
cp "$source" "{home}/seen.tileir"
env > "{home}/environment"
cp "{home}/$GPU.cubin" source.cubin
"""


def cubin(arch: str, text: str = _RESULT) -> bytes:
    """Return a cubin as tileiras makes it."""
    task = {"id": 0, "kind": "c++", "code": text.encode(), "name": b"tile.cu", "instantiate": []}
    made = worker.compile_task({**task, "options": [f"-arch={arch}".encode()], "searches": False})
    assert made["ok"], made["log"]
    output: bytes = made["output"]
    return output


def install(
    site: Path,
    patch: pytest.MonkeyPatch,
    numbers: Iterable[int] = (80, 90),
    *,
    then: str = "for each; do case $each in --gpu-name=*) GPU=${each#*=};; esac; done",
    builds: tuple[str, str, str] | None = None,
) -> Path:
    """Put a stand-in for tileiras, ptxas and libnvvm before everything else in `sys.path`; return its folder.

    *then* are the commands that it begins with. *builds* are the exact versions of the three.
    """
    build = Toolkit(None).nvrtc
    builds = builds or (build, build, build)
    home = site / "nvidia" / "cu13"
    (home / "bin").mkdir(parents=True)
    (home / "lib").mkdir()
    text = _SCRIPT.format(release=builds[0].rpartition(".")[0], build=builds[0], home=home, then=then)
    (home / "bin/tileiras").write_text(text)
    (home / "bin/tileiras").chmod(0o755)
    for name, each in (("bin/ptxas", builds[1]), ("lib/libnvvm.so.4", builds[2])):
        (home / name).write_text(f"release of it, release {each.rpartition('.')[0]}, V{each}\n")
    for number in numbers:
        (home / f"sm_{number}.cubin").write_bytes(cubin(str(tile_arch(number))))
    patch.setattr(sys, "path", [str(site), *sys.path])
    return home
