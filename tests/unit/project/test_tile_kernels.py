"""Which kinds of kernels a source has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hatch_cubin.project import tile_kernels
from hatch_cubin.project.source import Source
from hatch_cubin.project.source_roots import ProjectTree, SourceRoot
from hatch_cubin.project.tile_kernels import (
    NO_TILE_CODE,
    TILE_IR,
    KernelKinds,
    has_tile_kernels,
    kernel_kinds,
)
from tests.helpers import write_tree

HEADER = "#include <cuda_tile.h>\n"
TILE = "template <class T> __tile_global__ void t(T *x) {}\n"
OTHER = "__global__ void k(float *x) {}\n"
ONLY_TILE = KernelKinds(tile=True, other=False)
BOTH = KernelKinds(tile=True, other=True)


@pytest.mark.parametrize(
    ("path", "text", "kinds"),
    [
        ("a.cu", OTHER, NO_TILE_CODE),
        ("a.cu", "", NO_TILE_CODE),
        ("a.cu", HEADER, ONLY_TILE),
        ("a.cu", TILE, ONLY_TILE._replace(tile_names=frozenset("t"))),
        (
            "a.cu",
            "[[cutile::hint(0)]] __tile_global__ void\n  f<1>(int *x);\n",
            ONLY_TILE._replace(tile_names=frozenset("f")),
        ),
        ("a.cu", HEADER + OTHER, BOTH),
        ("a.cu", "__tile__ int f();\n" + OTHER, BOTH),
        ("a.cu", TILE + OTHER, BOTH._replace(tile_names=frozenset("t"))),
        ("a.cu", f"// {TILE}", NO_TILE_CODE),
        ("a.cu", f"/*\n{HEADER}*/", NO_TILE_CODE),
        ("a.cu", f"#ifdef __CUDACC_TILE__\n{HEADER}{TILE}#endif\n{OTHER}", NO_TILE_CODE),
        ("a.cu", f"#ifdef __CUDACC__\n{TILE}#endif\n", ONLY_TILE._replace(tile_names=frozenset("t"))),
        ("a.ptx", TILE, NO_TILE_CODE),
        ("a.TileIR", "", TILE_IR),
    ],
)
def test_kinds_of_kernels_are_read_from_the_text(path: str, text: str, kinds: KernelKinds) -> None:
    found = kernel_kinds(Source(path, text))
    assert found == kinds
    if path == "a.cu" and found.tile:
        assert kernel_kinds(Source(path, found.as_text())) == found


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        (TILE, {"t<float>": True, "k": True}),
        (OTHER, {"t<float>": False, "k": False}),
        (TILE + OTHER, {"t<float>": True, "ns::t<ns::a<1>>": True, "k": False, "tt<t<1>>": False}),
    ],
)
def test_an_instantiation_belongs_to_one_kind(text: str, answers: dict[str, bool]) -> None:
    kinds = kernel_kinds(Source("a.cu", text))
    assert {name: kinds.is_tile(name) for name in answers} == answers


def test_sources_that_mention_no_tile_code_are_not_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"p/a.cu": TILE, "p/b.cu": f"// {TILE}", "p/c.cu": OTHER, "p/d.ptx": TILE, "root/e.cu": HEADER}
    write_tree(tmp_path, files)
    (tmp_path / "p/lost.cu").symlink_to("nowhere")
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "p/pipe.cu")
    read: list[str] = []

    def note(tree: ProjectTree, path: str) -> Source:
        read.append(path)
        return Source(path, tree.disk_path(path).read_text())

    monkeypatch.setattr(tile_kernels, "read_source", note)
    tree = ProjectTree(tmp_path / "p")
    names = ["a.cu", "b.cu", "c.cu", "d.ptx", "f.tileir", "lost.cu", "pipe.cu"]
    assert [name for name in names if has_tile_kernels(tree, name)] == ["a.cu", "f.tileir"]
    tree = ProjectTree(tmp_path / "p", (SourceRoot("r", tmp_path / "root", "../root"),))
    assert has_tile_kernels(tree, "r/e.cu")
    assert read == ["a.cu", "b.cu", "r/e.cu"]
