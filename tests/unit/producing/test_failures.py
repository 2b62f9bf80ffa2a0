"""Why a producer failed, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from hatch_cubin.config.config import ProducerRule
from hatch_cubin.errors import Location, Problem
from hatch_cubin.producing.failures import ProducerResult, problems_of
from hatch_cubin.producing.producer_inputs import Producer, ProducerInputs

GEN, TABLE = Location("demo/gen.py"), Location("pyproject.toml", 9)
PRODUCER = Producer(
    ProducerRule(path="demo/gen.py", inputs=("demo/a.txt",), environment=("X",)),
    ProducerInputs({}, {}, {}, {}),
    "demo.gen",
    [("demo", "demo")],
)
EXAMPLE = 'return {"axpy.cu": text}'


def problems(
    content: dict[str, Any], status: int | None = 0, output: str = "", stacks: str = ""
) -> list[Problem]:
    return [*problems_of(PRODUCER, ProducerResult(status, output, content, stacks), TABLE)]


def failure(error: str, *frames: list[Any], missing: str | None = None, **more: object) -> Problem:
    content = {"error": error, "frames": [*frames], "missing": missing, "causes": [], "hint": None, **more}
    (one,) = problems(content, 0, "printed\n\n")
    return one


def test_an_answer_with_sources_has_no_problem() -> None:
    assert problems({"sources": [["a.cu", "text"]], "read": [], "listed": []}) == []


def test_a_time_out_shows_the_output_and_a_line_to_paste() -> None:
    stacks = """\
Thread 0x1 (most recent call first):
  File "demo/x.py", line 4 in wait
  File "/usr/lib/python3/y.py", line 4 in call
  File "demo/gen.py", line 7 in sources
"""
    (one,) = problems({}, None, "line\n\nlast", stacks)
    assert (one.code, one.where) == ("producer-timed-out", TABLE)
    assert one.details == ("demo/gen.py:7: in sources", "demo/x.py:4: in wait", "line", "last")
    assert one.hint == "write in the producer table: seconds = 300"


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
    (one,) = problems({"sources": [["a.cu", ""]], "read": read, "listed": {key: [] for key in listed}})
    assert (one.code, one.where) == ("undeclared-input", TABLE)
    assert one.hint == f'write in the producer table: inputs = ["demo/a.txt", {inputs}]'


def test_undeclared_variables_have_a_line_to_paste() -> None:
    (one,) = problems({"sources": [["a.cu", ""]], "variables": ["X", "LEVEL", "N"]})
    assert (one.code, one.where) == ("undeclared-input", TABLE)
    assert one.hint == 'write in the producer table: environment = ["X", "LEVEL", "N"]'


def test_a_message_names_few_of_many_undeclared_files() -> None:
    read = [f"demo/{number}.txt" for number in range(116)]
    (one,) = problems({"sources": [["a.cu", ""]], "read": read, "listed": {}})
    assert "demo/2.txt and 113 more, " in one.what
    assert "demo/115.txt" in (one.hint or "")


def test_the_top_folder_of_the_project_cannot_be_declared() -> None:
    top, other = problems({"sources": [["a.cu", ""]], "read": ["demo/b.txt"], "listed": {".": []}})
    assert (top.code, top.where) == ("undeclared-input", TABLE)
    assert "inputs =" not in (top.hint or "inputs =")
    assert other.hint == 'write in the producer table: inputs = ["demo/a.txt", "demo/b.txt"]'
    assert len(problems({"sources": [["a.cu", ""]], "read": [], "listed": {".": []}})) == 1


def test_the_undeclared_file_of_a_listed_folder_is_named() -> None:
    listed = {"demo/t": ["demo/t/py.typed", "demo/t/x"]}
    (one,) = problems({"sources": [["a.cu", ""]], "read": [], "listed": listed})
    assert "demo/t/ (such as py.typed), " in one.what
    assert one.hint == 'write in the producer table: inputs = ["demo/a.txt", "demo/t/*"]'


def test_a_folder_without_files_cannot_be_declared() -> None:
    (one,) = problems({"sources": [["a.cu", ""]], "read": [], "listed": {"demo/no": None}})
    assert (one.code, one.where, "demo/no" in one.what) == ("undeclared-input", TABLE, True)
    assert (
        'put a file into the folder, and write in the producer table: inputs = ["demo/a.txt", "demo/no/*"]'
        in (one.hint or "")
    )


@pytest.mark.parametrize(
    ("content", "code", "hint"),
    [
        (
            {"absent": ["texts"], "classes": [], "value": None},
            "no-such-function",
            'write in the producer table: call = "texts"',
        ),
        (
            {"absent": ["a", "b"], "classes": [], "value": "dict"},
            "no-such-function",
            f"define a function that returns the texts: def sources(): {EXAMPLE}",
        ),
        (
            {"absent": [], "classes": ["G"], "value": None},
            "no-such-function",
            "define a function: def sources(): return G().sources()",
        ),
        (
            {"other": "NoneType"},
            "producer-returns-no-mapping",
            f"write {EXAMPLE!r}: a build does not use texts that the function writes or prints",
        ),
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


def test_an_exception_shows_its_other_lines_and_its_causes() -> None:
    causes = [["KeyError: 1", [["demo/x.py", 7, "f", ""]]], ["OSError", []]]
    one = failure("ValueError: bad\nmore", causes=causes)
    assert one.what == "raises ValueError: bad"
    assert one.details == ("more", "caused by KeyError: 1 (demo/x.py:7)", "caused by OSError", "printed")


def test_a_process_that_a_signal_ended_names_it() -> None:
    (one,) = problems({}, -11, "before")
    assert (one.code, "SIGSEGV" in one.what, one.details) == ("producer-crashed", True, ("before",))


def test_a_hint_of_the_process_is_shown() -> None:
    assert failure("ModuleNotFoundError", missing="helper", hint="write it so").hint == "write it so"


def format_errors(*texts: str) -> Iterator[str]:
    """Yield what Python's str.format says of the braces in each text."""
    for text in texts:
        with pytest.raises((KeyError, IndexError, ValueError)) as caught:
            text.format(T="float")
        yield f"{caught.type.__name__}: {caught.value}"


@pytest.mark.parametrize(
    ("error", "missing", "frames", "hint"),
    [
        (
            "ModuleNotFoundError",
            "jinja2.ext",
            [],
            (
                "an isolated build installs only the packages in 'requires': write this line in the producer "
                'table, with the name of the distribution that contains jinja2 instead of …: requires = ["…"]'
            ),
        ),
        ("ModuleNotFoundError", "demo.no", [], None),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'a.j2'",
            None,
            [],
            "the working folder is the project's folder: relative paths begin there",
        ),
        (
            "FileNotFoundError: [Errno 2] No such file or directory: 'nvdisasm'",
            None,
            [["demo/gen.py", 1, "sources", "subprocess.run(['nvdisasm'])"]],
            'to find programs by name, write in the producer table: environment = ["X", "PATH"]',
        ),
        (
            "KeyError: 'LEVEL'",
            None,
            [["demo/gen.py", 1, "sources", "os.environ['LEVEL']"]],
            'write in the producer table: environment = ["X", "LEVEL"]',
        ),
        (
            "KeyError: 'X'",
            None,
            [["demo/gen.py", 1, "sources", "os.environ['X']"]],
            "set the variable X for the build",
        ),
        *[
            (
                error,
                None,
                [["demo/gen.py", 1, "sources", "CODE.format(T='float')"]],
                "str.format reads the braces of C++ code too: write {{ and }} for them, or use str.replace",
            )
            for error in format_errors(
                "void k() { x[0] = 1; }",
                "{\n  x",
                "{p->x;}",
                "{1, 2}",
                "{T}{}",
                "int s[] = {",
                "}",
                "{0:9 x}",
            )
        ],
        ("KeyError: 'T'", None, [["demo/gen.py", 1, "sources", "CODE.format(N=1)"]], None),
        *[
            (
                f"KeyError: {key!r}",
                None,
                [["demo/gen.py", 1, "sources", "CODE.format(T=TYPES[dtype])"]],
                None,
            )
            for key in ("unsigned int", "torch.float32", "float*", float, ("float", 4), 128)
        ],
        ("KeyError: 'LEVEL'", None, [], None),
        (
            "TypeError: int() argument",
            None,
            [["demo/gen.py", 1, "sources", "int(os.getenv('LEVEL'))"]],
            "the function sees only variables that 'environment' in the [[producer]] table lists",
        ),
    ],
)
def test_usual_exceptions_have_a_hint(
    error: str, missing: str | None, frames: list[list[Any]], hint: str | None
) -> None:
    assert failure(error, *frames, missing=missing).hint == hint
