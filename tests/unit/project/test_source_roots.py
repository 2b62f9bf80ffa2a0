"""The places and the names of the files of a project with source roots."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.errors import ConfigError, Location, Problem, SourceError, problem
from hatch_cubin.project.project import Project
from hatch_cubin.project.source import ProjectFiles, read_source, walk
from hatch_cubin.project.source_roots import ProjectTree, SourceRoot
from tests.helpers import Coded, pyproject, read_config, refusal, write_tree

PLACE = Location("pyproject.toml", pyproject("").count("\n") + 1)  # the table's first line
CSRC = 'source-roots = { csrc = "../csrc" }'


@pytest.fixture
def mono(tmp_path: Path) -> Path:
    return write_tree(
        tmp_path, {"csrc/a.cu": "", "csrc/deep/b.h": "", "pkg/demo/own.cu": "", "pkg/demo/__init__.py": ""}
    )


def tree_of(root: Path, options: str = CSRC) -> ProjectTree:
    return Project(root=root, packages={"demo": "demo"}, config=read_config(options)).tree


def refused(root: Path, options: str = CSRC) -> list[Problem]:
    return [*refusal(ConfigError, tree_of, root, options).problems]


def test_files_of_a_source_root_have_names_as_if_the_root_were_in_the_project(mono: Path) -> None:
    tree = tree_of(mono / "pkg")
    assert tree == ProjectTree(mono / "pkg", (SourceRoot("csrc", mono / "csrc", "../csrc"),))
    paths = ["csrc/deep/b.h", "demo/own.cu", "csrc", "csrcs/c.h"]
    places = [tree.disk_path(path) for path in paths]
    assert places == [mono / "csrc/deep/b.h", mono / "pkg/demo/own.cu", mono / "csrc", mono / "pkg/csrcs/c.h"]
    assert [*map(tree.name_of, places)] == paths
    assert [*map(tree.path_from_project, paths)] == [
        "../csrc/deep/b.h",
        "demo/own.cu",
        "../csrc",
        "csrcs/c.h",
    ]
    assert [*map(tree.path_in_sdist, paths[:2])] == ["source-roots/csrc/deep/b.h", "demo/own.cu"]
    assert [*map(tree.path_of_sdist_file, map(tree.path_in_sdist, paths))] == paths
    assert tree.path_of_sdist_file("source-roots/other.h") == "source-roots/other.h"
    assert tree.name_of(mono / "csrc/../other.h") == "../other.h"


def test_an_sdist_uses_the_root_inside_and_not_the_folder_above(mono: Path) -> None:
    write_tree(mono / "pkg", {"PKG-INFO": "", "source-roots/csrc/a.cu": ""})
    inside = SourceRoot("csrc", mono / "pkg/source-roots/csrc", "source-roots/csrc", is_partial=True)
    assert tree_of(mono / "pkg") == ProjectTree(mono / "pkg", (inside,))


def test_an_sdist_need_not_contain_a_root_that_no_kernel_needs(mono: Path) -> None:
    write_tree(mono / "pkg", {"PKG-INFO": ""})
    assert not tree_of(mono / "pkg").disk_path("csrc").exists()


def test_a_root_that_is_a_link_is_followed(mono: Path) -> None:
    (mono / "shared").symlink_to("csrc")
    tree = tree_of(mono / "pkg", 'source-roots = { csrc = "../shared" }')
    assert (tree.disk_path("csrc/a.cu"), tree.is_inside("csrc/a.cu")) == (mono / "csrc/a.cu", True)


COPIED = (
    "if this is a copy of the project, the folder was not copied: build in the "
    "original folder, or from the sdist"
)


@pytest.mark.parametrize(
    ("way", "hint"),
    [
        pytest.param("../shared", COPIED, id="absent"),
        pytest.param("../../of/shared", COPIED, id="with all that it is in"),
        pytest.param("../crsc", "did you mean '../csrc'?", id="misspelled"),
        pytest.param("../csrc/a.cu", COPIED, id="no folder"),
    ],
)
def test_a_missing_root_is_refused_with_the_folder_that_was_searched(mono: Path, way: str, hint: str) -> None:
    what = (
        f"source-roots: there is no folder {way!r} above {mono / 'pkg'}, "
        "and the project is not an unpacked sdist, which would contain a copy of the folder"
    )
    assert refused(mono / "pkg", f'source-roots = {{ csrc = "{way}" }}') == [
        problem("source-root-not-found", what, PLACE, hint)
    ]


def test_nothing_else_may_have_the_name_of_the_folder_for_roots_in_sdists(mono: Path) -> None:
    what = "the name 'source-roots' is reserved for the folder of source roots in an sdist"
    told = [problem("source-root-name-taken", f"source-roots: {what}", PLACE, "choose another name")]
    assert refused(mono / "pkg", 'source-roots = { source-roots = "../csrc" }') == told
    write_tree(mono / "pkg", {"source-roots/a.cu": ""})
    assert refused(mono / "pkg") == told


def test_a_root_must_not_have_the_name_of_a_file_of_the_project(mono: Path) -> None:
    write_tree(mono / "pkg", {"csrc/a.cu": ""})
    what = (
        "source-roots: 'csrc' is also a file or folder of the project: a source root needs a different name"
    )
    told = [problem("source-root-name-taken", what, PLACE, "rename the source root, or the file or folder")]
    assert refused(mono / "pkg") == told
    write_tree(mono / "pkg", {"PKG-INFO": ""})
    assert refused(mono / "pkg") == told


@pytest.mark.parametrize(
    ("folder", "code", "why"),
    [
        (
            "../pkg/demo",
            "source-root-in-project",
            " is in the project, but a source root must be a folder above",
        ),
        ("../pkg", "source-root-in-project", ""),
        ("../link", "source-root-contains-project", " contains the project itself"),
    ],
)
def test_a_root_must_be_outside_the_project(mono: Path, folder: str, code: str, why: str) -> None:
    (mono / "link").symlink_to(".")
    options = f'source-roots = {{ csrc = "{folder}" }}'
    assert refused(mono / "pkg", options) == [Coded(code, PLACE, f"source-roots: {folder!r}{why}")]


def test_all_roots_that_overlap_are_reported(mono: Path) -> None:
    (mono / "link").symlink_to("csrc")
    table = 'source-roots = { one = "../csrc", two = "../link", deep = "../csrc/deep" }'
    assert refused(mono / "pkg", table) == [
        Coded("source-roots-overlap", PLACE, f"source-roots: {name} is the folder {other} or is inside it")
        for name, other in (("'two'", "'one'"), ("'deep'", "'one'"), ("'deep'", "'two'"))
    ]


def test_a_root_in_an_sdist_must_not_be_a_link_out_of_it(mono: Path) -> None:
    write_tree(mono / "pkg", {"PKG-INFO": ""})
    (mono / "pkg/source-roots").symlink_to("..")
    assert refused(mono / "pkg") == [
        Coded("link-leads-outside", PLACE, "'source-roots/csrc' is a link to a place outside of the sdist")
    ]


def test_patterns_match_the_names_of_files_in_the_project(mono: Path) -> None:
    tree, packages = tree_of(mono / "pkg"), {"demo": "demo"}
    assert ProjectFiles(tree, packages).find(["**/*.cu", "csrc/**/*.cu"], []) == (
        ["csrc/a.cu", "demo/own.cu"],
        [],
    )
    assert ProjectFiles(tree, packages).find(["csrc/*.cu"], ["csrc/a.*"]) == ([], [])
    assert [*walk(tree, ".")] == ["demo/__init__.py", "demo/own.cu", "csrc/a.cu", "csrc/deep/b.h"]


def test_a_link_may_not_leave_its_source_root(mono: Path) -> None:
    (mono / "csrc/out.cu").symlink_to("../pkg/demo/own.cu")
    (mono / "csrc/in.cu").symlink_to("a.cu")
    tree = tree_of(mono / "pkg")
    assert read_source(tree, "csrc/in.cu").text == ""
    error = refusal(SourceError, read_source, tree, "csrc/out.cu")
    what = "is a link to a place outside of the source root 'csrc'"
    assert error.problems == (problem("link-leads-outside", what, Location("csrc/out.cu")),)
    assert (tree.real_name("csrc/out.cu"), tree.real_name("csrc/in.cu")) == ("demo/own.cu", "csrc/a.cu")
