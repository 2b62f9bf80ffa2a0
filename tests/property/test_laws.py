"""Laws that hold for every input, however odd."""

from __future__ import annotations

import fnmatch
import random
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from hypothesis import example, given, settings
from hypothesis import strategies as st

from hatch_cubin.common import arch_names
from hatch_cubin.common.arch_names import Arch
from hatch_cubin.common.digest import digest
from hatch_cubin.compiling.diagnostics import parse_log
from hatch_cubin.config import toml_positions
from hatch_cubin.config.config import Config, TableLocation, parse_config
from hatch_cubin.cubin import kernel_names
from hatch_cubin.errors import ConfigError, Location, SourceError, render
from hatch_cubin.planning.unit_plan import Module, Toolchain, UnitPlan, plan_modules, plan_units
from hatch_cubin.project.source import Source, decode_source, glob_regex, read_ptx_header, without_comments
from tests.helpers import TABLE, read_config

from . import strategies as some

few = settings(max_examples=100, deadline=None)
SUPPORTED = (75, 80, 90, 100, 103, 120)
PLACE = TableLocation("pyproject.toml", "", TABLE)
T = TypeVar("T")
E = TypeVar("E", bound=Exception)


def attempt(act: Callable[[], T], expected: type[E]) -> T | E:
    """Return what *act* returns, or the one kind of error that it may raise."""
    try:
        return act()
    except expected as exc:
        return exc


# --- configuration --------------------------------------------------------------------------------


@few
@given(some.tables, some.environs)
@example({"sources": ["[]"], "archs": ["sm_90"] * 3}, {})
@example({"define": {"N": float("nan")}, "jobs": 10**300, "cache-size": "9" * 400}, {})
def test_any_table_is_a_config_or_a_config_error(table: dict[str, Any], environ: dict[str, str]) -> None:
    outcome = attempt(lambda: parse_config(table, PLACE, environ), ConfigError)
    if isinstance(outcome, ConfigError):
        assert len(render(outcome, ", nothing was built")) == len(outcome.problems) + 1 > 1
        assert all(len(problem.what) < 500 and problem.what.isprintable() for problem in outcome.problems)
    else:
        assert isinstance(outcome, Config)


@few
@given(some.globs | some.text, st.sampled_from(["sources", "exclude", "include-dirs"]))
def test_a_path_that_is_accepted_stays_inside_and_can_be_used(pattern: str, key: str) -> None:
    outcome = attempt(lambda: parse_config({key: [pattern]}, PLACE, {}), ConfigError)
    if isinstance(outcome, Config):
        (path,) = getattr(outcome, key.replace("-", "_"))
        assert not path.startswith("/")
        assert ".." not in path.split("/")
        glob_regex(path)


@settings(max_examples=200, deadline=None)
@given(some.toml_texts())
def test_every_key_of_a_toml_text_is_found_on_its_line(
    written: tuple[str, Mapping[tuple[str | int, ...], int]],
) -> None:
    text, lines = written
    assert set(_paths(toml_positions.loads(text))) == set(lines)
    assert toml_positions.key_lines(text) == lines


def _paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([path] if path else []), *(each for key, item in inside for each in _paths(item, (*path, key)))]


# --- globs ----------------------------------------------------------------------------------------


@few
@given(some.globs, some.paths)
def test_any_glob_can_be_used_without_a_warning(pattern: str, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        glob_regex(pattern).fullmatch(path)


@few
@given(some.matches())
def test_a_glob_made_of_a_path_matches_it(match: tuple[str, str]) -> None:
    pattern, path = match
    assert glob_regex(pattern).fullmatch(path)


@few
@given(some.matches(), st.data())
def test_only_a_double_star_crosses_folders(match: tuple[str, str], data: st.DataObject) -> None:
    pattern, path = match
    cut = data.draw(st.integers(0, len(path)))
    assert not glob_regex(pattern).fullmatch(f"{path[:cut]}/{path[cut:]}")


@few
@given(some.paths | some.globs.map(lambda glob: f"{glob}[1]"))
def test_a_glob_of_a_file_matches_the_file(glob: str) -> None:
    assert glob_regex(glob).fullmatch(glob)


@few
@given(some.paths)
def test_a_path_without_wildcards_matches_no_other_path(path: str) -> None:
    assert not glob_regex(path).fullmatch(path + "a")


@few
@given(some.matches(), some.paths)
def test_a_leading_double_star_matches_in_every_folder(match: tuple[str, str], folder: str) -> None:
    pattern, path = match
    assert glob_regex(f"**/{pattern}").fullmatch(path)
    assert glob_regex(f"**/{pattern}").fullmatch(f"{folder}/{path}")


@settings(max_examples=300, deadline=None)
@given(st.text("*?[]!-ab&", max_size=6).filter(lambda glob: "**" not in glob), st.text("ab-&[]!", max_size=4))
@example("[]-a]", "^")
@example("[!]", "[!]")
def test_inside_a_folder_a_glob_means_what_it_means_to_fnmatch(pattern: str, name: str) -> None:
    is_itself = name == pattern  # hatch-cubin also takes a glob for the name of a file
    assert bool(glob_regex(pattern).fullmatch(name)) is (is_itself or fnmatch.fnmatchcase(name, pattern))


@settings(max_examples=500, deadline=None)
@given(
    st.lists(st.sampled_from(["*", "**", "**/", "/", "?", "a", "b", "."]), max_size=9).map("".join),
    st.lists(st.text("ab.", min_size=1, max_size=4), max_size=4).map("/".join),
)
@example("**a*b**/a*/**b", "ab/aab/ab/b")
@example("**a**/b", "xa/yaab")  # at the first place of `a`, the glob does not match
def test_a_glob_matches_as_when_each_wildcard_tries_every_text(pattern: str, path: str) -> None:
    assert bool(glob_regex(pattern).fullmatch(path)) is _matches_with_some_texts(pattern, path)


def _matches_with_some_texts(pattern: str, path: str) -> bool:
    matches: Mapping[str, Callable[[str], bool]] = {
        "**/": lambda text: (all(text.removesuffix("/").split("/")) and text.endswith("/")) or not text,
        "**": lambda _text: True,
        "*": lambda text: "/" not in text,
        "?": lambda text: len(text) == 1 and text != "/",
    }
    ends = {0}
    for piece in re.findall(r"\*\*/|\*\*+|.", pattern):
        fits = matches.get(piece if piece.endswith("/") else piece[:2], piece.__eq__)
        ends = {end for start in ends for end in range(start, len(path) + 1) if fits(path[start:end])}
    return len(path) in ends


# --- sources and names ----------------------------------------------------------------------------


@few
@given(st.binary(max_size=40))
def test_a_source_is_decoded_or_refused(data: bytes) -> None:
    refusals = {"unsupported-encoding", "nul-byte-in-source", "machine-code-as-source"}
    outcome = attempt(lambda: decode_source(data, Location("k.cu"))[0], SourceError)
    if isinstance(outcome, SourceError):
        assert {problem.code for problem in outcome.problems} < refusals
    else:
        assert "\r" not in outcome


@few
@given(st.text('/*"\\\n ab', max_size=30))
def test_blanking_comments_moves_nothing(text: str) -> None:
    blanked = without_comments(text)
    assert len(blanked) == len(text)
    assert all(new in {old, " "} for new, old in zip(blanked, text, strict=True))
    assert without_comments(blanked) == blanked


@few
@given(
    st.lists(st.sampled_from([".version ", ".target ", "sm_90", "sm_9", "7.0", "\n", "//", "/*"])).map(
        "".join
    )
)
def test_any_text_has_a_ptx_header_or_is_refused(text: str) -> None:
    outcome = attempt(lambda: Source("k.ptx", text).ptx, SourceError)
    if isinstance(outcome, SourceError):
        assert len(outcome.problems) == 1
    else:
        assert str(arch_names.parse_arch(outcome.target)) in outcome.target_text


@few
@given(
    st.lists(st.sampled_from(["_Z", "N", "E", "L", "I", "4fill", "2ns", "12_GLOBAL__N_1", "9", "v"])).map(
        "".join
    )
)
def test_a_symbol_always_has_a_name(symbol: str) -> None:
    assert kernel_names.demangle(symbol) or not symbol


@few
@given(st.lists(st.sampled_from(["_Z1av", "_Z1ai", "a", "_ZN1b1aEv", "_Z1aIfEvv"]), unique=True))
def test_every_symbol_is_named_exactly_once(symbols: list[str]) -> None:
    named = kernel_names.kernels_by_name(symbols, {"a<float>": "_Z1aIfEvv"})
    assert sorted(named.values()) == sorted({*symbols, "_Z1aIfEvv"})


# --- archs, plans, digests ------------------------------------------------------------------------


@few
@given(some.archs)
def test_an_arch_reads_back_from_its_first_form(arch: Arch) -> None:
    assert arch_names.parse_arch(str(arch)) == arch


@few
@given(st.lists(some.specs))
def test_expanding_the_first_forms_changes_nothing(specs: list[str]) -> None:
    once = [target.arch for target in arch_names.expand(specs, SUPPORTED, (90,))]
    assert [target.arch for target in arch_names.expand(map(str, once), SUPPORTED, ())] == once
    assert len(set(once)) == len(once)


@few
@given(some.archs, some.archs)
def test_ptx_with_a_suffix_serves_no_more_than_plain_ptx(target: Arch, arch: Arch) -> None:
    plain = Arch(target.number)
    assert arch_names.can_assemble(target, target)
    assert arch_names.can_assemble(plain, arch) >= arch_names.can_assemble(target, arch)


def planned(sources: list[Source]) -> tuple[list[tuple[str, str]], UnitPlan | tuple[str, ...]]:
    config = read_config("[[tool.hatch.build.hooks.cubin.source]]\npath = '**'\nvariants = { N = [2, 1] }")
    targets = {config.archs: arch_names.expand(config.archs, SUPPORTED, ())}
    modules = plan_modules(config, sources, targets)
    plan = plan_units(modules, Toolchain("NVRTC", SUPPORTED, families=True))
    return [(module.name, module.source.path) for module in modules], tuple(unit.name for unit in plan.units)


@few
@given(
    st.lists(st.text("abc", min_size=1, max_size=3), unique=True, min_size=1),
    st.randoms(use_true_random=False),
)
def test_a_plan_ignores_the_order_of_its_sources(stems: list[str], chance: random.Random) -> None:
    sources = [Source(f"demo/{stem}.cu", "") for stem in stems]
    before = planned(sources)
    chance.shuffle(sources)
    assert planned(sources) == before


def module(base: str, variant: tuple[tuple[str, str], ...]) -> Module:
    source = Source("demo/k.cu", "")
    return Module(base, source, variant)


variants = st.lists(st.tuples(st.sampled_from(["N", "BLOCK"]), some.text), max_size=3).map(tuple)


@few
@given(some.text.filter(bool), variants)
def test_a_file_name_is_short_and_suits_every_file_system(
    base: str, variant: tuple[tuple[str, str], ...]
) -> None:
    stem = module(base, variant).file_stem
    assert re.fullmatch(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*", stem)
    assert len(stem) <= 160
    assert not re.match(r"(con|prn|aux|nul|com\d|lpt\d)(\.|$)", stem, re.IGNORECASE)


@few
@given(st.tuples(some.text, variants), st.tuples(some.text, variants))
def test_modules_with_different_parts_have_different_files(
    one: tuple[str, tuple[tuple[str, str], ...]], other: tuple[str, tuple[tuple[str, str], ...]]
) -> None:
    assert (module(*one).file_stem == module(*other).file_stem) is (one == other)


@few
@given(st.lists(some.text | st.binary(max_size=12)), st.lists(some.text | st.binary(max_size=12)))
@example(["ab", "c"], ["a", "bc"])
@example(["a", ""], ["a"])
def test_distinct_parts_have_distinct_digests(one: list[str | bytes], other: list[str | bytes]) -> None:
    same = [*map(_encoded, one)] == [*map(_encoded, other)]
    assert (digest(one) == digest(other)) is same


def _encoded(part: str | bytes) -> bytes:
    return part.encode() if isinstance(part, str) else part


# --- PTX ------------------------------------------------------------------------------------------

_directives = st.sampled_from(
    [
        ".version 8.0",
        ".version",
        " 7.5",
        ".target sm_80",
        ".target",
        " sm_90a",
        "sm_9",
        ", debug",
        ".entry k()",
    ]
)
_marks = st.sampled_from(['"', "/*", "*/", "//", "/", "\\", "\n", "\n", " "])


@settings(max_examples=2000, deadline=None)
@given(st.lists(_directives | _marks, max_size=12).map("".join))
@example(".version 8.0\n.target // c\n sm_80\n.target sm_90\n")
@example(".version 8.0\n/*\n.target sm_80\n*/\n.target sm_90\n")
@example('.version 8.0 "\\\n.target sm_80 //"\n.target sm_90\n')
@example(".target sm_80\n.version 8.0\n")
def test_a_ptx_header_is_what_the_whole_text_has(text: str) -> None:
    """It is looked for at the beginning alone where that is enough."""
    whole = without_comments(text) + '\n"'  # for a string, all of it is looked through
    found, said = (
        attempt(lambda text=each: read_ptx_header(Source("k.ptx", text)), SourceError)  # type: ignore[misc]
        for each in (text, whole)
    )
    assert str(found) == str(said)


# --- logs -----------------------------------------------------------------------------------------

_said = st.text(st.characters(categories=("L", "N", "P", "S")), min_size=1, max_size=20)
_places = st.sampled_from(
    ["", "demo/k.cu(3): ", "At end of source: ", "nvrtc: ", "ptxas ", "ptxas k, line 3; ", "linker(x): "]
)
_kinds = st.sampled_from(["error: ", "error   : ", "error #20: ", "error #20-D: ", "Error: "])
_errors = st.tuples(_places, st.sampled_from(["", "catastrophic ", "internal ", "fatal "]), _kinds, _said)
_between = st.sampled_from(["", "    x = y;", "        ^", "demo/k.cu(1): warning #1-D: w", "Remark: r"])


@few
@given(st.lists(st.tuples(_errors, st.lists(_between, max_size=3))))
@example([(("", "", "error #20: ", "0"), []), (("", "internal ", "error   : ", "0"), [])])
def test_no_error_of_a_log_is_lost(entries: list[tuple[tuple[str, str, str, str], list[str]]]) -> None:
    lines = [line for parts, between in entries for line in ("".join(parts), *between)]
    found = [each.text for each in parse_log("\n".join(lines), "demo/k.cu", {}) if each.kind == "error"]
    said = [parts[-1] for parts, _between in entries]
    assert len(found) == len(said)
    assert all(text in whole for text, whole in zip(said, found, strict=True))
