"""The guide to headers and templates: what it shows is valid, and builds."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.config import config, toml_positions
from hatch_cubin.config.config import Config
from tests.helpers import REPOSITORY, TABLE, make_project

GUIDE = (REPOSITORY / "docs/guides/headers-and-templates.md").read_text("utf-8")
TOML = re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)


def parsed(text: str) -> Config:
    table: Any = toml_positions.loads(text)
    for key in TABLE:
        table = table[key]
    return config.parse_config(table, config.TableLocation("pyproject.toml", text, TABLE), {})


@pytest.mark.parametrize("text", TOML, ids=range(len(TOML)))
def test_every_table_of_the_guide_is_valid(text: str) -> None:
    assert parsed(text) != parsed("[tool.hatch.build.hooks.cubin]\n")


def test_what_the_guide_says_of_cutlass_is_what_its_errors_advise() -> None:
    (cutlass,) = (parsed(text) for text in TOML if "nvidia-cutlass" in text)
    assert dict(cutlass.options) == {"device_as_default_execution_space": True}


TEMPLATES = """\
#include <cuda_fp16.h>
enum class Mode { fast, exact };
struct Add { template <class T> __device__ T operator()(T a, T b) const { return a + b; } };
template <class T, int N> __global__ void scale(T *x) { for (int i = 0; i < N; ++i) x[i] = x[i] + x[i]; }
namespace ns { template <class F, class T> __global__ void reduce(T *x) { *x = F()(x[0], x[1]); } }
template <class T, int N> __global__ void stencil(T *x) { *x = N; }
template <Mode mode> __global__ void pick(int *x) { *x = mode == Mode::fast; }
__global__ void fill(float *x) { *x = 1; }
__global__ void fill(int *x) { *x = 1; }
template <class T> __global__ void own(T *x) { *x = 1; }
template __global__ void own<float>(float *);
"""


@pytest.mark.nvrtc
def test_the_templates_of_the_guide_are_found_as_it_spells_them(tmp_path: Path) -> None:
    spelled = [name for text in TOML for rule in parsed(text).source for name in rule.instantiate]
    overload = "(void (*)(int *)) fill"
    assert overload in GUIDE
    names = json.dumps([*spelled, overload])
    options = f'archs = ["sm_90"]\n[[{".".join(TABLE)}.source]]\npath = "demo/k.cu"\ninstantiate = {names}\n'
    bundle = pipeline.build(make_project(tmp_path, {"k.cu": TEMPLATES}, options))
    kernels = json.loads(bundle["manifest.json"])["modules"]["k"]["kernels"]
    assert sorted(kernels) == sorted(["own<float>", "(void(*)(int*))fill", "fill", *spelled])


@pytest.mark.nvrtc
def test_the_split_source_of_the_guide_builds(tmp_path: Path) -> None:
    (split,) = re.findall(r"```c\+\+\n(.*?)```", GUIDE, re.DOTALL)
    project = make_project(tmp_path, {"k.cu": split, "shared.cuh": ""}, 'archs = ["sm_90"]\n')
    assert "k.sm_90.cubin" in pipeline.build(project)
