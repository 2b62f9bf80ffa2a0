"""Write lines of pyproject.toml for hints, so that users can paste the lines unchanged."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def setting(key: str, value: Any) -> str:
    """Return a line of TOML that sets a key to a value."""
    return f"{_key(key)} = {literal(value)}"


def source_table(tables: str, path: str, **values: Any) -> str:
    """Return the lines of a [[source]] table for one source; a hint shows these lines below its text."""
    lines = [tables, setting("path", path), *(setting(key, value) for key, value in values.items())]
    return "".join(f"\n    {line}" for line in lines)


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)


def literal(value: Any) -> str:
    """Return a Python value as TOML."""
    if isinstance(value, Mapping):
        return f"{{ {', '.join(setting(key, each) for key, each in value.items())} }}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    return json.dumps(value, ensure_ascii=False)
