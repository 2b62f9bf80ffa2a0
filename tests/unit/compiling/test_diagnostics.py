"""What the compilers say, in places that the user knows."""

from __future__ import annotations

import pytest

from hatch_cubin.common.arch_names import parse_arch
from hatch_cubin.compiling import diagnostics
from hatch_cubin.compiling.diagnostics import Diagnostic, parse_log
from hatch_cubin.errors import CompileError, Location, problem, render
from hatch_cubin.planning.unit_plan import Module, Unit
from hatch_cubin.project.source import Source

FOLDERS = {"/proc/self/fd/77": "project", "/proc/self/fd/345": "nvrtc/cccl"}


def error(path: str, line: int | None, text: str, *context: str) -> Diagnostic:
    return Diagnostic("error", Location(path, line), text, context)


LOGS = {
    "source": (
        (
            'demo/k.cu(3): error: identifier "y" is undefined\n    *x = y;\n         ^\n\n'
            '1 error detected in the compilation of "/proc/self/fd/77/demo/k.cu".\n'
        ),
        [error("demo/k.cu", 3, 'identifier "y" is undefined', "    *x = y;", "         ^")],
    ),
    "header of the project": (
        "/proc/self/fd/77/demo/../include/a.h(7): error: bad\n",
        [error("include/a.h", 7, "bad")],
    ),
    "header of a tree": (
        "/proc/self/fd/345/cub/x.cuh(7): error: bad\n  at line 2 of /proc/self/fd/77/demo/k.cu\n",
        [error("<nvrtc/cccl>/cub/x.cuh", 7, "bad", "  at line 2 of demo/k.cu")],
    ),
    "end of source": (
        'demo/k.cu(3): error: one\n\nAt end of source: error: expected a ";"\n',
        [error("demo/k.cu", 3, "one"), error("demo/k.cu", None, 'At end of source: expected a ";"')],
    ),
    "other kinds of error": (
        "demo/k.cu(3): internal error: bad\ninternal error: worse\nlinker: fatal error: worst",
        [
            error("demo/k.cu", 3, "bad"),
            error("demo/k.cu", None, "worse"),
            error("demo/k.cu", None, "linker: fatal: worst"),
        ],
    ),
    "quoted": (
        "demo/k.cu(3): error: one\n    // error: a quoted line\n",
        [error("demo/k.cu", 3, "one", "    // error: a quoted line")],
    ),
    "absolute": ("/usr/x.h(1): error: bad", [error("/usr/x.h", 1, "bad")]),
    "parentheses": ("demo/k (1).cu(3): error: bad", [error("demo/k (1).cu", 3, "bad")]),
    "catastrophe": (
        (
            'demo/k.cu(1): catastrophic error: cannot open source file "x.h"\n  #include "x.h"\n\n'
            '1 catastrophic error detected in the compilation of "demo/k.cu".\nCompilation terminated.'
        ),
        [error("demo/k.cu", 1, 'cannot open source file "x.h"', '  #include "x.h"')],
    ),
    "several": (
        "demo/k.cu(2): error #20: one\ndemo/k.cu(3): error: two\n",
        [error("demo/k.cu", 2, "one"), error("demo/k.cu", 3, "two")],
    ),
    "warning": (
        (
            "demo/k.cu(2): warning #177-D: never used\n  int u;\n\n"
            "Remark: The warnings can be suppressed with X\n"
        ),
        [
            Diagnostic(
                "warning",
                Location("demo/k.cu", 2),
                "never used",
                ("  int u;",),
                number=177,
            )
        ],
    ),
    "warning of a value that is lost": (
        'demo/a.cuh(2): warning #47-D: incompatible redefinition of macro "BLOCK"\n',
        [
            Diagnostic(
                "warning",
                Location("demo/a.cuh", 2),
                'incompatible redefinition of macro "BLOCK"',
                (),
                (
                    "put #ifndef BLOCK before this definition and #endif after it, to keep the "
                    "configured value"
                ),
            )
        ],
    ),
    "warning of a variable that nothing else reaches": (
        (
            "demo/a.cu(1): warning #20044-D: extern declaration of the entity c"
            " is treated as a static definition\n"
        ),
        [
            Diagnostic(
                "warning",
                Location("demo/a.cu", 1),
                "extern declaration of the entity c is treated as a static definition",
                (),
                (
                    "if another source defines c, link both sources in a [[…module]] table; "
                    "otherwise remove 'extern'"
                ),
            )
        ],
    ),
    "warning without a number": (
        "demo/k.cu(2): warning: user's own",
        [Diagnostic("warning", Location("demo/k.cu", 2), "user's own")],
    ),
    "name expression": (
        '__nv_name_map:2\n__nv_name_map(2): error: identifier "flot" is undefined',
        [error("demo/k.cu", None, 'instantiate: identifier "flot" is undefined')],
    ),
    "inline assembly": (
        (
            "ptxas application ptx input, line 4; error   : Unknown symbol '%r1'\n"
            "ptxas fatal   : Ptx assembly aborted due to errors\n"
            "ERROR NVJITLINK_ERROR_PTX_COMPILE: JIT the PTX\n"
        ),
        [error("demo/k.cu", None, "Unknown symbol '%r1' (in the generated PTX)")],
    ),
    "option": (
        "nvrtc: error: invalid value for --std(-std)",
        [error("demo/k.cu", None, "invalid value for --std(-std)")],
    ),
    "pre-included header": (
        'Command-line error: cannot open source file "x.h"',
        [error("demo/k.cu", None, 'cannot open source file "x.h"')],
    ),
    "assembler's warning": (
        "ptxas warning : registers are spilled",
        [Diagnostic("warning", Location("demo/k.cu"), "registers are spilled")],
    ),
    "linker": (
        "error   : Undefined reference to 'foo' in 'demo/k.cu'\nERROR 9: complete\n",
        [error("demo/k.cu", None, "Undefined reference to 'foo' in 'demo/k.cu'")],
    ),
    "nothing": ("", []),
    "no diagnostic": ("something else\n", []),
    "only a summary": ("ptxas fatal   : Ptx assembly aborted due to errors", []),
}


@pytest.mark.parametrize(
    ("log", "expected"),
    LOGS.values(),
    ids=LOGS,
)
def test_a_log_becomes_diagnostics(log: str, expected: list[Diagnostic]) -> None:
    assert parse_log(log, "demo/k.cu", FOLDERS) == expected


def test_the_assembler_names_lines_of_a_ptx_source() -> None:
    log = "ptxas application ptx input, line 4; error   : A\nptxas c.ptx, line 5; warning : B"
    assert parse_log(log, "demo/c.PTX", FOLDERS) == [
        error("demo/c.PTX", 4, "A"),
        Diagnostic("warning", Location("demo/c.PTX", 5), "B"),
    ]


UNREAD = "ptxas fatal   : Unexpected non-ASCII character encountered on line 4"


@pytest.mark.parametrize(
    ("source", "line", "more"), [("demo/c.PTX", 4, ""), ("demo/k.cu", None, " (in the generated PTX)")]
)
def test_the_assembler_names_a_line_that_it_cannot_read_at_the_end(
    source: str, line: int | None, more: str
) -> None:
    text = UNREAD.partition(": ")[2] + more
    assert parse_log(UNREAD, source, FOLDERS) == [error(source, line, text)]


def test_a_launch_sets_the_size_of_dynamic_shared_memory() -> None:
    said = "extern declaration of the entity s is treated as a static definition"
    warning = Diagnostic("warning", None, said)
    told = diagnostics.about_shared_array(warning, "extern __shared__ float s[20000];")
    assert told is not None
    assert told.hint == (
        "the size in this declaration is fixed and a launch cannot change it: "
        "remove 'extern', or write s[] to set the size at the launch"
    )
    assert diagnostics.about_shared_array(warning, "extern __device__ float s[20000];") is None


def test_the_hint_about_a_separate_variable_leaves_out_its_namespace() -> None:
    text = "extern declaration of the entity a::b::c is treated as a static definition"
    log = f"a.cu(1): warning #20044-D: {text}"
    (warning,) = parse_log(log, "a.cu", {})
    assert (warning.code, warning.number) == ("separate-variable", None)
    assert warning.hint is not None
    assert warning.hint.startswith("if another source defines c,")


def test_one_diagnostic_of_many_units_is_one_problem() -> None:
    modules = [Module(name, Source("k.cu", "")) for name in "ab"]
    units = [Unit(module, parse_arch(arch)) for module in modules for arch in ("sm_80", "sm_90")]
    same, other = error("k.cu", 1, "same", "  code"), Diagnostic("error", None, "other", hint="do")
    pairs = [*((same, unit) for unit in units), (other, units[0])]
    assert diagnostics.merge(pairs, lambda _source: "NVRTC 13.0.88") == [
        (
            problem(
                "compiler-error",
                "same",
                Location("k.cu", 1),
                None,
                ("  code", "while compiling a, b for sm_80, sm_90 (NVRTC 13.0.88)"),
            ),
            units,
        ),
        (
            problem("compiler-error", "other", None, "do", ("while compiling a for sm_80 (NVRTC 13.0.88)",)),
            units[:1],
        ),
    ]


def test_of_many_modules_with_one_error_a_few_are_named_unless_the_output_is_verbose() -> None:
    modules = [Module(name, Source("k.cu", "")) for name in "abcdefg"]
    pairs = [(error("k.h", 1, "same"), Unit(module, parse_arch("sm_80"))) for module in modules]
    ((told, _units),) = diagnostics.merge(pairs, lambda _source: "NVRTC 13.0.88")
    whole = "while compiling a, b, c, d, e, f, g for sm_80 (NVRTC 13.0.88)"
    assert told.facts()["details"] == [whole]
    assert render(CompileError(told), verbose=True)[0].splitlines()[1:] == [f"  {whole}"]
    shown = "  while compiling a, b, c, d, e and 2 more for sm_80 (NVRTC 13.0.88)"
    assert render(CompileError(told))[0].splitlines()[1:] == [shown]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("demo/a.cu(2): Error: Formal parameter space overflowed", "error"),
        ("warning: demo/a.cu(2): Warning: Cannot store to constant memory", "warning"),
    ],
)
def test_a_place_stands_once_whoever_found_the_mistake(line: str, kind: str) -> None:
    (found,) = parse_log(line, "demo/a.cu", {})
    assert (found.kind, found.where) == (kind, Location("demo/a.cu", 2))
    assert "demo/a.cu" not in found.text
