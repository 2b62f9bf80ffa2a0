"""Which modules are linked of several sources: names, settings, shared objects, archs."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hatch_cubin.common.arch_names import Arch, Target, expand
from hatch_cubin.errors import ConfigError, HatchCubinError
from hatch_cubin.keys import shared_names
from hatch_cubin.planning import linked_modules, unit_plan
from hatch_cubin.planning.unit_plan import Module, Toolchain
from hatch_cubin.project.source import Source
from tests.helpers import TABLE, read_config

MODULE = f"[[{'.'.join(TABLE)}.module]]\n"
SOURCE = f"[[{'.'.join(TABLE)}.source]]\n"
SOLVER = f'{MODULE}name = "solver"\nsources = ["a.cu", "b.cu"]\nmode = "lto"\n'
NO_PTX = "the linker makes PTX only from LTO-IR, that is, with mode = 'lto' and only .cu sources"
A_AND_B = ["demo/a.cu", "demo/b.cu"]
SUPPORTED = (75, 80, 90, 120)
TOOLCHAIN = Toolchain("NVRTC 13.0.0", SUPPORTED, families=True)
HELPERS = ".version 8.0\n.target sm_80\n.address_size 64\n"


def planned(
    options: str, *members: Sequence[str], more: Sequence[str] = (), text: str = HELPERS
) -> list[Module]:
    config = read_config(options)
    paths = sorted({*more, *(path for each in members for path in each)})
    sources = [Source(path, text if path.endswith(".ptx") else "") for path in paths]
    specs = {config.archs, *(rule.archs for rule in config.module if rule.archs)}
    targets = {each: expand(each, SUPPORTED, ()) for each in specs}
    return linked_modules.plan_modules(config, sources, members, targets)


def refusal(options: str, *members: Sequence[str], more: Sequence[str] = ()) -> list[str]:
    with pytest.raises(HatchCubinError) as caught:
        unit_plan.plan_units(planned(options, *members, more=more), TOOLCHAIN)
    return [str(problem) for problem in caught.value.problems]


def units(modules: Sequence[Module]) -> list[tuple[str, str]]:
    return [(unit.module.name, str(unit.arch)) for unit in unit_plan.plan_units(modules, TOOLCHAIN).units]


def test_each_source_of_a_module_is_an_object_and_no_module() -> None:
    assert units(planned(f'archs = ["sm_90"]\n{SOLVER}', A_AND_B, more=["demo/other.cu"])) == [
        ("other", "sm_90"),
        ("solver", "sm_90"),
        ("solver/demo/a.cu", "sm_90"),
        ("solver/demo/b.cu", "sm_90"),
    ]


def test_objects_are_compiled_for_machine_code_whatever_is_linked_of_them() -> None:
    assert units(planned(f'archs = ["90", "compute_120"]\n{SOLVER}', A_AND_B[:1])) == [
        ("solver", "sm_90"),
        ("solver", "compute_90"),
        ("solver", "compute_120"),
        ("solver/demo/a.cu", "sm_90"),
        ("solver/demo/a.cu", "sm_120"),
    ]


def test_a_modules_archs_are_its_own() -> None:
    modules = planned(f'archs = ["sm_90"]\n{SOLVER}archs = ["sm_80"]\n', A_AND_B[:1], more=["demo/k.cu"])
    assert units(modules) == [("k", "sm_90"), ("solver", "sm_80"), ("solver/demo/a.cu", "sm_80")]


def test_settings_are_the_tables_then_the_modules_then_the_sources() -> None:
    options = f"""\
archs = ["sm_90"]
define = {{ A = 1, B = 1, C = 1 }}
options = {{ std = "c++17", fma = true }}
include-dirs = ["all"]
{SOLVER}define = {{ B = 2, C = 2, D = false }}
options = {{ fma = false }}
include-dirs = ["module"]
{SOURCE}path = "demo/b.cu"
define = {{ C = 3 }}
options = {{ ftz = true }}
include-dirs = ["source"]
instantiate = ["scale<float>"]
"""
    solver, a, b = planned(options, A_AND_B)
    lto = {"link_time_optimization": True}
    assert [(each.name, dict(each.macros), dict(each.options)) for each in (solver, a, b)] == [
        ("solver", {"A": "1", "B": "2", "C": "2"}, {"std": "c++17", "fma": False}),
        ("solver/demo/a.cu", {"A": "1", "B": "2", "C": "2"}, {"std": "c++17", "fma": False, **lto}),
        (
            "solver/demo/b.cu",
            {"A": "1", "B": "2", "C": "3"},
            {"std": "c++17", "fma": False, "ftz": True, **lto},
        ),
    ]
    assert (a.include_dirs, b.include_dirs) == (("module", "all"), ("source", "module", "all"))
    assert (solver.instantiate, a.instantiate, b.instantiate) == (("scale<float>",), (), ("scale<float>",))


def test_a_variant_is_a_module_and_gives_its_macros_to_every_source() -> None:
    options = f'archs = ["sm_90"]\n{SOLVER}variants = {{ N = [1, 2] }}\n'
    assert [(each.name, each.macros) for each in planned(options, A_AND_B[:1])] == [
        ("solver/demo/a.cu[N=1]", (("N", "1"),)),
        ("solver/demo/a.cu[N=2]", (("N", "2"),)),
        ("solver[N=1]", (("N", "1"),)),
        ("solver[N=2]", (("N", "2"),)),
    ]


@pytest.mark.parametrize("value", ["3", "false"])
def test_a_source_of_a_module_does_not_define_what_its_variants_are_of(value: str) -> None:
    table = f'[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/*.cu"\ndefine = {{ N = {value} }}\n'
    (told,) = refusal(f"{SOLVER}variants = {{ N = [1, 2] }}\n{table}", A_AND_B)
    assert told.partition(": ")[2] == (
        "define.N would give N the same value in all variants of module 'solver'\n"
        "  hint: remove N from 'define' of this source, or from 'variants' of the module"
    )


def test_modules_share_an_object_that_is_compiled_alike() -> None:
    other = SOLVER.replace("solver", "other")
    names = [each.name for each in planned(f'archs = ["sm_90"]\n{SOLVER}{other}', A_AND_B, A_AND_B)]
    assert names == ["other", "solver", "solver/demo/a.cu", "solver/demo/b.cu"]
    apart = planned(f'archs = ["sm_90"]\n{SOLVER}{other}define = {{ N = 1 }}\n', A_AND_B, A_AND_B)
    assert len(apart) == 6


def test_ptx_is_linked_as_it_is_in_its_place() -> None:
    solver, a = planned(f'archs = ["sm_90"]\n{SOLVER}', ["demo/h.ptx", "demo/a.cu"])
    assert solver.link is not None
    assert (solver.source.path, solver.sources) == ("demo/a.cu", ["demo/h.ptx", "demo/a.cu"])
    assert (solver.link.objects, [text.path for text in solver.link.texts]) == ((a,), ["demo/h.ptx"])


def test_a_group_leaves_out_what_a_link_cannot_serve_and_says_so() -> None:
    modules = planned(f'archs = ["all-major"]\n{SOLVER}', ["demo/h.ptx", "demo/a.cu"])
    plan = unit_plan.plan_units(modules, TOOLCHAIN)
    assert [str(unit.arch) for unit in plan.units if unit.module.link] == ["sm_80", "sm_90", "sm_120"]
    assert plan.notes == (
        "demo/h.ptx: not built for sm_75, which cannot run PTX with .target sm_80",
        f"solver: not built for compute_120, because {NO_PTX}",
    )


@pytest.mark.parametrize(
    ("table", "members"),
    [
        (SOLVER.replace("lto", "rdc"), A_AND_B),
        (SOLVER, ["demo/a.cu", "demo/h.ptx"]),
        (f'{SOLVER}link = ["lib/x.cubin"]\n', A_AND_B),
    ],
    ids=["rdc", "a PTX source", "a file"],
)
def test_ptx_that_is_asked_for_by_name_is_of_lto_ir_alone(table: str, members: Sequence[str]) -> None:
    (told,) = refusal(f'archs = ["90"]\n{table}', members)
    assert told.partition("\n  ")[::2] == (
        f"pyproject.toml:12: solver cannot be linked for compute_90, because {NO_PTX}",
        'hint: in the module\'s table: archs = ["sm_90"]',
    )


def test_a_link_for_no_arch_at_all_is_refused() -> None:
    (no_arch,) = refusal(f'archs = ["compute_90"]\n{SOLVER}'.replace("lto", "rdc"), A_AND_B)
    assert (" compute_90" in no_arch, "hint" in no_arch) == (True, False)
    modules = planned(
        f'archs = ["all-major"]\n{SOLVER}',
        ["demo/h.ptx"],
        text=HELPERS.replace("8.0", "9.0").replace("sm_80", "sm_121a"),
    )
    with pytest.raises(ConfigError, match="solver cannot be linked for any of the requested archs"):
        unit_plan.plan_units(modules, TOOLCHAIN)
    with pytest.raises(ConfigError, match="cannot target sm_70"):
        unit_plan.plan_units(planned(f'archs = ["sm_70"]\n{SOLVER}', A_AND_B), TOOLCHAIN)


def test_what_a_source_table_cannot_say_of_a_linked_source_is_refused() -> None:
    rule = f'{SOURCE}path = "demo/a.cu"\nname = "x"\narchs = ["sm_80"]\nvariants = {{ N = [1] }}\n'
    place, table = "pyproject.toml", f"\n  hint: set it in {MODULE.strip()}"
    assert refusal(f'archs = ["sm_90"]\n{SOLVER}{rule}', A_AND_B) == [
        f"{place}:17: 'name' is a key for modules, but demo/a.cu is only a part of a linked module",
        f"{place}:18: 'archs' is a key for modules, but demo/a.cu is only a part of a linked module{table}",
        (
            f"{place}:19: 'variants' is a key for modules, but demo/a.cu is only a part of a "
            f"linked module{table}"
        ),
    ]


def test_a_name_is_one_modules_whatever_it_is_made_of() -> None:
    options = f'archs = ["sm_90"]\n{SOLVER}'
    modules = [each for each in planned(options, A_AND_B, more=["demo/solver.cu"]) if not each.part_of]
    (problem,) = shared_names.name_problems(modules, read_config(options))
    assert str(problem) == (
        "pyproject.toml:12: the module name 'solver' is already used by demo/solver.cu\n"
        "  hint: give one of the two modules another name"
    )


def test_a_table_can_be_for_a_source_that_is_linked_alone() -> None:
    rule = f'{SOURCE}path = "demo/b.cu"\ndefine = {{ N = 1 }}\n'
    assert len(planned(f'archs = ["sm_90"]\n{SOLVER}{rule}', A_AND_B)) == 3


def test_a_source_that_is_gone_since_it_was_found_is_left_out() -> None:
    config = read_config(f'archs = ["sm_90"]\n{SOLVER}')
    modules = linked_modules.plan_modules(
        config, [Source("demo/a.cu", "")], [A_AND_B], {("sm_90",): (Target(Arch(90)),)}
    )
    assert [each.name for each in modules] == ["solver", "solver/demo/a.cu"]
