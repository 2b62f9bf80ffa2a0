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
    ProducerRule(path="demo/gen.py", inputs=("demo/a.txt",), environment=("X",)),
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


@pytest.mark.parametrize(
    ("read", "listed", "inputs"),
    [
        (["demo/b.txt"], [], '"demo/b.txt"'),
        (["demo/b.txt", "demo/t/c.txt"], ["demo/t"], '"demo/b.txt", "demo/t/*"'),
        (["demo/t/in/c.txt"], ["demo/t"], '"demo/t/**"'),
        (["demo/u.txt"], ["demo/t/in", "demo/t", "demo/u"], '"demo/u.txt", "demo/t/**", "demo/u/*"'),
    ],
)
def test_undeclared_reads_have_a_line_to_paste(read: list[str], listed: list[str], inputs: str) -> None:
    (one,) = problems({"sources": [["a.cu", ""]], "read": read, "listed": listed})
    assert (one.code, one.where) == ("undeclared-input", TABLE)
    assert one.hint == f'in its table: inputs = ["demo/a.txt", {inputs}]'


def test_a_message_names_few_of_many_undeclared_files() -> None:
    read = [f"demo/{number}.txt" for number in range(116)]
    (one,) = problems({"sources": [["a.cu", ""]], "read": read, "listed": []})
    assert "demo/2.txt and 113 more, " in one.what
    assert "demo/115.txt" in (one.hint or "")


def test_the_top_folder_of_the_project_cannot_be_declared() -> None:
    top, other = problems({"sources": [["a.cu", ""]], "read": ["demo/b.txt"], "listed": ["."]})
    assert (top.code, top.where) == ("undeclared-input", TABLE)
    assert "inputs =" not in (top.hint or "inputs =")
    assert other.hint == 'in its table: inputs = ["demo/a.txt", "demo/b.txt"]'
    assert len(problems({"sources": [["a.cu", ""]], "read": [], "listed": ["."]})) == 1


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
            'in its table: environment = ["X", "LEVEL"]',
        ),
        (
            "KeyError: 'X'",
            None,
            [["demo/gen.py", 1, "sources", "os.environ['X']"]],
            "set the variable X for the build",
        ),
        ("KeyError: 'LEVEL'", None, [], None),
    ],
)
def test_usual_exceptions_have_a_hint(
    error: str, missing: str | None, frames: list[list[Any]], hint: str | None
) -> None:
    assert failure(error, *frames, missing=missing).hint == hint
