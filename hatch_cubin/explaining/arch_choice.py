"""Explain why an arch is built or not, and which of the planned archs a GPU would load. Pure."""

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
ArchEntries = Sequence[tuple[str, int | None]]  # each arch, and the driver that it needs; None: not known yet


class ArchRequest(NamedTuple):
    """One spec of the `archs` that a source is built for, and the archs that it gives."""

    spec: str
    where: str
    own: bool  # whether it is in a [[source]] or [[module]] table, which replaces the global archs
    gives: tuple[Arch, ...]
    left_out: tuple[tuple[Arch, str], ...]  # with the reason

    @property
    def place(self) -> str:
        """The file and line of the spec, for people."""
        return f"{self.where}{', in place of the global archs' if self.own else ''}"

    def __str__(self) -> str:
        return f"{self.spec!r} ({self.place})"


class GpuChoice(NamedTuple):
    """The entry of a module that a GPU would load, or the reason why it would load none."""

    arch: str | None
    rule: str | None = None
    needs: int | None = None  # the driver, as `cuDriverGetVersion` counts; None: not known yet
    certain: bool = True
    why: str | None = None  # only if the GPU would load nothing


def arch_requests(
    config: Config, module: Module, toolchain: Toolchain, expand: ExpandArchs
) -> list[ArchRequest]:
    """Return each spec that asks for archs of a module."""
    specs, places, own = _requested_specs(config, module)
    return [
        ArchRequest(spec, where, own, *_given_and_left_out(expand([spec]), module, toolchain))
        for spec, where in zip(specs, places, strict=True)
    ]


def _requested_specs(config: Config, module: Module) -> tuple[Sequence[str], Sequence[str], bool]:
    """Return the specs that a module is built for, the place of each, and whether the module has its own."""
    linked, path = module.part_of or module.base, module.source.path_for_globs
    produced = module.source.produced
    for index, table in enumerate(config.module if module.part_of or module.link else ()):
        if table.name == linked and table.archs:
            return table.archs, _spec_places(config, len(table.archs), "module", index), True
    if produced and produced.rule.archs:
        return produced.rule.archs, [produced.producer] * len(produced.rule.archs), True
    for index, rule in reversed([*enumerate(config.source)]):  # later tables win
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
    """Return the archs that *targets* give, and the archs that are left out, each with the reason."""
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
    """Return whether an arch is built, and the reason."""
    if by := [each for each in specs if arch in each.gives]:
        return True, f"{' and '.join(map(str, by))} ask{'s' * (len(by) == 1)} for it"
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
        return False, f"PTX is shipped as it is, and its .target makes it {served}"
    return False, "none of the archs asks for it"


def choose_for_gpu(cc: int, driver: int | None, entries: ArchEntries, newest: int) -> GpuChoice:
    """Return which of *entries* a GPU of capability *cc* would load.

    It is not known which driver PTX needs until the PTX is compiled: at most *newest*, the toolkit's release.
    So the choice is certain only if it is the same for the oldest and the newest driver that may be needed.
    """
    chosen = _select_entry(cc, driver, entries, assumed_driver=0)
    if chosen is None:
        later = _select_entry(cc, None, entries, assumed_driver=0)
        if later is None:
            return GpuChoice(None)
        return GpuChoice(
            None, needs=dict(entries)[later[0]], why=f"{later[0]} would run on it with a newer driver"
        )
    sure = _select_entry(cc, driver, entries, assumed_driver=newest)
    return GpuChoice(*chosen, needs=dict(entries)[chosen[0]], certain=sure == chosen)


def _select_entry(
    cc: int, driver: int | None, entries: ArchEntries, *, assumed_driver: int
) -> tuple[str, str] | None:
    shipped = [(arch, assumed_driver if needed is None else needed) for arch, needed in entries]
    return loader.select(cc, driver, shipped)
