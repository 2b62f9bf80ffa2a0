"""Suggest a correction for an argument that a verb (a subcommand such as `plan`) does not accept."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

# The arguments of a verb. The keys are the names in usage messages, such as '--gpu' or 'WHEEL'.
Known = Mapping[str, argparse.Action]
Options = Mapping[str, Known]  # the arguments of each verb
_OF_OTHERS = {  # Options of other tools, and the options of hatch-cubin with the same purpose.
    "-C": ("--project",),
    "-a": ("--archs",),
    "-d": ("--project",),
    "-j": ("--jobs",),
    "-n": ("--jobs",),
    "-o": ("--into", "--html"),
    "-p": ("--project",),
    "--age": ("--unused-for",),
    "--arch-list": ("--archs",),
    "--cc": ("--gpu", "--archs"),
    "--gpu": ("--gpu", "--archs"),
    "--gpus": ("--gpu", "--archs"),
    "--kernel": ("--sass", "--only"),
    "--directory": ("--project",),
    "--dry-run": (),
    "--max-age": ("--unused-for",),
    "--older-than": ("--unused-for",),
    "--out": ("--into", "--html"),
    "--outdir": ("--into",),
    "--output": ("--into", "--html"),
    "--path": ("--project",),
    "--targets": ("--archs",),
}
# For the first letters of a unit of time, such as `mi` for minutes: the suffix in the value of
# '--unused-for'.
_UNITS = {"": "d", "mi": "m", "h": "h", "d": "d", "w": "w"}
_AFRESH = "after 'hatch-cubin cache clear', a build compiles everything"
_BESIDE = {
    "--clean": _AFRESH,
    "--dry-run": "'plan' compiles nothing",
    "--force": _AFRESH,
    "--no-cache": _AFRESH,
    "--rebuild": _AFRESH,
}


def hint(verb: str, unknown: Sequence[str], arguments: Sequence[str], options: Options) -> str | None:
    """Return a hint for the first argument in *unknown*, which lists arguments that *verb* does not accept.

    *arguments* are all arguments of the command. *options* maps each verb to the arguments that the verb
    accepts.
    """
    own, first = options[verb], unknown[0]
    if not first.startswith("-"):
        return _repeated_value(unknown, arguments, own) or _bare(verb, first, arguments, own)
    name, value = _name_and_value(first)
    if verb == "keygen" and "--into" in _OF_OTHERS.get(name, ()):
        return "give only the name of the file: hatch-cubin keygen FILE"
    following = unknown[1] if unknown[1:] and not unknown[1].startswith("-") else ""
    if meant := _own_name(name, own) or _near(name, own):
        value = value or following
        if meant == "--unused-for":
            value = time_meant(value) or value
        return f"did you mean '{' '.join(filter(None, (meant, value)))}'?"
    other = next(iter(_OF_OTHERS.get(name, ())), name)
    near = _near(name, {each: action for names in options.values() for each, action in names.items()})
    return (
        _BESIDE.get(name)
        or _of_other_verbs(other, options)
        or _of_table(name)
        or (near and _of_other_verbs(near, options))
    )


def with_verb_first(verb: str, arguments: Sequence[str], options: Options) -> str:
    """Return the command with the *verb* moved before all options."""
    rest = [*arguments]
    rest.remove(verb)
    name, value = _name_and_value(rest[0])
    if meant := _own_name(name, options[verb]):
        rest[:1] = filter(None, (meant, value))
    return shlex.join(("hatch-cubin", verb, *rest))


def time_meant(text: str) -> str | None:
    """Return a time such as '7 days' as '--unused-for' expects it: '7d'. The default unit is the day."""
    match = re.fullmatch(r"([0-9]{1,6}) ?(|mi|h|d|w)(?:(?<=[a-z])[a-z]*)?", text.lower())
    return f"{match[1]}{_UNITS[match[2]]}" if match else None


def _name_and_value(argument: str) -> tuple[str, str]:
    """Return the name and the value of an option, such as '--jobs' and '4' for '--jobs=4'."""
    name, _equals, value = argument.partition("=")
    return (name, value) if argument.startswith("--") else (argument[:2], argument[2:].removeprefix("="))


def _own_name(name: str, own: Known) -> str | None:
    """Return the option in *own* that does the same as the option *name* of other tools, or None."""
    return next((each for each in _OF_OTHERS.get(name, ()) if each in own), None)


def _repeated_value(unknown: Sequence[str], arguments: Sequence[str], own: Known) -> str | None:
    """Return a hint for an option that is followed by several values, as in '--gpu 8.0 9.0'."""
    for name, values in _with_values(arguments, own):
        if own[name].metavar == "LIST":
            listed = [
                values[0].strip(","),
                *(each.strip(",") for each in values[1:] if _is_accepted(own[name], each)),
            ]
            if listed[1:]:
                return f"write several values as one list: {name} {','.join(listed)}"
        elif isinstance(own[name], argparse._AppendAction) and values[1:2] == [unknown[0]]:  # noqa: SLF001 - no public class exists
            repeated = " ".join(f"{name} {shlex.quote(each)}" for each in values)
            return f"write the option before each value: {repeated}"
    return None


def _with_values(arguments: Sequence[str], own: Known) -> Iterator[tuple[str, list[str]]]:
    """Yield each option that takes a value, with all arguments up to the next option."""
    for index, argument in enumerate(arguments):
        name, value = _name_and_value(argument)
        if name in own and own[name].nargs is None and name.startswith("-"):
            following = itertools.takewhile(lambda each: not each.startswith("-"), arguments[index + 1 :])
            yield name, [*filter(None, (value, *following))]


def _is_accepted(action: argparse.Action, value: str) -> bool:
    """Return whether *value* is a correct value for an option."""
    with contextlib.suppress(argparse.ArgumentTypeError, ValueError):
        return callable(action.type) and bool(action.type(value))
    return False


def _bare(verb: str, first: str, arguments: Sequence[str], own: Known) -> str:
    """Return a hint for an unknown argument that is not an option."""
    if "--max-size" in own and _is_accepted(own["--max-size"], first):
        return f"did you mean '--max-size {first}'?"
    hints = [f"{name} takes one value" for name, values in _with_values(arguments, own) if values[1:]][:1]
    single = [name for name, action in own.items() if name[0] != "-" and action.nargs is None]
    if verb == "diff":
        hints.append("'diff' compares two wheels")
    elif single:
        hints.append(f"{verb!r} takes one {single[0]}")
    else:
        choosing = ("--only GLOB chooses sources",) if "--only" in own else ()
        hints += choosing if hints else (*choosing, "--project DIR chooses a project")
    return ", and ".join(hints)


def _near(name: str, own: Known) -> str | None:
    import difflib

    close = difflib.get_close_matches(name, own, n=1, cutoff=0.75) if name.startswith("--") else []
    return close[0] if close else None


def _of_table(name: str) -> str | None:
    from ..config.reader import KEYS  # lazy import: needed only for few mistakes

    key = name.lstrip("-")
    return f"{key!r} is a key of hatch-cubin in pyproject.toml" if key in KEYS else None


def _of_other_verbs(name: str, options: Options) -> str | None:
    having = [repr(verb) for verb, names in options.items() if name in names]
    return f"{name} is an option of {', '.join(having)}" if having else None
