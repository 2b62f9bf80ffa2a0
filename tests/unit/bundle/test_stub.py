"""The type stub: kernel names complete in editors, and a misspelled one is a type error."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin import loader
from hatch_cubin.bundle import stub as stub_module
from tests import stub_build
from tests.helpers import bundle, load_bundle, made, run, write_tree

FILES = bundle(
    made("saxpy"),
    made("scale", kernels={"scale<float, 4>": "_Z5scaleIfLi4EEvPT_"}),
    made("red", kernels={"reduce": "reduce"}, variant={"BLOCK": "256"}),
    made("größe", kernels={"it's": "s"}),
)


def mypy(folder: Path, code: str, files: Mapping[str, bytes] = FILES) -> list[str]:
    """Return what mypy has against *code*, which has the bundle in a package `pkg`."""
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("this environment has no mypy")
    write_tree(folder, {"pkg/__init__.py": "", "pkg/py.typed": "", "use.py": code})
    write_tree(folder, {f"pkg/_cubins/{name}": data for name, data in files.items()})
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", "--cache-dir=cache", "use.py"]
    return run(*command, cwd=folder, check=False).stdout.splitlines()


GOOD = """\
from pathlib import Path

from pkg import _cubins as cubins

cubins.read("saxpy", cc=(9, 0)).hex()
cubins.kernel("scale<float, 4>")
cubins.kernel("scale<float,4>", device=1)
cubins.kernel("reduce", BLOCK=256)
cubins.kernel("reduce", module="red")
cubins.module("red[BLOCK=256]")
cubins.module("gr\\xf6\\xdfe").get_kernel("it's")
cubins.find("red", variant={"BLOCK": 256}, driver=None).resources["reduce"]["registers"] + 1
cubins.cache(then=cubins.cache())
with cubins.use({"saxpy": b""}), cubins.use(Path()), cubins.use(None):
    pass
fresh = {"saxpy": b""}
cubins.use(fresh).close()
for name in cubins.names():
    entry = cubins.find(name, cc=(9, 0))
    cubins.module(entry.module, variant=entry.variant)
    print(entry.kernels[name], entry.kind == "ptx", entry.source_path)
cubins.check_arguments("saxpy", 1.0, fresh, module="saxpy")
for each in cubins.find("saxpy", cc=(9, 0)).parameters["saxpy"]:
    print(each.offset + each.size, (each.type or "").upper())
report = cubins.preload("saxpy", "scale*", device=[0, 1])
for one in (*report.loaded, *cubins.preload().loaded):
    print(one.device + 1, one.entry.path, one.kernels[0], one.seconds * 1000)
print(*report.missing, *[entry.arch for entry in cubins.translated(cc=(9, 0))])
if cubins.is_available("saxpy", strict=True):
    cubins.use(strict=True).close()
for category in (cubins.CubinStaleWarning, cubins.CubinDamagedError):
    category.__name__.lower()
"""


def test_right_names_pass(tmp_path: Path) -> None:
    assert mypy(tmp_path, GOOD) == []


WRONG = {
    'cubins.kernel("saxpi")': 'Argument 1 to "kernel" has incompatible type "Literal[\'saxpi\']"',
    'cubins.module("saxpi")': 'Argument 1 to "module" has incompatible type',
    'cubins.find("scale<float, 8>")': 'Argument 1 to "find" has incompatible type',
    'cubins.read("saxpi", cc=(9, 0))': 'Argument 1 to "read" has incompatible type',
    'cubins.kernel("saxpy", module="saxp")': 'Argument "module" to "kernel" has incompatible type',
    'cubins.read("saxpy", cc="9.0")': 'Argument "cc" to "read" has incompatible type',
    "cubins.use(1)": 'Argument 1 to "use" has incompatible type',
    "cubins.preload(device=0.5)": 'Argument "device" to "preload" has incompatible type',
    'cubins.check_arguments("saxpi")': 'Argument 1 to "check_arguments" has incompatible type',
    'cubins.is_available("saxpi")': 'Argument 1 to "is_available" has incompatible type',
    "cubins.preload().loaded[0].seconds = 0": 'Property "seconds" defined in "Loaded" is read-only',
    "cubins.nothing": "Module has no attribute",
    "cubins.Entry()": 'Too few arguments for "Entry"',
    "cubins.Entry(1)": 'Argument 1 to "Entry" has incompatible type',
    'cubins.find("saxpy").path = ""': 'Property "path" defined in "Entry" is read-only',
    'cubins.find("saxpy").kernels["k"] = ""': "Unsupported target for indexed assignment",
    'cubins.names()[0] == "saxpi"': "Non-overlapping equality check",
}


def test_a_misspelled_name_is_a_type_error(tmp_path: Path) -> None:
    """Each of them is one, and on its own line: mypy takes seconds to start."""
    errors = mypy(tmp_path, "\n".join(["from pkg import _cubins as cubins", *WRONG, ""]))
    assert len(errors) == len(WRONG)
    for number, (error, (call, complaint)) in enumerate(zip(errors, WRONG.items(), strict=True), 2):
        assert error.startswith(f"use.py:{number}: error: "), call
        assert complaint in error


LONG = [f"block_reduce<float, {number}>" for number in range(900)]
USES = """\
from pkg import _cubins as cubins

for name in cubins.names():
    cubins.kernel(name, BLOCK=4, device=1)
    cubins.read("block_reduce<float,7>", module=cubins.find(name, driver=None).module, cc=(9, 0))
    cubins.check_arguments(name, 1, 2.0)
cubins.module("reduce", module=None)
print(cubins.is_available() or cubins.is_available(None) or cubins.is_available("reduce", strict=True))
"""
MISUSES = """\
cubins.kernel("blok_reduce")
cubins.kernel(str())
cubins.module("reduse")
cubins.kernel("reduce", module="reduse")
cubins.read("block_reduce<float, 900>", cc=(9, 0))
cubins.find(7, cc=(9, 0))
cubins.check_arguments("reduse")
cubins.is_available("reduse")
"""


def test_an_error_in_a_large_bundle_is_short(tmp_path: Path) -> None:
    files = bundle(made("reduce", kernels={name: f"s{number}" for number, name in enumerate(LONG)}))
    errors = mypy(tmp_path, USES + MISUSES, files)
    first = USES.count("\n") + 1
    assert [int(error.split(":")[1]) for error in errors] == [*range(first, first + MISUSES.count("\n"))]
    assert max(map(len, errors)) < 200


RUNTIME = Path(loader.__file__).read_text("utf-8")
PARTS = [path.read_text("utf-8") for path in sorted(Path(loader.__file__).parent.glob("_[a-z]*.py"))]
CLASSES = "".join([RUNTIME, *PARTS])


def functions(code: str) -> dict[str, tuple[list[str], list[str], bool]]:
    """Return the public functions: their arguments, keyword arguments, whether they take any others."""
    return {
        node.name: (
            [arg.arg for arg in node.args.args],
            [arg.arg for arg in node.args.kwonlyargs],
            node.args.kwarg is not None,
        )
        for node in ast.parse(code).body
        if isinstance(node, ast.FunctionDef) and node.name in loader.__all__
    }


def classes(code: str) -> dict[str, list[str]]:
    return {
        node.name: [base for base in map(ast.unparse, node.bases) if not base.startswith("_")]
        for node in ast.parse(code).body
        if isinstance(node, ast.ClassDef) and node.name in loader.__all__
    }


def test_the_stub_says_what_the_loader_has(tmp_path: Path) -> None:
    stub, code = FILES["__init__.pyi"].decode(), RUNTIME
    assert functions(stub) == {**functions("".join(PARTS)), **functions(code)}
    assert classes(stub) == classes(CLASSES)
    assert {*functions(stub), *classes(stub)} == set(loader.__all__)
    fields = {node.name: node.body for node in ast.parse(stub).body if isinstance(node, ast.ClassDef)}
    entry = load_bundle(tmp_path, bundle(made("k"))).find("k", cc=(9, 0))
    loaded, parameter = loader.Loaded(0, entry, (), 0.0), loader.Parameter(0, 4)
    for real in (entry, loaded, parameter, loader.Preloaded((loaded,), ())):
        defined = (each.name for each in fields[type(real).__name__] if isinstance(each, ast.FunctionDef))
        assert {*defined} - {"__init__"} == {name for name in dir(real) if name[0] != "_"}
    assert (
        f"{loader.__all__}" == f"{ast.literal_eval(stub.partition('__all__ = ')[2].partition(']')[0] + ']')}"
    )


def test_the_part_that_all_stubs_have_is_made_of_the_loaders_source() -> None:
    there = (Path(stub_module.__file__).parent / stub_module.FILE).read_text("utf-8")
    assert there == stub_build.stub_parts(), "`hatch run loader` writes it"


def test_the_order_of_names_does_not_matter() -> None:
    assert stub_module.stub(["b", "a<1, 2>"], ["m", "k"], ["b()", "a()"]) == stub_module.stub(
        ["a<1, 2>", "b"], ["k", "m"], ["a()", "b()", "a()"]
    )


def shown(stub: bytes) -> dict[str, str]:
    """Return the docstrings of a stub's functions, which editors show over their names."""
    functions = [node for node in ast.parse(stub).body if isinstance(node, ast.FunctionDef)]
    found = {node.name: ast.get_docstring(node) for node in functions}
    return {name: text for name, text in found.items() if text is not None}


def test_an_editor_shows_what_each_kernel_takes() -> None:
    signatures = ["scale<float, 4>(float *)", "saxpy(float, const float *, float *, unsigned long)"]
    found = shown(stub_module.stub(["saxpy", "scale<float, 4>"], ["m"], signatures))
    listed = "\n\n```\n{1}\n{0}\n```".format(*signatures)
    assert found == {
        name: f"{(getattr(loader, name).__doc__ or '').splitlines()[0]}{listed}"
        for name in ("check_arguments", "kernel")
    }


@pytest.mark.parametrize(("count", "listed"), [(0, 0), (1, 1), (200, 200), (201, 0)])
def test_signatures_are_listed_unless_there_are_none_or_many(count: int, listed: int) -> None:
    stub = stub_module.stub(["k"], ["m"], [f"k{number}(int)" for number in range(count)])
    assert [text.count("(int)\n") for text in shown(stub).values()] == [listed, listed]


def test_no_name_breaks_out_of_the_stub() -> None:
    names = ['"""', "'", "\\", "\n", "{modules}", "\ud800", "]\nimport os\nx = ["]
    stub = stub_module.stub(names, names, [f"{name}()" for name in names])
    tree = ast.parse(stub)
    aliases = [node.value for node in tree.body if isinstance(node, ast.AnnAssign)]
    listed = [ast.literal_eval(alias.slice) for alias in aliases if isinstance(alias, ast.Subscript)]
    assert [sorted(each) for each in listed] == [sorted(names)] * 3
    assert len([node for node in tree.body if isinstance(node, ast.FunctionDef)]) == len(functions(CLASSES))


@pytest.mark.parametrize(("count", "kind"), [(0, "str"), (1, "Literal["), (2000, "Literal["), (2001, "str")])
def test_names_are_literals_unless_there_are_none_or_very_many(count: int, kind: str) -> None:
    names = [f"k{number}" for number in range(count)]
    assert f"_AnyName: TypeAlias = {kind}\n" in stub_module.stub(names, ()).decode()
