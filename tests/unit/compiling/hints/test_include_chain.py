"""How a source comes to read a header."""

from __future__ import annotations

from pathlib import Path

import pytest

from hatch_cubin.compiling.hints.include_chain import Step, include_chains_from
from hatch_cubin.errors import Location, Problem, SourceError
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.project import disk
from hatch_cubin.project.source import Source
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import write_tree


def test_each_header_has_the_shortest_way_to_it_with_the_lines(tmp_path: Path) -> None:
    write_tree(
        tmp_path,
        {
            "p/demo/h.h": "#pragma once\n#ifdef X\n  # include <lib/deep.h>\n#endif\n#include <lib/a.h>\n",
            "p/inc/own.h": '#include "../demo/h.h"\n',
            "lib/lib/a.h": '#include "deep.h"\n#include MACRO\n',
            "lib/lib/deep.h": "#include <absent.h>\n",
        },
    )
    search = (
        SearchFolder(tmp_path / "p/inc", "project/inc"),
        SearchFolder(tmp_path / "lib", "lib/include", "lib 1"),
    )
    source = Source("demo/a.cu", '\n#include <own.h>\n#include "h.h"\n')
    include_chains = include_chains_from(source, ProjectTree(tmp_path / "p"), search)
    to_h = Step(Location("demo/a.cu", 3), "h.h")
    assert include_chains == {
        "demo/a.cu": (),
        "inc/own.h": (Step(Location("demo/a.cu", 2), "own.h"),),
        "demo/h.h": (to_h,),
        "<lib/include>/lib/deep.h": (to_h, Step(Location("demo/h.h", 3), "lib/deep.h")),
        "<lib/include>/lib/a.h": (to_h, Step(Location("demo/h.h", 5), "lib/a.h")),
    }
    assert [step.is_own for step in (to_h, Step(Location("<lib/include>/a.h", 1), "b.h"))] == [True, False]


def test_a_header_that_is_gone_leads_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"demo/h.h": '#include "i.h"\n', "demo/i.h": ""})

    def gone(path: Path, root: Path) -> bytes:
        raise SourceError(Problem("gone"))

    monkeypatch.setattr(disk, "read_file", gone)
    source = Source("demo/a.cu", '#include "h.h" // once\n')
    assert include_chains_from(source, ProjectTree(tmp_path), ()).keys() == {"demo/a.cu", "demo/h.h"}


def test_an_include_that_is_split_over_lines_has_no_line(tmp_path: Path) -> None:
    write_tree(tmp_path, {"demo/h.h": ""})
    include_chains = include_chains_from(
        Source("demo/a.cu", '#include \\\n"h.h"\n'), ProjectTree(tmp_path), ()
    )
    assert include_chains["demo/h.h"] == (Step(Location("demo/a.cu"), "h.h"),)
