"""What people are shown of how two wheels differ: what matters most first, no more than they read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...common.sizes import count, size
from ..reading.report import Part, Table, kernel_title
from .comparison import Side
from .diff import BundleDiff, Change, KernelMoved, LimitChange, Sizes, is_empty

_ROWS = 25
_UNITS = 10
_NAMES = 3
_LIMITS = {
    "max_threads": "maximum threads",
    "required_threads": "required threads",
    "max_registers": "maximum registers",
    "min_blocks": "minimum blocks",
    "max_cluster": "maximum cluster",
}


def diff_parts(before: Side, after: Side, diffs: Sequence[BundleDiff]) -> Iterator[Part]:
    """Yield the parts of the answer about two wheels, or what stands for one."""
    if before.bytes is None or after.bytes is None:
        lines = [f"unpacked: {_sizes(diff['bytes'])}" for diff in diffs]
    else:
        lines = [f"size: {_sizes({'before': before.bytes, 'after': after.bytes})}"]
    if is_empty(diffs):
        lines.append("the kernels are the same: every unit has the bytes that it had, and none came or went")
    yield Part(f"{before.title} -> {after.title}", lines)
    for diff in diffs:
        yield from _bundle_parts(diff, several=len(diffs) > 1)


def _bundle_parts(diff: BundleDiff, *, several: bool) -> Iterator[Part]:
    if several:
        yield Part(f"{diff['before'] or 'nothing'} -> {diff['after'] or 'nothing'}")
    yield from _moved("lost", diff["lost"])
    if diff["signatures"]:
        rows = [[each["before"], each["after"]] for each in diff["signatures"]]
        title = f"kernels that take other arguments: {len(rows)}"
        shown = Table(["before", "after"], rows[:_ROWS], names=[0, 1])
        yield Part(title, _and_more(len(rows) - _ROWS), shown)
    more = [each for each in diff["changes"] if each["after"] > each["before"]]
    yield from _changed("more", more)
    yield from _limited(diff["limits"])
    yield from _other(diff)
    yield from _grown(diff)
    if diff["toolchain"]:
        rows = [
            [each["name"], each["before"] or "none", each["after"] or "none"] for each in diff["toolchain"]
        ]
        yield Part("built with others", (), Table(["what", "before", "after"], rows))
    yield from _changed("less", [each for each in diff["changes"] if each["after"] < each["before"]])
    yield from _moved("gained", diff["gained"])


def _moved(what: str, moved: Sequence[KernelMoved]) -> Iterator[Part]:
    if not moved:
        return
    rows = [[kernel_title(each["module"], each["kernel"]), _archs(each)] for each in moved]
    if len(rows) > _ROWS:  # whole archs came or went
        alike: dict[str, list[str]] = {}
        for name, archs in rows:
            alike.setdefault(archs, []).append(name)
        rows = [[_some(names), archs] for archs, names in alike.items()][:_ROWS]
    yield Part(f"kernels {what}: {len(moved)}", (), Table(["kernel", "for"], rows, names=[0]))


def _some(names: Sequence[str]) -> str:
    """Return how many kernels those are, and the first of them; one alone must not go under."""
    if len(names) == 1:
        return names[0]
    return f"{count(len(names), 'kernel')}: {', '.join(names[:_NAMES])}{', …' * (len(names) > _NAMES)}"


def _archs(moved: KernelMoved) -> str:
    archs = ", ".join(moved["archs"])
    return f"{archs}, which is all" if moved["whole"] else archs


def _changed(what: str, changes: Sequence[Change]) -> Iterator[Part]:
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
        for each in changes[:_ROWS]
    ]
    head = ["kernel", "arch", "what", "before", "after"]
    yield Part(
        f"kernels that use {what}: {len(kernels)}",
        _and_more(len(changes) - len(rows)),
        Table(head, rows, numbers=[3, 4], names=[0, 1]),
    )


def _limited(changes: Sequence[LimitChange]) -> Iterator[Part]:
    if not changes:
        return
    kernels = {(each["module"], each["kernel"]) for each in changes}
    rows = [
        [
            kernel_title(each["module"], each["kernel"]),
            each["arch"],
            _LIMITS.get(each["what"], each["what"]),
            each["before"] or "any",
            each["after"] or "any",
        ]
        for each in changes[:_ROWS]
    ]
    head = ["kernel", "arch", "what", "before", "after"]
    title = f"kernels with other limits of a launch: {len(kernels)}"
    yield Part(title, _and_more(len(changes) - len(rows)), Table(head, rows, numbers=[3, 4], names=[0, 1]))


def _part(name: str) -> str:
    return "notes, symbols or debug information" if name == "rest" else name


def _other(diff: BundleDiff) -> Iterator[Part]:
    if not diff["other"]:
        return
    rows = [
        [each["module"], each["arch"], ", ".join(map(_part, each["parts"])) or "unknown"]
        for each in diff["other"][:_UNITS]
    ]
    title = f"units with other bytes: {len(diff['other'])} of {diff['compared']}"
    shown = Table(["module", "arch", "what is another"], rows, names=[0, 1])
    yield Part(title, _and_more(len(diff["other"]) - len(rows)), shown)


def _grown(diff: BundleDiff) -> Iterator[Part]:
    if not diff["archs"]:
        return
    rows = [[arch, *_row(sizes)] for arch, sizes in diff["archs"].items()]
    rows.append(["all files", *_row(diff["bytes"])])
    head = ["arch", "before", "after", "change"]
    yield Part("size by arch, unpacked", (), Table(head, rows, numbers=[1, 2, 3], names=[0]))
    units = diff["units"][:_UNITS]
    if units:
        rows = [
            [each["module"], each["arch"], *_row({"before": each["before"], "after": each["after"]})]
            for each in units
        ]
        head = ["module", "arch", "before", "after", "change"]
        more = _and_more(len(diff["units"]) - len(units))
        title = f"files of another size: {len(diff['units'])}"
        yield Part(title, more, Table(head, rows, numbers=[2, 3, 4], names=[0, 1]))


def _and_more(number: int) -> list[str]:
    return [f"and {number} more: --json has all"] if number > 0 else []


def _row(sizes: Sizes) -> list[str]:
    before, after = sizes["before"], sizes["after"]
    shown = ["-" if each is None else size(each) for each in (before, after)]
    return [*shown, change(before or 0, after or 0)]


def _sizes(sizes: Sizes) -> str:
    before, after = sizes["before"] or 0, sizes["after"] or 0
    return f"{size(before)} -> {size(after)}, {change(before, after)}"


def change(before: int, after: int) -> str:
    """Return how much more or less that is, in percent."""
    if before == after:
        return "the same"
    return "new" if not before else f"{100 * (after - before) / before:+.1f} %"
