"""The JSON schemas of hatch-cubin's settings, for tools that check a pyproject.toml without a build.

The file `table.schema.json` describes only the tables of hatch-cubin. `tests/schemas.py` writes
`table.schema.json` from the keys that `reader.py` reads. `python -m hatch_cubin.config.schema` prints a
schema that describes a whole pyproject.toml, including hatch-cubin's settings.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

Schema = dict[str, Any]

# Hatch's hook does not have this key, because it does not wrap a build backend
_WRAPPER_KEYS = ("backend", "backend-path", "package-dir")


def of_tool(_name: str) -> Schema:
    """Return the schema of `[tool.hatch-cubin]`. validate-pyproject calls this function."""
    schema: Schema = json.loads(Path(__file__).with_name("table.schema.json").read_text("utf-8"))
    return schema


def of_pyproject() -> Schema:
    """Return a schema for pyproject.toml that describes hatch-cubin's tables and allows everything else."""
    table = of_tool("hatch-cubin")
    definitions = table.pop("definitions")
    head = {key: table.pop(key) for key in ("$schema", "$id", "title")}
    head["$id"] = head["$id"].replace("table.schema", "pyproject.schema")
    reference = {"$ref": "#/definitions/table"}
    hook = {"allOf": [reference], "propertyNames": {"not": {"enum": [*_WRAPPER_KEYS]}}}
    hooks = {"hooks": _inside(cubin=hook)}
    build = _inside(**hooks, targets=_inside(wheel=_inside(**hooks)))
    tool = _inside(hatch=_inside(build=build), **{"hatch-cubin": reference})
    return {**head, **_inside(tool=tool), "definitions": {**definitions, "table": table}}


def _inside(**properties: Schema) -> Schema:
    return {"type": "object", "properties": properties}


def written(schema: Schema) -> str:
    """Return a schema as the text of a JSON file."""
    return f"{json.dumps(schema, indent=2, ensure_ascii=False)}\n"


if __name__ == "__main__":
    sys.stdout.write(written(of_pyproject()))
