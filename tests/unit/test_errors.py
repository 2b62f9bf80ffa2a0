"""Errors: how problems are worded, ordered and shown."""

from __future__ import annotations

import pytest

from hatch_cubin import errors
from hatch_cubin.common.streams import plain
from hatch_cubin.errors import CompileError, ConfigError, HatchCubinError, Location, Problem, reported


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem("it broke"), "it broke"),
        (Problem("it broke", Location("k.cu")), "k.cu: it broke"),
        (Problem("it broke", Location("k.cu", 3)), "k.cu:3: it broke"),
        (Problem("it broke", hint="mend it"), "it broke\n  hint: mend it"),
        (
            Problem("it broke", Location("k.cu", 3), "mend it", ("here", "  ^")),
            "k.cu:3: it broke\n  here\n    ^\n  hint: mend it",
        ),
    ],
    ids=["what", "file", "line", "hint", "everything"],
)
def test_a_problem_says_what_where_and_what_next(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_a_printed_problem_ends_with_its_code() -> None:
    found = errors.problem("no-such-thing", "it broke", Location("k.cu", 3), "mend it")
    assert found == Problem("it broke", Location("k.cu", 3), "mend it", (), "no-such-thing")
    assert errors.render(ConfigError(found)) == [
        "hatch-cubin: error: k.cu:3: it broke [no-such-thing]\n  hint: mend it"
    ]


def test_names_that_others_chose_cannot_steer_a_terminal() -> None:
    problem = Problem("no \x1b[2J", Location("a\nhatch-cubin: b\x9b"), "\r\x7f", ("\tcode", "\0"))
    assert str(problem) == "a\\nhatch-cubin: b\\x9b: no \\x1b[2J\n  \tcode\n  \\x00\n  hint: \\r\\x7f"


def test_an_error_lists_each_problem_once_in_the_order_found() -> None:
    error = ConfigError(Problem("b"), Problem("a"), Problem("b"))
    assert error.problems == (Problem("b"), Problem("a"))
    assert str(error) == "b\na"


@pytest.mark.parametrize(
    "kind", ["ConfigError", "SourceError", "ToolchainError", "CompileError", "BundleError", "MissError"]
)
def test_every_error_has_one_root(kind: str) -> None:
    assert issubclass(getattr(errors, kind), HatchCubinError)


HINT = "include-dirs = ['inc']"


def missing(number: int, hint: str | None = HINT, what: str = "cannot open x.h") -> Problem:
    return Problem(what, Location(f"k{number:02}.cu", 1), hint, ("#include",))


def test_problems_with_one_cause_are_one_message_with_their_places() -> None:
    other = Problem("unlike them", Location("k05.cu", 9))
    error = CompileError(*(missing(number) for number in range(14)), other)
    listed = [f"    k{number:02}.cu:1" for number in range(1, 11)]
    head = ["hatch-cubin: error: k00.cu:1: cannot open x.h", "  #include", "  13 more places:"]
    left = "    … and 3 more: 'hatch-cubin bake --verbose' lists them"
    assert errors.render(error) == [
        "\n".join([*head, *listed, left, f"  hint: {HINT}"]),
        "hatch-cubin: error: k05.cu:9: unlike them",
        "hatch-cubin: 15 errors",
    ]
    whole = errors.render(error, verbose=True)[0].splitlines()
    assert whole[3:-1] == [f"    k{number:02}.cu:1" for number in range(1, 14)]


def test_different_problems_that_one_change_solves_are_named() -> None:
    error = CompileError(*(missing(number, what=f"cannot open {number}.h") for number in range(3)))
    assert errors.render(error)[0].splitlines()[2:] == [
        "  2 more errors that the same change solves:",
        "    k01.cu:1: cannot open 1.h",
        "    k02.cu:1: cannot open 2.h",
        f"  hint: {HINT}",
    ]


def test_problems_without_a_place_or_a_hint_are_grouped_too() -> None:
    error = CompileError(*(Problem("no", None, None, (str(number),)) for number in range(3)))
    assert errors.render(error)[0].splitlines()[-2:] == ["    no", "    no"]


def test_a_place_with_several_problems_of_one_cause_is_listed_once() -> None:
    found = [missing(number)._replace(details=(f"{case}",)) for number in (1, 2) for case in range(3)]
    assert errors.render(CompileError(*found)) == [
        f"hatch-cubin: error: k01.cu:1: cannot open x.h\n  0\n  1 more place:\n    k02.cu:1\n  hint: {HINT}",
        "hatch-cubin: 6 errors",
    ]
    assert errors.render(CompileError(*found[:3]))[0] == str(found[0]).join(["hatch-cubin: error: ", ""])


def test_two_problems_stay_two_messages() -> None:
    assert len(errors.render(CompileError(missing(1), missing(2)))) == 3


def test_messages_come_by_place_and_those_without_one_last() -> None:
    error = ConfigError(
        Problem("nowhere"),
        Problem("late", Location("b.toml", 10)),
        Problem("early", Location("b.toml", 9)),
        Problem("whole file", Location("b.toml")),
        Problem("first file", Location("a.cu", 99), "mend it"),
    )
    assert errors.render(error, ", nothing was built") == [
        "hatch-cubin: error: a.cu:99: first file\n  hint: mend it",
        "hatch-cubin: error: b.toml:9: early",
        "hatch-cubin: error: b.toml:10: late",
        "hatch-cubin: error: b.toml: whole file",
        "hatch-cubin: error: nowhere",
        "hatch-cubin: 5 errors, nothing was built",
    ]


def test_one_error_is_counted_in_the_singular() -> None:
    error = CompileError(Problem("x"))
    assert errors.render(error, ", nothing was built")[-1] == "hatch-cubin: 1 error, nothing was built"


def test_without_an_outcome_one_error_needs_no_count() -> None:
    assert errors.render(CompileError(Problem("x"))) == ["hatch-cubin: error: x"]
    assert errors.render(CompileError(Problem("x"), Problem("y")))[-1] == "hatch-cubin: 2 errors"


def test_a_users_problem_is_shown_and_ends_with_code_1() -> None:
    shown: list[str] = []
    with pytest.raises(SystemExit) as caught, reported(shown.append, ", nothing was built"):
        raise ConfigError(Problem("x"))
    assert caught.value.code == 1
    assert caught.value.__suppress_context__
    assert shown == ["hatch-cubin: error: x", "hatch-cubin: 1 error, nothing was built"]


@pytest.mark.parametrize("value", ["", "0"])
def test_no_traceback_is_asked_for_by_an_empty_variable_or_0(
    monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_TRACEBACK", value)
    with pytest.raises(SystemExit), reported(lambda _message: None):
        raise ConfigError(Problem("x"))


def test_a_traceback_is_there_for_the_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_TRACEBACK", "1")
    shown: list[str] = []
    with pytest.raises(ConfigError, match="x"), reported(shown.append):
        raise ConfigError(Problem("x"))
    assert shown == []


HOSTILE = "x\n::error file=a::b\n##[error]c\x1b[2J"


@pytest.mark.parametrize(
    "raised", [ValueError(HOSTILE), ConfigError(Problem("x"))], ids=["a bug", "a known error with its cause"]
)
def test_a_traceback_cannot_steer_a_terminal_or_a_ci_service(
    monkeypatch: pytest.MonkeyPatch, raised: Exception
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_TRACEBACK", "1")
    shown: list[str] = []
    with pytest.raises(SystemExit, match=r"^1$") as caught, reported(shown.append):
        raise raised from OSError(HOSTILE)
    (text,) = shown
    assert text == plain(text)
    assert "Traceback" in text
    assert "OSError: x\n\\::error file=a" in text
    assert ("please report" in text) == isinstance(raised, ValueError)
    assert caught.value.__suppress_context__


def test_an_unexpected_error_with_plain_text_is_left_to_the_front_end() -> None:
    shown: list[str] = []
    with pytest.raises(ValueError, match="ä"), reported(shown.append):
        raise ValueError("ä")
    assert shown == []


@pytest.mark.parametrize(("raised", "code"), [(ConfigError(Problem("x")), 1), (KeyboardInterrupt(), 130)])
def test_a_message_that_cannot_be_shown_changes_no_exit_code(raised: BaseException, code: int) -> None:
    def show(_message: str) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(SystemExit, match=rf"^{code}$"), reported(show):
        raise raised


def test_a_bug_is_not_taken_for_a_users_problem() -> None:
    with pytest.raises(ZeroDivisionError), reported(lambda _message: None):
        raise ZeroDivisionError


def test_nothing_is_shown_where_nothing_is_wrong() -> None:
    shown: list[str] = []
    with reported(shown.append):
        pass
    assert shown == []
