"""Read recorded calls: files in which test runs record what CuPy or cuda.core compiles."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any

from ..config.config import SourceRule
from ..config.reader import read_source_settings
from ..config.toml_positions import TableLocation
from ..errors import ConfigError, Location, SourceError, problem
from ..loader._text_key import text_key
from .source import Source, read_source
from .source_roots import ProjectTree

_AGAIN = "record the call again, or move the file to another folder"


class _FirstLine(TableLocation):
    """Locates each setting of a recorded call: in the first line of the file, which contains all settings."""

    def of(self, *_path: str | int) -> Location:
        return Location(self.file, 1)


def read_recorded(tree: ProjectTree, path: str) -> Source:
    """Return the source that a file with a recorded call describes. Raise SourceError if the file is damaged.

    The first line of the file is a comment with the call as JSON. The source code of the call begins on the
    second line. The name of the file begins with the key of the call; the key is a digest of the options and
    the source code. If a user edits the options or the source code, the name of the file is no longer the key
    of the call, and the function raises SourceError.
    """
    whole = read_source(tree, path)
    line, _, text = whole.text.partition("\n")
    try:
        rule = SourceRule(path=path, **read_source_settings(_settings(line), _FirstLine(path, "", ())))
    except ValueError:
        what = "does not begin with the line that describes a recorded call"
        raise SourceError(problem("recorded-call-damaged", what, Location(path, 1), _AGAIN)) from None
    except ConfigError as exc:
        raise SourceError(*exc.problems) from exc
    key = text_key(rule.front, rule.call_options, text)
    if not PurePosixPath(path).name.startswith(key):
        what = "was edited or renamed: the name of the file does not begin with the key of its call"
        hint = f"rename the file to {key}.cu, or record the call again"
        raise SourceError(problem("recorded-call-damaged", what, Location(path), hint))
    return replace(whole, text=text, recorded=rule)


def _settings(line: str) -> dict[str, Any]:
    """Return the settings in the first line of a file with a recorded call.

    Raise ValueError if the line does not have the right form.
    """
    call = json.loads(line.removeprefix("// ")) if line.startswith("// {") else {}
    if not {"front", "options"} <= call.keys() <= {"front", "options", "instantiate"}:
        raise ValueError
    return {"as": call.pop("front"), **call}
