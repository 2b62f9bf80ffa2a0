"""The guide to misses: its sessions print what they show, and its sentences are those of the code."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from hatch_cubin.explaining import differences, miss_reasons
from tests.helpers import REPOSITORY, pyproject, run, write_tree

GUIDE = (REPOSITORY / "docs/guides/debugging-a-miss.md").read_text("utf-8")
FILES = {
    "demo/__init__.py": "",
    "demo/blur.cu": '#include "tile.cuh"\nextern "C" __global__ void blur(int *x) { *x *= SCALE * TILE; }\n',
    "demo/tile.cuh": '#include "detail/scale.cuh"\n',
    "demo/detail/scale.cuh": "#define SCALE 2\n",
}


@pytest.mark.nvrtc
@pytest.mark.linux
def test_the_sessions_of_the_guide_run_as_they_are_shown(tmp_path: Path) -> None:
    (table,) = re.findall(r"```toml\n\[tool.hatch.build.hooks.cubin\]\n(.*?)```", GUIDE, re.DOTALL)
    root = write_tree(tmp_path / "project", {"pyproject.toml": pyproject(table), **FILES})
    command = write_tree(
        tmp_path, {"bin/hatch-cubin": f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m hatch_cubin "$@"\n'}
    )
    (command / "bin/hatch-cubin").chmod(0o755)
    path = f"{command / 'bin'}{os.pathsep}{os.environ['PATH']}"
    shown = "".join(re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL))
    steps = re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", shown, re.MULTILINE)
    assert len(steps) == 9
    for line, printed in steps:
        assert (line, run("sh", "-c", line, cwd=root, PATH=path).stdout) == (line, printed)


SENTENCES = re.findall(r"^\| `(.*?)` \|", GUIDE, re.MULTILINE)


def test_the_guide_explains_what_is_not_plain() -> None:
    assert len(SENTENCES) == 12


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_sentence_of_the_guide_is_one_of_the_codes(sentence: str) -> None:
    said = [each for three in differences._SENTENCES.values() for each in three if each]
    said += [each for each in miss_reasons.REASONS.values() if each]
    patterns = [re.sub(r"\\{\w+\\}", ".+", re.escape(each)) for each in (*said, "headers from {name} differ")]
    plain = sentence.removesuffix(", and the compiler's own headers and options differ too")
    assert any(re.fullmatch(pattern, plain) for pattern in patterns)
