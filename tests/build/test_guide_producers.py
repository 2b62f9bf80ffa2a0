"""The projects of the guide to kernels from Python, built and launched as it prints them."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.project.project import Project
from tests.docs_pages import page
from tests.helpers import TABLE, read_config, write_tree

pytestmark = pytest.mark.nvrtc

FILES: list[tuple[str, str, str]] = re.findall(
    r"^<!-- file: (\w+)/(\S+) -->\n```\S+\n(.*?)^```$",
    page("guides/kernels-from-python"),
    re.MULTILINE | re.DOTALL,
)
# By project: the kernel that it has, and the variants of it.
KERNELS: dict[str, tuple[str, list[str]]] = {
    "types": ("axpy", ["[T=double]", "[T=float]"]),
    "prelude": ("fill", [""]),
    "jinja": ("stencil", ["[T=double,R=1]", "[T=double,R=2]", "[T=float,R=1]", "[T=float,R=2]"]),
    "pyptx": ("rms_norm", ["[N=1024]", "[N=4096]"]),
    "triton": ("matmul", ["[BM=128,BN=64]", "[BM=64,BN=64]"]),
    "cutile": ("add", ["[SIZE=1024]", "[SIZE=256]"]),
}
# By project: what it needs besides a compiler.
NEEDS = {"triton": "triton", "cutile": "cutile"}
ARCHS = {"triton": {"compute_80", "sm_80", "sm_90a"}, "cutile": {"sm_80", "sm_90a"}}
# By project: the block of its launch.
BLOCKS = {"cutile": (1, 1, 1)}
# By project: the launch that the guide shows, and arguments for it.
LAUNCHES: dict[str, tuple[str, tuple[int, ...]]] = {
    "pyptx": ("norm.rms_norm", (0, 0, 0, 16, 1024)),
    "triton": ("matmul.matmul", (0, 0, 0, 0, 100, 128, 64)),
    "cutile": ("vectors.add", (0, 0, 0, 0, 1000)),
}


def built(root: Path, name: str) -> dict[str, bytes]:
    """Write a project of the guide, and return the files of its bundle."""
    files = {path: text for project, path, text in FILES if project == name}
    options = files.pop("table.toml").replace(f"[{'.'.join(TABLE)}]\n", "")
    write_tree(root, {"src/mypkg/__init__.py": "", **files})
    packages = {"mypkg": "src/mypkg"}
    config, environ = read_config(options), dict(os.environ)
    return pipeline.build(Project(root=root, packages=packages, config=config, environ=environ))


def parametrize(names: Any) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(each, marks=getattr(pytest.mark, NEEDS[each]) if each in NEEDS else ())
            for each in names
        ],
    )


def test_each_project_of_the_guide_is_known() -> None:
    assert {name for name, _path, _text in FILES} == KERNELS.keys()


@parametrize(KERNELS)
def test_a_project_of_the_guide_has_its_kernels_and_is_equal_in_every_folder(
    tmp_path: Path, name: str
) -> None:
    files = built(tmp_path / "one", name)
    assert files == built(tmp_path / "another" / "place", name)
    modules = json.loads(files["manifest.json"])["modules"]
    kernel, variants = KERNELS[name]
    assert {module: [*each["kernels"]] for module, each in modules.items()} == {
        f"{kernel}{variant}": [kernel] for variant in variants
    }
    archs = {entry["arch"] for each in modules.values() for entry in each["entries"]}
    assert archs == ARCHS.get(name, {"sm_80", "sm_90"})


@parametrize(LAUNCHES)
def test_a_launch_of_the_guide_passes_as_many_arguments_as_the_kernel_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    core = pytest.importorskip("cuda.core")
    files = built(tmp_path, name)
    write_tree(tmp_path / "src/mypkg/_cubins", files)
    monkeypatch.syspath_prepend(tmp_path / "src")
    launched: list[Any] = []
    monkeypatch.setattr(core, "launch", lambda *arguments: launched.append(arguments))
    for module in [each for each in sys.modules if each.partition(".")[0] == "mypkg"]:
        monkeypatch.delitem(sys.modules, module)
    cubins: Any = importlib.import_module("mypkg._cubins")
    attributes = SimpleNamespace(max_threads_per_block=128)

    def kernel(name: str, **variant: int) -> SimpleNamespace:
        entry = cubins.find(name, cc=(9, 0), **variant)
        return SimpleNamespace(attributes=attributes, parameters=entry.parameters[name])

    monkeypatch.setattr(cubins, "kernel", kernel)
    (place, arguments) = LAUNCHES[name]
    module, function = place.split(".")
    getattr(importlib.import_module(f"mypkg.{module}"), function)(*arguments)
    ((_stream, shape, loaded, *passed),) = launched
    assert len(passed) == len(loaded.parameters)
    assert shape.block == BLOCKS.get(name, (128, 1, 1))
