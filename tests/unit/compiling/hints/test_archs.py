"""Archs that a source compiles for, and archs that have an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.common.arch_names import parse_arch
from hatch_cubin.compiling.hints.archs import Archs
from hatch_cubin.config.toml_lines import setting
from hatch_cubin.errors import CompileError, render
from hatch_cubin.planning.unit_plan import Module, Unit
from hatch_cubin.project.source import Source
from tests.helpers import make_project, refusal

from .failed_compiles import TABLES, error, table

SUPPORTED = (75, 80, 90, 100, 103, 110, 120, 121)
MODULE = Module("a", Source("demo/a.cu", ""), source_table_header=TABLES)


def unit(arch: str, module: Module = MODULE) -> Unit:
    return Unit(module, parse_arch(arch))


def hint(
    *texts: str,
    failed: Sequence[str] = ("sm_80",),
    done: Sequence[str] = (),
    supported: Sequence[int] = SUPPORTED,
    works: str | None = None,
    module: Module = MODULE,
) -> str | None:
    """Return the hint for the first of the errors that a source has, once all candidates were tried.

    All of them compile, or those that *works* names.
    """
    found = [error(text) for text in texts]
    known = [(unit(arch, module), found) for arch in failed], [unit(arch, module) for arch in done], supported
    candidates = Archs(*known).candidates()
    tried = [each for each in candidates if works is None or str(each.arch) in works.split()]
    return Archs(*known, tried).advise(found[0], module).hint


def candidates(text: str, done: Sequence[str] = (), failed: Sequence[str] = ("sm_80",)) -> str:
    known = [(unit(arch), [error(text)]) for arch in failed], map(unit, done), SUPPORTED
    return " ".join(str(each.arch) for each in Archs(*known).candidates())


def pasted(*archs: str) -> str:
    return table(setting("archs", archs))


def not_supported(what: str) -> str:
    return f"{what} not supported on .target 'sm_80' (in the generated PTX)"


ALL_A = "sm_90a sm_100a sm_103a sm_110a sm_120a sm_121a"


def test_an_instruction_of_some_gpus_names_the_archs_that_compile_it() -> None:
    tcgen = not_supported("Instruction 'tcgen05.alloc'")
    assert candidates(tcgen) == ALL_A
    assert hint(tcgen, works="sm_100a sm_103a") == (
        f"the source compiles with these archs:{pasted('sm_100a', 'sm_103a')}"
    )
    assert hint(tcgen, works="sm_103a") == f"the source compiles with these archs:{pasted('sm_103a')}"


def test_an_instruction_that_a_later_gpu_cannot_run_any_more_is_like_one_it_never_had() -> None:
    gone = "Instruction 'wgmma.fence' cannot be compiled for architecture 'sm_120'"
    assert candidates(gone) == ALL_A


def test_what_a_toolkit_cannot_target_is_not_offered() -> None:
    assert hint(not_supported("Instruction 'wgmma.fence'"), supported=(75, 80)) is None


def test_what_needs_a_later_gpu_names_the_first_that_has_it() -> None:
    assert hint("Feature 'barrier.cluster.arrive' requires .target sm_90 or higher") == (
        f"the source compiles with these archs:{pasted('sm_90')}"
    )
    assert hint("Feature 'x' requires .target sm_82 or higher") == (
        f"the source compiles with these archs:{pasted('sm_90')}"
    )


def test_attributes_of_clusters_are_of_hopper_and_later() -> None:
    for attribute in ("__cluster_dims__", "__block_size__"):
        assert hint(f"{attribute} is not supported for this GPU architecture") == (
            f"the source compiles with these archs:{pasted('sm_90')}"
        )


def test_what_needs_a_later_gpu_and_its_own_code_names_that() -> None:
    wanted = ["sm_103a", "sm_110a", "sm_120a", "sm_121a"]
    assert hint("Feature 'x' requires .target sm_103a or higher") == (
        f"the source compiles with these archs:{pasted(*wanted)}"
    )


def test_what_was_tried_in_vain_is_not_offered() -> None:
    assert hint(not_supported("Instruction 'wgmma.fence'"), works="") is None


def test_nothing_is_tried_where_no_gpu_is_the_reason() -> None:
    assert candidates("#error directive: too old", done=["compute_90"]) == ""


def test_archs_that_fail_are_replaced_by_those_that_have_it_beside_those_that_compile() -> None:
    wgmma = not_supported("Instruction 'wgmma.fence'")
    assert candidates(wgmma, ["sm_80", "compute_80"], ["sm_90", "sm_100"]) == "sm_90a sm_100a"
    assert hint(wgmma, failed=["sm_90", "sm_100"], done=["sm_80", "compute_80"], works="sm_90a") == (
        f"the source compiles with these archs:{pasted('compute_80', 'sm_80', 'sm_90a')}"
    )


def test_no_arch_is_tried_for_ptx() -> None:
    module = Module("a", Source("demo/a.ptx", ""), source_table_header=TABLES)
    assert hint(not_supported("Instruction 'wgmma.fence'"), module=module) is None


def test_archs_that_compile_are_named_before_those_that_might() -> None:
    wgmma = not_supported("Instruction 'wgmma.fence'")
    compiles = f"the source compiles with these archs:{pasted('sm_90a')}"
    assert hint(wgmma, done=["sm_90a"]) == compiles
    assert hint("#error directive: too old", done=["sm_90", "compute_100"]) == (
        f"the source compiles with these archs:{pasted('sm_90', 'compute_100')}"
    )


def test_ptx_that_compiled_is_offered_for_it_was_assembled() -> None:
    wgmma = not_supported("Instruction 'wgmma.fence'")
    assert hint(wgmma, done=["compute_90"]) == f"the source compiles with these archs:{pasted('compute_90')}"


def test_an_arch_that_fails_for_another_variant_does_not_compile() -> None:
    other = Module("b", MODULE.source, source_table_header=TABLES)
    found = error("bad")
    archs = Archs([(unit("sm_80"), [found])], [unit("sm_80", other)], SUPPORTED)
    assert archs.advise(found, MODULE).hint is None


def test_a_hint_of_its_own_stays_and_another_is_for_where_no_arch_compiles() -> None:
    own, last = error("x"), error("y")
    archs = Archs([(unit("sm_80"), [own, last])], [], SUPPORTED)
    hinted = type(own)("error", own.where, "x", hint="do")
    otherwise = type(own)("error", own.where, "x", otherwise="else")
    assert [archs.advise(each, MODULE).hint for each in (hinted, otherwise, last)] == ["do", "else", None]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ('identifier "__reduce_add_sync" is undefined', 80),
        ('namespace "nvcuda::wmma" has no member "__float_to_tf32"', 80),
        (
            'incomplete type "nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 8, double>" is not allowed',
            80,
        ),
        ('namespace "cooperative_groups" has no member "this_cluster"', 90),
        ('identifier "__cluster_barrier_arrive" is undefined', 90),
        ('namespace "cuda::device::experimental" has no member "cp_async_bulk_global_to_shared"', 90),
        ('identifier "__ffma2_rn" is undefined', 100),
    ],
)
def test_what_headers_declare_from_an_arch_on_names_the_first(text: str, first: int) -> None:
    assert hint(text, failed=["sm_75"]) == f"the source compiles with these archs:{pasted(f'sm_{first}')}"
    assert hint(text, failed=["sm_75"], works="") is None  # it fails there too: for another reason


def test_an_overload_of_later_archs_is_known_by_its_arguments() -> None:
    types = "            argument types are: (float2 *, float2)"
    missing = error(
        'no instance of overloaded function "atomicAdd" matches the argument list', "a.cu", 1, types
    )
    failed = [(unit("sm_80"), [missing])]
    tried = Archs(failed, [], SUPPORTED).candidates()
    assert [str(each.arch) for each in tried] == ["sm_90"]
    advised = Archs(failed, [], SUPPORTED, tried).advise(missing, MODULE)
    assert str(advised.hint).startswith("the source compiles with these archs")


@pytest.mark.parametrize("number", [2, 3])
def test_of_many_sources_that_fail_for_one_reason_the_first_is_tried(number: int) -> None:
    modules = [
        Module(name, Source(f"demo/{name}.cu", ""), source_table_header=TABLES) for name in "abc"[:number]
    ]
    found = [error(f"{what} 'x' requires .target sm_90 or higher") for what in ("Modifier", "Feature")]
    failed = [(unit("sm_80", module), found[:index]) for index, module in enumerate(modules, start=1)]
    tried = Archs(failed, [], SUPPORTED).candidates()
    is_one = number == 3
    assert [each.module.name for each in tried] == (["a"] if is_one else ["a", "b"])
    advised = {Archs(failed, [], SUPPORTED, tried).advise(found[0], module).hint for module in modules}
    assert len(advised) == (1 if is_one else 2)
    assert any(str(each).endswith(pasted("sm_90")) for each in advised)


def test_sources_that_compile_with_different_archs_are_all_tried() -> None:
    later, own = "Feature 'x' requires .target sm_90 or higher", not_supported("Instruction 'wgmma.fence'")
    modules = [Module(name, Source(f"demo/{name}.cu", "")) for name in "abcd"]
    failed = [(unit("sm_80", module), [error(later)]) for module in modules[:2]]
    failed += [
        (unit("sm_80", modules[2]), [error(own)]),
        (unit("sm_75", modules[3]), [error(later)]),
    ]
    tried = Archs(failed, [], SUPPORTED).candidates()
    assert {each.module.name for each in tried} == {*"abcd"}


@pytest.mark.nvrtc
def test_many_sources_for_a_later_arch_are_one_message_with_a_table_that_compiles(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void k(int *n) {{ asm volatile("griddepcontrol.{};"); *n = 1; }}'
    files = {
        f"{name}.cu": text.format(what)
        for name, what in zip("abc", ("wait", "wait", "launch_dependents"), strict=True)
    }
    refused = refusal(CompileError, pipeline.build, make_project(tmp_path, files, 'archs = ["sm_80"]'))
    (message, _count) = render(refused, verbose=True)
    assert all(f"{name}:1" in message for name in files)
    pasted = dedent(str(refused.problems[0].hint).partition(":")[2])
    tables = "\n".join(pasted.replace("a.cu", f"{name}.cu") for name in "abc")
    assert pipeline.build(make_project(tmp_path, files, f'archs = ["sm_80"]\n{tables}'))


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("code", "before", "first"),
    [
        ("n[0] = __reduce_max_sync(~0u, 1);", "sm_75", "sm_80"),
        ("n[0] = __clusterIdx().x;", "sm_80", "sm_90"),
        ("atomicAdd(x, make_float2(1, 2));", "sm_80", "sm_90"),
    ],
)
def test_the_arch_that_is_named_compiles(tmp_path: Path, code: str, before: str, first: str) -> None:
    text = f'extern "C" __global__ void k(float2* x, int* n) {{ {code} }}'
    with pytest.raises(CompileError) as caught:
        pipeline.build(make_project(tmp_path, {"a.cu": text}, f'archs = ["{before}"]'))
    hint = str(caught.value.problems[0].hint)
    assert f'archs = ["{first}"]' in hint
    table = hint.partition(":")[2]
    assert pipeline.build(make_project(tmp_path, {"a.cu": text}, f'archs = ["{before}"]\n{dedent(table)}'))
