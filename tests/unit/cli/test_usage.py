"""How the command line is used: its help, and what is said of arguments that are wrong."""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex

import pytest

from hatch_cubin.cli import main
from hatch_cubin.config.value_checks import _SOME_ARCHS
from tests.helpers import refusal

SHARD = "argument --shard: must be the number of a job and the number of all jobs"


@pytest.mark.parametrize("arguments", [[], ["nix"], ["plan", "--nix"], ["plan", "--archs", "sm_9x"]])
def test_wrong_usage_ends_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(SystemExit, main.main, arguments).code == 2
    assert capsys.readouterr().err.startswith("usage: hatch-cubin")


def test_an_option_that_newer_pythons_cut_out_of_an_argument_is_no_crash() -> None:
    """From 3.12 on, argparse says of `-vz` that it does not know `-z`."""
    wrong = main._UsageError(argparse.ArgumentParser(), "unrecognized arguments: -z")
    wrong.explain(["plan"], ["plan", "-vz"])
    assert wrong.what.startswith("unrecognized arguments: -z")


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--archs=sm_9x", f"argument --archs: 'sm_9x' is not an arch; write {_SOME_ARCHS}"),
        ("--archs=,", "argument --archs: must name at least one arch"),
        ("--jobs=0", "argument --jobs: must be a whole number from 1 to 1024, not 0"),
        ("--jobs=many", "argument --jobs: must be a whole number from 1 to 1024, not 'many'"),
        ("--shard=9/8", f"{SHARD}, from 1/8 to 8/8, not '9/8'"),
        ("--shard=0/8", f"{SHARD}, from 1/8 to 8/8, not '0/8'"),
        ("--shard=2", f"{SHARD}, such as 2/8, not '2'"),
        ("--shard=2/", f"{SHARD}, such as 2/8, not '2/'"),
        ("--shard=²/8", f"{SHARD}, such as 2/8, not '²/8'"),
        ("--shard=1/1000000", f"{SHARD}, such as 2/8, not '1/1000000'"),
    ],
)
def test_a_wrong_value_names_its_option(
    option: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main.main(["bake", option])
    assert capsys.readouterr().err.endswith(f"hatch-cubin bake: error: {complaint}\n")


def test_help_lists_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(SystemExit, main.main, ["--help"]).code == 0
    said = " ".join(capsys.readouterr().out.split())
    assert [verb for verb, summary in main.VERBS.items() if f"{verb} {summary}" in said] == list(main.VERBS)


@pytest.mark.parametrize("columns", ["", "60", "120"])
def test_help_is_as_wide_as_argparse_would_have_it(columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    parser = main.make_parser([])
    said = parser.format_help()
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    assert said == parser.format_help()


def test_a_terminal_that_has_no_size_is_as_wide_as_most(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with monkeypatch.context() as patch:  # pytest asks for the size too
        patch.setattr(os, "get_terminal_size", lambda: os.terminal_size((0, 0)))
        said = main.make_parser([]).format_help()
    monkeypatch.setenv("COLUMNS", "80")
    assert said == main.make_parser([]).format_help()


def test_a_verb_behind_the_question_for_help_hides_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["--help"], ["--help", "plan"]):
        with pytest.raises(SystemExit):
            main.main(arguments)
    said = capsys.readouterr().out
    assert said[: len(said) // 2] == said[len(said) // 2 :]


def test_without_a_verb_help_is_wrong_usage_and_says_what_to_begin_with(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main([])
    out, err = capsys.readouterr()
    with pytest.raises(SystemExit, match=r"^0$"):
        main.main(["--help"])
    assert (out, err) == ("", capsys.readouterr().out)
    verbs = re.findall(r"^    (\w+)  ", err, re.MULTILINE)
    assert (verbs, verbs[0]) == ([*main.VERBS], "init")


@pytest.mark.parametrize(
    ("arguments", "guess"),
    [
        (["inspekt", "x.whl"], "; did you mean 'inspect'?"),
        (["verfy", "x.whl", "--json"], "; did you mean 'verify'?"),
        (["build"], "; did you mean 'bake'? 'bake' fills the cache, and 'python -m build' makes the wheel"),
        (["freeze"], "; did you mean 'lock'?"),
        (["clean"], "; did you mean 'cache clear'?"),
        (["help"], "; did you mean '--help'?"),
        (["version"], "; did you mean '--version'?"),
        (["xyzzy"], ""),
        (["list"], "; did you mean 'plan'?"),
        (["cache", "claer"], "; did you mean 'clear'?"),
        (["cache", "clean"], "; did you mean 'clear'?"),
        (["cache", "list"], "; did you mean 'stats'?"),
        (["cache", "prune"], "; did you mean 'gc'?"),
        (["cache", "build"], ""),
    ],
    ids=" ".join,
)
def test_a_verb_that_there_is_not_is_guessed(
    capsys: pytest.CaptureFixture[str], arguments: list[str], guess: str
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(arguments)
    verbs = "init, plan, bake, lock, explain, inspect, unpack, split, verify, check, diff, cache, keygen"
    known = f"{verbs} or bundle"
    command, word = "hatch-cubin", arguments[0]
    kind = "VERB"
    if word == "cache":
        known, kind = "dir, stats, fsck, merge, pull, push, gc, clear or key", "ACTION"
        command, word = "hatch-cubin cache", arguments[1]
    said = capsys.readouterr().err.splitlines()[-1]
    assert said == f"{command}: error: argument {kind}: {word!r} is not {known}{guess}"


@pytest.mark.parametrize(
    ("arguments", "command"),
    [
        (["--project", "plan", "plan"], "plan --project plan"),
        (["--project=x", "plan"], "plan --project=x"),
        (["-v", "plan"], "plan -v"),
        (["--json", "plan"], "plan --json"),
        (["-j", "8", "bake"], "bake --jobs 8"),
        (["-C=my project", "plan", "-v"], "plan --project 'my project' -v"),
    ],
)
def test_an_option_before_the_verb_is_told_where_it_stands(
    capsys: pytest.CaptureFixture[str], arguments: list[str], command: str
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(arguments)
    option = arguments[0]
    said = f"hatch-cubin: error: {option} must come after the verb: hatch-cubin {command}"
    assert capsys.readouterr().err.splitlines()[-1] == said


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["bake", "src/k.cu"], "--only GLOB chooses sources, and --project DIR chooses a project"),
        (["plan", "src/k.cu"], "src/k.cu; --project DIR chooses a project"),
        (["plan", "--nix"], "unrecognized arguments: --nix"),
    ],
)
def test_a_bare_path_is_told_the_option_for_it(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(arguments)
    assert capsys.readouterr().err.endswith(f"{says}\n")


@pytest.mark.parametrize(
    ("arguments", "verb", "what"),
    [
        (["plan", "--nix", "--json"], "plan", "unrecognized arguments: --nix"),
        (["cache", "gc", "--json"], "cache", "gc needs at least one of --max-size, "),
        (["plam", "--json"], None, "argument VERB: 'plam' is not "),
    ],
)
def test_programs_get_wrong_usage_too(
    capsys: pytest.CaptureFixture[str], arguments: list[str], verb: str | None, what: str
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(arguments)
    out, err = capsys.readouterr()
    facts = json.loads(out)
    assert (facts["verb"], [*facts]) == (verb, ["format", "verb", "errors"])
    (error,) = facts["errors"]
    assert error["what"].startswith(what)
    assert err.endswith(f"error: {error['what']}\n")


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ("bake --archs sm_80 sm_90", "write several values as one list: --archs sm_80,sm_90"),
        ("plan --archs=sm_80 sm_90 sm_100", "write several values as one list: --archs sm_80,sm_90,sm_100"),
        ("plan --archs sm_80, sm_90,", "write several values as one list: --archs sm_80,sm_90"),
        ("bake --archs sm_80 nix", "--archs takes one value, and --only GLOB chooses sources"),
        ("check w.whl --gpu 9.0 8.0", "write several values as one list: --gpu 9.0,8.0"),
        ("check w.whl --except a 'b c'", "write the option before each value: --except a --except 'b c'"),
        ("bake --only a b", "write the option before each value: --only a --only b"),
        ("diff a b --fail-on size registers", "write several values as one list: --fail-on size,registers"),
        ("diff --fail-on size registers a b", "write several values as one list: --fail-on size,registers"),
        ("explain k --gpu 8.0 9.0", "--gpu takes one value, and 'explain' takes one SOURCE"),
        ("explain k l", "'explain' takes one SOURCE"),
        ("plan --project a b", "--project takes one value"),
        ("cache gc 8.0", "--project DIR chooses a project"),
        ("bake -j4", "did you mean '--jobs 4'?"),
        ("plan --toolkit 13.0", "'toolkit' is a key of hatch-cubin in pyproject.toml"),
        ("bake -j 4", "did you mean '--jobs 4'?"),
        ("bake -j", "did you mean '--jobs'?"),
        ("plan -p=somewhere", "did you mean '--project somewhere'?"),
        ("plan --directory=somewhere", "did you mean '--project somewhere'?"),
        ("inspect --output page.html w.whl", "did you mean '--html'?"),
        ("lock --chek", "did you mean '--check'?"),
        ("cache gc 5GB", "did you mean '--max-size 5GB'?"),
        ("cache gc --older-than 7", "did you mean '--unused-for 7d'?"),
        ("cache gc --older-than '7 days'", "did you mean '--unused-for 7d'?"),
        ("cache gc --max-age=2weeks", "did you mean '--unused-for 2w'?"),
        ("diff a.whl b.whl c.whl", "'diff' compares two wheels"),
        ("bake --dry-run", "'plan' compiles nothing"),
        ("bake --force", "after 'hatch-cubin cache clear', a build compiles everything"),
        ("plan --gpu sm_90", "did you mean '--archs sm_90'?"),
        ("keygen --out k.txt", "give only the name of the file: hatch-cubin keygen FILE"),
        ("plan --jobs 2", "--jobs is an option of 'bake'"),
        ("plan -j 2", "--jobs is an option of 'bake'"),
        ("bake --tabel", "--table is an option of 'check'"),
        ("bake -o dist", "--into is an option of 'unpack', 'split', 'bundle'"),
        ("plan .", "--project DIR chooses a project"),
        ("bake k.cu", "--only GLOB chooses sources, and --project DIR chooses a project"),
        ("bake sm_90 --archs sm_90", "--only GLOB chooses sources, and --project DIR chooses a project"),
    ],
)
def test_an_argument_that_a_verb_does_not_know_is_told_with_what_it_may_mean(
    arguments: str, meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(shlex.split(arguments))
    assert capsys.readouterr().err.splitlines()[-1].partition("; ")[2] == meant


@pytest.mark.parametrize("arguments", ["--gpu 9.0 8.0", "--gpu 9.0, 8.0 w.whl", "w.whl --gpu=9.0 8.0"])
def test_a_second_gpu_is_not_taken_for_a_wheel(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(["check", *arguments.split()])
    assert capsys.readouterr().err.endswith("; write several values as one list: --gpu 9.0,8.0\n")


@pytest.mark.parametrize("argument", ["--no-such-thing", "-z", "-q"])
def test_an_option_that_no_verb_has_is_told_as_it_is(
    argument: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(["plan", argument])
    assert capsys.readouterr().err.endswith(f"error: unrecognized arguments: {argument}\n")


def test_an_argument_with_a_blank_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(["plan", "my project"])
    assert capsys.readouterr().err.endswith("my project; --project DIR chooses a project\n")


def test_a_choice_of_one_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match=r"^2$"):
        main.main(["split", "w.whl", "--by", "arches", "--into", "out"])
    assert capsys.readouterr().err.endswith("'arches' is not arch; did you mean 'arch'?\n")
