"""Names that nothing defines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.advice import advise
from hatch_cubin.compiling.diagnostics import Explanation
from hatch_cubin.compiling.hints import undefined_names
from hatch_cubin.errors import CompileError
from tests.helpers import make_project, read_config, refusal

from .failed_compiles import TABLES, error, setting, table, undefined


def pre_included(header: str) -> str:
    return f'include <{header}>, which the source needs: options = {{ pre-include = ["{header}"] }}'


def test_a_type_that_nvcc_brings_unasked_names_the_option_that_brings_it_here(tmp_path: Path) -> None:
    told = undefined_names.undefined(
        [error("expected a declaration"), undefined("uint8_t", 2)], setting(tmp_path)
    )
    assert told is not None
    assert (told[0].text, told[0].context) == (
        'identifier "uint8_t" is undefined',
        ("and 1 more error after this error",),
    )
    assert told[0].hint == (
        'nvcc includes <cstdint> automatically, but NVRTC does not: options = { pre-include = ["cstdint"] }'
    )
    assert told[1] == []


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (
            "cstdint",
            "int64_t uintptr_t uint_fast8_t UINT32_MAX INT64_MIN SIZE_MAX INT_FAST16_MIN PTRDIFF_MIN",
        ),
        ("cmath", "INFINITY NAN HUGE_VAL HUGE_VALF M_PI M_PI_2 M_2_PI M_1_PI M_SQRT2 M_E M_LN10"),
        ("climits", "INT_MAX UINT_MAX CHAR_BIT LLONG_MIN ULLONG_MAX SCHAR_MIN"),
        ("sys/types.h", "uint ushort ulong"),
    ],
)
def test_what_nvcc_has_by_itself_is_named_with_its_header(tmp_path: Path, header: str, words: str) -> None:
    assert {hint_of(word, tmp_path) for word in words.split()} == {
        (
            f"nvcc includes <{header}> automatically, but NVRTC does not: options = "
            f'{{ pre-include = ["{header}"] }}'
        )
    }


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("cfloat", "FLT_MAX DBL_EPSILON FLT_TRUE_MIN DBL_MAX_10_EXP"),
        ("cuda_fp16.h", "half half2 __half __half2 __float2half __float2half_rn __half2float __hadd2"),
        ("cuda_bf16.h", "__nv_bfloat16 __nv_bfloat162 nv_bfloat16 __float2bfloat16"),
        ("cuda_fp8.h", "__nv_fp8_e4m3 __nv_fp8x4_e5m2"),
        ("cuda_pipeline.h", "__pipeline_commit"),
        ("curand_kernel.h", "curandState curand_init curandStatePhilox4_32_10_t"),
        ("math_constants.h", "CUDART_INF_F CUDART_PI"),
        ("cuComplex.h", "cuFloatComplex make_cuDoubleComplex cuCmulf"),
    ],
)
def test_what_a_header_has_is_named_with_it(tmp_path: Path, header: str, words: str) -> None:
    assert {hint_of(word, tmp_path) for word in words.split()} == {
        f'include <{header}>, which the source needs: options = {{ pre-include = ["{header}"] }}'
    }


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("limits", "numeric_limits"),
        ("type_traits", "is_same enable_if_t conditional_t remove_reference"),
        ("utility", "pair make_pair swap index_sequence"),
        ("tuple", "tuple make_tuple tie"),
        ("algorithm", "min max clamp"),
        ("cstring", "memcpy memset"),
    ],
)
def test_what_std_lacks_is_named_with_its_header(tmp_path: Path, header: str, words: str) -> None:
    there = setting(tmp_path)
    for text in ('namespace "std" has no member "{}"', 'namespace "std" has no member class "{}"'):
        hints = {
            hinted(undefined_names.undefined([error(text.format(word))], there)) for word in words.split()
        }
        assert hints == {
            (f'include <{header}>, which the source needs: options = {{ pre-include = ["{header}"] }}')
        }


def test_what_std_lacks_of_the_headers_that_nvcc_includes_is_named_with_those(tmp_path: Path) -> None:
    words = ["uint32_t", "sqrt", "fabs", "pow", "exp2f", "lround", "isnan", "sinf", "llrint"]
    lacks = [error(f'namespace "std" has no member "{word}"') for word in words]
    assert hinted(undefined_names.undefined(lacks, setting(tmp_path))) == (
        "nvcc includes <cstdint>, <cmath> automatically, but NVRTC does not: "
        'options = { pre-include = ["cstdint", "cmath"] }'
    )


@pytest.mark.parametrize(
    ("code", "header"),
    [("namespace cg = cooperative_groups;", "cooperative_groups.h"), ("nvcuda::wmma::fragment f;", "mma.h")],
)
@pytest.mark.parametrize(
    "text", ['name followed by "::" must be a class or namespace name', "name must be a namespace name"]
)
def test_a_namespace_is_read_where_the_error_points(
    tmp_path: Path, code: str, header: str, text: str
) -> None:
    at = code.index("cooperative" if "cooperative" in code else "nvcuda")
    shown = ("  argument types are: (int)", f"  {code}", f"  {' ' * at}^")
    told = undefined_names.undefined([error(text, "demo/a.cu", 1, *shown)], setting(tmp_path))
    assert hinted(told) == (
        f'include <{header}>, which the source needs: options = {{ pre-include = ["{header}"] }}'
    )


def test_a_namespace_that_is_nobodys_is_left_alone(tmp_path: Path) -> None:
    text = "name must be a namespace name"
    found = [error(text), error(text, "demo/a.cu", 1, "using namespace mine;", "                ^")]
    assert undefined_names.undefined(found, setting(tmp_path)) is None


def test_values_lead_to_errors_in_their_lines_alone(tmp_path: Path) -> None:
    found = [undefined("INFINITY", 2), undefined("FLT_MAX", 3), error("after", line=3), error("own", line=4)]
    told = undefined_names.undefined(found, setting(tmp_path))
    assert told is not None
    assert told[0].context == ("and 2 more errors after this error",)
    assert told[0].hint == (
        'include <cmath>, <cfloat>, which the source needs: options = { pre-include = ["cmath", "cfloat"] }'
    )
    assert [each.text for each in told[1]] == ["own"]


@pytest.mark.parametrize("there", ['"new"', '["new"]'])
def test_what_the_table_says_already_stays_in_the_line(tmp_path: Path, there: str) -> None:
    project = setting(tmp_path, f"options = {{ use-fast-math = true, pre-include = {there} }}")
    assert hinted(undefined_names.undefined([undefined("M_PI")], project)) == (
        "nvcc includes <cmath> automatically, but NVRTC does not: "
        'options = { use-fast-math = true, pre-include = ["new", "cmath"] }'
    )


def test_what_a_rule_of_the_source_includes_stays_in_its_lines_and_nothing_is_there_twice(
    tmp_path: Path,
) -> None:
    rule = f"{TABLES}\npath = '**/a.cu'\noptions = {{ pre-include = ['climits', 'cmath'] }}"
    assert hinted(
        undefined_names.undefined([undefined("M_PI"), undefined("int8_t")], setting(tmp_path, rule))
    ) == (
        "nvcc includes <cstdint> automatically, but NVRTC does not:"
        + table('options = { pre-include = ["climits", "cmath", "cstdint"] }')
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ("define = { FAST = false }", 10),
        (f"{TABLES}\npath = 'demo/a.cu'\ndefine = {{ FAST = false }}", 12),
        (f"define = {{ FAST = 1 }}\n{TABLES}\npath = 'demo/a.cu'\ndefine = {{ FAST = false }}", 13),
        (f"{TABLES}\npath = 'demo/a.cu'\nvariants = {{ FAST = [false] }}", 12),
    ],
)
def test_a_macro_that_false_leaves_undefined_is_told(tmp_path: Path, options: str, line: int) -> None:
    told = hinted(undefined_names.not_given([undefined("FAST")], setting(tmp_path, options)))
    assert told == (
        f"the value false in pyproject.toml:{line} leaves the macro undefined: write 0 in place of false, "
        "or test the macro with #ifdef"
    )


@pytest.mark.parametrize("name", ["FAST", "fast"])
def test_false_is_told_of_the_macro_in_the_first_error_alone(tmp_path: Path, name: str) -> None:
    failed = setting(tmp_path, f"define = {{ {name} = false }}")
    found = [undefined(name), undefined("OTHER", 2)]
    first = hinted(undefined_names.not_given(found, failed))
    assert (first or "").startswith("the value false in pyproject.toml:10 leaves")
    assert hinted(undefined_names.not_given(found[::-1], failed)) == (
        f'if this name is a macro, replace … by its value: define = {{ OTHER = "…", {name} = "…" }}'
    )


def test_what_is_called_is_not_a_macro_to_be_written_as_0(tmp_path: Path) -> None:
    called = error('identifier "FAST" is undefined', "demo/a.cu", 1, "if (FAST(p)) {}", "    ^")
    assert undefined_names.not_given([called], setting(tmp_path, "define = { FAST = false }")) is None


@pytest.mark.nvrtc
@pytest.mark.parametrize("line", ["define = { FAST = false }", "variants = { FAST = [false, 1] }"])
def test_false_in_the_table_of_a_linked_module_is_told_with_its_line(tmp_path: Path, line: str) -> None:
    code = 'extern "C" __global__ void k(int *x) { x[0] = FAST; }\n'
    header = TABLES.replace("source", "module")
    module = f"{header}\nname = 'm'\nmode = 'lto'\nsources = ['demo/a.cu']\n{line}"
    project = make_project(tmp_path, {"a.cu": code}, f'archs = ["sm_90"]\nsources = []\n{module}\n')
    (problem,) = refusal(CompileError, pipeline.build, project).problems
    number = (tmp_path / "pyproject.toml").read_text("utf-8").splitlines().index(line) + 1
    assert f"the value false in pyproject.toml:{number} leaves" in (problem.hint or "")


def test_false_in_the_projects_macros_is_not_the_cause_in_a_call_of_a_library(tmp_path: Path) -> None:
    failed = setting(tmp_path, "define = { FAST = false }")
    of_call = replace(failed, module=replace(failed.module, front="cupy"))
    assert failed.place_of_false("FAST") is not None
    assert of_call.place_of_false("FAST") is None


def test_names_written_as_macros_are_given_by_the_table(tmp_path: Path) -> None:
    found = [
        undefined("BLOCK_SIZE", 2),
        undefined("BLOCK_SIZE", 5),
        undefined("N", 3),
        error("after", line=3),
        error("own", line=4),
    ]
    told = undefined_names.not_given(found, setting(tmp_path, "define = { A = 1 }"))
    assert told is not None
    assert (told[0].where, told[0].context) == (found[0].where, ("and 3 more errors after this error",))
    line = 'define = { A = "1", BLOCK_SIZE = "…", N = "…" }'
    assert told[0].hint == f"if this name is a macro, replace … by its value: {line}"
    assert [each.text for each in told[1]] == ["own"]
    text = "namespace acme { struct N { float x; }; }\n"
    named = undefined_names.not_given([undefined("N", 3)], setting(tmp_path, text=text))
    assert named is not None
    hint = "N is a type: write its namespace before the name, or declare the type before this line"
    assert named[0].hint == hint
    assert read_config(line.replace("…", "4")).define == (("A", "1"), ("BLOCK_SIZE", "4"), ("N", "4"))


@pytest.mark.parametrize(
    "found",
    [
        undefined("flaot"),
        undefined("kBlock"),
        undefined("T"),  # no source compiles with that
        undefined("BLOCK", 1, "<nvrtc/cccl>/cub/a.cuh"),
        error('identifier "MIN" is undefined', "demo/a.cu", 1, "  x = MIN (1, 2);", "      ^"),
    ],
    ids=["a typo", "a constant", "reserved", "another's", "called"],
)
def test_what_no_table_can_give_is_not_asked_of_it(tmp_path: Path, found: object) -> None:
    assert undefined_names.not_given([found], setting(tmp_path)) is None  # type: ignore[list-item]
    assert undefined_names.undefined([found], setting(tmp_path)) is None  # type: ignore[list-item]


def hinted(told: Explanation | None) -> str | None:
    assert told is not None
    return told[0].hint


def hint_of(name: str, root: Path) -> str | None:
    return hinted(undefined_names.undefined([undefined(name)], setting(root)))


@pytest.mark.parametrize(
    ("code", "is_of_std"), [("complex<float> *x", True), ("complex <float>", True), ("complex(1)", False)]
)
def test_a_template_of_std_is_named_with_its_namespace(tmp_path: Path, code: str, *, is_of_std: bool) -> None:
    lacking = error('identifier "complex" is undefined', "demo/a.cu", 1, code, "^")
    told = undefined_names.undefined([lacking], setting(tmp_path))
    assert (told and told[0].hint) == (
        f"write std::complex; {pre_included('complex')}" if is_of_std else None
    )


@pytest.mark.parametrize(
    ("text", "code", "right"),
    [
        ('identifier "threadidx" is undefined', "x[threadidx.x] = 1;", "'threadIdx'"),
        ('identifier "uint8" is undefined', "uint8 *x", "'uint8_t'"),
        ('identifier "int_t" is undefined', "int_t *x", None),
        ('identifier "fprintf" is undefined', "fprintf(stderr, text);", None),
        ('explicit type is missing ("int" assumed)', "__gloabl__ void k() {}", "'__global__'"),
        ("expected a declaration", "__inline__ __device__ void f() {", None),
        (
            'identifier "__shfl_down" is undefined',
            "__shfl_down(x, 1)",
            "'__shfl_down_sync', with a mask of threads as its first argument",
        ),
        (
            'identifier "__shfl" is undefined',
            "__shfl(x, 1)",
            "'__shfl_sync', with a mask of threads as its first argument",
        ),
    ],
)
def test_a_misspelled_name_of_cuda_is_corrected(
    tmp_path: Path, text: str, code: str, right: str | None
) -> None:
    found = [error(text, "demo/a.cu", 1, code, "^"), error("follows", line=1), error("other", line=2)]
    told = undefined_names.misspelled(found, setting(tmp_path))
    if right is None:
        assert told is None
    else:
        assert told is not None
        assert told[0].hint == f"did you mean {right}?"
        assert told[1] == found[2:]


@pytest.mark.parametrize(
    ("scope", "name", "header"),
    [
        ("cooperative_groups", "reduce", "cooperative_groups/reduce.h"),
        ("cooperative_groups", "memcpy_async", "cooperative_groups/memcpy_async.h"),
    ],
)
def test_a_name_that_a_namespace_lacks_is_named_with_its_header(
    tmp_path: Path, scope: str, name: str, header: str
) -> None:
    lacking = error(f'namespace "{scope}" has no member "{name}"')
    assert hinted(undefined_names.undefined([lacking], setting(tmp_path))) == pre_included(header)
    included = setting(tmp_path, text=f"#include <{header}>\n")
    assert undefined_names.undefined([lacking], included) is None


def test_a_name_of_std_without_any_header_is_told_once(tmp_path: Path) -> None:
    code = ("__global__ void k(const std::array<float, 3> a) {", "                        ^")
    found = [error('explicit type is missing ("int" assumed)', "demo/a.cu", 1, *code), undefined("a")]
    (told,) = advise(found, setting(tmp_path))
    assert told.hint == 'include <array>, which the source needs: options = { pre-include = ["array"] }'
    other = error("qualified name is not allowed", "demo/a.cu", 1, "k(std::nothing a)", "  ^")
    assert undefined_names.undefined([other], setting(tmp_path)) is None


UNDER = "under [tool.hatch.build.hooks.cubin]: "
NO_NAMESPACE = 'name followed by "::" must be a class or namespace name'


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("cuda::std::array<int, 2>", "cuda/std/array"),
        ("cuda :: std :: span<int>", "cuda/std/span"),
        ("cuda::std::numeric_limits<int>::max()", "cuda/std/limits"),
        ("cuda::atomic_ref<int>", "cuda/atomic"),
        ("cuda::barrier<cuda::thread_scope_block>", "cuda/barrier"),
        ("cuda::ptx::mbarrier_init()", "cuda/ptx"),
        ("cub::BlockReduce<int, 128>", "cub/block/block_reduce.cuh"),
        ("cub::WarpMergeSort<int, 4>", "cub/warp/warp_merge_sort.cuh"),
        ("cub::BLOCK_LOAD_TRANSPOSE", "cub/block/block_load.cuh"),
        ("nvcuda::wmma::fragment<a>", "mma.h"),
    ],
)
def test_a_name_with_an_unknown_namespace_has_its_own_header(tmp_path: Path, name: str, header: str) -> None:
    found = [error(NO_NAMESPACE, "demo/a.cu", 1, f"{name} x;", "^"), error('expected a ";"')]
    (told,) = advise(found, setting(tmp_path))
    assert told.hint == pre_included(header)


@pytest.mark.parametrize(
    ("namespace", "name", "header"),
    [
        ("cuda", "barrier", "cuda/barrier"),
        ("cuda::std", "optional", "cuda/std/optional"),
        ("cub", "WarpReduce", "cub/warp/warp_reduce.cuh"),
    ],
)
def test_a_missing_member_of_cccl_has_its_own_header(
    tmp_path: Path, namespace: str, name: str, header: str
) -> None:
    (told,) = advise([error(f'namespace "{namespace}" has no member "{name}"')], setting(tmp_path))
    assert told.hint == pre_included(header)


@pytest.mark.parametrize(
    ("name", "namespace", "header"),
    [
        ("this_grid", "cooperative_groups", "cooperative_groups.h"),
        ("thread_block", "cooperative_groups", "cooperative_groups.h"),
        ("mma_sync", "nvcuda::wmma", "mma.h"),
        ("atomic_ref", "cuda", "cuda/atomic"),
        ("BlockReduce", "cub", "cub/block/block_reduce.cuh"),
    ],
)
def test_a_name_without_its_namespace_is_told_with_both_ways_to_write_it(
    tmp_path: Path, name: str, namespace: str, header: str
) -> None:
    found = [undefined(name), undefined("follows", 2)]
    written = f"write {namespace}::{name}, or put using namespace {namespace}; before this line"
    (told,) = advise(found, setting(tmp_path))
    assert (told.hint, told.context[-1]) == (
        f"{written}; {pre_included(header)}",
        "and 1 more error after this error",
    )
    (told,) = advise(found, setting(tmp_path, text=f"#include <{header}>\n"))
    assert told.hint == written


@pytest.mark.parametrize(
    ("alias", "namespace", "header"),
    [
        ("cg", "cooperative_groups", "cooperative_groups.h"),
        ("wmma", "nvcuda::wmma", "mma.h"),
        ("cde", "cuda::device::experimental", "cuda/barrier"),
    ],
)
def test_a_usual_alias_of_a_namespace_is_shown_with_its_declaration(
    tmp_path: Path, alias: str, namespace: str, header: str
) -> None:
    found = error(NO_NAMESPACE, "demo/a.cu", 1, f"{alias}::f();", "^")
    (told,) = advise([found], setting(tmp_path))
    declared = f"write namespace {alias} = {namespace}; before this line, outside of functions"
    assert told.hint == f"{declared}; {pre_included(header)}"
    inside = error(NO_NAMESPACE, "demo/a.cu", 1, f"mine::{alias}::f();", "      ^")
    assert undefined_names.unqualified([inside], setting(tmp_path)) is None


def test_a_name_that_only_the_std_of_cuda_has_is_told_with_that_namespace(tmp_path: Path) -> None:
    (told,) = advise([error('namespace "std" has no member "span"')], setting(tmp_path))
    assert told.hint == f"write cuda::std::span; {pre_included('cuda/std/span')}"


@pytest.mark.nvrtc
def test_a_group_without_header_and_namespace_compiles_once_the_hint_is_followed(tmp_path: Path) -> None:
    code = 'extern "C" __global__ void k() { this_thread_block().sync(); }\n'
    options = 'archs = ["sm_90"]\n'
    failed = refusal(CompileError, pipeline.build, make_project(tmp_path, {"a.cu": code}, options))
    (problem,) = failed.problems
    line = (problem.hint or "").rpartition(UNDER)[2]
    right = code.replace("this_thread", "cooperative_groups::this_thread")
    assert pipeline.build(make_project(tmp_path, {"a.cu": right}, f"{options}{line}\n"))


def test_a_name_of_cccl_without_its_header_is_told_once(tmp_path: Path) -> None:
    of_cub = error(NO_NAMESPACE, "demo/a.cu", 1, "cub::Sum r;", "^")
    told, other = advise([of_cub, error("expected a ;"), error("x", line=2)], setting(tmp_path))
    assert told.hint == (
        "include the header that declares this name, such as <cub/block/block_reduce.cuh> for BlockReduce"
    )
    assert (told.context[-1], other.text) == ("and 1 more error after this error", "x")
    unknown = error(NO_NAMESPACE, "demo/a.cu", 1, "mine::f();", "^")
    assert undefined_names.of_unknown_namespace([unknown], setting(tmp_path)) is None
    (of_thrust,) = advise([replace(of_cub, context=("thrust::reduce(x, y);", "^"))], setting(tmp_path))
    hint = "NVRTC does not compile Thrust: use <cuda/std/…> and <cub/block/…> for device code"
    assert of_thrust.hint == hint
