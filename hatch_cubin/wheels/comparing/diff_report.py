"""Write a short report about the differences between two wheels, beginning with the most important ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...common.sizes import count, size
from ..reading.report import ReportSection, ReportTable, kernel_title
from .comparison import ComparedWheel
from .diff import BundleDiff, LimitChange, MovedKernel, ResourceChange, Sizes, is_empty

_MAX_ROWS = 25
_MAX_UNITS = 10
_MAX_NAMES = 3
_LIMIT_TITLES = {
    "max_threads": "maximum threads",
    "required_threads": "required threads",
    "max_registers": "maximum registers",
    "min_blocks": "minimum blocks",
    "max_cluster": "maximum cluster",
}


def diff_sections(
    before: ComparedWheel, after: ComparedWheel, diffs: Sequence[BundleDiff]
) -> Iterator[ReportSection]:
    """Yield the sections of the report about the differences between two wheels."""
    if before.bytes is None or after.bytes is None:
        lines = [f"unpacked: {_sizes(diff['bytes'])}" for diff in diffs]
    else:
        lines = [f"size: {_sizes({'before': before.bytes, 'after': after.bytes})}"]
    if is_empty(diffs):
        lines.append("the kernels are the same: all compiled files have the same bytes as before")
    yield ReportSection(f"{before.title} -> {after.title}", lines)
    for diff in diffs:
        yield from _bundle_sections(diff, several=len(diffs) > 1)


def _bundle_sections(diff: BundleDiff, *, several: bool) -> Iterator[ReportSection]:
    if several:
        yield ReportSection(f"{diff['before'] or 'nothing'} -> {diff['after'] or 'nothing'}")
    yield from _moved_section("lost", diff["lost"])
    if diff["signatures"]:
        rows = [[each["before"], each["after"]] for each in diff["signatures"]]
        title = f"kernels whose arguments changed: {len(rows)}"
        shown = ReportTable(["before", "after"], rows[:_MAX_ROWS], names=[0, 1])
        yield ReportSection(title, _and_more(len(rows) - _MAX_ROWS), shown)
    more = [each for each in diff["changes"] if each["after"] > each["before"]]
    yield from _resource_section("more", more)
    yield from _limit_section(diff["limits"])
    yield from _bytes_section(diff)
    yield from _size_sections(diff)
    if diff["toolchain"]:
        rows = [
            [each["name"], each["before"] or "none", each["after"] or "none"] for each in diff["toolchain"]
        ]
        yield ReportSection("tools that differ", (), ReportTable(["what", "before", "after"], rows))
    yield from _resource_section("less", [each for each in diff["changes"] if each["after"] < each["before"]])
    yield from _moved_section("gained", diff["gained"])


def _moved_section(what: str, moved: Sequence[MovedKernel]) -> Iterator[ReportSection]:
    if not moved:
        return
    rows = [[kernel_title(each["module"], each["kernel"]), _archs(each)] for each in moved]
    # If there are many rows, the reason is probably an added or removed arch. The kernels are then grouped by
    # arch.
    if len(rows) > _MAX_ROWS:
        alike: dict[str, list[str]] = {}
        for name, archs in rows:
            alike.setdefault(archs, []).append(name)
        rows = [[_kernel_count(names), archs] for archs, names in alike.items()][:_MAX_ROWS]
    yield ReportSection(f"kernels {what}: {len(moved)}", (), ReportTable(["kernel", "for"], rows, names=[0]))


def _kernel_count(names: Sequence[str]) -> str:
    """Return a text with the number of kernels and the first few names, or the name of a single kernel."""
    if len(names) == 1:
        return names[0]
    return (
        f"{count(len(names), 'kernel')}: {', '.join(names[:_MAX_NAMES])}{', …' * (len(names) > _MAX_NAMES)}"
    )


def _archs(moved: MovedKernel) -> str:
    archs = ", ".join(moved["archs"])
    return f"{archs} (all archs of this kernel)" if moved["whole"] else archs


def _resource_section(more_or_less: str, changes: Sequence[ResourceChange]) -> Iterator[ReportSection]:
    if not changes:
        return
    kernels = {(each["module"], each["kernel"]) for each in changes}
    rows = [
        [
            kernel_title(each["module"], each["kernel"]),
            each["arch"],
            each["what"],
            str(each["before"]),
            str(each["after"]),
        ]
        for each in changes[:_MAX_ROWS]
    ]
    head = ["kernel", "arch", "what", "before", "after"]
    yield ReportSection(
        f"kernels that use {more_or_less} than before: {len(kernels)}",
        _and_more(len(changes) - len(rows)),
        ReportTable(head, rows, numbers=[3, 4], names=[0, 1]),
    )


def _limit_section(changes: Sequence[LimitChange]) -> Iterator[ReportSection]:
    if not changes:
        return
    kernels = {(each["module"], each["kernel"]) for each in changes}
    rows = [
        [
            kernel_title(each["module"], each["kernel"]),
            each["arch"],
            _LIMIT_TITLES.get(each["what"], each["what"]),
            each["before"] or "any",
            each["after"] or "any",
        ]
        for each in changes[:_MAX_ROWS]
    ]
    head = ["kernel", "arch", "what", "before", "after"]
    title = f"kernels whose launch limits changed: {len(kernels)}"
    yield ReportSection(
        title, _and_more(len(changes) - len(rows)), ReportTable(head, rows, numbers=[3, 4], names=[0, 1])
    )


def _part_title(name: str) -> str:
    return "notes, symbols or debug information" if name == "rest" else name


def _bytes_section(diff: BundleDiff) -> Iterator[ReportSection]:
    if not diff["other"]:
        return
    rows = [
        [each["module"], each["arch"], ", ".join(map(_part_title, each["parts"])) or "unknown"]
        for each in diff["other"][:_MAX_UNITS]
    ]
    title = f"compiled files that changed: {len(diff['other'])} of {diff['compared']}"
    shown = ReportTable(["module", "arch", "changed part"], rows, names=[0, 1])
    yield ReportSection(title, _and_more(len(diff["other"]) - len(rows)), shown)


def _size_sections(diff: BundleDiff) -> Iterator[ReportSection]:
    if not diff["archs"]:
        return
    rows = [[arch, *_size_cells(sizes)] for arch, sizes in diff["archs"].items()]
    rows.append(["all files", *_size_cells(diff["bytes"])])
    head = ["arch", "before", "after", "change"]
    yield ReportSection("size by arch, unpacked", (), ReportTable(head, rows, numbers=[1, 2, 3], names=[0]))
    units = diff["units"][:_MAX_UNITS]
    if units:
        rows = [
            [each["module"], each["arch"], *_size_cells({"before": each["before"], "after": each["after"]})]
            for each in units
        ]
        head = ["module", "arch", "before", "after", "change"]
        more = _and_more(len(diff["units"]) - len(units))
        title = f"compiled files whose size changed: {len(diff['units'])}"
        yield ReportSection(title, more, ReportTable(head, rows, numbers=[2, 3, 4], names=[0, 1]))


def _and_more(number: int) -> list[str]:
    return [f"and {number} more: --json lists all rows"] if number > 0 else []


def _size_cells(sizes: Sizes) -> list[str]:
    before, after = sizes["before"], sizes["after"]
    shown = ["-" if each is None else size(each) for each in (before, after)]
    return [*shown, percent_change(before or 0, after or 0)]


def _sizes(sizes: Sizes) -> str:
    before, after = sizes["before"] or 0, sizes["after"] or 0
    return f"{size(before)} -> {size(after)}, {percent_change(before, after)}"


def percent_change(before: int, after: int) -> str:
    """Return the change from *before* to *after* in percent, such as "+5.0 %"."""
    if before == after:
        return "the same"
    return "new" if not before else f"{100 * (after - before) / before:+.1f} %"
