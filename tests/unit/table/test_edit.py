"""Adding to TOML texts: where it goes, and that everything else stays."""

from __future__ import annotations

import pytest

from hatch_cubin.table.edit import Setting, add_items, add_settings

UV = ("tool", "uv")
KEY = Setting("key", "[\n  1,\n]", "why")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "[tool.uv]\n# why\nkey = [\n  1,\n]\n"),
        ("a = 1", "a = 1\n\n[tool.uv]\n# why\nkey = [\n  1,\n]\n"),
        ("a = 1\r\n", "a = 1\r\n\r\n[tool.uv]\r\n# why\r\nkey = [\r\n  1,\r\n]\r\n"),
        ("a = 1\r\nb = 1\n", "a = 1\r\nb = 1\n\n[tool.uv]\n# why\nkey = [\n  1,\n]\n"),
        ("[tool.uv.pip]\n", "[tool.uv.pip]\n\n[tool.uv]\n# why\nkey = [\n  1,\n]\n"),
        ("[tool.uv] # x\na = nan\n", "[tool.uv] # x\n# why\nkey = [\n  1,\n]\na = nan\n"),
        ("[ tool . 'uv' ]", "[ tool . 'uv' ]\n# why\nkey = [\n  1,\n]\n"),
        ("[tool]\nuv.a = 1\n", "[tool]\n# why\nuv.key = [\n  1,\n]\nuv.a = 1\n"),
        ("tool.uv.a = 1", "# why\ntool.uv.key = [\n  1,\n]\ntool.uv.a = 1"),
        ("[tool]\nuv = { a = 1 } # x\n", "[tool]\nuv = { a = 1, key = [\n  1,\n] } # x\n"),
        ("tool = {}\n", "tool = { uv.key = [\n  1,\n]}\n"),
        (
            "x = '''\n[tool.uv]\n'''\n[tool]\nuv.a=1",
            "x = '''\n[tool.uv]\n'''\n[tool]\n# why\nuv.key = [\n  1,\n]\nuv.a=1",
        ),
    ],
)
def test_settings_go_where_they_can_be_read(before: str, after: str) -> None:
    assert add_settings(before, UV, [KEY]) == after


@pytest.mark.parametrize("text", ["tool = 1\n", "[tool]\nuv = []\n", "[[tool.uv]]\n"])
def test_settings_have_no_place_in_what_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match=r"^what stands in its place is no table$"):
        add_settings(text, UV, [KEY])


def test_a_key_that_is_there_is_not_written_again() -> None:
    with pytest.raises(ValueError, match=r"^there is no place for it without rewriting what stands there$"):
        add_settings("[tool.uv]\nkey = 1\n", UV, [KEY])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = []", 'a = ["x", "y"]'),
        ("a = [ ] # x\n", 'a = ["x", "y" ] # x\n'),
        ("a = [1]\n", 'a = [1, "x", "y"]\n'),
        ("a = [ 1 , ]\n", 'a = [ 1 , "x", "y" ]\n'),
        ("a = [1, # ,\n]\n", 'a = [1, # ,\n  "x",\n  "y",\n]\n'),
        (
            "a = [\n\t1, # ,\n\t2 # ]\n\n\t# end ]\n\t]\n",
            'a = [\n\t1, # ,\n\t2, # ]\n\n\t# end ]\n\t"x",\n\t"y",\n\t]\n',
        ),
        ("a = [\r\n  1\r\n]\r\n", 'a = [\r\n  1,\r\n  "x",\r\n  "y",\r\n]\r\n'),
        ("a = [1,\n     2]\n", 'a = [1,\n     2, "x", "y"]\n'),
        ("a = [[1], [']']]\n", 'a = [[1], [\']\'], "x", "y"]\n'),
    ],
)
def test_items_follow_the_last_one_in_its_style(before: str, after: str) -> None:
    assert add_items(before, ["a"], ['"x"', '"y"']) == after


def test_an_array_inside_tables_is_found() -> None:
    text = "[[a]]\nb = [0]\n[c]\nd = { b = [1] }\n"
    assert add_items(text, ["c", "d", "b"], ["2"]) == "[[a]]\nb = [0]\n[c]\nd = { b = [1, 2] }\n"


def test_an_array_of_tables_gets_more_of_them() -> None:
    assert add_items("[[a.b]]\nc = '1'\n[d]", ["a", "b"], ['{ c = "2" }']) == (
        "[[a.b]]\nc = '1'\n[d]\n\n[[a.b]]\nc = \"2\"\n"
    )


def test_items_have_no_place_in_what_is_no_array() -> None:
    with pytest.raises(ValueError, match=r"^a.b is no array$"):
        add_items("[a]\nb = 'c'\n", ["a", "b"], ["1"])
