"""Numbers of bytes as people read them."""

from __future__ import annotations


def size(count: int) -> str:
    """Return a number of bytes as text, as in '1.5 MiB'."""
    return _text(count, 1024, ("B", "KiB", "MiB", "GiB"))


def decimal(count: int) -> str:
    """Return a number of bytes in thousands, as limits of indexes are given: '1.5 MB'."""
    return _text(count, 1000, ("B", "KB", "MB", "GB"))


def _text(count: int, step: int, units: tuple[str, ...]) -> str:
    if count < step:
        return f"{count} {units[0]}"
    amount, number = count / step, 1
    while amount >= step and units[number + 1 :]:
        amount, number = amount / step, number + 1
    return f"{amount:.1f} {units[number]}"
