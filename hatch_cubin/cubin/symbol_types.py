"""Read the types of a kernel's parameters from the kernel's mangled symbol."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from itertools import chain

from .kernel_names import SymbolReader, UnreadableSymbolError

_PARAMETER_REFERENCE = re.compile(r"T([0-9A-Z]{0,3})_")
_MARKS = re.compile(r"(?:[PRO]|V?K|V)*")
_MARK = re.compile(r"[PRO]|V?K|V")
_POINTER = {"P": "*", "R": "&", "O": "&&"}
_QUALIFIER = {"K": "const", "V": "volatile", "VK": "const volatile"}
_TRAILING_MARKS = re.compile(r"(?:\*(?:const volatile|const|volatile)?|&)+$")


@functools.lru_cache(maxsize=256)  # cached: the symbol is the same for each arch
def parameter_types(symbol: str) -> tuple[str, ...] | None:
    """Return the types of a kernel's parameters, such as `("float *", "int")` for `_Z5scaleIfLi4EEvPT_i`.

    Return None if the symbol does not contain types (`extern "C"`) or cannot be read completely.
    """
    if not symbol.startswith("_Z"):
        return None
    try:
        return tuple(map(_with_space_before_marks, _KernelSymbolReader(symbol[2:]).types()))
    except (UnreadableSymbolError, RecursionError):
        return None


def _with_space_before_marks(text: str) -> str:
    """Put a space before the pointer marks of a type, as in `const float *`."""
    tail = _TRAILING_MARKS.search(text)
    return text if tail is None else f"{text[: tail.start()]} {re.sub(r'(?<=[a-z])(?=[*&])', ' ', tail[0])}"


class _KernelSymbolReader(SymbolReader):
    """A parser for a kernel's whole symbol: the kernel's name, then the types of its parameters."""

    builtin: Mapping[str, str] = {
        **SymbolReader.builtin,
        "e": "long double",
        "n": "__int128",
        "o": "unsigned __int128",
    }

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._template_arguments: list[
            list[str]
            # For each argument of the kernel's template, a list of types. A parameter pack has several types.
        ] = []
        self._name_is_read = False
        self._depth = 0

    def types(self) -> list[str]:
        name = self.name()
        self._name_is_read = True
        # In the mangled symbol of a template function, the type of the result comes before the parameters.
        if name.endswith(">"):
            self._type()
        found: list[str] = []
        while self._peek():
            found += self._pack() if self._accept("Dp") else [self._type()]
        return [] if found == ["void"] else found

    def _pack(self) -> list[str]:
        """Parse a parameter pack such as `T...` and return its types.

        A parameter pack such as `const T *...` is not supported.
        """
        types = self._template_parameter()
        self._remember("")
        # Two empty entries. In a mangled symbol, a parameter pack and its expansion each have a number, but
        # nothing later refers to these numbers.
        self._remember("")
        return types

    def _template_parameter(self) -> list[str]:
        digits = self._match(_PARAMETER_REFERENCE)[1]
        number = int(digits, 36) + 1 if digits else 0
        if number >= len(self._template_arguments):
            raise UnreadableSymbolError
        return self._template_arguments[number]

    def _single_argument(self) -> str:
        found = self._template_parameter()
        if len(found) != 1:
            raise UnreadableSymbolError
        return found[0]

    def _remembered(self) -> str:
        if not (name := super()._remembered()):
            raise UnreadableSymbolError
        return name

    def _type(self) -> str:
        marks = _MARK.findall(self._match(_MARKS)[0])
        name = self._named_type()
        for mark in reversed(marks):
            if pointer := _POINTER.get(mark):
                name += pointer
            elif name.endswith(("*", "&")):
                name += _QUALIFIER[mark]
            else:
                name = f"{_QUALIFIER[mark]} {name}"
            self._remember(name)
        return name

    def _named_type(self) -> str:
        return self._remember(self._single_argument()) if self._peek() == "T" else super()._named_type()

    def _arguments(self) -> str:
        self._accept("I")
        self._depth += 1
        arguments: list[list[str]] = []
        while not self._accept("E"):
            arguments.append(self._argument())
        self._depth -= 1
        if not self._depth and not self._name_is_read:
            self._template_arguments = arguments
        return f"<{', '.join(chain.from_iterable(arguments))}>"

    def _argument(self) -> list[str]:
        if not self._accept("X"):
            return super()._argument()
        # In a mangled symbol, `X` comes before an expression. The only expression that is supported is the
        # name of a template parameter.
        value = self._single_argument()
        if not self._accept("E"):
            raise UnreadableSymbolError
        return [value]
