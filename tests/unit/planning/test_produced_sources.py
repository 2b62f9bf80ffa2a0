"""Modules of sources that a script produced: variants in names, texts of one arch, settings of values."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.common import arch_names
from hatch_cubin.config.config import Config, ProducerRule
from hatch_cubin.errors import ConfigError
from hatch_cubin.keys import shared_names
from hatch_cubin.planning import linked_modules
from hatch_cubin.planning.unit_plan import AbsentSources, Module
from hatch_cubin.producing.produced_texts import sources_of
from hatch_cubin.project.source import Source
from tests.helpers import TABLE, found, read_config, refusal

SUPPORTED = (80, 90, 100)
RULE = ProducerRule(path="demo/gen.py", produces=("cu", "ptx"))
SOURCE = f"[[{'.'.join(TABLE)}.source]]\n"
MODULE = f'[[{".".join(TABLE)}.module]]\nname = "m"\nmode = "lto"\nsources = ["demo/*.cu"]\n'
ARCHS = 'archs = ["sm_80", "sm_90a"]\n'


def produced(config: Config, values: dict[str, Any]) -> list[Source]:
    return sources_of([*values.items()], RULE, config.place)


def plan(
    options: str, values: dict[str, Any], *files: Source, members: tuple[tuple[str, ...], ...] = ()
) -> list[Module]:
    config = read_config(options)
    sources = [*files, *produced(config, values)]
    rules = [*config.source, *(each.produced.rule for each in sources if each.produced)]
    specs = {config.archs, *(rule.archs for rule in rules if rule.archs)}
    targets = {each: arch_names.expand(each, SUPPORTED, ()) for each in specs}
    return linked_modules.plan_modules(config, sources, members, targets)


def archs(module: Module) -> list[str]:
    return [str(target.arch) for target in module.targets]


def test_a_variant_in_a_name_is_no_macro() -> None:
    (one,) = plan(ARCHS, {"mm[BM=64,T=float].cu": {"text": "x", "define": {"N": 1}}})
    assert (one.name, one.base, one.file_stem) == ("mm[BM=64,T=float]", "mm", "mm.BM-64.T-float")
    assert one.macros == (("N", "1"),)


def test_a_text_of_one_arch_takes_it_from_the_others() -> None:
    values = {"mm.cu": "x", "mm.sm_90a.ptx": "x", "mm[B=1].cu": "x", "mm[B=1].compute_90.cu": "x"}
    made = plan(ARCHS, values)
    assert [(each.name, each.full_name, archs(each)) for each in made] == [
        ("mm", "mm", ["sm_80"]),
        ("mm", "mm.sm_90a", ["sm_90a"]),
        ("mm[B=1]", "mm[B=1]", ["sm_80", "sm_90a"]),
        ("mm[B=1]", "mm[B=1].compute_90", ["compute_90"]),
    ]
    assert shared_names.name_problems(made, read_config(ARCHS)) == []


def test_two_texts_for_one_arch_are_refused() -> None:
    made = plan(ARCHS, {"mm.sm_90a.cu": "x", "mm.sm_90a.ptx": "x"})
    codes = [each.code for each in shared_names.name_problems(made, read_config(ARCHS))]
    assert codes == ["module-name-taken", "module-name-taken"]


def test_a_file_beside_the_script_may_be_the_text_of_other_archs() -> None:
    made = plan(ARCHS, {"mm.sm_90a.ptx": "x"}, Source("demo/mm.cu", "x"))
    assert [archs(each) for each in made] == [["sm_80"], ["sm_90a"]]
    assert shared_names.name_problems(made, read_config(ARCHS)) == []


def test_names_are_suggested_for_produced_sources_too() -> None:
    config = read_config(ARCHS)
    made = plan(ARCHS, {"mm[B=1].cu": "__global__ void f();"}, Source("other/mm.cu", "__global__ void f();"))
    (one,) = shared_names.name_problems(made, config)
    assert one.code == "module-name-taken"
    assert 'name = "{parent}_{stem}"' in (one.hint or "")


def test_tables_match_a_name_without_its_variant_and_values_win() -> None:
    options = (
        f'{ARCHS}{SOURCE}path = "demo/mm.cu"\ndefine = {{ A = 1, B = 1 }}\nname = "x_{{stem}}"\n'
        f'{SOURCE}path = "demo/mm.sm_90a.ptx"\noptions = {{ lineinfo = true }}\n'
    )
    values = {"mm[N=1].cu": {"text": "x", "define": {"B": 2}}, "mm[N=1].sm_90a.ptx": "x"}
    made = plan(options, values)
    assert [(each.name, dict(each.macros), dict(each.options)) for each in made] == [
        ("mm[N=1]", {}, {"lineinfo": True}),
        ("x_mm[N=1]", {"A": "1", "B": "2"}, {}),
    ]


@pytest.mark.parametrize(
    ("options", "value"),
    [
        (f'{SOURCE}path = "demo/mm.cu"\nvariants = {{ A = [1, 2] }}\n', "x"),
        ("", {"text": "x", "variants": {"A": [1, 2]}}),
    ],
)
def test_a_variant_in_a_name_cannot_have_variants(options: str, value: object) -> None:
    error = refusal(ConfigError, plan, ARCHS + options, {"mm[N=1].cu": value})
    assert found(error) == [("variants-of-one-variant", "demo/mm[N=1].cu")]


def test_a_plain_name_can_have_variants() -> None:
    made = plan(ARCHS, {"mm.cu": {"text": "x", "variants": {"A": [1, 2]}}})
    assert [dict(each.macros) for each in made] == [{"A": "1"}, {"A": "2"}]


def test_ptx_has_no_settings_of_cpp() -> None:
    error = refusal(ConfigError, plan, ARCHS, {"mm.ptx": {"text": "x", "instantiate": ["f<1>"]}})
    assert found(error) == [("cpp-setting-for-ptx", "demo/mm.ptx")]


def test_a_table_may_match_a_source_that_is_not_known_yet() -> None:
    config = read_config(f'{ARCHS}{SOURCE}path = "demo/mm.cu"\nname = "x"\n{MODULE}')
    absent = AbsentSources(will_follow=True)
    assert linked_modules.plan_modules(config, [], [()], {config.archs: ()}, absent=absent) == []
    error = refusal(ConfigError, plan, f'{ARCHS}{SOURCE}path = "demo/no.cu"\nname = "x"', {"mm.cu": "x"})
    assert found(error)[0][0] == "pattern-matches-nothing"


def test_produced_sources_can_be_linked_with_their_settings() -> None:
    options = f'{ARCHS}{SOURCE}path = "demo/a.cu"\ndefine = {{ A = 1 }}\n{MODULE}'
    values = {"a.cu": {"text": "x", "define": {"B": 2}}, "b.cu": "x"}
    made = plan(options, values, members=(("demo/a.cu", "demo/b.cu"),))
    assert [(each.name, dict(each.macros)) for each in made if each.part_of] == [
        ("m/demo/a.cu", {"A": "1", "B": "2"}),
        ("m/demo/b.cu", {}),
    ]


@pytest.mark.parametrize(
    "values",
    [{"a[N=1].cu": "x"}, {"a.sm_80.cu": "x"}, {"a.cu": {"text": "x", "name": "b"}}],
)
def test_a_linked_source_has_no_name_of_its_own(values: dict[str, Any]) -> None:
    (name,) = values
    error = refusal(ConfigError, plan, ARCHS + MODULE, values, members=((f"demo/{name}",),))
    assert found(error) == [("key-in-wrong-table", f"demo/{name}")]


def test_a_needless_text_is_not_to_be_excluded() -> None:
    config = read_config(ARCHS)
    made = plan(ARCHS, {"mm.cu": "int x;"}, Source("other/mm.cu", "int y;"))
    hints = {each.where.path: each.hint for each in shared_names.name_problems(made, config) if each.where}
    assert hints == {
        "demo/mm.cu": "remove this source from the texts that demo/gen.py returns",
        "other/mm.cu": 'exclude = ["other/mm.cu"]',
    }


def test_archs_and_options_that_a_script_sets_are_placed_at_the_source() -> None:
    values = {
        "a.sm_91.cu": "x",
        "b.cu": {"text": "x", "archs": ["90", "all"], "options": {"lineinfo": True}},
        "c.cu": "x",
    }
    one, other, plain = (each.setting_lines for each in plan(ARCHS, values))
    assert str(one["sm_91"]) == "demo/a.sm_91.cu"
    assert [str(other[name]) for name in ("sm_90", "lineinfo")] == ["demo/b.cu", "demo/b.cu"]
    assert {each.path for each in plain.values()} == {"pyproject.toml"}


def test_two_texts_of_one_name_have_a_hint_but_two_files_do_not() -> None:
    made = plan(ARCHS, {"mm.cu": "x", "mm.ptx": "x"})
    assert {each.hint for each in shared_names.name_problems(made, read_config(ARCHS))} == {
        "change the producer, so that it gives one of the two sources another name"
    }
