# A part of hatch-cubin's loader (Apache-2.0): see __init__.py.
"""Find the text of a call in this package, and report a call that a library must compile at run time."""

import os
import sys
import warnings

from . import (
    _NAME,
    CubinError,
    CubinNotFoundError,
    _choose,
    _import,
    _manifest,
    _message,
    _part,
    _retry_during_rebuild,
    _verified,
)
from . import __build__ as _build_of_core

TYPE_CHECKING = False
if TYPE_CHECKING:
    import hashlib
    import json
    from typing import Any

    from . import Entry, _Module, _text_key

_RECORD = "HATCH_CUBIN_RECORD"
_record_at_import = os.environ.get(_RECORD)  # tests may empty the environment later


class CompiledAtRunTimeWarning(UserWarning):
    """A library compiles a text now, because the package does not contain its machine code for this GPU."""

    library = ""

    def __init__(
        self, front: str, text: str, options: "tuple[str, ...]", names: "tuple[str, ...]", reason: str = ""
    ) -> None:
        super().__init__(front, text, options, names, reason)
        self.front = front
        self.text = text
        self.options = options
        self.names = names
        self.reason = reason

    def __str__(self) -> str:
        begin = " ".join(self.text.split(None, 12)[:12])
        reason = self.reason or "it must"
        what = f"{_NAME}: {self.library} compiles CUDA code at run time, because {reason}"
        names = f", for {', '.join(self.names)}"[:160] * bool(self.names)
        return f"{what} (options {list(self.options)}{names}, code {begin!r:.60})"


class Call:
    """One text with its options, as a library would compile it. Each library has a subclass."""

    front = ""
    warning = CompiledAtRunTimeWarning

    def __init__(self, text: str, options: "tuple[str, ...]", names: "tuple[str, ...]") -> None:
        self.text = text
        self.options = options
        self.names = names
        self._keys: "list[str | None]" = []

    @property
    def key(self) -> "str | None":
        """The key of the text and the options, or None if one of the options cannot be part of a key."""
        if not self._keys:
            try:
                self._keys.append(_part("_text_key").text_key(self.front, self.options, self.text))
            except ValueError:
                self._keys.append(None)
        return self._keys[0]

    def why_not_shipped(self) -> str:
        """Return why the package does not contain the text, or an empty string if it does."""
        return str(_retry_during_rebuild(self._why_not_shipped))

    def _why_not_shipped(self) -> str:
        if is_on("HATCH_CUBIN_SKIP"):
            return "HATCH_CUBIN_SKIP is set"
        if self.key is None:
            return "the call has an option that hatch-cubin does not support"
        if _manifest().module(f"{self.front}:{self.key}") is None:
            what = f"the package does not have exactly this text with these options (key {self.key[:12]})"
            return f"{what}; compare both with the table of the source that describes this call"
        return ""

    def entry_for(self, capability: "tuple[int, int]", driver: "int | None") -> "tuple[_Module, Entry]":
        """Return the text's module and its entry for a GPU, or raise CubinNotFoundError."""
        found = _manifest().module(f"{self.front}:{self.key}")
        if found is None:
            raise CubinNotFoundError("the package does not have this text any more")
        return found, _choose(found, None, capability, driver)

    def report(self, reason: str, key: "str | None" = None) -> None:
        """Warn that the library compiles this text, or raise an error if nothing may be compiled.

        *key*: the text's key, or None if no build of the package can prevent this run-time compile.
        """
        reason = reason.removeprefix(f"{_NAME}: ")
        if self.key is not None:
            reason = reason.replace(self.key, self.key[:12])
        warning = self.warning(self.front, self.text, self.options, self.names, reason)
        for folder in filter(None, {_record_at_import, os.environ.get(_RECORD)}):
            _record(folder, warning, key)
        if is_on("HATCH_CUBIN_NO_COMPILE"):
            raise CubinNotFoundError(f"{warning}; HATCH_CUBIN_NO_COMPILE is set")
        warnings.warn(warning, stacklevel=_depth_of_caller())


def read(entry: "Entry") -> bytes:
    """Return the verified bytes of an entry, for a library to load."""
    data = _verified(entry)
    place = "" if not entry.arch else entry._file_path
    sys.audit("hatch_cubin.load", _NAME, entry.module, entry.arch, place, entry.sha256)
    return data


def refuse_other_version(build: str, file: str) -> None:
    """Raise CubinError if the loader's *file* for a library is of another version than the loader's core."""
    if build != _build_of_core:
        what = f"{file} is missing, damaged, or of another version than the imported loader"
        raise CubinError(_message(f"{what}: restart the process"))


def is_on(variable: str) -> bool:
    """Return whether an environment variable turns something on."""
    return os.environ.get(variable, "").lower() not in ("", "0", "false", "no", "off")


def _depth_of_caller() -> int:
    """Return the stack level at which `warnings.warn` finds the first frame outside the loader."""
    folder = os.path.dirname(__file__)
    depth, frame = 1, sys._getframe(1)
    while os.path.dirname(frame.f_code.co_filename) == folder and frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    return depth


def _record(folder: str, warning: CompiledAtRunTimeWarning, key: "str | None") -> None:
    """Write a file that describes a call into a folder. The file's name is a digest of the call."""
    fields = {**vars(warning), "key": key, "package": _NAME}
    data = _import("json").dumps(fields, sort_keys=True).encode()
    path = os.path.join(folder, f"{_import('hashlib').sha256(data).hexdigest()}.json")
    if not os.path.exists(path):
        unfinished = f"{path}.{os.getpid()}.{_import('_thread').get_ident()}"
        with open(unfinished, "wb") as file:
            file.write(data)
        os.replace(unfinished, path)


__build__ = "c8f3d0de63390474"
