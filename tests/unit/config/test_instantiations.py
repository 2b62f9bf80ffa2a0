"""Tables in `instantiate`: the instantiations that each stands for, and every mistake with its line."""

from __future__ import annotations

import pytest

from hatch_cubin.config import value_checks
from hatch_cubin.config.value_checks import MAX_VARIANTS
from hatch_cubin.errors import Location, in_order
from tests.helpers import read_config

from .test_config import FIRST, SOURCE, coded, problems


def names(entries: str) -> list[str]:
    """Return the instantiations that a line asks for."""
    (rule,) = read_config(f"{SOURCE}\npath = 'a.cu'\ninstantiate = [{entries}]").source
    return [*rule.instantiate]


def test_a_product_stands_for_each_combination_of_its_values() -> None:
    equal = [
        '"a<int, 0>", "a<int, 1>", "a<char, 0>", "a<char, 1>"',
        '{ kernel = "a<{T}, {N}>", T = ["int", " char "], N = "0..1" }',
        '{ N = [0, 1], T = ["int", "char"], kernel = " a<{T}, {N}> " }',
        '{ kernel = "a<int, {N}>", N = ["0", "1"] }, "a<int, 1>", { kernel = "a<char, {N}>", N = "0..1" }',
    ]
    assert [*map(names, equal)] == [names(equal[0])] * 4
    assert names('{ kernel = "{f}<{f}, S{S}>", f = ["g"], S = ["{1}", "{f}"] }') == [
        "g<g, S{1}>",
        "g<g, S{f}>",
    ]
    assert names('{ kernel = "a<{N}>", N = "-1..-1" }') == ["a<-1>"]
    assert names('{ kernel = "a<{N}>", N = [true, false, -2, "x[0]"] }') == [
        "a<true>",
        "a<false>",
        "a<-2>",
        "a<x[0]>",
    ]
    assert len(names('{ kernel = "a<{N}, {M}>", N = "1..1000", M = "1..100" }')) == MAX_VARIANTS


BRACES = "has braces that are not around a placeholder's name, as in {N}:"
CXX = (
    "braces in 'kernel' mark placeholders: if C++ needs braces, write them in the value of a "
    'placeholder, as in S = ["Shape{1}"]'
)
VALUES = 'must be an array of at least one value, or a range such as "0..31", not'


@pytest.mark.parametrize(
    ("entries", "message", "hint"),
    [
        ("{}", "has a table without the key 'kernel' [missing-key]", 'kernel = "scale<{T}>"'),
        (
            "{ A = [1], B = 2 }",
            "has a table without the key 'kernel' [missing-key]",
            'kernel = "scale<{A}, {B}>"',
        ),
        (
            "{ kernels = 'a<{N}>', N = 1 }",
            "has a table without the key 'kernel' [missing-key]",
            "'kernel' by 'kernels'",
        ),
        (
            "{ name = 'a<{T}, 4>', T = ['float'] }",
            "has a table without the key 'kernel' [missing-key]",
            "write 'kernel' in place of 'name': kernel = \"a<{T}, 4>\"",
        ),
        *(
            (
                f"{{ kernel = '{text}', T = ['float'], N = [4] }}",
                f".kernel has no placeholder, such as {{N}}: {text!r}",
                'kernel = "a<{T}, {N}>"',
            )
            for text in ("a<$T, $N>", "a<T, N>")
        ),
        (
            "{ kernel = 'a', T = ['float'], N = [4] }",
            ".kernel has no placeholder, such as {N}: 'a'",
            'kernel = "a<{T}, {N}>"',
        ),
        ("{ kernel = 'a' }", ".kernel has no placeholder, such as {N}: 'a'", '"a"'),
        ("{ kernel = 1 }", ".kernel must be a string that is not empty, not 1", None),
        ("{ kernel = ' ' }", ".kernel ' ' is not the name of a kernel, such …", None),
        ("{ kernel = 'a<b>' }", ".kernel has no placeholder, such as {N}: 'a<b>'", '"a<b>"'),
        *(
            (f"{{ kernel = '{text}', N = [1] }}", f".kernel {BRACES} {text!r}", CXX)
            for text in (
                "a<{}, {N}>",
                "a<{{N}}>",
                "a<{1}>",
                "a<{N>",
                "a<N}>",
                "a<{ N }>",
                "a<{é}>",
                "a<{N!r}>",
            )
        ),
        (
            "{ kernel = 'a<{kernel}>' }",
            ".kernel cannot have the placeholder {kernel}, because the key 'kernel' is the kernel's name",
            None,
        ),
        (
            "{ kernel = 'a<{T}, {T}>' }",
            ".kernel has the placeholder {T}, but the table has no values for this placeholder [missing-key]",
            'T = ["float", "double"], or T = "0..31"',
        ),
        (
            "{ kernel = 'a<{A}>', A = [1], B = [1] }",
            ".B is not a placeholder of 'a<{A}>' [unknown-key]",
            None,
        ),
        (
            "{ kernel = 'N<{A}, N>', A = [1], N = [1] }",
            ".N is not a placeholder of 'N<{A}, N>' [unknown-key]",
            'kernel = "N<{A}, {N}>"',
        ),
        (
            "{ kernel = 'a<..., {N}>', N = [1] }",
            ": 'a<..., {N}>' still contains … [placeholder-not-replaced]",
            "replace the ...",
        ),
        (
            "{ kernel = 'a<{N}>', N = ['...'] }",
            ": '...' still contains … [placeholder-not-replaced]",
            "replace the ...",
        ),
        ("{ kernel = 'a<{N}>', N = [] }", f".N {VALUES} []", None),
        ("{ kernel = 'a<{N}>', N = {} }", f".N {VALUES} {{}}", None),
        ("{ kernel = 'a<{N}>', N = ' ' }", f".N {VALUES} ' '", None),
        ("{ kernel = 'a<{N}>', N = 4 }", f".N {VALUES} 4", "N = [4]"),
        ("{ kernel = 'a<{N}>', N = 'float,int' }", f".N {VALUES} 'float,int'", 'N = ["float", "int"]'),
        *(
            (f"{{ kernel = 'a<{{N}}>', N = '{text}' }}", f".N {VALUES} {text!r}", 'N = "0..31"')
            for text in ("31..0", "0...31", "0-31", "0:31", " 0 .. 31 ", "0..=31")
        ),
        ("{ kernel = 'a<{N}>', N = ['0..3'] }", ".N has the range '0..3' inside an array", 'N = "0..3"'),
        ("{ kernel = 'a<{N}>', N = [1, '1'] }", ".N has '1' twice [repeated-value]", None),
        *(
            (f"{{ kernel = 'a<{{N}}>', N = [{text}] }}", f".N must be types or values, …, not {shown}", None)
            for text, shown in (("1.5", "1.5"), ("' '", "' '"), ("[1]", "[1]"), (f"{2**64}", f"{2**64}"))
        ),
        (
            "{ kernel = 'a<{N}>', N = '0..100000' }",
            "asks for 100001 instantiations, but … may ask for 100000 [too-many-instantiations]",
            None,
        ),
        (
            "'b<1>', { kernel = 'a<{N}>', N = '1..999999999' }",
            "asks for 999999999 instantiations, … [too-many-instantiations]",
            None,
        ),
        (
            "{ kernel = 'a<{N}>', N = '1..99999' }, { kernel = 'a<{N}, {N}{M}>', N = [1, 2], M = ['', 'x'] }",
            ".M must be …",
            None,
        ),
        (
            "{ kernel = 'a<{N}>', N = '1..99999' }, { kernel = 'b<{N}>', N = [1, 2] }",
            "asks for 2 instantiations, … [too-many-instantiations]",
            None,
        ),
    ],
)
def test_each_mistake_in_a_product_is_reported(entries: str, message: str, hint: str | None) -> None:
    (found,) = problems(f"{SOURCE}\npath = 'a.cu'\ninstantiate = [{entries}]")
    separator = "" if message.startswith((".", ":")) else " "
    assert found._replace(hint=None) == coded(FIRST + 2, f"instantiate{separator}{message}")
    assert (hint is None) == (found.hint is None)
    assert hint is None or hint in (found.hint or "")


def test_all_mistakes_of_products_are_reported_at_once_each_with_its_line() -> None:
    options = f"""\
        {SOURCE}
        path = "a.cu"
        instantiate = [
          {{ kernel = "a<{{N}}, {{scalar}}>", Scalar = ["float"], N = [
            "1",
            "1",
            "",
          ] }},
          " ",
          {{ kernel = "a<{{}}>", N = [] }},
        ]
        """
    assert [(each.where, each.code) for each in in_order(problems(options))] == [
        (Location("pyproject.toml", FIRST + line), code)
        for line, code in [
            (3, "missing-key"),
            (3, "unknown-key"),
            (5, "repeated-value"),
            (6, "invalid-value"),
            (8, "invalid-value"),
            (9, "invalid-value"),
            (9, "invalid-value"),
        ]
    ]


@pytest.mark.parametrize(
    ("text", "table"),
    [
        ("scale<{T}>", '{ kernel = "scale<{T}>", T = ["float", "double"] }'),
        (
            "scale<{dtype}, {N}>",
            '{ kernel = "scale<{dtype}, {N}>", dtype = ["float", "double"], N = [1, 2] }',
        ),
        (
            "scale<{half,float}, {}>",
            '{ kernel = "scale<{T}, {T1}>", T = ["half", "float"], T1 = ["float", "double"] }',
        ),
        ("scale<float, Shape{1}>", None),
        ("scale<[]{ return 1; }>", None),
        ("scale", None),
    ],
)
def test_a_text_with_placeholders_was_meant_as_a_table(text: str, table: str | None) -> None:
    assert value_checks.product_meant(text) == (table and f"write a table: {table}")
