"""Planning: which modules and units there are, what they are called, and what is refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin.common import arch_names
from hatch_cubin.common.arch_names import Arch, Target
from hatch_cubin.common.digest import digest
from hatch_cubin.config.config import Config
from hatch_cubin.config.value_checks import MAX_VARIANTS
from hatch_cubin.errors import ConfigError, HatchCubinError, Location, Problem, problem
from hatch_cubin.planning.unit_plan import (
    AbsentSources,
    Module,
    Toolchain,
    UnitPlan,
    plan_modules,
    plan_units,
    unsupported_arch,
)
from hatch_cubin.project.source import Source
from tests.helpers import TABLE, found, make_project, pyproject, read_config, refusal

TOOLCHAIN = Toolchain("NVRTC 13.5.37", (75, 80, 86, 90, 100, 103, 120), families=True)
RULE = f"[[{'.'.join(TABLE)}.source]]"
FIRST = pyproject("").count("\n") + 1  # the line of a table's first key


def cu(*paths: str) -> list[Source]:
    return [Source(path, "") for path in paths]


def ptx(target: str, path: str = "demo/k.ptx") -> Source:
    return Source(path, f".version 9.4\n.target {target}\n")


def expanded(config: Config) -> Mapping[tuple[str, ...], tuple[Target, ...]]:
    specs = {config.archs, *(rule.archs for rule in config.source if rule.archs)}
    return {each: arch_names.expand(each, TOOLCHAIN.supported, ()) for each in specs}


def modules(options: str, *sources: Source) -> list[Module]:
    config = read_config(options)
    return plan_modules(config, sources, expanded(config))


def plan(archs: list[str], *sources: Source, toolchain: Toolchain = TOOLCHAIN) -> UnitPlan:
    return plan_units(modules(f"archs = {archs}", *sources), toolchain)


def refused(options: str, *sources: Source) -> list[Problem]:
    return list(refusal(HatchCubinError, lambda: plan_units(modules(options, *sources), TOOLCHAIN)).problems)


# --- modules --------------------------------------------------------------------------------------


def test_a_source_is_one_module_with_the_tables_settings() -> None:
    (module,) = modules(
        'archs = ["90"]\ndefine = { N = 4 }\noptions = { fma = true }\ninclude-dirs = ["inc"]',
        *cu("demo/red.cu"),
    )
    assert {field.name: getattr(module, field.name) for field in dataclasses.fields(Module)} == {
        "base": "red",
        "source": Source("demo/red.cu", ""),
        "variant": (),
        "define": (("N", "4"),),
        "options": {"fma": True},
        "include_dirs": ("inc",),
        "instantiate": (),
        "targets": (Target(Arch(90)), Target(Arch(90, kind="compute"))),
        "undefined": (),
        "setting_lines": {
            "sm_90": Location("pyproject.toml", FIRST),
            "compute_90": Location("pyproject.toml", FIRST),
            "fma": Location("pyproject.toml", FIRST + 2),
        },
        "source_table_header": RULE,
        "link": None,
        "part_of": "",
        "where": None,
        "front": "",
        "equal": (),
        "has_tile_code": False,
        "is_tile": False,
    }
    assert (module.name, module.file_stem, module.macros) == ("red", "red", (("N", "4"),))


def test_source_tables_merge_over_the_whole_table_and_later_ones_win() -> None:
    found = modules(
        f"""\
        archs = ["sm_90"]
        define = {{ A = 1, B = 2, C = 3 }}
        options = {{ fma = true, std = "c++17" }}
        include-dirs = ["one", "two"]
        {RULE}
        path = "**/*.cu"
        archs = ["sm_80"]
        define = {{ B = 20, D = 4 }}
        options = {{ std = "c++20", lineinfo = true }}
        include-dirs = ["three", "two"]
        instantiate = ["f<int>", {{ kernel = "{{k}}<int>", k = ["f", "g"] }}]
        variants = {{ X1 = [1], X2 = [2] }}
        {RULE}
        path = "demo/red.cu"
        name = "reduce"
        define = {{ C = false, D = 5 }}
        options = {{ lineinfo = false }}
        include-dirs = ["four"]
        instantiate = ["f<int>", "h<int>"]
        variants = {{ X2 = [3] }}
        """,
        *cu("demo/red.cu", "demo/other.cu"),
    )
    assert [
        (each.name, each.define, each.options, each.include_dirs, each.instantiate, each.targets)
        for each in found
    ] == [
        (
            "other[X1=1,X2=2]",
            (("A", "1"), ("B", "20"), ("C", "3"), ("D", "4")),
            {"fma": True, "std": "c++20", "lineinfo": True},
            ("three", "two", "one"),
            ("f<int>", "g<int>"),
            (Target(Arch(80)),),
        ),
        (
            "reduce[X1=1,X2=3]",
            (("A", "1"), ("B", "20"), ("D", "5")),
            {"fma": True, "std": "c++20", "lineinfo": False},
            ("four", "three", "two", "one"),
            ("f<int>", "g<int>", "h<int>"),
            (Target(Arch(80)),),
        ),
    ]


def test_a_later_table_that_defines_a_macro_wins_over_the_variants_of_an_earlier_one() -> None:
    table = f"""\
        {RULE}
        path = "**/*.cu"
        variants = {{ A = [1, 2], B = [3] }}
        {RULE}
        path = "demo/one.cu"
        define = {{ A = 7, B = false }}
        """
    found = modules(table, *cu("demo/one.cu", "demo/two.cu"))
    assert [(each.name, each.macros) for each in found] == [
        ("one", (("A", "7"),)),
        ("two[A=1,B=3]", (("A", "1"), ("B", "3"))),
        ("two[A=2,B=3]", (("A", "2"), ("B", "3"))),
    ]


def test_the_instantiations_of_all_tables_of_a_source_are_limited() -> None:
    rule = f"{RULE}\npath = 'a.cu'\ninstantiate = [{{{{ kernel = '{{}}<{{{{N}}}}>', N = '1..{{}}' }}}}]\n"
    most = rule.format("a", MAX_VARIANTS // 2) + rule.format("b", MAX_VARIANTS // 2)
    (module,) = modules(most, *cu("a.cu"))
    assert len(module.instantiate) == MAX_VARIANTS
    error = refusal(ConfigError, modules, most + rule.format("c", 1), *cu("a.cu"))
    assert found(error) == [("too-many-instantiations", "a.cu")]


def test_variants_are_one_module_per_combination() -> None:
    found = modules(
        f"""\
        define = {{ BLOCK = 1, N = 4 }}
        {RULE}
        path = "demo/red.cu"
        variants = {{ BLOCK = [128, 64], SCALAR = ["half", "float"] }}
        """,
        *cu("demo/red.cu"),
    )
    assert [(module.name, module.file_stem) for module in found] == [
        ("red[BLOCK=128,SCALAR=float]", "red.BLOCK-128.SCALAR-float"),
        ("red[BLOCK=128,SCALAR=half]", "red.BLOCK-128.SCALAR-half"),
        ("red[BLOCK=64,SCALAR=float]", "red.BLOCK-64.SCALAR-float"),
        ("red[BLOCK=64,SCALAR=half]", "red.BLOCK-64.SCALAR-half"),
    ]
    assert found[0].macros == (("BLOCK", "128"), ("N", "4"), ("SCALAR", "float"))


@pytest.mark.parametrize(
    "part",
    [
        *("con", "CON", "prn", "Aux", "nul", "com1", "COM9", "lpt0"),
        *("a.b", "a b", "é", "x" * 81, "a+b", "a,b"),
    ],
)
def test_a_name_that_some_file_system_cannot_hold_is_a_hash_in_files(part: str) -> None:
    (module,) = modules("", *cu(f"demo/{part}.cu"))
    assert (module.name, module.file_stem) == (part, digest([part])[:10])


@pytest.mark.parametrize("part", ["console", "com", "com10", "x" * 80, "a-b_C9"])
def test_a_name_that_every_file_system_can_hold_is_kept(part: str) -> None:
    (module,) = modules("", *cu(f"demo/{part}.cu"))
    assert module.file_stem == part


def test_a_variant_of_false_is_named_0_and_not_defined() -> None:
    options = f"define = {{ DBG = 2 }}\n{RULE}\npath = 'k.cu'\nvariants = {{ DBG = [true, false], N = [0] }}"
    off, on = modules(options, *cu("k.cu"))
    assert (off.name, off.macros) == ("k[DBG=0,N=0]", (("N", "0"),))
    assert (on.name, on.macros) == ("k[DBG=1,N=0]", (("DBG", "1"), ("N", "0")))


def test_only_the_part_of_a_variant_that_needs_it_is_hashed() -> None:
    (module,) = modules(
        f"{RULE}\npath = 'demo/red.cu'\nvariants = {{ BLOCK = [64], SCALAR = ['std::pair<int, 4>'] }}",
        *cu("demo/red.cu"),
    )
    assert module.name == "red[BLOCK=64,SCALAR=std::pair<int, 4>]"
    assert module.file_stem == f"red.BLOCK-64.{digest(['SCALAR-std::pair<int, 4>'])[:10]}"


def test_a_variant_with_many_parts_keeps_a_short_file_name() -> None:
    values = ", ".join(f"M{number} = ['{'v' * 30}']" for number in range(8))
    (module,) = modules(f"{RULE}\npath = '**/red.cu'\nvariants = {{ {values} }}", *cu("demo/red.cu"))
    assert module.file_stem == f"red.{digest([module.name])[:10]}"


@pytest.mark.parametrize(
    ("name", "path", "given"),
    [
        ("{parent}_{stem}", "demo/blas/dot.cu", "blas_dot"),
        ("k-{stem}", "demo/blas/dot.cu", "k-dot"),
        ("{stem}{stem}", "demo/a.b.cu", "a.ba.b"),
        ("{parent}", "dot.cu", ""),
        ("{", "dot.cu", "{"),
    ],
)
def test_a_name_for_many_sources_has_parts_of_each_ones_path(name: str, path: str, given: str) -> None:
    (module,) = modules(f"{RULE}\npath = '**/*'\nname = '{name}'", *cu(path))
    assert module.name == given


def test_a_source_table_that_matches_nothing_is_refused_with_its_line_and_a_guess() -> None:
    options = f"{RULE}\npath = 'demo/rde.cu'\n{RULE}\npath = 'zzz'\n{RULE}\npath = '*/red.cu'"
    assert refused(options, *cu("demo/red.cu")) == [
        problem(
            "pattern-matches-nothing",
            "path 'demo/rde.cu' does not match any source",
            Location("pyproject.toml", FIRST + 1),
            'path = "demo/red.cu"',
        ),
        problem(
            "pattern-matches-nothing",
            "path 'zzz' does not match any source",
            Location("pyproject.toml", FIRST + 3),
            "the sources are demo/red.cu",
        ),
    ]


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("red.cu", 'path = "src/demo/red.cu"'),
        ("demo/red.cu", 'path = "src/demo/red.cu"'),
        ("r*.cu", 'path = "src/demo/red.cu"'),
        ("*.cu", 'path = "**/*.cu"'),
        ("red", 'path = "src/demo/red.cu"'),
        ("rde.cu", 'path = "src/demo/red.cu"'),
    ],
)
def test_a_path_without_its_folders_is_told_with_them(path: str, hint: str) -> None:
    (problem,) = refused(f"{RULE}\npath = '{path}'", *cu("src/demo/red.cu", "src/demo/blue.cu"))
    assert problem.hint == hint


@pytest.mark.parametrize("path", ["demo/red.ptx", "**/red.ptx", "red.ptx"])
def test_a_source_table_for_excluded_files_is_to_be_deleted(path: str) -> None:
    config = read_config(f"exclude = ['**/*.ptx']\n{RULE}\npath = '{path}'")
    with pytest.raises(ConfigError) as caught:
        plan_modules(
            config, cu("demo/red.cu"), expanded(config), absent=AbsentSources(excluded=["demo/red.ptx"])
        )
    (found,) = caught.value.problems
    assert found.code == "pattern-matches-nothing"
    assert f"'exclude' at {Location('pyproject.toml', FIRST)} " in (found.hint or "")
    assert "delete this table" in (found.hint or "")


def test_a_path_that_is_not_whole_means_a_source_and_no_excluded_file() -> None:
    config = read_config(f"exclude = ['old/*']\n{RULE}\npath = 'red.cu'")
    with pytest.raises(ConfigError) as caught:
        plan_modules(
            config, cu("demo/red.cu"), expanded(config), absent=AbsentSources(excluded=["old/red.cu"])
        )
    assert [each.hint for each in caught.value.problems] == ['path = "demo/red.cu"']


def test_a_table_for_a_ptx_file_is_not_guessed_to_mean_a_cpp_source() -> None:
    (found,) = refused(f"{RULE}\npath = '**/red.ptx'", *cu("demo/red.cu"))
    assert found.hint == "the sources are demo/red.cu"


@pytest.mark.parametrize("key", ["instantiate = ['f<int>']", "variants = { N = [1] }"])
def test_ptx_can_have_neither_instantiations_nor_variants(key: str) -> None:
    found = refused(f"{RULE}\npath = 'demo/*'\n{key}", ptx("sm_80"), *cu("demo/red.cu"))
    assert found == [
        problem(
            "cpp-setting-for-ptx",
            "path 'demo/*' matches demo/k.ptx, which does not have templates or macros",
            Location("pyproject.toml", FIRST + 1),
            "'instantiate' and 'variants' are for .cu sources",
        )
    ]


@pytest.mark.parametrize("key", ["define = { N = 1 }", "include-dirs = ['inc']"])
def test_what_only_a_preprocessor_reads_is_not_for_ptx_alone(key: str) -> None:
    rule = f"{RULE}\npath = 'demo/k*'\n{key}"
    for table, sources in ((rule, (ptx("sm_80"), *cu("demo/red.cu"))), (key, (ptx("sm_80"),))):
        assert [each.code for each in refused(table, *sources)] == ["cpp-setting-for-ptx"]


# --- units ----------------------------------------------------------------------------------------


def test_a_unit_is_a_module_for_an_arch_and_names_its_file() -> None:
    units = plan(["sm_90a", "100f", "compute_90"], *cu("demo/red.cu")).units
    assert [(unit.name, unit.module.file_stem + unit.suffix) for unit in units] == [
        ("red for sm_90a", "red.sm_90a.cubin"),
        ("red for sm_100f", "red.sm_100f.cubin"),
        ("red for compute_100f", "red.compute_100f.ptx"),
        ("red for compute_90", "red.compute_90.ptx"),
    ]


@pytest.mark.parametrize(
    ("arch", "toolchain", "what", "more"),
    [
        ("sm_70", TOOLCHAIN, "cannot target sm_70", '; CUDA 12 can target sm_70 too: toolkit = "12.9"'),
        (
            "compute_50",
            TOOLCHAIN,
            "cannot target compute_50",
            '; CUDA 12 can target compute_50 too: toolkit = "12.9"',
        ),
        ("sm_37", TOOLCHAIN, "cannot target sm_37", ""),
        ("sm_71", TOOLCHAIN, "cannot target sm_71", ""),
        (
            "sm_101a",
            TOOLCHAIN,
            "cannot target sm_101a",
            '; CUDA 13 calls this arch sm_110; CUDA 12 can target sm_101a too: toolkit = "12.9"',
        ),
        ("sm_107", TOOLCHAIN, "cannot target sm_107", '; CUDA 13.5 can target sm_107 too: toolkit = "13.5"'),
        *(
            (
                arch,
                TOOLCHAIN,
                f"cannot target {arch}",
                f"; newer GPUs can run older PTX: use compute_120 in place of {arch}",
            )
            for arch in ("sm_130", "compute_200", "sm_130a")
        ),
        (
            "sm_100f",
            Toolchain("NVRTC 12.8.93", (75, 100), families=False),
            "cannot target sm_100f, because archs such as sm_100f need CUDA 12.9",
            '; CUDA 12.9 can target sm_100f too: toolkit = "12.9"',
        ),
    ],
)
def test_an_arch_that_the_toolkit_cannot_target_is_refused_with_those_it_can(
    arch: str, toolchain: Toolchain, what: str, more: str
) -> None:
    known = " ".join(map(str, toolchain.supported))
    expected = problem(
        "arch-not-supported", f"{toolchain.label} {what}", hint=f"this compiler can target {known}{more}"
    )
    assert unsupported_arch(arch_names.parse_arch(arch), toolchain) == expected
    with pytest.raises(ConfigError) as caught:
        plan(["sm_75", arch], *cu("a.cu", "b.cu"), toolchain=toolchain)
    assert caught.value.problems == (expected._replace(where=Location("pyproject.toml", FIRST)),)


CUDA_13 = Toolchain("NVRTC 13.0.88", (75, 88, 110, 121), families=True)
CUDA_12_6 = Toolchain("NVRTC 12.6.85", (50, 89, 90), families=False)
NONE_FOR_BOTH = "no CUDA release can target both {} and {}: remove one of them from 'archs'"


@pytest.mark.parametrize(
    ("archs", "toolchain", "more"),
    [
        (["sm_70", "sm_110"], CUDA_13, NONE_FOR_BOTH.format("sm_70", "sm_110")),
        (["sm_88", "sm_61"], CUDA_13, NONE_FOR_BOTH.format("sm_61", "sm_88")),
        (["sm_70", "all-major"], CUDA_13, 'CUDA 12 can target sm_70 too: toolkit = "12.9"'),
        (["sm_70", "sm_121"], CUDA_13, 'CUDA 12 can target sm_70 too: toolkit = "12.9"'),
        (["sm_100", "compute_103"], CUDA_12_6, 'CUDA 12.9 can target sm_100 too: toolkit = "12.9"'),
        (["sm_89", "sm_100"], CUDA_12_6, 'CUDA 12.8 can target sm_100 too: toolkit = "12.8"'),
    ],
)
def test_another_toolkit_is_named_only_if_it_can_compile_for_all_archs(
    archs: list[str], toolchain: Toolchain, more: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        plan(archs, *cu("a.cu"), toolchain=toolchain)
    assert str(caught.value.problems[0].hint).partition("; ")[2] == more


def test_an_arch_is_shown_where_it_was_asked_for() -> None:
    options = f"""\
        archs = [
            "sm_70",
            "9.0", "all"]
        {RULE}
        path = "**/b.cu"
        archs = ["sm_80", "6.0+PTX"]
        """
    assert [(problem.what, problem.where) for problem in refused(options, *cu("a.cu", "b.cu"))] == [
        ("NVRTC 13.5.37 cannot target sm_70", Location("pyproject.toml", FIRST + 1)),
        ("NVRTC 13.5.37 cannot target sm_60", Location("pyproject.toml", FIRST + 5)),
        ("NVRTC 13.5.37 cannot target compute_60", Location("pyproject.toml", FIRST + 5)),
    ]


def test_an_arch_that_a_variable_asked_for_is_told_with_the_variable() -> None:
    config = read_config("archs = ['sm_90']", {"HATCH_CUBIN_ARCHS": "sm_70"})
    assert config.replaced == {"archs": "HATCH_CUBIN_ARCHS"}
    found = plan_modules(config, [*cu("a.cu"), ptx("sm_90")], expanded(config))
    with pytest.raises(ConfigError) as caught:
        plan_units(found, TOOLCHAIN, config.replaced["archs"])
    assert [(str(each.where), each.what, each.details) for each in caught.value.problems] == [
        ("None", "HATCH_CUBIN_ARCHS: NVRTC 13.5.37 cannot target sm_70", ()),
        (
            "demo/k.ptx:2",
            "cannot be assembled for sm_70",
            ("because of: .target sm_90", "HATCH_CUBIN_ARCHS asks for sm_70"),
        ),
    ]


def test_an_arch_of_a_sources_own_is_shown_in_its_table_whatever_a_variable_says() -> None:
    table = f"{RULE}\npath = 'demo/*'\narchs = ['sm_70']"
    config = read_config(table, {"HATCH_CUBIN_ARCHS": "sm_90"})
    with pytest.raises(ConfigError) as caught:
        plan_units(plan_modules(config, cu("demo/a.cu"), expanded(config)), TOOLCHAIN, "HATCH_CUBIN_ARCHS")
    (problem,) = caught.value.problems
    assert (problem.what.startswith("HATCH"), problem.where is None) == (False, False)


def test_every_arch_that_cannot_be_built_is_refused_at_once() -> None:
    found = refused("archs = ['sm_70', 'sm_60', 'sm_80']", ptx("sm_90"), *cu("demo/red.cu"))
    assert [problem.what for problem in found] == [
        "cannot be assembled for sm_70",
        "cannot be assembled for sm_60",
        "cannot be assembled for sm_80",
        "NVRTC 13.5.37 cannot target sm_70",
        "NVRTC 13.5.37 cannot target sm_60",
    ]


def test_what_ptx_can_serve_of_the_archs_is_kept() -> None:
    source = Source("demo/k.ptx", ".version 8.0\n.target sm_80\n")
    for archs, kept in [
        ("'sm_75', 'sm_80', 'sm_90', 'sm_30'", '"sm_80", "sm_90"'),
        ("'75', '90', '90+PTX'".replace("90+PTX", "9.0+PTX"), '"compute_80", "sm_90"'),
        ("'sm_75'", '"sm_80"'),
    ]:
        found = refused(f"archs = [{archs}]", source)
        assert found[0].what == "cannot be assembled for sm_75"
        assert found[0].hint == (
            f"this table selects only archs that can run this PTX:\n    {RULE}\n"
            f'    path = "demo/k.ptx"\n    archs = [{kept}]'
        )


def test_ptx_that_a_named_arch_cannot_take_is_refused_with_the_line_that_forbids_it() -> None:
    source = Source("demo/k.ptx", ".version 8.0\n\n  .target sm_90a, debug\n")
    assert refused("archs = ['sm_90']", source) == [
        problem(
            "ptx-target-unsuitable",
            "cannot be assembled for sm_90",
            Location("demo/k.ptx", 3),
            (
                f"this table selects only archs that can run this PTX:\n    {RULE}\n"
                '    path = "demo/k.ptx"\n    archs = ["sm_90a"]'
            ),
            ("because of: .target sm_90a, debug",),
        )
    ]


@pytest.mark.parametrize("target", ["sm_70", "sm_100f"])
def test_of_ptx_that_the_toolkit_cannot_target_either_no_arch_is_offered(target: str) -> None:
    older = Toolchain("NVRTC 12.8", (75, 80, 90, 100), families=False)
    assert refusal(ConfigError, plan, ["sm_60"], ptx(target), toolchain=older).problems == (
        problem(
            "ptx-target-unsuitable",
            "cannot be assembled for sm_60",
            Location("demo/k.ptx", 2),
            None,
            (f"because of: .target {target}",),
        ),
    )


def test_ptx_leaves_out_what_a_group_asked_for_in_vain_and_says_so() -> None:
    made = plan(["all-major", "sm_86"], ptx("sm_86"))
    assert [str(unit.arch) for unit in made.units] == ["sm_90", "sm_100", "sm_120", "compute_86", "sm_86"]
    assert made.notes == (
        "demo/k.ptx: not built for sm_75, which cannot run PTX with .target sm_86",
        "demo/k.ptx: not built for sm_80, which cannot run PTX with .target sm_86",
    )


def test_ptx_ships_itself_once_under_its_own_target() -> None:
    made = plan(["compute_80", "compute_120", "sm_100f", "sm_103f"], ptx("sm_100f"))
    assert [unit.module.file_stem + unit.suffix for unit in made.units] == [
        "k.compute_100f.ptx",
        "k.sm_100f.cubin",
        "k.sm_103f.cubin",
    ]


def test_ptx_that_no_arch_of_a_group_can_take_is_refused() -> None:
    config = read_config("archs = ['all']")
    (module,) = plan_modules(config, [ptx("sm_90a")], {("all",): (Target(Arch(80), named=False),)})
    with pytest.raises(ConfigError) as caught:
        plan_units([module], TOOLCHAIN)
    assert [problem.what for problem in caught.value.problems] == [
        "none of the requested archs can run this PTX"
    ]


def test_ptx_without_a_header_is_refused_where_it_is_planned() -> None:
    (problem,) = refused("archs = ['sm_90']", Source("demo/k.ptx", "hello"))
    assert (problem.code, problem.where) == ("ptx-header-missing", Location("demo/k.ptx"))


def test_a_note_that_two_modules_share_is_said_once_per_source() -> None:
    made = plan(["all-major"], ptx("sm_80", "a.ptx"), ptx("sm_80", "b.ptx"))
    assert made.notes == tuple(
        f"{name}: not built for sm_75, which cannot run PTX with .target sm_80" for name in ("a.ptx", "b.ptx")
    )


def test_without_targets_there_are_no_units() -> None:
    config = read_config()
    made = plan_modules(config, cu("a.cu"), {config.archs: ()})
    assert plan_units(made, TOOLCHAIN) == UnitPlan(())


@pytest.mark.parametrize(
    ("options", "sources", "lines"),
    [
        ("options = { ftz = true }", "ptx", [FIRST]),
        ("options = { ftz = true }", "ptx cu", []),
        ("options = { fma = false, lineinfo = true }", "ptx", []),
        (f'{RULE}\npath = "*.ptx"\noptions = {{ prec-div = true }}', "ptx cu", [FIRST + 2]),
        (f'{RULE}\npath = "*"\noptions = {{ use_fast_math = true }}', "ptx cu", []),
        (f'{RULE}\npath = "k.cu"\noptions = {{ std = "c++17" }}', "ptx cu", []),
    ],
)
def test_an_option_that_ptxas_does_not_have_is_refused_for_ptx_alone(
    options: str, sources: str, lines: list[int]
) -> None:
    given = [ptx("sm_80", "a.ptx") if each == "ptx" else Source("k.cu", "") for each in sources.split()]
    found: list[Problem] = []
    try:
        modules(options, *given)
    except ConfigError as exc:
        found = [*exc.problems]
    assert [problem.where and problem.where.line for problem in found] == lines


@pytest.mark.parametrize(
    ("name", "why"), [("k.txt", "but is not a source: "), ("k.py", "this file is Python, but a source is ")]
)
def test_a_file_that_is_not_a_source_is_told_so(tmp_path: Path, name: str, why: str) -> None:
    config = make_project(tmp_path, {name: ""}, f"{RULE}\npath = 'demo/{name}'\n").config
    config.place.root = str(tmp_path)
    with pytest.raises(ConfigError) as caught:
        plan_modules(config, cu("demo/k.cu"), expanded(config))
    assert why in str(caught.value.problems[0].hint)
