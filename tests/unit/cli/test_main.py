"""The command line's frame: verbs, answers, exit codes."""

from __future__ import annotations

import argparse
import io
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

import pytest

from hatch_cubin import __version__
from hatch_cubin.cli import main
from hatch_cubin.cli.verb_base import Answer, open_project, size, table
from hatch_cubin.cli.versions import versions
from hatch_cubin.errors import ConfigError, Location, Problem
from tests.helpers import SAXPY, bundle, pyproject, refusal, run, write_tree

pytestmark = pytest.mark.counted

COMMAND = (sys.executable, "-m", "hatch_cubin")


def _answers(
    monkeypatch: pytest.MonkeyPatch, answer: Answer | BaseException, options: Sequence[str] = ("--json",)
) -> None:
    """Let the verb `plan`, which has the *options*, answer so."""

    def act(args: argparse.Namespace) -> Answer:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def arguments(parser: argparse.ArgumentParser) -> None:
        for option in options:
            parser.add_argument(option, action="store_true")

    verb = ModuleType("plan", "Say something.\n\nAt length.")
    verb.__dict__.update(arguments=arguments, run=act)
    monkeypatch.setitem(sys.modules, "hatch_cubin.cli.verbs.plan", verb)


def test_people_get_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _answers(monkeypatch, Answer({"n": 1}, ["one", "two"]))
    assert main.main(["plan"]) == 0
    assert tuple(capsys.readouterr()) == ("one\ntwo\n", "")


def test_names_that_others_chose_cannot_steer_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, Answer({}, ["a\x1b[2J"]))
    assert main.main(["plan"]) == 0
    assert capsys.readouterr().out == "a\\x1b[2J\n"


def test_a_stream_of_somebody_elses_making_is_used_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, Answer({}, ["one"]))
    monkeypatch.setattr(sys, "stdout", stream := io.StringIO())
    assert (main.main(["plan"]), stream.getvalue()) == (0, "one\n")


@pytest.mark.parametrize(("encoding", "shown"), [("ascii", b"\\xe4"), ("cp1252", b"\xe4")])
def test_what_a_stream_cannot_show_is_spelled(tmp_path: Path, encoding: str, shown: bytes) -> None:
    home = tmp_path / "ä中"
    done = subprocess.run(
        [*COMMAND, "cache", "dir"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": encoding, "HATCH_CUBIN_CACHE_DIR": str(home)},
        capture_output=True,
        check=False,
    )
    name = shown + b"\\u4e2d"
    assert (done.returncode, done.stdout.rstrip()) == (0, os.fsencode(f"{tmp_path}{os.sep}") + name)


def test_answers_have_no_colour_and_what_names_hold_gets_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    problem = Problem("\x1b[2J\nhatch-cubin: is gone", Location("k\x1b.cu"), "go on")
    for arguments, said in ((["plan"], "one\n"), (["plan", "--json"], None)):
        _answers(monkeypatch, Answer({}, ["one"], [problem]))
        with pytest.raises(SystemExit):
            main.main(arguments)
        out, err = capsys.readouterr()
        assert said in {out, None}
        assert "\x1b" not in out
        assert err == (
            "hatch-cubin: \x1b[1;31merror:\x1b[0m k\\x1b.cu: \\x1b[2J\\nhatch-cubin: is gone\n"
            "  \x1b[1;36mhint:\x1b[0m go on\n"
        )


@pytest.mark.parametrize("said", ["x", "x\n::error file=a::b\x1b[2J"], ids=["plain", "hostile"])
def test_an_unexpected_error_is_shown_with_its_traceback_escaped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], said: str
) -> None:
    _answers(monkeypatch, ValueError(said))
    try:
        code = main.main(["plan"])
    except SystemExit as ended:
        code = ended.code  # type: ignore[assignment]
    out, err = capsys.readouterr()
    assert (code, out) == (1, "")
    assert err.startswith("Traceback (most recent call last):\n")
    assert "\nValueError: x\n" in err
    assert "\x1b" not in err
    assert not [line for line in err.splitlines() if line.startswith("::")]
    assert "please report it" in err.splitlines()[-1]


def test_programs_get_facts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    _answers(monkeypatch, Answer({"n": 1}, ["one", "two"]))
    assert main.main(["plan", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "format": 1,
        "verb": "plan",
        "n": 1,
        "errors": [],
    }


def test_problems_come_beside_the_facts_and_end_with_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = Problem("is damaged", Location("k.cubin"), "build again")
    _answers(monkeypatch, Answer({"n": 1}, ["one"], [problem]))
    assert refusal(SystemExit, main.main, ["plan"]).code == 1
    error = "hatch-cubin: error: k.cubin: is damaged\n  hint: build again\n"
    assert tuple(capsys.readouterr()) == ("one\n", error)


def test_several_problems_are_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, ConfigError(Problem("one"), Problem("two")))
    with pytest.raises(SystemExit):
        main.main(["plan"])
    error = "hatch-cubin: error: one\nhatch-cubin: error: two\nhatch-cubin: 2 errors\n"
    assert tuple(capsys.readouterr()) == ("", error)


@pytest.mark.parametrize("is_raised", [False, True], ids=["found by a verb", "in a verb's way"])
def test_many_places_of_one_problem_are_listed_with_verbose(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_raised: bool
) -> None:
    problems = [Problem("is damaged", Location(f"{number}.cubin")) for number in range(10, 31)]
    answer = ConfigError(*problems) if is_raised else Answer({}, [], problems)
    _answers(monkeypatch, answer, ["--verbose"])
    refusal(SystemExit, main.main, ["plan"])
    listed = [f"    {number}.cubin" for number in range(11, 31)]
    shown = ["  20 more places:", *listed[:10], "    … and 10 more: --verbose lists them"]
    assert capsys.readouterr().err.splitlines()[1:-1] == shown
    refusal(SystemExit, main.main, ["plan", "--verbose"])
    assert capsys.readouterr().err.splitlines()[2:-1] == listed


LATER = Problem("is damaged", Location("k.cubin", 2), "build again", ("it has", "no kernel"))
EARLIER = Problem("is missing", Location("a.cubin"))
AS_JSON = [
    {"code": "", "what": "is missing", "path": "a.cubin", "line": None, "details": [], "hint": None},
    {
        "code": "",
        "what": "is damaged",
        "path": "k.cubin",
        "line": 2,
        "details": ["it has", "no kernel"],
        "hint": "build again",
    },
]


@pytest.mark.parametrize(
    ("answer", "facts"),
    [
        (Answer({"n": 1}, ["one"], [LATER, EARLIER, LATER]), {"n": 1}),
        (ConfigError(LATER, EARLIER), {}),
    ],
    ids=["found by a verb", "in a verb's way"],
)
def test_programs_get_what_is_wrong_too_and_people_can_read_it_beside(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    answer: Answer | BaseException,
    facts: dict[str, int],
) -> None:
    _answers(monkeypatch, answer)
    with pytest.raises(SystemExit, match=r"^1$"):
        main.main(["plan", "--json"])
    out, err = capsys.readouterr()
    assert json.loads(out) == {"format": 1, "verb": "plan", **facts, "errors": AS_JSON}
    assert err.splitlines()[0] == "hatch-cubin: error: a.cubin: is missing"
    assert err.splitlines()[-1] == "hatch-cubin: 2 errors"


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, KeyboardInterrupt())
    assert refusal(SystemExit, main.main, ["plan"]).code == 130
    assert (
        capsys.readouterr().err
        == "hatch-cubin: interrupted; the results that were finished are in the cache\n"
    )


def test_a_verbs_help_is_what_its_module_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, Answer({}))
    with pytest.raises(SystemExit):
        main.main(["plan", "--help"])
    assert "\nSay something.\n\nAt length.\n" in capsys.readouterr().out


def test_the_version_is_the_packages(tmp_path: Path) -> None:
    assert run(*COMMAND, "--version", cwd=tmp_path).stdout == f"hatch-cubin {__version__}\n"


@pytest.mark.parametrize("arguments", [("--version", "--verbose"), ("-v", "--version")], ids=" ".join)
def test_all_versions_are_what_a_bug_report_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]
) -> None:
    """The values of variables may be secrets, and stay hidden. CUDA_HOME is only a folder."""
    monkeypatch.setenv("HATCH_CUBIN_REMOTE_TOKEN", "secret")
    monkeypatch.setenv("CUDA_HOME", "/usr/local/cuda")
    assert main.main(arguments) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"hatch-cubin {__version__}"
    assert lines[1].startswith(f"Python {platform.python_version()} (CPython")
    assert {"HATCH_CUBIN_REMOTE_TOKEN is set", "CUDA_HOME=/usr/local/cuda"} <= {*lines}
    for package in ("hatchling", "cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"):
        assert f"{package} {version(package)}" in lines
    assert "secret" not in "".join(lines)


@pytest.mark.parametrize(("has_gil", "shown"), [(True, "(CPython)"), (False, "(CPython, without a GIL)")])
def test_a_python_without_a_gil_is_named(
    monkeypatch: pytest.MonkeyPatch, *, has_gil: bool, shown: str
) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: has_gil, raising=False)
    assert [*versions({})][1].endswith(shown)


@pytest.mark.linux
def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    inner, outer = os.pipe()
    os.close(inner)
    with os.fdopen(outer, "wb") as gone:
        done = subprocess.run(
            [*COMMAND, "--help"],
            stdout=gone,
            stderr=subprocess.PIPE,
            cwd=tmp_path,
            check=False,
        )
    assert (done.returncode, done.stderr) == (141, b"")


def shell(redirection: str, *arguments: str, cwd: Path) -> tuple[int, str, str]:
    """Run the command as a shell does that closes or redirects its streams; return how it ended."""
    script = f'exec "$@" {redirection}'
    done = run("sh", "-c", script, "sh", *COMMAND, *arguments, cwd=cwd, check=False, PYTHONUNBUFFERED="")
    return done.returncode, done.stdout, done.stderr


SAYS = (
    ["--help"],
    ["plan", "--help"],
    ["--version"],
    ["--print-completion", "bash"],
    ["cache", "dir"],
    ["cache", "stats", "--json"],
    ["cache", "clear"],
    ["inspect", "demo/_cubins"],
)


@pytest.mark.linux
@pytest.mark.parametrize("arguments", SAYS, ids=" ".join)
@pytest.mark.parametrize(
    ("redirection", "why"), [(">/dev/full", "No space left on device"), (">&-", "the stream is closed")]
)
def test_what_cannot_be_printed_is_one_line_and_ends_with_1(
    tmp_path: Path, arguments: list[str], redirection: str, why: str
) -> None:
    write_tree(tmp_path / "demo/_cubins", bundle())
    said = f"hatch-cubin: error: standard output cannot be written: {why} [output-not-writable]\n"
    assert shell(redirection, *arguments, cwd=tmp_path) == (1, "", said)
    assert shell(f"{redirection} 2>&-", *arguments, cwd=tmp_path) == (1, "", "")


def test_what_is_wrong_is_told_where_the_answer_cannot_be(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answers(monkeypatch, Answer({"n": 1}, ["one"], [Problem("is damaged", Location("k.cubin"))]))
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit):
        main.main(["plan"])
    assert capsys.readouterr().err == (
        "hatch-cubin: error: k.cubin: is damaged\n"
        "hatch-cubin: error: standard output cannot be written: the stream is closed [output-not-writable]\n"
        "hatch-cubin: 2 errors\n"
    )


def test_a_verb_with_nothing_to_print_needs_no_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    _answers(monkeypatch, Answer({"n": 1}))
    monkeypatch.setattr(sys, "stdout", None)
    assert main.main(["plan"]) == 0


@pytest.mark.linux
@pytest.mark.parametrize("redirection", ["2>&-", "2>/dev/full"])
def test_messages_that_nobody_can_hear_change_no_answer(tmp_path: Path, redirection: str) -> None:
    write_tree(tmp_path, {"pyproject.toml": pyproject(""), "demo/__init__.py": "", "demo/a.cu": SAXPY})
    assert shell(redirection, "cache", "dir", cwd=tmp_path) == shell("", "cache", "dir", cwd=tmp_path)
    assert shell(redirection, "plan", "--nix", cwd=tmp_path) == (2, "", "")
    assert shell(redirection, "plan", "--archs=sm_20", cwd=tmp_path) == (1, "", "")
    assert shell(redirection, "inspect", "nothing", cwd=tmp_path) == (1, "", "")


@pytest.mark.linux
def test_no_file_takes_the_place_of_closed_standard_error(tmp_path: Path) -> None:
    """What libraries complain to by its number, 2, must not be a file of the cache."""
    program = (
        "import os, sys\nfrom hatch_cubin.cli.main import main\nmain(['cache', 'dir'])\n"
        "print(os.path.samestat(os.fstat(2), os.stat(os.devnull)))"
    )
    script = 'exec "$@" 2>&-'
    said = run("sh", "-c", script, "sh", sys.executable, "-c", program, cwd=tmp_path).stdout
    assert said.splitlines()[-1] == "True"


# What verbs share


def test_the_arguments_stand_before_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(tmp_path, {"pyproject.toml": pyproject('archs = ["sm_80"]'), "demo/__init__.py": ""})
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    args = argparse.Namespace(project=tmp_path, verbose=False, archs=None)
    assert open_project(args).config.archs == ("sm_90",)
    args.archs = "sm_100,compute_100"
    args.jobs = "3"
    project = open_project(args)
    assert (project.config.archs, project.config.jobs) == (("sm_100", "compute_100"), 3)
    project.inform("this")
    project.warn("that")
    assert capsys.readouterr().err == "hatch-cubin: this\nhatch-cubin: warning: that\n"


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    assert table([("a", 1, "x"), ("long", 100, "")]) == ["a       1  x", "long  100"]
    assert table([]) == []


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (5 << 20, "5.0 MiB"), (3 << 40, "3072.0 GiB")],
)
def test_sizes_are_told_as_people_read_them(count: int, text: str) -> None:
    assert size(count) == text


@pytest.mark.linux
@pytest.mark.parametrize("verb", ["plan", "cache stats", "init"])
def test_a_current_folder_that_is_gone_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(SystemExit, match="1"):
        main.main(verb.split())
    assert capsys.readouterr().err.splitlines()[-2:] == [
        (
            "hatch-cubin: error: the current folder cannot be used: No such file or directory"
            " [current-folder-unusable]"
        ),
        "  hint: change to a project's folder, or name the folder: --project DIR",
    ]
