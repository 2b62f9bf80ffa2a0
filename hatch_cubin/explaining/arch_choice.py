"""Explain why an arch is built or not built, and which of the planned archs a GPU would load."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from .. import loader
from ..common.arch_names import Arch, Target
from ..config.config import Config
from ..errors import HatchCubinError
from ..planning import unit_plan
from ..planning.unit_plan import Module, Toolchain
from ..project.source import Source, glob_regex

ExpandArchs = Callable[[Sequence[str]], Iterable[Target]]
# Each arch, with the driver version that it needs (None if it is not known yet).
ArchEntries = Sequence[tuple[str, int | None]]


class ArchRequest(NamedTuple):
    """One entry of `archs`, such as `all-major`, and the archs that the entry means for a module."""

    spec: str
    where: str
    # Whether the arch comes from a [[source]] or [[module]] table, which replaces the global `archs`.
    own: bool
    gives: tuple[Arch, ...]
    left_out: tuple[tuple[Arch, str], ...]  # The archs that are not built, each with the reason.

    @property
    def place(self) -> str:
        """The file and line of this entry of `archs`, for messages."""
        return f"{self.where}, in place of the global archs" if self.own else self.where

    def __str__(self) -> str:
        return f"{self.spec!r} ({self.place})"


class GpuChoice(NamedTuple):
    """The compiled file of a module that a GPU would load, or the reason why the GPU loads none."""

    arch: str | None
    rule: str | None = None
    # The driver version that the code needs, as `cuDriverGetVersion` numbers it. None if it is not known yet.
    needs: int | None = None
    certain: bool = True
    why: str | None = None  # The reason why the GPU could not load any code.


def arch_requests(
    config: Config, module: Module, toolchain: Toolchain, expand: ExpandArchs
) -> list[ArchRequest]:
    """Return all entries of `archs` that apply to a module."""
    specs, places, own = _requested_specs(config, module)
    return [
        ArchRequest(spec, where, own, *_given_and_left_out(expand([spec]), module, toolchain))
        for spec, where in zip(specs, places, strict=True)
    ]


def _requested_specs(config: Config, module: Module) -> tuple[Sequence[str], Sequence[str], bool]:
    """Return a module's `archs`, the line of each entry, and whether they are set for this module alone."""
    linked, path = module.part_of or module.base, module.source.path_for_globs
    produced = module.source.produced
    for index, table in enumerate(config.module if module.part_of or module.link else ()):
        if table.name == linked and table.archs:
            return table.archs, _spec_places(config, len(table.archs), "module", index), True
    if produced and produced.rule.archs:
        return produced.rule.archs, [produced.producer] * len(produced.rule.archs), True
    # If several tables match, the last of them takes precedence.
    for index, rule in reversed([*enumerate(config.source)]):
        if rule.archs and glob_regex(rule.path).fullmatch(path):
            return rule.archs, _spec_places(config, len(rule.archs), "source", index), True
    count = len(config.archs)
    if (setter := config.replaced.get("archs")) is not None:
        return config.archs, [setter] * count, False
    return (
        config.archs,
        _spec_places(config, count) if config.place.has("archs") else ["the default"] * count,
        False,
    )


def _spec_places(config: Config, count: int, *path: str | int) -> list[str]:
    return [str(config.place.of(*path, "archs", number)) for number in range(count)]


def _given_and_left_out(
    targets: Iterable[Target], module: Module, toolchain: Toolchain
) -> tuple[tuple[Arch, ...], tuple[tuple[Arch, str], ...]]:
    """Return the archs that a build compiles for, and the archs that it leaves out, with reasons."""
    gives, left_out = [], []
    for target in targets:
        notes: list[str] = []
        arch = unit_plan.arch_to_build(module, target, toolchain, notes)
        if arch is None:
            left_out.append((target.arch, notes[0]))
        else:
            gives.append(arch)
    return tuple(dict.fromkeys(gives)), tuple(left_out)


def explain_arch(
    arch: Arch, source: Source, toolchain: Toolchain, specs: Sequence[ArchRequest]
) -> tuple[bool, str]:
    """Return whether *arch* is built for a module, and the reason."""
    if by := [each for each in specs if arch in each.gives]:
        return True, f"{' and '.join(map(str, by))} include{'s' * (len(by) == 1)} this arch"
    for each in specs:
        for left, note in each.left_out:
            if left == arch:
                return False, note
    try:
        served = unit_plan.arch_for_source(source, Target(arch), toolchain, [])
    except HatchCubinError as exc:
        problem = exc.problems[0]
        return False, "; ".join((problem.what, *(problem.details or filter(None, [problem.hint]))))
    if served != arch:
        return False, f"this source is PTX for {served}, and PTX sources are shipped unchanged"
    return False, f"no entry of archs ({specs[0].place}) includes this arch"


def choose_for_gpu(cc: int, driver: int | None, entries: ArchEntries, newest: int) -> GpuChoice:
    """Return which of *entries* a GPU of compute capability *cc* would load.

    The driver version that PTX requires is known only after the PTX is compiled. *newest* is the highest
    driver version that PTX from this toolkit can require. The result is certain if the GPU would load the
    same entry for the lowest and for the highest driver version that the PTX could require.
    """
    chosen = _select_entry(cc, driver, entries, assumed_driver=0)
    if chosen is None:
        later = _select_entry(cc, None, entries, assumed_driver=0)
        if later is None:
            return GpuChoice(None)
        return GpuChoice(
            None, needs=dict(entries)[later[0]], why=f"with a newer driver, the GPU would load {later[0]}"
        )
    sure = _select_entry(cc, driver, entries, assumed_driver=newest)
    return GpuChoice(*chosen, needs=dict(entries)[chosen[0]], certain=sure == chosen)


def _select_entry(
    cc: int, driver: int | None, entries: ArchEntries, *, assumed_driver: int
) -> tuple[str, str] | None:
    shipped = [(arch, assumed_driver if needed is None else needed) for arch, needed in entries]
    return loader.select(cc, driver, shipped)
