"""hatch-cubin's key of a text that a library such as CuPy or cuda.core compiles at run time.

Builds compute the key with this file, and wheels contain a copy of it, so both get the same key. The file
imports only the standard library.
"""

import hashlib
import re
from collections.abc import Iterable

# The options that a text may have, by the name of their group. No other options are part of a key.
_OF_CUPY = (
    r"--?std=(?P<std>[^\0\n]+)"
    r"|(?:-D|--define-macro=)(?P<define>[^\0\n]+)"
    r"|(?:-I|--include-path=)(?P<include>[^\0\n]+)"
    r"|--?diag-suppress=(?P<diag_suppress>[^\0\n]+)"
    r"|(?:-Ofc|--Ofast-compile)=(?P<ofast_compile>[^\0\n]+)"
    r"|--?use_fast_math(?P<use_fast_math>)"
    r"|--?maxrregcount=(?P<max_register_count>[0-9]{1,9})"
)
# The flags that cuda.core passes to NVRTC for fields of `ProgramOptions`. A group has the name of its field.
_OF_CUDA_CORE = (
    _OF_CUPY + r"|--?ftz=(?P<ftz>true|false)"
    r"|--?prec-sqrt=(?P<prec_sqrt>true|false)"
    r"|--?prec-div=(?P<prec_div>true|false)"
    r"|--?fmad=(?P<fma>true|false)"
    r"|(?:-lineinfo|--generate-line-info)(?P<lineinfo>)"
    r"|--?dopt=(?P<device_code_optimize>on)"
    r"|(?:-Xptxas|--ptxas-options)=(?P<ptxas_options>[^\0\n]+)"
    r"|(?:-w|--disable-warnings)(?P<disable_warnings>)"
)
_OPTIONS = {"cupy": re.compile(_OF_CUPY), "cuda.core": re.compile(_OF_CUDA_CORE)}
FRONTS = tuple(_OPTIONS)  # the libraries that compile texts
_VALUE_FOLLOWS = re.compile(
    r"-D|-I|--define-macro|--include-path|--?diag-suppress|-Ofc|--Ofast-compile|--?maxrregcount"
)
_WITHOUT_EFFECT_ON_CODE = ("include", "diag_suppress", "disable_warnings")
_LINE_DIRECTIVES = re.compile(r'(?:\s*#[ \t]*line[ \t]+\d+(?:[ \t]*"[^"\n]*")?[ \t]*(?:\n|\Z))+')


def parse_options(front: str, options: "Iterable[str]") -> "list[tuple[str, str]]":
    """Return the name and the value of each option of a library's call.

    If an option is not among the options that a key may contain, raise ValueError with this option as its
    argument.
    """
    found = []
    rest = iter(options)
    for option in rest:
        parts = [option, next(rest, "")] if _VALUE_FOLLOWS.fullmatch(str(option)) else [option]
        is_text = all(isinstance(part, str) for part in parts)
        whole = ("" if option in {"-D", "-I"} else "=").join(parts) if is_text else ""
        match = _OPTIONS[front].fullmatch(whole)
        if match is None:
            raise ValueError(option)
        name = str(match.lastgroup)
        value = match[name].strip()
        found.append((name, f"{value}=1" if name == "define" and "=" not in value else value))
    return found


def text_key(front: str, options: "Iterable[str]", text: str) -> str:
    """Return the key of a *text* that is compiled with *options*.

    Raise ValueError if one of the *options* is not among the options that a key may contain.

    *front* is the library that would compile the text. Include folders, suppressed messages, the form of line
    ends, `#line` at the start and the order of the options do not change the key. Only options with the same
    name keep their order, because NVRTC uses the last one.
    """
    changing = [each for each in parse_options(front, options) if each[0] not in _WITHOUT_EFFECT_ON_CODE]
    changing.sort(key=_sort_key)
    parts = (front, *map("=".join, changing), "", text_of_key(text))
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def text_of_key(text: str) -> str:
    """Return the form of a text from which its key is made: plain line ends, no `#line` at the start."""
    text = text.replace("\r\n", "\n") if "\r" in text else text  # the search for one character is faster
    lines = _LINE_DIRECTIVES.match(text)
    return text[lines.end() if lines else 0 :]


def _sort_key(option: "tuple[str, str]") -> "tuple[str, str]":
    """Sort options by name, and macros by the name of the macro."""
    name, value = option
    return name, macro_name(value) if name == "define" else ""


def macro_name(definition: str) -> str:
    """Return the name of a macro, without its parameters and its value."""
    return re.split("[(=]", definition)[0]


__build__ = "c8f3d0de63390474"
