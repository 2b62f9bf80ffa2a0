"""Find the modules of the project that a producer (a Python function) imports, without running any module.

The script `producer_script.py`, which runs in the producer's process, finds modules by the same rules as this
file. The code in this file does not find a module whose name is computed, as in `import_module(names[0])`,
but the producer's process reports the file of such a module as an undeclared input.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from pathlib import PurePosixPath

from ..project import disk
from ..project.source_roots import ProjectTree
from .producer_script import Packages, locate


def packages_for(packages: Mapping[str, str], script: str) -> list[tuple[str, str]]:
    """Return the import names of the project and their folders, the longest name first.

    If the script is outside of the project's packages, the result also contains the script's folder, with an
    empty import name, because the script can import the modules beside it by names without a package.
    """
    named = [(name, str(PurePosixPath(folder))) for name, folder in packages.items()]
    if module_name(packages, script).count(".") == 0:
        named.append(("", str(PurePosixPath(script).parent)))
    return sorted(named, key=lambda each: (-len(each[0]), each[0]))


def module_name(packages: Mapping[str, str], script: str) -> str:
    """Return the name under which a producer's Python file is imported."""
    path = PurePosixPath(script).with_suffix("")
    inside = [(name, folder) for name, folder in packages.items() if path.is_relative_to(folder)]
    if not inside:
        return path.name
    name, folder = max(inside, key=lambda each: len(PurePosixPath(each[1]).parts))
    return ".".join((name, *path.relative_to(folder).parts))


def import_closure(tree: ProjectTree, packages: Packages, name: str, script: str) -> dict[str, bytes]:
    """Map the path of a Python file, and of each project module that the file can import, to the content."""
    found: dict[str, bytes] = {}
    left = [(name, script)]
    while left:
        name, path = left.pop()
        if path in found:
            continue
        found[path] = disk.read_file(tree.disk_path(path), tree)
        for each in _imported_names(found[path], name):
            place = locate(
                each, packages, lambda file: disk.is_file(tree.disk_path(file), tree), _is_folder(tree)
            )
            if place is not None and not place[1]:
                left.append((each, place[0]))
    return found


def _is_folder(tree: ProjectTree) -> Callable[[str], bool]:
    return lambda path: tree.disk_path(path).is_dir()


def _imported_names(text: bytes, name: str) -> Iterator[str]:
    """Yield the names of the modules that a module may import. A text that is not Python imports nothing."""
    try:
        nodes = ast.walk(ast.parse(text))
    except (SyntaxError, ValueError, RecursionError):  # running the producer reports the error
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = name.split(".")[: -node.level] if node.level else []
            base = ".".join((*above, *([node.module] if node.module else [])))
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)
