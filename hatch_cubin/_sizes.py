"""Numbers of bytes as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """Return a number of bytes as text, as in '1.5 MiB'."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def decimal(count: int) -> str:
    """Return a number of bytes in thousands, as limits of indexes are given: '1.5 MB'."""
    amount = float(count)
    for unit in ("B", "KB", "MB"):
        if amount < 1000:
            return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
