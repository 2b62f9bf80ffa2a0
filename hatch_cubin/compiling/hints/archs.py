"""Hints for a source that compiles for only some archs: the hint lists these archs."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace

from ...common.arch_names import Arch
from ...common.capabilities import FIRST_A
from ...config import toml_lines
from ...errors import MANY
from ...planning.unit_plan import Module, Unit
from ..diagnostics import Diagnostic

_LATER = re.compile(r"requires \.target sm_([0-9]+)([af]?) or higher")
_CLUSTERS = re.compile(r"__(?:cluster_dims|block_size)__ is not supported for this GPU architecture")
# Each entry is for names that only newer archs have: the first arch with the name, and a pattern for the
# compiler's message. The patterns were tested with sm_75, sm_80, sm_90 and sm_100.
_SINCE = tuple(
    (number, re.compile(pattern))
    for number, pattern in (
        (80, r'"(?:__reduce_(?:add|min|max|and|or|xor)_sync|__float_to_tf32)"'),
        (80, r'incomplete type "nvcuda::wmma::fragment<.*(?:__nv_bfloat16|double|tf32|<error-type>)'),
        (90, r'"(?:__cluster\w+|__isClusterShared|this_cluster|cluster_group)"'),
        (90, r'namespace "cuda::device::experimental" has no member "(?:cp_async_bulk|fence_proxy_async)'),
        (90, r'"atomicAdd" matches the argument list\n.*\(float[24] \*'),
        (100, r'identifier "__f(?:add|mul|fma)2_r[nduz]"'),
    )
)
_FIRST_WITH_CLUSTERS = 90
_OWN = re.compile(r"(.*) (?:not supported on \.target|cannot be compiled for architecture) 'sm_")


class Archs:
    """The archs for which each source compiles or fails, with the compiler's messages about failures.

    After a source has failed, the build compiles it for more archs, so that a hint can suggest archs that
    work. *tried* contains the units that compiled without errors when the build tried more archs after a
    failure.
    """

    def __init__(
        self,
        failed: Iterable[tuple[Unit, Sequence[Diagnostic]]],
        done: Iterable[Unit],
        supported: Sequence[int],
        tried: Iterable[Unit] = (),
    ) -> None:
        self._failing: dict[str, set[Arch]] = defaultdict(set)
        self._texts: dict[str, set[str]] = defaultdict(set)
        self._first: dict[str, Module] = {}
        self._supported = supported
        for unit, found in failed:
            path = _name(unit.module)
            self._first.setdefault(path, unit.module)
            self._failing[path].add(unit.arch)
            self._texts[path].update(map(_text, found))
        self._working, self._tried = _by_path(done), _by_path(tried)
        self._alike: dict[Hashable, list[str]] = defaultdict(list)
        for path in sorted(self._first):
            self._alike[self._reason(path)].append(path)

    def candidates(self) -> list[Unit]:
        """Return units to try: failed sources, for archs that may have the features that the sources use.

        Of many sources that fail for the same reason, only the first is tried.
        """
        return [
            Unit(module, arch)
            for path, module in self._first.items()
            if path == self._alike_to(path)[0]
            and module.source.is_cpp
            and any(map(_of_gpu, self._texts[path]))
            for arch in sorted(self._others(path))
        ]

    def advise(self, error: Diagnostic, module: Module) -> Diagnostic:
        """Return an error with a hint that lists the archs for which the source can be compiled.

        An error that already has a hint does not change.
        """
        if error.hint is not None or module.link:
            return error
        # Another module of the same source may compile for archs that do not support tile kernels.
        if module.is_tile:
            return replace(error, hint=error.otherwise)
        path = _name(module)
        example, *alike = self._alike_to(path)
        asked = self._good(path)
        others = sorted(self._tried[example].intersection(self._others(path)))
        pasted = _pasted(self._first[example], [str(arch) for arch in sorted([*asked, *others])])
        if not asked and not others:
            return replace(error, hint=error.otherwise)
        hint = f"the source compiles with these archs:{pasted}"
        if alike:
            hint = (
                f"{example} compiles with these archs; write such a table for each of these sources:{pasted}"
            )
        if module.part_of:
            hint = f"the source compiles with these archs in the table of {module.part_of}:{pasted}"
        return replace(error, hint=hint)

    def _alike_to(self, path: str) -> list[str]:
        """Return the sorted paths of many sources that fail for the same reason as *path*, or only *path*."""
        alike = self._alike[self._reason(path)]
        return alike if len(alike) >= MANY else [path]

    def _reason(self, path: str) -> Hashable:
        """Return a value that is equal for sources that probably compile with the same archs."""
        module = self._first[path]
        # The table of a [[module]] sets its archs, so the members of a module are not compared with sources.
        name = path if module.part_of or module.link else ""
        needs = (match[0] if (match := _LATER.search(text)) else text for text in self._texts[path])
        archs = frozenset(self._failing[path]), frozenset(self._working[path])
        return name, module.source.is_cpp, module.is_tile, frozenset(needs), archs

    def _good(self, path: str) -> list[Arch]:
        """Return the requested archs for which the source compiles."""
        return sorted(self._working[path] - self._failing[path])

    def _others(self, path: str) -> list[Arch]:
        """Return archs that the project does not list and for which the source may compile."""
        having, failing = self._having_all(path), self._failing[path]
        if self._good(path):
            numbers = {arch.number for arch in failing}
            having = [arch for arch in having if arch.suffix and arch.number in numbers]
        return [arch for arch in having if arch not in failing and arch not in self._working[path]]

    def _having_all(self, path: str) -> list[Arch]:
        """Return the first arch without a suffix, such as sm_90, that seems to support the source's features.

        If no arch without a suffix seems to support the source's features, return all archs with a suffix,
        such as sm_90a, that seem to support the features.
        """
        every = [
            Arch(number, suffix)
            for number in self._supported
            for suffix in ("", "a")
            if not suffix or number >= FIRST_A
        ]
        having = [arch for arch in every if all(_may_have(arch, text) for text in self._texts[path])]
        return [arch for arch in having if not arch.suffix][:1] or having


def _by_path(units: Iterable[Unit]) -> dict[str, set[Arch]]:
    archs: dict[str, set[Arch]] = defaultdict(set)
    for unit in units:
        archs[_name(unit.module)].add(unit.arch)
    return archs


def _name(module: Module) -> str:
    """Return the key of a module in the mappings of `Archs`: usually the path of the module's source."""
    return module.name if module.part_of or module.link else module.source.path


def _pasted(module: Module, archs: list[str]) -> str:
    if module.part_of:
        return f"\n    {toml_lines.setting('archs', archs)}"
    return toml_lines.source_table(module.source_table_header, module.source.path_for_globs, archs=archs)


def _of_gpu(text: str) -> bool:
    """Return whether an error is about a feature that only some GPUs have."""
    return _first(text) is not None or any(pattern.search(text) for pattern in (_LATER, _CLUSTERS, _OWN))


def _text(error: Diagnostic) -> str:
    """Return the text of an error; after "argument list", include the next line, which lists the types."""
    return "\n".join((error.text, *error.context[:1])) if error.text.endswith("argument list") else error.text


def _first(text: str) -> int | None:
    """Return the number of the oldest arch for which CUDA defines the name in an error message, or None."""
    return next((number for number, pattern in _SINCE if pattern.search(text)), None)


def _may_have(arch: Arch, text: str) -> bool:
    """Return whether an arch may have the feature that is missing according to an error message."""
    if match := _LATER.search(text):
        return arch.number >= int(match[1]) and bool(arch.suffix or not match[2])
    if (first := _first(text)) is not None:
        return arch.number >= first
    if _CLUSTERS.search(text):
        return arch.number >= _FIRST_WITH_CLUSTERS
    return bool(arch.suffix) or not _OWN.search(text)
