"""Codes of problems: each is in the page of errors, with the message that the code has."""

from __future__ import annotations

import re

from tests import error_codes
from tests.helpers import REPOSITORY

CODED = (  # rooms in which every problem has a code
    "building",
    "bundle",
    "cache",
    "cli",
    "common",
    "compiling",
    "config",
    "cubin",
    "explaining",
    "frontends",
    "headers",
    "keys",
    "lockfile",
    "planning",
    "program_cache",
    "project",
    "remote",
    "toolkit",
    "wheels",
)


def test_a_code_is_a_few_words_in_lower_case() -> None:
    codes = {code for code, _message, _room in error_codes.raised()}
    assert [code for code in codes if not re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)+", code)] == []


def test_the_page_has_each_code_and_no_other() -> None:
    assert error_codes.listed().keys() == error_codes.expected().keys()


def test_the_page_has_each_message() -> None:
    listed = {code: {message for message, _advice in rows} for code, rows in error_codes.listed().items()}
    assert {
        code: texts - listed[code] for code, texts in error_codes.expected().items() if texts - listed[code]
    } == {}


def test_each_message_of_the_page_has_advice() -> None:
    rows = [(code, *row) for code, rows in error_codes.listed().items() for row in rows]
    assert [row for row in rows if not row[-1].strip()] == []


def test_every_problem_of_these_rooms_has_a_code() -> None:
    calls = {
        path.name
        for room in CODED
        for path in (REPOSITORY / "hatch_cubin" / room).rglob("*.py")
        if re.search(r"\bProblem\(", path.read_text("utf-8"))
    }
    assert calls == set()
