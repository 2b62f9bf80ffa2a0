"""The Python files of the loader, which builds copy unchanged from `hatch_cubin/loader/` into a wheel."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "loader"  # not imported: a build needs only the bytes of the files
FORMAT = 3  # the highest format of a manifest that this loader reads
CORE = "__init__.py"
# Only wheels with certain properties contain these files.
PACKED, SPLIT, EDITABLE, LARGE = "_packs.py", "_split.py", "_editable.py", "_large.py"
TEXT_KEY = "_text_key.py"  # also imported by builds
CUPY = "cupy.py"
_MANY = 1000  # a wheel with this many compiled results gets the file `_large.py`
OF_EVERY = (CORE, "_debugging.py", "_loading.py")
ALL = (*OF_EVERY, EDITABLE, LARGE, PACKED, SPLIT, TEXT_KEY, CUPY)


def needed_by(*, units: int, packed: bool, split: bool) -> tuple[str, ...]:
    """Return the names of the loader's files in a wheel. *units*: the number of compiled files."""
    sometimes = {LARGE: units >= _MANY, PACKED: packed, SPLIT: split}
    return (*OF_EVERY, *(name for name, is_needed in sometimes.items() if is_needed))


def read(name: str) -> bytes:
    """Return the bytes of one file of the loader."""
    return (FOLDER / name).read_bytes()


def all_files() -> dict[str, bytes]:
    """Return all files of the loader, also those that few wheels contain."""
    return {name: read(name) for name in ALL}
