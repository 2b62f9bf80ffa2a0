"""Which files of the loader a bundle has. They are copied as they are from `hatch_cubin/loader/`."""

from __future__ import annotations

from pathlib import Path

from .. import loader

FOLDER = Path(loader.__file__).parent
CORE = "__init__.py"
PACKED, SPLIT, EDITABLE = "_packs.py", "_split.py", "_editable.py"  # only in bundles that need them
OF_EVERY = (CORE, "_arguments.py", "_errors.py", "_files.py", "_loading.py", "_use.py")
ALL = (*OF_EVERY, EDITABLE, PACKED, SPLIT)


def needed_by(*, packed: bool, split: bool) -> tuple[str, ...]:
    """Return the names of the files that a bundle in a wheel has, by its form."""
    return (*OF_EVERY, *((PACKED,) if packed else ()), *((SPLIT,) if split else ()))


def read(name: str) -> bytes:
    """Return one of the files, as bundles have it."""
    return (FOLDER / name).read_bytes()


def all_files() -> dict[str, bytes]:
    """Return all files that any bundle may have."""
    return {name: read(name) for name in ALL}
