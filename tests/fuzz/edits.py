"""Random edits between builds: what a build recalls of its closures has to be what it would find without.

    python -m tests.fuzz.edits 200 --seed 1

The project has two folders of headers of its own, and two trees outside. Headers appear in them, vanish,
become folders or links, shadow each other, and are edited; macros, the search path and builds change.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from hatch_cubin.errors import SourceError
from hatch_cubin.headers.includes import Closure, Resolver
from hatch_cubin.headers.recalled_closures import WalkStart
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.keys.recall import Recall
from hatch_cubin.project.scan import include_values
from hatch_cubin.project.source_roots import ProjectTree

from .include_trees import FACTS, write

NAMES = ("a.h", "b.h", "c.h", "s/a.h", "s/b.h")
FOLDERS = ("project/demo", "project/i1", "project/i2", "w1", "w1/inner", "w2")
PLACES = tuple(f"{folder}/{name}" for folder in FOLDERS for name in NAMES)
OUTSIDE = tuple(place for place in PLACES if place.startswith("w"))
LINES = (
    '#include "{name}"',
    "#include <{name}>",
    "#include <{name}>",
    '#include "../{name}"',
    "#include <s/../{name}>",
    "#include_next <{name}>",
    "#if __has_include(<{name}>)\n#endif",
    "#define M <{name}>",
    "#define M2 M",
    "#define F(x) <s/x.h>",
    "#include M\n",
    "#include M2\n",
    "#include F(a)",
    "#define FAR ../{name}",
    "#define HAS(x) __has_include(x)",
    "#define A_HAS_INCLUDE(x) __has_include(x)",
    "#if A_HAS_INCLUDE(<{name}>)\n#endif",
    "#define B A_HAS_INCLUDE(<s/../{name}>)",
    "int {word};",
    "int {word};",
)
COMPUTED = ("M", "F(", "HAS", "FAR")


class Asked(NamedTuple):
    """What a build asks for: a source, macros, pre-included headers, folders and trees in an order."""

    text: str
    macros: tuple[tuple[str, str], ...] = ()
    pre_includes: tuple[str, ...] = ()
    own: tuple[str, ...] = ("i1", "i2")
    outside: tuple[tuple[str, str], ...] = (("w1", "one==1"), ("w1/inner", "one==1"), ("w2", "two==1"))


def header(chance: random.Random, *, computed: bool) -> str:
    lines = [line for line in LINES if computed or not any(word in line for word in COMPUTED)]
    some = (chance.choice(lines) for _ in range(chance.randint(0, 4)))
    return "\n".join(each.format(name=chance.choice(NAMES), word=chance.choice("xyz")) for each in some)


def edit(root: Path, chance: random.Random, *, computed: bool) -> str:
    """Change one place of a tree; return what was done."""
    place = chance.choice(PLACES if chance.random() < 0.3 else OUTSIDE)
    path = root / place
    if any(parent.is_file() for parent in path.parents):
        return "nothing"
    what = chance.choice(("a file", "a file", "a file", "nothing", "a folder", "a link", "no folder"))
    if what == "no folder":
        shutil.rmtree(path.parent, ignore_errors=True)
        if path.parent.name != "s":
            path.parent.mkdir()
        return f"{place}: {what} around it"
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    if what == "a file":
        write(path, header(chance, computed=computed))
    elif what == "a folder":
        path.mkdir(parents=True)
    elif what == "a link":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(root / chance.choice(PLACES))
    return f"{place}: {what}"


def ask(chance: random.Random, before: Asked | None, *, computed: bool) -> Asked:
    """Return what the next build asks for: often what the one before did."""
    if before is None or chance.random() < 0.1:
        before = Asked(f"#include <{chance.choice(NAMES)}>\n" + header(chance, computed=computed))
    if chance.random() < 0.05:
        before = before._replace(macros=(("M", f"<{chance.choice(NAMES)}>"),))
    if chance.random() < 0.05:
        before = before._replace(pre_includes=(chance.choice((*NAMES, "demo/a.h")),))
    if chance.random() < 0.05:
        before = before._replace(own=chance.choice((("i1",), ("i2", "i1"), ())))
    if chance.random() < 0.05:
        before = before._replace(outside=(("w2", f"two=={chance.randint(1, 2)}"), ("w1", "one==1")))
    return before


def fresh(root: Path, asked: Asked) -> Closure:
    """Return a closure as it is found without what an earlier build knew."""
    return _resolver(root, asked, outside=True).resolve(
        "demo/k.cu", asked.text, asked.macros, asked.pre_includes
    )


def recalled(root: Path, asked: Asked, recall: Recall) -> tuple[Closure, bool]:
    """Return the same as a build does, and whether that had to follow headers outside."""
    walks = []
    source = ("demo/k.cu", asked.text, asked.macros, asked.pre_includes)
    own = _resolver(root, asked, recall).resolve(*source)
    resolver = _resolver(root, asked, recall, outside=True)
    start = WalkStart(own, recall.scans.of_text(asked.text), include_values(asked.macros), asked.pre_includes)

    def walk() -> Closure:
        walks.append(source)
        return resolver.resolve(*source)

    return recall.closures.resolve(start, resolver, walk), bool(walks)


def _resolver(root: Path, asked: Asked, recall: Recall | None = None, *, outside: bool = False) -> Resolver:
    roots = [SearchFolder(root / "project" / name, f"project/{name}") for name in asked.own]
    if outside:
        roots += [SearchFolder(root / name, name, tree) for name, tree in asked.outside]
    shared = (recall.scans, recall.closures.outside) if recall else ()
    return Resolver(ProjectTree(root / "project"), roots, *shared)


def facts(closure: Closure) -> tuple[object, ...]:
    """Return all that there is to say of a closure."""
    names = ("widened", "trees", "missing", "search", "builds", "computed", "guessed", "at_root")
    values = [getattr(closure, name) for name in names]
    whole = (dict(closure.files), set(closure.absent), dict(closure.own))
    return (*whole, *values, closure.summary(), closure.digest())


def wrong_closures(count: int, seed: int, counts: Counter[str], edits: int = 25) -> Iterator[str]:
    """Yield each edit, in so many trees, after which a closure is recalled that is not the one there is."""
    for number in range(count):
        chance = random.Random(f"{seed} {number}")  # noqa: S311
        with tempfile.TemporaryDirectory() as folder:
            yield from (
                f"tree {number} of seed {seed}: {each}"
                for each in _wrong(Path(folder), chance, counts, edits)
            )


def _wrong(folder: Path, chance: random.Random, counts: Counter[str], edits: int) -> Iterator[str]:
    root, kept, asked = folder / "root", folder / "recall/kept.txt", None
    computed = chance.random() < 0.3
    for name in FOLDERS:
        (root / name).mkdir(parents=True)
    for place in chance.sample(OUTSIDE, 8):
        write(root / place, header(chance, computed=computed))
    done: list[str] = []
    for _ in range(edits):
        asked = ask(chance, asked, computed=computed)
        recall = Recall(kept)
        try:
            expected = facts(fresh(root, asked))
        except (SourceError, OSError) as exc:  # a name crosses a folder that another one lacks
            expected = (type(exc),)
        try:
            closure, walked = recalled(root, asked, recall)
            found = facts(closure)
            recall.record(FACTS, {})
            counts.update(closures=1, recalled=not walked)
        except (SourceError, OSError) as exc:
            found = (type(exc),)
        if found != expected:
            yield f"{asked}\n{done}\nrecalled {found}\nexpected {expected}"
        done = [edit(root, chance, computed=computed) for _ in range(chance.choice((0, 1, 1, 1, 3)))]


def main() -> None:
    """Say what was found, and end with 1 where that is anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts: Counter[str] = Counter()
    found = list(wrong_closures(args.count, args.seed, counts))
    sys.stdout.write("\n".join([f"{dict(counts)}, wrong {len(found)}", *found, ""]))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
