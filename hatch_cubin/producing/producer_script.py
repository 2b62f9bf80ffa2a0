"""Call a producer (a Python function) in a new process. This script imports only the standard library.

`running.py` starts this script with the path of a request file. The names and file names of the project's
modules are relative to the project, so a generated text that contains such a name is the same wherever the
project's folder is. The `__init__.py` files of packages do not run, because they often import the kernels,
which do not exist yet.
"""

from __future__ import annotations

import contextlib
import difflib
import faulthandler
import importlib.abc
import importlib.machinery
import importlib.util
import json
import operator
import os
import re
import sys
import traceback
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

_READS = frozenset({"open", "sqlite3.connect", "ctypes.dlopen"})
_LISTS = frozenset({"os.listdir", "os.scandir"})
_BUNDLE = "_cubins"  # the folder of the compiled kernels, which the build makes after the producers ran
_NEVER_LISTED = frozenset({"__pycache__", _BUNDLE, "node_modules"})
_NEVER_DECLARED = frozenset({".git", "__pycache__"})
_NOT_IMPORTED = re.compile("cannot import name '([^']*)'")
_WRITES_ONLY = os.O_WRONLY | os.O_TRUNC

# Pairs of an import name and its folder in the project. The empty name is for the folder of the producer's
# Python file.
Packages = Sequence[tuple[str, str]]


def locate(
    name: str, packages: Packages, is_file: Callable[[str], bool], is_folder: Callable[[str], bool]
) -> tuple[str, bool] | None:
    """Return a module's path in the project, and whether the module is a package; None for other modules."""
    if _BUNDLE in name.split("."):  # may be there from an earlier build, but not in a clean checkout
        return None
    for package, folder in packages:
        if package and name != package and not name.startswith(f"{package}."):
            continue
        inner = name[len(package) + 1 if package else 0 :]
        path = "/".join(filter(None, (folder.removeprefix("."), *inner.split("."))))
        if name == package or is_file(f"{path}/__init__.py"):
            return path or ".", True
        if is_file(f"{path}.py"):
            return f"{path}.py", False
        if package and is_folder(path):
            return path, True
    return None


def undeclared_in(folder: str, disk_path: str, files: Container[str]) -> list[str] | None:
    """Return a folder's files that are not in *files*; None if the folder is empty or does not exist.

    Python modules do not have to be declared, because an sdist has them anyway.
    """
    try:
        names = sorted(filter(is_listed, os.listdir(disk_path)))
    except OSError:
        names = []
    prefix = "" if folder == "." else f"{folder}/"
    others = [name for name in names if prefix + name not in files and not name.endswith(".py")]
    return [prefix + name for name in others if not os.path.isdir(f"{disk_path}/{name}")] if names else None


def is_listed(name: str) -> bool:
    """Return whether a name in a folder counts as an input.

    The names of hidden files and caches do not count as inputs.
    """
    return name not in _NEVER_LISTED and not name.startswith(".")


class ProjectFinder:
    """Finds the project's modules before Python looks for them in other folders."""

    def __init__(self, packages: Packages, disk_path: Callable[[str], str]) -> None:
        self._packages, self._disk_path = packages, disk_path

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return the spec of a module of the project."""
        found = locate(name, self._packages, self._is_file, self._is_folder)
        if found is not None:
            return self._spec(name, found[0], is_package=found[1])
        if any(package and name.startswith(f"{package}.") for package, _folder in self._packages):
            # Python would list the package's folder to look for the module.
            raise ModuleNotFoundError(f"No module named {name!r} in the project", name=name)
        if any(package.startswith(f"{name}.") for package, _folder in self._packages):
            spec = importlib.machinery.PathFinder.find_spec(name, path, target)
            return spec or importlib.machinery.ModuleSpec(name, None, is_package=True)
        return None

    def _spec(self, name: str, path: str, *, is_package: bool) -> importlib.machinery.ModuleSpec:
        loader = _ProjectLoader(path, self._disk_path(path), is_package=is_package)
        spec = importlib.machinery.ModuleSpec(name, loader, origin=path, is_package=is_package)
        if is_package:
            spec.submodule_search_locations = [self._disk_path(path)]
            spec.origin = f"{path}/__init__.py"
        spec.has_location = True
        return spec

    def _is_file(self, path: str) -> bool:
        return os.path.isfile(self._disk_path(path))

    def _is_folder(self, path: str) -> bool:
        return os.path.isdir(self._disk_path(path))


class _ProjectLoader(importlib.abc.Loader):
    """Loads a module of the project, with the module's path in the project as its file name.

    A package is empty.
    """

    def __init__(self, path: str, disk_path: str, *, is_package: bool) -> None:
        self._path, self._disk_path, self._is_package = path, disk_path, is_package

    def create_module(self, _spec: importlib.machinery.ModuleSpec) -> None:
        """Let Python create the module object."""

    def exec_module(self, module: ModuleType) -> None:
        if not self._is_package:
            exec(compile(self._read(), self._path, "exec", dont_inherit=True), module.__dict__)  # noqa: S102

    def get_source(self, _name: str) -> str:
        """Return the text of a module, for `inspect.getsource`."""
        return "" if self._is_package else importlib.util.decode_source(self._read())

    def get_data(self, path: str) -> bytes:
        """Return the bytes of a file that is in a package or beside a module, for `pkgutil.get_data`."""
        name, folder = self._path, self._disk_path
        if not self._is_package:
            name, folder = os.path.dirname(name), os.path.dirname(folder)
        with open(os.path.join(folder, os.path.relpath(path, name)), "rb") as file:
            return file.read()

    def get_resource_reader(self, _name: str) -> Any:
        """Return a reader of the files in the folder of a package or a module, for `importlib.resources`."""
        from importlib.readers import FileReader

        inside = os.path.join(self._disk_path, "__init__.py") if self._is_package else self._disk_path
        return FileReader(SimpleNamespace(path=inside))  # type: ignore[arg-type]

    def about_absent(self, name: str) -> str | None:
        """Return a hint if a name may be missing because an `__init__.py` did not run; otherwise None."""
        if not self._is_package:
            return None
        if name == _BUNDLE:
            return (
                f"{_BUNDLE} does not exist before the build: import {_BUNDLE} only inside the functions that "
                "load kernels, or move the producer's function into a file of its own"
            )
        with contextlib.suppress(OSError), open(os.path.join(self._disk_path, "__init__.py"), "rb") as file:
            if re.search(rf"\b{re.escape(name)}\b".encode(), file.read()):
                return (
                    f"hatch-cubin does not run {self._path}/__init__.py when a producer imports the package: "
                    f"import {name} from the module that defines {name}, or move {name} into a module"
                )
        close = difflib.get_close_matches(name, self.modules(), 1)
        return f"did you mean {close[0]!r}?" if close else None

    def modules(self) -> set[str]:
        """Return the names of the modules in a package."""
        return {name.removesuffix(".py") for name in os.listdir(self._disk_path)}

    def _read(self) -> bytes:
        with open(self._disk_path, "rb") as file:
            return file.read()


class ReadRecorder:
    """Records which undeclared files of the project are read, and which folders of the project are listed.

    *folders* are the paths of the project's folders on the disk, each with its path in the project. The
    folders in *exempt* belong to Python or to its environment, and reads in these folders are not recorded.
    """

    def __init__(
        self,
        folders: Iterable[tuple[str, str]],
        exempt: Iterable[str],
        files: Iterable[str],
        listed: Iterable[str],
    ) -> None:
        self._folders = [
            (os.path.join(spelled, ""), name)
            for folder, name in folders
            for spelled in dict.fromkeys((folder, os.path.realpath(folder)))
        ]
        self._exempt = tuple(os.path.join(folder, "") for folder in exempt)
        self._files, self._listed = {*files}, {*listed}
        self.read: dict[str, None] = {}
        self._list: dict[str, str] = {}
        self.is_on = True

    def listed(self) -> dict[str, list[str] | None]:
        """Return each folder that the producer has listed, with the result of `undeclared_in` for it."""
        return {folder: undeclared_in(folder, path, self._files) for folder, path in self._list.items()}

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Use an audit event of Python to record that a project file is read or a project folder listed."""
        if not self.is_on or not arguments or (event not in _READS and event not in _LISTS):
            return
        if isinstance(arguments[0], int) or (event == "open" and _only_writes(arguments)):
            return
        # `import ctypes` opens the running program, which is not an input
        if arguments[0] is None and event not in _LISTS:
            return
        path = "." if arguments[0] is None else os.fsdecode(arguments[0])
        for spelled in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
            name = self._name(spelled)
            if name is None:
                continue
            if event in _LISTS or os.path.isdir(spelled):
                if name not in self._listed and _NEVER_LISTED.isdisjoint(name.split("/")):
                    self._list[name] = spelled
            elif name not in self._files and os.path.isfile(spelled):
                self.read[name] = None

    def _name(self, path: str) -> str | None:
        """Return a path's name in the project; None if the path need not be declared as an input."""
        inside = os.path.join(path, "")
        if inside.startswith(self._exempt):
            return None
        for folder, name in self._folders:
            if inside.startswith(folder):
                parts = [*filter(None, (name, *inside[len(folder) :].split(os.sep)))]
                return None if _NEVER_DECLARED.intersection(parts) else "/".join(parts) or "."
        return None


class WatchedEnviron(type(os.environ)):  # type: ignore[misc]
    """The environment variables of the process.

    The class records which missing variables the project's code asks for.
    """

    absent: dict[str, None]

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a variable, for `os.environ.get` and `os.getenv`."""
        try:
            return self[key]
        except KeyError:
            self._record(key)
            return default

    def __contains__(self, key: Any) -> bool:
        if super().__contains__(key):
            return True
        self._record(key)
        return False

    def _record(self, key: Any) -> None:
        """Record a missing environment variable if the project's own code, and not a library, asks for it."""
        frame: Any = sys._getframe(2)  # noqa: SLF001
        if frame.f_code.co_name == "getenv":
            frame = frame.f_back
        if _is_own(frame.f_code.co_filename):
            self.absent[str(key)] = None


def _only_writes(arguments: tuple[Any, ...]) -> bool:
    flags = arguments[2] if len(arguments) > 2 else 0
    return isinstance(flags, int) and bool(flags & _WRITES_ONLY)


def plain(value: Any) -> Any:
    """Return a value that JSON can represent; for a value of another type, a mapping with the type's name.

    For a value of type bytes, the mapping also contains the bytes, as a text with one character for each
    byte.
    """
    if value is None or isinstance(value, (str, bool, float)):
        return value
    if isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return {"": "bytes", "data": value.decode("latin-1")}
    try:
        return operator.index(value)
    except TypeError:
        return {"": type(value).__name__}


def _text_or_type(value: Any) -> Any:
    return plain(value) if isinstance(value, (str, bytes, Mapping)) else {"": type(value).__name__}


def answer_of(request: Mapping[str, Any], recorder: ReadRecorder) -> dict[str, Any]:
    """Return what the requested function returns, or how the function failed. Switch *recorder* off."""
    function = None
    try:
        module = importlib.import_module(request["module"])
        function = getattr(module, request["call"], None)
        if not callable(function):
            own = {
                name: each
                for name, each in vars(module).items()
                if getattr(each, "__module__", "") == module.__name__ and not name.startswith("_")
            }
            classes = {name for name, each in own.items() if isinstance(each, type)}
            return {
                # `main` is left out, because in most scripts `main` prints or writes texts instead of
                # returning them.
                "absent": [
                    name
                    for name, each in own.items()
                    if callable(each) and name not in classes and name != "main"
                ],
                "classes": [name for name in own if name in classes and hasattr(own[name], request["call"])],
                "value": type(function).__name__ if request["call"] in vars(module) else None,
            }
        found = function()
        if not isinstance(found, Mapping):
            return {"other": type(found).__name__}
        return {"sources": [[_text_or_type(name), _text_or_type(value)] for name, value in found.items()]}
    except BaseException as exc:  # noqa: BLE001 - whatever the project's code raises is reported
        recorder.is_on = False
        return _failure(exc, request["module"].rpartition(".")[0], function)
    finally:
        recorder.is_on = False


def _failure(error: BaseException, package: str, function: Any) -> dict[str, Any]:
    """Return a description of the error, with the stack frames in the project's own files.

    *package*: the script's package.
    """
    frames, hint = _frames(error), _import_hint(error, package)
    code = getattr(function, "__code__", None)
    if not frames and code is not None:
        frames = [[code.co_filename, code.co_firstlineno, code.co_name, ""]]
        hint = f"hatch-cubin calls {code.co_name}() without arguments"
    return {
        "error": _text(error),
        "frames": frames,
        "causes": [[_text(each), _frames(each)[-1:]] for each in _causes(error)],
        "missing": error.name if isinstance(error, ModuleNotFoundError) else None,
        "hint": hint,
    }


def _text(error: BaseException) -> str:
    """Return the type and the message of an error.

    Lines that begin with spaces are left out: they show the source line of a SyntaxError.
    """
    lines = traceback.format_exception_only(type(error), error)
    return "".join(line for line in lines if not line.startswith("  ")).strip()


def _frames(error: BaseException) -> list[list[Any]]:
    """Return the stack frames of an error that are in the project's own files."""
    frames = [
        [frame.filename, frame.lineno, frame.name, frame.line or ""]
        for frame in traceback.extract_tb(error.__traceback__)
        if _is_own(frame.filename)
    ]
    if isinstance(error, SyntaxError) and error.filename and _is_own(error.filename):
        frames.append([error.filename, error.lineno, "", (error.text or "").strip()])
    return frames


def _is_own(file: str) -> bool:
    """Return whether a stack frame's file is in the project: only project files have relative paths."""
    return file.endswith(".py") and not os.path.isabs(file)


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield the errors that led to an error, beginning with its direct cause."""
    seen = [error]
    while cause := seen[-1].__cause__ or (None if seen[-1].__suppress_context__ else seen[-1].__context__):
        if cause in seen:
            return
        seen.append(cause)
        yield cause


def _import_hint(error: BaseException, package: str) -> str | None:
    """Return a hint for a name in the project that cannot be imported. *package*: the script's package."""
    owner, name = None, None
    if isinstance(error, ModuleNotFoundError):
        owner, _dot, name = str(error.name).rpartition(".")
        beside = getattr(sys.modules.get(package), "__loader__", None)
        if not owner and isinstance(beside, _ProjectLoader) and name in beside.modules():
            line = (_frames(error) or [["", 0, "", ""]])[-1][3]
            right = re.sub(rf"^from {name} ", f"from {package}.{name} ", line)
            right = re.sub(rf"^import {name}(?=$| )", f"from {package} import {name}", right)
            return f"write: {right}" if right != line else f"the name of this module is {package}.{name}"
    elif isinstance(error, ImportError) and (match := _NOT_IMPORTED.match(str(error))):
        owner, name = error.name, match[1]
    elif isinstance(error, AttributeError) and isinstance(error.obj, ModuleType):
        owner, name = error.obj.__name__, error.name
    loader = getattr(sys.modules.get(owner or ""), "__loader__", None)
    return loader.about_absent(str(name)) if isinstance(loader, _ProjectLoader) else None


def main(path: str) -> None:
    """Read a request from the file at *path*, and write the answer into the file that the request names."""
    with open(path, encoding="utf-8") as file:
        request = json.load(file)
    folders = request["folders"]

    def disk_path(name: str) -> str:
        """Return the location on the disk of a path in the project."""
        owns = ((folder, root) for folder, root in folders if not root or f"{name}/".startswith(f"{root}/"))
        folder, root = next(owns)
        return os.path.normpath(os.path.join(folder, name[len(root) :].lstrip("/")))

    sys.path[:] = request["path"]
    sys.argv[:] = [request["script"]]
    sys.meta_path.insert(
        0, ProjectFinder([(name, folder) for name, folder in request["packages"]], disk_path)
    )
    os.environ.__class__ = WatchedEnviron
    absent = os.environ.absent = {}  # type: ignore[attr-defined]
    recorder = ReadRecorder(folders, request["exempt"], request["files"], request["listed"])
    sys.addaudithook(recorder)
    with open(request["stacks"], "w", encoding="utf-8") as stacks:
        faulthandler.dump_traceback_later(request["seconds"], file=stacks)
        answer = answer_of(request, recorder)
        faulthandler.cancel_dump_traceback_later()
    answer |= {"read": [*recorder.read], "listed": recorder.listed(), "variables": [*absent]}
    with open(request["answer"], "w", encoding="utf-8") as file:
        json.dump(answer, file)


if __name__ == "__main__":
    main(sys.argv[1])
    os._exit(0)  # a thread that the function has left running does not matter any more
