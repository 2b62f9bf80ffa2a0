"""What a hostile table can do: be refused in short lines that name its keys, or set its own options alone."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hatch_cubin.common import arch_names
from hatch_cubin.config import nvrtc_options, reader
from hatch_cubin.config.config import Config, TableLocation, parse_config
from hatch_cubin.errors import ConfigError, HatchCubinError
from hatch_cubin.planning import unit_plan
from hatch_cubin.planning.unit_plan import Unit
from hatch_cubin.project.source import Source
from hatch_cubin.toolkit import toolkit
from tests.fault_counts import Figures
from tests.helpers import COPY_PTX, TABLE, read_config, refusal

from .strategies import products

pytestmark = [pytest.mark.nvrtc, pytest.mark.counted]

PLACE = TableLocation("pyproject.toml", "", TABLE)
SUPPORTED = (80, 90, 100, 120)
SOURCES = (Source("demo/k.cu", ""), Source("demo/copy.ptx", COPY_PTX))
TOOLKIT: Any = SimpleNamespace(version=(13, 0), supported=SUPPORTED, load=lambda: None)
KNOWN = {*reader._CHECKS, *reader._SOURCE_CHECKS}

_injected = st.sampled_from(
    [
        *("--include-path=/", "-I/", "-I /", "-o /x", "-o=/x", "--output-file=/x", "-optf=/x", "@/x", "--"),
        *("1 --include-path=/", "1 -I/", "1\n-I/", "1\0-I/", "1\r\n", "-v -o /x", "-v,-o,/x", "-v\t-optf /x"),
        *("c++17 -I/", "a\n#include </x>", "N=1 -I/", "x;-I/", '" -I/ "', "$(id)", "`id`", "%s%n", "\x1b[2J"),
        *("../../x", "/etc/passwd", "~", "C:\\x", "\\\\host\\x", "**/../..", "..", ".", "", " ", "\u202e"),
        *("sm_999", "sm_90", "sm_90a", "all", "compute_80", "9.0+PTX", "sm_90 -I/", "f<1>", "f<1>; -I/"),
        *("x" * 1_000_000, "-" * 1_000_000, "9" * 5000, "a-b==1", "a @ file:///x", "a; x", "-r /x", "demo/*"),
    ]
)
_strings = _injected | st.text(max_size=20)
_numbers = st.sampled_from([0, 1, -1, 255, 2**63, 2**64, 10**400, 1 << 20_000, 0.5, 1e300, float("nan")])
_scalars = _strings | _numbers | st.booleans() | st.none()
_lists = st.lists(_strings, max_size=4) | st.lists(_scalars, max_size=3)
_anything = _scalars | _lists | st.dictionaries(_strings, _scalars | _lists, max_size=3)
_names = st.sampled_from(["N", "M", "F(a, b)"])
_hostile_table = st.dictionaries(_strings | st.sampled_from([*nvrtc_options.REFUSED]), _anything, max_size=3)
_of_kind: Mapping[str, st.SearchStrategy[Any]] = {
    "a boolean": st.booleans(),
    "an integer": _numbers,
    "a string": _strings,
    "a string or an array of strings": _strings | st.lists(_strings, max_size=3),
    "an integer or an array of integers": _numbers | st.lists(_numbers, max_size=3),
}
_options_table = st.sampled_from([*nvrtc_options.ALLOWED.items()]).flatmap(
    lambda option: st.dictionaries(st.just(option[0]), _of_kind[option[1]])
)
_taken_or_not: Mapping[str, st.SearchStrategy[Any]] = {
    "archs": st.lists(st.sampled_from(["sm_90", "90a", "all-major", "sm_999"]), min_size=1, max_size=3),
    "sources": _lists,
    "exclude": _lists,
    "include-dirs": _lists,
    "header-packages": _lists,
    "trusted-keys": _lists,
    "define": st.dictionaries(_names, _strings | st.integers(0, 9) | st.booleans(), max_size=2),
    "options": _options_table,
    "instantiate": st.lists(_strings | products, max_size=2),
    "variants": st.dictionaries(_names, st.lists(_strings, min_size=1), min_size=1, max_size=2),
}


@st.composite
def _tables(draw: st.DrawFn, keys: list[str], base: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table with a few of *keys*: each with what may well be taken, or with anything at all."""
    chosen = draw(st.lists(st.sampled_from(keys), unique=True, max_size=3))
    each = {key: _taken_or_not.get(key, _strings) for key in chosen}
    if draw(st.integers(0, 3)) == 0:
        each = dict.fromkeys(chosen, _anything | _hostile_table)
    return {**base, **{key: draw(value) for key, value in each.items()}}


_rules = st.lists(_tables([*reader._SOURCE_CHECKS], {"path": "**/*.cu"}), min_size=1, max_size=2)
tables = _tables([*reader._CHECKS], {}) | st.fixed_dictionaries({"source": _rules})


def units_of(config: Config) -> list[Unit]:
    """Return what a table asks for of two sources; archs that depend on the machine are left out."""
    specs = {config.archs, *(rule.archs for rule in config.source if rule.archs)}
    targets = {each: arch_names.expand(each, SUPPORTED, (90,)) for each in specs}
    modules = unit_plan.plan_modules(config, SOURCES, targets)
    return [*unit_plan.plan_units(modules, unit_plan.Toolchain("NVRTC", SUPPORTED, families=True)).units]


def flags_of(unit: Unit) -> list[bytes]:
    """Return the names of a unit's options as the compiler is given them, one by one."""
    return [option.partition(b"=")[0] for option in toolkit.compiler_options(unit, TOOLKIT, ())]


@pytest.fixture(scope="module")
def flags() -> frozenset[bytes]:
    """Every option that a table can set, each with a harmless value."""
    harmless = {
        "a boolean": ["true", "false"],
        "an integer": ["1"],
        "a string": ["'c++17'"],
        "a string or an array of strings": ["['-w']"],
        "an integer or an array of integers": ["[1]"],
    }
    texts = {"optimization_info": "'inline'", "ofast_compile": "'max'", "undefine_macro": "['N']"}
    found = {b"--define-macro"}
    for name, kind in nvrtc_options.ALLOWED.items():
        for value in [texts[name]] if name in texts else harmless[kind]:
            config = read_config(f"archs = ['sm_90']\noptions = {{ {name} = {value} }}")
            found.update(flag for unit in units_of(config) for flag in flags_of(unit))
    assert not {flag for flag in found if flag.startswith((b"--include-path", b"-I", b"-o"))}
    return frozenset(found)


def test_a_hostile_table_is_refused_in_lines_that_name_its_keys_or_injects_nothing(
    flags: frozenset[bytes], figures: Figures
) -> None:
    counts = {"tables": 0, "refused": 0, "problems": 0, "compiles": 0}

    @settings(max_examples=figures.pick(400, 10_000), suppress_health_check=[*HealthCheck])
    @given(tables)
    def judge(table: dict[str, Any]) -> None:
        counts["tables"] += 1
        try:
            config = parse_config(table, PLACE, {})
        except ConfigError as exc:
            for problem in exc.problems:
                assert problem.what.isprintable()
                assert len(problem.what) < 500
                assert _named(problem.what) in KNOWN
            counts["refused"] += 1
            counts["problems"] += len(exc.problems)
            return
        try:
            units = units_of(config)
        except HatchCubinError:  # a rule for no source, an arch that the compiler does not know
            counts["refused"] += 1
            return
        for unit in units:
            assert set(flags_of(unit)) <= flags
            counts["compiles"] += 1

    judge()
    figures.tell(**counts)
    assert counts["tables"] > counts["refused"] > 0 < counts["compiles"]


def _named(what: str) -> str:
    """Return the key that a message begins with."""
    if what.startswith("a source table must say which"):
        return "path"
    return what.split(" ", maxsplit=1)[0].partition(".")[0].rstrip(":")


@pytest.mark.parametrize("arch", ["sm_90", "sm_999"])
def test_a_hundred_thousand_archs_are_read_or_each_refused(arch: str) -> None:
    table = {"archs": [arch] * 100_000}
    if arch == "sm_90":
        (unit,) = units_of(read_config("archs = ['sm_90']"))[1:]
        assert [each.name for each in units_of(parse_config(table, PLACE, {}))][1:] == [unit.name]
    else:
        with pytest.raises(ConfigError) as caught:
            units_of(parse_config(table, PLACE, {}))
        assert caught.value.problems[0].what == "NVRTC cannot target sm_999"


def test_variants_without_end_are_refused_before_they_are_counted_out() -> None:
    axes = {name: list(range(1000)) for name in ("N", "M", "K")}
    config = parse_config({"source": [{"path": "demo/k.cu", "variants": axes}]}, PLACE, {})
    assert str(refusal(ConfigError, units_of, config)) == (
        "demo/k.cu: 'variants' make 1000000000 modules of this source, but at most 100000 are allowed"
    )
