"""Read hatch-cubin's environment variables: switches, and settings that replace those of pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

SIGNING_KEY = "HATCH_CUBIN_SIGNING_KEY"
REQUIRE_SIGNED = "HATCH_CUBIN_REQUIRE_SIGNED"
# secret, because the URL may contain a password
REMOTE, REMOTE_TOKEN = "HATCH_CUBIN_REMOTE", "HATCH_CUBIN_REMOTE_TOKEN"
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
# known variables that builds do not read as settings
_OTHERS = (
    "HATCH_CUBIN_NO_COMPILE",
    "HATCH_CUBIN_REBUILD",
    "HATCH_CUBIN_RECORD",
    "HATCH_CUBIN_REPORT",
    "HATCH_CUBIN_STRICT",
)
_PATHS = ("HATCH_CUBIN_CACHE_DIR", "HATCH_CUBIN_REPORT")
_NOT_PATHS = frozenset({"0", "1", "true", "false", "yes", "no", "on", "off", "none"})
# Variables of other build systems, each with the variable or key of hatch-cubin that has the same effect.
_ELSEWHERE = {
    **dict.fromkeys(
        (
            "CMAKE_CUDA_FLAGS",
            "CUDAFLAGS",
            "CUDA_FLAGS",
            "NVCCFLAGS",
            "NVCC_APPEND_FLAGS",
            "NVCC_FLAGS",
            "NVCC_PREPEND_FLAGS",
            "TORCH_NVCC_FLAGS",
        ),
        "'options' of the table",
    ),
    "CMAKE_CUDA_ARCHITECTURES": "HATCH_CUBIN_ARCHS",
    "CUDAARCHS": "HATCH_CUBIN_ARCHS",
    "MAX_JOBS": "HATCH_CUBIN_JOBS",
    "TORCH_CUDA_ARCH_LIST": "HATCH_CUBIN_ARCHS",
}
_PREFIX = "HATCH_CUBIN_"
_LIKE_OURS = re.compile(
    "HATCH[^A-Z]?CU|CUBIN", re.IGNORECASE
)  # the start of a name that may be the misspelled name of one of hatch-cubin's variables
_NEARLY = 0.8  # minimum similarity for a name that does not begin with HATCH_CUBIN_
# Such a word may reverse the meaning: a variable with NO may be the opposite of a known variable without NO.
_NEGATION = re.compile("NO|NOT|UN.*|DISABLED?|WITHOUT")
_ROUGHLY = 0.6  # minimum similarity for the rest of a name that begins with HATCH_CUBIN_
_STATES = {"1": True, "true": True, "": False, "0": False, "false": False}


def is_on(environ: Mapping[str, str], switch: str) -> bool:
    """Return whether a switch (an environment variable that is on or off) is on.

    If the variable's value is neither on nor off, `read_environment` reports the mistake.
    """
    return _STATES.get(environ.get(switch, "").lower(), False)


class WithOptions(dict[str, str]):
    """Environment variables, some of which were set by options of the command line."""

    def __init__(self, environ: Mapping[str, str], options: Mapping[str, tuple[str, str]]) -> None:
        """Set variables; *options* maps each variable to a command-line option and the option's value."""
        super().__init__(environ)
        self.update((variable, value) for variable, (_option, value) in options.items())
        self.options = {variable: option for variable, (option, _value) in options.items()}


def as_written(environ: Mapping[str, str], variable: str) -> str:
    """Return the name of the command-line option that set a variable, or else the variable's name."""
    return environ.options.get(variable, variable) if isinstance(environ, WithOptions) else variable


def unknown_variables(environ: Mapping[str, str], readers: Iterable[str], keys: Iterable[str]) -> list[str]:
    """Return a message for each unknown variable whose name is similar to the name of a hatch-cubin variable.

    *readers* are hatch-cubin's variables except switches (variables that are on or off). *keys* are the keys
    of hatch-cubin's configuration in pyproject.toml.
    """
    known, of_table = {*readers, *_SECRETS, *SWITCHES, *_OTHERS}, {*keys}
    messages = []
    for name in sorted(name for name in environ if name not in known and _LIKE_OURS.match(name)):
        key = name.removeprefix(_PREFIX).lower().replace("_", "-")
        meant = _shorter(name, known) or (
            f"{key!r} is a key in pyproject.toml" if key in of_table else _meant(name, known)
        )
        if meant or name.startswith(_PREFIX):
            messages.append(f"{name} is not a variable of hatch-cubin" + (f": {meant}" if meant else ""))
    return messages


def variables_of_others(environ: Mapping[str, str]) -> list[str]:
    """Return a note for each variable of another build system whose counterpart in hatch-cubin is not set."""
    return [
        f"{name} has no effect on this build: use {own} instead"
        for name, own in _ELSEWHERE.items()
        if name in environ and own not in environ
    ]


def _shorter(name: str, known: Iterable[str]) -> str | None:
    """Return "did you mean X?" if *name* contains all words of the known variable X and also other words."""
    words = _words(name)
    found = [each for each in sorted(known) if _words(each) < words]
    return f"did you mean {max(found, key=len)}?" if found and not _is_negated(words) else None


def _meant(name: str, known: Iterable[str]) -> str | None:
    """Return "did you mean …?" with the known variable whose name is most similar to *name*.

    Only letters are compared, so `HATCH-CUBIN.ARCHS` is equal to `HATCH_CUBIN_ARCHS`.
    """
    if _is_negated(_words(name)):
        return None
    import difflib  # lazy import: slow to import, and needed only for misspelled variables

    bare = _bare(name) if name.upper().startswith("HATCH") else f"HATCH{_bare(name)}"
    start = _bare(_PREFIX) if bare.startswith(_bare(_PREFIX)) else ""
    names = {_bare(each).removeprefix(start): each for each in sorted(known)}
    cutoff = _ROUGHLY if start else _NEARLY
    close = difflib.get_close_matches(bare.removeprefix(start), names, n=1, cutoff=cutoff)
    return f"did you mean {names[close[0]]}?" if close else None


def _words(name: str) -> set[str]:
    return {*re.findall("[A-Z]+", name.upper())}


def _is_negated(words: Iterable[str]) -> bool:
    return any(map(_NEGATION.fullmatch, words))


def _bare(name: str) -> str:
    return re.sub("[^A-Z]", "", name.upper())


def without_secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without signing keys and without the credentials of the remote store."""
    return {name: value for name, value in environ.items() if name not in _SECRETS}


def read_environment(
    environ: Mapping[str, str], readers: Mapping[str, tuple[str, Callable[[str], Any]]]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings that environment variables set, and a message for each variable with a wrong value.

    *readers* maps each variable to the name of its setting and to the function that parses its value.
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
