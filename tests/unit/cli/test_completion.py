"""Completion, by a real shell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hatch_cubin.cli import main
from tests.helpers import write_tree

ASK = """\
source "$1"
shift
COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE="$*"
"$(complete -p hatch-cubin | sed 's/.*-F \\([^ ]*\\) .*/\\1/')" hatch-cubin "${COMP_WORDS[COMP_CWORD]}" ""
printf '%s\\n' "${COMPREPLY[@]}" | sort
"""


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit, match=r"^0$"):
        main.main(["--print-completion", shell])
    return capsys.readouterr().out


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["pl"], ["plan"]),
        (["in"], ["init", "inspect"]),
        (["cache", ""], ["clear", "dir", "fsck", "gc", "key", "merge", "pull", "push", "stats"]),
        (["cache", "gc", "--ma"], ["--max-size"]),
        (["bundle", "--in"], ["--into"]),
        (["bundle", "--into", "a_"], ["a_folder"]),
        (["inspect", "a_"], ["a_file.whl", "a_folder"]),
        (["--print-completion", "z"], ["zsh"]),
    ],
)
def test_bash_completes_verbs_options_and_paths(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], offered: list[str]
) -> None:
    root = write_tree(tmp_path, {"script": script("bash", capsys), "a_file.whl": "", "a_folder/x": ""})
    done = subprocess.run(
        ["bash", "-c", ASK, "bash", str(root / "script"), "hatch-cubin", *words],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stderr, done.stdout.split()) == ("", offered)


def test_zsh_gets_a_script_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    text = script("zsh", capsys)
    assert text.startswith("#compdef hatch-cubin\n")
    assert [verb for verb in main.VERBS if f"\n    {verb}:'" not in text] == []


def test_without_shtab_the_extra_that_brings_it_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit, match=r"^1$"):
        main.main(["--print-completion", "bash"])
    assert capsys.readouterr().err == (
        "hatch-cubin: error: the package shtab, which writes the script, is not installed here "
        "[shtab-not-installed]\n"
        "  hint: pip install 'hatch-cubin[cli]'\n"
    )
