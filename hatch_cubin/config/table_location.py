"""Find the project's configuration table: its file and its name depend on the build backend."""

from __future__ import annotations

import codecs
import errno
import os
import re
import shlex
from collections.abc import Mapping
from typing import Any

from ..common import file_access, read_limits
from ..errors import ConfigError, Location, Problem, problem
from . import known_names, toml_positions
from .known_names import (
    HATCHLING_KEYS,
    HOOK,
    WRAPPER,
    inside,
    is_misnamed_wrapper,
    is_required,
    misnamed,
    misnamed_in_hatch_toml,
)
from .toml_positions import TableLocation

__all__ = [
    "HATCH_BACKENDS",
    "HOOK",
    "OWN_TABLE",
    "NoTableError",
    "find_table",
    "has_own_table",
    "hatch_table",
    "hidden",
    "inside",
    "is_hidden",
    "misnamed_hook",
    "own_table",
    "place_of",
    "read_project",
    "required",
    "requires_hatch_cubin",
    "unread_table",
]

OWN_TABLE = ("tool", "hatch-cubin")
HATCH_BACKENDS = ("hatchling.build", "hatchling.ouroboros")
_INNER_TABLES = ("source", "module", "producer")
# tables in which users may have written a shortened header such as [[source]]
_OUTER_TABLES = ((), ("tool",), ("tool", "hatch", "build", "hooks"))
_HATCH_TOML = "hatch.toml"
_PYPROJECT = "pyproject.toml"
_ELSEWHERE_HINT = "run the command in a project, or name the project's folder: --project DIR"
_EMPTY_HINT = "an empty pyproject.toml is enough beside a setup.py: 'hatch-cubin init' adds the table"
_START_HINT = "'hatch-cubin init' adds the table"
_HATCH_BUILD = 'requires = ["hatchling", "hatch-cubin"] and build-backend = "hatchling.build"'

_STRINGS = re.compile(r""""[^"]*"|'[^']*'""")
_CONFLICT_MARKER = re.compile(r"(<{7}|={7}|>{7})( |$)")
_SLIPS = (  # common mistakes in TOML: a regular expression for the line, and advice
    (
        re.compile(r"=\s*\{\s*(#.*)?$"),
        "a table in braces must end on its line; write a long one below a [header]",
    ),
    (re.compile(r"=\s*(True|False)\b"), "write true and false in lower case"),
    (re.compile("[\u201c\u201d\u2018\u2019]"), "TOML accepts only straight quotes"),
    (re.compile("//"), "a comment in TOML begins with #"),
    (re.compile(r"^\s*[\w-]+\s*:"), "write = between a key and its value"),
    (re.compile(r"[\[=,]\s*(?!true|false|inf|nan)[A-Za-z_]"), "write texts in quotes"),
)

Folder = str | os.PathLike[str]


class NoTableError(ConfigError):
    """Raised if hatch-cubin's table is not in the place that the project's build backend reads.

    *place* is the location where the build backend looks for the configuration. *unread* is the location of a
    table that the build backend does not read, if there is one. If *may_build_with_hatch* is true, the hint
    also says how to choose Hatch, which reads this table.
    """

    def __init__(
        self, place: TableLocation, unread: TableLocation | None = None, *, may_build_with_hatch: bool = False
    ) -> None:
        if unread is None:
            missing = problem("no-table", f"there is no table {place}", Location(place.file), _START_HINT)
        elif is_hidden(unread, place):
            missing = hidden(unread, place)
        else:
            hint = f"rename {unread.renamed(place)}: the build backend does not read {unread}"
            if may_build_with_hatch:
                hint = (
                    f"rename {unread.renamed(place)}: the build backend does not read {unread}; "
                    f"or, to build with Hatch, add a table [build-system] with {_HATCH_BUILD}"
                )
            if unread.file != place.file:
                hint = f"move {unread} from {unread.file} to {place.file}, and rename it to {place}"
            missing = problem("no-table", f"there is no table {place}", Location(place.file), hint)
        super().__init__(missing)
        self.place = place


def is_hidden(unread: TableLocation, right: TableLocation) -> bool:
    """Return whether Hatch ignores a table in pyproject.toml because hatch.toml replaces its parent table."""
    return (unread.file, right.file) == (_PYPROJECT, _HATCH_TOML) and unread.table[1] == "hatch"


def hidden(unread: TableLocation, right: TableLocation) -> Problem:
    """Return a problem: because of hatch.toml, Hatch ignores a table of pyproject.toml."""
    part = f"[{right.table[0]}]"
    what = f"Hatch does not read {unread}, because {part} in {_HATCH_TOML} replaces this table"
    return problem("table-in-wrong-place", what, unread.of(), f"move this table to {_HATCH_TOML}, as {right}")


def find_table(root: Folder) -> tuple[Mapping[str, Any], TableLocation, str]:
    """Return hatch-cubin's table in the project at *root*, its location, and the project's build backend."""
    pyproject, backend = read_project(root)
    if backend in HATCH_BACKENDS:
        build = inside(_hatch_settings(root, pyproject), "build")
        table, place = hatch_table(root, build, "wheel")
    else:
        table, place = own_table(root)
    return table, place, backend


def read_project(root: Folder) -> tuple[Mapping[str, Any], str]:
    """Return the parsed pyproject.toml at *root*, and the project's build backend.

    Raise ConfigError if the backend is a misspelling of `hatch_cubin.backend`, or the name of a tool.
    """
    pyproject = _read(root, _PYPROJECT)
    system = inside(pyproject, "build-system")
    backend = str(system.get("build-backend", "setuptools.build_meta"))
    right = WRAPPER if is_misnamed_wrapper(backend) else known_names.backend_of_tool(backend)
    if right != backend and "backend-path" not in system:
        where = place_of(root, ("build-system",)).of("build-backend")
        what = f"there is no build backend {backend!r}"
        raise ConfigError(problem("unknown-build-backend", what, where, f'build-backend = "{right}"'))
    return pyproject, backend


def hatch_table(
    root: Folder, build: Mapping[str, Any], target: str
) -> tuple[Mapping[str, Any], TableLocation]:
    """Return hatch-cubin's table in Hatch's settings.

    The function looks for the table for wheels, then for the table for all targets, and last for the table
    for *target* (such as 'sdist'), and returns the first table that it finds.
    """
    path = _hook_path(build, target)
    if path is None:
        unread = unread_table(root, HATCH_BACKENDS[0])
        right = _hatch_place(root, ("hooks", HOOK))
        if unread is not None and unread.file == _HATCH_TOML:
            right = TableLocation(_HATCH_TOML, _text(root, _HATCH_TOML), ("build", "hooks", HOOK))
        raise NoTableError(right, unread)
    place = _hatch_place(root, path)
    if has_own_table(root):
        raise _unread(_own_place(root), place)
    if (within := _misnamed_in_hatch_toml(root)) is not None:
        raise _unread(within, place)
    if (replaced := _replaced(root)) is not None:
        raise _unread(replaced, place)
    _refuse_second_table(root, build, path)
    return _checked(root, inside(build, *path[:-1])[HOOK], place)


def _refuse_second_table(root: Folder, build: Mapping[str, Any], path: tuple[str, ...]) -> None:
    """Raise ConfigError if Hatch reads the table at *path*, and another table also configures hatch-cubin."""
    read = _hatch_place(root, path)
    for target in ((), *(("targets", name) for name in inside(build, "targets"))):
        other = (*target, "hooks", HOOK)
        if other == path or not inside(build, *other).keys() - HATCHLING_KEYS:
            continue
        unread = _hatch_place(root, other)
        (found,) = _unread(unread, read).problems
        if (
            not target and str(read) not in read.headers
        ):  # Hatch reads only inner tables, such as [[….source]]
            found = found._replace(hint=f"rename {read.renamed(unread)}")
        raise ConfigError(found)


def own_table(root: Folder) -> tuple[Mapping[str, Any], TableLocation]:
    """Return the table `[tool.hatch-cubin]`: every build backend except hatchling reads this table."""
    pyproject = _read(root, _PYPROJECT)
    place = _own_place(root)
    tool = inside(pyproject, "tool")
    path = _hook_path(inside(_hatch_settings(root, pyproject), "build"), "sdist")
    if OWN_TABLE[1] not in tool:
        may_build_with_hatch = path is not None and "build-system" not in pyproject
        raise NoTableError(place, unread_table(root, ""), may_build_with_hatch=may_build_with_hatch)
    if path is not None:
        raise _unread(_hatch_place(root, path), place)
    return _checked(root, tool[OWN_TABLE[1]], place)


def has_own_table(root: Folder) -> bool:
    """Return whether the project has a `[tool.hatch-cubin]`."""
    return OWN_TABLE[1] in inside(_read(root, _PYPROJECT), "tool")


def unread_table(root: Folder, backend: str) -> TableLocation | None:
    """Return the location of a table for hatch-cubin that the build backend does not read, or None."""
    pyproject = _read(root, _PYPROJECT)
    settings = _hatch_settings(root, pyproject)
    path = _hook_path(inside(settings, "build"), "sdist")
    if backend in HATCH_BACKENDS:
        if has_own_table(root):
            return _own_place(root)
        if path is not None:  # a table for a target that is not the wheel
            return _hatch_place(root, path)
    elif path is not None:
        return _hatch_place(root, path)
    for unread in (_misnamed_in_hatch_toml(root), _replaced(root)):
        if unread is not None:
            return unread
    wrong = next((place for place in misnamed(pyproject, settings) if place != OWN_TABLE), None)
    return None if wrong is None else place_of(root, wrong)


def _replaced(root: Folder) -> TableLocation | None:
    """Return the location of a table that Hatch ignores, because [build] in hatch.toml replaces the table."""
    if not _has_hatch_toml(root) or "build" not in _read(root, _HATCH_TOML):
        return None
    outer = ("tool", "hatch", "build")
    path = _hook_path(inside(_read(root, _PYPROJECT), *outer), "sdist")
    return None if path is None else TableLocation(_PYPROJECT, _text(root, _PYPROJECT), (*outer, *path))


def _misnamed_in_hatch_toml(root: Folder) -> TableLocation | None:
    path = misnamed_in_hatch_toml(_read(root, _HATCH_TOML)) if _has_hatch_toml(root) else None
    return None if path is None else TableLocation(_HATCH_TOML, _text(root, _HATCH_TOML), path)


def misnamed_hook(root: Folder, name: str) -> ConfigError:
    """Return the error for a misspelled name of hatch-cubin's hook for Hatch.

    The hint of the error contains the right name.
    """
    build = inside(_hatch_settings(root, _read(root, _PYPROJECT)), "build")
    targets = inside(build, "targets")
    homes = [*(("targets", target, "hooks") for target in targets), ("hooks",)]
    home = next(path for path in homes if name in inside(build, *path))
    place, right = _hatch_place(root, (*home, name)), _hatch_place(root, (*home, HOOK))
    what = f"there is no hook {name!r}"
    return ConfigError(problem("unknown-hook", what, place.of(), f"did you mean {right}?"))


def requires_hatch_cubin(root: Folder) -> bool:
    """Return whether the project requires hatch-cubin for a build."""
    pyproject = _read(root, _PYPROJECT)
    return is_required(pyproject, _hatch_settings(root, pyproject))


def required(root: Folder) -> list[str]:
    """Return the texts of the project's build requirements, unchanged from the project's settings."""
    pyproject = _read(root, _PYPROJECT)
    return [*map(str, known_names.required(pyproject, _hatch_settings(root, pyproject)))]


def _own_place(root: Folder) -> TableLocation:
    text = _text(root, _PYPROJECT)
    return TableLocation(_PYPROJECT, text, OWN_TABLE, wraps=read_project(root)[1] == WRAPPER)


def _hook_path(build: Mapping[str, Any], target: str) -> tuple[str, ...] | None:
    """Return the path of the hook's table in Hatch's `build` table, or None if there is no such table."""
    places: list[tuple[str, ...]] = [("targets", "wheel"), (), ("targets", target)]
    return next(((*path, "hooks", HOOK) for path in places if HOOK in inside(build, *path, "hooks")), None)


def _hatch_settings(root: Folder, pyproject: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return Hatch's settings: a key in hatch.toml takes precedence over the same key in pyproject.toml."""
    settings = inside(pyproject, "tool", "hatch")
    return {**settings, **_read(root, _HATCH_TOML)} if _has_hatch_toml(root) else settings


def _hatch_place(root: Folder, path: tuple[str, ...]) -> TableLocation:
    return place_of(root, ("tool", "hatch", "build", *path))


def place_of(root: Folder, path: tuple[str, ...]) -> TableLocation:
    """Return the location of a table: a table of Hatch may be in hatch.toml instead of pyproject.toml."""
    if path[:2] == ("tool", "hatch") and _has_hatch_toml(root):
        text = _text(root, _HATCH_TOML)
        if path[2] in toml_positions.loads(text):
            return TableLocation(_HATCH_TOML, text, path[2:])
    return TableLocation(_PYPROJECT, _text(root, _PYPROJECT), path)


def _has_hatch_toml(root: Folder) -> bool:
    return os.path.isfile(os.path.join(root, _HATCH_TOML))


def hint_of_project_above(root: Folder) -> str | None:
    """Return a hint that names the nearest project above the folder *root*; None if there is no project."""
    folder, above = os.path.abspath(root), os.path.dirname(os.path.abspath(root))
    while above != folder:
        if os.path.isfile(os.path.join(above, _PYPROJECT)):
            return f"name the project that contains this folder: --project {shlex.quote(above)}"
        folder, above = above, os.path.dirname(above)
    return None


def _read(root: Folder, name: str) -> Mapping[str, Any]:
    try:
        found = toml_positions.loads(text := _text(root, name))
    except (FileNotFoundError, NotADirectoryError):
        if os.path.isfile(root):
            what = f"a project is a folder, but {os.path.abspath(root)} is a file"
            folder = shlex.quote(os.fspath(os.path.dirname(root)) or os.curdir)
            name_it = f"name the folder: --project {folder}"
            raise ConfigError(problem("not-a-project", what, hint=name_it)) from None
        what = f"there is no {name} in {os.path.abspath(root)}"
        hint = _EMPTY_HINT if os.path.isfile(os.path.join(root, "setup.py")) else hint_of_project_above(root)
        hint = hint or _ELSEWHERE_HINT
        raise ConfigError(problem("not-a-project", what, hint=hint)) from None
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise ConfigError(problem("file-not-readable", what, Location(name))) from exc
    except (ValueError, RecursionError) as exc:
        raise ConfigError(_not_toml(root, name, exc)) from exc
    if toml_positions.is_too_deep(found):
        what = f"nests tables or arrays more than {toml_positions.MAX_DEPTH} levels deep"
        where = Location(name, toml_positions.broken_line(text))
        raise ConfigError(
            problem("invalid-toml", what, where, "write shorter keys, with fewer dots or brackets")
        )
    return found


def _not_toml(root: Folder, name: str, error: Exception) -> Problem:
    line, hint = None, None
    if _has_bom(root, name):
        hint = "save the file as UTF-8, without a byte order mark (BOM)"
    elif isinstance(error, UnicodeError):
        line, hint = _line_not_in_utf8(root, name), "save the file as UTF-8"
    else:
        line = toml_positions.broken_line(_text(root, name))
        said = re.search("at line ([0-9]+)", str(error))
        number = int(said[1]) if said else line or 1
        text = _STRINGS.sub("''", "".join(_text(root, name).splitlines()[number - 1 : number]))
        if _CONFLICT_MARKER.match(text):
            line, hint = number, "this line is a marker of a merge conflict: resolve the conflict"
        elif "Invalid statement" in str(error):
            line = number
        elif line is not None and f"at line {line}," not in str(error):
            hint = (
                f"the value that begins on line {line} has no closing quote or bracket, or contains a mistake"
            )
        for right in [right for slip, right in _SLIPS if slip.search(text)][:1]:
            line, hint = number, right
        if "overwrite" in str(error) or "Cannot declare" in str(error):
            line, hint = number, "the file has this key or table twice: keep one of them"
    return problem("invalid-toml", f"is not TOML: {error}", Location(name, line), hint)


def _has_bom(root: Folder, name: str) -> bool:
    """Return whether a file begins with a byte order mark, which TOML parsers reject."""
    with open(os.path.join(root, name), "rb") as file:
        return file.read(3).startswith((codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))


def _line_not_in_utf8(root: Folder, name: str) -> int:
    """Return the line of the first byte of a file that is not text in UTF-8."""
    with open(os.path.join(root, name), encoding="utf-8", errors="surrogateescape") as file:
        return re.split("[\udc80-\udcff]", file.read(), maxsplit=1)[0].count("\n") + 1


def _text(root: Folder, name: str) -> str:
    path = os.path.join(root, name)
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise OSError(errno.EINVAL, "it is not a regular file")  # opening a pipe would block
    with open(path, encoding="utf-8") as file:
        file_access.refuse_larger(file.fileno(), read_limits.TABLE)
        return file.read()


def _checked(root: Folder, table: Any, place: TableLocation) -> tuple[Mapping[str, Any], TableLocation]:
    if not isinstance(table, Mapping):
        is_array = isinstance(table, list) and [*map(type, table)] == [dict]
        hint = f"write the header with single brackets: {place}" if is_array else None
        what = f"{place} must be a table, not {table!r}"
        raise ConfigError(problem("invalid-value", what, place.of(), hint))
    _refuse_wrong_headers(root, place)
    place.root = os.path.abspath(root)
    return table, place


def _refuse_wrong_headers(root: Folder, place: TableLocation) -> None:
    """Raise ConfigError for tables that the user meant for hatch-cubin, but that have wrong headers.

    The header of a table is wrong if it is misspelled, or if it is shortened to the form in the
    documentation, such as `[[source]]`.
    """
    pyproject = _read(root, _PYPROJECT)
    wrong = [
        (table, f"[[{'.'.join(table.table)}]]", f"write {place.tables(key)} in place of this header")
        for outer in _OUTER_TABLES
        for key in _INNER_TABLES
        if isinstance(inside(pyproject, *outer).get(key), list)
        for table in [TableLocation(_PYPROJECT, _text(root, _PYPROJECT), (*outer, key))]
    ]
    wrong += [
        (table, table.headers[0], f"rename {table.renamed(place)}")
        for path in misnamed(pyproject, _hatch_settings(root, pyproject))
        if path != OWN_TABLE and not _is_hook_path(path)
        for table in [place_of(root, path)]
    ]
    problems = [
        problem(
            "table-in-wrong-place",
            f"{header} is not in hatch-cubin's table, so hatch-cubin does not read it",
            table.of(),
            hint,
        )
        for table, header, hint in wrong
    ]
    if problems:
        raise ConfigError(*problems)


def _is_hook_path(path: tuple[str, ...]) -> bool:
    """Return whether Hatch reads the table at *path* as a hook of hatch-cubin, for at least one target."""
    outer = ("tool", "hatch", "build")
    return path in {(*outer, *target, "hooks", HOOK) for target in ((), ("targets", *path[4:5]))}


def _unread(place: TableLocation, read: TableLocation) -> ConfigError:
    other = str(read) if read.file == place.file else f"{read} in {read.file}"
    hint = f"move the keys and inner tables that are only in this table to {other}, and delete this table"
    # the project has only inner tables, such as [[….source]]
    if place.file == read.file and str(place) not in place.headers:
        hint = f"rename {place.renamed(read)}"
    elif place.file == _HATCH_TOML and place.table[0] != "build":
        hint += (
            f"; do not use [build.hooks.{HOOK}], because with any [build] in {_HATCH_TOML}, "
            "hatchling ignores all of [tool.hatch.build]"
        )
    what = f"the project's build backend reads the table {other}, and does not read this table"
    return ConfigError(problem("two-tables", what, place.of(), hint))
