"""Commands of hatch-cubin, run in this process."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest

from hatch_cubin.cli.main import main


class Ended(NamedTuple):
    """How a command ended, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        """The messages of a command that failed, each with its details and its hint."""
        assert self.code == 1
        return [text for text in _messages(self.err) if text.startswith("hatch-cubin: error: ")]

    @property
    def warnings(self) -> list[str]:
        return [text for text in _messages(self.err) if text.startswith("hatch-cubin: warning: ")]


Command = Callable[..., Ended]


def _messages(err: str) -> list[str]:
    return [text.rstrip("\n") for text in re.split(r"^(?=hatch-cubin: )", err, flags=re.MULTILINE)]


def runner(capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs a command, without what was printed before."""

    def run(*words: object) -> Ended:
        capsys.readouterr()
        try:
            code = main([*map(str, words)])
        except SystemExit as ended:
            code = int(str(ended.code))
        return Ended(code, *capsys.readouterr())

    return run
