"""Why an arch is built or is not, and what a GPU would load of what is planned. Pure."""

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

Expand = Callable[[Sequence[str]], Iterable[Target]]
Entries = Sequence[tuple[str, int | None]]  # each arch, and the driver that it needs if that is known

VARIABLE = "HATCH_CUBIN_ARCHS"


class Asked(NamedTuple):
    """One spec of the `archs` that a source is built for, and what came of it."""

    spec: str
    where: str
    own: bool  # whether it stands in a [[source]] table, in place of the global archs
    gives: tuple[Arch, ...]
    left_out: tuple[tuple[Arch, str], ...]  # with the reason

    @property
    def place(self) -> str:
        """Where it stands, as people read it."""
        return f"{self.where}{', in place of the global archs' if self.own else ''}"

    def __str__(self) -> str:
        return f"{self.spec!r} ({self.place})"


class Loads(NamedTuple):
    """What a GPU would load of a module."""

    arch: str | None
    rule: str | None = None
    needs: int | None = None  # which driver, as `cuDriverGetVersion` counts; None where it is not known yet
    certain: bool = True
    why: str | None = None  # the reason where it would load nothing


def asked(
    config: Config, module: Module, toolchain: Toolchain, expand: Expand, *, replaced: bool
) -> list[Asked]:
    """Return each spec that asks for archs of a module.

    *replaced* says that an environment variable replaces the table's `archs`.
    """
    specs, places, own = _specs(config, module, replaced=replaced)
    return [
        Asked(spec, where, own, *_outcome(expand([spec]), module, toolchain))
        for spec, where in zip(specs, places, strict=True)
    ]


def _specs(config: Config, module: Module, *, replaced: bool) -> tuple[Sequence[str], Sequence[str], bool]:
    """Return the specs that a module is built for, the place of each, and whether they are its own."""
    linked, path = module.part_of or module.base, module.source.path
    for index, table in enumerate(config.module if module.part_of or module.link else ()):
        if table.name == linked and table.archs:
            return table.archs, _places(config, len(table.archs), "module", index), True
    for index, rule in reversed([*enumerate(config.source)]):  # later tables win
        if rule.archs and glob_regex(rule.path).fullmatch(path):
            return rule.archs, _places(config, len(rule.archs), "source", index), True
    count = len(config.archs)
    if replaced:
        return config.archs, [VARIABLE] * count, False
    return (
        config.archs,
        _places(config, count) if config.place.has("archs") else ["the default"] * count,
        False,
    )


def _places(config: Config, count: int, *path: str | int) -> list[str]:
    return [str(config.place.of(*path, "archs", number)) for number in range(count)]


def _outcome(
    targets: Iterable[Target], module: Module, toolchain: Toolchain
) -> tuple[tuple[Arch, ...], tuple[tuple[Arch, str], ...]]:
    """Return the archs that *targets* give, and those that are left out, each with the reason."""
    gives, left_out = [], []
    for target in targets:
        notes: list[str] = []
        arch = unit_plan.served(module, target, toolchain, notes)
        if arch is None:
            left_out.append((target.arch, notes[0]))
        else:
            gives.append(arch)
    return tuple(dict.fromkeys(gives)), tuple(left_out)


def about_arch(arch: Arch, source: Source, toolchain: Toolchain, specs: Sequence[Asked]) -> tuple[bool, str]:
    """Say whether an arch is built, and why."""
    if by := [each for each in specs if arch in each.gives]:
        return True, f"{' and '.join(map(str, by))} ask{'s' * (len(by) == 1)} for it"
    for each in specs:
        for left, note in each.left_out:
            if left == arch:
                return False, note
    try:
        served = unit_plan.arch_for(source, Target(arch), toolchain, [])
    except HatchCubinError as exc:
        problem = exc.problems[0]
        return False, "; ".join((problem.what, *(problem.details or filter(None, [problem.hint]))))
    if served != arch:
        return False, f"PTX is shipped as it is, and its .target makes it {served}"
    return False, "none of the archs asks for it"


def loads(cc: int, driver: int | None, entries: Entries, newest: int) -> Loads:
    """Return what a GPU of capability *cc* would load of *entries*.

    The driver that an entry needs may not be known yet. Then it is at most *newest*, the toolkit's release.
    """
    chosen = _select(cc, driver, entries, unknown=0)
    if chosen is None:
        later = _select(cc, None, entries, unknown=0)
        if later is None:
            return Loads(None)
        return Loads(
            None, needs=dict(entries)[later[0]], why=f"{later[0]} would run on it with a newer driver"
        )
    sure = _select(cc, driver, entries, unknown=newest)
    return Loads(*chosen, needs=dict(entries)[chosen[0]], certain=sure == chosen)


def _select(cc: int, driver: int | None, entries: Entries, *, unknown: int) -> tuple[str, str] | None:
    shipped = [(arch, unknown if needed is None else needed) for arch, needed in entries]
    return loader.select(cc, driver, shipped)
