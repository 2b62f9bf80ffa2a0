"""Lines that make every compile differ: uses of time macros."""

from __future__ import annotations

import pytest

from hatch_cubin.project.build_time_macros import TimeMacroUse, time_macro_uses


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("__TIME__", 1, "__TIME__"),
        ("\n/* a\nb */ x = __DATE__;", 3, "__DATE__"),
        ("#define WHEN __DATE__\nx = WHEN;", 1, "__DATE__"),
        ("#define T \\\n __TI\\\nME__\n", 1, "__TIME__"),
        ("x = __TIMESTAMP__, __TIME__;", 1, "__TIMESTAMP__"),
        (f"{'1,' * 500_000}\n__TIME__", 2, "__TIME__"),  # a table of data is read in one go
    ],
)
def test_a_time_macro_in_the_text_is_reported(text: str, line: int, name: str) -> None:
    assert list(time_macro_uses({"k.cu": text})) == [TimeMacroUse("k.cu", line, name)]


@pytest.mark.parametrize(
    "text", ["// __TIME__", '"__TIME__" R"(__DATE__)"', "MY__TIME__", "#define PASTED __TI ## ME__"]
)
def test_a_text_without_time_macros_is_not_reported(text: str) -> None:
    assert list(time_macro_uses({"k.cu": text})) == []


def test_each_text_is_reported_at_its_own_lines() -> None:
    texts = {"k.cu": '#include "k.h"\nWHEN;\n__TIME__\n__DATE__', "k.h": "#define WHEN __DATE__"}
    assert list(time_macro_uses(texts)) == [
        TimeMacroUse("k.cu", 3, "__TIME__"),
        TimeMacroUse("k.cu", 4, "__DATE__"),
        TimeMacroUse("k.h", 1, "__DATE__"),
    ]
