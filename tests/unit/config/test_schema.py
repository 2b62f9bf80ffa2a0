"""The JSON schemas of the table: what the package ships is made from what the parser reads, and is of use."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import runpy
import shlex
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.config import known_names, reader, schema, toml_positions
from hatch_cubin.config.config import TableLocation, parse_config
from hatch_cubin.errors import ConfigError
from tests import schemas
from tests.docs_pages import blocks, code, page
from tests.helpers import REPOSITORY, pyproject, run, write_tree
from tests.unit.docs.test_reference import KEYS

TOOL = "tests/unit/config/test_schema.py needs validate-pyproject, which this environment has not"


@functools.cache
def validator(*, whole: bool) -> Any:
    """Return what validate-pyproject itself would make of a schema."""
    if importlib.util.find_spec("fastjsonschema") is None:
        pytest.skip(TOOL)
    import fastjsonschema

    return fastjsonschema.compile(schema.of_pyproject() if whole else schema.of_tool("hatch-cubin"))


def accepts(value: Any, *, whole: bool = False) -> bool:
    try:
        validator(whole=whole)(value)
    except ValueError:
        return False
    return True


def parses(table: dict[str, Any], *, wraps: bool = False) -> bool:
    try:
        parse_config(table, TableLocation("pyproject.toml", "", (), wraps=wraps), {})
    except ConfigError:
        return False
    return True


def test_the_schema_that_ships_is_the_one_that_is_made() -> None:
    """Else `hatch run schemas` writes it."""
    assert schemas.OWN.read_text("utf-8") == schema.written(schemas.own_table())


def test_every_key_is_in_the_schema_with_what_it_means() -> None:
    own = schemas.own_table()["properties"]
    keys = {**reader._CHECKS, **reader._WRAPPER_CHECKS}
    assert own.keys() == {*keys, *known_names.HATCHLING_KEYS}
    tables = ("source", "module", "producer")
    source, module, producer = (own[key]["items"]["properties"] for key in tables)
    assert producer.keys() == reader._PRODUCER_CHECKS.keys()
    assert source.keys() == reader._SOURCE_CHECKS.keys()
    assert module.keys() == reader._MODULE_CHECKS.keys()
    below = [*source.values(), *module.values(), *producer.values()]
    told = [each["description"] for each in (*(own[key] for key in keys), *below)]
    assert all(told)
    assert not any("](" in text for text in told)


@pytest.mark.parametrize("key", KEYS)
def test_the_examples_of_the_reference_are_taken(key: str) -> None:
    value = toml_positions.loads(f"v = {code(KEYS[key][2])[0]}")["v"]
    outer, _dot, inner = key.rpartition(".")
    needed: dict[str, dict[str, Any]] = {
        "source": {"path": "k.cu"},
        "module": {"name": "m", "sources": ["k.cu"], "mode": "lto"},
        "producer": {"path": "gen.py"},
    }
    table = {outer: [{**needed[outer], inner: value}]} if outer else {key: value}
    assert accepts(table)


NOT_VALUES: list[Any] = [[], {}, [1.5], [[]], "0-3", 3]
WRONG_PRODUCTS: list[dict[str, Any]] = [
    {},
    {"N": [1]},
    {"kernel": "f<N>"},
    *({"kernel": f"f<{text}>", "N": [1]} for text in ("{}", "{{N}}", "{N", "{N} {1}")),
    *({"kernel": "f<{N}>", "N": value} for value in NOT_VALUES),
]
# By key: what both take, then what both refuse.
BOTH: dict[str, tuple[Iterable[Any], Iterable[Any]]] = {
    "archs": (
        [
            ["sm_90"],
            ["sm_90a", "compute_90", "sm_100f"],
            ["90", "90-real", "90a-virtual"],
            ["9.0", "8.6+PTX"],
            ["all"],
            ["all-major", "native"],
        ],
        [[], ["sm90"], ["sm_9"], ["H100"], ["90 "], ["9.0-real"], "sm_90", [90], [["sm_90"]], None],
    ),
    "toolkit": (["13", "13.0", "12.9", "13.0.2", "system"], ["11.8", "latest", "13.", "", 13.0, ["13"]]),
    "sources": (
        [["**/*.cu"], [], ["a/./b.cu", "a..b.cu", "[a-c]*.cu"]],
        [["/x.cu"], ["../x.cu"], ["a/../x.cu"], ["a/.."], ["~/x.cu"], ["C:/x.cu"], ["a\\b.cu"], [""], [1]],
    ),
    "exclude": ([[], ["draft_*.cu"]], [["../x"], "x"]),
    "package": (["a", "a.b_c", "größe.x"], ["a-b", "a..b", ".a", "a.", "1a", "", 1]),
    "include-dirs": ([["inc"], ["."]], [["/usr/include"], [".."]]),
    "source-roots": (
        [{"csrc": "../csrc"}, {"a.b-c": "../../x/y"}, {}],
        [{"csrc": "csrc"}, {"csrc": "/csrc"}, {"a/b": "../c"}, {".a": "../c"}, {"c": ".."}, {"c": 1}],
    ),
    "header-packages": (
        [["nvidia-cutlass"], ["nvidia-cutlass==4.*"], ["a >=1, <2"]],
        [["-r x"], ["a @ file:///x"], ["a; python_version"], [""], [1]],
    ),
    "define": (
        [{"N": 4, "DEBUG": True, "OFF": False, "S": "float", "F(x)": "x", "H": 0.5}, {}],
        [{"1N": 1}, {"a-b": 1}, {"T": 1}, {"N": [1]}, {"N": {}}, []],
    ),
    "options": (
        [
            {"std": "c++20", "use-fast-math": True, "max-register-count": 64},
            {"diag_suppress": [1, 2]},
            {"diag-suppress": 3},
            {"ptxas-options": "-w"},
            {"ptxas_options": ["-w"]},
            {"pre-include": ["a.h"]},
            {},
        ],
        [
            {"lineinfo": 1},
            {"max_register_count": 256},
            {"std": ""},
            {"arch": "sm_90"},
            {"nothing": 1},
            {"ptxas_options": ["-v"]},
            {"pre_include": "/x.h"},
            {"diag_warn": ["1"]},
            [],
        ],
    ),
    "jobs": ([1, 1024], [0, 1025, "2", True, 1.5, []]),
    "cache-dir": (["cache", ".cache/x", "a\\b"], ["/cache", "../cache", "a\\..\\b", "C:x", "", 1]),
    "cache-size": (["2 GiB", "1.5MB", "100B", "1KiB"], ["100", "2 gib", "-1", "GiB", "", 5]),
    "max-size": (["100 MB"], ["100 XB"]),
    "trusted-keys": ([["ed25519:lCExUc0L38p9KroVWdu0VjQfYxeh5z_iIG4uwYPHdszwwEe_"]], [[], ["x"], "x"]),
    "remote-cache": (
        ["https://c.example.org/x", "s3://bucket/x"],
        ["ftp://x", "https://u:p@x/y", "https://x/?q", "https://x/#f", "x", 1],
    ),
    "pack": ([True], [1, "true"]),
    "ship-sources": ([False], ["no"]),
    "provenance": ([True], [None]),
    "source": (
        [
            [],
            [{"path": "k.cu"}],
            [
                {
                    "path": "*.cu",
                    "name": "a",
                    "archs": ["90"],
                    "define": {"N": 1},
                    "options": {"lineinfo": True},
                    "include-dirs": ["x"],
                    "instantiate": ["f<1>", {"kernel": "f<{N}, {B}>", "N": "0..31", "B": ["x", 1, True]}],
                    "variants": {"BLOCK": [128, 256], "S": ["float", "half"], "D": [True, False]},
                }
            ],
        ],
        [
            [{}],
            [{"name": "a"}],
            [{"path": "k.cu", "jobs": 1}],
            [{"path": "k.cu", "name": "a/b"}],
            [{"path": "k.cu", "instantiate": [" "]}],
            *([{"path": "k.cu", "instantiate": [product]}] for product in WRONG_PRODUCTS),
            [{"path": "k.cu", "variants": {}}],
            [{"path": "k.cu", "variants": {"N": []}}],
            [{"path": "k.cu", "variants": {"N": 1}}],
            {"path": "k.cu"},
        ],
    ),
    "module": (
        [
            [],
            [{"name": "a", "sources": ["*.cu"], "mode": "lto"}],
            [{"name": "a", "sources": ["b.cu"], "mode": "rdc", "link": ["a.ptx", "some-wheel:**/*.a"]}],
        ],
        [
            [{"name": "a", "sources": ["b.cu"]}],
            [{"name": "a", "sources": [], "mode": "lto"}],
            [{"name": "a", "sources": ["b.cu"], "mode": "ltoir"}],
            [{"name": "a", "sources": ["b.cu"], "mode": "lto", "link": ["/usr/lib/a.a"]}],
            [{"name": "a", "sources": ["b.cu"], "mode": "lto", "link": ["wheel:../a.a"]}],
            [{"name": "a", "sources": ["b.cu"], "mode": "lto", "path": "b.cu"}],
        ],
    ),
    "recorded": ([["recorded"], [], ["tests/cubins", "a/b"]], ["recorded", [3], None]),
    "producer": (
        [
            [],
            [{"path": "gen.py"}],
            [
                {
                    "path": "src/demo/gen.py",
                    "call": "texts",
                    "produces": ["cu", "ptx"],
                    "inputs": ["a/*.j2"],
                    "environment": ["LEVEL"],
                    "requires": ["jinja2 ==3.*", "a[b]", "c [d, e] >=1, <2"],
                    "seconds": 1,
                }
            ],
        ],
        [
            [{}],
            [{"path": "gen.cu"}],
            [{"path": "../gen.py"}],
            [{"path": "*.py"}],
            [{"path": "demo/__init__.py"}],
            [{"path": "gen.py", "call": "a.b"}],
            [{"path": "gen.py", "produces": ["cubin"]}],
            [{"path": "gen.py", "inputs": ["/x"]}],
            [{"path": "gen.py", "environment": ["A=1"]}],
            [{"path": "gen.py", "requires": ["a @ file:///x"]}],
            [{"path": "gen.py", "seconds": 0}],
            [{"path": "gen.py", "seconds": 1.5}],
            {"path": "gen.py"},
        ],
    ),
    "nothing": ([], [1]),
}


@pytest.mark.parametrize(
    ("key", "value", "taken"),
    [
        (key, value, taken)
        for key, both in BOTH.items()
        for taken in (True, False)
        for value in both[not taken]
    ],
    ids=repr,
)
def test_the_parser_and_the_schema_agree(key: str, value: Any, taken: bool) -> None:  # noqa: FBT001
    assert parses({key: value}) is taken
    assert accepts({key: value}) is taken


def test_every_key_is_among_what_they_agree_on() -> None:
    assert BOTH.keys() >= reader._CHECKS.keys()


@pytest.mark.parametrize(
    ("backend", "taken"), [("mesonpy", True), ("a.b:c", True), ("hatch_cubin.backend", False), ("a b", False)]
)
def test_they_agree_on_the_backend_inside(backend: str, taken: bool) -> None:  # noqa: FBT001
    table = {"backend": backend, "backend-path": ["."], "package-dir": "python"}
    assert (parses(table, wraps=True), accepts(table)) == (taken, taken)


@pytest.mark.parametrize(
    "table",
    [
        {"archs": ["sm_75a"]},  # no such arch
        {"cache-size": "0 GiB"},
        {"define": {"F(x)": "1", "N": "a\nb"}},
        {"options": {"use-fast-math": True, "use_fast_math": True}},
        {"source": [{"path": "k.cu", "variants": {"N": [1, "1"]}}]},
        {"source-roots": {"A": "../a", "a": "../b"}},
        {"backend": "mesonpy"},  # for a wrapped project only
    ],
    ids=repr,
)
def test_what_a_schema_cannot_say_is_left_to_the_build(table: dict[str, Any]) -> None:
    assert accepts(table)
    assert not parses(table)


HOOK = {"archs": ["sm_90"], "dependencies": ["x"]}


@pytest.mark.parametrize(
    ("tool", "taken"),
    [
        ({"hatch": {"build": {"hooks": {"cubin": HOOK}}}}, True),
        ({"hatch": {"build": {"targets": {"wheel": {"hooks": {"cubin": HOOK}}}}}}, True),
        ({"hatch-cubin": {**HOOK, "backend": "mesonpy"}}, True),
        ({"hatch": {"build": {"hooks": {"other": {"x": 1}}}, "envs": {}}, "ruff": {}}, True),
        ({"hatch": {"build": {"hooks": {"cubin": {"arch": []}}}}}, False),
        ({"hatch": {"build": {"hooks": {"cubin": {"backend": "mesonpy"}}}}}, False),
        ({"hatch": {"build": {"targets": {"wheel": {"hooks": {"cubin": {"jobs": 0}}}}}}}, False),
        ({"hatch-cubin": {"jobs": "2"}}, False),
    ],
)
def test_the_schema_of_a_whole_file_looks_at_our_tables_alone(tool: dict[str, Any], taken: bool) -> None:  # noqa: FBT001
    assert accepts({"project": {"name": "x"}, "tool": tool}, whole=True) is taken


def test_the_example_project_fits() -> None:
    text = (REPOSITORY / "example_project/pyproject.toml").read_text("utf-8")
    assert accepts(toml_positions.loads(text), whole=True)


def test_a_hook_has_no_key_of_the_wrapper() -> None:
    assert set(schema._WRAPPER_KEYS) == reader._WRAPPER_CHECKS.keys()


def test_the_module_prints_the_schema_of_a_whole_file(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(schema.__file__), run_name="__main__")
    assert capsys.readouterr().out == schema.written(schema.of_pyproject())


@pytest.mark.parametrize("way", ["configuration", "comment"])
def test_taplo_takes_the_schema_as_the_guide_says(tmp_path: Path, way: str) -> None:
    taplo = Path(sysconfig.get_path("scripts"), "taplo")
    if not taplo.exists():
        pytest.skip("this environment has no taplo")
    configuration, comment = blocks(page("guides/editors"), "toml")
    command, _arrow, target = blocks(page("guides/editors"), "sh")[0].partition(" > ")
    assert (command.split()[0], target.strip()) == ("python", "pyproject.schema.json")
    start = comment if way == "comment" else ""
    write_tree(
        tmp_path,
        {
            "pyproject.schema.json": run(sys.executable, *shlex.split(command)[1:], cwd=tmp_path).stdout,
            "right.toml": start + pyproject('archs = ["sm_90"]\n'),
            "wrong.toml": start + pyproject("jbos = 3\n"),
            ".taplo.toml": configuration if way == "configuration" else "",
        },
    )
    right, wrong = (
        run(taplo, "lint", f"{name}.toml", cwd=tmp_path, check=False) for name in ("right", "wrong")
    )
    assert (right.returncode, wrong.returncode) == (0, 1)
    assert "'jbos' was unexpected" in wrong.stderr


def test_validate_pyproject_is_given_the_table_of_our_own_name() -> None:
    named = importlib.metadata.entry_points(group="validate_pyproject.tool_schema")
    assert [each.value for each in named if each.name == "hatch-cubin"] == [f"{schema.__name__}:of_tool"]
    assert schema.of_tool("hatch-cubin") == json.loads(schemas.OWN.read_text("utf-8"))


def test_validate_pyproject_says_what_is_wrong(tmp_path: Path) -> None:
    if importlib.util.find_spec("validate_pyproject") is None:
        pytest.skip(TOOL)
    start = pyproject("").partition("[tool")[0]
    write_tree(
        tmp_path,
        {
            "right.toml": f'{start}[tool.hatch-cubin]\narchs = ["sm_90"]\n',
            "wrong.toml": f"{start}[tool.hatch-cubin]\njbos = 3\n",
        },
    )
    right, wrong = (
        run(sys.executable, "-m", "validate_pyproject", f"{name}.toml", cwd=tmp_path, check=False)
        for name in ("right", "wrong")
    )
    assert (right.returncode, wrong.returncode) == (0, 1)
    assert "`tool.hatch-cubin` must not contain {'jbos'} properties" in wrong.stdout + wrong.stderr
