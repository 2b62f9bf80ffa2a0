"""Why a producer failed, and what to do about it."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.config.config import ProducerRule
from hatch_cubin.errors import Location, Problem
from hatch_cubin.producing.failures import Answer, problems_of
from hatch_cubin.producing.producer_inputs import Producer, ProducerInputs

GEN, TABLE = Location("demo/gen.py"), Location("pyproject.toml", 9)
PRODUCER = Producer(
    ProducerRule(path="demo/gen.py", inputs=("demo/a.txt",)),
    ProducerInputs({}, {}, {}, {}),
    "demo.gen",
    [("demo", "demo")],
)


def problems(content: dict[str, Any], status: int | None = 0, output: str = "") -> list[Problem]:
    return [*problems_of(PRODUCER, Answer(status, output, content), TABLE)]


def failure(error: str, *frames: list[Any], missing: str | None = None) -> Problem:
    (one,) = problems({"error": error, "frames": [*frames], "missing": missing}, 0, "printed\n\n")
    return one


def test_an_answer_with_sources_has_no_problem() -> None:
    assert problems({"sources": [["a.cu", "text"]], "read": [], "listed": []}) == []


def test_a_time_out_shows_the_output_and_a_line_to_paste() -> None:
    (one,) = problems({}, None, "line\n\nlast")
    assert (one.code, one.where, one.details) == ("producer-timed-out", TABLE, ("line", "last"))
    assert one.hint == "in its table: seconds = 300"


def test_undeclared_reads_have_a_line_to_paste() -> None:
    (one,) = problems({"sources": [["a.cu", ""]], "read": ["demo/b.txt"], "listed": ["demo/t", "."]})
    assert (one.code, one.where) == ("undeclared-input", TABLE)
    assert one.hint == 'in its table: inputs = ["demo/a.txt", "demo/b.txt", "demo/t/*", "*"]'


@pytest.mark.parametrize(
    ("content", "code", "hint"),
    [
        ({"absent": ["texts"]}, "no-such-function", 'in its table: call = "texts"'),
        ({"absent": ["a", "b"]}, "no-such-function", None),
        ({"other": "list"}, "producer-returns-no-mapping", None),
        ({}, "producer-crashed", None),
        ({"sources": []}, "producer-returns-nothing", None),
    ],
)
def test_a_useless_answer_is_explained(content: dict[str, Any], code: str, hint: str | None) -> None:
    (one,) = problems(content)
    assert (one.code, one.where, one.hint) == (code, GEN, hint)


def test_an_exception_shows_the_frames_of_the_project() -> None:
    one = failure("ValueError: bad", ["demo/gen.py", 3, "sources", "f()"], ["demo/x.py", 7, "f", ""])
    assert (one.what, one.where) == ("raises ValueError: bad", Location("demo/x.py", 7))
    assert one.details == ("demo/gen.py:3: f()", "demo/x.py:7", "printed")
    assert failure("ValueError").where == GEN


@pytest.mark.parametrize(
    ("error", "missing", "frames", "hint"),
    [
        (
            "ModuleNotFoundError",
            "jinja2.ext",
            [],
            'in its table, name the distribution that has it: requires = ["jinja2"]',
        ),
        ("ModuleNotFoundError", "demo.no", [], None),
        (
            "ImportError: cannot import name 'X' from 'demo'",
            None,
            [],
            "the __init__.py of a package does not run here: import from the module that defines the name",
        ),
        (
            "KeyError: 'LEVEL'",
            None,
            [["demo/gen.py", 1, "sources", "os.environ['LEVEL']"]],
            "the process has only the variables that 'environment' in its table names",
        ),
        ("KeyError: 'LEVEL'", None, [], None),
    ],
)
def test_usual_exceptions_have_a_hint(
    error: str, missing: str | None, frames: list[list[Any]], hint: str | None
) -> None:
    assert failure(error, *frames, missing=missing).hint == hint
