"""Hostile bundles against the loader: whatever a manifest says, right bytes or an error of the loader's.

    python -m tests.fuzz.manifests 1000000 --seed 1         the long form, best with TMPDIR in memory
    python -m tests.fuzz.manifests 1 --seed 1 --from 4711   one mutation again

Half of the mutations are damage: bytes and lines changed, cut, swapped, doubled. The others are lies whose
checks all hold: wrong types, paths out of the bundle, names of devices, huge numbers, deep nesting. Of a lie
that keeps the rules an answer is taken, as long as its bytes are of the bundle.
`property/test_hostile_manifests.py` runs a few thousand of them.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import json
import os
import resource
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.helpers import bundle, load_bundle, made, sha256

HANG = 60  # seconds that no hundred mutations need
SECRET = b"a file outside of the bundle"
PROGRAM_KEY = bytes(range(32))

FILES = bundle(
    made("a", kernels={"fill": "fill", "only_a": "_Z6only_av"}),
    made("a", "sm_80", kernels={"fill": "fill"}),
    made("b", "compute_80", kernels={"fill": "fill"}),
    made("k", program_key=PROGRAM_KEY),
    made("k", "sm_100f"),
    made("k", "sm_121a"),
    made("red", kernels={"reduce": "r1"}, variant={"N": "1"}),
    made("red", kernels={"reduce": "r2"}, variant={"N": "2"}),
    made("scale", kernels={"scale<float, 4>": "_Z5scaleIfLi4EEvPT_"}),
    made("ün ï", kernels={"größe": "größe"}, options={"std": "c++17"}),
    folder="src/pkg/_cubins",
)
SHIPPED = {data for name, data in FILES.items() if name.endswith((".cubin", ".ptx"))}

NINE = (9, 0)
ASKED: tuple[tuple[str, dict[str, Any]], ...] = (
    ("fill", {"cc": NINE, "module": "a"}),
    ("fill", {"cc": NINE, "module": "b", "driver": 13000}),
    ("fill", {"cc": NINE}),
    ("only_a", {"cc": (8, 0)}),
    ("k", {"cc": (10, 3)}),
    ("k", {"cc": (12, 1)}),
    ("red", {"cc": NINE, "N": 2}),
    ("reduce", {"cc": NINE, "variant": {"N": 1}}),
    ("red", {"cc": NINE}),
    ("scale<float,4>", {"cc": NINE}),
    ("größe", {"cc": (9, 9)}),
    ("nothing", {"cc": NINE}),
)
KEYS = (sha256(b"k for sm_90"), PROGRAM_KEY, sha256(b"b for compute_80"))


# --- damage ------------------------------------------------------------------------------------


def damaged(random: Random, data: bytes) -> bytes:
    """Return *data* with a few of its bytes or lines not as they were."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        data = random.choice((*_BYTES, *_LINES))(random, data)
    return data


def _flip(random: Random, data: bytes) -> bytes:
    at = random.randrange(len(data) or 1)
    return data[:at] + bytes([(data[at] if data else 0) ^ 1 << random.randrange(8)]) + data[at + 1 :]


def _cut(random: Random, data: bytes) -> bytes:
    return data[: random.randrange(len(data) + 1)]


def _replace(random: Random, data: bytes) -> bytes:
    """Put something else, or nothing, where a few bytes were."""
    at, length = random.randrange(len(data) + 1), random.choice((0, 1, 2, 30))
    new = random.choice((b"", b"\0", b"\n", b'"', b"{", b"}", b"\xff", b",\n", b'":', random.randbytes(9)))
    return data[:at] + new + data[at + length :]


def _double(random: Random, data: bytes) -> bytes:
    start, at = random.randrange(len(data) + 1), random.randrange(len(data) + 1)
    return data[:at] + data[start : start + random.randrange(200)] + data[at:]


def _clear(random: Random, data: bytes) -> bytes:
    start, length = random.randrange(len(data) + 1), random.randrange(64)
    return data[:start] + bytes(len(data[start : start + length])) + data[start + length :]


def _swap_lines(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]
    return b"\n".join(lines)


def _double_line(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(random.randrange(len(lines)), random.choice(lines))
    return b"\n".join(lines)


def _drop_line(random: Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[random.randrange(len(lines))]
    return b"\n".join(lines)


_BYTES = (_flip, _flip, _cut, _replace, _double, _clear)
_LINES = (_swap_lines, _double_line, _drop_line)


# --- lies --------------------------------------------------------------------------------------

_RAW = "\N{SNOWMAN}"  # a text that begins so stands for JSON that `json` would not write
RAW = (
    *("[" * 100_000, "[" * 900 + "]" * 900, '{"a":' * 400 + "1" + "}" * 400, "[" * 5000 + "]" * 5000),
    *(
        "9" * 4000,
        "9" * 5000,
        "-1",
        "1e999",
        "NaN",
        "1.5",
        '"\\ud800"',
        '"\\u0000"',
        "",
        "1,2",
        '"a":1',
        "\\",
    ),
)
VALUES: tuple[Any, ...] = (
    *(
        "",
        "a",
        "k",
        "../secret",
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "a\\b",
        "C:k",
        "CON",
        "NUL",
        "aux.cubin",
    ),
    *(
        "k\0",
        ".",
        "..",
        "k\n",
        "\u202ek",
        "\ud800",
        "x" * 5000,
        "sm_90",
        "sm_90x",
        "sm_99999",
        "sm_٩٠",
        "compute_80",
    ),
    *(
        "manifest.json",
        "keys.json",
        "__init__.py",
        "k.sm_90.cubin",
        "a.sm_90.cubin",
        "a.sm_90.cubin.",
        "0" * 64,
    ),
    *(sha256(SECRET), sha256(b"k for sm_90"), None, True, False, 0, -1, 1, 12000, 13000, 10**30, 0.5),
    *([], {}, [[]], [1], ["k"], {"k": "k"}, {"": ""}, {"a": 1}, [{}], {"arch": "sm_90"}),
    *(f"{_RAW}{number}" for number in range(len(RAW))),
)


def lying(random: Random, manifest: str) -> bytes:
    """Return a manifest whose checks hold, with a few values that no build writes."""
    changed = json.loads(manifest)
    for _ in range(random.choice((1, 1, 2, 4))):
        _lie(random, changed)
    return written(random, changed)


def _lie(random: Random, root: Any) -> None:
    parent, key = _place(random, root)
    what = random.randrange(8)
    if what == 0:
        del parent[key]
    elif what == 1 and isinstance(parent, dict):
        parent[str(random.choice(VALUES))] = parent.pop(key)
    elif what == 2:
        other, name = _place(random, root)
        parent[key] = _copy(other[name])
    elif what == 3:  # one that holds together: the digest is that of the file
        for entry in _entries(root.get("modules")):
            if random.random() < 0.3:
                file = random.choice(("../secret", _copy(random.choice(VALUES))))
                entry.update(file=file, size=len(SECRET), sha256=sha256(SECRET))
    else:
        parent[key] = _copy(random.choice(VALUES))


def _copy(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _place(random: Random, value: Any) -> tuple[Any, Any]:
    """Return some place in a JSON value, as what holds it and its key there."""
    while True:
        key = random.choice(list(value)) if isinstance(value, dict) else random.randrange(len(value))
        if random.random() < 0.2 or not isinstance(value[key], (dict, list)) or not value[key]:
            return value, key
        value = value[key]


def _entries(modules: Any) -> Iterator[dict[str, Any]]:
    for fields in modules.values() if isinstance(modules, dict) else ():
        listed = fields.get("entries") if isinstance(fields, dict) else None
        yield from (each for each in (listed if isinstance(listed, list) else ()) if isinstance(each, dict))


def _text(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if _RAW in text:
        for number in reversed(range(len(RAW))):
            text = text.replace(f'"{_RAW}{number}"', RAW[number])
    return text


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def written(random: Random, manifest: dict[str, Any]) -> bytes:
    """Write a manifest in lines with checks that hold, sorted or, seldom, not."""
    head = _text({name: each for name, each in manifest.items() if name < "kernels"})[1:-1]
    tail = _text({name: each for name, each in manifest.items() if name > "modules"})[1:]
    lines: dict[str, list[str]] = {}
    for table in ("kernels", "modules"):
        rows = manifest.get(table)
        pairs = [(_text(name), _text(row)) for name, row in rows.items()] if isinstance(rows, dict) else []
        if table == "modules":
            pairs = [(name, f'{{"check":"{_digest(name + row[1:])}",{row[1:]}') for name, row in pairs]
        lines[table] = sorted(f"\n{name}:{row}" for name, row in pairs)
        if random.random() < 0.02:
            random.shuffle(lines[table])
    before, after = f'{head},"kernels":{{{",".join(lines["kernels"])}\n}},"modules":{{', f"\n}},{tail}\n"
    text = f'{{"check":"{_digest(before + after)}",{before}{",".join(lines["modules"])}{after}'
    return text.encode("utf-8", "surrogatepass")


def lying_keys(random: Random, keys: str) -> bytes:
    """Return keys whose check holds."""
    changed = {"units": json.loads(keys)["units"]}
    _lie(random, changed)
    body = _text(changed)[1:] + "\n"
    return f'{{"check":"{_digest(body)}",{body}'.encode("utf-8", "surrogatepass")


Call = Callable[["Target"], Any]

# --- the loader --------------------------------------------------------------------------------


@dataclass
class Figures:
    """What came out."""

    mutations: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    escapes: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def __str__(self) -> str:
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        shown = ", ".join(f"{count} {name}" for name, count in self.outcomes.most_common())
        answers = sum(self.outcomes.values())
        return (
            f"{self.mutations} mutations, {answers} answers: {len(self.wrong)} wrong,"
            f" {len(self.escapes)} untyped escapes; slowest mutation {self.slowest * 1000:.0f} ms,"
            f" at most {memory:.0f} MiB resident ({shown})"
        )


class Target:
    """A bundle in a folder of its own, and the loader that is asked for what is in it."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "src" / "pkg" / "_cubins"
        self.cubins = load_bundle(self.folder, FILES)
        (self.folder.parent / "secret").write_bytes(SECRET)
        manifest = json.loads(FILES["manifest.json"])
        for fields in (manifest, *manifest["modules"].values()):
            del fields["check"]
        self.manifest = json.dumps(manifest)
        self.touched: set[str] = set()
        self.right = [self.answer(call) for _, call in CALLS]

    def write(self, name: str, data: bytes) -> None:
        """Replace a file as an installer does: one that is mapped stays whole."""
        temporary = self.folder / ".new"
        temporary.write_bytes(data)
        temporary.replace(self.folder / name)

    def spoil(self, name: str, data: bytes) -> None:
        """Replace a file until `restore`."""
        self.touched.add(name)
        self.write(name, data)

    def mutate(self, random: Random) -> bool:
        """Change a file or two; say whether all checks still hold."""
        self.cubins._own.clear()
        self.cubins._MAPPED = random.choice((0, 1 << 20))
        lies = random.random() < 0.5
        if lies:
            data = lying(random, self.manifest)
            if random.random() < 0.05:
                self.spoil("keys.json", lying_keys(random, FILES["keys.json"].decode()))
        else:
            data = damaged(random, FILES["manifest.json"])
            if random.random() < 0.05:
                self.spoil("keys.json", damaged(random, FILES["keys.json"]))
            if random.random() < 0.05:
                name = random.choice(sorted(name for name in FILES if name.endswith((".cubin", ".ptx"))))
                self.spoil(name, damaged(random, FILES[name]))
        self.write("manifest.json", data)
        return lies

    def restore(self) -> None:
        """Put back what was not the manifest."""
        for name in self.touched:
            self.write(name, FILES[name])
        self.touched.clear()

    def answer(self, call: Call) -> Any:
        """Return what a call gives: a plain value, or the type of the loader's error."""
        try:
            return call(self)
        except self.cubins.CubinError as exc:
            return type(exc) if str(exc) else None

    def found(self, entry: Any) -> tuple[Any, ...]:
        assert os.path.dirname(entry.path) == str(self.folder), entry.path
        texts = (entry.module, entry.source, entry.arch, entry.kind, entry.file, entry.sha256, entry.rule)
        assert {type(text) for text in texts} == {str}, texts
        assert (type(entry.size), type(entry.min_driver)) == (int, int)
        assert all(type(each) is str for pair in entry.kernels.items() for each in pair), entry.kernels
        assert len(repr(entry)) < 10**6
        where = entry.source_path
        assert where is None or os.path.isfile(where)
        return (*texts, entry.size, dict(entry.kernels), dict(entry.variant))

    def judge(self, random: Random, figures: Figures, name: str) -> None:
        """Mutate once, ask for this and that, and count what must not be."""
        start = time.perf_counter()
        lies = self.mutate(random)
        for number in random.sample(range(len(CALLS)), 4):
            kind, call = CALLS[number]
            try:
                got = self.answer(call)
            except Exception:  # noqa: BLE001
                figures.escapes.append(f"{name}: {kind}: {traceback.format_exc()}")
                continue
            figures.outcomes[got.__name__ if isinstance(got, type) else kind] += 1
            if not isinstance(got, type) and not _may_be(kind, got, self.right[number], lies=lies):
                figures.wrong.append(
                    f"{name}: {kind} gave {got!r:.200}, right is {self.right[number]!r:.200}"
                )
        figures.mutations += 1
        figures.slowest = max(figures.slowest, time.perf_counter() - start)
        self.restore()


def _may_be(kind: str, got: Any, right: Any, *, lies: bool) -> bool:
    """Say whether an answer is right; of a lie's answers those are that keep the rules."""
    if kind in ("read", "cache") and (lies or isinstance(right, type)):
        return got is None or got in SHIPPED
    if lies:
        return kind not in ("names", "archs") or all(type(each) is str for each in got)
    if kind == "archs":  # whole lines may be gone
        return set(got) <= set(right)
    return isinstance(right, type) or bool(got == right)


def _finding(name: str, how: dict[str, Any]) -> Call:
    return lambda target: target.found(target.cubins.find(name, **how))


def _reading(name: str, how: dict[str, Any]) -> Call:
    return lambda target: target.cubins.read(name, **how)


def _cached(key: str | bytes) -> Call:
    return lambda target: target.cubins.cache().get(key)


CALLS: tuple[tuple[str, Call], ...] = (
    ("names", lambda target: target.cubins.names()),
    ("archs", lambda target: target.cubins.archs()),
    *(("find", _finding(name, how)) for name, how in ASKED),
    *(("read", _reading(name, how)) for name, how in ASKED),
    *(("cache", _cached(key)) for key in KEYS),
)


def fuzz(root: Path, count: int, seed: int, first: int = 0) -> Figures:
    """Try *count* mutations; each is made by *seed* and its own number alone."""
    target, figures = Target(root), Figures()
    for number in range(first, first + count):
        if number % 100 == 0:
            faulthandler.dump_traceback_later(HANG, exit=True)
        random = Random(f"{seed}:{number}")  # noqa: S311
        target.judge(random, figures, f"--seed {seed} --from {number}")
    faulthandler.cancel_dump_traceback_later()
    return figures


def main() -> int:
    """Print the figures, and what was wrong."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from", type=int, default=0, dest="first", metavar="N")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = fuzz(Path(folder), arguments.count, arguments.seed, arguments.first)
    print(figures, *figures.wrong[:20], *figures.escapes[:20], sep="\n")  # noqa: T201
    return bool(figures.wrong or figures.escapes)


if __name__ == "__main__":
    sys.exit(main())
