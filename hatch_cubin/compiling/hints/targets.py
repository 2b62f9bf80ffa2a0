"""About archs: those that a source compiles for, and those that have an instruction which others lack."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from ..._arch import Arch
from ..._plan import Module, Unit
from ...table import lines
from ..diagnostics import Diagnostic

_LATER = re.compile(r"requires \.target sm_([0-9]+)([af]?) or higher")
_CLUSTERS = re.compile(r"__(?:cluster_dims|block_size)__ is not supported for this GPU architecture")
_OWN = re.compile(r"(.*) (?:not supported on \.target|cannot be compiled for architecture) 'sm_")

# What messages call an instruction, and the GPUs that have it: each was assembled for every arch of 13.5.
_HOPPER = frozenset({90})
_DATACENTER = frozenset({100, 101, 103, 107, 110})
_DESKTOP = frozenset({120, 121})
_HAVING = tuple(
    (re.compile(pattern), numbers)
    for pattern, numbers in (
        (r"wgmma", _HOPPER),
        (r"setmaxnreg|tensormap\.replace", _HOPPER | _DATACENTER | _DESKTOP),
        (r"tcgen05\.ld\.red", frozenset({103, 107, 110})),
        (r"'\.kind::i8'", frozenset({100, 101, 110})),
        (r"'\.rs'|redux\.f32", frozenset({100, 103, 107})),
        (r"tcgen05|cta_group|tile::gather4|im2col::w|'\.\d+x\d+b'|'\.kind::(?:f16|tf32)'", _DATACENTER),
        (r"'mma with (?:with )?(?:block scale|FP6/FP4)", _DESKTOP),
        (r"'\.kind::|block_scale|scale_vec|e2m1|e2m3|e3m2|ue8m0|e[45]m[23]x4", _DATACENTER | _DESKTOP),
        (r"ldmatrix|stmatrix|'\.m\d+n\d+'|multicast::cluster::all", _DATACENTER | _DESKTOP),
    )
)


class Archs:
    """What the archs of each source came to, and what was said of those that failed."""

    def __init__(
        self,
        failed: Iterable[tuple[Unit, Sequence[Diagnostic]]],
        done: Iterable[Unit],
        supported: Sequence[int],
    ) -> None:
        self._failing: dict[str, set[Arch]] = defaultdict(set)
        self._working: dict[str, set[Arch]] = defaultdict(set)
        self._texts: dict[str, set[str]] = defaultdict(set)
        self._supported = supported
        for unit, found in failed:
            self._failing[unit.module.source.path].add(unit.arch)
            self._texts[unit.module.source.path].update(each.text for each in found)
        for unit in done:
            self._working[unit.module.source.path].add(unit.arch)

    def advise(self, error: Diagnostic, module: Module) -> Diagnostic:
        """Return an error with the archs that its source can be built for, where it says nothing else."""
        if error.hint is not None:
            return error
        path = module.source.path
        of_gpu = any(each.search(error.text) for each in (_LATER, _CLUSTERS, _OWN))
        good = sorted(self._working[path] - self._failing[path])
        # What one GPU alone has goes into PTX unseen: no other can run that either.
        good = [arch for arch in good if not (of_gpu and arch.is_ptx)]
        if good:
            archs = lines.source_table(module.tables, path, archs=[*map(str, good)])
            return replace(error, hint=f"it compiles with these archs:{archs}")
        if of_gpu:
            return replace(error, hint=_having_all(self._texts[path], self._supported, module))
        return replace(error, hint=error.otherwise)


def _having_all(texts: Collection[str], supported: Sequence[int], module: Module) -> str:
    """Return for which archs code can be built of which *texts* are all that was said, for any arch."""
    archs = [
        Arch(number, suffix) for number in supported for suffix in ("", "a") if not suffix or number >= 90
    ]
    archs = [arch for arch in archs if all(_may_have(arch, text) for text in texts)]
    plain = [str(arch) for arch in archs if not arch.suffix][:1]
    named = [str(arch) for arch in archs]
    pasted = lines.source_table(module.tables, module.source.path, archs=plain or named)
    if not archs:
        return "no arch that this compiler can target has it"
    if plain:
        return f"{plain[0]} and later have it:{pasted}"
    if not all(_having(text) for text in texts if _OWN.search(text)):
        return f"if it is one of some GPUs alone, one of these archs has it: {', '.join(named)}"
    return f"{', '.join(named)} {'have' if named[1:] else 'has'} it, plain archs do not:{pasted}"


def _may_have(arch: Arch, text: str) -> bool:
    """Say whether an arch may have what an error is about."""
    if match := _LATER.search(text):
        return arch.number >= int(match[1]) and bool(arch.suffix or not match[2])
    if _CLUSTERS.search(text):
        return arch.number >= min(_HOPPER)
    return not _OWN.search(text) or (bool(arch.suffix) and arch.number in (_having(text) or {arch.number}))


def _having(text: str) -> frozenset[int] | None:
    """Return the GPUs that have what an error is about, as far as that is known."""
    match = _OWN.search(text)
    return next((numbers for pattern, numbers in _HAVING if match and pattern.search(match[1])), None)
