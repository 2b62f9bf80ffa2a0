"""Turn the compiler options of a call of CuPy or cuda.core into settings of a [[source]] table.

Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..errors import Problem, problem
from ..loader._text_key import macro_name, parse_options
from . import nvrtc_options, toml_lines, value_checks
from .nvrtc_options import OptionValue
from .toml_positions import TableLocation

# The options that a library adds to each call. An option of the call replaces the option with the same name.
_ADDED: Mapping[str, Mapping[str, OptionValue]] = {
    "cupy": {"std": "c++17", "ftz": True, "device_as_default_execution_space": True},
    "cuda.core": {},
}
_LIBRARIES = {"cupy": "CuPy", "cuda.core": "cuda.core"}
_NOT_OF_A_CALL = {
    "define": "write the macros in 'options', as in the call: \"-DN=4\"",
    "variants": (
        "remove 'variants', because this table describes only one call; "
        "to describe several calls, let a producer return one text for each of the calls"
    ),
    "name": "remove 'name': the library finds the module by the text and the options of its call",
}
_LEAVE_OUT = (
    "remove the option from this table and from the call; or remove this table and exclude the source, so "
    "that {} compiles the text at run time"
)
_ARCHS = "remove the option from this table, because 'archs' chooses the archs; the call can keep its arch"
_NOT_IN_KEY = (
    "remove the option, because the library ignores folders when it looks for the module of a call; list "
    "the project's folders in 'include-dirs', and wheels with headers in 'header-packages'"
)

Report = Callable[[Problem, tuple[str | int, ...]], None]


class _Option(NamedTuple):
    """An option of a call.

    *front* is the library that is called, *written* is the text of the option, and *position* is the option's
    index in the array.
    """

    front: str
    name: str
    value: str
    written: str
    position: int


def with_settings(values: Mapping[str, Any], place: TableLocation, report: Report) -> dict[str, Any]:
    """Return the values of a [[source]] table.

    If the table describes a call of CuPy or cuda.core (key `as`), the call's options become settings.

    The function *report* is called with each problem, and with the path of the wrong key inside the table.
    """
    front, written = values["as"], values.get("options", ())
    kept = {key: value for key, value in values.items() if key not in {"as", "options"}}
    for key in sorted(_NOT_OF_A_CALL.keys() & values.keys()):
        what = f"{key!r} cannot be in a table with 'as', because a library's call has no such setting"
        report(problem("setting-changes-call", what, hint=_NOT_OF_A_CALL[key]), (key,))
    if not isinstance(written, tuple):
        what = "in a table with 'as', options must be an array of strings, as in the library's call"
        meant = written.split() if isinstance(written, str) else written_in_call(front, written)
        hint = toml_lines.setting("options", [*meant])
        report(problem("options-in-other-form", what, hint=hint), ("options",))
        written = ()
    found = [*_parsed(front, written, report)]
    settings = {name: [*_values(found, name, check, place, report)] for name, check in _CHECKS.items()}
    options = {
        name: functools.reduce(_joined, values)
        for name, values in settings.items()
        if name in _OPTIONS and values
    }
    return {
        **kept,
        "front": front,
        "call_options": written,
        "define": tuple({macro_name(name): (name, value) for name, value in settings["define"]}.values()),
        "options": {**_ADDED[front], **options},
        "include_dirs": tuple(dict.fromkeys((*settings["include"], *values.get("include_dirs", ())))),
    }


def _joined(first: OptionValue, second: OptionValue) -> OptionValue:
    """Return the value of an option that is set twice: both lists joined, or only the second value.

    A joined list may contain contradictory values: ptxas uses the last of them.
    """
    if isinstance(first, tuple) and isinstance(second, tuple):
        return (*first, *second)
    return second


def _parsed(front: str, written: Sequence[str], report: Report) -> Iterator[_Option]:
    """Yield the options in a call's array of strings.

    The value of an option may be the next string of the array.
    """
    index = 0
    while index < len(written):
        starts = map(written[index:].__getitem__, _FIRST)
        found = next((each for each in starts if _is_option(front, each)), None)
        if _count(front, written[index].split()) > 1:
            what = f"options: {written[index]!r} contains several options"
            report(problem("invalid-value", what, hint=_meant(front, written, index)), ("options", index))
        elif found is None:
            what = f"options: {written[index]!r} cannot be an option in a table with 'as'"
            leave_out = _ARCHS if _is_arch_of_core(front, written[index]) else _LEAVE_OUT
            hint = _meant(front, written, index) or leave_out.format(_LIBRARIES[front])
            report(problem("option-without-key", what, hint=hint), ("options", index))
        else:
            yield _Option(front, *parse_options(front, found)[0], " ".join(found), index)
        index += len(found or "1")


_FIRST = (slice(1), slice(2))  # an option is one string, or two strings: a name and a value


def _is_option(front: str, written: Sequence[str]) -> bool:
    return _count(front, written) == 1


def _is_arch_of_core(front: str, written: str) -> bool:
    """Return whether an option is the arch of a call of cuda.core, which is not in the call's key."""
    return front == "cuda.core" and written.startswith(("-arch", "--gpu-architecture"))


def _count(front: str, written: Sequence[str]) -> int:
    """Return the number of options in an array of strings; 0 if any of the strings cannot be an option."""
    try:
        return len(parse_options(front, written))
    except ValueError:
        return 0


def _meant(front: str, written: Sequence[str], index: int) -> str | None:
    """Return a hint that corrects a string that is not an option; None if no correction is known."""
    apart = written[index].split()
    if _count(front, apart):
        whole = [*written[:index], *apart, *written[index + 1 :]]
        line = toml_lines.setting("options", whole)
        return f"write each option as a string of its own, in this table and in the call: {line}"
    name, _, value = "=".join(apart).lstrip("-").partition("=")
    meant = _SPELLED.get(name.replace("-", "_"), "").format(value)
    return f"did you mean {meant!r}?" if _is_option(front, [meant]) else None


def _values(
    options: Sequence[_Option], name: str, check: Callable[[str], Any], place: TableLocation, report: Report
) -> Iterator[Any]:
    """Yield the checked values of all options with the name *name*, and report wrong values."""
    for option in options:
        try:
            if option.name == name:
                yield check(option.value)
        except ValueError as exc:
            hint = _LEAVE_OUT.format(_LIBRARIES[option.front])
            if name == "include":
                inside = place.path_in_project(option.value)
                hint = f'write "-I{inside}"' if inside else _NOT_IN_KEY
            found = problem("invalid-value", f"options: {option.written!r}: {exc}", hint=hint)
            if isinstance(exc, value_checks.RefusedValueError):
                found = found._replace(code=exc.problem.code)
            report(found, ("options", option.position))


def _macro(text: str) -> tuple[str, str | None]:
    name, _, value = text.partition("=")
    value_checks.macro_name(name)
    return name, value_checks.macro_text(value)


def _numbers(text: str) -> list[object]:
    return [int(each) if each.strip().isdecimal() else each for each in text.split(",")]


def _is_true(text: str) -> bool:
    return text != "false"  # the text is empty for a flag without a value


def _ptxas_option(text: str) -> list[str]:
    from . import ptxas_options  # lazy import: few calls have such options

    if not ptxas_options.prints_registers(text):  # a call may have -v, which does not change the kernels
        ptxas_options.check(text)
    return [text]


# Functions that read the values of compiler options. The options have the names of the fields of cuda.core's
# `ProgramOptions`.
_OPTIONS: Mapping[str, Callable[[str], object]] = {
    "std": str,
    "ofast_compile": str,
    "diag_suppress": _numbers,
    "ftz": _is_true,
    "prec_sqrt": _is_true,
    "prec_div": _is_true,
    "fma": _is_true,
    "use_fast_math": _is_true,
    "lineinfo": _is_true,
    "device_code_optimize": _is_true,
    "disable_warnings": _is_true,
    "max_register_count": int,
    "ptxas_options": _ptxas_option,
}


def _checked(name: str, text: str) -> OptionValue:
    return nvrtc_options.check_option(name, _OPTIONS[name](text))


_CHECKS: Mapping[str, Callable[[str], Any]] = {
    "define": _macro,
    "include": value_checks.path,
    **{name: functools.partial(_checked, name) for name in _OPTIONS},
    "max_register_count": int,  # NVRTC 13.5 makes different code for 300 than for 255 or without a number
}

# How a call spells compiler options.
_SPELLED = {
    "std": "-std={}",
    "ofast_compile": "--Ofast-compile={}",
    "diag_suppress": "--diag-suppress={}",
    "ftz": "--ftz={}",
    "prec_sqrt": "--prec-sqrt={}",
    "prec_div": "--prec-div={}",
    "fma": "--fmad={}",
    "use_fast_math": "--use_fast_math",
    "lineinfo": "--generate-line-info",
    "device_code_optimize": "--dopt=on",
    "disable_warnings": "--disable-warnings",
    "max_register_count": "--maxrregcount={}",
    "ptxas_options": "--ptxas-options={}",
}


def written_in_call(front: str, options: Mapping[str, OptionValue]) -> Iterator[str]:
    """Yield options from pyproject.toml in the form that a call of the library *front* accepts.

    Options that the library does not accept are left out.
    """
    for name, value in options.items():
        spelled = _SPELLED.get(name, "")
        for each in value if isinstance(value, tuple) else (value,):
            text = spelled.format(str(each).lower() if isinstance(each, bool) else each)
            if _is_option(front, [text]) and (each is not False or text != spelled):
                yield text
