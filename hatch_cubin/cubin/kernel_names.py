"""Turn the mangled symbol of a kernel into the kernel's name in the source, such as `ns::scale<float, 4>`."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

_LENGTH = re.compile(r"L?([0-9]{1,4})")
_ANONYMOUS = re.compile(r"_GLOBAL__N_|_INTERNAL_|_NV_ANON_NAMESPACE|<unnamed>")
_NUMBER = re.compile(r"L([ijlmxy])(n?[0-9]{1,20})E")
_BACK_REFERENCE = re.compile(r"S([0-9A-Z]{0,3})_")
_POINTERS = re.compile(r"[PROK]*")
_FLAT_TEMPLATE = re.compile(r"[^<>()]*<([^<>()]*)>")  # Matches a template whose arguments are not templates.
_INTEGER = re.compile(r"(-?(?:0|[1-9][0-9]{0,19}))[uUlL]{0,3}")
_LONGEST_NAME = 4096  # Longer names are rejected, because a short symbol can stand for a very long name.

_BUILTIN_TYPES = {
    "v": "void",
    "w": "wchar_t",
    "b": "bool",
    "c": "char",
    "a": "signed char",
    "h": "unsigned char",
    "s": "short",
    "t": "unsigned short",
    "i": "int",
    "j": "unsigned int",
    "l": "long",
    "m": "unsigned long",
    "x": "long long",
    "y": "unsigned long long",
    "f": "float",
    "d": "double",
}
_BUILTIN_NAMES = {*_BUILTIN_TYPES.values()}
_INTEGER_SUFFIX = {"i": "", "j": "u", "l": "l", "m": "ul", "x": "ll", "y": "ull"}
_POINTER = {"P": "*", "R": "&", "O": "&&"}


def demangle(symbol: str) -> str:
    """Return the demangled name of a symbol, such as `ns::scale<float, 4>` for `_ZN2ns5scaleIfLi4EEEvPT_`.

    A symbol that cannot be read completely is returned unchanged.
    """
    if not symbol.startswith("_Z"):
        return symbol
    try:
        return SymbolReader(symbol[2:]).name()
    except (UnreadableSymbolError, RecursionError):
        return symbol


def signature(symbol: str) -> str:
    """Return a function's name with parameter types, such as `ns::f(int, float*)` for `_ZN2ns1fEiPf`.

    For a template or a variable, return only the name.
    """
    name = demangle(symbol)
    if name == symbol or name.endswith(">"):
        return name
    try:
        return SymbolReader(symbol[2:]).signature()
    except (UnreadableSymbolError, RecursionError):
        return name


def kernels_by_name(symbols: Iterable[str], instantiated: Mapping[str, str]) -> dict[str, str]:
    """Return a mapping from each kernel's name in the source to the kernel's symbol.

    *instantiated* contains the symbol of each template instantiation that the project's configuration lists.
    If two kernels would have the same name, their symbols are used as names.
    """
    known = set(instantiated.values())
    names = dict(instantiated)
    others = [symbol for symbol in symbols if symbol not in known]
    counts = Counter(map(demangle, others))
    for symbol in others:
        name = demangle(symbol)
        names[name if counts[name] == 1 and name not in names else symbol] = symbol
    return dict(sorted(names.items()))


def names_fit_symbols(kernels: Mapping[str, str], symbols: Iterable[str], asked: Iterable[str]) -> bool:
    """Return whether *kernels* has the names that a build gives to kernels with these *symbols*.

    *asked* are the template instantiations that the project's configuration lists. If exactly one symbol
    demangles to the text of an instantiation, *kernels* must map the instantiation to this symbol.
    """
    wanted = {*map(without_blanks, asked)}
    instantiated = {name: symbol for name, symbol in kernels.items() if without_blanks(name) in wanted}
    if {*map(without_blanks, instantiated)} != wanted or dict(kernels) != kernels_by_name(
        symbols, instantiated
    ):
        return False
    own: dict[str, set[str]] = {}
    for symbol in symbols:
        own.setdefault(demangle(symbol), set()).add(symbol)
    return all(len(own.get(name, ())) != 1 or symbol in own[name] for name, symbol in instantiated.items())


def names_may_fit_symbols(kernels: Mapping[str, str], symbols: Iterable[str]) -> bool:
    """Return whether *kernels* can be the names of kernels with these *symbols*.

    The configuration is unknown.

    A wrong name may be accepted, because a name can contain a macro or a type alias, whose value is unknown.
    """
    symbols = {*symbols}
    own = kernels_by_name(symbols, {})
    renamed = {symbol for name, symbol in kernels.items() if own.get(name) != symbol}
    asked = {name: symbol for name, symbol in kernels.items() if symbol in renamed}
    if any(name in symbols and symbol != name for name, symbol in kernels.items()):
        return False
    return names_fit_symbols(kernels, symbols, asked) and not any(
        _contradict(given, has)
        for name, symbol in asked.items()
        for given, has in zip(_arguments(name), _arguments(demangle(symbol)), strict=False)
    )


def _arguments(name: str) -> list[str]:
    match = _FLAT_TEMPLATE.fullmatch(name.strip())
    return [" ".join(each.split()) for each in match[1].split(",")] if match else []


def _contradict(given: str, has: str) -> bool:
    """Return whether two template arguments must differ: different builtin types or different integers."""
    types = {_base_type(each) for each in (given, has)}
    if types <= _BUILTIN_NAMES:
        return len(types) > 1
    one, other = _INTEGER.fullmatch(given), _INTEGER.fullmatch(has)
    return one is not None and other is not None and int(one[1]) != int(other[1])


def _base_type(spelled: str) -> str:
    """Return a type without `const` and pointer marks, such as `float` for `const float *`."""
    return spelled.removeprefix("const ").rstrip("*& ")


def without_blanks(name: str) -> str:
    """Return a kernel's name without blanks, for comparisons."""
    return "".join(name.split())


class UnreadableSymbolError(Exception):
    """A symbol has a part that the parser does not support, so the parser cannot tell the kernel's name."""


class SymbolReader:
    """A parser for symbols that are mangled by the rules of the Itanium C++ ABI."""

    builtin: Mapping[str, str] = _BUILTIN_TYPES

    def __init__(self, text: str) -> None:
        self._symbol = text
        self._at = 0
        self._remembered_parts: list[str] = []

    def name(self) -> str:
        """Parse the first part of the symbol, and return the name of the function."""
        name = self._nested(function=True) if self._accept("N") else self._unscoped(function=True)
        # The mangled symbol has an ABI tag, which hatch-cubin cannot read.
        if not name or self._peek() == "B":
            raise UnreadableSymbolError
        return name

    def signature(self) -> str:
        """Parse the name and the parameters' types, and return both in the notation of C++."""
        name, types = self.name(), list[str]()
        while self._peek():
            types.append(self._type())
        return f"{name}({', '.join(types if types != ['void'] else ())})" if types else name

    def _peek(self) -> str:
        return self._symbol[self._at : self._at + 1]

    def _accept(self, start: str) -> bool:
        found = self._symbol.startswith(start, self._at)
        self._at += len(start) * found
        return found

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        if (match := pattern.match(self._symbol, self._at)) is None:
            raise UnreadableSymbolError
        self._at = match.end()
        return match

    def _remember(self, name: str) -> str:
        """Remember *name* for parts of the symbol that refer to the name by a number, and return the name."""
        if len(name) > _LONGEST_NAME:
            raise UnreadableSymbolError
        self._remembered_parts.append(name)
        return name

    def _remembered(self) -> str:
        digits = self._match(_BACK_REFERENCE)[1]
        number = int(digits, 36) + 1 if digits else 0
        if number >= len(self._remembered_parts):
            raise UnreadableSymbolError
        return self._remembered_parts[number]

    def _identifier(self) -> str:
        """Parse one identifier and return it; return "" for an anonymous namespace."""
        length = int(self._match(_LENGTH)[1])
        word = self._symbol[self._at : self._at + length]
        if not word or len(word) < length:
            raise UnreadableSymbolError
        self._at += length
        return "" if _ANONYMOUS.match(word) else word

    def _unscoped(self, *, function: bool = False) -> str:
        name = "std::" * self._accept("St") + self._identifier()
        if self._peek() == "I":
            name = self._remember(name) + self._arguments()
        return name if function else self._remember(name)

    def _nested(self, *, function: bool = False) -> str:
        name = "std" * self._accept("St") or (self._remembered() if self._peek() == "S" else "")
        while not self._accept("E"):
            if name and self._peek() == "I":
                name += self._arguments()
            else:
                name = "::".join(filter(None, (name, self._identifier())))
            # A mangled symbol can refer back only to types, and the function is not a type.
            if not function or self._peek() != "E":
                self._remember(name)
        return name

    def _type(self) -> str:
        marks = self._match(_POINTERS)[0]
        name = self._named_type()
        for mark in reversed(marks):
            if mark != "K":
                name += _POINTER[mark]
            # The symbol means a constant pointer, and not a pointer to a constant.
            elif name.endswith(("*", "&")):
                raise UnreadableSymbolError
            else:
                name = f"const {name}"
            self._remember(name)
        return name

    def _named_type(self) -> str:
        if builtin := self.builtin.get(self._peek()):
            self._at += 1
            return builtin
        if self._accept("N"):
            return self._nested()
        if self._peek() != "S" or self._symbol.startswith("St", self._at):
            return self._unscoped()
        name = self._remembered()
        return self._remember(name + self._arguments()) if self._peek() == "I" else name

    def _arguments(self) -> str:
        self._accept("I")
        return f"<{', '.join(self._list())}>"

    def _list(self) -> list[str]:
        """Parse a list of template arguments, and return it.

        Arguments of a parameter pack are part of the list.
        """
        found: list[str] = []
        while not self._accept("E"):
            found += self._argument()
        return found

    def _argument(self) -> list[str]:
        if self._accept("J"):
            return self._list()
        return [self._value() if self._peek() == "L" else self._type()]

    def _value(self) -> str:
        for text, value in (("Lb0E", "false"), ("Lb1E", "true")):
            if self._accept(text):
                return value
        kind, digits = self._match(_NUMBER).groups()
        return digits.replace("n", "-") + _INTEGER_SUFFIX[kind]
