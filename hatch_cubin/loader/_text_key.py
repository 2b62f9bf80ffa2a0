"""The key of a text that a library compiles at run time, for example with `cupy.RawModule` (hatch-cubin).

Builds and wheels compute the key with this same file. The file imports only the standard library.
"""

import hashlib
import re
from collections.abc import Iterable

# The options that a text may have, by the name of their group. No other options are part of a key.
_OPTION = re.compile(
    r"--?std=(?P<std>[^\0\n]+)"
    r"|(?:-D|--define-macro=)(?P<define>[^\0\n]+)"
    r"|(?:-I|--include-path=)(?P<include>[^\0\n]+)"
    r"|--?diag-suppress=(?P<diag_suppress>[^\0\n]+)"
    r"|(?:-Ofc|--Ofast-compile)=(?P<ofast_compile>[^\0\n]+)"
)
_VALUE_FOLLOWS = re.compile(r"-D|-I|--define-macro|--include-path|--?diag-suppress|-Ofc|--Ofast-compile")
_WITHOUT_EFFECT_ON_CODE = ("include", "diag_suppress")
_LINE_DIRECTIVE = re.compile(r"\s*#[ \t]*line\b[^\n]*\n?")


def parse_options(options: "Iterable[str]") -> "list[tuple[str, str]]":
    """Return the name and the value of each option. A ValueError has the first option without a name here."""
    found = []
    rest = iter(options)
    for option in rest:
        parts = [option, next(rest, "")] if _VALUE_FOLLOWS.fullmatch(str(option)) else [option]
        is_text = all(isinstance(part, str) for part in parts)
        match = _OPTION.fullmatch(("" if option in {"-D", "-I"} else "=").join(parts)) if is_text else None
        if match is None:
            raise ValueError(option)
        name = str(match.lastgroup)
        value = match[name].strip()
        found.append((name, f"{value}=1" if name == "define" and "=" not in value else value))
    return found


def text_key(front: str, options: "Iterable[str]", text: str) -> str:
    """Return the key of a *text* that is compiled with *options*. ValueError if a key has no such option.

    *front* is the library that would compile the text. Include folders and suppressed messages are not part
    of the key. Neither are the order of the options, the form of line ends, and a `#line` at the start.
    """
    changing = [each for each in parse_options(options) if each[0] not in _WITHOUT_EFFECT_ON_CODE]
    changing.sort(key=_sort_key)
    parts = (front, *map("=".join, changing), "", text_of_key(text))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def text_of_key(text: str) -> str:
    """Return the text from which the key is computed: with plain line ends, and without a first `#line`."""
    text = text.replace("\r\n", "\n") if "\r" in text else text  # the search for one character is faster
    line = _LINE_DIRECTIVE.match(text)
    return text[line.end() if line else 0 :]


def _sort_key(option: "tuple[str, str]") -> "tuple[str, str]":
    """Sort macros by name. Macros with the same name keep their order, because the last one counts."""
    name, value = option
    return name, re.split("[(=]", value)[0]


__build__ = "34c74b6c4c91a911"
