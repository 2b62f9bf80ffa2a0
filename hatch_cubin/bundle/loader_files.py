"""The Python files of the loader, which builds copy unchanged from `hatch_cubin/loader/` into a wheel."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from pathlib import Path

# The loader is not imported here, because a build needs only the bytes of its files.
FOLDER = Path(__file__).parent.parent / "loader"
FORMAT = 3  # the highest format of a manifest that this loader reads
CORE = "__init__.py"
# A wheel contains one of these files only if the wheel is packed, split, editable or large.
PACKED, SPLIT, EDITABLE, LARGE = "_packs.py", "_split.py", "_editable.py", "_large.py"
TEXT_KEY = "_text_key.py"  # builds import this file too
_SHARED = "_drop_in.py"
# The drop-in and its other files, for each library.
DROP_INS: Mapping[str, tuple[str, ...]] = {
    "cuda.core": ("core.py", _SHARED, TEXT_KEY),
    "cupy": ("cupy.py", _SHARED, TEXT_KEY),
}
_MANY = 1000  # A wheel with 1,000 units or more gets the file `_large.py`.
OF_EVERY = (CORE, "_debugging.py", "_loading.py")
ALL = (*OF_EVERY, EDITABLE, LARGE, PACKED, SPLIT, *dict.fromkeys(itertools.chain(*DROP_INS.values())))


def needed_by(*, units: int, packed: bool, split: bool, fronts: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names of the loader's files in a wheel.

    *units* is the number of compiled files. *fronts* are the libraries (CuPy, cuda.core) that may load
    kernels from the wheel.
    """
    sometimes = {LARGE: units >= _MANY, PACKED: packed, SPLIT: split}
    drop_ins = dict.fromkeys(name for front in sorted(fronts) for name in DROP_INS.get(front, ()))
    return (*OF_EVERY, *(name for name, is_needed in sometimes.items() if is_needed), *drop_ins)


def read(name: str) -> bytes:
    """Return the bytes of one file of the loader."""
    return (FOLDER / name).read_bytes()


def all_files() -> dict[str, bytes]:
    """Return all files of the loader, including the files that only some wheels contain."""
    return {name: read(name) for name in ALL}
