"""Stand-ins for the host's standard headers: sources that include those out of habit build as they are."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import shutil
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling.hints.host_code import about_header
from hatch_cubin.headers import search_path
from hatch_cubin.keys import jobs
from hatch_cubin.keys.jobs import Job
from hatch_cubin.project.project import read_sources
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit, compiler_options
from tests.helpers import make_project
from tests.host_includes import FROM_HABIT

pytestmark = pytest.mark.nvrtc

FOLDER = Path(search_path.__file__).with_name("host_headers")
SHIMS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*") if path.is_file())
OPTIONS = 'archs = ["compute_90"]\n'
KERNEL = '\nextern "C" __global__ void k(int *x) { *x = 1; }\n'


@pytest.fixture(scope="module")
def toolkit() -> Toolkit:
    return Toolkit(None)


def job_of(root: Path, toolkit: Toolkit, text: str, options: str = OPTIONS) -> Job:
    project = make_project(root, {"k.cu": text}, options)
    (job,) = jobs.make_jobs(project, read_sources(project), toolkit)
    return job


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory, toolkit: Toolkit) -> tuple[bytes, ...]:
    """Return what a source that needs the toolkit's headers is compiled with."""
    job = job_of(tmp_path_factory.mktemp("project"), toolkit, "#include <cstdint>" + KERNEL)
    return compiler_options(job.unit, toolkit, tuple(str(root.path) for root in job.search))


def compiled(text: str, options: tuple[bytes, ...], *more: str) -> tuple[str, str]:
    """Return the PTX of a source, or an empty text, and all that the compiler said, headers included."""
    task = {"id": 0, "kind": "c++", "code": text.encode(), "name": b"k.cu", "instantiate": []}
    result = worker.compile_task(
        task | {"options": [*options, *(each.encode() for each in more)], "ptx": True}
    )
    return result["ptx"].decode(), result["log"]


def forwards(shim: str) -> bool:
    """Say whether a shim does nothing but include libcu++'s header of that name."""
    included = {*re.findall(r"#include (\S+)", (FOLDER / shim).read_text())}
    return bool(included) and included <= {f"<cuda/std/{shim}>", '"_std.h"'}


@pytest.mark.parametrize("shim", [shim for shim in SHIMS if not forwards(shim)])
def test_a_shim_with_words_of_its_own_compiles_alone_and_twice_and_warns_of_nothing(
    options: tuple[bytes, ...], shim: str
) -> None:
    ptx, log = compiled(f"#include <{shim}>\n" * 2 + KERNEL, options)
    assert (bool(ptx), complaints(log)) == (True, [])


@pytest.mark.parametrize("order", [1, -1], ids=["forwards", "backwards"])
def test_all_shims_get_along_in_one_source(options: tuple[bytes, ...], order: int) -> None:
    """In both orders, since one alone costs a second wherever it forwards to libcu++."""
    lines = [
        f"#if __has_include(<cuda/std/{shim}>)\n#include <{shim}>\n#endif\n"
        if forwards(shim)  # an older libcu++ lacks some
        else f"#include <{shim}>\n"
        for shim in SHIMS[::order] * 2
    ]
    ptx, log = compiled("".join(lines) + KERNEL, options)
    assert ptx, log
    assert complaints(log) == []


# The headers of C, and those that C++ makes of them: what libraries for both include inside extern "C".
OF_C = [shim for shim in SHIMS if (shim[0] != "_" and shim.endswith(".h")) or f"{shim[1:]}.h" in SHIMS]
IN_C = """
extern "C" {
%s
__device__ int32_t shared(size_t n);
typedef struct { uint8_t bytes[CHAR_BIT]; ptrdiff_t at; clock_t when; float most; wint_t c; } record_t;
}
#include <type_traits>
static_assert(std::is_same<std::uint8_t, uint8_t>::value && FLT_MAX > 1 && UINT_MAX > 1, "");
extern "C" __global__ void k(record_t *to, const record_t *from) {
  memcpy(to, from, sizeof *to);
  to->most = std::fmax(INFINITY, fabs(-1.0));
}
"""


@pytest.mark.parametrize("shim", OF_C)
def test_a_header_of_c_can_be_included_inside_extern_c(options: tuple[bytes, ...], shim: str) -> None:
    ptx, log = compiled(f'extern "C" {{\n#include <{shim}>\n}}' + KERNEL, options)
    assert (bool(ptx), log) == (True, "")


def test_what_was_included_inside_extern_c_means_what_it_means_outside(options: tuple[bytes, ...]) -> None:
    ptx, log = compiled(IN_C % "\n".join(f"#include <{shim}>" for shim in OF_C), options)
    assert (bool(ptx), log) == (True, "")


FROM_C = """
#include <cctype>
#include <cerrno>
#include <cfenv>
#include <ciso646>
#include <cstdarg>
#include <cuchar>
#include <cwchar>
#include <memory.h>
__device__ int sum(int n, ...) {
  std::va_list rest, copy;
  va_start(rest, n);
  va_copy(copy, rest);
  int total = va_arg(rest, int) + va_arg(copy, int);
  va_end(copy);
  va_end(rest);
  return total;
}
extern "C" __global__ void k(int *to, const std::wint_t *from, char16_t c) {
  memcpy(to, from, 4);
  *to = sum(1, *to) + (std::isdigit(c) and not isspace(c));
}
"""


def test_what_c_has_of_words_characters_and_arguments_works_in_device_code(
    options: tuple[bytes, ...],
) -> None:
    ptx, log = compiled(FROM_C, options)
    assert (bool(ptx), log) == (True, "")


CLASSES = "alnum alpha blank cntrl digit graph lower print punct space upper xdigit"
SAME_CHARACTERS = """
constexpr int {name}_[] = {{{values}}};
__device__ constexpr bool same_{name}() {{
  for (int c = 0; c < 128; ++c)
    if ({name}(c) != {name}_[c]) return false;
  return !std::isalpha(-1) && !isspace(200);
}}
static_assert(same_{name}(), "");
"""


def test_characters_are_what_they_are_in_the_locale_of_c(options: tuple[bytes, ...]) -> None:
    libc = ctypes.CDLL(None)
    classes = [f"is{name}" for name in CLASSES.split()]
    values = {name: [int(libc[name](c) != 0) for c in range(128)] for name in classes}
    values |= {name: [libc[name](c) for c in range(128)] for name in ("tolower", "toupper")}
    asserted = [SAME_CHARACTERS.format(name=name, values=str(each)[1:-1]) for name, each in values.items()]
    ptx, log = compiled("\n".join(["#include <cctype>", *asserted, KERNEL]), options)
    assert (bool(ptx), log) == (True, "")


def complaints(log: str) -> list[str]:
    """Return what the compiler says of the shims themselves."""
    return re.findall(r"^\S*shims/.*", log, re.MULTILINE)


def macros_of(shim: str) -> set[str]:
    """Return the macros that a shim's own text leaves defined."""
    text = (FOLDER / shim).read_text()
    return {*re.findall(r"^#define (\w+)", text, re.MULTILINE)} - {
        *re.findall(r"^#undef (\w+)", text, re.MULTILINE)
    }


def test_a_shim_leaves_no_macro_that_its_standard_header_has_not() -> None:
    left = {shim: macros for shim in SHIMS if (macros := macros_of(shim))}
    assert left.keys() == {"cuda.h", "float.h", "inttypes.h", "math.h"}
    assert left["cuda.h"] == {"CUDA_VERSION"}
    assert all(
        re.fullmatch(r"(FLT|DBL)_(RADIX|DIG|EPSILON|(TRUE_)?MIN|MAX|M\w+_(EXP|DIG))", name)
        for name in left["float.h"]
    )
    assert all(
        re.fullmatch(r"PRI[dioxXu]((LEAST|FAST)?(8|16|32|64)|MAX|PTR)", name) for name in left["inttypes.h"]
    )
    constants = {name for name in left["math.h"] if name.startswith("M_")}
    assert left["math.h"] - constants == {"INFINITY", "NAN", "HUGE_VAL", "HUGE_VALF"}
    assert len(constants) == 13


def test_a_source_that_uses_the_hosts_headers_out_of_habit_builds_as_it_is(tmp_path: Path) -> None:
    warnings: list[str] = []
    project = make_project(tmp_path, {"usual.cu": FROM_HABIT}, 'archs = ["sm_90"]')
    project = dataclasses.replace(project, warn=warnings.append)
    assert "usual.sm_90.cubin" in pipeline.build(project)
    assert warnings == []


SAME = """
template <class A, class B> struct same { static constexpr bool value = false; };
template <class A> struct same<A, A> { static constexpr bool value = true; };
struct Half { __device__ operator float() const; };
namespace std { __device__ Half sqrt(Half); }
__device__ void check(float f, double d, int i, unsigned u, long l, long long q, short s, bool b, Half h) {
  int *p = &i; float *pf = &f; double *pd = &d;
"""
TYPES = {
    "float": """
        sqrt(f) fabs(f) abs(f) floor(f) round(f) exp2(f) lgamma(f) pow(f, f) fmax(f, f) nextafter(f, f)
        copysign(f, f) ldexp(f, 1) frexp(f, p) modf(f, pf) remquo(f, f, p) fma(f, f, f) hypot(f, f, f)
        sqrtf(f) fmaxf(f, f)
        """,
    "double": """
        sqrt(d) sqrt(i) sqrt(u) sqrt(l) sqrt(q) sqrt(s) sqrt(b) fabs(i) abs(d) floor(i) ceil(i)
        round(i) exp(i) log2(u) sin(q) nearbyint(i) rint(i) logb(i) erf(i) tgamma(i) cbrt(i)
        modf(d, pd) frexp(i, p) ldexp(i, 2) scalbn(i, 2) pow(d, i) pow(i, i) pow(f, d) pow(i, f)
        pow(i, d) fmax(f, d) fmax(d, f) fmax(f, 1) fmin(1, f) fmod(f, i) atan2(i, i) copysign(i, f)
        fdim(i, i) remainder(f, d) nextafter(i, 1) hypot(i, f) hypot(d, d, d) fma(i, f, d) fma(f, f, d)
        """,
    # Of a number's class the standard says bool. NVRTC's own functions, which a call without std::
    # has to find too, say int.
    "int": """
        isnan(f) isnan(d) isnan(i) isinf(f) isinf(q) isfinite(d) isfinite(u) signbit(f) signbit(i)
        abs(i) abs(s) ilogb(f) ilogb(d) ilogb(i)
        """,
    "long": "abs(l) labs(l) lround(f) lround(i) lrint(d)",
    "long long": "abs(q) llabs(q) llround(f) llrint(i)",
    "Half": "sqrt(h)",
}


def test_mathematics_has_the_types_of_the_standard(options: tuple[bytes, ...]) -> None:
    calls = {call: kind for kind, text in TYPES.items() for call in re.findall(r"\w+\([^)]*\)", text)}
    lines = [
        f'  static_assert(same<decltype(std::{call}), {kind}>::value, "");' for call, kind in calls.items()
    ]
    text = "\n".join(["#include <cmath>", "#include <cstdlib>", SAME, *lines, "}", KERNEL])
    ptx, log = compiled(text, options)
    assert ptx, log
    assert len(calls) == 87


def test_assertions_are_left_out_where_ndebug_says_so(options: tuple[bytes, ...]) -> None:
    text = '#include <cassert>\nextern "C" __global__ void k(int *x) { assert(*x > 1); }\n'
    with_them, _log = compiled(text, options)
    without, _log = compiled(text, options, "-DNDEBUG")
    assert ("__assertfail" in with_them, "__assertfail" in without) == (True, False)


@pytest.mark.parametrize("std", ["c++17", "c++20"])
def test_constants_do_not_depend_on_the_standard(options: tuple[bytes, ...], std: str) -> None:
    text = "#include <math.h>\nstatic_assert(INFINITY > M_E && -HUGE_VAL < 0 && NAN != NAN);" + KERNEL
    ptx, log = compiled(text, options, f"-std={std}")
    assert (bool(ptx), log) == (True, "")


def test_no_header_with_a_shim_is_said_to_be_for_host_code() -> None:
    assert [shim for shim in SHIMS if about_header(shim)] == []


# Keys and the search path


def test_a_changed_shim_changes_the_keys_of_what_includes_it(
    tmp_path: Path, toolkit: Toolkit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keys() -> list[bytes]:
        texts = ("#include <cstdint>" + KERNEL, "#include <math.h>" + KERNEL, KERNEL)
        return [job_of(tmp_path / "p", toolkit, text).keys.key for text in texts]

    before = keys()
    copy = shutil.copytree(FOLDER, tmp_path / "host_headers")
    monkeypatch.setattr(search_path, "_SHIMS", copy)
    assert keys() == before
    with (copy / "cstdint").open("a") as shim:
        shim.write("\n")
    assert [new == old for new, old in zip(keys(), before, strict=True)] == [False, True, True]


def test_shims_come_after_the_projects_headers_and_before_those_of_the_toolkits_wheels(
    tmp_path: Path, toolkit: Toolkit
) -> None:
    (tmp_path / "include").mkdir()
    job = job_of(tmp_path, toolkit, "#include <cuda.h>" + KERNEL, OPTIONS + 'include-dirs = ["include"]')
    order = [root.logical for root in job.search]
    assert order[0] == "project/include"
    of_wheels = [number for number, name in enumerate(order) if name.startswith("cuda/")]
    assert all(order.index("shims") < number for number in of_wheels)
    assert sorted(job.closure.files) == ["shims/cuda.h"]


def test_a_header_of_the_projects_own_hides_a_shim(tmp_path: Path, toolkit: Toolkit) -> None:
    (tmp_path / "include").mkdir()
    (tmp_path / "include/cstdint").write_text("")
    options = OPTIONS + 'include-dirs = ["include"]'
    job = job_of(tmp_path, toolkit, "#include <cstdint>\n#include <stdbool.h>" + KERNEL, options)
    assert sorted(job.closure.files) == ["project/include/cstdint", "shims/stdbool.h"]
