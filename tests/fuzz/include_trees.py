"""Random trees of headers that ask for each other in every way there is, with the compiler as the truth.

    python tests/fuzz/include_trees.py 200 --seed 1

A file is added, removed or made a folder. Where that changes what NVRTC gives, it has to change the closure:
a cache would serve what was compiled before. Run it in an environment that has the NVRTC to ask.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from hatch_cubin.errors import SourceError
from hatch_cubin.headers.includes import Resolver
from hatch_cubin.headers.recalled_closures import WalkStart
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.keys.recall import Recall
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Facts, Toolkit

FACTS = Facts("1.0", 13, "13.0.1", (90,), None)
NAMES = ("a.h", "b.h", "s/a.h")
FOLDERS = (
    "demo",
    "i1",
    "i2",
    "demo/s",
)  # the source's own, two of the search path, and one below the source's
PLACES = tuple(f"{folder}/{name}" for folder in FOLDERS[:3] for name in NAMES)
ASKER = "#define A_HAS_INCLUDE(x) __has_include(x)"  # a name that tells what it is for
# How a header is asked for, and the macro that this takes.
QUESTIONS = (
    ("__has_include({0})", ""),
    ("__has_include_next({0})", ""),
    ("!__has_include ( {0} )", ""),
    ("__has_include_next/**/(/*x*/{0})", ""),
    ("__has_inc\\\nlude({0})", ""),
    ("__has_include_next\\\n({0})", ""),
    ("defined(__has_include) && __has_include({0})", ""),
    ("(1 ? __has_include_next({0}) : 0)", ""),
    ("HAS({0})", "#define HAS __has_include"),
    ("CALL({0})", "#define CALL(x) __has_include(x)"),
    ("HAS_NEXT({0})", "#define HAS_NEXT __has_include_next"),
    ("CALL_NEXT({0})", "#define CALL_NEXT(x) __has_include_next(x)"),
    ("PASTE({0})", "#define PASTE(x) __has_##include(x)"),
    ("PASTE_NEXT({0})", "#define PASTE_NEXT(x) __has_include##_next(x)"),
    ("ALSO({0})", "%:define ALSO(x) __has_inc%:%:lude(x)"),
    ("CAT(__has_, include)({0})", "#define CAT(x, y) x##y"),
    ("CAT(__has_include, _next)({0})", "#define CAT(x, y) x##y"),
    ("A_HAS_INCLUDE({0})", ASKER),
    ("B({0})", f"{ASKER}\n#define B(x) A_HAS_INCLUDE(x)"),
    ("C({0})", f"{ASKER}\n#define C A_HAS_INCLUDE"),
    ("CAT(A_HAS_, INCLUDE)({0})", f"{ASKER}\n#define CAT(x, y) x##y"),
)
WORDS = ("#define W s", "#define W V\n#define V s", "#define V s/..\n#define W V/s")
INCLUDES = (
    "#include {0}",
    "#include_next {0}",
    "#if __has_include({0})\n#include {0}\n#endif",
    "#if __has_include({0})\n%:include {0}\n#endif",
    "#define NAME {0}\n#if __has_include(NAME)\n#include NAME\n#endif\n#undef NAME",
)


_clock = itertools.count(10**9)

Questions: TypeAlias = Sequence[tuple[str, str]]


class Change(NamedTuple):
    """One place of a tree, and what becomes of it."""

    place: str
    becomes: str  # "a file", "a folder" or "nothing"


def make_tree(root: Path, chance: random.Random, questions: Questions) -> str:
    """Write a random tree below *root*, which asks such *questions*; return its source."""
    for folder in (*FOLDERS, *chance.sample(("i1/s", "i2/s"), chance.randint(0, 2))):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for place in chance.sample(PLACES, chance.randint(2, 6)):
        write(root / place, _header(place, chance, questions))
    macros = sorted({macro for _condition, macro in questions if chance.random() < 0.7})
    macros += chance.sample(WORDS, chance.randint(0, 1))
    body = [_statement(number, chance, questions) for number in range(chance.randint(1, 3))]
    seen = [f"#ifdef {_mark(place)}\n+ {1 << number}\n#endif" for number, place in enumerate(PLACES)]
    asked = [f"#ifdef ASKED_{n}\n+ {1 << (n + len(PLACES))}\n#endif" for n in range(12)]
    kernel = ['extern "C" __global__ void k(int *x) { *x = 0', *seen, *asked, "; }"]
    source = "\n".join([*macros, *body, *kernel, ""])
    write(root / "demo/k.cu", source)
    return source


def _header(place: str, chance: random.Random, questions: Questions) -> str:
    body = [_statement(chance.randint(3, 11), chance, questions) for _ in range(chance.randint(0, 2))]
    return "\n".join([f"#ifndef {_mark(place)}", f"#define {_mark(place)}", *body, "#endif", ""])


def _mark(place: str) -> str:
    return "IN_" + "".join(char if char.isalnum() else "_" for char in place)


def _statement(number: int, chance: random.Random, questions: Questions) -> str:
    name = chance.choice(NAMES)
    written = chance.choice((f'"{name}"', f"<{name}>", f'"./{name}"', f"<s/../{name}>", f"<W/../{name}>"))
    if chance.random() < 0.4:
        return chance.choice(INCLUDES).format(written)
    if chance.random() < 0.2:  # the name comes by a macro
        return f"#define ASK {written}\n{_question('ASK', number, chance, questions)}\n#undef ASK"
    if chance.random() < 0.2:  # the whole question does
        one_line = chance.choice(questions)[0].format(written).replace("\\\n", "")
        return f"#define ASK {one_line}\n#if ASK\n#define ASKED_{number}\n#endif"
    return _question(written, number, chance, questions)


def _question(written: str, number: int, chance: random.Random, questions: Questions) -> str:
    condition = chance.choice(questions)[0].format(written)
    before = chance.choice(("#if", "#if 0\n#elif"))
    return f"{before} {condition}\n#define ASKED_{number}\n#endif"


def write(path: Path, text: str) -> None:
    """Write a file, at a time of its own that is long past."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (at := next(_clock), at))


def changes(root: Path) -> Iterator[Change]:
    """Yield each change that there can be, and make it while it is looked at."""
    for place in PLACES:
        path = root / place
        before = path.read_text() if path.is_file() else None
        for becomes in ("a file", "nothing", "a folder"):
            if becomes == ("nothing" if before is None else "a file"):
                continue
            path.unlink(missing_ok=True)
            new = [parent for parent in path.parents if not parent.exists()]
            if becomes == "a file":
                write(path, f"#define {_mark(place)}\n")
            elif becomes == "a folder":
                path.mkdir(parents=True)
            yield Change(place, becomes)
            path.rmdir() if becomes == "a folder" else path.unlink(missing_ok=True)
            for parent in new:  # the innermost first: whether a folder is there can matter too
                parent.rmdir()
        if before is not None:
            write(path, before)


def understood() -> Questions:
    """Return the questions that this compiler understands: some releases do not know `__has_include_next`."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "demo/k.cu"), probe := "#if __has_include_next(<a.h>)\n#endif\n")
        knows_next = compiled(Path(folder), probe)[0]
    return [each for each in QUESTIONS if knows_next or "next" not in each[0].lower()]


def compiled(root: Path, source: str) -> tuple[bool, bytes]:
    """Return what NVRTC gives: whether it compiles, and the PTX."""
    search = [f"--include-path={root / folder}".encode() for folder in ("i1", "i2")]
    task = {
        "id": 0,
        "kind": "c++",
        "code": source.encode(),
        "name": f"{root}/demo/k.cu".encode(),
        "ptx": True,
    }
    made = worker.compile_task({**task, "instantiate": [], "options": [b"-arch=compute_80", *search]})
    return made["ok"], made["ptx"]


def closure(root: Path, source: str) -> str:
    """Return the digest of all that the source can read."""
    search = [SearchFolder(root / folder, f"project/{folder}") for folder in ("i1", "i2")]
    return Resolver(ProjectTree(root), search).resolve("demo/k.cu", source, (), ()).digest()


def recalled(root: Path, source: str) -> str:
    """Return the same as it is recalled, where one of the folders is outside the project."""
    recall = Recall(root / "recalled.txt")
    first, second = SearchFolder(root / "i1", "project/i1"), SearchFolder(root / "i2", "wheel/i2", "wheel==1")
    shared = (recall.scans, recall.closures.outside)
    own = Resolver(ProjectTree(root), [first], *shared).resolve("demo/k.cu", source, (), ())
    resolver = Resolver(ProjectTree(root), [first, second], *shared)
    start = WalkStart(own, recall.scans.of_text(source), (), ())
    found = recall.closures.resolve(start, resolver, lambda: resolver.resolve("demo/k.cu", source, (), ()))
    recall.record(FACTS, {})
    return found.digest() + (_version(root / "i2") if found.trees else "")


def _version(folder: Path) -> str:
    """Return what changes with a wheel, by which it is known where all of it may be read."""
    return "\n".join(
        f"{path} {path.read_text() if path.is_file() else ''}" for path in sorted(folder.rglob("*"))
    )


def wrong_keys(
    count: int, seed: int, counts: Counter[str], closure: Callable[[Path, str], str] = closure
) -> Iterator[str]:
    """Yield each change, in so many trees, that changes the result and not the closure."""
    chance, questions = random.Random(seed), understood()  # noqa: S311
    for number in range(count):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            few = chance.sample(questions, chance.randint(1, 4))  # all of them would widen every closure
            source = make_tree(root, chance, few)
            before, key = compiled(root, source), closure(root, source)
            counts.update(trees=1, compiling=before[0])
            for change in changes(root):
                differs = compiled(root, source) != before
                counts.update(changes=1, that_matter=differs)
                try:
                    same = closure(root, source) == key
                except SourceError:  # refused, and so never served
                    same = False
                if differs and same:
                    what = f"tree {number} of seed {seed}: {change.place} becomes {change.becomes}"
                    yield f"{what}\n{told(root)}"


def told(root: Path) -> str:
    """Return what a tree has, without the lines that only say what was read."""
    files = sorted(path for path in root.rglob("*") if path.is_file())
    texts = {path: path.read_text().partition('extern "C"')[0] for path in files}
    return "\n".join(f"--- {path.relative_to(root)}\n{text}" for path, text in texts.items())


def main() -> None:
    """Say what was found, and end with 1 where that is anything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    toolkit = Toolkit(None)
    toolkit.load()
    counts: Counter[str] = Counter()
    found = list(wrong_keys(args.count, args.seed, counts))
    lines = [f"NVRTC {toolkit.nvrtc}: {dict(counts)}, wrong {len(found)}", *found, ""]
    sys.stdout.write("\n".join(lines))
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
