"""Where includes were looked for in vain: told by the part of a path that is missing, and looked at again."""

from __future__ import annotations

import os
from pathlib import Path

from hatch_cubin.headers import absent_includes
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import write_tree


def test_of_many_paths_only_their_missing_parts_are_told(tmp_path: Path) -> None:
    write_tree(tmp_path, {"include/there/a.h": ""})
    (tmp_path / "include/folder.h").mkdir()
    tried = [
        "include/cub/x.h",
        "include/cub/util/y.h",
        "include/there/b.h",
        "include/folder.h",
        "demo/../b.h",
    ]
    assert absent_includes.absent_names(ProjectTree(tmp_path), [*tried, "/of/the/machine.h"]) == {
        "include": ["cub", "folder.h/"],
        "include/there": ["b.h"],
        "": ["demo"],
        "/of/the": ["machine.h"],
    }


def test_what_is_there_by_now_is_told(tmp_path: Path) -> None:
    absent = {"include": ["cub", "folder.h/", "pipe.h/", "x.h"], "": ["demo"]}
    (tmp_path / "include/folder.h").mkdir(parents=True)
    assert list(absent_includes.appeared_paths(ProjectTree(tmp_path), absent)) == []
    (tmp_path / "include/folder.h").rmdir()
    write_tree(tmp_path, {"include/folder.h": "", "include/cub/x.h": "", "demo": ""})
    os.mkfifo(tmp_path / "include/pipe.h")
    assert list(absent_includes.appeared_paths(ProjectTree(tmp_path), absent)) == [
        "include/cub",
        "include/folder.h/",
        "include/pipe.h/",
        "demo",
    ]
