"""Adding to TOML texts: where it goes, and that everything else stays."""

from __future__ import annotations

import pytest

from hatch_cubin.config.toml_edit import Setting, add_items, add_settings, remove_key, replace_value

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
    with pytest.raises(ValueError, match=r"^the existing value is not a table$"):
        add_settings(text, UV, [KEY])


def test_a_key_that_is_there_is_not_written_again() -> None:
    with pytest.raises(ValueError, match=r"^the change is not possible without rewriting other lines$"):
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
    with pytest.raises(ValueError, match=r"^a.b is not an array$"):
        add_items("[a]\nb = 'c'\n", ["a", "b"], ["1"])


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\nb = 1 # x\nc = 2\n", "[a]\nb = 'x' # x\nc = 2\n"),
        ("a = { c = 2, b = [\n1,\n] }", "a = { c = 2, b = 'x' }"),
        ("a.b = '''\nb = 1\n'''\r\n", "a.b = 'x'\r\n"),
    ],
)
def test_a_value_is_replaced_where_it_stands(before: str, after: str) -> None:
    assert replace_value(before, ["a", "b"], "'x'") == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[a]\nb = 1 # x\nc = 2\n", "[a]\nc = 2\n"),
        ("[a]\nc = 2\nb = 1", "[a]\nc = 2\n"),
        ("[a]\r\n  b = [\r\n 1,\r\n]\r\nc = 2\r\n", "[a]\r\nc = 2\r\n"),
        ("a.c = 2\na.b = '='\n", "a.c = 2\n"),
        ("a = { b = 1, c = 2 }\n", "a = { c = 2 }\n"),
        ("a = { c = 2, b = 1 }\n", "a = { c = 2 }\n"),
        ("a = {c = 2 , 'b'= 1,d = 3}\n", "a = {c = 2 ,d = 3}\n"),
        ("a = { b = 1 }\n", "a = { }\n"),
    ],
)
def test_a_key_goes_with_its_line_or_its_comma(before: str, after: str) -> None:
    assert remove_key(before, ["a", "b"]) == after


@pytest.mark.parametrize("text", ["[a.b]\nc = 1\n", "[a]\nc = 1\n"])
def test_what_is_no_plain_value_is_neither_replaced_nor_removed(text: str) -> None:
    with pytest.raises(ValueError, match=r"^a.b is not a plain value$"):
        replace_value(text, ["a", "b"], "1")
    with pytest.raises(ValueError, match=r"^a.b is not a plain value$"):
        remove_key(text, ["a", "b"])
