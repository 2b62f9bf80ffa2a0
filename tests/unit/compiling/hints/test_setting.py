"""What hints depend on."""

from __future__ import annotations

from pathlib import Path

from .settings import setting


def test_a_line_has_what_the_table_has_and_the_new(tmp_path: Path) -> None:
    there = setting(tmp_path, 'exclude = ["a"]\ndefine = { N = 1 }\noptions = { std = "c++20", fma = false }')
    assert there.line("exclude", ["a", "b"]) == 'exclude = ["a", "b"]'
    assert there.line("define", {"M": True}) == 'define = { N = "1", M = true }'
    assert there.line("options", {"device-int128": True}) == (
        'options = { std = "c++20", fma = false, device-int128 = true }'
    )


def test_only_files_that_the_compile_read_have_a_text(tmp_path: Path) -> None:
    there = setting(tmp_path, text="source", files={"demo/h.h": "header", "demo/gone.h": ""})
    (tmp_path / "demo/gone.h").unlink()
    (tmp_path / "secret.h").write_text("secret")
    names = ("demo/a.cu", "demo/h.h", "demo/gone.h", "secret.h", "<nvrtc>/a.h")
    assert [there.text_of(name) for name in names] == ["source", "header", "", "", ""]
