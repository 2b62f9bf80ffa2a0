"""Read from a source's text which types its kernels take, as far as that needs no compiler. Pure.

The symbol of an `extern "C"` kernel has no types. Whoever uses what is found here compares it with the
compiled kernel: a text can mean something else than it says.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence

from .scan import TOKEN

_KERNEL = re.compile(r"\b__global__\b")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+([^\W\d]\w*)(\(?)([^\n]*)", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#[^\n]*", re.MULTILINE)
_PIECE = re.compile(r"[^\W\d]\w*|\d[\w.]*|::|\S")
_ARGUMENT = re.compile(r"\w+|::|[<>,*]")
_WORD = re.compile(r"[^\W\d]\w*")
_SCALAR = frozenset(
    ("bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "void", "__int128")
)
_QUALIFIERS = ("const", "volatile")
_SAYS_NOTHING = frozenset(
    ("__restrict__", "__restrict", "restrict", "__grid_constant__", "struct", "class", "union", "enum")
)
_OPENING, _CLOSING = "(<[", ")>]"
_DEEPEST = 8  # of macros in macros
_MOST = 4096  # pieces of a list of parameters, before macros are replaced and after
_FAR = 400  # pieces between __global__ and the parameters

Types = tuple[str, ...]
Pieces = Sequence[str]


def declared_types(text: str, kernel: str, macros: Mapping[str, str]) -> Types | None:
    """Return `("float", "const float *")` for `__global__ void saxpy(float a, const float *x)`.

    *macros* are those that the compiler is given. None where the text does not say it, or not plainly.
    """
    defined, lists = _read(text)
    known = {**defined, **macros}
    found = {_types(_expanded(pieces, known)) for name, pieces in lists if name == kernel}
    return found.pop() if len(found) == 1 else None


@functools.lru_cache(maxsize=4)  # the variants of a source are asked about one after another
def _read(text: str) -> tuple[Mapping[str, str | None], Sequence[tuple[str, tuple[str, ...]]]]:
    """Return a text's macros, None for one that has no plain value, and its kernels' lists of parameters."""
    if "__global__" not in text:
        return {}, ()
    code = TOKEN.sub(_blank, text.replace("\\\n", ""))
    macros: dict[str, str | None] = {}
    for name, parameters, value in _DEFINE.findall(code):
        plain = None if parameters else value
        macros[name] = plain if macros.get(name, plain) == plain else None
    code = _DIRECTIVE.sub("", code)
    lists = (_parameters(code, match.end()) for match in _KERNEL.finditer(code))
    return macros, [found for found in lists if found is not None]


def _blank(match: re.Match[str]) -> str:
    return " " if match[0][0] == "/" else '""'


def _parameters(code: str, start: int) -> tuple[str, tuple[str, ...]] | None:
    """Return a kernel's name and the pieces of its list of parameters, which follows in *code*."""
    name, inside, depth = "", [], 0
    for number, match in enumerate(_PIECE.finditer(code, start)):
        piece = match[0]
        if depth:
            depth += (piece == "(") - (piece == ")")
            if depth:
                inside.append(piece)
            if len(inside) > _MOST:
                return None
        elif piece == "(":
            depth, inside = 1, []
        elif piece in ("{", ";"):
            return (name, tuple(inside)) if name else None
        elif piece == "}" or number > _FAR + len(inside):
            return None
        else:
            name = piece if _WORD.fullmatch(piece) else ""  # whatever was in parentheses, it was an attribute
    return None


def _expanded(pieces: Pieces, macros: Mapping[str, str | None]) -> list[str] | None:
    """Return *pieces* with macros replaced; None where one has no plain value."""
    found = [*pieces]
    for _ in range(_DEEPEST):
        if not any(piece in macros for piece in found):
            return found
        new: list[str] = []
        for piece in found:
            value = macros.get(piece, piece)
            if value is None:
                return None
            new += [piece] if value == piece else _PIECE.findall(value)
        found = new
        if len(found) > _MOST:
            return None
    return None


def _types(pieces: Pieces | None) -> Types | None:
    if pieces is None:
        return None
    types = [_type(each) for each in _split(pieces)]
    if types in ([], ["void"]):
        return ()
    return None if None in types else tuple(map(str, types))


def _split(pieces: Pieces) -> list[list[str]]:
    """Return the pieces of each parameter."""
    parts: list[list[str]] = [[]]
    depth = 0
    for piece in pieces:
        depth += (piece in _OPENING) - (piece in _CLOSING)
        if piece == "," and not depth:
            parts.append([])
        else:
            parts[-1].append(piece)
    return parts if pieces else []


def _type(pieces: Pieces) -> str | None:
    """Return the type of a parameter, as symbols have it; None for what is not plain."""
    pieces = [piece for piece in pieces if piece not in _SAYS_NOTHING]
    if "=" in pieces:
        pieces = pieces[: pieces.index("=")]
    array = pieces.index("[") if "[" in pieces else len(pieces)
    if "[" in pieces[array + 1 :] or (pieces[array:] and pieces[-1] != "]"):
        return None
    words, marks, named = _declarator(pieces[:array])
    if words is None or marks is None:
        return None
    if len(words) > 1 and not (marks or named) and _is_name(words[-1]):
        words = words[:-1]
    base = _base([word for word in words if word not in _QUALIFIERS])
    if base is None:
        return None
    if pieces[array:]:
        marks = [*marks, "*"]  # an array is a pointer
    while marks and marks[-1] != "*":
        marks.pop()  # what qualifies a parameter itself is no part of its type
    if not marks:
        return base
    qualified = " ".join([*(each for each in _QUALIFIERS if each in words), base])
    return f"{qualified} {''.join(mark if mark == '*' else f'{mark} ' for mark in marks)}"


def _is_name(word: str) -> bool:
    """Say whether the last word of a parameter, behind its type, can be its name."""
    return word not in _SCALAR and word not in _QUALIFIERS and bool(_WORD.fullmatch(word))


def _declarator(pieces: Pieces) -> tuple[list[str] | None, list[str] | None, bool]:
    """Return the words of a type, the pointers behind it, and whether a name follows these."""
    words, at = _words(pieces)
    if words is None:
        return None, None, False
    marks, rest = [], pieces[at:]
    while rest and (rest[0] == "*" or rest[0] in _QUALIFIERS):
        marks.append(rest[0])
        rest = rest[1:]
    if len(rest) > 1 or (rest and not _WORD.fullmatch(rest[0])):
        return None, None, False
    return words, marks, bool(rest)


def _words(pieces: Pieces) -> tuple[list[str] | None, int]:
    """Return the words that a parameter begins with, a name with its namespaces and its arguments as one."""
    words: list[str] = []
    depth = 0
    for at, piece in enumerate(pieces):
        if depth or piece in ("::", "<"):
            if not words or not _ARGUMENT.fullmatch(piece):
                return None, 0
            depth += (piece == "<") - (piece == ">")
            glue = " " if words[-1][-1] == "," or (words[-1][-1] + piece[0]).isalnum() else ""
            words[-1] += glue + piece
        elif words and words[-1].endswith("::") and _WORD.fullmatch(piece):
            words[-1] += piece
        elif _WORD.fullmatch(piece):
            words.append(piece)
        else:
            return words, at
    return (words, len(pieces)) if not depth else (None, 0)


def _base(words: Sequence[str]) -> str | None:
    """Return the one name of a type that has several, such as `unsigned int` for `unsigned`."""
    if len(words) == 1 and words[0] not in ("unsigned", "signed"):
        return words[0]
    if not words or not _SCALAR.issuperset(words):
        return None
    rest = sorted((word for word in words if word not in ("unsigned", "signed", "int")), reverse=True)
    sign = "unsigned" if "unsigned" in words else "signed" if "signed" in words and rest == ["char"] else ""
    return " ".join([*([sign] if sign else []), *(rest or ["int"])])
