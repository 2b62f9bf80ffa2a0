"""List the code of one kernel: the PTX in a wheel, or the machine code as NVIDIA's nvdisasm prints it."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from typing import TypedDict

from ...bundle.manifest import ManifestEntry
from ...common import temporary_folders
from ...cubin.elf import symbol_number
from ...errors import BundleError, Problem, problem
from ...loader import normal_name
from .bundles import Bundle
from .compiled_code import read_results
from .survey import arch_order, manifest_of

_LINE_MARK = re.compile(r'\s*//## File "([^"]*)", line ([0-9]{1,9})')
_LOC = re.compile(r"\s*\.loc\s+([0-9]{1,9})\s+([0-9]{1,9})\b")
_FILE = re.compile(r'^\s*\.file\s+([0-9]{1,9})\s+"([^"\n]*)"', re.MULTILINE)
# Compilers see this path instead of the project's folder, so that all machines compile the same code.
_FOLDER = re.compile(r"^/(?:proc/self/fd/[0-9]{1,9}/)?")
_PADDING = re.compile(r"/\*[0-9a-f]+\*/\s*NOP\s*;|\.\w+:")
_TIMEOUT_S = 60


class LineFacts(TypedDict):
    """A line of a kernel's code, and the source line from which it was compiled, or None if unknown."""

    text: str
    file: str | None
    line: int | None


class Listing(TypedDict):
    """The code of a kernel for one arch."""

    module: str
    arch: str
    kernel: str
    symbol: str
    lines: list[LineFacts]


def code_listings(
    bundle: Bundle, kernel: str, kind: str, arch: str | None, program: str | None
) -> list[Listing]:
    """Return the code of a kernel, for one arch or for all archs.

    The list is empty if the bundle does not contain the kernel.

    Raise BundleError with the available archs if the kernel is not compiled for *arch*. *program* is the path
    of nvdisasm, which is needed only for machine code.
    """
    manifest = manifest_of(bundle).here
    name = normal_name(kernel)
    entries = ((module.name, entry) for module in manifest.modules for entry in module.entries)
    having = [(module, entry) for module, entry in entries if name in entry.kernels]
    asked = ((module, entry.arch) for module, entry in having if entry.kind == kind)
    wanted = {(module, each) for module, each in asked if arch in (None, each)}
    if having and not wanted:
        raise BundleError(_no_such_code(bundle, name, kind, arch, [entry for _module, entry in having]))
    found: list[Listing] = []
    for module, entry, data in read_results(bundle, manifest):
        if (module.name, entry.arch) not in wanted:
            continue
        if isinstance(data, BundleError):
            raise data
        symbol = entry.kernels[name]
        try:
            lines = (
                ptx_lines(data.decode(), symbol)
                if entry.is_ptx
                else machine_code_lines(data, symbol, program or "")
            )
        except ValueError as exc:
            raise BundleError(problem("code-unreadable", str(exc), bundle.at(entry.file))) from exc
        found.append(
            {
                "module": module.name,
                "arch": entry.arch,
                "kernel": name,
                "symbol": symbol,
                "lines": lines,
            }
        )
    return sorted(found, key=lambda each: (each["module"], arch_order(each["arch"])))


def _no_such_code(
    bundle: Bundle, name: str, kind: str, arch: str | None, having: Sequence[ManifestEntry]
) -> Problem:
    """Return an error for a kernel without code for *arch*; its hint lists the archs that have code."""
    archs = ", ".join(sorted({entry.arch for entry in having}, key=arch_order))
    hint = f"the bundle has code of this kernel for {archs}"
    code = "PTX" if kind == "ptx" else "machine code"
    what = f"does not have {code} of {name!r} for {arch or 'any arch'}"
    return problem("no-such-code", what, bundle.at("manifest.json"), hint)


def machine_code_lines(data: bytes, symbol: str, program: str) -> list[LineFacts]:
    """Return the machine code of a kernel, or raise ValueError if nvdisasm cannot read the file."""
    with temporary_folders.make() as folder:
        path = folder / "code.cubin"
        path.write_bytes(data)
        command = [program, "-c", "-g", "-fun", str(symbol_number(data, symbol)), str(path)]
        try:
            done = subprocess.run(command, capture_output=True, check=True, timeout=_TIMEOUT_S)  # noqa: S603
        except (OSError, subprocess.SubprocessError) as exc:
            raise ValueError(f"cannot be read by {program}: {exc}") from exc
    text = done.stdout.decode("utf-8", "replace")
    _, _, code = text.partition(f"\n.text.{symbol}:\n")
    lines = list(_with_source_lines(code.partition("\n//-----")[0].splitlines()))
    while lines and _PADDING.fullmatch(lines[-1]["text"]):
        lines.pop()  # the compiler fills the last cache line with instructions that do nothing
    return lines


def _with_source_lines(lines: Iterable[str]) -> Iterator[LineFacts]:
    file, number = None, None
    for line in lines:
        if mark := _LINE_MARK.match(line):
            file, number = _path_in_project(mark[1]), int(mark[2])
        elif line.strip():
            yield {"text": line.strip(), "file": file, "line": number}


def ptx_lines(text: str, symbol: str) -> list[LineFacts]:
    """Return the PTX of a kernel, or raise ValueError if the text does not contain the kernel."""
    start = re.search(rf"^[^\S\n]*(?:\.\w+\s+)*\.entry\s+{re.escape(symbol)}(?![\w$%.])", text, re.MULTILINE)
    if start is None:
        raise ValueError(f"does not contain the kernel {symbol}")
    end, depth = start.end(), 0
    for brace in re.finditer(r"[{}]", text[start.end() :]):
        depth += 1 if brace[0] == "{" else -1
        end = start.end() + brace.end()
        if not depth:
            break
    files = {number: _path_in_project(path) for number, path in _FILE.findall(text)}
    found: list[LineFacts] = []
    file, number = None, None
    for line in text[start.start() : end].splitlines():
        if loc := _LOC.match(line):
            file, number = files.get(loc[1]), int(loc[2])
        elif line.strip():
            found.append({"text": line.rstrip(), "file": file, "line": number})
    return found


def _path_in_project(path: str) -> str:
    """Return the path of a file in the project, without the placeholder for the project's folder."""
    return _FOLDER.sub("", path)
