"""What a build recalls of its closures: as long as nothing has changed that they rest on."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.errors import SourceError
from hatch_cubin.headers.includes import Closure, Resolver
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.keys.recall import Recall
from hatch_cubin.project import disk
from hatch_cubin.project.scan import ScanCache
from hatch_cubin.project.source_roots import ProjectTree
from tests.fuzz.edits import Asked, facts, fresh, recalled
from tests.fuzz.include_trees import FACTS, write

TREE = {
    "project/demo/near.h": "#include <shared.h>\n#define NEAR 1\n",
    "project/i1/shared.h": "#include <far.h>\n#include <folder/x.h>\n",
    "w1/far.h": '#include "inner/next.h"\n#include <last.h>\n#if __has_include(<nowhere.h>)\n#endif\n',
    "w1/inner/next.h": '#include "../far.h"\n#define NEXT <last.h>\n#include NEXT\n',
    "w1/folder/x.h": "",
    "w2/last.h": "",
    "w2/unused.h": "",
}
ASKED = Asked('#include "near.h"\nint x;\n')


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in TREE.items():
        write(tmp_path / "root" / name, text)
    (tmp_path / "root/project/i2").mkdir()
    return tmp_path / "root"


def build(root: Path, asked: Asked = ASKED) -> tuple[Closure, bool]:
    """Return a closure as a build finds it, and whether it had to follow headers outside."""
    recall = Recall(root / "recall.txt")
    found = recalled(root, asked, recall)
    recall.record(FACTS, {})
    return found


def edit(name: str, text: str) -> Callable[[Path], None]:
    return lambda root: write(root / name, text)


def link(name: str, to: str) -> Callable[[Path], None]:
    def made(root: Path) -> None:
        (root / name).unlink(missing_ok=True)
        (root / name).symlink_to(root / to)

    return made


def replaced(name: str, text: str) -> Callable[[Path], None]:
    """Put another file in the place of one, of its size and its time: so do installers that set all times."""

    def made(root: Path) -> None:
        path, new = root / name, root / "new"
        status = path.stat()
        new.write_text(text)
        os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
        new.replace(path)

    return made


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _root: None, id="nothing"),
        pytest.param(edit("project/demo/near.h", f"{TREE['project/demo/near.h']}\nint y;"), id="other code"),
        pytest.param(edit("project/i1/unused.h", "#include <a.h>"), id="a header that nothing includes"),
        pytest.param(edit("w2/other.h", "#include <a.h>"), id="a header outside that nothing includes"),
        pytest.param(lambda root: (root / "project/i2/far.h").mkdir(), id="a folder of a header's name"),
        pytest.param(lambda root: os.link(root / "w1/far.h", root / "project/linked"), id="a hard link"),
        pytest.param(lambda root: (root / "w1/far.h").touch(), id="another time"),
        pytest.param(replaced("w1/far.h", TREE["w1/far.h"]), id="another file of the same content"),
        pytest.param(link("w2/last.h", "w2/unused.h"), id="a link to the same content"),
    ],
)
def test_a_closure_is_recalled_where_nothing_changed_that_it_rests_on(
    root: Path, change: Callable[[Path], Any]
) -> None:
    first, walked = build(root)
    assert walked
    assert facts(first) == facts(fresh(root, ASKED))
    change(root)
    again, walked = build(root, ASKED._replace(text='#include "near.h"\nint another;\n'))
    assert (facts(again), walked) == (facts(fresh(root, ASKED)), False)
    assert facts(build(root)[0]) == facts(again)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edit("project/demo/near.h", "#include <last.h>\n"), id="another include"),
        pytest.param(
            edit("project/demo/near.h", "#include <shared.h>\n#define X <x.h>\n"), id="another macro"
        ),
        pytest.param(edit("w1/far.h", TREE["w1/far.h"].replace("last", "lost")), id="an edit outside"),
        pytest.param(
            replaced("w1/far.h", TREE["w1/far.h"].replace("last", "lost")), id="another file of its time"
        ),
        pytest.param(lambda root: (root / "w2/last.h").unlink(), id="nothing outside"),
        pytest.param(edit("w1/last.h", ""), id="a header that hides another outside"),
        pytest.param(edit("w1/nowhere.h", ""), id="a header that was missing"),
        pytest.param(link("w2/last.h", "w1/inner/next.h"), id="a link outside"),
        pytest.param(lambda root: shutil.move(root / "w1/inner", root / "w2"), id="a folder that moved"),
    ],
)
def test_a_change_of_what_a_closure_rests_on_is_found(root: Path, change: Callable[[Path], Any]) -> None:
    build(root)
    change(root)
    found, walked = build(root)
    assert (facts(found), walked) == (facts(fresh(root, ASKED)), True)
    again, walked = build(root)
    assert (facts(again), walked) == (facts(found), False)


@pytest.mark.parametrize(
    "other",
    [
        ASKED._replace(text='#include "near.h"\n#include <last.h>\n'),
        ASKED._replace(macros=(("NEXT", "<unused.h>"),)),
        ASKED._replace(pre_includes=("unused.h",)),
        ASKED._replace(own=("i2", "i1")),
        ASKED._replace(outside=ASKED.outside[::-1]),
        ASKED._replace(outside=(*ASKED.outside[:2], ("w2", "two==2"))),
    ],
    ids=["includes", "macros", "pre-includes", "own folders", "order", "build"],
)
def test_another_question_is_not_answered_by_what_is_known(root: Path, other: Asked) -> None:
    build(root)
    found, walked = build(root, other)
    assert (facts(found), walked) == (facts(fresh(root, other)), True)


def test_a_macro_of_the_table_that_asks_for_headers_is_another_question(root: Path) -> None:
    build(root, ASKED._replace(macros=(("HAS(x)", "x"),)))
    other = ASKED._replace(macros=(("HAS(x)", "__has_include(x)"),))
    found, walked = build(root, other)
    assert (facts(found), walked) == (facts(fresh(root, other)), True)


def test_a_pre_included_file_is_not_the_projects_where_the_search_path_has_one(root: Path) -> None:
    write(root / "project/pre.h", "")
    write(root / "w2/pre.h", "")
    write(root / "project/demo/near.h", '#include "../pre.h"\n#include <far.h>\n')
    asked = ASKED._replace(pre_includes=("pre.h",))
    assert [build(root, asked)[1] for _ in range(2)] == [True, False]
    found, _walked = build(root, asked)
    assert (facts(found), found.at_root) == (facts(fresh(root, asked)), ())


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize("place", ["w2/last.h", "project/i2/last.h"])
def test_what_cannot_be_read_is_told_whatever_is_known(root: Path, place: str) -> None:
    build(root)
    (root / place).unlink(missing_ok=True)
    os.mkfifo(root / place)
    with pytest.raises(SourceError, match=r"last\.h"):
        build(root)


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files tell by their states whether they are the same, although they were written just now."""
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", -(10**10))


def overwritten(name: str, text: str) -> Callable[[Path], None]:
    """Overwrite a file in its place, with a text of its size, and set its times back: as `cp -p` does."""

    def made(root: Path) -> None:
        path = root / name
        status = path.stat()
        path.write_text(text)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (path.stat().st_ino, path.stat().st_size) == (status.st_ino, status.st_size)

    return made


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("times", [1, 2], ids=["once", "and again"])
def test_a_header_that_is_overwritten_with_its_size_and_its_time_is_another(root: Path, times: int) -> None:
    write(root / "w2/last.h", "#define ONE 1")
    for number in range(times):
        build(root)
        overwritten("w2/last.h", f"#define TWO {number}")(root)
    found, walked = build(root)
    assert (facts(found), walked) == (facts(fresh(root, ASKED)), True)
    assert not build(root)[1]


def test_a_header_that_changes_in_the_tick_in_which_it_was_recalled_is_another(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time_ns()
    monkeypatch.setattr(disk, "state_from_status", lambda status: f"{status.st_size} {now} 1 {now}")
    write(root / "w2/last.h", "int x;")
    assert [build(root)[1] for _ in range(2)] == [True, False]
    write(root / "w2/last.h", "int y;")
    found, walked = build(root)
    assert (facts(found), walked) == (facts(fresh(root, ASKED)), True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edit("project/i2/last.h", ""), id="a header"),
        pytest.param(link("project/i1/nowhere.h", "w2/unused.h"), id="a link"),
    ],
)
def test_what_appears_in_the_project_where_headers_outside_look_is_found(
    root: Path, change: Callable[[Path], Any]
) -> None:
    before, _walked = build(root)
    change(root)
    for _ in range(2):
        found, walked = build(root)
        assert (facts(found), walked) == (facts(fresh(root, ASKED)), True)
        assert found.digest() != before.digest()


@pytest.mark.parametrize(
    "files",
    [
        {"w1/far.h": "#include <back.h>", "project/i2/back.h": "int x;"},
        {"w1/far.h": f'#include "{__file__}"'},
        {"w1/far.h": '#include "/nowhere/at/all.h"'},
        {"project/demo/near.h": "#include NAME"},
        {"project/demo/near.h": "#include <far.h>\n#define A ../x", "w1/far.h": "#include NAME"},
    ],
    ids=["back into the project", "an absolute path", "one without a file", "anything", "all folders"],
)
def test_what_cannot_be_known_is_looked_for_in_every_build(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        write(root / name, text)
    for _ in range(2):
        found, walked = build(root)
        assert (facts(found), walked) == (facts(fresh(root, ASKED)), True)


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(edit("w2/hidden.h", "#define V 2"), id="edited"),
        pytest.param(edit("w2/new.h", "#define V 2"), id="added"),
        pytest.param(lambda root: (root / "w2/hidden.h").unlink(), id="removed"),
    ],
)
@pytest.mark.parametrize(
    "text", ["#include <any.h>\n", "#include X(hidden)\n"], ids=["its own", "the project's"]
)
def test_a_header_package_with_computed_includes_is_read_in_every_build(
    root: Path, text: str, change: Callable[[Path], Any]
) -> None:
    write(root / "w2/any.h", "#include X(hidden)\n")
    write(root / "w2/hidden.h", "")
    asked = ASKED._replace(text=text, outside=(("w1", "toolkit 1"), ("w2", "tiles==1")))
    before, _walked = build(root, asked)
    change(root)
    after, walked = build(root, asked)
    assert walked
    assert after.digest() != before.digest()
    assert facts(after) == facts(fresh(root, asked))


def test_a_closure_says_which_trees_are_read(root: Path) -> None:
    roots = [SearchFolder(root / name, name, tree) for name, tree in ASKED.outside]
    only = ASKED._replace(text="#include <last.h>\n")
    guessing = ASKED._replace(text="#include MACRO\n")
    assert [[build(root, each)[0].reads(one) for one in roots] for each in (ASKED, only, guessing)] == [
        [True, False, True],
        [False, False, True],
        [True, True, True],
    ]
    assert [fresh(root, only).reads(one) for one in roots] == [False, False, True]


def test_recalled_files_and_places_are_what_they_stand_for(root: Path) -> None:
    build(root)
    found, expected = build(root)[0], fresh(root, ASKED)
    assert (len(found.files), found.files["w2/last.h"]) == (6, expected.files["w2/last.h"])
    assert (len(found.absent), max(found.absent) in found.absent) == (len(expected.absent), True)


def test_a_build_recalls_each_of_its_questions(root: Path) -> None:
    other = ASKED._replace(text="#include <last.h>\n", outside=ASKED.outside[2:])
    walks = []
    for _ in range(2):
        recall = Recall(root / "recall.txt")
        for asked in (ASKED, other, ASKED):
            found, walked = recalled(root, asked, recall)
            assert facts(found) == facts(fresh(root, asked))
            walks.append(walked)
        recall.record(FACTS, {})
    assert walks == [True, True, False, False, False, False]


def test_a_header_of_which_only_the_digest_is_known_is_read(root: Path) -> None:
    recall = Recall(root / "recall.txt")
    recalled(root, ASKED, recall)
    roots = [SearchFolder(root / name, name, tree) for name, tree in ASKED.outside]
    resolver = Resolver(ProjectTree(root / "project"), roots, ScanCache(), recall.closures.outside)
    found = [resolver.resolve("demo/k.cu", "#include <far.h>\n", (), ()) for _ in range(2)]
    assert (
        found
        == [Resolver(ProjectTree(root / "project"), roots).resolve("demo/k.cu", "#include <far.h>\n", (), ())]
        * 2
    )
