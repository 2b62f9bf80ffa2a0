"""Write numbers for people: of bytes, of things, of CUDA releases."""

from __future__ import annotations


def size(count: int) -> str:
    """Return a number of bytes as text, as in '1.5 MiB'."""
    return _text(count, 1024, ("B", "KiB", "MiB", "GiB"))


def decimal(count: int) -> str:
    """Return a number of bytes in decimal units, which package indexes use for limits: '1.5 MB'."""
    return _text(count, 1000, ("B", "KB", "MB", "GB"))


def count(number: int, what: str) -> str:
    """Return a number of things, as in '1 kernel' and '2 kernels'."""
    return f"{number} {what}{'s' * (number != 1)}"


def cuda(number: int) -> str:
    """Return the CUDA release of a driver's version number: 13000 is '13.0'."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _text(count: int, step: int, units: tuple[str, ...]) -> str:
    if count < step:
        return f"{count} {units[0]}"
    amount, number = count / step, 1
    while amount >= step and units[number + 1 :]:
        amount, number = amount / step, number + 1
    return f"{amount:.1f} {units[number]}"
