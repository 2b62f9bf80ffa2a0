"""Which headers a source can read: never fewer than NVRTC does."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import pytest

from hatch_cubin.common import file_access
from hatch_cubin.errors import SourceError
from hatch_cubin.headers import resolve
from hatch_cubin.headers.includes import Closure, Resolver
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.project import disk
from hatch_cubin.project.scan import UNKNOWN_PASTED, Include, Scan, scan
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.toolkit import worker
from tests.helpers import found, refusal, sha256, write_tree

QUOTED = (Include("x.h", "quote"),)
ANGLED = (Include("x.h", "angle"),)
EVERY = (Include("x.h", "angle", searches_on=True),)
UNKNOWN = (Include("", "unknown"),)
NEXT = (Include("", "unknown", searches_on=True),)


@pytest.mark.parametrize(
    ("text", "includes"),
    [
        pytest.param('#include "x.h"', QUOTED, id="quoted"),
        pytest.param("#include <x.h>", ANGLED, id="angled"),
        pytest.param('  #\t include"x.h"', QUOTED, id="blanks"),
        pytest.param('#include\f"x.h"', QUOTED, id="form feed"),
        pytest.param('#\rinclude\r"x.h"', QUOTED, id="lone carriage return is a blank"),
        pytest.param('#include "x.h"\r\nint a;\r\n', QUOTED, id="CRLF"),
        pytest.param('#include \\\r\n"x.h"\r\n', QUOTED, id="splice before CRLF"),
        pytest.param('#inc\\\nlude "x.h"', QUOTED, id="splice in a word"),
        pytest.param('%:include "x.h"', QUOTED, id="digraph"),
        pytest.param('??=include "x.h"', QUOTED, id="trigraph"),
        pytest.param('#inc??/\nlude "x.h"', QUOTED, id="trigraph splice"),
        pytest.param('// seen ??/\n#include "x.h"', QUOTED, id="no splice without trigraphs"),
        pytest.param('// \\ \n#include "x.h"', QUOTED, id="backslash and blank are no splice"),
        pytest.param('// \\\n#include "x.h"', (), id="comment goes on after a splice"),
        pytest.param('/* a */ # /* b */ include /* c */ "x.h" // d', QUOTED, id="comments between"),
        pytest.param('/*\n*/ # /*\n*/ include /*\n*/ "x.h"', QUOTED, id="comments over lines"),
        pytest.param('/* #include "y.h"\n#include "z.h" */\n#include "x.h"', QUOTED, id="block comment"),
        pytest.param('// #include "y.h"\n#include "x.h"', QUOTED, id="line comment"),
        pytest.param('/* #include "y.h"', (), id="comment without an end"),
        pytest.param('char *s = "/*";\n#include "x.h"', QUOTED, id="comment in a string"),
        pytest.param('char *s = "\\"/*";\n#include "x.h"', QUOTED, id="escaped quote"),
        pytest.param("char c = '\"'; // \"\n#include <x.h>", ANGLED, id="quote in a character"),
        pytest.param("int i = 1'000'000; /*'*/\n#include <x.h>", ANGLED, id="separated number"),
        pytest.param("float f = .5'0 /* ' */;\n#include <x.h>", ANGLED, id="separated fraction"),
        pytest.param('auto s = R"(\n#include "y.h"\n)";\n#include <x.h>', ANGLED, id="raw string"),
        pytest.param('auto s = u8R"-(\n)"\n#include "y.h"\n)-";\n#include <x.h>', ANGLED, id="raw delimiter"),
        *(
            pytest.param(
                f'#define Q {before}R"(\n#include <x.h>\n//)"', ANGLED, id=f"no raw string behind {before}"
            )
            for before in ('"a"', "'a'", "u8'\"'", 'R"()"', "1.", ".5e", "1e+", "0x1p-", "1'000", "$", "\\U")
        ),
        pytest.param('auto s = 1+R"(\n#include "y.h"\n)";\n#include <x.h>', ANGLED, id="behind an operator"),
        pytest.param('#define Q "??/"R"(\n#include <x.h>\n//)"', ANGLED, id="behind a trigraph in a string"),
        pytest.param("int i; /*\n*/ /* a */ #include <x.h>", ANGLED, id="behind a comment's last line"),
        pytest.param('#if 0\nERR"(not raw"\n#endif\n#include <x.h>', ANGLED, id="a word that ends in R"),
        pytest.param("#if 0\nit's /*\n#endif\n#include <x.h>", ANGLED, id="apostrophe in a skipped line"),
        pytest.param('#if 0\n"/*\n#endif\n#include <x.h>', ANGLED, id="quote in a skipped line"),
        pytest.param("#if __CUDA_ARCH__ > 900\n#include <x.h>\n#endif", ANGLED, id="conditional"),
        pytest.param("#include_next <x.h>", EVERY, id="include_next"),
        pytest.param("#include HEADER", (Include("HEADER", "macro"),), id="macro"),
        pytest.param("#include STR(x.h)", (Include("STR(x.h)", "unknown"),), id="function-like macro"),
        pytest.param("#include", UNKNOWN, id="nothing"),
        pytest.param("#if __has_include(<x.h>)", ANGLED, id="has_include"),
        pytest.param('#elif 1 && __has_include ( "x.h" )', QUOTED, id="has_include in elif"),
        pytest.param("#if __has_include(HEADER)", UNKNOWN, id="has_include of a macro"),
        pytest.param("#define HAS __has_include(<x.h>)", ANGLED, id="has_include in a macro"),
        pytest.param("#define HAS(x) __has_include(x)", UNKNOWN, id="has_include of a parameter"),
        pytest.param("#if HAS(<x.h>)", ANGLED, id="has_include by another name"),
        pytest.param("#define A_HAS_INCLUDE(x) __has_include(x)", (), id="a macro that is named for asking"),
        pytest.param("#define HASINCLUDE( x )  __has_include ( x ) ", (), id="the same, spaced"),
        pytest.param("#define A_HAS_INCLUDE(x) __has_include(y)", UNKNOWN, id="it asks for something else"),
        pytest.param("#define A_HAS_INCLUDE(x) !__has_include(x)", UNKNOWN, id="it does more than ask"),
        pytest.param("#define A_HAS_INCLUDE(x) __has_include_next(x)", NEXT, id="it asks for the next"),
        pytest.param("#define A_HAS_INCLUDE __has_include", UNKNOWN, id="it has no parameter"),
        pytest.param("#if A_HAS_INCLUDE(HEADER)", UNKNOWN, id="it is called with a macro"),
        pytest.param('#if A_has_include("x.h")', QUOTED, id="it is called with a name"),
        pytest.param("#define B A_HAS_INCLUDE(<x.h>)", (Include("x.h", "argument"),), id="called in a macro"),
        pytest.param("#define B(x) A_HAS_INCLUDE(x)", UNKNOWN, id="called by another macro"),
        pytest.param("#define B A_HAS_INCLUDE", UNKNOWN, id="another name for it"),
        pytest.param("#define B(x) A_HAS_##x", UNKNOWN, id="it is pasted together"),
        pytest.param("#define B CAT(A_HAS_, INCLUDE)", UNKNOWN, id="a part of its name"),
        pytest.param("#if defined(A_HAS_INCLUDE) || !defined A_HAS_INCLUDE", (), id="whether it is there"),
        pytest.param("#if __has_include_next(<x.h>)", EVERY, id="has_include_next"),
        pytest.param("#elif !__has_include_next /**/ ( <x.h> )", EVERY, id="has_include_next in elif"),
        pytest.param("#define HAS __has_include_next(<x.h>)", EVERY, id="has_include_next in a macro"),
        pytest.param("#define HAS __has_include", UNKNOWN, id="another name for has_include"),
        pytest.param("#define HAS __has_include_next // why", UNKNOWN, id="another name, remarked"),
        pytest.param("#define HAS(x) __has_ ## include(x)", UNKNOWN, id="has_include pasted together"),
        pytest.param("%:define HAS(x) __has_in%:%:clude(x)", UNKNOWN, id="pasted with digraphs"),
        pytest.param("#define HAS CAT(__has_, include)", UNKNOWN, id="the beginning of its name"),
        pytest.param("#define HAS CAT(__, has_include_next)", UNKNOWN, id="the end of its name"),
        pytest.param("#if CALL(__has_include, 1)", UNKNOWN, id="its name as an argument"),
        pytest.param("#define HAS defined(__has_include) && (x##y)", (), id="whether it is known"),
        pytest.param("#define HAS(x) __has_attribute(x##y)", (), id="another question"),
        pytest.param("#if defined(__has_include) && (A < B) && C(D)", (), id="mere question"),
        pytest.param("#ifdef __has_include\n#pragma include\n#included <x.h>", (), id="other words"),
        pytest.param("# 12 <x.h>\n#\n##include <x.h>", (), id="other directives"),
    ],
)
def test_scan_finds_what_the_preprocessor_would(text: str, includes: tuple[Include, ...]) -> None:
    assert tuple(dict.fromkeys(scan(text).includes)) == includes


@pytest.mark.parametrize(
    ("text", "define"),
    [
        ('#define H "x.h"', ("H", '"x.h"')),
        ("#define H <x.h> // why", ("H", "<x.h>")),
        ('#define H"x.h"', ("H", '"x.h"')),
        ("#define H G", ("H", "G")),
        ("#define H G(x)", ("H", "?")),
        ("#define H", ("H", "?")),
        ("#define H(x) <x>", ("H", "(x) <x>")),
        ("#define H( x ) <a/x.h> // why", ("H", "(x ) <a/x.h>")),
        ("#define H(x) <../x>", ("H", "?../")),
        ('#define H(x) "x"', ("H", "?")),
        ("#define H(x) <1.x>", ("H", "?")),
        ("#define H(x) <a-.1x>", ("H", "?")),
        ("#define H(x, y) <x/y>", ("H", "?")),
        ("#define H(x) <x> y", ("H", "?")),
        ("#define H (x) <x>", ("H", "?")),
        ("#define Größe <x.h>", ("Größe", "<x.h>")),
    ],
)
def test_scan_keeps_what_a_macro_can_stand_for(text: str, define: tuple[str, str]) -> None:
    assert scan(text) == Scan((), (define,))


def test_scan_tells_which_macros_paste_and_reads_no_define_without_a_name() -> None:
    assert scan("#define H(x) <a##x>").defines == (("H", "?"), ("H", UNKNOWN_PASTED))
    assert scan("#define 1 2") == Scan((), ())


@pytest.mark.parametrize(
    "line", ["1," * 200_000, "1.1." * 50_000, " " * 400_000], ids=["table", "dots", "blanks"]
)
def test_long_lines_are_scanned_like_others(line: str) -> None:
    """In quadratic time each of these takes minutes."""
    assert scan(f"{line}\n#include <x.h>") == Scan(ANGLED)


def closure(
    root: Path,
    text: str,
    *search: str | SearchFolder,
    macros: Sequence[tuple[str, str]] = (),
    pre: Sequence[str] = (),
    path: str = "pkg/k.cu",
) -> Closure:
    """Resolve a source of the project with folders of the project, or other roots, to search."""
    roots = [
        SearchFolder(root / each, f"project/{each}") if isinstance(each, str) else each for each in search
    ]
    return Resolver(ProjectTree(root), roots).resolve(path, text, macros, pre)


def names(found: Closure) -> list[str]:
    return sorted(found.files)


def test_headers_are_found_through_headers(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"pkg/a.h": '#include "sub/b.h"', "pkg/sub/b.h": "#include <c.h>", "inc/c.h": "int c;"}
    )
    found = closure(tmp_path, '#include "a.h"', "inc")
    assert found.files == {
        "project/pkg/a.h": sha256(b'#include "sub/b.h"'),
        "project/pkg/sub/b.h": sha256(b"#include <c.h>"),
        "project/inc/c.h": sha256(b"int c;"),
    }
    assert not found.missing
    assert not found.trees


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('#include "x.h"', ["project/pkg/x.h"]),
        ("#include <x.h>", ["project/one/x.h"]),
        ('#include "../two/x.h"', ["project/two/x.h"]),
        ('#include_next "x.h"', ["project/one/x.h", "project/pkg/x.h", "project/two/x.h"]),
        ("#include_next <x.h>", ["project/one/x.h", "project/two/x.h"]),
    ],
    ids=["quoted: beside first", "angled: path in order", "up", "next of quoted", "next of angled"],
)
def test_folders_are_searched_in_nvrtcs_order(tmp_path: Path, text: str, expected: list[str]) -> None:
    write_tree(tmp_path, dict.fromkeys(("pkg/x.h", "one/x.h", "two/x.h"), ""))
    assert names(closure(tmp_path, text, "one", "two")) == expected


def test_the_next_header_behind_all_of_the_project_may_lie_outside(tmp_path: Path) -> None:
    write_tree(tmp_path / "p", dict.fromkeys(("one/x.h", "two/x.h"), "#include_next <x.h>"))
    found = closure(tmp_path / "p", "#include <x.h>", "one", "two")
    assert (names(found), found.missing) == (["project/one/x.h", "project/two/x.h"], {"x.h"})
    outside = SearchFolder(write_tree(tmp_path / "w", {"x.h": ""}), "w", "w==1")
    found = closure(tmp_path / "p", "#include <x.h>", "one", "two", outside)
    assert (names(found)[2:], found.missing) == (["w/x.h"], set())


def test_quoted_headers_are_not_searched_beside_the_file_that_includes_the_includer(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/x.h": "", "inc/a.h": '#include "x.h"'})
    found = closure(tmp_path, "#include <a.h>", "inc")
    assert names(found) == ["project/inc/a.h"]
    assert found.missing == {"x.h"}


def test_the_working_directory_is_not_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_tree(tmp_path, {"elsewhere/x.h": ""})
    monkeypatch.chdir(tmp_path / "elsewhere")
    found = closure(tmp_path, '#include "x.h"\n#include <x.h>')
    assert not found.files
    assert found.missing == {"x.h"}


def test_a_header_that_includes_itself_ends(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/a.h": '#include "b.h"', "pkg/b.h": '#include "a.h"\n#include "b.h"'})
    assert names(closure(tmp_path, '#include "a.h"')) == ["project/pkg/a.h", "project/pkg/b.h"]


def test_headers_outside_the_project_find_those_beside_them(tmp_path: Path) -> None:
    outside = {"shared/a.h": '#include "b.h"', "shared/b.h": "", "up.h": '#include "near.h"', "near.h": ""}
    decoys = dict.fromkeys(("shared/b.h", "near.h", "pkg/k.cu"), "")
    write_tree(write_tree(tmp_path, outside) / "project", decoys)
    found = closure(tmp_path / "project", '#include "../../shared/a.h"\n#include "../../up.h"')
    assert names(found) == [f"project/../{name}" for name in sorted(outside)]


def test_an_absolute_include_is_read_where_it_stands(tmp_path: Path) -> None:
    outside = write_tree(tmp_path / "outside", {"x.h": '#include "y.h"', "y.h": ""})
    found = closure(tmp_path / "project", f'#include "{outside}/x.h"')
    assert names(found) == [f"{outside}/x.h", f"{outside}/y.h"]


@pytest.mark.parametrize(
    "name",
    [
        *(
            "/proc/self/fd/77/x.h",
            "//proc/1/root/x.h",
            "/x/../dev/fd/3",
            "/dev/stdin",
            "{up}proc/self/cwd/x.h",
        ),
        "{up}dev/fd/77/x.h",
    ],
)
def test_a_file_that_only_the_compilers_process_has_is_refused(tmp_path: Path, name: str) -> None:
    named = name.format(up="../" * (len(tmp_path.parts) + 2))
    write_tree(tmp_path, {"pkg/proc/x.h": "", "pkg/dev/fd.h": ""})
    for text in (
        f'\n#include "{named}"',
        f'\n#if __has_include("{named}")\n#endif',
        f'\n#define H "{named}"\n#include H',
    ):
        with pytest.raises(SourceError, match="leads to a different file in each process"):
            closure(tmp_path, text)
    assert names(closure(tmp_path, '#include "proc/x.h"\n#include "../pkg/dev/fd.h"'))
    with pytest.raises(SourceError, match="leads to a different file in each process"):
        closure(tmp_path, "", pre=["proc/self/fd/77/x.h"])


def test_a_pre_included_header_comes_from_the_search_path_or_the_root_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/x.h": "", "inc/x.h": "#include <y.h>", "inc/y.h": ""})
    from_root = str(tmp_path / "pkg/x.h")[1:]
    found = closure(tmp_path, "", "inc", pre=["x.h", from_root])
    assert names(found) == sorted([f"/{from_root}", "project/inc/x.h", "project/inc/y.h"])


@pytest.mark.parametrize(
    "name", ["x" * 300 + ".h", "nul\0.h", "no/../x.h", "."], ids=["long", "NUL", "no folder", "dot"]
)
def test_what_cannot_be_a_file_is_missing(tmp_path: Path, name: str) -> None:
    write_tree(tmp_path, {"pkg/x.h": ""})
    found = closure(tmp_path, f'#include "{name}"')
    assert not found.files
    assert found.missing == {name}


def test_up_from_a_link_is_where_the_link_leads(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/x.h": "wrong", "far/x.h": "right", "far/sub/y.h": ""})
    (tmp_path / "pkg/link").symlink_to("../far/sub")
    assert closure(tmp_path, '#include "link/../x.h"').files == {"project/pkg/link/../x.h": sha256(b"right")}
    assert names(closure(tmp_path, '#include "link/y.h"')) == ["project/pkg/link/y.h"]


def test_names_that_are_not_ascii_are_found_from_sources_and_headers(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/größe.h": '#include "grün.h"', "pkg/grün.h": b"\xff\xfe"})
    latin = os.fsdecode(b"\xe4.h")
    write_tree(tmp_path, {"pkg/bytes.h": b'#include "\xe4.h"', f"pkg/{latin}": ""})
    found = closure(tmp_path, '#include "größe.h"\n#include "bytes.h"')
    assert names(found) == sorted(f"project/pkg/{name}" for name in ("größe.h", "grün.h", "bytes.h", latin))
    assert len(found.digest()) == 64


def test_a_header_with_a_bom_is_scanned(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/a.h": b'\xef\xbb\xbf#include "b.h"\r\n', "pkg/b.h": ""})
    assert names(closure(tmp_path, '#include "a.h"')) == ["project/pkg/a.h", "project/pkg/b.h"]


def test_a_header_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path, {"pkg/a.h": ""})

    def refuse(*_asked: object, **_how: object) -> IO[Any]:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(disk, "open", refuse, raising=False)
    error = refusal(SourceError, closure, tmp_path, '#include "a.h"')
    assert found(error) == [("file-not-readable", "pkg/a.h")]
    assert error.problems[0].details == ("included from pkg/k.cu:1",)
    with pytest.raises(SourceError) as caught:
        closure(tmp_path, "", pre=["pkg/a.h"])
    assert found(caught.value) == [("file-not-readable", "pkg/a.h")]
    assert caught.value.problems[0].details == ()


def test_a_header_that_is_a_pipe_is_an_error_with_the_line_that_asks_for_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"inc/a.h": '\n# include "pipe"\n'})
    os.mkfifo(tmp_path / "inc/pipe")
    error = refusal(SourceError, closure, tmp_path, "#include <a.h>", "inc")
    assert found(error) == [("not-a-regular-file", "inc/pipe")]
    assert error.problems[0].details == ("included from inc/a.h:2",)


COMPUTED = dict.fromkeys(("pkg/a.h", "pkg/b.h", "pkg/other.txt", "inc/c.h", "inc/sub/d.h", "far/e.h"), "")
WIDENED = [
    "project/inc/c.h",
    "project/inc/sub/d.h",
    "project/pkg/a.h",
    "project/pkg/b.h",
    "project/pkg/other.txt",
]
UPWARDS = sorted([*WIDENED, "project/far/.hidden/x.h", "project/far/e.h"])


def test_a_header_behind_a_link_leads_on_from_where_it_is(tmp_path: Path) -> None:
    """What the same path would be without the link is not there."""
    write_tree(tmp_path, {"real/a.h": "right", "real/in/b.h": '#include "../a.h"\n', "pkg/k.cu": ""})
    (tmp_path / "pkg/sub").symlink_to("../real/in")
    found = closure(tmp_path, '#include "sub/b.h"')
    assert found.files["project/pkg/sub/../a.h"] == sha256(b"right")


COMPUTED_INCLUDES: Mapping[str, tuple[str, Sequence[tuple[str, str]], list[str]]] = {
    "literal": ('#define H "a.h"\n#include H', (), ["project/pkg/a.h"]),
    "from the table": ("#include H", (("H", '"a.h"'),), ["project/pkg/a.h"]),
    "chain": ('#define H G\n#define G F\n#define F "b.h"\n#include H', (), ["project/pkg/b.h"]),
    "every definition": (
        '#if A\n#define H "a.h"\n#else\n#define H <c.h>\n#endif\n#include H',
        (),
        ["project/inc/c.h", "project/pkg/a.h"],
    ),
    "circle": ("#define H G\n#define G H\n#include H", (), []),
    "undefined": ("#include H", (), WIDENED),
    "empty": ("#include H", (("H", ""),), WIDENED),
    "also function-like": ('#define H "a.h"\n#define H(x) #x\n#include H (x)', (), WIDENED),
    "function-like table": ('#define H "a.h"\n#include H (x)', (("H(x)", "<x>"),), WIDENED),
    "function-like": ("#include STR(a.h)", (), WIDENED),
    "function-like path": ("#define H(x) <sub/x>\n#include H( d.h )", (), ["project/inc/sub/d.h"]),
    "parameter's word": ("#define H(sub) <sub/d.h>\n#include H(sub)", (), ["project/inc/sub/d.h"]),
    "function-like of the table": ("#include H(d.h)", (("H(x)", "<sub/x>"),), ["project/inc/sub/d.h"]),
    "every function-like definition": (
        "#if A\n#define H(x) <sub/x>\n#else\n#define H(x) <x>\n#endif\n#include H(d.h)\n#include H(c.h)",
        (),
        ["project/inc/c.h", "project/inc/sub/d.h"],
    ),
    "call of a call": ("#define H(x) <x>\n#include H(G(c.h))", (), WIDENED),
    "called with a number": ("#define H(x) <x>\n#include H(1c.h)", (), WIDENED),
    "macro as argument": (
        "#define H(x) <x>\n#define c sub/d\n#include H(c.h)",
        (),
        ["project/inc/c.h", "project/inc/sub/d.h"],
    ),
    "not always a path": ("#define H(x) <x>\n#define H G\n#include H(c.h)", (), WIDENED),
    "function-like, not called": ("#define H(x) <x>\n#include H", (), WIDENED),
    "called, not function-like": ("#define H <c.h>\n#include H(c.h)", (), WIDENED),
    "upwards by an argument": ("#define H(x) <x>\n#include H(../far/e.h)", (), UPWARDS),
    "upwards by a path": ("#define H(x) <../x>\n#include H(far/e.h)", (), UPWARDS),
    "macro inside <>": ("#define D sub\n#define H <D/d.h>\n#include H", (), ["project/inc/sub/d.h"]),
    "macros of macros inside <>": (
        (
            "#define E e\n#define D far/E\n#if A\n#define P sub/d\n#else\n#define P D\n#endif\n"
            "#define H <P.h>\n#include H"
        ),
        (("P", "c"),),
        ["project/inc/c.h", "project/inc/sub/d.h"],
    ),
    "macros that stand for themselves": (
        "#define D E\n#define E D\n#define c c\n#define H <c.h>\n#define G <D>\n#include H\n#include G",
        (),
        ["project/inc/c.h"],
    ),
    "no path inside <>": ("#define D (sub)\n#define H <D/d.h>\n#include H", (), WIDENED),
    "upwards inside <>": ("#define D ..\n#define H <D/e.h>\n#include H", (), UPWARDS),
    "the compiler's macro inside <>": ("#define H <__D/d.h>\n#include H", (), WIDENED),
    "too much inside <>": (
        "#define H <D/D/D.h>\n#include H\n" + "".join(f"#define D d{n}\n" for n in range(9)),
        (),
        WIDENED,
    ),
    "a macro for the arch inside <>": ("#define H <__ARCH__/d.h>\n#include H", (), WIDENED),
    "no macro is expanded in a plain <>": ("#define D sub\n#include <D/d.h>", (), []),
    "upwards": ("#include STR(../far/e.h)", (), UPWARDS),
    "upwards by a macro": ("#define H STR(../far/e.h)\n#include H", (), UPWARDS),
    "upwards by two macros": ("#define UP ..\n#include STR(UP/far/e.h)", (), UPWARDS),
    "upwards by the table": ("#include STR(UP/far/e.h)", (("UP", ".."),), UPWARDS),
    "own __has_include": ("#ifndef __has_include\n#define __has_include(x) 0\n#endif", (), []),
}


@pytest.mark.parametrize(
    ("text", "macros", "expected"),
    COMPUTED_INCLUDES.values(),
    ids=COMPUTED_INCLUDES,
)
def test_computed_includes_are_all_that_they_can_be(
    tmp_path: Path, text: str, macros: tuple[tuple[str, str], ...], expected: list[str]
) -> None:
    write_tree(tmp_path, COMPUTED | {"far/.hidden/x.h": "", "pkg/_cubins/old.ptx": ""})
    os.mkfifo(tmp_path / "pkg/pipe")  # opening one would wait for ever
    (tmp_path / "pkg/dangling").symlink_to("nowhere")
    found = closure(tmp_path, text, "inc", macros=macros)
    assert names(found) == expected
    assert found.guessed == (expected in (WIDENED, UPWARDS))


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("path", "argument", "header"),
    [
        ("x", "c.h", "c.h"),
        ("sub/x", " d.h ", "sub/d.h"),
        ("x-y.h", "sub/d", "sub/d-y.h"),
        ("v1/x", "d-2.h", "v1/d-2.h"),
        ("x.x/x", "a.b", "a.b.a.b/a.b"),
    ],
)
def test_the_compiler_reads_what_a_call_stands_for(
    tmp_path: Path, path: str, argument: str, header: str
) -> None:
    write_tree(tmp_path, {f"inc/{header}": "#define V 4\n"})
    text = f"#define H(x) <{path}>\n#include H({argument})\n__global__ void k(int *p) {{ *p = V; }}\n"
    assert names(closure(tmp_path, text, "inc")) == [f"project/inc/{header}"]
    task = {"id": 0, "kind": "c++", "code": text.encode(), "name": b"k.cu", "instantiate": []}
    options = [b"-arch=sm_90", b"--include-path=" + os.fsencode(tmp_path / "inc")]
    assert worker.compile_task({**task, "options": options})["ok"]


def test_a_header_found_late_can_define_what_an_earlier_include_names(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"pkg/a.h": '#define H "b.h"\n#define G "c.h"', "pkg/b.h": "#include G", "pkg/c.h": ""}
    )
    found = closure(tmp_path, '#include "a.h"\n#include H')
    assert names(found) == ["project/pkg/a.h", "project/pkg/b.h", "project/pkg/c.h"]


def test_a_computed_include_in_a_header_widens_its_own_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, {"inc/sub/a.h": "#include X(y)", "inc/sub/y.h": "", "sub/z.h": "", "pkg/k.h": ""})
    assert names(closure(tmp_path, "#include <sub/a.h>", "inc")) == [
        "project/inc/sub/a.h",
        "project/inc/sub/y.h",
    ]


def test_a_computed_include_in_a_toolkit_stands_for_the_whole_toolkit(tmp_path: Path) -> None:
    tree = SearchFolder(
        write_tree(tmp_path / "cuda", {"a.h": "#include X(y)", "z.h": ""}), "cuda", "NVRTC 1.0 headers"
    )
    found = closure(tmp_path / "project", "#include <a.h>", tree)
    assert (names(found), found.trees, found.guessed) == (["cuda/a.h"], {"NVRTC 1.0 headers"}, True)


def test_a_computed_include_in_a_header_package_reads_all_its_headers(tmp_path: Path) -> None:
    files = {"a.h": "#include X(y)", "z.h": "", "sub/y.h": '#include "../b.h"', "b.h": ""}
    tree = SearchFolder(write_tree(tmp_path / "wheel", files), "wheel", "wheel==1.0")
    (tree.path / "gone.h").symlink_to("nowhere")

    def found() -> Closure:
        return closure(tmp_path / "project", "#include <a.h>", tree)

    before = found()
    assert names(before) == ["wheel/a.h", "wheel/b.h", "wheel/sub/y.h", "wheel/z.h"]
    assert (before.trees, before.guessed, before.widened) == ({"wheel==1.0"}, True, set())
    write_tree(tree.path, {"sub/y.h": "#define V 2"})
    assert found().digest() != before.digest()


def test_a_call_that_names_a_header_in_a_tree_is_followed_into_another(tmp_path: Path) -> None:
    wheel = {"a.h": "#define STD(x) <std/x>\n#include STD(y)"}
    tree = SearchFolder(write_tree(tmp_path / "wheel", wheel), "wheel", "wheel==1.0")
    other = SearchFolder(
        write_tree(tmp_path / "toolkit", {"std/y": "", "std/z": ""}), "toolkit", "toolkit==2.0"
    )
    found = closure(tmp_path / "project", "#include <a.h>", tree, other)
    assert (names(found), found.trees) == (["toolkit/std/y", "wheel/a.h"], set())
    assert (found.computed, found.guessed) == (True, False)


def digest_of(root: Path, files: Mapping[str, str], text: str = "#include <a.h>") -> str:
    return closure(write_tree(root, files), text, "one", "two").digest()


def test_the_digest_is_the_same_in_any_folder_and_empty_without_headers(tmp_path: Path) -> None:
    files = {"two/a.h": "#include <b.h>", "two/b.h": ""}
    assert digest_of(tmp_path / "here", files) == digest_of(tmp_path / "there", files)
    assert digest_of(tmp_path / "here", files, "int a;") == ""


@pytest.mark.parametrize(
    "change",
    [{"two/b.h": " "}, {"one/b.h": ""}, {"one/a.h": "#include <b.h>"}, {"two/maybe.h": ""}],
    ids=["a header's byte", "an earlier header", "an earlier first header", "an optional header"],
)
def test_the_digest_changes_with_what_is_read(tmp_path: Path, change: Mapping[str, str]) -> None:
    files = {"two/a.h": "#include <b.h>", "two/b.h": "#if __has_include(<maybe.h>)\n#endif"}
    assert digest_of(tmp_path / "here", files) != digest_of(tmp_path / "there", {**files, **change})


def test_the_digest_knows_the_build_of_a_tree() -> None:
    assert Closure(trees={"wheel==1.0"}).digest() != Closure(trees={"wheel==1.1"}).digest()


VALUE = "#define VALUE 1\n"


COMPILED = {
    "backslash and blank": ('// no splice \\ \n#include "x.h"', {"pkg/x.h": VALUE}),
    "splice and comment": ('#inc\\\nlude /*\n*/ "x.h"', {"pkg/x.h": VALUE}),
    "odd blanks": ('\f#\vinclude\f"x.h"', {"pkg/x.h": VALUE}),
    "returns": ('#include "a.h"', {"pkg/a.h": '#\rinclude "x.h"\r\n', "pkg/x.h": VALUE}),
    "trigraph": ('#inc??/\nlude "x.h"', {"pkg/x.h": VALUE}),
    "no raw string": ('#if 0\nR1ER"(\n#endif\n#include <x.h>', {"inc/x.h": VALUE}),
    "apostrophe": ("#if 0\nit's /*\n#endif\n#include <x.h>", {"inc/x.h": VALUE}),
    "macro": ('#define H"x.h"\n#include H', {"pkg/x.h": VALUE}),
    "inside <>": ("#define D sub\n#define H <D/x.h>\n#include H", {"inc/sub/x.h": VALUE}),
    "stringised": ("#define STR(x) #x\n#define H(x) STR(x)\n#include H(../far/x.h)", {"far/x.h": VALUE}),
    "has": ("#define HAS(x) __has_include(x)\n#if HAS(<x.h>)\n" + VALUE + "#endif", {"inc/x.h": ""}),
    "has, spelled out": ("#define HAS __has_include(<x.h>)\n#if HAS\n" + VALUE + "#endif", {"inc/x.h": ""}),
    "has, of a name in which a macro stands": (
        "#define A_HAS_INCLUDE(x) __has_include(x)\n#define D sub\n#if A_HAS_INCLUDE(<D/x.h>)\n"
        + VALUE
        + "#endif",
        {"inc/sub/x.h": ""},
    ),
    "macros of macros inside <>": (
        (
            "#define NAME other\n#undef NAME\n#define NAME sub\n#define ROOT far/NAME\n"
            "#define H <ROOT/in/x.h>\n#include H"
        ),
        {"inc/far/sub/in/x.h": VALUE},
    ),
    "next": ("#include <x.h>", {"inc/x.h": "#include_next <x.h>", "late/x.h": VALUE}),
    "not ASCII": ("#include <größe.h>", {"inc/größe.h": VALUE}),
    "up and down": ('#include "a/../../inc/x.h"', {"pkg/a/b.h": "", "inc/x.h": VALUE}),
}


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("text", "files"),
    COMPILED.values(),
    ids=COMPILED,
)
def test_nvrtc_compiles_with_only_the_files_of_the_closure(
    tmp_path: Path, text: str, files: Mapping[str, str]
) -> None:
    text += '\nextern "C" __global__ void k(int *x) { *x = VALUE; }\n'
    here = write_tree(tmp_path / "here", {**files, "inc/pre.h": "", "pkg/a/b.h": "", "pkg/decoy.h": "#error"})
    found = closure(here, text, "inc", "late", pre=["pre.h"])
    there = tmp_path / "there"
    for folder in ("pkg/a", "inc", "late"):  # they are inputs only as far as they exist
        (there / folder).mkdir(parents=True)
    for name in found.files:
        path = name.removeprefix("project/")
        write_tree(there, {path: (here / path).read_bytes()})
    assert compiled(here, text) == compiled(there, text)


def compiled(root: Path, text: str) -> object:
    options = ["-arch=sm_90", "-std=c++14", "--pre-include=pre.h", f"-I{root}/inc", f"-I{root}/late"]
    task = {
        "id": 0,
        "kind": "c++",
        "code": text.encode(),
        "name": f"{root}/pkg/k.cu".encode(),
        "options": [option.encode() for option in options],
        "instantiate": [],
    }
    result = worker.compile_task(task)
    assert result["ok"], result["log"]
    return result["output"]


def test_the_order_of_the_search_path_is_part_of_the_digest(tmp_path: Path) -> None:
    write_tree(tmp_path, {"one/a.h": "", "two/a.h": "", "pkg/k.cu": ""})
    text = '#include <a.h>\n#if 0\n#include "../one/a.h"\n#include "../two/a.h"\n#endif'
    here, there = closure(tmp_path, text, "one", "two"), closure(tmp_path, text, "two", "one")
    assert here.files == there.files
    assert here.digest() != there.digest()


def test_a_longer_search_path_is_another_one_for_has_include(tmp_path: Path) -> None:
    write_tree(tmp_path, {"one/a.h": "", "two/b.h": ""})
    text = '#include <a.h>\n#if __has_include(<b.h>)\n#endif\n#include "../two/b.h"'
    assert closure(tmp_path, text, "one").digest() != closure(tmp_path, text, "one", "two").digest()


def test_a_computed_include_of_the_project_reaches_the_trees_outside_it(tmp_path: Path) -> None:
    write_tree(tmp_path, {"wheel/y.h": ""})
    found = Resolver(
        ProjectTree(tmp_path / "p"), [SearchFolder(tmp_path / "wheel", "wheel", "wheel==1")]
    ).resolve("k.cu", "#include S(y.h)", (), ())
    assert (names(found), found.trees) == (["wheel/y.h"], {"wheel==1"})
    assert found.missing == {"S(y.h)"}  # so that the toolkit is looked at too


def test_a_folder_is_taken_in_whole_links_and_odd_names_included(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/_cubins_src/x.h": "", "pkg/.gen/y.h": "", "other/z.h": ""})
    (tmp_path / "pkg/linked").symlink_to("../other")
    (tmp_path / "pkg/linked/loop").symlink_to("../pkg")
    found = closure(tmp_path, "#include S(x.h)")
    assert [name for name in names(found) if "loop" not in name] == [
        "project/pkg/.gen/y.h",
        "project/pkg/_cubins_src/x.h",
        "project/pkg/linked/z.h",
    ]


def test_what_no_include_names_is_told_from_what_one_does(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pkg/__init__.py": "", "pkg/a.h": '#include "b.h"', "pkg/b.h": "", "pkg/c.h": ""})
    found = closure(tmp_path, '#include S(x.h)\n#include "a.h"')
    assert found.widened == {"project/pkg/__init__.py", "project/pkg/c.h"}
    later = closure(tmp_path, '#define H "c.h"\n#include H\n#include S(x.h)')
    assert later.widened == {"project/pkg/__init__.py", "project/pkg/a.h", "project/pkg/b.h"}


def test_files_that_cannot_be_headers_are_digested_and_not_scanned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large = "#include <missing.h>\n" * 10
    write_tree(tmp_path, {"pkg/large.bin": large, "pkg/locked.h": ""})
    monkeypatch.setattr(resolve, "_SCANNED_BYTES", 100)

    def open_unless_locked(path: str, *arguments: Any, **named: Any) -> IO[Any]:
        if path.endswith("locked.h"):
            raise PermissionError(13, "Permission denied")
        return open(path, *arguments, **named)  # type: ignore[no-any-return]

    for module in (disk, file_access):
        monkeypatch.setattr(module, "open", open_unless_locked, raising=False)
    found = closure(tmp_path, "#include S(x.h)")
    assert found.files == {
        "project/pkg/large.bin": sha256(large.encode()),
        "project/pkg/locked.h": "unreadable",
    }
    assert found.missing == {"S(x.h)"}


@pytest.mark.parametrize("question", ["__has_include_next(<a.h>)", '__has_include_next("a.h")'])
def test_a_question_for_the_next_header_is_answered_by_any_later_place(tmp_path: Path, question: str) -> None:
    root = write_tree(tmp_path, {"i1/a.h": f"#if {question}\n#endif", "i2/b.h": "", "pkg/k.cu": ""})
    before = closure(root, "#include <a.h>", "i1", "i2")
    write_tree(root, {"i2/a.h": ""})
    assert names(closure(root, "#include <a.h>", "i1", "i2")) == [*names(before), "project/i2/a.h"]


@pytest.mark.parametrize(
    "value", ["__has_include", "__has_include_next(<a.h>)", "__has_##include", "A_HAS_INCLUDE(<a.h>)"]
)
def test_a_macro_of_the_table_can_hide_a_question(tmp_path: Path, value: str) -> None:
    root = write_tree(tmp_path, {"i1/a.h": "", "pkg/k.cu": ""})
    text = "#define ASK HAS(<a.h>)\n#if ASK\n#endif"
    assert names(closure(root, text, "i1", macros=[("HAS", value)])) == ["project/i1/a.h", "project/pkg/k.cu"]


def test_a_name_that_goes_into_a_folder_and_back_depends_on_the_folder(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"i1/a.h": "", "i1/s/x.h": "", "pkg/k.cu": ""})
    text = "#include <a.h>\n#include <s/../a.h>\n#include <./a.h>"
    assert names(closure(root, text, "i1")) == ["project/i1/a.h", "project/i1/s/../a.h"]


def test_a_header_that_includes_itself_through_a_folder_ends(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"i1/a.h": '#include "s/../a.h"', "i1/s/x.h": "", "pkg/k.cu": ""})
    assert names(closure(root, "#include <a.h>", "i1")) == ["project/i1/a.h", "project/i1/s/../a.h"]


def test_where_nobody_knows_what_is_asked_for_a_new_folder_may_matter(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"i1/a.h": "", "pkg/k.cu": ""})
    text = "#define HAS __has_include\n#define ASK <s/../a.h>\n#if HAS(ASK)\n#endif"
    before = closure(root, text, "i1").digest()
    (root / "i1/s").mkdir()
    assert closure(root, text, "i1").digest() != before


def test_what_is_not_there_is_known_for_each_closure_by_itself(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"i2/a.h": "", "pkg/k.cu": ""})
    resolver = Resolver(
        ProjectTree(root), [SearchFolder(root / "i1", "project/i1"), SearchFolder(root / "i2", "project/i2")]
    )
    first, other = (resolver.resolve("pkg/k.cu", f"#include <{name}>", (), ()) for name in ("a.h", "b.h"))
    assert first.absent == {("i1/a.h",)}
    assert other.absent == {("i1/b.h", "i2/b.h")}


def test_a_pre_included_header_may_be_named_by_its_path_in_the_project(tmp_path: Path) -> None:
    root = write_tree(tmp_path, {"pkg/p.h": '#include "q.h"', "pkg/q.h": "", "i1/r.h": "", "pkg/k.cu": ""})
    found = closure(root, "", "i1", pre=["pkg/p.h", "r.h"])
    assert (names(found), found.at_root) == (
        ["project/i1/r.h", "project/pkg/p.h", "project/pkg/q.h"],
        ("pkg/p.h",),
    )


def test_an_absolute_name_is_looked_for_there_alone(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"x.h": "", "i1/nowhere/x.h": "", "pkg/k.cu": ""})
    found = closure(root, f'#include "{tmp_path}/p/x.h"\n#include "/nowhere/x.h"', "i1")
    assert (names(found), found.missing) == ([f"/{str(tmp_path)[1:]}/p/x.h"], {"/nowhere/x.h"})


@pytest.mark.linux
def test_a_pre_included_header_is_no_link_out_of_the_project(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "p", {"pkg/k.cu": ""})
    (root / "pkg/p.h").symlink_to("/etc/passwd")
    assert closure(root, "", pre=["pkg/p.h"]).at_root == ()


def test_a_long_word_in_a_macro_takes_no_longer_than_a_short_one() -> None:
    """There are many ways to cut one into words, and no more than one is tried."""
    word = "a" * 100
    text = f"#define H(x) <{word} !>\n#define G {word}+"
    assert scan(text).defines == (("H", "?"), ("G", "?"))


# As CCCL's of CUDA 12.9 to 13.2 do it.
LIBRARY = {
    "lib/ask.h": "#define _CCCL_HAS_INCLUDE(_X) __has_include(_X)\n#if _CCCL_HAS_INCLUDE(<more.h>)\n#endif\n",
    "lib/tag.h": "#define NAME cuda\n#define ROOT sys/NAME\n#define TAG <ROOT/tag.h>\n#include TAG\n",
    "lib/more.h": "",
    "lib/sys/cuda/tag.h": "",
    "lib/sys/cpp/tag.h": "",
    "pkg/k.cu": "",
}


def test_what_a_library_asks_and_includes_by_macros_is_known(tmp_path: Path) -> None:
    root = write_tree(tmp_path, LIBRARY)
    resolver = Resolver(ProjectTree(root), [SearchFolder(root / "lib", "wheel/lib", "wheel==1")])
    found = resolver.resolve("pkg/k.cu", "#include <ask.h>\n#include <tag.h>\n", (), ())
    assert names(found) == [
        "wheel/lib/ask.h",
        "wheel/lib/more.h",
        "wheel/lib/sys/cuda/tag.h",
        "wheel/lib/tag.h",
    ]
    assert (found.guessed, found.trees) == (False, set())
