"""Modules that stand for calls of CuPy, and sources that stand for the same call."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hatch_cubin.common.arch_names import expand
from hatch_cubin.config.config import ProducerRule, SourceRule, TableLocation
from hatch_cubin.errors import ConfigError
from hatch_cubin.loader._text_key import text_key
from hatch_cubin.planning.linked_modules import plan_modules
from hatch_cubin.planning.unit_plan import Module
from hatch_cubin.producing.produced_texts import sources_of
from hatch_cubin.project.source import Source
from tests.helpers import TABLE, found, pyproject, read_config, refusal

SOURCE = f"[[{'.'.join(TABLE)}.source]]"
PLACE = TableLocation("pyproject.toml", "", TABLE)
TEXT = "__global__ void k() {}\n"


def modules(options: str, *sources: Source, members: tuple[tuple[str, ...], ...] = ()) -> list[Module]:
    config = read_config(options)
    specs = {config.archs, *(rule.archs for rule in config.source if rule.archs), ("sm_75",)}
    return plan_modules(config, sources, members, {each: expand(each, (75, 80, 90), ()) for each in specs})


def refused(
    options: str, *sources: Source, members: tuple[tuple[str, ...], ...] = ()
) -> list[tuple[str, str]]:
    return found(refusal(ConfigError, lambda: modules(options, *sources, members=members)))


def line(options: str, key: str) -> str:
    return f"pyproject.toml:{pyproject(options).splitlines().index(key) + 1}"


def table(path: str = "**/*.cu", *lines: str) -> str:
    return "\n".join((SOURCE, f'path = "{path}"', *lines))


def call(path: str = "**/*.cu", *lines: str) -> str:
    return table(path, 'as = "cupy"', *lines)


def test_a_call_inherits_nothing_of_the_whole_table() -> None:
    options = 'archs = ["sm_80"]\ndefine = { N = 4 }\noptions = { fma = true }\ninclude-dirs = ["inc"]\n'
    (one,) = modules(options + call("k.cu", 'options = ["-DM=1"]'), Source("k.cu", TEXT))
    key = text_key("cupy", ["-DM=1"], TEXT)
    assert (one.name, one.front, one.macros, one.include_dirs) == (f"cupy:{key}", "cupy", (("M", "1"),), ())
    assert one.options == {"std": "c++17", "ftz": True, "device_as_default_execution_space": True}
    assert [str(each.arch) for each in one.targets] == ["sm_80"]


def test_tables_without_a_call_set_archs_folders_and_names() -> None:
    more = table("k.cu", 'archs = ["sm_90"]', 'include-dirs = ["inc"]', 'instantiate = ["f<1>"]')
    first = call("**/*.cu", 'options = ["-DN=4"]', 'instantiate = ["f<0>"]')
    (one,) = modules("\n".join((first, table("k.cu", 'name = "x"'), more)), Source("k.cu", TEXT))
    assert (one.include_dirs, one.instantiate) == (("inc",), ("f<0>", "f<1>"))
    assert [str(each.arch) for each in one.targets] == ["sm_90"]
    assert one.name == f"cupy:{text_key('cupy', ['-DN=4'], TEXT)}"


def test_the_last_call_has_the_options() -> None:
    both = call("**/*.cu", 'options = ["-DN=4", "-std=c++14"]') + "\n" + call("k.cu", 'options = ["-DM=5"]')
    (one,) = modules(both, Source("k.cu", TEXT))
    assert (one.macros, one.options["std"]) == ((("M", "5"),), "c++17")
    assert one.name.endswith(text_key("cupy", ["-DM=5"], TEXT))


@pytest.mark.parametrize(
    "setting",
    ["define = { N = 4 }", "define = { N = false }", "options = { fma = true }", "variants = { N = [1] }"],
)
def test_another_table_cannot_change_a_call(setting: str) -> None:
    options = f"{call('k.cu')}\n{table('*.cu', setting)}"
    assert refused(options, Source("k.cu", TEXT)) == [("setting-changes-call", line(options, setting))]


def test_ptx_and_variants_are_no_calls() -> None:
    ptx = Source("k.ptx", ".version 8.0\n.target sm_80\n")
    assert refused(call("**/*"), ptx) == [("ptx-as-call", "k.ptx")]
    (made,) = sources_of([("k[N=1].cu", {"text": TEXT, "as": "cupy"})], ProducerRule(path="gen.py"), PLACE)
    assert refused("", made) == [("setting-changes-call", "k[N=1].cu")]


def test_a_part_of_a_linked_module_is_no_call() -> None:
    options = call("k.cu") + f'\n[[{".".join(TABLE)}.module]]\nname = "m"\nsources = ["k.cu"]\nmode = "rdc"'
    expected = [("key-in-wrong-table", line(options, 'as = "cupy"'))]
    assert refused(options, Source("k.cu", TEXT), members=(("k.cu",),)) == expected


def test_equal_calls_are_one_module() -> None:
    options = "\n".join(
        (
            call("a.cu", 'options = ["-DN=4", "-DM"]', 'instantiate = ["f<0>", "f<1>"]', 'archs = ["sm_80"]'),
            call(
                "b.cu", 'options = ["-DM=1", "-DN=4"]', 'instantiate = ["f<1>", "f<2>"]', 'archs = ["sm_90"]'
            ),
        )
    )
    one, other, plain = Source("a.cu", TEXT), Source("b.cu", f'#line 7 "b.cu"\n{TEXT}'), Source("c.cu", TEXT)
    merged, alone = modules(options, one, other, plain)[::-1]
    assert (alone.name, merged.source, merged.equal) == ("c", one, (other,))
    assert merged.sources == ["a.cu", "b.cu"]
    assert merged.instantiate == ("f<0>", "f<1>", "f<2>")
    assert [str(each.arch) for each in merged.targets] == ["sm_80", "sm_90"]


def test_equal_calls_with_other_headers_are_refused() -> None:
    folders = f"{call('a.cu')}\n" + call("b.cu", 'include-dirs = ["inc"]')
    expected = [("same-call-other-headers", "b.cu")]
    assert refused(folders, Source("a.cu", TEXT), Source("b.cu", TEXT)) == expected
    quoted = f'#include "own.h"\n{TEXT}'
    assert refused(call(), Source("a/k.cu", quoted), Source("b/k.cu", quoted)) == [(expected[0][0], "b/k.cu")]
    assert len(modules(call(), Source("a/k.cu", quoted), Source("a/l.cu", quoted))) == 1
    assert len(modules(call(), Source("a/k.cu", TEXT), Source("b/k.cu", TEXT))) == 1


def test_a_recorded_call_has_its_own_options_and_a_locked_one_its_key() -> None:
    own = SourceRule(
        path="r/1.cu", front="cupy", call_options=("-DN=4",), define=(("N", "4"),), archs=("sm_75",)
    )
    recorded = replace(Source("r/1.cu", TEXT), recorded=own)
    (one,) = modules(table("r/*.cu", 'archs = ["sm_80"]'), recorded)
    assert one.name.endswith(text_key("cupy", ["-DN=4"], TEXT))
    assert ([str(each.arch) for each in one.targets], one.macros) == (["sm_75"], (("N", "4"),))
    (one,) = modules(call(), replace(Source("k.cu", "unknown"), locked_key="1" * 64))
    assert one.name == f"cupy:{'1' * 64}"
