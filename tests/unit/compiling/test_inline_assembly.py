"""Where in its sources a compile's PTX stands that the assembler refuses."""

from __future__ import annotations

import pytest

from hatch_cubin.compiling.inline_assembly import with_source_lines

PTX = """\
.version 9.0
.target sm_90
\t// .globl\tk
.visible .entry k(
)
{
\t.loc\t1 2 0
\tld.param.u64 \t%rd1, [k_param_0];
\t.loc\t1 5 3, function_name $L__info_string0, inlined_at 2 7 3
\t// begin inline asm
\ttotal.garbage %r12, [%rd1+4], %tid.x;
\t// end inline asm
\t.loc\t2 9 1
\tmore.garbage;
\t.loc\t2 0 1
\tno.line;
\t.loc\t3 1 1
\tno.file;
}
.visible .entry other(
)
\tno.location;
\t.file\t1 "/proc/self/fd/77/include/a.h", 1700000000, 12
\t.file\t2 "/demo/k.cu"
"""


def refusal(line: int, kind: str = "error  ") -> str:
    return f"ptxas application ptx input, line {line}; {kind} : …"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (11, "/proc/self/fd/77/include/a.h(5): error: …\n    total.garbage %…, [%…+4], %tid.x;"),
        (13, "/proc/self/fd/77/include/a.h(5): error: …\n    total.garbage %…, [%…+4], %tid.x;"),
        (14, "demo/k.cu(9): error: …\n    more.garbage;"),
    ],
    ids=["header", "behind it", "source"],
)
def test_a_line_of_ptx_is_told_as_the_line_that_it_was_made_of(line: int, told: str) -> None:
    assert with_source_lines(f"before\n{refusal(line)}\nafter", PTX, "demo/k.cu") == f"before\n{told}\nafter"


@pytest.mark.parametrize("line", [1, 6, 7, 16, 17, 18, 22, 99])
def test_a_line_without_a_place_stays_one_of_the_ptx(line: int) -> None:
    assert with_source_lines(refusal(line), PTX, "demo/k.cu") == refusal(line)


def test_without_ptx_a_log_stays_as_it_is() -> None:
    assert with_source_lines(refusal(11), "", "demo/k.cu") == refusal(11)


def test_errors_that_end_the_assembly_have_places_too_and_warnings_none() -> None:
    fatal, warning = refusal(14, "fatal  "), refusal(14, "warning")
    assert with_source_lines(fatal, PTX, "demo/k.cu").startswith("demo/k.cu(9): error: ")
    assert with_source_lines(warning, PTX, "demo/k.cu") == warning


def test_a_line_that_is_named_at_the_end_of_a_message_has_its_place_too() -> None:
    log = "ptxas fatal   : Unexpected non-ASCII character encountered on line {}"
    text = "demo/k.cu(9): error: Unexpected non-ASCII character encountered\n    more.garbage;"
    assert with_source_lines(log.format(14), PTX, "demo/k.cu") == text
    assert with_source_lines(log.format(1), PTX, "demo/k.cu") == log.format(1)


def test_an_error_without_a_line_stays_as_it_is() -> None:
    log = "ptxas fatal   : Ptx assembly aborted due to errors"
    assert with_source_lines(log, PTX, "demo/k.cu") == log
