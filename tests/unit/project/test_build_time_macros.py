"""Lines that make every compile differ: uses of time macros, also through other macros."""

from __future__ import annotations

import pytest

from hatch_cubin.project.build_time_macros import TimeMacroUse, time_macro_uses

PASTES = "#define T2(x) __##x##__\n"
CAT = "#define CAT(a, b) a##b\n#define C3(a, b, c) CAT(CAT(a, b), c)\n"


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("__TIME__", 1, "__TIME__"),
        ("\n/* a\nb */ x = __DATE__;", 3, "__DATE__"),
        ("#define WHEN __DATE__\nx = WHEN;", 1, "__DATE__"),
        ("#define T \\\n __TI\\\nME__\n", 1, "__TIME__"),
    ],
)
def test_a_time_macro_in_the_text_is_reported(text: str, line: int, name: str) -> None:
    assert list(time_macro_uses({"k.cu": text})) == [TimeMacroUse("k.cu", line, name, is_literal=True)]


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("#define T __TI ## ME__", 1, "__TIME__"),
        (PASTES + "T2(TIME)", 2, "__TIME__"),
        (PASTES + "#define T3(x) T2(x)\nT3(TIME)", 3, "__TIME__"),
        ("#define T(x) __##x##TE__\nf(T(DA))", 2, "__DATE__"),
        ("#define T(x) x##TE__\n#define U T(__DA)\nf(U);", 2, "__DATE__"),
        ("#define T2(x, y) x%:%:y\n\nT2 (__DA,\n TE__)", 3, "__DATE__"),
        (CAT + "C3(__, CAT(TI, ME), __)", 3, "__TIME__"),
        (CAT + "C3(__, CAT(CAT(T, I), CAT(M, E)), CAT(_, _))", 3, "__TIME__"),
        (CAT + "#define DAY DATE\nC3(__, DAY, __)", 4, "__DATE__"),
        (CAT + "#define CALL(m, ...) m(__VA_ARGS__)\nCALL(CAT, __DA, TE__)", 4, "__DATE__"),
        ("OTHERS_CAT(__TIME, STAMP__)", 1, "__TIMESTAMP__"),
    ],
)
def test_a_time_macro_that_macros_make_is_reported_at_their_line(text: str, line: int, name: str) -> None:
    assert list(time_macro_uses({"k.cu": text})) == [TimeMacroUse("k.cu", line, name, is_literal=False)]


@pytest.mark.parametrize(
    "text",
    [
        "// __TIME__",
        '"__TIME__" R"(__DATE__)"',
        "#define T2(x) x\nT2(TIME)",
        PASTES + "T2(TIMER) TIME",
        CAT + "CAT(DATE, x) C3(T, _, E) C3(I, M, E)",
        CAT + "#define NAME(T, I, M, E) CAT(k_, T)\nNAME(T, I, M, E)",
        "f(__DATE, x)",
        "CAT(__DA, (TE__)) CAT(_",
        CAT + "CAT(__DA, TE__" + " " * 10_000 + ")",
        "#define A B\n#define B A\nA(TIME)",
    ],
)
def test_a_text_without_time_macros_is_not_reported(text: str) -> None:
    assert list(time_macro_uses({"k.cu": text})) == []


def test_texts_share_their_macros_and_each_text_is_reported_at_its_own_lines() -> None:
    texts = {"p.h": PASTES, "a.cu": "T2(DATE)\n\nT2(TIME)", "b.cu": "T2(x)"}
    assert list(time_macro_uses(texts)) == [
        TimeMacroUse("a.cu", 1, "__DATE__", is_literal=False),
        TimeMacroUse("a.cu", 3, "__TIME__", is_literal=False),
    ]


def test_calls_of_a_macro_that_is_reported_itself_are_not_reported() -> None:
    texts = {"k.cu": CAT + "#define NOW C3(__, TIME, __)\n#define LATER NOW\nf(NOW) CAT(LATER, x)"}
    assert list(time_macro_uses(texts)) == [TimeMacroUse("k.cu", 3, "__TIME__", is_literal=False)]


def test_a_line_of_a_megabyte_is_read_in_one_go() -> None:
    """Tables of data have such lines. To search their end from each character would take hours."""
    assert list(time_macro_uses({"k.cu": f"{'1,' * 500_000}\n__TIME__"})) == [
        TimeMacroUse("k.cu", 2, "__TIME__", is_literal=True)
    ]
