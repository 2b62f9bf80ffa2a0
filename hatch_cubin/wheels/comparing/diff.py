"""Compare two wheels: their kernels, the resources of each kernel for each arch, and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, TypedDict

from ...bundle.manifest import is_of_call
from ...common.natural_order import by_number
from ..reading.report import kernel_title
from ..reading.survey import BundleFacts, KernelFacts, TotalFacts, UnitFacts, arch_order, kernels_by_arch

Resource = Literal["spills", "registers", "stack", "shared"]
RESOURCES: tuple[Resource, ...] = ("spills", "registers", "stack", "shared")  # the most costly first
FAIL_ON_KINDS = ("lost", "signatures", *RESOURCES, "size")  # The possible values of --fail-on.

_KernelName = tuple[str, str]  # The name of the module and the name of the kernel.


class Sizes(TypedDict):
    """The size in bytes of a bundle, or of its code for an arch, in each of two wheels.

    If a wheel does not contain the bundle or the code, the value for this wheel is None.
    """

    before: int | None
    after: int | None


class MovedKernel(TypedDict):
    """A kernel that was added or removed for some archs.

    *whole* is true if the kernel was added or removed for all archs.
    """

    module: str
    kernel: str
    archs: list[str]
    whole: bool


class SignatureChange(TypedDict):
    """A kernel whose arguments have changed."""

    module: str
    kernel: str
    before: str
    after: str


class ResourceChange(TypedDict):
    """The amounts of a resource, such as registers, that the old and the new code of a kernel use."""

    what: Resource
    module: str
    kernel: str
    arch: str
    before: int
    after: int


class LimitChange(TypedDict):
    """A changed launch limit of a kernel for an arch, such as `16x8` threads. None means no limit."""

    what: str
    module: str
    kernel: str
    arch: str
    before: str | None
    after: str | None


class ChangedBytes(TypedDict):
    """Changed compiled code of a module for an arch; *parts* lists the changed parts if they are known."""

    module: str
    arch: str
    parts: list[str]


class ResizedUnit(TypedDict):
    """A module whose compiled code for an arch has another size than before."""

    module: str
    arch: str
    before: int
    after: int


class ChangedTool(TypedDict):
    """A tool, such as the compiler, that has a different version than before."""

    name: str
    before: str | None
    after: str | None


class BundleDiff(TypedDict):
    """All differences between two bundles."""

    before: str | None
    after: str | None
    kernels: int
    bytes: Sizes
    packed: Sizes
    toolchain: list[ChangedTool]
    lost: list[MovedKernel]
    gained: list[MovedKernel]
    signatures: list[SignatureChange]
    changes: list[ResourceChange]
    limits: list[LimitChange]
    compared: int
    other: list[ChangedBytes]
    archs: dict[str, Sizes]
    units: list[ResizedUnit]


class FailLimit(NamedTuple):
    """A limit of `--fail-on`: how much a resource or the size may grow."""

    what: str
    text: str  # The limit, as the user wrote it.
    amount: float = 0
    percent: bool = False

    def is_passed(self, before: int, after: int) -> bool:
        """Return whether the value *after* exceeds the limit."""
        return after - before > (before * self.amount / 100 if self.percent else self.amount)


def compare(before: BundleFacts | None, after: BundleFacts | None) -> BundleDiff:
    """Return the differences between two bundles. A bundle that does not exist is None."""
    before, after = _named_by_source(before), _named_by_source(after)
    old, new = (kernels_by_arch(facts["units"] if facts else ()) for facts in (before, after))
    one, other = _totals(before), _totals(after)
    return {
        "before": before and before["where"],
        "after": after and after["where"],
        "kernels": after["totals"]["kernels"] if after else 0,
        "bytes": {"before": one and one["bytes"], "after": other and other["bytes"]},
        "packed": {"before": one and one["packed"], "after": other and other["packed"]},
        "toolchain": [] if before is None or after is None else [*_changed_tools(before, after)],
        "lost": _moved_kernels(old, new),
        "gained": _moved_kernels(new, old),
        "signatures": _signature_changes(old, new),
        "changes": _resource_changes(old, new),
        "limits": _limit_changes(old, new),
        "compared": len(_common_units(before, after)),
        "other": _changed_bytes(_common_units(before, after)),
        "archs": _arch_sizes(before["archs"] if before else {}, after["archs"] if after else {}),
        "units": _resized_units(before, after),
    }


def _named_by_source(facts: BundleFacts | None) -> BundleFacts | None:
    """Return facts about a bundle in which each recorded call is named by the path of its source.

    The manifest names a recorded call of CuPy or cuda.core by a key, which changes with each edit of the
    source.
    """
    if facts is None:
        return None
    named = facts.copy()
    named["units"] = [unit.copy() for unit in facts["units"]]
    for unit in named["units"]:
        if is_of_call(unit["module"]):
            unit["module"] = unit["source"]
    return named


def _totals(facts: BundleFacts | None) -> TotalFacts | None:
    return None if facts is None else facts["totals"]


def _moved_kernels(
    here: Mapping[tuple[_KernelName, str], KernelFacts], there: Mapping[tuple[_KernelName, str], KernelFacts]
) -> list[MovedKernel]:
    """Return the kernels in the wheel *here* that are missing from *there*, for all or for some archs."""
    known = {kernel for kernel, _arch in there}
    gone: dict[_KernelName, list[str]] = {}
    for kernel, arch in here:
        if (kernel, arch) not in there:
            gone.setdefault(kernel, []).append(arch)
    moved: list[MovedKernel] = [
        {
            "module": kernel[0],
            "kernel": kernel[1],
            "archs": sorted(archs, key=arch_order),
            "whole": kernel not in known,
        }
        for kernel, archs in gone.items()
    ]
    return sorted(
        moved, key=lambda each: (not each["whole"], by_number(each["module"]), by_number(each["kernel"]))
    )


def _signature_changes(
    old: Mapping[tuple[_KernelName, str], KernelFacts], new: Mapping[tuple[_KernelName, str], KernelFacts]
) -> list[SignatureChange]:
    """Return the kernels whose arguments have changed."""
    found: dict[_KernelName, SignatureChange] = {}
    for (kernel, arch), now in new.items():
        was = old.get((kernel, arch))
        if was is not None and _takes_other_arguments(was, now):
            found[kernel] = {
                "module": kernel[0],
                "kernel": kernel[1],
                "before": was["signature"],
                "after": now["signature"],
            }
    return [*found.values()]


def _takes_other_arguments(was: KernelFacts, now: KernelFacts) -> bool:
    """Return whether a kernel's arguments have changed.

    Parameters with an unknown type are compared only by size.
    """
    if was["signature"] == was["name"] or now["signature"] == now["name"]:  # the parameters are unknown
        return False
    before, after = was["parameters"], now["parameters"]
    return len(before) != len(after) or any(
        one["size"] != other["size"] or (one["type"] and other["type"] and one["type"] != other["type"])
        for one, other in zip(before, after, strict=True)
    )


def _resource_changes(
    old: Mapping[tuple[_KernelName, str], KernelFacts], new: Mapping[tuple[_KernelName, str], KernelFacts]
) -> list[ResourceChange]:
    """Return the changes of resources for kernels that are in both bundles, the most costly changes first."""
    changes: list[ResourceChange] = []
    for (kernel, arch), now in new.items():
        was = old.get((kernel, arch))
        for what in RESOURCES if was is not None else ():
            before, after = was[what] if was else None, now[what]
            if before is not None and after is not None and before != after:
                changes.append(
                    {
                        "what": what,
                        "module": kernel[0],
                        "kernel": kernel[1],
                        "arch": arch,
                        "before": before,
                        "after": after,
                    }
                )
    return sorted(changes, key=_worst_first)


def _limit_changes(
    old: Mapping[tuple[_KernelName, str], KernelFacts], new: Mapping[tuple[_KernelName, str], KernelFacts]
) -> list[LimitChange]:
    """Return the launch limits that differ between the bundles, for kernels that are in both bundles."""
    found: list[LimitChange] = []
    for (kernel, arch), now in new.items():
        was = old.get((kernel, arch))
        for what in dict.fromkeys((*was["limits"], *now["limits"])) if was is not None else ():
            before, after = (_limit_text(each["limits"].get(what)) for each in (was or now, now))
            if before != after:
                found.append(
                    {
                        "what": what,
                        "module": kernel[0],
                        "kernel": kernel[1],
                        "arch": arch,
                        "before": before,
                        "after": after,
                    }
                )
    return sorted(found, key=lambda each: (by_number(each["module"]), by_number(each["kernel"])))


def _limit_text(value: Sequence[int] | None) -> str | None:
    """Return a kernel's launch limit as text, such as `128` for 128 x 1 x 1, or `16x8` for 16 x 8 x 1."""
    if value is None:
        return None
    shown = [*value]
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))


def _common_units(before: BundleFacts | None, after: BundleFacts | None) -> list[tuple[UnitFacts, UnitFacts]]:
    """Return pairs of old and new code: one pair for each module and arch that is in both bundles."""
    old = {(unit["module"], unit["arch"]): unit for unit in (before["units"] if before else ())}
    units = after["units"] if after else ()
    return [(was, unit) for unit in units if (was := old.get((unit["module"], unit["arch"]))) is not None]


def _changed_bytes(pairs: Sequence[tuple[UnitFacts, UnitFacts]]) -> list[ChangedBytes]:
    found: list[ChangedBytes] = []
    for was, unit in pairs:
        one, other = was["digests"], unit["digests"]
        if one and other and one["all"] != other["all"]:
            parts = [part for part in other if part in one and part != "all" and one[part] != other[part]]
            found.append({"module": unit["module"], "arch": unit["arch"], "parts": parts})
    return found


def _worst_first(change: ResourceChange) -> tuple[object, ...]:
    more = change["after"] - change["before"]
    names = by_number(change["module"]), by_number(change["kernel"]), arch_order(change["arch"])
    return (more < 0, RESOURCES.index(change["what"]), -abs(more), *names)


def _arch_sizes(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, Sizes]:
    names = sorted({*before, *after}, key=arch_order)
    return {
        name: {"before": before.get(name), "after": after.get(name)}
        for name in names
        if before.get(name) != after.get(name)
    }


def _resized_units(before: BundleFacts | None, after: BundleFacts | None) -> list[ResizedUnit]:
    """Return the compiled code whose size has changed, with the largest difference first."""
    sizes: list[ResizedUnit] = [
        {"module": unit["module"], "arch": unit["arch"], "before": was["bytes"], "after": unit["bytes"]}
        for was, unit in _common_units(before, after)
        if was["bytes"] != unit["bytes"]
    ]
    return sorted(sizes, key=lambda each: -abs(each["after"] - each["before"]))


def _changed_tools(before: BundleFacts, after: BundleFacts) -> Iterator[ChangedTool]:
    one = {**before["toolchain"], "generator": before["generator"], "data model": before["data_model"]}
    other = {**after["toolchain"], "generator": after["generator"], "data model": after["data_model"]}
    for name in sorted({*one, *other}):
        if one.get(name) != other.get(name):
            yield {"name": name, "before": one.get(name), "after": other.get(name)}


def exceeding(diff: BundleDiff, limit: FailLimit) -> list[str]:
    """Return a line of text for each changed kernel that exceeds a limit of `--fail-on`."""
    if limit.what == "lost":
        return [moved_title(each) for each in diff["lost"]]
    if limit.what == "signatures":
        return [f"{each['before']} is {each['after']}" for each in diff["signatures"]]
    return [
        change_title(each)
        for each in diff["changes"]
        if each["what"] == limit.what and limit.is_passed(each["before"], each["after"])
    ]


def moved_title(moved: MovedKernel) -> str:
    """Return a line of text about a kernel that was added or removed."""
    return f"{kernel_title(moved['module'], moved['kernel'])} for {', '.join(moved['archs'])}"


def change_title(change: ResourceChange) -> str:
    """Return a line of text about a changed resource of a kernel."""
    name = kernel_title(change["module"], change["kernel"])
    return f"{name} for {change['arch']}: {change['what']} {change['before']} -> {change['after']}"


def is_empty(diffs: Sequence[BundleDiff]) -> bool:
    """Return whether two wheels have no differences."""
    return not any(
        each[name]
        for each in diffs
        for name in (
            "toolchain",
            "lost",
            "gained",
            "signatures",
            "changes",
            "limits",
            "other",
            "archs",
            "units",
        )
    )
