"""The loader's parts: each is imported when it is first needed, and only if it belongs to the core."""

from __future__ import annotations

import ast
import errno
import importlib.util
import io
import pickle
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import loader
from hatch_cubin.bundle import loader_files
from tests import loader_build
from tests.helpers import bundle, load_bundle, made, packed_bundle, run, write_tree
from tests.standin import ask, install

PARTS = [name.removesuffix(".py") for name in loader_files.ALL if name != loader_files.CORE]
FILES = bundle(made("k"), made("k", "compute_80"))


def test_the_files_have_the_marks_that_belong_to_them() -> None:
    files = loader_files.all_files()
    assert loader_build.stamped(files) == files, "`hatch run loader` writes them"


def test_the_format_that_builds_write_is_the_highest_that_the_loader_reads() -> None:
    assert loader_files.FORMAT == loader.FORMAT


def test_the_list_has_every_file_of_the_room() -> None:
    there = {path.name for path in loader_files.FOLDER.glob("*.py")}
    assert there == {*loader_files.ALL, "finder.py"}  # which editable installs have beside their package


def test_the_core_can_be_read_in_one_sitting() -> None:
    data = loader_files.read(loader_files.CORE)
    assert (data.count(b"\n") <= 950, len(data) <= 40_000) == (True, True)


def test_the_loader_of_a_plain_wheel_is_small() -> None:
    files = [loader_files.read(name) for name in loader_files.needed_by(units=7, packed=False, split=False)]
    assert sum(map(len, files)) <= 82_000
    with zipfile.ZipFile(io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as wheel:
        for number, data in enumerate(files):
            wheel.writestr(str(number), data)
        assert sum(each.compress_size for each in wheel.infolist()) <= 26_500


def in_process(folder: Path, code: str) -> str:
    """Return what a process prints that has the bundle as `pkg._cubins`."""
    before = "from pkg import _cubins as cubins\n"
    return run(sys.executable, "-S", "-c", before + code, cwd=folder).stdout.strip()


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        ("cubins.names()", []),
        ("cubins.read('k', cc=(9, 0))", []),
        ("cubins.find('k', cc=(9, 0)).parameters", ["_debugging"]),
        ("cubins.use(strict=True)", ["_debugging"]),
        ("cubins.is_available()", ["_loading"]),
    ],
)
def test_a_call_imports_what_it_needs(tmp_path: Path, call: str, parts: list[str]) -> None:
    install(tmp_path / "pkg", FILES)
    assert in_process(tmp_path, f"{call}\nprint(sorted(cubins._parts))") == str(parts)


@pytest.mark.parametrize("damage", ["another version", "cut off", "not Python", "gone"])
def test_a_part_that_does_not_belong_to_the_core_is_refused(tmp_path: Path, damage: str) -> None:
    """As where a package is replaced under a process that goes on with the old core."""
    install(tmp_path / "pkg", FILES)
    part = tmp_path / "pkg/_cubins/_loading.py"
    text = part.read_text("utf-8")
    if damage == "gone":
        part.unlink()
    else:
        other = text.replace(loader.__build__, "0" * 16)
        part.write_text(
            {"another version": other, "cut off": text[: len(text) // 3], "not Python": "("}[damage]
        )
    code = "try: cubins.kernel\nexcept cubins.CubinError as exc: print(type(exc).__name__, exc)\n"
    said = in_process(tmp_path, f"{code}print(cubins.is_available(), cubins.names())")
    assert f"CubinError pkg._cubins: {part} is missing, damaged, or of another version" in said
    assert "restart the process if the package was just replaced" in said
    assert said.endswith("False ('k',)")


def test_an_upgrade_under_a_running_process_says_so(tmp_path: Path) -> None:
    install(tmp_path / "pkg", FILES)
    newer = {
        name: data.replace(loader.__build__.encode(), b"1" * 16) if name.endswith(".py") else data
        for name, data in FILES.items()
    }
    write_tree(tmp_path / "newer", newer)
    code = (
        "import shutil\ncubins.read('k', cc=(9, 0))\n"
        "shutil.copytree('newer', 'pkg/_cubins', dirs_exist_ok=True)\n"
        "try: cubins.find('gone', cc=(9, 0))\n"
        "except cubins.CubinError as exc: print('restart the process' in str(exc))\n"
    )
    assert in_process(tmp_path, code) == "True"


def test_a_core_without_an_entry_in_sys_modules_has_parts_of_its_own(tmp_path: Path) -> None:
    one, other = load_bundle(tmp_path / "a", FILES), load_bundle(tmp_path / "b", FILES)
    assert one.__name__ not in sys.modules
    assert one._part("_debugging") is one._part("_debugging") is not other._part("_debugging")
    with pytest.raises(one.CubinNotFoundError, match="did you mean 'k'"):
        one.find("kk", cc=(9, 0))
    assert not [name for name in sys.modules if name.startswith(f"{one.__name__}#")]


def test_two_bundles_under_one_name_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = load_bundle(tmp_path / "a", FILES), load_bundle(tmp_path / "b", FILES)
    monkeypatch.setitem(sys.modules, one.__name__, other)
    assert one._part("_debugging").CubinNotFoundError is one.CubinNotFoundError


@pytest.mark.parametrize("part", [part for part in PARTS if part not in {"core", "cupy"}])
def test_whoever_imports_all_modules_of_a_package_can_import_a_part(part: str) -> None:
    """As pytest does with `--doctest-modules`, and what makes documentation."""
    assert importlib.import_module(f"hatch_cubin.loader.{part}").__build__ == loader.__build__


@pytest.mark.parametrize("name", ["Loaded", "Parameter", "Preloaded", "kernel", "preload", "use"])
def test_what_a_part_defines_is_found_in_the_core(name: str) -> None:
    found = getattr(loader, name)
    assert (found.__module__, name in dir(loader)) == ("hatch_cubin.loader", True)
    assert pickle.loads(pickle.dumps(found)) is found  # noqa: S301


def test_there_are_no_other_names() -> None:
    with pytest.raises(AttributeError, match=r"module 'hatch_cubin\.loader' has no attribute 'compile'"):
        _ = loader.compile


def test_a_zip_archive_has_parts_too(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as file:
        file.writestr("pkg/__init__.py", "")
        for name, data in packed_bundle(made("k")).items():
            file.writestr(f"pkg/_cubins/{name}", data)
    code = "import os, sys; sys.path.insert(0, 'app.zip'); from pkg import _cubins as cubins; os.chdir('/')\n"
    code += "print(len(cubins.read('k', cc=(9, 0))), sorted(cubins._parts))"
    done = run(sys.executable, "-c", code, cwd=tmp_path)
    assert done.stdout.strip() == "11 ['_packs']"


@pytest.mark.parametrize("name", [name for name in loader_files.ALL if name != loader_files.EDITABLE])
def test_what_freezes_an_application_sees_what_is_imported_late(name: str) -> None:
    """It reads the code and does not run it."""
    nodes = [*ast.walk(ast.parse(loader_files.read(name)))]
    calls = [each for each in nodes if isinstance(each, ast.Call) and ast.unparse(each.func) == "_import"]
    late = {each.args[0].value for each in calls if isinstance(each.args[0], ast.Constant)}
    seen = {alias.name for each in nodes if isinstance(each, ast.Import) for alias in each.names}
    assert late - {"cuda.core", "_thread"} <= seen


# While a part is imported, another thread forks, and only then the import goes on: no lock can be held.
FORK_DURING_IMPORT = """
import signal, sys, threading, warnings
warnings.simplefilter("ignore")
importing, forked = threading.Event(), threading.Event()

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("pkg._cubins.") and threading.current_thread() is caller:
            importing.set()
            if not forked.wait(20): os._exit(1)

sys.meta_path.insert(0, Finder())
caller = threading.Thread(target=lambda: cubins._part("PART"))
caller.start()
importing.wait()
child = os.fork()
if not child:
    signal.alarm(20)
    cubins._part("PART")
    os._exit(0)
status = os.waitpid(child, 0)[1]
forked.set()
caller.join()
print(status, cubins._part("PART").__build__ == cubins.__build__)
"""


@pytest.mark.linux
@pytest.mark.parametrize("part", ["_loading", "_debugging"])
def test_a_fork_while_a_part_is_imported_waits_for_nothing(tmp_path: Path, part: str) -> None:
    assert ask(tmp_path, FORK_DURING_IMPORT.replace("PART", part), None) == "0 True"


def borrowing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, bytes]) -> Any:
    """Return a loader whose own bundle has only the plain parts, beside another bundle of these files."""
    cubins = load_bundle(tmp_path / "own", bundle(made("own")))
    write_tree(tmp_path / "other", files)
    monkeypatch.setattr(cubins._part("_debugging"), "_is_here", lambda _name: False)
    return cubins


def test_use_runs_the_part_of_another_bundle_if_it_is_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cubins = borrowing(tmp_path, monkeypatch, packed_bundle(made("k")))
    with cubins.use(tmp_path / "other"):
        assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"
    assert cubins._parts["_packs"].__package__ is not None


@pytest.mark.parametrize("data", [b"raise SystemExit", None], ids=["another file", "no file"])
def test_use_runs_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes | None) -> None:
    files = packed_bundle(made("k"))
    if data is None:
        del files["_packs.py"]
    else:
        files["_packs.py"] = data
    cubins = borrowing(tmp_path, monkeypatch, files)
    with pytest.raises(cubins.CubinError, match=r"_packs\.py is not of the version"):
        cubins.use(tmp_path / "other")


def test_an_editable_bundle_and_a_large_one_can_be_used_without_their_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Builds of the one are not waited for, and the manifest of the other is read whole."""
    cubins = borrowing(tmp_path, monkeypatch, {**bundle(made("k")), "_editable.py": b""})
    monkeypatch.setattr(cubins, "_is_here", lambda _name: False)
    monkeypatch.setattr(cubins, "_READ_WHOLE", 0)
    with cubins.use(tmp_path / "other"):
        assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"
        (tmp_path / "other/k.sm_90.cubin").write_bytes(b"damaged")
        with pytest.raises(cubins.CubinDamagedError):
            cubins.read("k", cc=(9, 0))


def test_a_split_bundle_needs_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    variant = {"install": "demo==1.0", "label": "sm90"}
    files = bundle(made("k"), wheel_variant=variant)
    cubins = borrowing(tmp_path, monkeypatch, files)
    with pytest.raises(cubins.CubinError, match=r"_split\.py is not of the version"):
        cubins.use(tmp_path / "other")


@pytest.mark.parametrize("name", ["_debugging", "_gone"])
def test_a_core_takes_only_the_parts_that_belong_to_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "__build__", "of an older version")
    with pytest.raises(cubins.CubinError, match=f"{name}.py is missing, damaged, or of another version"):
        cubins._part(name)
    assert name not in cubins._parts


def test_a_part_that_the_system_cannot_read_is_not_said_to_be_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_name: str, _path: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    cubins = load_bundle(tmp_path, FILES)
    monkeypatch.setattr(cubins, "_find_spec", fail)
    with pytest.raises(
        cubins.CubinError, match=r"_debugging\.py cannot be read: Too many open files; the system is at fault"
    ):
        cubins.use(strict=True)


def test_a_name_that_no_part_has_is_an_error_of_a_registered_core_too() -> None:
    with pytest.raises(loader.CubinError, match=r"_gone\.py is missing"):
        loader._part("_gone")
    assert "hatch_cubin.loader" in sys.modules
