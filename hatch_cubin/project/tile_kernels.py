"""Find tile kernels, which are written in CUDA Tile C++ (`__tile_global__`), in the texts of sources."""

from __future__ import annotations

import functools
import os
import re
from typing import NamedTuple

from ..common import read_limits
from .conditional_lines import surely_read
from .source import Source, is_ptx, is_tile_ir, read_source, without_comments
from .source_roots import ProjectTree

_SIGNS = ("__tile", "cuda_tile.h")  # a text with tile code contains one of these
TILE_CODE = re.compile(r"\b__tile(?:_global)?__(?!\w)")
_HEADER = re.compile(r'[ \t]*#[ \t]*include[ \t]*[<"]cuda_tile\.h[>"]')
_OTHER_GLOBAL = re.compile(r"\b__global__(?!\w)")
# The name of a tile kernel is the last word before the parameters or before explicit template arguments.
_NAME = re.compile(r"\b__tile_global__(?!\w)[^;{}()<]*?([^\W\d]\w*)\s*[(<]")


class KernelKinds(NamedTuple):
    """Which kinds of kernels a source has, as far as its text shows: tile kernels and other kernels."""

    tile: bool = False
    other: bool = True
    tile_names: frozenset[str] = frozenset()  # the names of the tile kernels, without namespaces

    def is_tile(self, instantiation: str) -> bool:
        """Return whether a template instantiation, such as `add<float>`, is a tile kernel."""
        if not (self.tile and self.other):
            return self.tile
        return instantiation.partition("<")[0].rpartition("::")[2].strip() in self.tile_names

    def as_text(self) -> str:
        """Return a short source text that contains the same kinds of kernels as the original source."""
        kernels = [f"__tile_global__ {name}(" for name in sorted(self.tile_names)]
        return "\n".join(["#include <cuda_tile.h>", *kernels, *["__global__"] * self.other])


NO_TILE_CODE = KernelKinds()
TILE_IR = KernelKinds(tile=True, other=False)


def kernel_kinds(source: Source) -> KernelKinds:
    """Return which kinds of kernels a source has.

    A source has tile kernels if it contains any tile code, because the kernels themselves may be in a header.
    Tile code inside an `#if` that may be false does not count: hatch-cubin then compiles only the other
    kernels, as nvcc does without its option for tile code.
    """
    if source.is_tile_ir:
        return TILE_IR
    return _kinds(source.text) if source.is_cpp else NO_TILE_CODE


def has_tile_kernels(tree: ProjectTree, path: str) -> bool:
    """Return whether the source at *path* has tile kernels; SourceError if the source has an error."""
    if is_ptx(path) or is_tile_ir(path):
        return is_tile_ir(path)
    return _has_sign(tree, path) and kernel_kinds(read_source(tree, path)).tile


def _has_sign(tree: ProjectTree, path: str) -> bool:
    """Return whether a file may have tile code; False if the file cannot be read.

    Each build calls this function for each source, so the function must be fast: it decodes nothing. The
    function does not wait for a pipe: a pipe has the size 0, so the function reads no bytes.
    """
    place = tree.disk_path(path) if tree.roots else os.path.join(tree.root, path)
    try:
        file = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
        try:
            data = os.read(file, min(os.fstat(file).st_size, read_limits.SOURCE))
        finally:
            os.close(file)
    except OSError:
        return False
    return any(sign.encode() in data for sign in _SIGNS)


# cached, because several steps of a build ask for the kinds of kernels
@functools.lru_cache(maxsize=1024)
def _kinds(text: str) -> KernelKinds:
    if not any(sign in text for sign in _SIGNS):
        return NO_TILE_CODE
    read = [line for line, _number in surely_read(text, frozenset())]
    if not any(TILE_CODE.search(line) or _HEADER.match(line) for line in read):
        return NO_TILE_CODE
    code = without_comments(text)
    other = _OTHER_GLOBAL.search(code) is not None
    return KernelKinds(tile=True, other=other, tile_names=frozenset(_NAME.findall(code)))
