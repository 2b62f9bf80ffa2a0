"""Which kinds of kernels a source has."""

from __future__ import annotations

import pytest

from hatch_cubin.project.source import Source
from hatch_cubin.project.tile_kernels import NO_TILE_CODE, TILE_IR, KernelKinds, kernel_kinds

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
