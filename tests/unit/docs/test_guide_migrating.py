"""The guide to moving from other tools: its kernel builds with its table, and each setting in it is valid."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.config import toml_positions
from hatch_cubin.config.config import TableLocation, parse_config
from tests.docs_pages import blocks, rows
from tests.helpers import REPOSITORY, TABLE, make_project

GUIDE = (REPOSITORY / "docs/guides/migrating.md").read_text("utf-8")
HEADER = f"[{'.'.join(TABLE)}]\n"
SETTINGS = [text for _old, new in rows(GUIDE) for text in re.findall(r"`([^`]* = [^`]*)`", new)]


@pytest.mark.nvrtc
def test_the_kernel_of_the_cupy_section_builds_with_its_table(tmp_path: Path) -> None:
    (source, *_extension), (table, *_others) = blocks(GUIDE, "c++"), blocks(GUIDE, "toml")
    settings = table.removeprefix(HEADER).replace("src/mypkg/kernels/scale.cu", "demo/scale.cu")
    settings = settings.replace('toolkit = "13.0"\n', "")  # the tests have the newest
    bundle = pipeline.build(make_project(tmp_path, {"scale.cu": source}, settings))
    kernels = json.loads(bundle["manifest.json"])["modules"]["scale"]["kernels"]
    assert sorted(kernels) == ["scale<double>", "scale<float>"]


def test_the_string_before_and_the_file_after_are_the_same_kernel() -> None:
    source, *_extension = blocks(GUIDE, "c++")
    before = "".join(blocks(GUIDE, "python")[0].split())
    assert "".join(source.split()) in before


@pytest.mark.parametrize("text", [text for text in SETTINGS if not text.startswith("mode")])
def test_each_setting_that_stands_for_one_of_another_tool_is_valid(text: str) -> None:
    place = TableLocation("pyproject.toml", text, TABLE)
    assert parse_config(toml_positions.loads(text), place, {}) != parse_config({}, place, {})
