"""Sources that include other sources with kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers import SAXPY

from .test_limits import warnings

pytestmark = pytest.mark.nvrtc

OWN = '#include "b.cu"\nextern "C" __global__ void own() {}\n'


def test_a_kernel_in_two_modules_is_told_with_the_include(tmp_path: Path) -> None:
    (told,) = warnings(tmp_path, {"a.cu": OWN, "b.cu": SAXPY})
    assert told.startswith("demo/a.cu:1: includes demo/b.cu, which is a source too")
    assert "saxpy [kernel-in-two-modules]" in told


@pytest.mark.parametrize(
    "text",
    [
        "template <class T> __global__ void k(T *x) { *x = 1; }\ntemplate __global__ void k<int>(int *);\n",
        f'#ifdef HERE\n{SAXPY}#endif\n#ifndef HERE\nextern "C" __global__ void other() {{}}\n#endif\n',
    ],
)
def test_cases_of_doubt_are_not_told(tmp_path: Path, text: str) -> None:
    assert warnings(tmp_path, {"a.cu": f"#define HERE\n{OWN}", "b.cu": text}) == []


def test_a_header_is_not_told(tmp_path: Path) -> None:
    itself = f'#ifndef ONCE\n#define ONCE\n{SAXPY}#include "a.cu"\n#endif\n'
    assert warnings(tmp_path / "itself", {"a.cu": itself}) == []
    assert warnings(tmp_path, {"a.cu": OWN.replace("b.cu", "b.cuh"), "b.cuh": SAXPY}) == []
