"""What a value of the wrong type was meant to be, as the table's line. Pure."""

from __future__ import annotations

import re
from typing import Any

from .. import _gpus
from . import checks, lines

_ARRAYS = frozenset({"archs", "sources", "exclude", "include-dirs", "header-packages", "instantiate"})
_LONGEST = 100
_SWITCHES = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_VERSION = re.compile(r"(?:cuda|cu|v|[\s=~-])*(1[23](?:\.[0-9.]+)?)", re.IGNORECASE)
_WHEELS = re.compile(r"cu(1[23])([0-9])")  # as in the names of PyTorch's: cu130


def line(key: str, value: object) -> str | None:
    """Return the line that a key with a wrong value may have been meant as, if that is plain."""
    try:
        meant = _meant(key, value)
    except ValueError:  # a number that is too long to be written
        return None
    shown = "" if meant is None else lines.setting(key, meant)
    return shown if shown.isprintable() and 0 < len(shown) <= _LONGEST else None


def _meant(key: str, value: object) -> Any:
    if key in _ARRAYS:
        return _array(key, [value] if isinstance(value, (str, int, float)) else value)
    if key == "toolkit":
        return _toolkit(str(value))
    if key in {"ship-sources", "provenance"}:
        return _SWITCHES.get(str(value).lower())
    if key == "jobs" and isinstance(value, str):
        return int(value) if re.fullmatch(r"[1-9][0-9]{0,2}", value) else None
    return None


def _array(key: str, items: object) -> list[str] | None:
    if not isinstance(items, list) or any(isinstance(item, bool) for item in items):
        return None
    if key != "archs":
        return items if items and all(isinstance(item, str) and item for item in items) else None
    found = [_archs(str(item)) for item in items]
    return [arch for archs in found for arch in archs] if found and all(found) else None


def _archs(text: str) -> tuple[str, ...]:
    try:
        return (checks.arch(text),)
    except ValueError:
        return _gpus.archs_meant(text)


def _toolkit(text: str) -> str | None:
    if wheels := _WHEELS.fullmatch(text):
        return f"{wheels[1]}.{wheels[2]}"
    match = _VERSION.fullmatch(text)
    try:
        return checks.toolkit(match[1]) if match else None
    except ValueError:
        return None
