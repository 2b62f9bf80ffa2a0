"""Show the kernels in wheels, in folders or in installed packages.

Sizes, registers, shared memory, stack and register spills are read from the compiled files. The command does
not need a GPU, a driver or a project, and does not run any code of the wheel. The option --html also writes a
page for a browser, with the same facts and with charts. With --ptx or --sass, the command prints the code of
a kernel. If the kernel was built with lineinfo, the command prints lines of the source between the lines of
PTX or machine code.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ...bundle.manifest import is_of_call
from ...common import read_limits, user_folders
from ...common.sizes import count, size
from ...errors import BundleError, Location, Problem, problem
from ...wheels.comparing.comparison import compare_wheels, compared_wheel
from ...wheels.comparing.diff_report import diff_sections
from ...wheels.reading.bundles import expand_patterns, open_wheel
from ...wheels.reading.cuobjdump import fallback_reader
from ...wheels.reading.page import html_page
from ...wheels.reading.report import ReportSection
from ...wheels.reading.survey import (
    BundleFacts,
    FallbackReader,
    KernelFacts,
    UnitFacts,
    bundle_summary,
    survey,
    unit_name,
    unreadable_units,
)
from ..rendering import plain
from ..verb_base import Answer, json_argument, table, wheels_argument, write_page

_BAR = 24
_PARTS = 5
_HEAD = ("module", "arch", "size", "registers", "shared", "stack", "spills", "kernel")
_NUMBERS = range(2, 7)  # the columns with numbers


def arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of this verb to its parser."""
    wheels_argument(parser)
    parser.add_argument("--html", metavar="FILE", type=Path, help="write a page for a browser to this file")
    parser.add_argument(
        "--report",
        metavar="FILE",
        type=Path,
        help="show the compile times in the report that HATCH_CUBIN_REPORT wrote for this wheel",
    )
    code = parser.add_mutually_exclusive_group()
    code.add_argument("--ptx", metavar="KERNEL", help="print a kernel's PTX, if the wheel contains PTX")
    code.add_argument(
        "--sass", metavar="KERNEL", help="print a kernel's machine code, with NVIDIA's nvdisasm"
    )
    parser.add_argument(
        "--arch", metavar="ARCH", help="with --ptx or --sass: only the code for this arch, as in sm_90"
    )
    json_argument(parser)
    parser.set_defaults(refuse=parser.error)


def run(args: argparse.Namespace) -> Answer:
    """Return facts about all kernels of the wheels, or the code of one kernel."""
    if kernel := args.ptx or args.sass:
        if args.html or args.report:
            args.refuse("--html and --report cannot show a kernel's code")
        from ..listing import list_code

        return list_code(expand_patterns(args.wheels), kernel, "ptx" if args.ptx else "cubin", args.arch)
    if args.arch:
        args.refuse("--arch needs --ptx or --sass")
    second = fallback_reader(os.environ)
    problems: list[Problem] = []
    results = [_result(what, second, problems) for what in expand_patterns(args.wheels)]
    bundles = [bundle for result in results for bundle in result["bundles"]]
    try:
        times = {} if args.report is None else _read_times(args.report, bundles)
        if args.html is not None:
            title = _title([result["path"] for result in results])
            write_page(args.html, html_page(title, bundles, times, _difference(results)))
    # The facts about the wheel must be printed even if the HTML page cannot be written.
    except BundleError as exc:
        problems += exc.problems
    lines = [line for bundle in bundles for line in (*_lines(bundle), "")][:-1]
    return Answer(
        {"results": results},
        lines,
        [*problems, *(each for bundle in bundles for each in unreadable_units(bundle))],
    )


def _result(what: str, second: FallbackReader | None, problems: list[Problem]) -> dict[str, Any]:
    """Return facts about a wheel's kernels. If the wheel cannot be read, add the reason to *problems*."""
    try:
        with open_wheel(what) as opened:
            return {
                "named": what,
                "path": opened.path,
                "bundles": [survey(bundle, second) for bundle in opened.bundles],
            }
    except BundleError as exc:
        problems += exc.problems
        return {"named": what, "path": what, "bundles": []}


def _difference(results: Sequence[dict[str, Any]]) -> list[ReportSection]:
    """Return the differences between two wheels, or an empty list if there are not exactly two wheels."""
    sides = [compared_wheel(each["path"], each["bundles"]) for each in results if each["bundles"]]
    if not len(sides) == len(results) == 2:
        return []
    before, after = sides
    return [*diff_sections(before, after, compare_wheels(before, after))]


def _title(paths: Sequence[str]) -> str:
    first = os.path.basename(os.path.abspath(paths[0]))
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def _read_times(path: Path, bundles: Sequence[BundleFacts]) -> Mapping[tuple[str, str], float]:
    """Return the compile times in a build report (the file HATCH_CUBIN_REPORT), by module and arch.

    Raise BundleError if the report belongs to a different build than the wheels.
    """
    where = Location(str(path))
    try:
        with user_folders.open_retained(path, read_limits.INDEX) as file:
            report = json.loads(file.read())
        units = {(unit["module"], unit["arch"]): unit for unit in report["units"]}
        sizes = {unit: int(found["bytes"]) for unit, found in units.items()}
        times = {
            unit: float(found["seconds"]) for unit, found in units.items() if found["state"] == "compiled"
        }
    except OSError as exc:
        what = f"cannot be read: {exc.strerror}"
        raise BundleError(problem("file-not-readable", what, where)) from exc
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as exc:
        raise BundleError(problem("not-a-build-report", "is not a build report", where)) from exc
    for unit in (unit for each in bundles for unit in each["units"]):
        if sizes.get((unit["module"], unit["arch"])) != unit["bytes"]:
            name = unit_name(unit["module"], unit["arch"])
            what = f"is the report of another build: it lists a different size for {name}"
            raise BundleError(problem("report-of-other-build", what, where))
    return times


# --- lines for people ----------------------------------------------------------------------------------


def _lines(facts: BundleFacts) -> Iterator[str]:
    yield plain(facts["where"])
    yield from (plain(f"  {line}") for line in bundle_summary(facts))
    if not facts["units"]:
        return
    yield ""
    yield from table([_HEAD, *(row for unit in facts["units"] for row in _rows(unit))], right=_NUMBERS)
    yield ""
    yield from _bars(facts["archs"])
    yield ""
    yield from _sums(facts)


def _rows(unit: UnitFacts) -> Iterator[Sequence[str]]:
    """Yield a row of the table for each kernel of a compiled file.

    Only the first row of a compiled file names the module, arch and size. For a recorded call of a library
    (CuPy or cuda.core), the first row names the source instead of the module, because the name of the module
    is a long key.
    """
    name = unit["source"] if is_of_call(unit["module"]) else unit["module"]
    start: Sequence[str] = (plain(name), plain(unit["arch"]), size(unit["bytes"]))
    for kernel in [] if unit["problem"] else unit["kernels"]:
        kind = " (tile kernel)" if kernel["tile"] else ""
        yield (*start, *_uses(kernel), f"{plain(kernel['signature'])}{kind}")
        start = ("", "", "")
    if unit["problem"] or not unit["kernels"]:
        yield (*start, "", "", "", "", plain(unit["problem"] or "contains no kernel"))


def _uses(kernel: KernelFacts) -> Iterator[str]:
    for number in (kernel["registers"], kernel["shared"], kernel["stack"], kernel["spills"]):
        yield "-" if number is None else str(number)


def _bars(sizes: Mapping[str, int]) -> list[str]:
    longest = max(*sizes.values(), 1)
    rows = [(plain(name), size(count), "#" * round(_BAR * count / longest)) for name, count in sizes.items()]
    return table(rows, right=(1,))


def _sums(facts: BundleFacts) -> Iterator[str]:
    totals = facts["totals"]
    packed = "" if totals["packed"] is None else f", {size(totals['packed'])} in the wheel"
    counts = [
        count(totals["modules"], "module"),
        count(totals["units"], "unit"),
        count(totals["kernels"], "kernel"),
    ]
    files = count(totals["files"], "file")
    yield f"{', '.join(counts)}: {size(totals['bytes'])} in {files}{packed}"
    total = max(sum(facts["content"].values()), 1)
    parts = [f"{name} {100 * part / total:.0f} %" for name, part in facts["content"].items()]
    yield f"made of: {', '.join(parts[:_PARTS])}"
    largest = [f"{name} {size(most)}" for name, most in facts["largest"].items()]
    yield plain(f"the largest: {', '.join(largest)}")
    for each in facts["shared"]:
        yield plain(f"identical, stored once as {each['file']}: {', '.join(each['units'])}")
