"""Small builders that let a test state only what matters to it."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import itertools
import os
import re
import subprocess
import textwrap
import threading
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from hatch_cubin import errors, loader
from hatch_cubin.bundle import layout, loader_files, packs
from hatch_cubin.bundle.stub import stub
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.common import arch_names
from hatch_cubin.compiling.executor import Task
from hatch_cubin.config import toml_positions
from hatch_cubin.config.config import Config, TableLocation, parse_config
from hatch_cubin.planning.unit_plan import Module, Unit
from hatch_cubin.project.project import Project
from hatch_cubin.project.source import Source
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Keys

_Error = TypeVar("_Error", bound=BaseException)

REPOSITORY = Path(__file__).parent.parent
TABLE = ("tool", "hatch", "build", "hooks", "cubin")

SAXPY = """\
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] += a * x[i];
}
"""
SCALE = "template <class T, int N> __global__ void scale(T *x) { for (int i = 0; i < N; ++i) x[i] *= 2; }\n"
COPY_PTX = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry copy(.param .u64 to) { ret; }
"""


def write_tree(root: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write *files*, named by their paths below *root*; return *root*."""
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return root


def in_order(tasks: Iterable[Task]) -> Callable[[int | None, Sequence[int]], Task | None]:
    """Return what gives these tasks one after another, whoever asks."""
    left = iter(tasks)
    return lambda _held, _others: next(left, None)


def install_wheel(site: Path, name: str, files: Mapping[str, str], version: str = "1.2") -> None:
    """Write *files* and what a wheel's installer writes beside them into a folder of `sys.path`."""
    info = f"{name.replace('-', '_')}-{version}.dist-info"
    record = "".join(f"{file},,\n" for file in files)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    write_tree(site, {**files, f"{info}/METADATA": metadata, f"{info}/RECORD": record})


def pyproject(options: str, *, requires: str = '"hatchling", "hatch-cubin"', name: str = "demo") -> str:
    """Return a pyproject.toml whose hook's table is *options*."""
    return textwrap.dedent(
        f"""\
        [build-system]
        requires = [{requires}]
        build-backend = "hatchling.build"

        [project]
        name = "{name}"
        version = "1.0"

        [tool.hatch.build.hooks.cubin]
        """
    ) + textwrap.dedent(options)


def read_config(options: str = "", environ: Mapping[str, str] | None = None) -> Config:
    """Return the configuration of a table written as in pyproject.toml."""
    text = pyproject(options)
    table: Any = toml_positions.loads(text)
    for key in TABLE:
        table = table[key]
    return parse_config(table, TableLocation("pyproject.toml", text, TABLE), environ or {})


def make_project(root: Path, files: Mapping[str, str | bytes], options: str = "", **environ: str) -> Project:
    """Write a package `demo` with *files* in it and return it as a front end would hand it over."""
    write_tree(root, {"demo/__init__.py": "", **{f"demo/{name}": content for name, content in files.items()}})
    (root / "pyproject.toml").write_text(pyproject(options))
    merged = {**os.environ, **environ}
    return Project(root=root, packages={"demo": "demo"}, config=read_config(options, merged), environ=merged)


def refusal(kind: type[_Error], call: Callable[..., object], *arguments: Any, **named: Any) -> _Error:
    """Return the error that a call ends with."""
    with pytest.raises(kind) as caught:
        call(*arguments, **named)
    return caught.value


def found(error: errors.HatchCubinError) -> list[tuple[str, str]]:
    """Return the code and the place of each problem of an error, in the order that users see."""
    return [(problem.code, str(problem.where or "")) for problem in errors.in_order(error.problems)]


class Coded:
    """Equal to a problem, or a printed error, with this code at this place if its text has these values."""

    def __init__(self, code: str, place: object = "", *values: str) -> None:
        self.code, self.place, self.values = code, str(place), values

    def __eq__(self, other: object) -> bool:
        if isinstance(other, errors.Problem) and str(other.where or "") != self.place:
            return False
        text = other.with_code() if isinstance(other, errors.Problem) else str(other)
        text = re.sub(r"^hatch-cubin: (error|warning): ", "", text)
        head = text.partition("\n")[0]
        place = f"{self.place}: " if self.place else ""
        right = head.startswith(place) and head.endswith(f" [{self.code}]")
        return right and all(value in text.removeprefix(place) for value in self.values)

    def __hash__(self) -> int:
        return hash(self.code)

    def __repr__(self) -> str:
        return ": ".join((self.place, " … ".join((*self.values, f"[{self.code}]"))))


def codes(printed: str) -> list[str]:
    """Return the codes of the errors and warnings in what a command printed, in that order."""
    return re.findall(r"^hatch-cubin: .* \[([a-z0-9]+(?:-[a-z0-9]+)+)\]$", printed, re.MULTILINE)


def run_threads(threads: Sequence[threading.Thread]) -> None:
    """Run threads at once, to their ends."""
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def wheel_files(wheel: Path) -> dict[str, bytes]:
    """Return every file of a wheel by name."""
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def run(
    *command: str | Path, cwd: Path, check: bool = True, **environ: str
) -> subprocess.CompletedProcess[str]:
    """Run a program and return what it printed; fail with all of that where it fails."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env={**os.environ, **environ},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if check and done.returncode:
        raise AssertionError(f"{command} ended with {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done


def made(
    base: str,
    arch: str = "sm_90",
    kernels: Mapping[str, str] | None = None,
    *,
    data: bytes | None = None,
    variant: Mapping[str, str] | None = None,
    program_key: bytes | None = None,
    **settings: Any,
) -> layout.BuiltUnit:
    """Return a unit as if compiled: its bytes and its key tell it from all others."""
    parsed = arch_names.parse_arch(arch)
    source = Source(settings.pop("source", f"demo/{base}.cu"), settings.pop("text", ""))
    module = Module(
        base=base,
        source=source,
        variant=tuple((variant or {}).items()),
        define=settings.pop("define", ()),
        options=settings.pop("options", {}),
    )
    types = settings.pop("types", {})
    assert not settings, settings
    unit = Unit(module, parsed)
    data = (
        data
        if data is not None
        else (".version 8.0\n// " if parsed.is_ptx else "").encode() + unit.name.encode()
    )
    compiled = Compiled(data, {base: base} if kernels is None else kernels)
    keys = Keys(hashlib.sha256(unit.name.encode()).digest(), program_key)
    return layout.BuiltUnit(unit, compiled, keys, lambda: types)


def bundle(*built: layout.BuiltUnit, major: int = 13, **header: Any) -> dict[str, bytes]:
    """Return the files of a bundle of *built*."""
    files = layout.bundle_files(
        built, {"data_model": "lp64", "toolchain": {"nvrtc": "13.0.88"}, **header}, major
    )
    return {name: b"".join(content) for name, content in files.items() if isinstance(content, list)}


def packed_bundle(*built: layout.BuiltUnit, major: int = 13, **header: Any) -> dict[str, bytes]:
    """Return the files of a bundle of *built* whose results are packed."""
    results = {item.compiled.sha256: item.compiled.data for item in built}
    blocks = packs.plan_blocks(
        packs.Piece(item.unit.module.base, item.unit.module.name, str(item.unit.arch), *_proof(item.compiled))
        for item in built
    )
    packed = {
        block.key: Compiled(pack(b"".join(results[piece.sha256] for piece in block.pieces)), {})
        for block in blocks
    }
    known = {"data_model": "lp64", "toolchain": {"nvrtc": "13.0.88"}, **header}
    files = layout.bundle_files(built, known, major, packs.assemble_blocks(blocks, packed))
    return {name: b"".join(content) for name, content in files.items() if isinstance(content, list)}


def _proof(compiled: Compiled) -> tuple[str, int]:
    return compiled.sha256, compiled.size


def pack(data: bytes) -> bytes:
    """Return bytes as a compiler process packs them."""
    output: bytes = worker.compile_task({"id": 0, "kind": "xz", "code": data, "searches": False})["output"]
    return output


_imported = itertools.count()
# Coverage decides by the first name that a file is imported by whether its lines count.
for _name in {*loader_files.ALL} - {loader_files.CORE, "core.py", "cupy.py"}:  # these two import a library
    importlib.import_module(f"hatch_cubin.loader.{_name.removesuffix('.py')}")


def entry_fields() -> set[str]:
    """Return the names of what an entry of the loader says, by the stub."""
    classes = [node for node in ast.parse(stub([], [])).body if isinstance(node, ast.ClassDef)]
    (entry,) = (node for node in classes if node.name == "Entry")
    return {node.name for node in entry.body if isinstance(node, ast.FunctionDef)} - {"__init__"}


def load_bundle(folder: Path, files: Mapping[str, bytes]) -> Any:
    """Write a bundle and import the loader for it alone, from the file that bundles are made with."""
    write_tree(folder, files)
    name = f"bundle_{next(_imported)}"
    spec = importlib.util.spec_from_file_location(name, loader.__file__)
    assert spec is not None
    assert spec.loader is not None
    cubins: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cubins)
    cubins._HERE = str(folder)
    return cubins
