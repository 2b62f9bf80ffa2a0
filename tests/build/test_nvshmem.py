"""NVSHMEM's own library is linked as the guide says: `hatch run nvshmem:run`, as its wheel has 180 MB."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cubin import elf
from tests.docs_pages import page
from tests.helpers import TABLE, make_project

pytestmark = [pytest.mark.nvrtc, pytest.mark.nvshmem]

EXCHANGE = """\
#include <nvshmem.h>
extern "C" __global__ void shift(int *to) {
  int me = nvshmem_my_pe();
  nvshmem_int_p(to, me, (me + 1) % nvshmem_n_pes());
  nvshmem_quiet();
}
"""


def test_a_kernel_of_the_guides_project_is_linked_with_the_device_library(tmp_path: Path) -> None:
    _, _, part = page("guides/linking").partition("### NVSHMEM")
    (written,) = re.findall(r"```toml\n(.*?)```", part, re.DOTALL)
    options = written.replace(f"[{'.'.join(TABLE)}]\n", "").replace('toolkit = "13.0"\n', "")
    files = pipeline.build(make_project(tmp_path, {"exchange.cu": EXCHANGE}, options))
    assert elf.read_cubin(files["exchange.sm_90.cubin"]).kernels == ("shift",)
    assert '"name": "nvidia-nvshmem-cu13"' in files["hatch-cubin.cdx.json"].decode()
