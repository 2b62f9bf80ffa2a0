"""Which includes variants share: where they end, when that is safe, and that no byte depends on it."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.compiling import executor
from hatch_cubin.compiling import precompiled_headers as preludes_module
from hatch_cubin.compiling import tasks as tasks_module
from hatch_cubin.compiling.executor import Task
from hatch_cubin.compiling.precompiled_headers import (
    choose_header,
    end_of_includes,
    is_same_order,
    may_use_macros,
    order_of,
    saves_time,
    shared_includes,
)
from hatch_cubin.keys.edited_headers import header_stamps
from hatch_cubin.keys.jobs import Job, make_jobs
from hatch_cubin.project.project import read_sources
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.toolkit import worker as worker_module
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import make_project, write_tree

RULE = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/k.cu"\n'


@pytest.mark.parametrize(
    ("shared", "rest"),
    [
        ('#include "a.h"\n', "int x;\n"),
        ("#include <a>\n#include <b/c.cuh>  // why\n", "\n#define N 1\n#include <d>\n"),
        ("// one\n\n/* two\n * lines */ #include <a>\n", "/* int */ int x; /* #include <b> */\n"),
        ("\r\n  #  include <a> \r\n", "int x;\r\n"),
        ("#include <a>\n", "#ifdef N\n#include <b>\n#endif\n"),
        ("#include <a>\n", "#include MACRO\n"),
        ("#include <a>\n", "#include <b> /* begins here\n and ends here */\n"),
        ("#include <a>\n", "// no #include <b>\n"),
        ("", "#define N 1\n#include <a>\n"),
        ("", "#pragma once\n#include <a>\n"),
        ("", "/* open #include <a>\n"),
        ("", "#include <a> int x;\n"),
        ("", "// goes on \\\n#include <a>\n#include <b>\n"),
        ("", "// goes on ??/\n#include <a>\n"),
        ("", "#include <a>"),
        ("", ""),
    ],
)
def test_the_includes_end_where_anything_else_begins(shared: str, rest: str) -> None:
    assert end_of_includes(shared + rest) == len(shared)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("#if N > 4\n", True),
        ("template <int N> struct A;\n", True),
        ("#include PATH(x)\n", True),
        ("// N\n", True),
        ("PA\\\nTH", True),
        ("PA\\\r\nTH", True),
        ("PA??/\nTH", True),
        ("NN _N N_ N1 1N paths PATHS\n", False),
        ("", False),
    ],
)
def test_a_header_that_has_a_macros_name_anywhere_knows_it(text: str, *, named: bool) -> None:
    assert may_use_macros([(text.encode(), True)], ["N", "PATH(x)"]) is named


@pytest.mark.parametrize(
    ("texts", "known"),
    [
        ([("#define CAT(a, b) a##b\n", False), ("CAT(BLO, CK)", True)], True),
        ([("#define CAT(a) BLO ## a\n", True)], True),
        ([("#define CAT(a, b) a %:\\\n%: b\nCAT(BLO, CK)", False)], True),
        ([("#define CAT(a, b) a ??=??= b\nCAT(B, LOCK)", False)], True),
        ([("#define CAT(a, b) a##b\nCAT(BLO, C)", False)], False),
        ([("#define TEXT(a) #a\nTEXT(BLO) CK", True)], False),
        ([("BLO CK", False)], False),
    ],
)
def test_headers_that_can_paste_a_macros_name_together_know_it(
    texts: list[tuple[str, bool]], *, known: bool
) -> None:
    assert may_use_macros([(text.encode(), own) for text, own in texts], ["BLOCK"]) is known


FILES = {
    "k.cu": (
        "// many of one source\n"
        '#include "lib/a.h"\n'
        "#include <b.h>\n"
        "\n"
        "#ifndef BLOCK\n"
        "#define BLOCK 1\n"
        "#endif\n"
        'extern "C" __global__ void k(SCALAR *x) {\n'
        "  x[threadIdx.x] = two(x[BLOCK]) + static_cast<SCALAR>(b(BLOCK));\n"
        "}\n"
        "template <int N> __global__ void more(SCALAR *x) { *x = N + __LINE__; }\n"
    ),
    "lib/a.h": '#pragma once\n#include "c.h"\ntemplate <class V> __device__ V two(V v) { return v + c(); }\n',
    "lib/c.h": "#pragma once\n__device__ inline int c() { return __LINE__; }\n",
    "inc/b.h": "namespace { template <class V> __device__ V b(V v) { return v * 3; } }\n",
}
OPTIONS = f"""\
archs = ["sm_80", "sm_90", "compute_80"]
include-dirs = ["demo/inc"]
define = {{ GLOBAL = 3 }}
{RULE}variants = {{ BLOCK = [32, 64, false], SCALAR = ["float", "double"] }}
instantiate = ["more<4>", "more<BLOCK>"]
"""


V = "#pragma once\n#define HEADER(x) <x.h>\n#include HEADER(v)"


@pytest.fixture
def _worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preludes_module, "_WORTH_BYTES", 1)


def jobs_of(root: Path, files: dict[str, str], options: str = OPTIONS) -> list[Job]:
    project = make_project(root, files, options)
    return make_jobs(project, read_sources(project), Toolkit(None))


@pytest.mark.nvrtc
@pytest.mark.usefixtures("_worth_it")
def test_every_variant_of_a_source_shares_its_includes(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, FILES)
    end = FILES["k.cu"].index("\n#ifndef")
    assert shared_includes(jobs, ProjectTree(tmp_path), 1) == dict.fromkeys(range(18), end)


@pytest.mark.nvrtc
@pytest.mark.usefixtures("_worth_it")
@pytest.mark.parametrize(("workers", "shared"), [(1, 18), (4, 18), (5, 0)])
def test_where_each_worker_has_few_units_none_is_worth_it(tmp_path: Path, workers: int, shared: int) -> None:
    assert len(shared_includes(jobs_of(tmp_path, FILES), ProjectTree(tmp_path), workers)) == shared


@pytest.mark.parametrize(
    ("left", "held", "others", "chosen"),
    [
        ({1: "abc", 2: "ab", None: "abc"}, 2, [1, 2], 2),
        ({1: "abc", 2: "ab", None: "abc"}, None, [], 1),
        ({1: "abc", 2: "ab", None: "abc"}, 3, [1], 2),
        ({1: "abc", 2: "ab", None: "a"}, 3, [1, 2], None),
        ({1: "ab", 2: "abc", 3: "a"}, None, [1, 2, 3, 2], 2),
        ({None: "a"}, None, [], None),
        ({None: "a"}, 1, [1], None),
    ],
    ids=["its own", "the first", "nobody's", "none", "where most is left", "plain", "its own is done"],
)
def test_a_worker_goes_on_with_what_it_has_precompiled_and_keeps_off_that_of_others(
    left: dict[int | None, str], held: int | None, others: list[int], chosen: int | None
) -> None:
    assert choose_header(left, held, others) == chosen


@pytest.mark.parametrize(
    ("count", "held", "others", "worth_it"),
    [
        (1, 7, [], True),
        (4, None, [], True),
        (3, None, [], False),
        (8, None, [7], True),
        (7, None, [7], False),
        (8, 6, [7, 5, 5], True),
        (11, None, [7, 5, 7], False),
        (99, None, [1] * 7, True),
        (99, None, [1] * 8, False),
        (99, 6, [1] * 8, True),
    ],
)
def test_to_precompile_pays_where_a_worker_will_have_four_of_them(
    count: int, held: int | None, others: list[int], *, worth_it: bool
) -> None:
    """A ninth process that has done so would fill a disk; one that has done so already takes no more."""
    assert saves_time(7, count, held, others) is worth_it


@pytest.mark.nvrtc
def test_a_few_lines_are_not_worth_it(tmp_path: Path) -> None:
    assert shared_includes(jobs_of(tmp_path, FILES), ProjectTree(tmp_path), 1) == {}


def changed(name: str, old: str, new: str) -> dict[str, str]:
    assert old in FILES[name]
    return {**FILES, name: FILES[name].replace(old, new)}


@pytest.mark.nvrtc
@pytest.mark.usefixtures("_worth_it")
@pytest.mark.parametrize(
    ("files", "options"),
    [
        (changed("lib/c.h", "return __LINE__", "return BLOCK"), OPTIONS),
        (changed("lib/c.h", "#pragma once", "#ifdef SCALAR\n#endif"), OPTIONS),
        (changed("lib/c.h", "#pragma once", "#define CAT(a, b) a##b"), OPTIONS),
        (changed("lib/c.h", "#pragma once", "#define D(x) #x\n#include D(b.h)"), OPTIONS),
        (changed("lib/c.h", "#pragma once", "#define D(x) <x>\n#include D(BLOCK)"), OPTIONS),
        (FILES | {"inc/v.h": "BLOCK"} | changed("lib/c.h", "#pragma once", V), OPTIONS),
        (FILES, OPTIONS.replace("GLOBAL = 3", '"GLOBAL(a)" = "<BLOCK/a>"')),
        (changed("k.cu", "// many", "#define MANY //"), OPTIONS),
        (FILES, OPTIONS.replace("[32, 64, false]", "[32]")),
        (FILES, OPTIONS.replace('"double"', '"double /* */"')),
        (FILES, OPTIONS.replace("BLOCK =", "_BLOCK =").replace(', "more<BLOCK>"', "")),
        (FILES, OPTIONS.replace(RULE, "options = { lineinfo = true }\n" + RULE)),
        (FILES, OPTIONS.replace(RULE, 'options = { pre-include = "stdint.h" }\n' + RULE)),
        (FILES, OPTIONS.replace(RULE, 'options = { undefine-macro = "BLOCK" }\n' + RULE)),
        (FILES, OPTIONS.replace("GLOBAL = 3", 'GLOBAL = "(BLOCK + 1)"')),
        (FILES, OPTIONS.replace("GLOBAL = 3", '"GLOBAL(a)" = "BLO ## a"')),
        ({"k.cu": "__global__ void k(SCALAR *x) {}"}, OPTIONS.replace('include-dirs = ["demo/inc"]', "")),
        ({"k.cu": FILES["k.cu"]}, 'archs = ["sm_80", "sm_90", "sm_100", "sm_120"]'),
    ],
    ids=[
        *("named in code", "named in a directive", "pasted", "unknown include"),
        *("named by an include", "named in a computed include", "named by a call", "not first"),
        *("few", "odd value", "of the compiler", "lines", "pre-included", "undefined", "named by a macro"),
        *("pasted by a macro", "no includes", "no variants"),
    ],
)
def test_where_a_byte_could_depend_on_it_nothing_is_shared(
    tmp_path: Path, files: dict[str, str], options: str
) -> None:
    assert shared_includes(jobs_of(tmp_path, files, options), ProjectTree(tmp_path), 1) == {}


@pytest.mark.nvrtc
@pytest.mark.usefixtures("_worth_it")
@pytest.mark.parametrize("text", ['#define D "../inc/b.h"\n#include D', V])
def test_headers_that_macros_name_are_shared_where_it_is_known_which(tmp_path: Path, text: str) -> None:
    files = {**changed("lib/c.h", "#pragma once", text), "inc/v.h": ""}
    assert len(shared_includes(jobs_of(tmp_path, files), ProjectTree(tmp_path), 1)) == 18


@pytest.mark.nvrtc
@pytest.mark.usefixtures("_worth_it")
def test_a_header_that_is_gone_meanwhile_is_left_to_the_compiler(tmp_path: Path) -> None:
    jobs = jobs_of(tmp_path, FILES)
    (tmp_path / "demo/lib/c.h").unlink()
    assert shared_includes(jobs, ProjectTree(tmp_path), 1) == {}


@pytest.fixture
def header(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the precompiled header that this process has instead of a worker's."""
    header: Any = worker_module._Header()
    header.folder = tmp_path / "scratch"
    header.folder.mkdir()
    monkeypatch.setattr(worker_module, "_header", header)
    yield header
    header.forget()


@pytest.fixture
def includes(tmp_path: Path) -> str:
    """Return what includes a header: the compiler finds it in another folder than that for its own file."""
    folder = tmp_path / "include"
    write_tree(folder, {"a.h": FILES["lib/c.h"], "w.h": "__device__ inline int w() { int u; return 1; }\n"})
    return f'#include "{folder}/a.h"\n'


def task(rest: str, includes: str, number: int = 1) -> dict[str, Any]:
    """Return a task as the executor sends it."""
    options = [b"-arch=sm_90", b"--frandom-seed=x"]
    behind = f'#define N 4\n#line {includes.count(chr(10)) + 1} "demo/k.cu"\n{rest}'
    return {
        "id": 7,
        "kind": "c++",
        "code": f'#line 1 "demo/k.cu"\n{includes}{rest}'.encode(),
        "name": b"/proc/self/fd/77/demo/k.cu",
        "options": [*options, b"-DN=4"],
        "instantiate": [b"f<N>"],
        "precompiled_header": (number, includes.encode(), options, behind.encode()),
    }


KERNEL = "template <int M> __global__ void f(int *x) { assert(*x == M); *x = N + __LINE__; }\n"


def results(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    return [{**worker_module.compile_task(each), "seconds": None, "shared": None} for each in tasks]


def without(*tasks: dict[str, Any]) -> list[dict[str, Any]]:
    """Return what the plain compiles give."""
    return results(*({**each, "precompiled_header": None} for each in tasks))


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_precompiled_header_changes_no_byte_and_leaves_no_file(header: Any, includes: str) -> None:
    tasks = [task(KERNEL, includes), task("\n" + KERNEL, includes), task(KERNEL, "\n" + includes, 2)]
    for number, each in zip((1, 1, 2), tasks, strict=True):
        assert results(each) == without(each)
        assert (header.number, header.path is not None) == (number, True)
    assert list(header.folder.iterdir()) == []


@pytest.mark.nvrtc
@pytest.mark.linux
@pytest.mark.parametrize("rest", ["\n#define N 5\n" + KERNEL, KERNEL + "bogus\n"], ids=["warning", "error"])
def test_a_source_that_has_something_to_say_is_compiled_plainly(
    header: Any, includes: str, rest: str
) -> None:
    """The compiler speaks of the lines that it was given."""
    tasks = [task(rest, includes)] * 2
    assert results(*tasks) == without(*tasks)
    assert (header.number, header.path) == (1, None)


@pytest.mark.nvrtc
@pytest.mark.linux
def test_warnings_of_headers_are_told_with_every_variant(header: Any, includes: str) -> None:
    tasks = [task(KERNEL, includes.replace("a.h", "w.h"))] * 2
    found = results(*tasks)
    assert found == without(*tasks)
    assert header.path is not None
    assert ['variable "u" was declared but' in each["log"] for each in found] == [True, True]


@pytest.mark.nvrtc
@pytest.mark.linux
@pytest.mark.parametrize("trouble", ["folder", "heap", "disk", "old"])
def test_where_a_header_cannot_be_precompiled_it_is_compiled(
    monkeypatch: pytest.MonkeyPatch, header: Any, includes: str, trouble: str
) -> None:
    resource = pytest.importorskip("resource")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    if trouble == "folder":
        header.folder.rmdir()
    elif trouble == "heap":
        monkeypatch.setattr(worker_module, "_HEAP_BYTES", 1 << 16)
    elif trouble == "old":
        from cuda.bindings import nvrtc

        monkeypatch.delattr(nvrtc, "nvrtcSetPCHHeapSize")
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, limits[1]))
    tasks = [task(KERNEL, includes)] * 2
    try:
        found = results(*tasks)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert found == without(*tasks)
    assert header.path is None
    assert not header.folder.is_dir() or list(header.folder.iterdir()) == []


@dataclasses.dataclass
class Builds:
    """The same project, built with precompiled headers and without, and the headers that each worker got."""

    root: Path
    patch: pytest.MonkeyPatch
    given: list[tuple[object, int | None]] = dataclasses.field(default_factory=list)

    def run(
        self,
        files: dict[str, str],
        options: str,
        jobs: int,
        before: Callable[[Task], None] = lambda _task: None,
    ) -> list[dict[str, bytes]]:
        real, bundles = executor._CompilerProcess.give, []

        def give(worker: Any, task: Task) -> None:
            before(task)
            self.given.append(
                (worker, None if task.precompiled_header is None else task.precompiled_header.id)
            )
            real(worker, task)

        self.patch.setattr(tasks_module, "_FIRST_WITH_PRECOMPILED_HEADERS", (99, 0))
        bundles.append(self._build("plain", files, options, jobs))
        self.patch.undo()
        self.patch.setattr(preludes_module, "_WORTH_BYTES", 1)
        self.patch.setattr(executor._CompilerProcess, "give", give)
        bundles.append(self._build("shared", files, options, jobs))
        return bundles

    def _build(self, cache: str, files: dict[str, str], options: str, jobs: int) -> dict[str, bytes]:
        environ = {"HATCH_CUBIN_CACHE_DIR": str(self.root / cache), "HATCH_CUBIN_JOBS": str(jobs)}
        project = make_project(self.root / "project", files, options, **environ)
        return pipeline.build(dataclasses.replace(project, warn=lambda _text: None))


@pytest.fixture
def builds(tmp_path: Path) -> Iterator[Builds]:
    """Return what builds a project in two ways."""
    with pytest.MonkeyPatch.context() as patch:
        yield Builds(tmp_path, patch)


@pytest.mark.nvrtc
@pytest.mark.linux
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_build_with_precompiled_headers_is_the_build_without(builds: Builds, jobs: int) -> None:
    """And no header is precompiled twice, where two processes have three to do."""
    options = OPTIONS.replace('"compute_80"', '"compute_80", "sm_100"')  # a cubin and PTX come of one compile
    plain, shared = builds.run(FILES, options, jobs)
    assert plain == shared
    precompiled_headers = [precompiled_header for worker_module, precompiled_header in builds.given]
    assert len(precompiled_headers) == 18
    assert sorted(
        precompiled_header
        for worker_module, precompiled_header in {*builds.given}
        if precompiled_header is not None
    ) == [0, 6, 12]
    assert (jobs, None in precompiled_headers) in {
        (1, False),
        (2, True),
        (2, False),
    }  # who has nothing else to do helps


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_header_that_is_edited_and_restored_meanwhile_is_not_what_was_precompiled(builds: Builds) -> None:
    """NVRTC does not look at the headers again."""
    path, text = builds.root / "project/demo/lib/c.h", FILES["lib/c.h"]
    edits = iter([text.replace("__LINE__", "7777"), text])

    def edit(task: Task) -> None:
        if task.precompiled_header is not None or len(builds.given) < 2:
            path.write_text(next(edits, text))

    options = OPTIONS.replace('"sm_80", "sm_90", "compute_80"', '"sm_90"')
    plain, shared = builds.run(FILES, options, 1, before=edit)
    assert plain == shared
    assert len(builds.given) > 6  # some were compiled again


# A template that a header's own function uses is instantiated where the source uses it too, if the header is
# precompiled, and else at the end: before or behind what the source alone uses.
ORDERED = {
    "k.cu": ('#include "slots.h"\nextern "C" __global__ void k(int *x) { *x = BODY; }\n'),
    "slots.h": (
        "#pragma once\n"
        "template <class V> __device__ int slot() { static __device__ int of; return of += sizeof(V); }\n"
        "__device__ inline int of_header() { return slot<int>(); }\n"
        "template <class V> __device__ int later = sizeof(V);\n"
        "__device__ inline __noinline__ int far(int x) { return x * x; }\n"
    ),
}
IN_ORDER = "slot<int>() + later<char>++"


@pytest.mark.nvrtc
@pytest.mark.linux
def test_precompiled_headers_alone_would_change_the_order_of_variables(header: Any, tmp_path: Path) -> None:
    write_tree(tmp_path, {"slots.h": ORDERED["slots.h"]})
    rest = ORDERED["k.cu"].partition("\n")[2].replace("BODY", IN_ORDER)
    each = task(rest, f'#include "{tmp_path}/slots.h"\n')
    number, before, _options, behind = each["precompiled_header"]
    options = [b"-arch=sm_90"]
    ptx = {"ptx": True, "options": options, "instantiate": []}
    (shared,), (plain,) = (
        do({**each, **ptx, "precompiled_header": (number, before, options, behind)})
        for do in (results, without)
    )
    assert header.path is not None
    order = [re.findall(rb"^\.global .* (_\w+)", each["ptx"], re.MULTILINE) for each in (shared, plain)]
    assert order == [[b"_ZZ4slotIiEivE2of", b"_Z5laterIcE"], [b"_Z5laterIcE", b"_ZZ4slotIiEivE2of"]]
    assert order_of(shared["ptx"], is_ptx=True) != order_of(plain["ptx"], is_ptx=True)


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_source_whose_order_would_change_is_compiled_plainly(builds: Builds) -> None:
    variants = f'{{ N = [1, 2, 3, 4, 5], BODY = ["{IN_ORDER}"] }}'
    options = f'archs = ["compute_90", "compute_80"]\n{RULE}variants = {variants}\n'
    plain, shared = builds.run(ORDERED, options, 1)
    assert plain == shared
    assert [precompiled_header for worker_module, precompiled_header in builds.given] == [0] + [
        None
    ] * 10  # the first of them twice


@pytest.mark.nvrtc
@pytest.mark.linux
def test_what_came_in_the_same_order_twice_is_believed(builds: Builds) -> None:
    """A constant makes no other order, a function more does."""
    bodies = ["*x + own", "2 * own", "far(*x) + own", "far(3 * *x) + own"]
    files = {**ORDERED, "k.cu": ORDERED["k.cu"].replace("extern", "static __device__ int own;\nextern")}
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ BODY = {bodies} }}\n'.replace("'", '"')
    plain, shared = builds.run(files, options, 1)
    assert plain == shared
    assert [precompiled_header for worker_module, precompiled_header in builds.given] == [
        0,
        None,
        0,
        0,
        None,
        0,
    ]


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_number_that_the_headers_use_themselves_is_another_order(builds: Builds) -> None:
    files = {
        "k.cu": ORDERED["k.cu"],
        "slots.h": ORDERED["slots.h"]
        .replace("<class V> __device__ int slot", "<int V> __device__ int slot")
        .replace("sizeof(V); }", "V; }")
        .replace("slot<int>", "slot<9>"),
    }
    bodies = [f"slot<{number}>() + later<char>++" for number in (3, 4, 5, 6, 9)]
    options = f'archs = ["compute_90"]\n{RULE}variants = {{ BODY = {bodies} }}\n'.replace("'", '"')
    plain, shared = builds.run(files, options, 1)
    assert plain == shared
    assert len(builds.given) > len(bodies)  # what was doubted, again


ENTRY = ".visible .entry k(\n)\n{\n\t.shared .align 4 .b8 mine[4];\n\t.reg .b32 %r<2>;\n"


@pytest.mark.parametrize(
    ("ptx", "order"),
    [
        (ENTRY, ()),
        ("// .global is what follows\n", ()),
        (
            ".extern .func  (.param .b32 r) f(\n" + ENTRY,
            ((".extern .func  (.param .b32 r) f(", True), (".visible .entry k(", False)),
        ),
        (
            ".global .align 4 .u32 b;\n.visible .const .align 4 .f32 a[4];\n",
            ((".global .align 4 .u32 b;", False), (".visible .const .align 4 .f32 a[4];", False)),
        ),
        (".global .align 4 .u32 _ZZ1fvE1s = 7;\n", ((".global .align 4 .u32 _ZZ1fvE1s = 7;", True),)),
        (".extern .shared .align 16 .b8 all[];\n", ((".extern .shared .align 16 .b8 all[];", False),)),
    ],
)
def test_the_order_of_a_ptx_is_that_of_what_is_not_a_kernels_own(
    ptx: str, order: tuple[tuple[str, bool], ...]
) -> None:
    assert order_of(b".version 9.0\n" + ptx.encode(), is_ptx=True) == order


@pytest.mark.parametrize(("output", "is_ptx"), [(b"", False), (b".global \xff", True)])
def test_what_cannot_be_read_is_in_an_order_of_its_own(output: bytes, *, is_ptx: bool) -> None:
    assert order_of(output, is_ptx=is_ptx) == (("unreadable", True),)


def variables(*names: str) -> tuple[tuple[str, bool], ...]:
    return tuple((name, False) for name in names)


A4, A8, B4, B8 = "_ZN1AILi4EE1vE", "_ZN1AILi8EE1vE", "_ZN1BILi4EE1vE", "_ZN1BILi8EE1vE"


@pytest.mark.parametrize(
    ("known", "order", "alike"),
    [
        (variables(A4, B4), variables(A4, B4), True),
        (variables(A4, B4), variables(A8, B8), True),
        (variables("x[4] = 1;"), variables("x[64] = 2;"), True),
        (variables("_ZN1AILln1EE1vE"), variables("_ZN1AILl64EE1vE"), True),
        (variables(A4, B4), variables(B4, A4), False),
        (variables(A4, A8), variables(A8, A4), False),
        (variables(A4, B4), variables(A8), False),
        (variables(A4), variables("_ZN1AILj4EE1vE"), False),
        (variables("f1"), variables("f2"), False),
        (((A4, True),), ((A8, True),), False),
        (((A4, True),), ((A4, True),), True),
    ],
)
def test_orders_are_alike_where_only_new_numbers_of_variables_differ(
    known: tuple[tuple[str, bool], ...], order: tuple[tuple[str, bool], ...], *, alike: bool
) -> None:
    assert is_same_order(known, order) is alike


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_source_of_many_orders_is_soon_compiled_once_for_each(builds: Builds) -> None:
    functions = [f"far{number}(*x) * own" for number in range(12)]
    header = ORDERED["slots.h"] + "".join(
        f"__device__ inline __noinline__ int far{number}(int x) {{ return x * x - {number}; }}\n"
        for number in range(12)
    )
    files = {
        "k.cu": ORDERED["k.cu"].replace("extern", "static __device__ int own;\nextern"),
        "slots.h": header,
    }
    options = f'archs = ["sm_90"]\n{RULE}variants = {{ BODY = {functions} }}\n'.replace("'", '"')
    plain, shared = builds.run(files, options, 1)
    assert plain == shared
    assert [precompiled_header for worker_module, precompiled_header in builds.given] == [0, None] * 5 + [
        None
    ] * 7


@pytest.mark.nvrtc
def test_what_is_believed_ends_where_anything_differs(tmp_path: Path) -> None:
    first, second, third, fourth, fifth, *_more = (
        job.unit for job in jobs_of(tmp_path, FILES, OPTIONS.replace('"sm_80", "sm_90", ', ""))
    )
    one, other = b".global .u32 a;\n.global .u32 b;\n", b".global .u32 b;\n.global .u32 a;\n"
    check = preludes_module.PlainCompileCheck()
    assert [check.accepts(unit, one, shared=True) for unit in (first, second)] == [False, False]
    assert [check.accepts(unit, one, shared=False) for unit in (first, second)] == [True, True]
    assert (check.accepts(third, one, shared=True), check.allows(third)) == (True, True)
    assert not check.accepts(third, one, shared=True, edited=True)
    assert not check.accepts(fourth, other, shared=True)
    assert check.accepts(fourth, one, shared=False)
    assert (check.accepts(fifth, one, shared=True), check.allows(fifth)) == (False, False)


@pytest.mark.nvrtc
def test_a_header_that_is_gone_has_no_stamp(tmp_path: Path) -> None:
    job = jobs_of(tmp_path, FILES)[0]
    project = make_project(tmp_path, FILES, OPTIONS)
    before = header_stamps(project, job)
    (tmp_path / "demo/lib/c.h").unlink()
    assert header_stamps(project, job).count("None") == 1
    assert "None" not in before


@pytest.mark.nvrtc
def test_a_header_that_is_overwritten_has_another_stamp_whatever_its_time(tmp_path: Path) -> None:
    job = jobs_of(tmp_path, FILES)[0]
    project = make_project(tmp_path, FILES, OPTIONS)
    before, path = header_stamps(project, job), tmp_path / "demo/lib/c.h"
    status = path.stat()
    path.write_bytes(path.read_bytes()[::-1])
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert header_stamps(project, job) != before
