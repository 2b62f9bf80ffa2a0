"""Find the `extern "C"` kernels that the text of a source defines, and the types of their parameters.

Macros and conditionals can change the meaning of a source's text. Because this module does not evaluate
macros and conditionals, it leaves out each kernel whose definition contains a macro or is inside a
conditional. A kernel is also left out if its name occurs anywhere else in the text. A parameter's type is
reported only if it consists of C++ keywords.
"""

from __future__ import annotations

import bisect
import functools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from .scan import PASTE_OPERATOR, TOKEN, is_before_directive

ParameterTypes: TypeAlias = (
    "tuple[str | None, ...]"  # the type of each parameter of a kernel; None for an unknown type
)

# Text whose meaning depends on the release and options of the compiler: trigraphs, escapes in names, and
# blanks between a backslash and the end of the line.
_DISPUTED = re.compile(r"\?\?[=/'()!<>-]|\\[uU]00|\\[ \t\f\v\r]+\n")
_DIGRAPH = re.compile(r"<[%:]|[%:]>|%:")
_UNCLEAR = "\0"  # replaces code whose meaning is not clear; sources never contain this character
_DEFINE = re.compile(r"\bdefine\b(?:\s|/\*.*?\*/)*([^\W\d]\w*)([^\n]*)", re.DOTALL)
_INCLUDE = re.compile(r"^[^\S\n]*#[^\S\n]*include[^\n]*", re.MULTILINE)
_DIRECTIVE = re.compile(r"[^\S\n]*#[^\S\n]*(\w*)")
_DIRECTIVE_LINE = re.compile(rf"^{_DIRECTIVE.pattern}[^\n]*", re.MULTILINE)
_HARMLESS_DIRECTIVES = frozenset(("define", "pragma", "line", ""))
_IF_DIRECTIVES = frozenset(("if", "ifdef", "ifndef"))
_ELSE_DIRECTIVES = frozenset(("elif", "elifdef", "elifndef", "else"))
_WORD = re.compile(r"[^\W\d]\w*")
_TYPE_TOKEN = re.compile(r"\w+|::|\S")
_SCOPE = re.compile(r'[()}]|(?P<open>extern\s*"C"\s*|\bnamespace\b[\w\s:]*)?\{')
_GLOBAL = re.compile(r"\b__(?:tile_)?global__\b")
_KERNEL = re.compile(
    r'\s*(?P<direct>\bextern\s*"C"\s*)?'
    r"(?P<before>(?:\b(?:void|__(?:tile_)?global__|__(?:launch_bounds|cluster_dims|maxnreg)__\s*\([\w\s,]*\))\s*)+)"
    r"\b(?P<name>[^\W\d]\w*)\s*\((?P<list>[^(){};#=\"]*)\)\s*\{"
)
_C, _NAMESPACE = "C", "n"
_TYPE_KEYWORDS = frozenset(
    ("bool", "char", "short", "int", "long", "signed", "unsigned", "float", "double", "void")
)
_QUALIFIERS = ("const", "volatile")
_CUDA_MACROS = frozenset(
    ("__global__", "__tile_global__", "__launch_bounds__", "__cluster_dims__", "__maxnreg__")
)
_IGNORED_WORDS = frozenset(("__restrict__", "__restrict", "__grid_constant__"))
_BASE_TYPES = frozenset(
    (
        *("bool", "char", "signed char", "unsigned char", "float", "double", "void"),
        *("short", "int", "long", "long long", "unsigned short", "unsigned int", "unsigned long"),
        "unsigned long long",
    )
)
_KEYWORDS = _TYPE_KEYWORDS.union(_QUALIFIERS)


class TextNames(NamedTuple):
    """The words in a source or header, and the names of all macros that the text may define."""

    words: Counter[str]
    macros: frozenset[str]
    is_plain: bool  # whether no macro in the text uses `##` or has unbalanced brackets


@functools.lru_cache(maxsize=256)  # cached, because sources share headers, so the same text is analysed often
def names_of(text: str) -> TextNames:
    """Return the words and macros of a text: a source, a header, or the definition of a macro.

    The definition of a macro in pyproject.toml is passed as the text `define NAME VALUE`.
    """
    joined = _joined(text)
    code = TOKEN.sub(lambda match: " " if match[0][0] == "/" else match[0], joined)
    # search the text with comments and the text without, because a comment may continue on the next line
    defined = {*_DEFINE.findall(joined), *_DEFINE.findall(code)}
    return TextNames(
        Counter(_WORD.findall(_INCLUDE.sub("", code))),
        frozenset(name for name, _value in defined),
        not _DISPUTED.search(text)
        and not any(PASTE_OPERATOR.search(value) for _name, value in defined)
        and all(_closes_brackets(value) for _name, value in defined),
    )


def _closes_brackets(value: str) -> bool:
    """Return whether all brackets in the value of a macro are balanced."""
    code = TOKEN.sub(" ", value)
    return not _DIGRAPH.search(code) and _nesting(code) is not None


def declared_types(
    text: str, others: Sequence[TextNames] = (), macros: Iterable[str] = ()
) -> dict[str, ParameterTypes]:
    """Return the parameter types of each kernel, such as `{"saxpy": ("float", "const float *")}`.

    *others* are the words and macros of the other files in the same compile. *macros* are the names of the
    macros that headers outside the project define.
    """
    if not _GLOBAL.search(text) or (code := _unconditional(_code(text))) is None:
        return {}
    own = names_of(text)
    # the macros of CUDA's own headers are allowed in a definition, because their meaning is known
    theirs = {*macros} - _CUDA_MACROS - _IGNORED_WORDS
    defined = own.macros.union(theirs, *(each.macros for each in others))
    plain = all(each.is_plain for each in (own, *others))
    found: dict[str, ParameterTypes] = {}
    for kernel in _kernels(code, blocks=plain):
        name = kernel["name"]
        mentioned = sum(each.words[name] for each in (own, *others))
        types = _parameter_types(kernel["list"])
        if mentioned == 1 and types is not None and defined.isdisjoint(_WORD.findall(kernel[0])):
            found[name] = types
    return found


def declared_names(text: str, macros: Mapping[str, str]) -> list[str]:
    """Return the names of the kernels that *text* defines for every arch, if it is compiled with *macros*.

    The result is empty if *text* includes headers or contains conditionals. Kernels in namespaces are left
    out: a namespace whose name is a macro can be anonymous, and the symbol of a kernel in an anonymous
    namespace differs from the kernel's name.
    """
    own, theirs = names_of(text), [names_of(f"define {name} {value}") for name, value in macros.items()]
    if not all(each.is_plain for each in (own, *theirs)):
        return []
    defined = own.macros.union(*(each.macros for each in theirs))
    mentions = [own.words, *(each.words for each in theirs)]
    return [
        name
        for name, words in _unconditional_kernels(text)
        if sum(each[name] for each in mentions) == 1 and defined.isdisjoint(words)
    ]


# cached, because this function is called for each arch and variant of a source in turn
@functools.lru_cache(maxsize=32)
def _unconditional_kernels(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the kernels that a text defines, each with the words of the definition.

    The result is empty if *text* includes headers or contains conditionals.
    """
    if '"C"' not in text:
        return ()
    code = _code(text)
    if _UNCLEAR in code or not _HARMLESS_DIRECTIVES.issuperset(
        each[1] for each in _DIRECTIVE_LINE.finditer(code)
    ):
        return ()
    kernels = _kernels(_DIRECTIVE_LINE.sub("", code), blocks=True, scopes=frozenset(_C))
    return tuple((kernel["name"], (*_WORD.findall(kernel[0]),)) for kernel in kernels)


def _joined(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\\\n", "")


def _code(text: str) -> str:
    """Return a text without comments and without the content of strings, except for `extern "C"`."""
    code = TOKEN.sub(_blank, _joined(text))
    return _UNCLEAR if _DISPUTED.search(text) or _DIGRAPH.search(code) else code


def _blank(match: re.Match[str]) -> str:
    piece = match[0]
    if piece.startswith("//") or (piece.startswith("/*") and piece.endswith("*/") and len(piece) > 3):
        return _UNCLEAR if is_before_directive(match) else " "
    if piece == '"C"' or (piece[0] not in "\"'uULR/" and "'" not in piece):
        return piece
    is_whole = len(piece) > 1 and piece[0] == piece[-1] and piece[0] in "\"'"
    # Raw strings, numbers with separators, and strings without an end are marked as unclear.
    return '""' if is_whole else _UNCLEAR


def _unconditional(code: str) -> str | None:
    """Return the code outside of every `#if`, with a `#` in place of each preprocessor directive.

    The result is None if the brackets inside a conditional part are not balanced, because then it is not
    clear which code is inside which brackets.
    """
    if _UNCLEAR in code:
        return None
    kept: list[str] = []
    part: list[str] = []
    depth = 0
    for line in code.split("\n"):
        directive = _DIRECTIVE.match(line)
        kind = directive[1] if directive else ""
        if kind in _IF_DIRECTIVES or kind in _ELSE_DIRECTIVES or kind == "endif":
            if depth and _nesting("\n".join(part)) is None:
                return None
            depth += (kind in _IF_DIRECTIVES) - (kind == "endif")
            if depth < 0:
                return None
            part = []
            kept.append("#")
        elif depth:
            part.append("" if directive else line)
        else:
            kept.append("#" if directive else line)
    return None if depth else "\n".join(kept)


def _nesting(code: str) -> list[tuple[int, str]] | None:
    """Return the position after each bracket, and the brackets that are open there; None if unbalanced.

    The open brackets are returned as a string with one character for each bracket: `C` for the `{` of a block
    `extern "C" { … }`, `n` for the `{` of a namespace, and `(` or `{` for any other bracket.
    """
    opened, found = "", [(0, "")]
    for match in _SCOPE.finditer(code):
        mark = match[0][-1]
        if mark in "({":
            opened += mark if match["open"] is None else _C if match["open"][0] == "e" else _NAMESPACE
        elif opened and (opened[-1] == "(") == (mark == ")"):
            opened = opened[:-1]
        else:
            return None
        found.append((match.end(), opened))
    return None if opened else found


def _kernels(
    code: str, *, blocks: bool, scopes: frozenset[str] = frozenset((_C, _NAMESPACE))
) -> Iterator[re.Match[str]]:
    """Yield the definitions of `extern "C"` kernels.

    *scopes* are the kinds of blocks that may contain a kernel. By default, these kinds are namespaces and
    blocks `extern "C" { … }`.

    If *blocks* is true, kernels in a block `extern "C" { … }` are found too.
    """
    if (nesting := _nesting(code)) is None:
        return
    ends = [end for end, _opened in nesting]
    for word in _GLOBAL.finditer(code):
        start = max(code.rfind(end, 0, word.start()) for end in "{};#") + 1
        match = _KERNEL.match(code, start)
        if match is None or {word[0], "void"} - {*_WORD.findall(match["before"])}:
            continue
        opened = nesting[bisect.bisect_right(ends, start) - 1][1]
        if scopes.issuperset(opened) and (match["direct"] or (blocks and _C in opened)):
            yield match


def _parameter_types(listed: str) -> ParameterTypes | None:
    """Return the types in a parameter list; None if it is not clear where each parameter begins."""
    parameters: list[list[str]] = [[]]
    depth = 0
    for piece in _TYPE_TOKEN.findall(listed):
        depth += (piece in "<[") - (piece in ">]")
        if piece == "," and not depth:
            parameters.append([])
        else:
            parameters[-1].append(piece)
    if depth:
        return None
    return () if parameters in ([[]], [["void"]]) else tuple(map(_parameter_type, parameters))


def _parameter_type(pieces: Sequence[str]) -> str | None:
    """Return a parameter's type as it is spelled in demangled symbols.

    The result is None if the type contains a word that is not a C++ keyword.
    """
    pieces = [piece for piece in pieces if piece not in _IGNORED_WORDS]
    is_array = pieces[-1:] == ["]"]
    if is_array:
        at = pieces.index("[")
        if not re.fullmatch(r"\[\d*\]", "".join(pieces[at:])):
            return None
        pieces = pieces[:at]
    if pieces and pieces[-1] not in _KEYWORDS and _WORD.fullmatch(pieces[-1]):
        pieces = pieces[:-1]  # removes the parameter's name
    at = pieces.index("*") if "*" in pieces else len(pieces)
    words, marks = pieces[:at], [*pieces[at:], *("*" * is_array)]
    base = _base_type([word for word in words if word not in _QUALIFIERS])
    if base is None or not {"*", *_QUALIFIERS}.issuperset(marks) or (base == "void" and not marks):
        return None
    while marks and marks[-1] != "*":
        marks.pop()  # qualifiers of the parameter itself are not part of the type in a symbol
    if not marks:
        return base
    qualified = " ".join([*(each for each in _QUALIFIERS if each in words), base])
    return f"{qualified} {''.join(mark if mark == '*' else f'{mark} ' for mark in marks)}"


def _base_type(words: Sequence[str]) -> str | None:
    """Return the full name of a basic type, such as `unsigned int` for `unsigned`; None for other types."""
    if not words or not _TYPE_KEYWORDS.issuperset(words):
        return None
    rest = sorted((word for word in words if word not in ("unsigned", "signed", "int")), reverse=True)
    sign = "unsigned " if "unsigned" in words else "signed " if "signed" in words and rest == ["char"] else ""
    base = sign + " ".join(rest or ["int"])
    return base if base in _BASE_TYPES else None
