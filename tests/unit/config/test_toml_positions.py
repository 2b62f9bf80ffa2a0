"""Line numbers of TOML keys: what a message points at."""

from __future__ import annotations

import textwrap

import pytest

from hatch_cubin.config import toml_positions

DOCUMENT = textwrap.dedent(
    """\
    # a comment with [brackets] = "and quotes
    top = 1

    [tool.hatch] # another ]
    names = [
      "a", # one
      'b,]',
      \"\"\"
      c = 1
      [x]
      \"\"\", '''
      d'''
    ]
    inline = { x = 1, y.z = [ { deep = true }, 2 ] }
    dotted . "quoted.key" = 1979-05-27 07:32:00
    after = 1

    [[tool.hatch.source]]
    path = "a"
    [tool.hatch.source.define]
    N = 1

    [[tool.hatch.source]]
    path = "b"
    [[tool.hatch.source.inner]]
    k = 1
    """
)


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("top",), 2),
        (("tool",), 4),
        (("tool", "hatch"), 4),
        (("tool", "hatch", "names"), 5),
        (("tool", "hatch", "names", 0), 6),
        (("tool", "hatch", "names", 1), 7),
        (("tool", "hatch", "names", 2), 8),
        (("tool", "hatch", "names", 3), 11),
        (("tool", "hatch", "inline", "y", "z", 0, "deep"), 14),
        (("tool", "hatch", "inline", "y", "z", 1), 14),
        (("tool", "hatch", "dotted", "quoted.key"), 15),
        (("tool", "hatch", "after"), 16),
        (("tool", "hatch", "source"), 18),
        (("tool", "hatch", "source", 0, "path"), 19),
        (("tool", "hatch", "source", 0, "define", "N"), 21),
        (("tool", "hatch", "source", 1), 23),
        (("tool", "hatch", "source", 1, "path"), 24),
        (("tool", "hatch", "source", 1, "inner", 0, "k"), 26),
    ],
    ids=str,
)
def test_every_table_key_and_element_has_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert toml_positions.loads(DOCUMENT)["tool"]["hatch"]["after"] == 1
    assert toml_positions.key_lines(DOCUMENT)[path] == line


@pytest.mark.parametrize("value", ['"', "'", '"""', "'''"])
def test_a_string_may_end_in_quotes_and_hide_structure(value: str) -> None:
    extra = {'"""': '""', "'''": "''"}.get(value, "")
    text = f"a = {value}[x] = #{extra}{value}\nb = 1\n"
    assert set(toml_positions.loads(text)) == {"a", "b"}
    assert toml_positions.key_lines(text) == {("a",): 1, ("b",): 2}


@pytest.mark.parametrize("written", ['"a\\"b = \\u005b"', "'a\"b = ['"], ids=["with escapes", "as it stands"])
def test_a_quoted_key_is_known_by_what_it_says(written: str) -> None:
    text = f"\n{written} = 1"
    assert toml_positions.loads(text) == {'a"b = [': 1}
    assert toml_positions.key_lines(text) == {('a"b = [',): 2}


def test_an_empty_key_is_a_key() -> None:
    assert toml_positions.key_lines("'' = 1\nc.\"\" = 2") == {
        ("",): 1,
        ("c",): 2,
        ("c", ""): 2,
    }


def test_line_ends_of_windows_count_as_one() -> None:
    assert toml_positions.key_lines("a = 1\r\n\r\nb = [\r\n1,\r\n2]\r\n") == {
        ("a",): 1,
        ("b",): 3,
        ("b", 0): 4,
        ("b", 1): 5,
    }


def test_a_header_may_be_the_last_thing_without_a_line_end() -> None:
    assert toml_positions.key_lines("a = 1\n[b]") == {("a",): 1, ("b",): 2}


@pytest.mark.parametrize(
    ("text", "line"),
    [("a = 1\nb = [\n1\n[c]\n", 2), ("a = 1\nb = 1 2\n", 2), ("= 3\n", None), (")\na = 1\n", None)],
)
def test_the_line_of_broken_toml_is_where_its_statement_begins(text: str, line: int | None) -> None:
    assert toml_positions.broken_line(text) == line


def test_an_empty_document_has_no_lines() -> None:
    assert toml_positions.key_lines("") == {}


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("tool", "hatch", "source", 0, "define", "GONE"), 20),
        (("tool", "hatch", "nothing", 7, "x"), 4),
        (("elsewhere",), None),
        ((), None),
    ],
    ids=str,
)
def test_a_key_that_is_not_there_has_the_line_of_what_is_around_it(
    path: tuple[str | int, ...], line: int | None
) -> None:
    assert toml_positions.line_of(toml_positions.key_lines(DOCUMENT), path) == line
