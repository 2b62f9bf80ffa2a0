"""What hints depend on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from .failed_compiles import TABLES, setting, table


def test_a_line_has_what_the_table_has_and_the_new(tmp_path: Path) -> None:
    there = setting(tmp_path, 'exclude = ["a"]\ndefine = { N = 1 }\noptions = { std = "c++20", fma = false }')
    assert there.line("exclude", ["a", "b"]) == 'exclude = ["a", "b"]'
    assert there.pasted("define", {"M": True}) == ' define = { N = "1", M = true }'
    assert there.pasted("options", {"device-int128": True}) == (
        ' options = { std = "c++20", fma = false, device-int128 = true }'
    )


@pytest.mark.parametrize(
    ("key", "rule", "value", "merged"),
    [
        ("define", "define = { N = 2 }", {"N": "…"}, 'define = { A = "1", N = "…" }'),
        ("define", "define = { N = false, M = 3 }", {"N": True}, 'define = { A = "1", M = "3", N = true }'),
        (
            "options",
            "options = { device-int128 = false }",
            {"device-int128": True},
            "options = { fma = false, device-int128 = true }",
        ),
    ],
)
def test_what_a_rule_of_the_source_sets_is_set_by_another(
    tmp_path: Path, key: Literal["define", "options"], rule: str, value: dict[str, object], merged: str
) -> None:
    tables = f"define = {{ A = 1 }}\noptions = {{ fma = false }}\n{TABLES}\npath = 'demo/*.cu'\n{rule}"
    there = setting(tmp_path, tables)
    assert there.pasted(key, value) == table(merged)
    assert there.pasted(key, {"unset": True}).startswith(f" {key} = {{ ")


def test_only_files_that_the_compile_read_have_a_text(tmp_path: Path) -> None:
    there = setting(tmp_path, text="source", files={"demo/h.h": "header", "demo/gone.h": ""})
    (tmp_path / "demo/gone.h").unlink()
    (tmp_path / "secret.h").write_text("secret")
    names = ("demo/a.cu", "demo/h.h", "demo/gone.h", "secret.h", "<nvrtc>/a.h")
    assert [there.text_of(name) for name in names] == ["source", "header", "", "", ""]


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("", " options = { diag-suppress = [177] }"),
        (
            "options = { std = 'c++20', diag_suppress = [1] }",
            ' options = { std = "c++20", diag-suppress = [1, 177] }',
        ),
        ("options = { diag-suppress = 1 }", " options = { diag-suppress = [1, 177] }"),
        (
            f"{TABLES}\npath = 'demo/*.cu'\noptions = {{ diag-suppress = [1] }}",
            table("options = { diag-suppress = [1, 177] }"),
        ),
    ],
)
def test_a_warning_is_silenced_beside_those_that_are(tmp_path: Path, options: str, shown: str) -> None:
    assert setting(tmp_path, options).silencing(177) == f"to silence this warning:{shown}"


def test_a_warning_in_a_call_is_silenced_in_the_call(tmp_path: Path) -> None:
    there = setting(tmp_path, "")
    call = replace(there, module=replace(there.module, front="cupy"))
    assert call.silencing(177) == (
        'to silence this warning, add "--diag-suppress=177" to the options in the call of cupy'
    )
