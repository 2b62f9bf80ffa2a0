"""Sources that are parts of others: another source includes them, and they have no kernel of their own."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from .._plan import Module
from ..sources import disk
from ..sources.source import without_comments

_KERNEL = re.compile(r"\b__global__\b")
_KERNEL_MACRO = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:[^\n\\]|\\.)*?\b__global__\b", re.MULTILINE | re.DOTALL
)


def drop_parts(
    modules: Sequence[Module], root: Path, named: Callable[[Module], set[str]]
) -> tuple[list[Module], list[str]]:
    """Return the modules without those that are parts of others, and a note for each that is left out.

    *named* gives the files of the project that an include of a module names.
    """
    sources = {module.source.path: module for module in modules}
    includers: dict[str, str] = {}
    for module in modules:
        for path in named(module) & sources.keys() - {module.source.path}:
            includers.setdefault(path, module.source.path)
    parts = {path: by for path, by in includers.items() if _is_part(sources[path], root, named)}
    left = [module for module in modules if module.source.path not in parts]
    if not left:  # they include each other, and one of them has to tell what is wrong
        return list(modules), []
    notes = [f"{path}: {by} includes it, and it has no kernel: it is no module" for path, by in parts.items()]
    return left, notes


def _is_part(module: Module, root: Path, named: Callable[[Module], set[str]]) -> bool:
    text = without_comments(module.source.text)
    if module.instantiate or _KERNEL.search(text):
        return False
    headers = (disk.read(os.path.join(root, path), root).decode("utf-8", "replace") for path in named(module))
    texts = map(without_comments, (module.source.text, *headers))
    macros = {name for each in texts for name in _KERNEL_MACRO.findall(each)}
    return not macros & set(re.findall(r"\w+", text))
