"""Hints about headers whose name no file has: the header of the project or the toolkit that may be meant."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from ...project.source import walk
from ...project.source_roots import ProjectTree
from .failed_compile import FailedCompile
from .host_code import STANDARD
from .similar_names import did_you_mean, nearest

_VENV = "pyvenv.cfg"  # the file that marks a virtual environment's folder
_SUFFIXES = (".h", ".hh", ".hpp", ".hxx", ".cuh", ".inl", ".inc")
_TEMPLATES = (".in", ".cmake", ".j2", ".jinja", ".jinja2", ".mako", ".template", ".tmpl", ".tpl")
_OF_WHEELS = ("curand_kernel.h", "cute/tensor.hpp", "cutlass/cutlass.h", "nvshmem.h")
_INTERNAL = re.compile(r"__.*|details?|internal|agent")
_SHORTEST_START = 4  # letters of a header's name that are enough to guess the rest


def projects(name: str, includer: str, failed: FailedCompile) -> str | None:
    """Return a hint if an include may mean a header of the project, or one that is not generated yet."""
    written = name.strip().replace("\\", "/")
    last = posixpath.basename(written)
    paths = [path for path in files_of(failed.tree) if path != includer]
    for path in paths:
        template = posixpath.basename(path)
        if template.startswith(f"{last}.") and template.removeprefix(last) in _TEMPLATES:
            made = f"{posixpath.dirname(path)}/{last}".lstrip("/")
            return f"{path} is the template of {last}: write {made} from it before the build"
    known = {posixpath.basename(path) for path in paths if path.endswith(_SUFFIXES)}
    meant = last if last in known else _same_stem(last, known) or nearest(last, known)
    if meant is None:
        return None
    near = posixpath.dirname(includer)
    path = min(
        (path for path in paths if posixpath.basename(path) == meant),
        key=lambda path: (steps(near, path), path),
    )
    return _that_finds(path, name, written, includer, failed)


def _same_stem(name: str, known: set[str]) -> str | None:
    stem = PurePosixPath(name).stem.lower()
    return min((each for each in known if PurePosixPath(each).stem.lower() == stem), default=None)


def _that_finds(path: str, name: str, written: str, includer: str, failed: FailedCompile) -> str:
    """Return the name with which an include finds a file of the project, and the folder to search for it."""
    quoted = re.search(rf'#[ \t]*include[ \t]*"{re.escape(name)}"', failed.text_of(includer))
    relative = posixpath.relpath(path, posixpath.dirname(includer) or ".")
    if quoted and (written.startswith("..") or not relative.startswith("..")):
        return f"did you mean {relative!r}?"
    count = len([part for part in PurePosixPath(written).parts if part not in {"..", "/"}])
    meant = "/".join(PurePosixPath(path).parts[-count:])
    folder = path.removesuffix(meant).rstrip("/") or "."
    if any(not root.tree and failed.tree.name_of(root.path) == folder for root in failed.search):
        return f"did you mean {meant!r}?"
    return f"did you mean {meant!r}? This finds it: {failed.line('include-dirs', [folder])}"


def toolkits(name: str, failed: FailedCompile) -> str | None:
    """Return a guess for a header with a name like that of a header outside of the project."""
    folder, last = posixpath.split(name)
    stem = last.removesuffix(".h")
    if folder == "cuda/std" and stem in STANDARD:
        version = ".".join(map(str, failed.version))
        return f"CUDA {version} has no <{stem}> for device code: {name!r} does not exist"
    beside = [each for root in failed.search if root.tree for each in _names_in(root.path / folder)]
    if not folder:  # a project may use any such name: one that only starts alike is another header
        beside = [each for each in beside if ("." in each) == ("." in last)]
    if (meant := _like(last, beside) if folder else nearest(last, beside)) is not None:
        return f"did you mean {posixpath.join(folder, meant)!r}?"
    top = folder.partition("/")[0]
    below = [each for root in failed.search if root.tree and top for each in _below(root.path, top)]
    for each in below:
        if posixpath.basename(each) == last:
            return f"did you mean {each!r}?"
    return did_you_mean(name, [*below, *_OF_WHEELS])


def _like(name: str, known: list[str]) -> str | None:
    """Return the known name with the fewest spelling errors, or the only one that starts with *name*."""
    stem = PurePosixPath(name).stem
    if stem in known:
        return stem
    if (near := nearest(name, known)) is not None:
        return near
    longer = sorted(each for each in {*known} if each.startswith(stem) and len(stem) >= _SHORTEST_START)
    return longer[0] if len(longer) == 1 else None


def _names_in(folder: Path) -> list[str]:
    try:
        return [each.name for each in os.scandir(folder) if each.is_file() and not _INTERNAL.match(each.name)]
    except OSError:
        return []


def _below(root: Path, top: str) -> Iterator[str]:
    """Yield the headers for users in a folder of headers and its subfolders."""
    for parent, folders, files in os.walk(root / top):
        folders[:] = sorted(each for each in folders if not _INTERNAL.fullmatch(each))
        for each in sorted(files):
            yield Path(parent, each).relative_to(root).as_posix()


def files_of(tree: ProjectTree) -> list[str]:
    """Return the files of a project, without files of installed packages."""
    paths = [*walk(tree, ".")]
    installed = tuple(path.removesuffix(_VENV) for path in paths if path.endswith(f"/{_VENV}"))
    return [path for path in paths if not path.startswith(installed)]


def steps(one: str, other: str) -> int:
    """Return the number of steps between two folders of the project."""
    return len(PurePosixPath(one).parts) + len(PurePosixPath(other).parts) - 2 * in_common(one, other)


def in_common(one: str, other: str) -> int:
    """Return the number of folders that two folders of the project have in common."""
    parts, others = PurePosixPath(one).parts, PurePosixPath(other).parts
    common = 0
    while parts[common : common + 1] == others[common : common + 1] != ():
        common += 1
    return common
