"""Finding bundles: in wheels, folders and installed packages, which are looked at and not imported."""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.common import read_limits
from hatch_cubin.errors import BundleError, Location, Problem, problem
from hatch_cubin.loader import finder
from hatch_cubin.wheels.reading.bundles import expand_patterns, open_wheel, read_member
from tests import special_files
from tests.cubins import FILES, inside, make_wheel
from tests.helpers import Coded, write_tree

MAKE = (
    "build a wheel with 'hatch build', 'uv build', 'pipx run hatch build' or 'pip wheel --no-deps -w dist .'"
)


def contents(what: Path | str) -> dict[str, dict[str, bytes]]:
    with open_wheel(str(what)) as opened:
        return {each.place: {name: each.read(name) for name in each.packed_sizes} for each in opened.bundles}


def refusal(what: Path | str) -> Problem:
    with pytest.raises(BundleError) as caught, open_wheel(str(what)):
        pass
    (problem,) = caught.value.problems
    return problem


def test_every_bundle_of_a_wheel_is_found(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path / "w.whl",
        {**inside("a/_cubins"), **inside("a/b/_cubins"), "a/__init__.py": b"", "a/_cubins/": b""},
    )
    assert contents(wheel) == {"a/_cubins": FILES, "a/b/_cubins": FILES}


@pytest.mark.parametrize("folder", ["/a/_cubins", "a//_cubins", "./a/_cubins"])
def test_what_looks_like_a_bundles_folder_in_a_wheel_is_another(tmp_path: Path, folder: str) -> None:
    odd = {f"{folder}/k.cubin": b"1", f"{folder}//k.cubin": b"2"}
    wheel = make_wheel(tmp_path / "w.whl", {**inside("a/_cubins"), **odd})
    assert contents(wheel) == {"a/_cubins": FILES, folder: {"k.cubin": b"1", "/k.cubin": b"2"}}


def test_a_wheel_says_how_much_room_each_file_takes(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", {"a/_cubins/zeros": bytes(10_000)})
    with open_wheel(str(wheel)) as opened:
        packed = opened.bundles[0].packed_sizes["zeros"]
    assert packed is not None
    assert 0 < packed < 100


def test_a_bundle_is_read_from_its_own_folder_or_any_around_it(tmp_path: Path) -> None:
    own = tmp_path / "src" / "demo" / "_cubins"
    write_tree(own, FILES)
    expected = {own.as_posix(): FILES}
    assert [contents(folder) for folder in (own, own.parent, tmp_path)] == [expected] * 3
    other = tmp_path / "elsewhere"
    shutil.move(own, other)
    assert contents(other) == {other.as_posix(): FILES}


def test_other_peoples_packages_and_compiled_python_are_passed_over(tmp_path: Path) -> None:
    own = tmp_path / "demo" / "_cubins"
    write_tree(own, {**FILES, "__pycache__/__init__.pyc": b""})
    write_tree(
        tmp_path, inside(".venv/x/_cubins") | inside("venv/lib/x/_cubins") | inside("node_modules/x/_cubins")
    )
    write_tree(tmp_path, {"venv/pyvenv.cfg": ""})
    assert contents(tmp_path) == {own.as_posix(): FILES}


def test_folders_into_which_nobody_may_look_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "demo" / "_cubins"
    write_tree(own, FILES)
    (tmp_path / "closed").mkdir()
    there = os.stat

    def stat(path: Any, **how: Any) -> os.stat_result:
        if os.fspath(path).startswith(str(tmp_path / "closed" / "")):
            raise PermissionError(13, "Permission denied", path)
        return there(path, **how)

    monkeypatch.setattr(os, "stat", stat)
    assert contents(tmp_path) == {own.as_posix(): FILES}


def test_a_package_is_found_by_its_name_and_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "found_by_name"
    write_tree(
        package, {"__init__.py": "raise SystemExit('imported')", "sub/__init__.py": "raise SystemExit"}
    )
    write_tree(package / "sub" / "_cubins", FILES)
    monkeypatch.syspath_prepend(str(tmp_path))
    place = (package / "sub" / "_cubins").as_posix()
    assert contents("found_by_name") == contents("found_by_name.sub") == {place: FILES}
    assert not {"found_by_name", "found_by_name.sub"} & {*sys.modules}


def test_of_an_editable_install_the_bundle_may_be_in_the_tree_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"site/found_in_tree/__init__.py": ""})
    bundle = tmp_path / "tree/found_in_tree/_cubins"
    write_tree(bundle, FILES)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    assert refusal("found_in_tree").code == "no-bundle"
    finder.find("found_in_tree._cubins", str(bundle))
    assert contents("found_in_tree") == {bundle.as_posix(): FILES}


@pytest.mark.parametrize("name", ["demo/k.cu", "demo/k.cuh", "demo/gone.cu"])
def test_in_place_of_a_source_the_projects_wheel_is_named(tmp_path: Path, name: str) -> None:
    files = {"demo/k.cu": "", "demo/k.cuh": "", "dist/demo-1.0-py3-none-any.whl": "", "pyproject.toml": ""}
    write_tree(tmp_path, files)
    hint = refusal(str(tmp_path / name)).hint
    wheel = (tmp_path / "dist/demo-1.0-py3-none-any.whl").as_posix()
    assert hint == f"name a wheel, not a source: there is a wheel: {wheel}"


@pytest.mark.parametrize("name", ["no_such_package", "json.no_such_part", "json.decoder", "a..b", ""])
def test_a_name_that_means_nothing_here(name: str) -> None:
    what = f"{name}: is not a file, a folder, or a package that is installed in this Python"
    assert str(refusal(name)) == f"{what}\n  hint: this Python is {sys.executable}"


@pytest.mark.parametrize(
    ("wheels", "hint"),
    [
        ([], MAKE),
        (["one.whl"], "there is a wheel: dist/one.whl"),
        (["one.whl", "two.whl"], "there are 2 wheels: dist/*.whl"),
    ],
)
@pytest.mark.parametrize("name", ["x.whl", "dist/x", "dist/x*.zip"])
def test_a_path_that_leads_nowhere_points_to_what_is_near(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wheels: list[str], hint: str, name: str
) -> None:
    write_tree(tmp_path / "dist", dict.fromkeys(wheels, ""))
    monkeypatch.chdir(tmp_path)
    assert str(refusal(name)) == f"{name}: no such file or folder exists\n  hint: {hint}"


def test_a_pattern_that_no_shell_expanded_stands_for_what_it_matches(tmp_path: Path) -> None:
    write_tree(tmp_path, {"b.whl": "", "a.whl": "", "[c].whl": ""})
    root = str(tmp_path)
    assert expand_patterns([f"{root}/?.whl", f"{root}/[c].whl", f"{root}/x*.whl", "json"]) == [
        *(f"{root}/a.whl", f"{root}/b.whl", f"{root}/[c].whl", f"{root}/x*.whl", "json")
    ]


def test_a_wheel_without_a_bundle_says_so(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", {"a/__init__.py": b"", "a/_cubins": b"a file"})
    what = "does not contain a bundle (a folder _cubins with compiled kernels)"
    hint = "run 'hatch-cubin plan' in the wheel's project to see which kernels a build compiles"
    assert refusal(wheel) == problem("no-bundle", what, Location(str(wheel)), hint)


@pytest.mark.parametrize("folder", ["dist", "."])
def test_a_folder_without_a_bundle_points_to_a_wheel_in_it(tmp_path: Path, folder: str) -> None:
    wheel = tmp_path / folder / "w.whl"
    write_tree(tmp_path, {f"{folder}/w.whl": ""})
    assert refusal(tmp_path) == Coded("no-bundle", tmp_path, f"hint: there is a wheel: {wheel.as_posix()}")


@pytest.mark.parametrize("folder", [".", "src/demo"])
def test_a_folder_of_a_project_points_to_its_wheel_or_how_to_make_one(tmp_path: Path, folder: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": "", "src/demo/__init__.py": ""})
    asked = f"{tmp_path}/{folder}"
    assert refusal(asked) == Coded("no-bundle", asked, f"hint: {MAKE}")
    write_tree(tmp_path, {"dist/demo.whl": ""})
    assert refusal(asked).hint == f"there is a wheel: {tmp_path.as_posix()}/dist/demo.whl"


def test_a_source_is_not_a_wheel(tmp_path: Path) -> None:
    write_tree(tmp_path, {"k.cu": ""})
    assert refusal(tmp_path / "k.cu").hint == f"name a wheel, not a source: {MAKE}"


@pytest.mark.parametrize("data", [b"", b"PK\3\4 and no more", bytes(range(100))])
def test_what_is_no_archive_says_so(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "w.whl"
    path.write_bytes(data)
    assert str(refusal(path)).startswith(f"{path}: cannot be read as a wheel, which is a zip archive: ")


def test_a_file_of_another_kind_needs_a_build(tmp_path: Path) -> None:
    write_tree(tmp_path, {"notes.txt": "x"})
    refused = refusal(tmp_path / "notes.txt")
    assert (refused.code, refused.hint) == ("not-a-wheel", MAKE)


def test_an_sdist_has_no_kernels_yet(tmp_path: Path) -> None:
    write_tree(tmp_path, {"demo-1.0.tar.gz": "x"})
    assert refusal(tmp_path / "demo-1.0.tar.gz").hint == f"an sdist contains only sources: {MAKE}"
    write_tree(tmp_path, {"demo-1.0-py3-none-any.whl": "x"})
    hint = f"an sdist contains only sources: name only wheels: {tmp_path}/*.whl"
    assert refusal(tmp_path / "demo-1.0.tar.gz").hint == hint


def test_a_cut_wheel_cannot_be_read(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", inside("a/_cubins"))
    wheel.write_bytes(wheel.read_bytes()[:-40])
    assert refusal(wheel).code == "not-a-wheel"
    assert refusal(wheel).hint == "the file may be incomplete: download or build the wheel again"


def test_a_file_of_a_bundle_is_not_a_wheel(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/_cubins/k.sm_90.cubin": b"\x7fELF"})
    error = refusal(tmp_path / "a/_cubins/k.sm_90.cubin")
    assert (error.code, error.hint) == (
        "not-a-wheel",
        f"name the folder of the whole bundle instead of one file: {tmp_path}/a/_cubins",
    )


def test_a_damaged_file_of_a_wheel_leaves_the_others_readable(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", {"a/_cubins/first": b"1" * 100, "a/_cubins/second": b"2" * 100})
    data = bytearray(wheel.read_bytes())
    data[data.index(b"first") + 6] ^= 0xFF
    wheel.write_bytes(data)
    with open_wheel(str(wheel)) as opened:
        (only,) = opened.bundles
        assert only.read("second") == b"2" * 100
        with pytest.raises(BundleError, match=r"/w\.whl/a/_cubins/first: cannot be unpacked: "):
            only.read("first")


def test_an_encrypted_file_is_named(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path / "w.whl", {"a/_cubins/first": b"1"})
    data = bytearray(wheel.read_bytes())
    data[data.index(b"PK\1\2") + 8] |= 1  # the flags in the archive's list of files
    wheel.write_bytes(data)
    with open_wheel(str(wheel)) as opened, pytest.raises(BundleError) as caught:
        opened.bundles[0].read("first")
    (found,) = caught.value.problems
    assert (found.code, found.where, found.what) == (
        "file-damaged",
        Location(f"{wheel}/a/_cubins/first"),
        "is encrypted, so it cannot be unpacked",
    )


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    place = write_tree(tmp_path / "_cubins", FILES)
    with open_wheel(str(place)) as opened, pytest.raises(BundleError, match=r"/_cubins/x: is missing$"):
        opened.bundles[0].read("x")


def test_a_file_that_vanishes_is_named(tmp_path: Path) -> None:
    place = write_tree(tmp_path / "_cubins", FILES)
    with open_wheel(str(place)) as opened:
        (place / "keys.json").unlink()
        with pytest.raises(BundleError, match=r"/_cubins/keys.json: cannot be read: No such file"):
            opened.bundles[0].read("keys.json")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "w.whl")
    assert str(refusal("/dev/zero")) == "/dev/zero: is neither a file nor a folder"
    assert refusal(tmp_path / "w.whl") == refusal("/dev/zero")._replace(where=Location(f"{tmp_path}/w.whl"))


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize(
    ("put", "kind"),
    [
        (special_files.a_pipe, "a pipe"),
        (special_files.a_link_to_a_device, "a device"),
        (special_files.a_link_to_nowhere, "a link to a file that does not exist"),
        (special_files.a_folder, "a folder"),
    ],
)
def test_what_stands_in_a_files_place_is_named_and_not_opened(
    tmp_path: Path, put: Callable[[Path], None], kind: str
) -> None:
    put(write_tree(tmp_path / "_cubins", FILES) / "x")
    with open_wheel(str(tmp_path)) as opened, pytest.raises(BundleError, match=rf"/_cubins/x: is {kind}$"):
        opened.bundles[0].read("x")


def test_json_that_would_fill_the_memory_is_not_read(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "demo.whl", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("demo/keys.json", "[" * (read_limits.PARTS + 1))
        archive.writestr("demo/notes.txt", "[" * (read_limits.PARTS + 1))
        archive.writestr("demo/large.json", bytes(read_limits.INDEX + 1))
    with zipfile.ZipFile(tmp_path / "demo.whl") as archive:
        assert len(read_member(archive, "demo/notes.txt")) == read_limits.PARTS + 1
        with pytest.raises(BundleError, match="is too large to read"):
            read_member(archive, "demo/keys.json")
        with pytest.raises(BundleError, match="is too large to unpack"):
            read_member(archive, "demo/large.json")
