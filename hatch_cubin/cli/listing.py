"""Implement `inspect --ptx` and `inspect --sass`, which print a kernel's code with its source lines."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from ..common import read_limits, user_folders
from ..errors import BundleError, Location, Problem, ToolchainError, problem
from ..wheels.reading.bundles import open_wheel
from ..wheels.reading.code_listing import Listing, code_listings
from ..wheels.reading.cuobjdump import find_tool
from .rendering import plain
from .verb_base import Answer

_SOURCES = (".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".inl", ".ptx", ".c", ".cc", ".cpp", ".cxx")
_WHICH = "without --ptx and --sass, 'hatch-cubin inspect' lists the kernels of a wheel"
_INSTALL = "pip install nvidia-cuda-nvdisasm, or put the nvdisasm of a toolkit on PATH"


def list_code(wheels: Iterable[str], kernel: str, kind: str, arch: str | None) -> Answer:
    """Return a kernel's code from each wheel, folder or package that the user named."""
    program = find_tool("nvdisasm", os.environ)
    if kind == "cubin" and program is None:
        what = "NVIDIA's nvdisasm, which prints machine code, is not installed here"
        raise ToolchainError(problem("nvdisasm-not-found", what, hint=_INSTALL))
    results: list[dict[str, Any]] = []
    lines: list[str] = []
    problems: list[Problem] = []
    for what in wheels:
        result: dict[str, Any] = {"named": what, "path": what, "listings": []}
        try:
            with open_wheel(what) as opened:
                result["path"] = opened.path
                for bundle in opened.bundles:
                    listed = code_listings(bundle, kernel, kind, arch, program)
                    result["listings"] += listed
                    lines += (line for each in listed for line in ("", *_lines(bundle.where, each)))
                if not result["listings"]:
                    absent = f"does not have a kernel {kernel!r}"
                    raise BundleError(problem("no-such-kernel", absent, Location(opened.path), _WHICH))
        except BundleError as exc:
            problems += exc.problems
        results.append(result)
    return Answer({"results": results}, lines[1:], problems)


def _lines(where: str, listing: Listing) -> Iterator[str]:
    module = "" if listing["module"] == listing["kernel"] else f" in {listing['module']}"
    yield plain(f"{where}: {listing['kernel']}{module} for {listing['arch']}")
    shown, texts = None, _SourceTexts()
    for line in listing["lines"]:
        place = line["file"], line["line"]
        if place != shown and line["file"] is not None and line["line"] is not None:
            shown = place
            text = texts.line(line["file"], line["line"])
            yield plain(f"  // {line['file']}:{line['line']}{text and f'  {text}'}")
        yield f"  {plain(line['text'].expandtabs(4))}"


class _SourceTexts:
    """Reads the lines of a wheel's sources, if the wheel's project is the current folder."""

    def __init__(self) -> None:
        self._read: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str:
        """Return a line of a source; "" if the file is not in the current folder or is not a source."""
        if file not in self._read:
            self._read[file] = self._lines(file)
        lines = self._read[file]
        return lines[number - 1].strip() if 0 < number <= len(lines) else ""

    def _lines(self, file: str) -> list[str]:
        inside = ".." not in file.replace("\\", "/").split("/") and not Path(file).is_absolute()
        if not inside or not file.lower().endswith(_SOURCES):  # An attacker's wheel may name any file.
            return []
        try:
            with user_folders.open_retained(Path(file), read_limits.SOURCE) as opened_file:
                return opened_file.read().decode("utf-8", "replace").splitlines()
        except OSError:
            return []
