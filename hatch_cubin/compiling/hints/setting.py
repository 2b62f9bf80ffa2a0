"""What hints depend on beside the compiler's words: the project, the source and the toolkit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._plan import Module
from ...errors import SourceError
from ...sources import disk
from ...sources.search import Root
from ...table import lines
from ...table.config import Config
from .way import Step, ways_from


@dataclass(frozen=True, slots=True)
class Setting:
    """A compile that failed: of which source, in which project, with which CUDA."""

    root: Path
    config: Config
    module: Module
    search: tuple[Root, ...]  # where its headers were looked for
    headers: tuple[str, ...]  # those of the project that it can read
    version: tuple[int, int]

    @property
    def path(self) -> str:
        """The source's path in the project."""
        return self.module.source.path

    @property
    def ways(self) -> Mapping[str, tuple[Step, ...]]:
        """How the source comes to read each header."""
        return ways_from(self.module.source, self.root, self.search)

    def text_of(self, path: str) -> str:
        """Return the text of a file of the project that the compile read; empty where it is gone."""
        if path == self.path:
            return self.module.source.text
        try:
            return (
                disk.read(self.root / path, self.root).decode("utf-8", "replace")
                if path in self.headers
                else ""
            )
        except SourceError:
            return ""

    def line(self, key: str, value: Any) -> str:
        """Return the table's line with a value, and with what the table has there already."""
        there = getattr(self.config, key.replace("-", "_"))
        if key == "define":
            there = dict(there)
        if isinstance(value, Mapping):
            kebab = (
                {name.replace("_", "-"): each for name, each in there.items()} if key == "options" else there
            )
            return lines.setting(key, {**kebab, **value})
        return lines.setting(key, [*there, *(each for each in value if each not in there)])
