"""Keys of hatch-cubin that are in the table of another tool, where no build reads them."""

from __future__ import annotations

import pytest

from hatch_cubin.config.misplaced_keys import misplaced_keys
from hatch_cubin.config.toml_positions import TableLocation
from tests.helpers import Coded

pytestmark = pytest.mark.counted

OWN = ("tool", "hatch-cubin")
HOOK = ("tool", "hatch", "build", "hooks", "cubin")
HEADER, HOOK_HEADER = "[tool.hatch-cubin]\n", "[tool.hatch.build.hooks.cubin]\n"


def told(text: str, table: tuple[str, ...] = OWN, file: str = "pyproject.toml") -> list[object]:
    return [*misplaced_keys(TableLocation(file, text, table))]


@pytest.mark.parametrize(
    "line",
    [
        'archs = ["native", "sm_90"]',
        'archs = ["compute_100f"]',
        'cache-size = "1 GB"',
        'header-packages = ["nvidia-cutlass"]',
        "max-size = 40_000",
        'max-size = "40 KB"',
        "pack = true",
        "provenance = false",
        'remote-cache = "https://cache.example"',
        "ship-sources = true",
        'toolkit = "13.0"',
        'toolkit = "system"',
        'trusted-keys = ["ed25519:AAAA"]',
    ],
)
@pytest.mark.parametrize(
    "header", ["[tool.uv]", "[tool.hatch.build.targets.wheel]", "[[tool.mypy.overrides]]", "[tool]"]
)
def test_a_key_that_only_hatch_cubin_has_is_told_with_both_tables(line: str, header: str) -> None:
    key, home = line.partition(" ")[0], "[tool.hatch-cubin] (pyproject.toml:1)"
    assert told(f"{HEADER}{header}\nsources = []\n{line}\n") == [
        Coded("key-in-wrong-table", "pyproject.toml:4", repr(key), header, home)
    ]


def test_every_key_is_told_and_a_table_without_a_header_is_named_too() -> None:
    text = '[[tool.hatch-cubin.source]]\npath = "k.cu"\n[tool.uv]\npack = true\nmax-size = 1\n'
    below = "below a new header [tool.hatch-cubin]"
    assert told(text) == [
        Coded("key-in-wrong-table", "pyproject.toml:4", "'pack'", "[tool.uv]", below),
        Coded("key-in-wrong-table", "pyproject.toml:5", "'max-size'", "[tool.uv]", below),
    ]


def test_in_hatch_toml_all_other_tables_are_searched() -> None:
    text = "[build.hooks.cubin]\njobs = 1\n[envs.default]\npack = true\n"
    (warning,) = told(text, ("build", "hooks", "cubin"), "hatch.toml")
    assert warning == Coded("key-in-wrong-table", "hatch.toml:4", "[build.hooks.cubin]", "[envs.default]")


@pytest.mark.parametrize(
    "more",
    [
        '[tool.uv]\nsources = { a = { path = "a" } }\ncache-keys = []\nexclude = ["b"]\npackage = true\n',
        '[tool.cibuildwheel]\narchs = ["native", "x86_64"]\n',
        '[tool.cibuildwheel.linux]\narchs = "all"\n',
        '[tool.poetry.dependencies]\ntoolkit = "13.0"\n',
        '[tool.uv.sources]\npack = { git = "https://git.example/pack" }\n',
        '[tool.hatch.envs.default.scripts]\npack = "make pack"\n',
        '[tool.poe.tasks]\npack = "make pack"\n',
        '[tool.other]\nmax-size = true\ntoolkit = "gtk"\nremote-cache = "x"\n',
        "[project]\npack = true\n",
        "[tool.hatch.build.targets.sdist.hooks.cubin]\npack = true\n",
    ],
)
@pytest.mark.parametrize(("header", "table"), [(HEADER, OWN), (HOOK_HEADER, HOOK)])
def test_keys_of_other_tools_and_the_own_tables_are_not_told(
    header: str, table: tuple[str, ...], more: str
) -> None:
    assert told(f'{header}pack = true\narchs = ["sm_90"]\n{more}', table) == []


def test_without_a_text_there_is_nothing_to_tell() -> None:
    assert told("") == []
