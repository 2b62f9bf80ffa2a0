"""What the laws are tried on."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

from hatch_cubin.common.arch_names import Arch
from hatch_cubin.config import known_names, nvrtc_options, reader

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
names = st.text("ab_.-", min_size=1, max_size=4)
paths = st.lists(names, min_size=1, max_size=4).map("/".join)
globs = st.lists(st.sampled_from(["*", "**", "**/", *r"?/ab.[[]]!^-&|~\+"]), max_size=10).map("".join)


@st.composite
def matches(draw: st.DrawFn) -> tuple[str, str]:
    """Return a glob without `**` and a path that it was made of."""
    path = draw(paths)
    pattern = ""
    for char in path:
        written = char if char == "/" else draw(st.sampled_from([char, "?", f"[{char}]", "[!x]", "*"]))
        pattern += "" if written == "*" and pattern.endswith("*") else written
    return pattern, path


archs = st.builds(Arch, st.integers(100, 139), st.sampled_from("af ").map(str.strip))
specs = st.sampled_from(["sm_90", "compute_90", "90a", "9.0+PTX", "80-real", "all", "all-major", "native"])

_of_placeholder = st.lists(st.text(max_size=3) | st.integers() | st.booleans(), max_size=3)
products = st.dictionaries(
    st.sampled_from(["N", "T", "kernel"]),
    st.sampled_from(["f<{N}>", "f<{N}, {T}>", "{", "0..3", "-1..1", "3..0", "0..999999999"])
    | _of_placeholder,
)

# --- tables as a TOML reader would give them ------------------------------------------------------

_moments = st.sampled_from([dt.date(2025, 1, 1), dt.time(12)])
_scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | text | _moments
_values: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=8,
)
_words = st.sampled_from(
    ["sm_90", "90a", "all", "sm_999", "13.0", "system", "**/*.cu", "../x", "/x", "2 GiB", "a.b", "a-b"]
)
_macros = st.sampled_from(["N", "T", "F(x)", "1N"])
_options_keys = st.sampled_from([*nvrtc_options.ALLOWED, *nvrtc_options.REFUSED])
_plausible: st.SearchStrategy[Any] = (
    _values
    | _words
    | st.lists(_words, max_size=4)
    | st.dictionaries(_macros | _options_keys, _values, max_size=4)
    | st.dictionaries(_macros, st.lists(_scalars, max_size=3), max_size=2)
)
_source_tables = st.dictionaries(st.sampled_from([*reader._SOURCE_CHECKS]) | text, _plausible, max_size=5)
_keys = st.sampled_from([*reader._CHECKS, *known_names.HATCHLING_KEYS]) | text
tables = st.dictionaries(_keys, _plausible | st.lists(_source_tables, max_size=3), max_size=6)
environs = st.dictionaries(
    st.sampled_from([f"HATCH_CUBIN_{name}" for name in ("ARCHS", "TOOLKIT", "JOBS", "CACHE_DIR", "SKIP")]),
    text | _words,
    max_size=3,
)

# --- TOML texts with the line of every key --------------------------------------------------------

Path = tuple[str | int, ...]
Key = tuple[tuple[str, ...], str]  # what a key says, and how it is written


def _first(pair: tuple[Key, Any]) -> str:
    return pair[0][0][0]


_toml_keys: st.SearchStrategy[Key] = st.sampled_from(
    [
        (("plain",), "plain"),
        (("12",), "12"),
        (("", "x"), '"" . x'),
        (("a = [",), "'a = ['"),
        (('"#',), '"\\"#"'),
        (("é]",), '"\\u00e9]"'),
        (("d", "e.f", "g"), "d. 'e.f' .g"),
    ]
)
_toml_scalars = st.sampled_from(
    [
        "1",
        "true",
        "1979-05-27 07:32:00",
        "''",
        '""',
        "'#]'",
        r'"\"}"',
        '"""\n[x]\n\\""" """""',
        "'''\n\n#'''''",
    ]
)
_toml_values: st.SearchStrategy[Any] = st.recursive(
    _toml_scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(st.tuples(_toml_keys, inner), max_size=2, unique_by=_first).map(tuple)
    ),
    max_leaves=6,
)
_gaps = st.sampled_from(["", " ", "\n", " # ] = }\n\n", "\r\n\t"])
_pairs = st.lists(st.tuples(_toml_keys, _toml_values), max_size=4, unique_by=_first)


class TomlWriter:
    """Writes TOML and notes where everything went."""

    def __init__(self, gap: str) -> None:
        self.text = ""
        self.lines: dict[Path, int] = {}
        self._gap = gap

    def pairs(self, table: Path, pairs: Sequence[tuple[Key, Any]]) -> None:
        for key, value in pairs:
            self._pair(table, key, value)
            self.text += f" # {key[1]} = [\n"

    def header(self, path: Path, written: str) -> None:
        self._note(path)
        self.text += f"{written} # [no]\n"

    def _note(self, path: Path) -> None:
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], self.text.count("\n") + 1)

    def _pair(self, table: Path, key: Key, value: Any) -> None:
        says, written = key
        self._note((*table, *says))
        self.text += f"{written} = "
        self._value((*table, *says), value)

    def _value(self, path: Path, value: Any) -> None:
        if isinstance(value, str):
            self.text += value
        elif isinstance(value, list):
            self.text += "["
            for index, item in enumerate(value):
                self.text += self._gap
                self._note((*path, index))
                self._value((*path, index), item)
                self.text += f"{self._gap},"
            self.text += f"{self._gap}]"
        else:
            self.text += "{"
            for number, (key, item) in enumerate(value):
                self.text += ", " if number else " "
                self._pair(path, key, item)
            self.text += " }"


@st.composite
def toml_texts(draw: st.DrawFn) -> tuple[str, Mapping[Path, int]]:
    """Return a TOML text and the line of every table, key and element in it."""
    writer = TomlWriter(draw(_gaps))
    writer.pairs((), draw(_pairs))
    writer.header(("table", "in.ner"), "[table . 'in.ner']")
    writer.pairs(("table", "in.ner"), draw(_pairs))
    for number in range(draw(st.integers(0, 2))):
        writer.header(("array", number), "[[array]]")
        writer.pairs(("array", number), draw(_pairs))
        writer.header(("array", number, "sub"), "[array.sub]")
        for inner in range(draw(st.integers(0, 2))):
            writer.header(("array", number, "deep", "er", inner), "[[ array.deep . er ]]")
            writer.pairs(("array", number, "deep", "er", inner), draw(_pairs))
    return writer.text, writer.lines
