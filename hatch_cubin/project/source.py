"""Find the project's sources, and decode their text for the compiler."""

from __future__ import annotations

import codecs
import functools
import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ..common import file_access, read_limits
from ..common.arch_names import parse_arch
from ..common.capabilities import first_ptx
from ..common.digest import file_digest
from ..config.config import Macros, SourceRule
from ..errors import Location, SourceError, problem
from . import disk
from .source_roots import ProjectTree

BUNDLE_FOLDER = "_cubins"
_SKIPPED_FOLDERS = frozenset({BUNDLE_FOLDER, "__pycache__", "node_modules"})
_GLOB_PIECE = re.compile(r"(?:\*\*/)+|\*\*+|\*|\?|\[(?:[!^].|[^!^])[^\]]*\]|.", re.DOTALL)
LFS_HINT = "the file is only a pointer of Git LFS: 'git lfs pull' downloads its content"
SUFFIXES = (".cu", ".ptx", ".tileir")  # the suffixes of sources
TILE_IR_MAGIC = b"\x7fTileIR\0"
_WIDE_BOMS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """A source that a Python function returned: its producer, the parts of its name, and its settings."""

    producer: str  # the path of the Python file with the function
    by: str  # the path of the Python file, and the function's name
    file: str  # the name of the source without its variant
    base: str
    rule: SourceRule
    variant: Macros = ()  # a part of the module's name; no macros are defined for it
    arch: str = ""  # the only arch that this source is for; empty for a source of all archs
    settings: Mapping[str, Any]  # the settings as the Python function returned them

    @property
    def leave_out(self) -> str:
        """A hint to remove this source; it names the Python file whose function returns the source."""
        return f"remove this source from the texts that {self.producer} returns"


@dataclass(frozen=True)
class Source:
    """One `.cu`, `.ptx` or `.tileir` file: its path in the project, its text, and the digest of its bytes.

    A source that a Python function returned is not on the disk, but is treated like a file beside the
    function's file.
    """

    path: str
    text: str
    sha256: str = ""
    encoding: str = "utf-8"  # the encoding of the source file
    produced: Production | None = field(default=None, hash=False)
    is_text_known: bool = True  # false for a produced source that the lock file describes
    locked_key: str = ""  # the key of a library's call, if the lock file describes the source
    recorded: SourceRule | None = field(
        default=None, hash=False
    )  # for a recorded call, the settings in its file

    @functools.cached_property
    def is_ptx(self) -> bool:
        return is_ptx(self.path)

    @functools.cached_property
    def is_tile_ir(self) -> bool:
        return is_tile_ir(self.path)

    @property
    def is_cpp(self) -> bool:
        """Whether the source is CUDA C++, and neither PTX nor Tile IR."""
        return not (self.is_ptx or self.is_tile_ir)

    @property
    def code(self) -> bytes:
        """The bytes to compile.

        PTX keeps the encoding of its file, because ptxas may copy bytes of the text into the cubin. Tile IR
        is binary: its text has a character for each byte.
        """
        return self.text.encode("utf-8" if self.is_cpp else self.encoding)

    @property
    def own_rule(self) -> SourceRule | None:
        """The settings that belong to this source alone, and not to a [[source]] table."""
        return self.produced.rule if self.produced else self.recorded

    def line_in_file(self, line: int) -> int:
        """Return the line number in the file for a line number in the text.

        In the file of a recorded call, the text begins on the second line.
        """
        return line if self.recorded is None else line + 1

    @property
    def stem(self) -> str:
        return self.produced.base if self.produced else PurePosixPath(self.path).stem

    @property
    def path_for_globs(self) -> str:
        """The path to compare with globs in pyproject.toml, without the variant of a produced source."""
        return f"{self.folder}/{self.produced.file}".removeprefix("./") if self.produced else self.path

    @property
    def name_path(self) -> str:
        """The path that determines the module's name: the same path for all produced sources of a module."""
        return f"{self.folder}/{self.produced.base}.cu" if self.produced else self.path

    @property
    def variant(self) -> Macros:
        """The variant in the name of a produced source."""
        return self.produced.variant if self.produced else ()

    @property
    def arch(self) -> str:
        """The only arch that a produced source is for; empty for a source of all archs."""
        return self.produced.arch if self.produced else ""

    @property
    def folder(self) -> str:
        return str(PurePosixPath(self.path).parent)

    @functools.cached_property
    def ptx(self) -> PtxHeader:
        """The values of `.version` and `.target` in a PTX source."""
        return read_ptx_header(self)


class PtxHeader(NamedTuple):
    """The values of `.version` and `.target` in a PTX text, and the line of `.target`."""

    version: tuple[int, int]
    target: str
    target_line: int
    target_text: str


def is_ptx(path: str) -> bool:
    """Return whether the name of a source ends with `.ptx`."""
    return path.lower().endswith(".ptx")


def is_tile_ir(path: str) -> bool:
    """Return whether the name of a source ends with `.tileir`, the suffix of Tile IR."""
    return path.lower().endswith(".tileir")


def decode_tile_ir(data: bytes, where: Location) -> tuple[str, str]:
    """Return Tile IR as a text with a character for each byte, and the name of this encoding.

    Raise SourceError, with the location *where*, if *data* is not the bytecode that tileiras reads.
    """
    if not data.startswith(TILE_IR_MAGIC):
        what = "is not Tile IR bytecode, which begins with the bytes 7F 54 69 6C 65 49 52 00"
        hint = LFS_HINT if is_lfs_pointer(data[:100].decode("latin-1")) else None
        raise SourceError(problem("not-tile-ir", what, where, hint))
    return data.decode("latin-1"), "latin-1"


def decode_source(data: bytes, where: Location) -> tuple[str, str]:
    """Decode a source as UTF-8, or as Latin-1 if it is not valid UTF-8; return the text and the encoding.

    The text does not contain the byte order mark of UTF-8.

    Raise SourceError, with the location *where*, if *data* is not text that a compiler can read.
    """
    if data.startswith(_WIDE_BOMS):
        what = "is UTF-16 or UTF-32: save it as UTF-8"
        raise SourceError(problem("unsupported-encoding", what, where))
    if data.startswith((b"\x7fELF", b"\x50\xed\x55\xba")):
        what = "is a cubin or other machine code, but a source must be text"
        hint = "list the file in 'link' of a [[…module]] table, or in 'exclude'"
        raise SourceError(problem("machine-code-as-source", what, where, hint))
    if b"\0" in data:
        what = "contains a NUL byte, at which the compiler would stop reading without an error"
        # In UTF-16, every second byte of ASCII text is a NUL byte.
        is_wide = data.count(0) * 3 > len(data)
        save = "the file is probably UTF-16: save it as UTF-8" if is_wide else None
        raise SourceError(problem("nul-byte-in-source", what, where, save))
    try:
        text, encoding = data.decode("utf-8-sig"), "utf-8"
    except UnicodeDecodeError:
        text, encoding = data.removeprefix(codecs.BOM_UTF8).decode("latin-1"), "latin-1"
    return text.replace("\r\n", "\n").replace("\r", "\n"), encoding


class ProjectFiles:
    """An index of the project's files, to find files by patterns.

    The index lists each folder of the project only once.

    *packages* maps import packages to their project-relative folders. A pattern is relative to the project's
    folder or to the folder of a package. A pattern that begins with a wildcard matches only files in
    packages.
    """

    def __init__(self, tree: ProjectTree, packages: Mapping[str, str]) -> None:
        self._tree = tree
        self._folders = [str(PurePosixPath(folder)) for folder in packages.values()]
        self._inside = self._files_by_name(self._folders)
        self._outside: dict[str, dict[str, list[str]]] = {}

    def find(self, patterns: Iterable[str], exclude: Iterable[str]) -> tuple[list[str], list[str]]:
        """Return the paths of files that *patterns* match, and the patterns that match no file."""
        matched = {pattern: self.matching(pattern) for pattern in patterns}
        found = sorted({path for paths in matched.values() for path in paths})
        left = self.without(found, exclude)
        return left, [pattern for pattern, paths in matched.items() if not paths]

    def without(self, paths: Iterable[str], exclude: Iterable[str]) -> list[str]:
        """Return the *paths* that no pattern of *exclude* matches."""
        excluded = [glob_regex(pattern) for pattern in exclude]
        return [
            path
            for path in paths
            if not any(rule.fullmatch(name) for rule in excluded for name in self._names(path))
        ]

    def matching(self, pattern: str, *, hidden: bool = False) -> list[str]:
        """Return the project-relative paths of the files that *pattern* matches.

        As in a shell, a wildcard does not match a hidden file, such as `._k.cu` of macOS. If *hidden* is
        true, a wildcard matches hidden files too.
        """
        rule, is_plain = glob_regex(pattern), not is_glob(pattern)
        all_match = hidden or is_plain or "/." in f"/{pattern}"
        is_hidden = re.compile(r"(?!)" if all_match else r"(?:.*/)?\.[^/]*")
        found: set[str] = set()
        for named in (self._inside, self._files_with_prefix(pattern)):
            for name in (pattern,) if is_plain else named:
                if rule.fullmatch(name) and not is_hidden.fullmatch(name):
                    found.update(named.get(name, ()))
        return sorted(found)

    def _files_with_prefix(self, pattern: str) -> Mapping[str, list[str]]:
        """Return the files below the folder at the start of *pattern*; empty if it starts with a wildcard."""
        first = re.match(r"[^*?\[]*(?=/)|[^*?]*$", pattern)  # `g[1].cu` may be the whole name of a file
        if not first or not first[0]:
            return {}
        if first[0] not in self._outside:
            self._outside[first[0]] = self._files_by_name([first[0]])
        return self._outside[first[0]]

    def _files_by_name(self, folders: Iterable[str]) -> dict[str, list[str]]:
        paths = dict.fromkeys(path for each in folders for path in walk(self._tree, each, strict=True))
        named: dict[str, list[str]] = {}
        for path in paths:
            for name in self._names(path):
                named.setdefault(name, []).append(path)
        return named

    def _names(self, path: str) -> list[str]:
        return [path, *(path[len(each) + 1 :] for each in self._folders if path.startswith(each + "/"))]


def walk(tree: ProjectTree, folder: str, *, strict: bool = False) -> Iterator[str]:
    """Yield the paths of all files below a folder of the project; if *folder* is a file, yield its path.

    Links to folders are not followed. A folder that cannot be read is skipped. If *strict* is true, an
    unreadable folder raises SourceError; without this error, a build would silently leave the kernels in the
    folder out of the wheel.
    """
    start = tree.disk_path(folder)

    def failed(exc: OSError) -> None:
        if strict:
            raise disk.unreadable_error(exc, exc.filename, tree) from exc

    if BUNDLE_FOLDER in PurePosixPath(folder).parts or not tree.is_inside(folder):
        return
    if disk.is_file(start, tree):
        yield folder
    above = "" if (inner := str(PurePosixPath(folder))) == "." else f"{inner}/"
    start_ends = len(os.path.join(start, ""))
    for parent, folders, files in os.walk(start, onerror=failed) if os.path.isdir(start) else ():
        folders[:] = sorted(
            name for name in folders if name not in _SKIPPED_FOLDERS and not name.startswith(".")
        )
        for name in folders if strict else ():
            own = above + os.path.join(parent, name)[start_ends:].replace(os.sep, "/")
            if tree.source_root_of(own) and not tree.is_inside(
                own
            ):  # without this error, kernels in the folder would be missing without a message
                raise disk.outside_link_error(tree, own)
        for name in sorted(files):
            yield above + os.path.join(parent, name)[start_ends:].replace(os.sep, "/")
    for each in tree.roots if not above else ():
        yield from walk(tree, each.name, strict=strict)


def is_glob(pattern: str) -> bool:
    """Return whether a pattern contains a wildcard."""
    return any(mark in pattern for mark in "*?[")


@functools.lru_cache(maxsize=1024)  # because many functions translate the same globs again for each source
def glob_regex(pattern: str) -> re.Pattern[str]:
    """Translate a glob into a regular expression; only `**` matches across folders.

    A glob also matches a path that is equal to it, so that users can name a file such as `k[1].cu`.

    The search with this expression must not take exponential time. Thus, as soon as the part between two
    wildcards has matched at its first place, the search tries no later place for this part.
    """
    pieces = _GLOB_PIECE.findall(pattern)
    starts = [number for number, piece in enumerate(pieces) if piece.startswith("**")]
    regex = _regex_without_double_stars(pieces[: starts[0] if starts else None], 0)
    for start, end in itertools.pairwise((*starts, len(pieces))):
        wildcard = "(?:[^/]+/)*?" if pieces[start].endswith("/") else ".*?"
        part = wildcard + _regex_without_double_stars(pieces[start + 1 : end], start + 1)
        # `**/` inside a name, as in `**a**/b`, cannot match a "/" first, so a later place of `a` may be right
        is_inside_name = pieces[end:] and pieces[end].endswith("/") and pieces[end - 1] != "/"
        regex += part if end == len(pieces) or is_inside_name else _at_first_place(part, start)
    itself = f"{re.escape(pattern)}|" if "[" in pattern else ""
    return re.compile(itself + regex, re.DOTALL)


def _regex_without_double_stars(pieces: Sequence[str], offset: int) -> str:
    """Translate a part of a glob; *offset* is the number of pieces before this part."""
    starts = [number for number, piece in enumerate(pieces) if piece == "*"]
    regex = "".join(map(_piece_regex, pieces[: starts[0] if starts else None]))
    for start, end in itertools.pairwise((*starts, len(pieces))):
        part = "[^/]*?" + "".join(map(_piece_regex, pieces[start + 1 : end]))
        ends_name = end == len(pieces) or "/" in pieces[start + 1 : end]
        regex += part if ends_name else _at_first_place(part, offset + start)
    return regex


def _at_first_place(regex: str, number: int) -> str:
    """Return a regular expression that matches only the first text that *regex* finds.

    Python 3.10 does not have atomic groups, which would do the same.
    """
    return f"(?=(?P<part{number}>{regex}))(?P=part{number})"


def _piece_regex(piece: str) -> str:
    if piece == "?":
        return "[^/]"
    return _class_regex(piece[1:-1]) if len(piece) > 1 else re.escape(piece)


def _class_regex(body: str) -> str:
    """Translate the text between `[` and `]` of a glob; a backward range such as `z-a` is empty."""
    negated = body[0] in "!^"
    members = "".join(
        re.escape(one) or f"{re.escape(low)}-{re.escape(high)}"
        for low, high, one in re.findall(r"(.)-(.)|(.)", body[negated:], re.DOTALL)
        if one or low <= high
    )
    if negated:
        return f"[^/{members}]"
    return f"(?!/)[{members}]" if members else "(?!)"


def read_source(tree: ProjectTree, path: str) -> Source:
    """Read one source; SourceError if it cannot be read, or is not text that a compiler can read."""
    here = Location(path)
    if not path.isprintable() or '"' in path or "\\" in path:
        what = f"the name {path!r} has characters that cannot be passed to a compiler"
        raise SourceError(problem("unusable-file-name", what, hint="rename the file"))
    full = tree.disk_path(path)
    try:
        # only the file itself can be a link, because `walk` does not follow links to folders
        status = os.lstat(full)
        if stat.S_ISLNK(status.st_mode):
            full.resolve(strict=True)
            if not tree.is_inside(path):
                raise disk.outside_link_error(tree, path)
            status = os.stat(full)
        if not stat.S_ISREG(status.st_mode):
            raise disk.not_regular_error(path)
        with open(full, "rb", buffering=0) as file:
            file_access.refuse_larger(file.fileno(), read_limits.SOURCE)
            data = file.read()
        text, encoding = (decode_tile_ir if is_tile_ir(path) else decode_source)(data, here)
        return Source(path, text, file_digest(data), encoding)
    except (OSError, RuntimeError) as exc:  # before Python 3.13, a loop of links is a RuntimeError
        what = f"cannot be read: {getattr(exc, 'strerror', None) or exc}"
        raise SourceError(problem("file-not-readable", what, here)) from exc


# Each alternative of this pattern begins with a plain character, which makes the search four times as fast.
_PTX_COMMENT = re.compile(r'/(?:/[^\n]*|\*.*?\*/)|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_PTX_ENTRY = re.compile(r"\.entry\s+([\w$%.]+)")
_OTHER_TARGET = re.compile(r"^[^\S\n]*\.target\s+([^\s,;]+)", re.MULTILINE)
_PTX_TARGET = re.compile(r"^[^\S\n]*(\.target\s+(sm_[0-9]+[af]?)\b[^\n]*)", re.MULTILINE)


def without_comments(text: str) -> str:
    """Replace the comments in a text by blanks, without changing the number of lines."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        if found.startswith("//"):
            return " " * len(found)
        return found if found[0] == '"' else re.sub(r"[^\n]", " ", found)

    return _PTX_COMMENT.sub(blank, text)


# Words that can define a kernel: `__global__`, its parts, or names of a library's macros. If in doubt, a text
# counts as a text with a kernel.
_POSSIBLE_KERNEL = re.compile(r"__global__|__glo|bal__|attribute\s*\(\s*\(\s*global|[A-Z]*(?:GLOBAL|KERNEL)")


def may_have_kernel(text: str) -> bool:
    """Return whether *text* may define a kernel."""
    return _POSSIBLE_KERNEL.search(without_comments(text)) is not None


def is_lfs_pointer(text: str) -> bool:
    """Return whether *text* is a pointer of Git LFS, in place of a file that was not downloaded."""
    return text.startswith("version https://git-lfs.github.com/spec/")


def read_ptx_header(source: Source) -> PtxHeader:
    """Return `.version` and `.target` of a PTX source.

    Raise SourceError if a directive is missing, or if `.version` is too old.
    """
    text = without_comments(_ptx_head(source.text))
    version = read_ptx_version(text)
    target = _PTX_TARGET.search(text)
    if not version or not target:
        missing = ".version" if not version else ".target"
        if version and (wrong := _OTHER_TARGET.search(text)):
            line = text.count("\n", 0, wrong.start()) + 1
            what = f".target {wrong[1]} is not a valid arch in PTX"
            meant = wrong[1].replace("compute_", "sm_")
            right = (
                f"write .target {meant}" if meant != wrong[1] else "write a valid arch, such as .target sm_90"
            )
            raise SourceError(problem("unknown-arch", what, Location(source.path, line), right))
        what = f"does not have a {missing} directive, so it is not valid PTX"
        hint = LFS_HINT if is_lfs_pointer(source.text) else None
        if "__global__" in text:
            hint = f"this is CUDA C++: rename the file to {source.path.removesuffix('.ptx')}.cu"
        raise SourceError(problem("ptx-header-missing", what, Location(source.path), hint))
    line = text.count("\n", 0, target.start(1)) + 1
    try:
        arch = parse_arch(target[2])
    except ValueError as exc:
        what = f".target: {exc}"
        raise SourceError(problem("unknown-arch", what, Location(source.path, line))) from None
    needed = first_ptx(arch.number, arch.suffix)
    if needed and version < needed:
        raise SourceError(
            problem(
                "ptx-version-too-old",
                f".version {_dotted(version)} is too old for .target {target[2]}",
                Location(source.path, text.count("\n", 0, text.find(".version")) + 1),
                f"write .version {_dotted(needed)}, or a later one",
            )
        )
    return PtxHeader(version, target[2], line, target[1].strip())


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))


def _ptx_head(text: str) -> str:
    """Return the start of a PTX text, up to `.target`.

    The result is the whole text if a comment or string precedes `.target`.
    """
    target = _PTX_TARGET.search(text)
    head = text[: target.end()] if target else text
    return text if "/*" in head or '"' in head or not read_ptx_version(head) else head


def read_ptx_version(text: str) -> tuple[int, int] | None:
    """Return the `.version` of a PTX text as two numbers; None if the directive is missing."""
    match = re.search(r"^\s*\.version\s+([0-9]{1,4})\.([0-9]{1,4})\b", text, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else None


def ptx_entries(text: str) -> tuple[str, ...]:
    """Return the names of the kernels that a PTX text defines, in the order of the text."""
    return tuple(dict.fromkeys(_PTX_ENTRY.findall(_PTX_COMMENT.sub(" ", text))))
