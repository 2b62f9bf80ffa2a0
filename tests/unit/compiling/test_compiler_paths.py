"""Names of folders in a compile: the same wherever the project stands."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.compiling import compiler_paths as paths_module
from hatch_cubin.compiling.compiler_paths import CompilePaths
from hatch_cubin.compiling.diagnostics import parse_log
from hatch_cubin.headers.includes import Closure
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.project.source_roots import ProjectTree, SourceRoot
from tests.helpers import write_tree

OWN = "project/include"


def paths(project: Path, *trees: str) -> CompilePaths:
    own = SearchFolder(project / "include", OWN)
    return CompilePaths(
        ProjectTree(project),
        [own, *(SearchFolder(project.parent / name, name, "wheel==1") for name in trees)],
    )


@pytest.mark.linux
def test_a_compile_knows_no_absolute_path(tmp_path: Path) -> None:
    here, there = paths(tmp_path / "here", "cub"), paths(tmp_path / "there", "cub")
    assert here.of_source("pkg/k.cu") == there.of_source("pkg/k.cu") == "/proc/self/fd/77/pkg/k.cu"
    assert here.of_root(SearchFolder(tmp_path / "here/include", OWN)) == "/proc/self/fd/77/include"
    tree = [each.of_root(SearchFolder(tmp_path / "cub", "cub", "wheel==1")) for each in (here, there)]
    assert tree[0] == tree[1]
    assert dict(here.descriptors) == {77: str(tmp_path / "here"), number(tree[0]): str(tmp_path / "cub")}
    assert dict(here.readable) == {"/proc/self/fd/77": "project", tree[0]: "cub"}


def number(name: str) -> int:
    return int(name.rpartition("/")[2])


@pytest.mark.linux
def test_every_tree_has_a_descriptor_of_its_own(tmp_path: Path) -> None:
    names = [f"tree{number}" for number in range(60)]  # enough for two to draw the same number
    forwards, backwards = paths(tmp_path / "p", *names), paths(tmp_path / "p", *reversed(names))
    assert forwards.descriptors == backwards.descriptors
    assert sorted(forwards.descriptors.values()) == sorted(
        map(str, [tmp_path / "p", *(tmp_path / n for n in names)])
    )
    assert all(100 <= each < 1024 for each in forwards.descriptors if each != 77)


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_where_descriptors_have_no_names_the_folders_have_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "is_dir", lambda _path: False)
    project = paths(tmp_path / "p", "cub")
    assert project.of_source("pkg/k.cu") == f"{tmp_path}/p/pkg/k.cu"
    assert project.of_root(SearchFolder(tmp_path / "p/include", OWN)) == f"{tmp_path}/p/include"
    assert project.of_root(SearchFolder(tmp_path / "cub", "cub", "wheel==1")) == f"{tmp_path}/cub"
    assert dict(project.descriptors) == dict(project.copies(tmp_path / "copies", [], [])) == {}
    assert dict(project.readable) == {f"{tmp_path}/p": "project", f"{tmp_path}/cub": "cub"}


def test_a_folder_searched_under_two_names_keeps_its_first(tmp_path: Path) -> None:
    both = [SearchFolder(tmp_path / "cub", name, "wheel==1") for name in ("b", "a")]
    project = CompilePaths(ProjectTree(tmp_path / "p"), both)
    assert list(project.readable.values()) == ["project", "a"]
    assert project.of_root(both[0]) == project.of_root(both[1])
    assert paths_module.CompilePaths(ProjectTree(tmp_path / "p"), reversed(both)).readable == project.readable


@pytest.mark.linux
def test_descriptors_can_stand_for_copies_of_what_a_compile_reads_all_of_one_time(tmp_path: Path) -> None:
    own = write_tree(tmp_path / "p", {"pkg/a.h": "a", "pkg/other.h": "", "include/b.h": "b"})
    wheel = write_tree(tmp_path / "wheel", {"c.h": "c", "deep/d.h": "d", "other.h": ""})
    tree = write_tree(tmp_path / "tree", {"e.h": "e", "any/f.h": "f"})
    roots = [
        SearchFolder(own / "include", OWN),
        SearchFolder(wheel, "wheel", "wheel==1"),
        SearchFolder(wheel / "deep", "wheel/deep", "wheel==1"),
        SearchFolder(tree, "tree", "tree==1"),
    ]
    logical = [
        "project/pkg/a.h",
        "project/include/b.h",
        "wheel/c.h",
        "wheel/deep/d.h",
        "tree/e.h",
        "/usr/include/x.h",
    ]
    closure = Closure(files=dict.fromkeys(logical, ""), trees={"tree==1"})
    project = CompilePaths(ProjectTree(own), roots)
    into = tmp_path / "copies"
    found = {each: Path(folder) for each, folder in project.copies(into, [closure, closure], []).items()}
    assert found.keys() == project.descriptors.keys()
    places = [found[number(project.of_root(root))] for root in roots[1:]]
    assert places[1] == places[0] / "deep"
    copied = [path for path in into.rglob("*") if path.is_file()]
    assert sorted(path.read_text() for path in copied) == list("abcdef")
    assert (found[77] / "include/b.h").read_text() == "b"
    assert (places[2] / "any/f.h").read_text() == "f"
    assert {path.stat().st_mtime for path in copied} == {0}


@pytest.mark.linux
def test_copies_of_a_folder_with_two_names_have_what_either_names(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "cub", {"a.h": "a", "b.h": "b", "any.h": "any"})
    toolkit, wheel = (
        SearchFolder(folder, "cuda/include", "wheels"),
        SearchFolder(folder, "nvidia-cccl/include", "cccl==1"),
    )
    project = CompilePaths(ProjectTree(tmp_path / "p"), [toolkit, wheel])
    logical = ["cuda/include/a.h", "nvidia-cccl/include/b.h"]
    layout = project.layout(logical, [])
    place = layout.places[number(project.of_root(wheel))]
    assert layout.files == {f"{place}/{name[-3:]}": (name, folder / name[-3:]) for name in logical}
    for each in (toolkit, wheel):
        found = project.copies(tmp_path / each.tree, [Closure(trees={each.tree})], [])
        assert Path(found[number(project.of_root(each))], "any.h").read_text() == "any"


@pytest.mark.linux
def test_copies_of_what_lies_outside_the_project_stay_in_one_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, {"one.h": "1", "far/two.h": "2", "a/p/pkg/three.h": "3", "a/four.h": "4"})
    logical = ["../../far/two.h", "../../one.h", "../four.h", "pkg/three.h"]
    closure = Closure(files={f"project/{name}": "" for name in logical})
    into = tmp_path / "scratch/into"
    descriptors = CompilePaths(ProjectTree(tmp_path / "a/p"), []).copies(
        into, [closure], ["src/deep", "include"]
    )
    copy = Path(descriptors[77])
    assert [(copy / name).read_text() for name in logical] == ["2", "1", "4", "3"]
    assert (copy / "src/deep/../../../four.h").read_text() == "4"
    assert [*tmp_path.glob("scratch/*")] == [into]
    assert sorted(path.name for path in copy.iterdir()) == ["include", "pkg", "src"]


@pytest.fixture
def mono(tmp_path: Path) -> ProjectTree:
    """A project with a folder above it."""
    write_tree(tmp_path, {"p/pkg/k.cu": "of the project", "csrc/near.h": "of the root"})
    return ProjectTree(tmp_path / "p", (SourceRoot("csrc", tmp_path / "csrc", "../csrc"),))


@pytest.mark.linux
def test_a_source_root_lies_in_the_project_for_a_compile(mono: ProjectTree, tmp_path: Path) -> None:
    scattered = CompilePaths(mono, [])
    assert scattered.of_source("csrc/k.cu") == "/proc/self/fd/77/csrc/k.cu"
    assert scattered.of_root(SearchFolder(tmp_path / "csrc/include", "project/csrc/include")) == (
        "/proc/self/fd/77/csrc/include"
    )
    assert (scattered.are_scattered, CompilePaths(ProjectTree(mono.root), []).are_scattered) == (True, False)
    ((number, folder),) = scattered.joined(tmp_path / "links").items()
    assert number == 77
    assert {path.name for path in Path(folder).iterdir()} == {"pkg", "csrc"}
    assert Path(folder, "csrc/near.h").read_text() == "of the root"
    above = Path(folder, *[".."] * 15)
    assert above.resolve().is_relative_to(tmp_path / "links")


def test_copies_have_a_source_root_in_the_project(mono: ProjectTree, tmp_path: Path) -> None:
    closure = Closure({"project/csrc/near.h": ""})
    places = CompilePaths(mono, []).copies(tmp_path / "copies", [closure], ["csrc"])
    assert [Path(place, "csrc/near.h").read_text() for place in places.values()] == ["of the root"]


def test_where_descriptors_have_no_names_a_source_root_has_its_own(
    mono: ProjectTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    scattered = CompilePaths(mono, [])
    above = mono.roots[0].folder
    assert scattered.of_source("csrc/k.cu") == str(above / "k.cu")
    assert scattered.readable == {str(mono.root): "project", str(above): "project/csrc"}
    log = f"{above}/near.h(3): error: x\n{mono.root}/pkg/k.cu(4): error: y\n"
    found = parse_log(log, "csrc/k.cu", scattered.readable)
    assert [str(each.where) for each in found] == ["csrc/near.h:3", "pkg/k.cu:4"]
    assert not scattered.are_scattered


@pytest.mark.linux
def test_a_file_is_laid_out_where_it_is_found_or_not_at_all(tmp_path: Path) -> None:
    project = CompilePaths(ProjectTree(tmp_path), [])
    assert [*project.layout(["project/a.h", "/usr/include/b.h"], []).files] == ["77/a.h"]
    with pytest.raises(KeyError, match="cub/c\\.h"):
        project.layout(["cub/c.h"], [])
