"""Which files of the loader a bundle has. They are copied as they are from `hatch_cubin/loader/`."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent.parent / "loader"  # not imported: builds need its bytes alone
FORMAT = 3  # of a bundle, the highest that this loader reads
CORE = "__init__.py"
# Only in bundles that need them:
PACKED, SPLIT, EDITABLE, LARGE = "_packs.py", "_split.py", "_editable.py", "_large.py"
_MANY = 1000  # a bundle of so many units is large
OF_EVERY = (CORE, "_debugging.py", "_loading.py")
ALL = (*OF_EVERY, EDITABLE, LARGE, PACKED, SPLIT)


def needed_by(*, units: int, packed: bool, split: bool) -> tuple[str, ...]:
    """Return the names of the files that a bundle in a wheel has, by its form."""
    sometimes = {LARGE: units >= _MANY, PACKED: packed, SPLIT: split}
    return (*OF_EVERY, *(name for name, is_needed in sometimes.items() if is_needed))


def read(name: str) -> bytes:
    """Return one of the files, as bundles have it."""
    return (FOLDER / name).read_bytes()


def all_files() -> dict[str, bytes]:
    """Return all files that any bundle may have."""
    return {name: read(name) for name in ALL}
