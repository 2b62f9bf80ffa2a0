"""Why an arch is built or not, and which of the planned archs a GPU would load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hatch_cubin.common import arch_names
from hatch_cubin.common.arch_names import Target
from hatch_cubin.explaining import arch_choice
from hatch_cubin.explaining.arch_choice import ArchRequest, GpuChoice
from hatch_cubin.planning import unit_plan
from hatch_cubin.planning.unit_plan import LinkRecipe, Module, Toolchain
from hatch_cubin.project.source import Source
from tests.helpers import COPY_PTX, pyproject, read_config

TOOLCHAIN = Toolchain("NVRTC 13.4.92", (75, 80, 89, 90, 100, 120), families=True)
K = Source("demo/k.cu", "")
COPY = Source("demo/copy.ptx", COPY_PTX)
RULES = """\
archs = [
  "all-major",
  "90",
]
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/fa*.cu"
archs = ["sm_90a"]
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/*.cu"
define = { N = 4 }
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/fast.cu"
archs = ["sm_100f", "sm_90a"]
"""


def expand(specs: Sequence[str]) -> tuple[Target, ...]:
    return arch_names.expand(specs, TOOLCHAIN.supported, (89,))


def requests_of(options: str, source: Source = K, *, archs: str = "") -> list[ArchRequest]:
    config = read_config(options, {"HATCH_CUBIN_ARCHS": archs})
    module = Module(source.stem, source)
    return arch_choice.arch_requests(config, module, TOOLCHAIN, expand)


def specs_and_archs(specs: Sequence[ArchRequest]) -> list[tuple[str, str]]:
    return [(str(each), " ".join(map(str, each.gives))) for each in specs]


FIRST_KEY_LINE = pyproject("").count("\n") + 1  # the line of a table's first key
ALL_MAJOR = "sm_75 sm_80 sm_90 sm_100 sm_120 compute_120"
REPLACES_GLOBAL = "in place of the global archs"


@pytest.mark.parametrize(
    ("options", "path", "archs", "specs"),
    [
        pytest.param("", "demo/k.cu", "", [("'all-major' (the default)", ALL_MAJOR)], id="default"),
        pytest.param(
            RULES,
            "demo/k.cu",
            "",
            [
                ("'all-major' (pyproject.toml:11)", ALL_MAJOR),
                ("'90' (pyproject.toml:12)", "sm_90 compute_90"),
            ],
            id="table",
        ),
        pytest.param(
            RULES,
            "demo/fall.cu",
            "",
            [(f"'sm_90a' (pyproject.toml:16, {REPLACES_GLOBAL})", "sm_90a")],
            id="source's own",
        ),
        pytest.param(
            RULES,
            "demo/fast.cu",
            "",
            [
                (f"'sm_100f' (pyproject.toml:22, {REPLACES_GLOBAL})", "sm_100f"),
                (f"'sm_90a' (pyproject.toml:22, {REPLACES_GLOBAL})", "sm_90a"),
            ],
            id="the last of the source's own",
        ),
        pytest.param(RULES, "demo/k.cu", "8.9", [("'8.9' (HATCH_CUBIN_ARCHS)", "sm_89")], id="variable"),
        pytest.param(
            RULES,
            "demo/fall.cu",
            "8.9",
            [(f"'sm_90a' (pyproject.toml:16, {REPLACES_GLOBAL})", "sm_90a")],
            id="the source's own before the variable",
        ),
        pytest.param(
            'archs = ["native"]', "demo/k.cu", "", [("'native' (pyproject.toml:10)", "sm_89")], id="native"
        ),
    ],
)
def test_every_arch_is_traced_to_the_spec_that_asks_for_it(
    options: str, path: str, archs: str, specs: list[tuple[str, str]]
) -> None:
    source = Source(path, "")
    explained = requests_of(options, source, archs=archs)
    assert specs_and_archs(explained) == specs
    others = [Source(f"demo/{name}.cu", "") for name in ("k", "fall", "fast")]
    config = read_config(options, {"HATCH_CUBIN_ARCHS": archs})
    rules = {config.archs, *(rule.archs for rule in config.source if rule.archs)}
    modules = unit_plan.plan_modules(config, others, {each: expand(each) for each in rules})
    planned = [
        unit.arch for unit in unit_plan.plan_units(modules, TOOLCHAIN).units if unit.module.source == source
    ]
    assert list(dict.fromkeys(arch for each in explained for arch in each.gives)) == planned


def test_ptx_gives_its_own_target_and_leaves_out_archs_that_it_cannot_serve() -> None:
    (group, named) = requests_of('archs = ["all-major", "90"]', COPY)
    assert specs_and_archs([group, named]) == [
        ("'all-major' (pyproject.toml:10)", "sm_80 sm_90 sm_100 sm_120 compute_80"),
        ("'90' (pyproject.toml:10)", "sm_90 compute_80"),
    ]
    reason = "demo/copy.ptx: not built for sm_75, which cannot run PTX with .target sm_80"
    assert (group.left_out, named.left_out) == (((arch_names.Arch(75), reason),), ())


@pytest.mark.parametrize(
    ("arch", "source", "answer"),
    [
        ("sm_80", K, (True, "'all-major' (pyproject.toml:10) includes this arch")),
        (
            "sm_90",
            K,
            (True, "'all-major' (pyproject.toml:10) and '90' (pyproject.toml:10) include this arch"),
        ),
        ("sm_89", K, (False, "no entry of archs (pyproject.toml:10) includes this arch")),
        (
            "sm_37",
            K,
            (False, "NVRTC 13.4.92 cannot target sm_37; this compiler can target 75 80 89 90 100 120"),
        ),
        (
            "sm_75",
            COPY,
            (False, "demo/copy.ptx: not built for sm_75, which cannot run PTX with .target sm_80"),
        ),
        ("sm_70", COPY, (False, "cannot be assembled for sm_70; because of: .target sm_80")),
        ("sm_89", COPY, (False, "no entry of archs (pyproject.toml:10) includes this arch")),
        (
            "compute_80",
            COPY,
            (True, "'all-major' (pyproject.toml:10) and '90' (pyproject.toml:10) include this arch"),
        ),
        (
            "compute_90",
            COPY,
            (False, "this source is PTX for compute_80, and PTX sources are shipped unchanged"),
        ),
    ],
)
def test_the_reason_why_one_arch_is_built_or_not(arch: str, source: Source, answer: tuple[bool, str]) -> None:
    specs = requests_of('archs = ["all-major", "90"]', source)
    assert arch_choice.explain_arch(arch_names.parse_arch(arch), source, TOOLCHAIN, specs) == answer


def test_an_arch_that_only_the_global_archs_have_is_not_built() -> None:
    """The global archs of RULES include sm_90, and the table of the source replaces the global archs."""
    specs = requests_of(RULES, Source("demo/fast.cu", ""))
    why = f"no entry of archs (pyproject.toml:22, {REPLACES_GLOBAL}) includes this arch"
    assert arch_choice.explain_arch(arch_names.parse_arch("sm_90"), K, TOOLCHAIN, specs) == (False, why)


ENTRIES = (("sm_80", 13000), ("sm_90", 13000), ("compute_75", 12080), ("compute_90", None))
MINOR, PTX = "same major, lower minor", "PTX, translated by the driver"


@pytest.mark.parametrize(
    ("cc", "driver", "loads"),
    [
        (90, None, GpuChoice("sm_90", "exact", 13000)),
        (89, 13000, GpuChoice("sm_80", MINOR, 13000)),
        (89, 12090, GpuChoice("compute_75", PTX, 12080)),
        (120, None, GpuChoice("compute_90", PTX, None)),
        (120, 13040, GpuChoice("compute_90", PTX, None)),
        (120, 13030, GpuChoice("compute_90", PTX, None, certain=False)),
        (120, 12000, GpuChoice("compute_90", PTX, None, certain=False)),
        (89, 12000, GpuChoice(None, needs=13000, why="with a newer driver, the GPU would load sm_80")),
        (70, None, GpuChoice(None)),
        (70, 13000, GpuChoice(None)),
    ],
)
def test_the_choice_for_a_gpu_is_the_choice_of_the_loader(
    cc: int, driver: int | None, loads: GpuChoice
) -> None:
    """The toolkit is 13.4. PTX that is not compiled yet may need any driver up to 13.4."""
    assert arch_choice.choose_for_gpu(cc, driver, ENTRIES, newest=13040) == loads


LINKED = """\
archs = ["all-major"]
[[tool.hatch.build.hooks.cubin.module]]
name = "own"
sources = ["k.cu"]
mode = "rdc"
archs = ["90-real", "all-major"]
[[tool.hatch.build.hooks.cubin.module]]
name = "other"
sources = ["k.cu"]
mode = "lto"
"""


@pytest.mark.parametrize("of", ["base", "part_of"])
def test_a_linked_module_is_built_for_the_archs_of_its_table(of: str) -> None:
    config = read_config(LINKED)

    def found(name: str) -> list[ArchRequest]:
        names = {"base": name, "part_of": ""} if of == "base" else {"base": f"{name}/k.cu", "part_of": name}
        module = Module(names["base"], K, part_of=names["part_of"])
        link = LinkRecipe("rdc", (module,), ()) if of == "base" else None
        return arch_choice.arch_requests(config, replace(module, link=link), TOOLCHAIN, expand)

    (named, group) = found("own")
    assert str(named) == f"'90-real' (pyproject.toml:{FIRST_KEY_LINE + 5}, {REPLACES_GLOBAL})"
    assert [str(arch) for arch, _why in group.left_out] == (["compute_120"] if of == "base" else [])
    assert [str(each) for each in found("other")] == [f"'all-major' (pyproject.toml:{FIRST_KEY_LINE})"]
