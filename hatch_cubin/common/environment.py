"""Read hatch-cubin's environment variables: switches, and values that replace those of the table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

SIGNING_KEY = "HATCH_CUBIN_SIGNING_KEY"
REQUIRE_SIGNED = "HATCH_CUBIN_REQUIRE_SIGNED"
REMOTE, REMOTE_TOKEN = "HATCH_CUBIN_REMOTE", "HATCH_CUBIN_REMOTE_TOKEN"  # the URL may have a password
REMOTE_WRITE = "HATCH_CUBIN_REMOTE_WRITE"

_SECRETS = frozenset({SIGNING_KEY, REMOTE, REMOTE_TOKEN})
SWITCHES = (
    "HATCH_CUBIN_SKIP",
    "HATCH_CUBIN_REQUIRE_HITS",
    REQUIRE_SIGNED,
    "HATCH_CUBIN_LOCKED",
    REMOTE_WRITE,
    "HATCH_CUBIN_TRACEBACK",
)
# Variables that editable installs, the build report and the loader read.
_OTHERS = ("HATCH_CUBIN_REBUILD", "HATCH_CUBIN_REPORT", "HATCH_CUBIN_STRICT")
_PATHS = ("HATCH_CUBIN_CACHE_DIR", "HATCH_CUBIN_REPORT")
_NOT_PATHS = frozenset({"0", "1", "true", "false", "yes", "no", "on", "off", "none"})
# Variables of other build systems, and those that do the same here.
_ELSEWHERE = {
    "CMAKE_CUDA_ARCHITECTURES": "HATCH_CUBIN_ARCHS",
    "CUDAARCHS": "HATCH_CUBIN_ARCHS",
    "MAX_JOBS": "HATCH_CUBIN_JOBS",
    "TORCH_CUDA_ARCH_LIST": "HATCH_CUBIN_ARCHS",
}
_PREFIX = "HATCH_CUBIN_"
_LIKE_OURS = re.compile(
    "HATCH[^A-Z]?CU|CUBIN", re.IGNORECASE
)  # the beginning of a name that may be meant as one of ours
_NEARLY = 0.8  # the share of equal letters, for a name without our prefix
_ROUGHLY = 0.6  # the share of equal letters after the prefix
_STATES = {"1": True, "true": True, "": False, "0": False, "false": False}


def is_on(environ: Mapping[str, str], switch: str) -> bool:
    """Say whether a switch is on. A value that is neither on nor off is reported by `read_environment`."""
    return _STATES.get(environ.get(switch, "").lower(), False)


class WithOptions(dict[str, str]):
    """An environment in which options of the command line have set variables."""

    def __init__(self, environ: Mapping[str, str], options: Mapping[str, tuple[str, str]]) -> None:
        """*options* has, for each variable, the option that sets it, and its value."""
        super().__init__(environ)
        self.update((variable, value) for variable, (_option, value) in options.items())
        self.options = {variable: option for variable, (option, _value) in options.items()}


def as_written(environ: Mapping[str, str], variable: str) -> str:
    """Return the name that the user wrote to set a variable: its own, or an option of the command line."""
    return environ.options.get(variable, variable) if isinstance(environ, WithOptions) else variable


def unknown_variables(environ: Mapping[str, str], readers: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return a message for each variable that has a name like ours, but is not read.

    *readers* are the variables that have values, *keys* are the keys of the table.
    """
    known, of_table = {*readers, *_SECRETS, *SWITCHES, *_OTHERS}, {*keys}
    messages = []
    for name in sorted(name for name in environ if name not in known and _LIKE_OURS.match(name)):
        key = name.removeprefix(_PREFIX).lower().replace("_", "-")
        meant = f"{key!r} is a key of the table" if key in of_table else _meant(name, known)
        if meant or name.startswith(_PREFIX):
            messages.append(f"hatch-cubin knows no variable {name}" + (f": {meant}" if meant else ""))
    return messages


def variables_of_others(environ: Mapping[str, str]) -> list[str]:
    """Return a note for each variable of another build system, if nothing sets the same here."""
    return [
        f"{name} does not change this build: {own} does the same here"
        for name, own in _ELSEWHERE.items()
        if name in environ and own not in environ
    ]


def _meant(name: str, known: Iterable[str]) -> str | None:
    """Return a guess if a variable's name is nearly the given one, ignoring the characters between words."""
    import difflib  # slow to import, and few environments need it

    bare = _bare(name) if name.upper().startswith("HATCH") else f"HATCH{_bare(name)}"
    start = _bare(_PREFIX) if bare.startswith(_bare(_PREFIX)) else ""
    names = {_bare(each).removeprefix(start): each for each in sorted(known)}
    cutoff = _ROUGHLY if start else _NEARLY
    close = difflib.get_close_matches(bare.removeprefix(start), names, n=1, cutoff=cutoff)
    return f"did you mean {names[close[0]]}?" if close else None


def _bare(name: str) -> str:
    return re.sub("[^A-Z]", "", name.upper())


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a program that needs neither signing keys nor the store."""
    return {name: value for name, value in environ.items() if name not in _SECRETS}


def read_environment(
    environ: Mapping[str, str], readers: Mapping[str, tuple[str, Callable[[str], Any]]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that variables set, by name, and a message for each variable that is wrong.

    *readers* has, for each variable, the name of its value and the function that reads it.
    """
    values: dict[str, Any] = {}
    wrong = {
        switch: f"{switch}: must be 1 or true, 0 or false, not {environ[switch]!r}"
        for switch in SWITCHES
        if environ.get(switch, "").lower() not in _STATES
    }
    for variable in _PATHS:
        if environ.get(variable, "").lower() in _NOT_PATHS:
            wrong[variable] = f"{variable}: must be a path, not {environ[variable]!r}"
    for variable, (name, read) in readers.items():
        if (text := environ.get(variable)) and variable not in wrong:
            try:
                values[name] = read(text)
            except ValueError as exc:
                wrong[variable] = f"{variable}: {exc}"
    return values, wrong
