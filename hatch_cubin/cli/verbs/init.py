"""Set a project up: add hatch-cubin's table, the build requirement, and a line to .gitignore.

Comments, layout and existing settings of pyproject.toml do not change. The added lines depend on the
project's build backend. Hatch and setuptools can run hatch-cubin as a plugin. If the project uses neither
Hatch nor setuptools, 'hatch_cubin.backend' becomes the build backend. 'hatch_cubin.backend' builds the
kernels, and calls the former build backend for the rest of the wheel.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...common import file_access, read_limits
from ...config import table_location, toml_edit
from ...config.known_names import WRAPPER, backend_meant, is_nearly_own, is_own, with_hatch_cubin
from ...config.toml_edit import Setting
from ...config.toml_positions import TableLocation
from ...errors import ConfigError, Location, problem
from ...frontends import open_project
from ...project.source import BUNDLE_FOLDER
from ..verb_base import Answer, folder_argument, json_argument

# `nvcc -arch=all-major` compiles for these archs in every release of CUDA 13 so far.
ARCHS = ("sm_75", "sm_80", "sm_90", "sm_100", "sm_110", "sm_120", "compute_120")
TOOLKIT = "13.0"

_PYPROJECT = "pyproject.toml"
_SETTINGS = (
    Setting(
        "archs",
        json.dumps(ARCHS),
        "every major GPU generation of CUDA 13, and PTX for future GPUs; fewer archs make a smaller wheel",
    ),
    Setting(
        "toolkit",
        f'"{TOOLKIT}"',
        "PTX needs a driver at least as new as the toolkit: all drivers for CUDA 13 can run PTX of CUDA 13.0",
    ),
)
_INSIDE = "the build backend that makes everything in the wheel except the kernels"
# Commands of build tools that do not run `hatch_cubin.backend`.
_PAST_OURS = {"flit_core": "flit build", "maturin": "maturin build"}
_KERNEL_FILES = ("*.cu", "*.cuh", "*.h", "*.ptx", "*.tileir")
_INSTALL, _BUILD = "pip install -e .", "pip wheel --no-deps ."
_WITHOUT_PIP = {_INSTALL: "uv sync", _BUILD: "uv build --wheel, pipx run hatch build -t wheel"}


_HOW_TO_BEGIN = (
    "'uv init --package', 'hatch new --init' or 'pipx run hatch new --init' makes a pyproject.toml"
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    folder_argument(parser)
    json_argument(parser)


def run(args: argparse.Namespace) -> Answer:
    """Add the missing settings, and return the changes and the next steps."""
    root = Path(args.project).absolute()
    files = _Files(root)
    if not os.path.lexists(root / _PYPROJECT):
        what = f"there is no {_PYPROJECT} in {root}"
        above = table_location.hint_of_project_above(root)
        hint = f"{above}; for a new project in this folder, {_HOW_TO_BEGIN}" if above else _HOW_TO_BEGIN
        if (root / "setup.py").exists():
            hint = f"make an empty {_PYPROJECT}: an empty file is enough beside a setup.py"
        raise ConfigError(problem("not-a-project", what, hint=hint))
    pyproject, backend = table_location.read_project(root)
    if (unclear := open_project.missing_build_system(root)) is not None:
        raise ConfigError(unclear)
    place, is_new, table = _own_table(root)
    if is_new and (unread := table_location.unread_table(root, backend)):
        if table_location.is_hidden(unread, place):
            raise ConfigError(table_location.hidden(unread, place))
        what = f"the project has a table {unread}, but its build backend does not read a table of this name"
        raise ConfigError(
            problem("table-in-wrong-place", what, unread.of(), f"rename {unread.renamed(place)}")
        )
    packages = _packages(root, backend, place)
    has_frontend = backend in (*table_location.HATCH_BACKENDS, WRAPPER) or backend.startswith("setuptools.")
    # If this value is false, only the command 'hatch-cubin bundle' builds the kernels.
    builds_kernels = has_frontend or is_new
    if builds_kernels:
        _require(files, pyproject, backend)
    if is_new:
        inside = _required(pyproject, backend) if has_frontend else _wrap(files, pyproject, backend)
        files.add_settings(place.file, place.table, *inside, *_SETTINGS)
    if builds_kernels:
        wanted = [*_kernel_keys(packages), *_outer_keys(packages, table), *_producer_keys(packages, table)]
        _add_cache_keys(files, pyproject, wanted)
    _ignore(files)
    files.save()
    folder = next(iter(packages.values()), "PACKAGE")
    following = [_INSTALL if builds_kernels else f"hatch-cubin bundle --into {folder}", _BUILD]
    facts = {"project": str(root), "changes": files.changes, "next": following}
    lines = [f"{change['file']}: {change['what']}" for change in files.changes]
    lines = lines or ["nothing to change"]
    if (command := _PAST_OURS.get(backend.partition(".")[0])) and builds_kernels:
        lines.append(
            f"'{command}' does not run hatch-cubin, so its wheels have no kernels: "
            "build with pip, uv or 'python -m build'"
        )
    return Answer(facts, [*lines, "next:", *map(_step, following)])


def _step(command: str) -> str:
    """Return a line with *command*, which the user can run next.

    If *command* uses pip, the returned line also shows the same command for other tools.
    """
    others = _WITHOUT_PIP.get(command)
    return f"  {command}" + (f"  (or: {others})" if others else "")


def _required(pyproject: Mapping[str, Any], backend: str) -> list[Setting]:
    """If the project uses `hatch_cubin.backend`, guess the key `backend` from the build requirements."""
    requires = (
        table_location.inside(pyproject, "build-system").get("requires") if backend == WRAPPER else None
    )
    known = map(backend_meant, re.findall(r"[\w.-]+", json.dumps(requires)))
    return [Setting("backend", f'"{meant}"', _INSIDE) for meant in known if meant][:1]


class _Files:
    """The edits that `init` makes to the project's files, and a list of these edits for the user."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._texts: dict[str, str] = {}
        self.changes: list[dict[str, str]] = []

    def read(self, name: str) -> str:
        """Return a file's text with its line endings unchanged, or an empty text if there is no such file."""
        if name in self._texts:
            return self._texts[name]
        path = self.root / name
        if path.exists() and not (path.is_file() or path.is_dir()):  # Opening a pipe would block forever.
            what = "cannot be read: it is not a regular file"
            raise ConfigError(problem("not-a-regular-file", what, Location(name)))
        try:
            return file_access.read(path, read_limits.TABLE).decode()
        except FileNotFoundError:
            return ""
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            what = f"cannot be read: {reason}"
            raise ConfigError(problem("file-not-readable", what, Location(name))) from exc

    def _change(self, name: str, text: str, what: str) -> None:
        self._texts[name] = text
        self.changes.append({"file": name, "what": what})

    def add_settings(self, name: str, table: tuple[str, ...], *settings: Setting) -> None:
        """Add keys to a TOML table."""
        lines = [f"[{'.'.join(table)}]", *(f"{setting.key} = {setting.value}" for setting in settings)]
        with _by_hand(name, lines):
            text = toml_edit.add_settings(self.read(name), table, settings)
        keys = ", ".join(setting.key for setting in settings)
        self._change(name, text, f"{lines[0]} {keys}")

    def add_items(self, name: str, array: tuple[str, ...], items: Sequence[str]) -> None:
        """Add items to a TOML array."""
        what = f"[{'.'.join(array[:-1])}] {array[-1]}"
        with _by_hand(name, [f"{what}: {', '.join(items)}"]):
            text = toml_edit.add_items(self.read(name), array, items)
        self._change(name, text, what)

    def replace_value(self, name: str, key: tuple[str, ...], value: str) -> None:
        """Replace the value of a TOML key."""
        what = f"[{'.'.join(key[:-1])}] {key[-1]} = {value}"
        with _by_hand(name, [what]):
            text = toml_edit.replace_value(self.read(name), key, value)
        self._change(name, text, what)

    def remove_key(self, name: str, key: tuple[str, ...]) -> None:
        """Remove a key from a TOML table."""
        what = f"[{'.'.join(key[:-1])}] without {key[-1]}"
        with _by_hand(name, [what]):
            text = toml_edit.remove_key(self.read(name), key)
        self._change(name, text, what)

    def add_line(self, name: str, line: str) -> None:
        """Add a line at the end of a file."""
        text = self.read(name)
        end = "\r\n" if "\r\n" in text else "\n"
        before = end if text and not text.endswith("\n") else ""
        self._change(name, f"{text}{before}{line}{end}", line)

    def save(self) -> None:
        """Write all changed files, unless an edit has failed.

        No file is written before all edits have succeeded.
        """
        for name, text in self._texts.items():
            try:
                _replace(Path(os.path.realpath(self.root / name)), text.encode())
            except OSError as exc:
                what = f"cannot be written: {exc.strerror}"
                raise ConfigError(problem("file-not-writable", what, Location(name))) from exc


def _replace(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that a full disk does not destroy the user's file."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(beside, "xb") as file:  # With the mode "x", `open` fails if the file exists.
            file.write(data)
        if path.exists():
            shutil.copymode(path, beside)
        beside.replace(path)
    except OSError:
        beside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def _by_hand(name: str, lines: Sequence[str]) -> Iterator[None]:
    """If an edit in the `with` block fails, raise ConfigError with *lines* that the user should add."""
    try:
        yield
    except ValueError as exc:
        what, hint = f"cannot be edited: {exc}", "add this by hand"
        raise ConfigError(problem("file-not-editable", what, Location(name), hint, tuple(lines))) from exc


def _own_table(root: Path) -> tuple[TableLocation, bool, Mapping[str, Any]]:
    """Return the place of the project's table, whether the table is missing, and the table."""
    try:
        table, place, _backend = table_location.find_table(root)
    except table_location.NoTableError as absent:
        return absent.place, True, {}
    return place, False, table


def _packages(root: Path, backend: str, place: TableLocation) -> Mapping[str, str]:
    """Return the folders of the project's packages, as far as they are known before the first build."""
    if backend in table_location.HATCH_BACKENDS:
        with contextlib.suppress(ConfigError):  # hatchling is not installed, or cannot build the project yet.
            return open_project.packages(root, backend, place)
    return open_project.found_packages(root)


def _wrap(files: _Files, pyproject: Mapping[str, Any], backend: str) -> list[Setting]:
    """Make `hatch_cubin.backend` the build backend.

    Return the settings that name the former build backend.
    """
    system = ("build-system",)
    files.replace_value(_PYPROJECT, (*system, "build-backend"), json.dumps(WRAPPER))
    inner = [Setting("backend", json.dumps(backend), _INSIDE)]
    if path := table_location.inside(pyproject, *system).get("backend-path"):
        files.remove_key(_PYPROJECT, (*system, "backend-path"))
        inner.append(Setting("backend-path", json.dumps(path)))
    return inner


def _require(files: _Files, pyproject: Mapping[str, Any], backend: str) -> None:
    """Add hatch-cubin to the build requirements, so that the build front end installs it."""
    system = table_location.inside(pyproject, "build-system")
    requires = system.get("requires")
    if requires is None:
        written = json.dumps([backend.partition(".")[0], "hatch-cubin"])
        files.add_settings(_PYPROJECT, ("build-system",), Setting("requires", written))
    elif isinstance(requires, list) and any(map(is_nearly_own, requires)):
        hint = f"requires = {json.dumps(with_hatch_cubin(requires))}"
        where = table_location.place_of(files.root, ("build-system",)).of("requires")
        what = "the name hatch-cubin in 'requires' is misspelled"
        raise ConfigError(problem("misspelled-requirement", what, where, hint))
    elif not isinstance(requires, list) or not any(map(is_own, requires)):
        files.add_items(_PYPROJECT, ("build-system", "requires"), ['"hatch-cubin"'])


def _add_cache_keys(files: _Files, pyproject: Mapping[str, Any], wanted: Sequence[dict[str, str]]) -> None:
    """Add `cache-keys` for uv, so that uv rebuilds an editable install after an edit of a kernel."""
    uv = table_location.inside(pyproject, "tool", "uv")
    known = uv.get("cache-keys")
    if known is None:
        keys = [*_default_keys(files.root), *wanted]
        lines = "".join(f"  {_written(key)},\n" for key in keys)
        files.add_settings(_PYPROJECT, ("tool", "uv"), Setting("cache-keys", f"[\n{lines}]"))
    elif missing := [key for key in wanted if not isinstance(known, list) or key not in known]:
        files.add_items(_PYPROJECT, ("tool", "uv", "cache-keys"), [*map(_written, missing)])


def _default_keys(root: Path) -> Iterator[dict[str, str]]:
    """Yield the default `cache-keys` of uv, and the files that can contain the project's configuration."""
    yield {"file": _PYPROJECT}
    yield from ({"file": name} for name in ("hatch.toml", "setup.py", "setup.cfg") if (root / name).exists())
    if (root / "src").is_dir():
        yield {"dir": "src"}


def _kernel_keys(packages: Mapping[str, str]) -> Iterator[dict[str, str]]:
    for folder in packages.values():
        yield from ({"file": f"{folder}/**/{pattern}"} for pattern in _KERNEL_FILES)
        yield {"dir": f"{folder}/{BUNDLE_FOLDER}"}  # each build changes files in this folder


def _outer_keys(packages: Mapping[str, str], table: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the source roots, and the sources and folders of headers that are outside the packages."""
    roots = _source_roots(table)
    yield from ({"file": f"{path.rstrip('/')}/**/*"} for path in roots.values())
    tables = [table, *_tables(table, "source"), *_tables(table, "module")]
    globs = [glob for each in tables for glob in _texts(each, "sources")]
    for folder in (folder for each in tables for folder in _texts(each, "include-dirs")):
        globs += [f"{folder.rstrip('/')}/**/{pattern}" for pattern in _KERNEL_FILES]
    inside = tuple(f"{folder}/" for folder in (*packages.values(), *roots))
    yield from ({"file": glob} for glob in dict.fromkeys(globs) if not glob.startswith(inside))


def _source_roots(table: Mapping[str, Any]) -> dict[str, str]:
    """Return the path of each source root by its name, which is the first folder in the project's globs."""
    roots = table.get("source-roots")
    named = roots.items() if isinstance(roots, Mapping) else ()
    return {name: path for name, path in named if isinstance(path, str)}


def _tables(table: Mapping[str, Any], key: str) -> Iterator[Mapping[str, Any]]:
    listed = table.get(key)
    yield from (each for each in listed if isinstance(each, Mapping)) if isinstance(listed, list) else ()


def _texts(table: Mapping[str, Any], key: str) -> Iterator[str]:
    listed = table.get(key)
    yield from (each for each in listed if isinstance(each, str)) if isinstance(listed, list) else ()


def _producer_keys(packages: Mapping[str, str], table: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the `inputs` of producers, and all Python modules that a producer could import."""
    modules = (f"{folder}/**/*.py" for folder in packages.values())
    written = (each.get("path") for each in _tables(table, "producer"))
    inputs = (path for each in _tables(table, "producer") for path in _texts(each, "inputs"))
    files = [path for path in (*written, *inputs) if isinstance(path, str)]
    in_roots = tuple(f"{name}/" for name in _source_roots(table))
    wanted = dict.fromkeys((*files, *modules)) if files else ()
    yield from ({"file": path} for path in wanted if not path.startswith(in_roots))


def _written(key: Mapping[str, str]) -> str:
    """Return a mapping of strings as an inline table of TOML, such as `{ name = "value" }`."""
    return f"{{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in key.items())} }}"


def _ignore(files: _Files) -> None:
    """Make git ignore the folder _cubins, which an editable install writes into the source tree."""
    lines = files.read(".gitignore").splitlines()
    known = {line.strip().removeprefix("**").strip("/").rpartition("/")[2] for line in lines}
    if BUNDLE_FOLDER not in known:
        files.add_line(".gitignore", f"{BUNDLE_FOLDER}/")
