"""Format numbers for people, such as '1.5 MiB', '2 kernels' and the CUDA release '13.0'."""

from __future__ import annotations


def size(count: int) -> str:
    """Return a size in bytes as text with binary units, such as '1.5 MiB'."""
    return _text(count, 1024, ("B", "KiB", "MiB", "GiB"))


def decimal(count: int) -> str:
    """Return a size as text in decimal units ('1.5 MB'), in which package indexes state their size limits."""
    return _text(count, 1000, ("B", "KB", "MB", "GB"))


def count(number: int, what: str) -> str:
    """Return a number with a noun in the singular or plural, such as '1 kernel' or '2 kernels'."""
    return f"{number} {what}{'s' * (number != 1)}"


def cuda(number: int) -> str:
    """Return the CUDA release that a driver's version number means, such as '13.0' for 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def _text(count: int, step: int, units: tuple[str, ...]) -> str:
    if count < step:
        return f"{count} {units[0]}"
    amount, number = count / step, 1
    while amount >= step and units[number + 1 :]:
        amount, number = amount / step, number + 1
    return f"{amount:.1f} {units[number]}"
