"""What enters the wheel, and how it gets into a folder."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__, loader
from hatch_cubin.building import pipeline
from hatch_cubin.bundle import layout, loader_files
from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.common.file_lock import FileLock
from hatch_cubin.errors import BundleError
from tests.helpers import (
    COPY_PTX,
    SAXPY,
    SCALE,
    Coded,
    bundle,
    found,
    load_bundle,
    made,
    make_project,
    packed_bundle,
    refusal,
    run_threads,
    sha256,
    write_tree,
)
from tests.special_files import a_link_to_nowhere, a_pipe


def manifest_of(*built: layout.BuiltUnit, **how: Any) -> Any:
    return json.loads(bundle(*built, **how)["manifest.json"])


def test_a_bundle_is_the_loader_its_stub_two_indexes_and_the_units() -> None:
    files = bundle(made("k", "sm_90"), made("k", "compute_90"))
    assert sorted(files) == [
        *(
            "__init__.py",
            "__init__.pyi",
            "_debugging.py",
            "_loading.py",
        ),
        *("k.compute_90.ptx", "k.sm_90.cubin", "keys.json", "manifest.json"),
    ]
    folder = Path(loader.__file__).parent
    assert [files[name] for name in files if name.endswith(".py")] == [
        (folder / name).read_bytes() for name in files if name.endswith(".py")
    ]


def test_the_manifest_in_full() -> None:
    built = made(
        "k", kernels={"f<1>": "_Z1f"}, variant={"N": "1"}, options={"std": "c++17"}, define=(("M", "2"),)
    )
    manifest = manifest_of(built)
    checks = manifest.pop("check"), manifest["modules"]["k[N=1]"].pop("check")
    assert [len(check) for check in checks] == [64, 64]
    assert manifest == {
        "format": 1,
        "generator": {"name": "hatch-cubin", "version": __version__},
        "data_model": "lp64",
        "toolchain": {"nvrtc": "13.0.88"},
        "kernels": {"f<1>": ["k[N=1]"]},
        "modules": {
            "k[N=1]": {
                "source": "demo/k.cu",
                "variant": {"N": "1"},
                "kernels": {"f<1>": "_Z1f"},
                "options": {"std": "c++17", "define_macro": ["M=2"]},
                "entries": [
                    {
                        "arch": "sm_90",
                        "kind": "cubin",
                        "file": "k.N-1.sm_90.cubin",
                        "size": 16,
                        "sha256": sha256(b"k[N=1] for sm_90"),
                        "min_driver": 13000,
                    }
                ],
            }
        },
    }


def test_options_of_several_values_are_arrays() -> None:
    module = manifest_of(made("k", options={"ptxas_options": ("-v", "-O3")}))["modules"]["k"]
    assert module["options"] == {"ptxas_options": ["-v", "-O3"]}


def test_the_keys_in_full() -> None:
    files = bundle(made("k", program_key=b"\1\2"), made("k", "sm_80"), made("a"))
    keys = json.loads(files["keys.json"])
    assert len(keys.pop("check")) == 64
    assert keys == {
        "units": {
            "a": {"sm_90": {"key": sha256(b"a for sm_90"), "program_key": None}},
            "k": {
                "sm_80": {"key": sha256(b"k for sm_80"), "program_key": None},
                "sm_90": {"key": sha256(b"k for sm_90"), "program_key": "0102"},
            },
        }
    }


def test_the_order_of_units_does_not_matter() -> None:
    built = [made("b"), made("a", "sm_80"), made("a", "compute_90"), made("c", variant={"N": "1"})]
    assert bundle(*built) == bundle(*reversed(built))


@pytest.mark.parametrize("make", [bundle, packed_bundle])
@pytest.mark.parametrize(("count", "is_large"), [(999, False), (1000, True)])
def test_a_bundle_of_many_units_has_the_part_that_reads_a_manifest_in_pieces(
    make: Callable[..., dict[str, bytes]], count: int, *, is_large: bool
) -> None:
    files = make(*(made(f"k{number}", data=b"same") for number in range(count)))
    assert (loader_files.LARGE in files) is is_large
    needed = {name for name in files if name.endswith(".py")}
    assert {*read_manifest(files["manifest.json"]).loader_files} == needed


def test_an_empty_bundle_is_the_loader_its_stub_and_two_indexes() -> None:
    files = bundle(skipped=True)
    assert files.keys() == {*loader_files.OF_EVERY, "__init__.pyi", "keys.json", "manifest.json"}
    manifest = json.loads(files["manifest.json"])
    assert (manifest["kernels"], manifest["modules"], manifest["skipped"]) == ({}, {}, True)


def test_identical_results_are_stored_once() -> None:
    files = bundle(made("a", data=b"same"), made("b", data=b"same"), made("c"))
    assert [name for name in files if name.endswith(".cubin")] == ["a.sm_90.cubin", "c.sm_90.cubin"]
    modules = json.loads(files["manifest.json"])["modules"]
    assert {name: module["entries"][0]["file"] for name, module in modules.items()} == {
        "a": "a.sm_90.cubin",
        "b": "a.sm_90.cubin",
        "c": "c.sm_90.cubin",
    }


def test_file_names_that_differ_in_case_only_are_told_apart() -> None:
    upper, lower = (made("k", variant={"T": value}) for value in ("A", "a"))
    names = [name for name in bundle(upper, lower) if name.endswith(".cubin")]
    assert names == ["k.T-A.sm_90.cubin", f"{sha256(b'k[T=a]')[:10]}.sm_90.cubin"]
    assert len({name.casefold() for name in names}) == 2


def test_an_entry_names_its_kernels_where_they_differ_by_arch() -> None:
    module = manifest_of(made("k", "sm_80"), made("k", "sm_90", {"k": "k", "extra": "extra"}))["modules"]["k"]
    assert module["kernels"] == {"k": "k", "extra": "extra"}
    assert [entry.get("kernels") for entry in module["entries"]] == [{"k": "k"}, None]


@pytest.mark.parametrize(
    ("version", "driver"),
    [
        *(("6.0", 10000), ("6.4", 10010), ("6.5", 10020), ("7.0", 11000), ("7.8", 11080), ("8.0", 12000)),
        *(("8.5", 12050), ("8.6", 12070), ("8.7", 12080), ("8.8", 12090), ("9.0", 13000), ("9.5", 13050)),
        *(("5.0", 9000), ("", 9000)),
    ],
)
def test_ptx_needs_the_driver_of_the_release_that_brought_its_version(version: str, driver: int) -> None:
    text = f"// PTX\n.version {version}\n".encode() if version else b"// PTX"
    entry = manifest_of(made("k", "compute_90", data=text))["modules"]["k"]["entries"][0]
    assert (entry["kind"], entry["min_driver"]) == ("ptx", driver)


@pytest.mark.parametrize(("major", "driver"), [(12, 12000), (13, 13000)])
def test_a_cubin_needs_the_driver_of_the_toolkits_major(major: int, driver: int) -> None:
    assert manifest_of(made("k"), major=major)["modules"]["k"]["entries"][0]["min_driver"] == driver


@pytest.mark.nvrtc
def test_a_real_build_is_found_and_read(tmp_path: Path) -> None:
    options = """\
        archs = ["sm_80", "sm_90a", "compute_80"]
        [[tool.hatch.build.hooks.cubin.source]]
        path = "**/scale.cu"
        instantiate = ["scale<float, 4>", "scale<double,2>"]
        [[tool.hatch.build.hooks.cubin.source]]
        path = "**/copy.ptx"
        archs = ["sm_80", "compute_80"]
        """
    sources = {"saxpy.cu": SAXPY, "scale.cu": SCALE, "copy.ptx": COPY_PTX}
    cubins = load_bundle(tmp_path / "bundle", pipeline.build(make_project(tmp_path, sources, options)))
    assert cubins.names() == ("copy", "saxpy", "scale<double, 2>", "scale<float, 4>")
    assert cubins.archs() == ("sm_80", "sm_90a", "compute_80")
    assert cubins.find("scale < float,4 >", cc=(9, 0)).kernels["scale<float, 4>"] == "_Z5scaleIfLi4EEvPT_"
    assert cubins.read("saxpy", cc=(8, 6)).startswith(b"\x7fELF")
    assert cubins.read("copy", cc=(10, 0)) == COPY_PTX.encode()
    assert cubins.find("copy", cc=(10, 0)).min_driver == 11000


# --- into a folder ------------------------------------------------------------------------------


def test_write_makes_the_folder_hold_exactly_the_bundle(tmp_path: Path) -> None:
    folder = tmp_path / "pkg/_cubins"
    layout.write({"a": b"1", "stale": b"2"}, folder)
    (folder / "__pycache__").mkdir()
    layout.write({"a": b"1", "b": b"3"}, folder)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()} == {
        "a": b"1",
        "b": b"3",
    }
    assert (folder / "__pycache__").is_dir()


def test_what_is_right_keeps_its_time_stamp(tmp_path: Path) -> None:
    layout.write({"same": b"1", "other": b"2"}, tmp_path)
    for name in ("same", "other"):
        os.utime(tmp_path / name, (1, 1))
    layout.write({"same": b"1", "other": b"3"}, tmp_path)
    assert (tmp_path / "same").stat().st_mtime == 1
    assert (tmp_path / "other").stat().st_mtime != 1


@pytest.mark.linux
def test_everyone_may_read_what_was_written(tmp_path: Path) -> None:
    layout.write({"a": b"1"}, tmp_path)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_files_are_replaced_once_all_are_written_the_manifest_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[str, int]] = []
    replace = Path.replace

    def look(temporary: Path, path: Path) -> Path:
        in_work = [each.name for each in temporary.parent.iterdir()]
        assert all(name.startswith(".writing-") for name in in_work)
        seen.append((path.name, len(in_work)))
        return replace(temporary, path)

    monkeypatch.setattr(Path, "replace", look)
    layout.write({"manifest.json": b"", "a": b"", "z": b""}, tmp_path)
    assert seen == [("a", 3), ("z", 2), ("manifest.json", 1)]


@pytest.mark.linux
def test_a_pipe_is_replaced_and_not_waited_for(tmp_path: Path) -> None:
    for name in ("manifest.json", "stale"):
        os.mkfifo(tmp_path / name)
    layout.write({"manifest.json": b"1"}, tmp_path)
    assert {path.name: path.is_file() for path in tmp_path.iterdir()} == {"manifest.json": True}


def test_what_another_build_removes_while_it_is_read_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout.write({"a": b"1"}, tmp_path)

    def vanish(path: Path) -> bytes:
        path.unlink()
        raise FileNotFoundError

    with monkeypatch.context() as patched:
        patched.setattr(Path, "read_bytes", vanish)
        layout.write({"a": b"1"}, tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


def test_a_failure_leaves_no_temporary_file_and_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    error = refusal(BundleError, layout.write, {"a": b"1"}, tmp_path)
    assert str(error) == f"{tmp_path / 'a'}: cannot write the bundle: it is a folder"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.linux
@pytest.mark.parametrize(
    ("put", "what"),
    [(a_pipe, "it is a pipe"), (a_link_to_nowhere, ("it is a link to a file that does not exist"))],
)
def test_what_stands_where_the_folder_should_is_named(
    tmp_path: Path, put: Callable[[Path], None], what: str
) -> None:
    put(tmp_path / "_cubins")
    error = refusal(BundleError, layout.write, {"a": b"1"}, tmp_path / "_cubins")
    assert [*error.problems] == [Coded("file-not-writable", tmp_path / "_cubins", what)]


def test_what_stood_there_and_is_gone_is_told_as_the_system_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def exists(folder: Path, **_options: object) -> None:
        raise FileExistsError(17, "File exists", str(folder))

    monkeypatch.setattr(Path, "mkdir", exists)
    error = refusal(BundleError, layout.write, {"a": b"1"}, tmp_path / "_cubins")
    assert [*error.problems] == [Coded("file-not-writable", tmp_path / "_cubins", ": File exists ")]


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError) as caught:
        layout.write({"a": b"1"}, tmp_path / "file" / "_cubins")
    assert str(tmp_path / "file") in str(caught.value)


@pytest.mark.parametrize(
    ("locks", "stays"),
    [
        (False, [".writing-minutes", ".writing-new"]),
        pytest.param(True, [".writing-new"], marks=pytest.mark.linux),
    ],
)
def test_temporary_files_go_once_no_build_can_own_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, locks: bool, stays: list[str]
) -> None:
    """Who holds the lock knows it sooner, but a build that waited for it in vain may still be writing."""
    if not locks:
        monkeypatch.setattr(layout, "wait_for_lock", lambda _folder, _seconds: FileLock(None))
    ages_s = {".writing-new": 30, ".writing-minutes": 120, ".writing-old": 7200}
    for name, age_s in ages_s.items():
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (time.time() - age_s,) * 2)
    layout.write({"a": b"1"}, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [*stays, "a"]


def test_a_temporary_file_may_vanish_while_it_is_looked_at(tmp_path: Path) -> None:
    assert layout._is_in_work(tmp_path / ".writing-gone", 60)
    assert not layout._is_in_work(tmp_path / "stale", 60)


WRITES = """\
import sys
from pathlib import Path
from hatch_cubin.bundle import layout, loader_files
for turn in range(1_000_000):
    files = {f"f{number}": b"%d" % turn * 10_000 for number in range(20)}
    layout.write(files, Path(sys.argv[1]), Path(sys.argv[2]))
    if turn == 0:
        print("begun", flush=True)
"""


@pytest.mark.linux
def test_a_build_that_is_killed_leaves_nothing_where_a_backend_takes_files(tmp_path: Path) -> None:
    """Each is killed at another moment: most of a build's time here goes into temporary files."""
    folder = tmp_path / "demo/_cubins"
    write_tree(tmp_path, {"demo/__init__.py": ""})
    kept = 0
    for number in range(6):
        command = [sys.executable, "-c", WRITES, str(folder), str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            process.stdout.readline()
            time.sleep(number * 0.0071)
            process.kill()
        assert {path.name for path in folder.iterdir()} == {f"f{number}" for number in range(20)}
        assert {path.name for path in tmp_path.iterdir()} <= {"demo", ".hatch"}
        kept += (tmp_path / ".hatch").exists()
    assert kept > 0  # or nothing was tried
    layout.write({"a": b"1"}, folder, tmp_path)
    assert [path.name for path in folder.iterdir()] == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["demo"]


def test_files_are_written_around_the_packages_by_default(tmp_path: Path) -> None:
    write_tree(tmp_path, {"src/a/__init__.py": "", "src/a/b/__init__.py": ""})
    assert layout.outside_of(tmp_path / "src/a/b/_cubins") == tmp_path / "src"
    assert layout.outside_of(Path("/")) == Path("/")


def test_what_others_have_there_stays(tmp_path: Path) -> None:
    write_tree(tmp_path, {".hatch/theirs": "", ".hatch/hatch-cubin-abcdefgh.held": ""})
    layout.write({"a": b"1"}, tmp_path / "demo/_cubins", tmp_path)
    assert sorted(path.name for path in (tmp_path / ".hatch").iterdir()) == [
        "hatch-cubin-abcdefgh.held",
        "theirs",
    ]


@pytest.mark.parametrize("how", ["a file", "another disk"])
def test_where_no_file_can_be_moved_from_it_is_written_in_the_folder_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    if how == "a file":
        write_tree(tmp_path, {".hatch": ""})
    else:
        real = Path.stat

        def stat(path: Path, **options: Any) -> Any:
            found = real(path, **options)
            return os.stat_result((*found[:2], 0, *found[3:])) if path.name == ".hatch" else found

        monkeypatch.setattr(Path, "stat", stat)
    layout.write({"a": b"1"}, tmp_path / "demo/_cubins", tmp_path)
    assert [path.name for path in (tmp_path / "demo/_cubins").iterdir()] == ["a"]
    assert (tmp_path / ".hatch").exists() is (how == "a file")


def test_builds_may_write_one_folder_at_once(tmp_path: Path) -> None:
    barrier, failures = threading.Barrier(4), []

    def write(number: int) -> None:
        barrier.wait()
        try:
            for turn in range(20):
                layout.write({"a": b"%d" % turn, "b": b"%d %d" % (turn, number)}, tmp_path)
        except BundleError as exc:
            failures.append(exc)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    run_threads(threads)
    assert failures == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_what_is_staged_is_there_as_it_is(tmp_path: Path) -> None:
    layout.stage({"a.cubin": [b"a"], "manifest.json": [b"{", b"}"]}, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "a.cubin": b"a",
        "manifest.json": b"{}",
    }


def test_a_place_where_nothing_can_be_staged_is_named(tmp_path: Path) -> None:
    error = refusal(BundleError, layout.stage, {"a.cubin": [b"a"]}, tmp_path / "absent")
    assert [*error.problems] == [
        Coded("file-not-writable", tmp_path / "absent/a.cubin", "No such file or directory")
    ]


@pytest.mark.parametrize("text", ["", "MINE = 1\n"])
def test_a_package_that_hatch_cubin_did_not_write_is_not_replaced(tmp_path: Path, text: str) -> None:
    write_tree(tmp_path, {"_cubins/__init__.py": text, "_cubins/util.py": "x = 1\n"})
    error = refusal(BundleError, layout.refuse_foreign, tmp_path / "_cubins")
    paths = [str(tmp_path / "_cubins" / name) for name in ("__init__.py", "util.py")]
    assert found(error) == [("foreign-files-in-bundle", path) for path in paths]
    assert (tmp_path / "_cubins/util.py").read_text("utf-8") == "x = 1\n"


@pytest.mark.parametrize(
    "name",
    ["_cubins.py", "_cubins/k.cu", "_cubins/k.cuh", "_cubins/k.ptx", "_cubins/mine.py", "_cubins/notes.txt"],
)
def test_a_users_file_in_the_place_of_the_bundle_is_named(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {name: ""})
    error = refusal(BundleError, layout.refuse_foreign, tmp_path / "_cubins")
    assert found(error) == [("foreign-files-in-bundle", str(tmp_path / name))]


def test_the_ptx_of_a_bundle_is_not_a_users_file(tmp_path: Path) -> None:
    names = ("k.ptx", "manifest.json", "k.cubin", "0.xz", "__init__.pyi", ".gitignore", "__pycache__/a.pyc")
    write_tree(tmp_path, {f"_cubins/{name}": "" for name in names})
    layout.refuse_foreign(tmp_path / "_cubins")


def test_a_folder_that_cannot_be_read_is_reported_when_it_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"_cubins/__init__.py": ""})

    def refuse(_path: Path) -> bytes:
        raise PermissionError

    monkeypatch.setattr(Path, "read_bytes", refuse)
    layout.refuse_foreign(tmp_path / "_cubins")


def test_a_bundle_and_a_folder_that_is_not_there_can_be_written(tmp_path: Path) -> None:
    layout.refuse_foreign(tmp_path / "_cubins")
    core = Path(loader.__file__).read_bytes()
    write_tree(tmp_path, {"_cubins/__init__.py": core})
    layout.refuse_foreign(tmp_path / "_cubins")
