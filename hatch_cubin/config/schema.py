"""The JSON schemas of the table, for what looks at a pyproject.toml without building it.

`table.schema.json` is that of the table itself, `pyproject.schema.json` that of a file with the table in it.
`tests/schemas.py` writes both from what `reader.py` reads.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


def of_tool(_name: str) -> dict[str, Any]:
    """Return the schema of `[tool.hatch-cubin]`, as validate-pyproject asks for it."""
    schema: dict[str, Any] = json.loads(Path(__file__).with_name("table.schema.json").read_text("utf-8"))
    return schema
