"""The loader's files that a bundle contains. They are copied unchanged from `hatch_cubin/loader/`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "loader"  # not imported: a build needs only the bytes
FORMAT = 3  # highest bundle format that this loader reads
CORE = "__init__.py"
# Only in bundles that need them:
PACKED, SPLIT, EDITABLE, LARGE = "_packs.py", "_split.py", "_editable.py", "_large.py"
_MANY = 1000  # a bundle with this many units is large
OF_EVERY = (CORE, "_debugging.py", "_loading.py")
ALL = (*OF_EVERY, EDITABLE, LARGE, PACKED, SPLIT)


def needed_by(*, units: int, packed: bool, split: bool) -> tuple[str, ...]:
    """Return the names of the loader's files that a bundle in a wheel contains, depending on its form."""
    sometimes = {LARGE: units >= _MANY, PACKED: packed, SPLIT: split}
    return (*OF_EVERY, *(name for name, is_needed in sometimes.items() if is_needed))


def read(name: str) -> bytes:
    """Return the bytes of one file as they are in a bundle."""
    return (FOLDER / name).read_bytes()


def all_files() -> dict[str, bytes]:
    """Return all files that a bundle may contain."""
    return {name: read(name) for name in ALL}
