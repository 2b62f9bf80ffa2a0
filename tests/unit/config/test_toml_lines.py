"""Lines of the table as hints print them."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.config import toml_lines, toml_positions


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, "true"),
        (4, "4"),
        ("a", '"a"'),
        ('say "ä"\\', r'"say \"ä\"\\"'),
        (("a", 1), '["a", 1]'),
        ({"A": "…", "F(x)": "x"}, '{ A = "…", "F(x)" = "x" }'),
    ],
    ids=str,
)
def test_a_setting_is_written_as_toml_reads_it(value: Any, written: str) -> None:
    line = toml_lines.setting("some-key", value)
    assert line == f"some-key = {written}"
    read = toml_positions.loads(line)["some-key"]
    assert read == ([*value] if isinstance(value, tuple) else value)


def test_a_table_for_a_source_can_be_pasted_as_it_is_shown() -> None:
    shown = toml_lines.source_table("[[tool.hatch-cubin.source]]", "demo/k.cu", archs=["sm_90a"])
    assert shown == '\n    [[tool.hatch-cubin.source]]\n    path = "demo/k.cu"\n    archs = ["sm_90a"]'
    assert toml_positions.loads(shown) == {
        "tool": {"hatch-cubin": {"source": [{"path": "demo/k.cu", "archs": ["sm_90a"]}]}}
    }
