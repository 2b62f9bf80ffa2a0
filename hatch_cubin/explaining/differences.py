"""Explain a cache miss: find the cached unit with the most similar inputs, and list the differences.

A unit is a module that is compiled for one arch. `keys/ingredients.py` lists all inputs of a compile, with
their types and a sentence about each kind of difference. This module compares the value of each input of the
cached unit with the value in the current unit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from ..headers.resolve import OWN
from ..keys.ingredients import INGREDIENTS, Ingredient

Inputs = Mapping[str, Any]
SortKey = tuple[object, ...]

_DIGESTS = re.compile(r"( [0-9a-f]{64})+$")

_SENTENCES = {kind: three for each in INGREDIENTS for kind, three in each.sentences.items()}


class Difference(NamedTuple):
    """An input that differs between two units: its kind and both values.

    If there are several inputs of this kind, the difference also has the name of the input.
    """

    input: str
    name: str | None
    was: str | None
    now: str | None


class NearestUnit(NamedTuple):
    """The cached unit that is most similar to another unit, and the differences between the two units."""

    key: str
    inputs: Inputs
    differences: tuple[Difference, ...]


def nearest_unit(now: Inputs, variant: Iterable[str], records: Mapping[str, Inputs]) -> NearestUnit | None:
    """Return the cached unit that is most similar to the unit with the inputs *now*.

    A cached unit is compared with *now* only if the sources of the two units have the same path or the same
    text. Return None if the cache contains no unit that can be compared.

    *variant* contains the macros of the unit's variant, such as `BLOCK=64`.
    """
    own = set(variant)

    def rank(each: NearestUnit) -> SortKey:
        was = each.inputs
        return (
            was["path"] != now["path"],
            _arch_distance(was["arch"], now["arch"]),
            len(own.difference(map(str, was["define"]))),
            len(each.differences),
            each.key,
        )

    near = (
        NearestUnit(key, was, differences(was, now))
        for key, was in records.items()
        if isinstance(was, dict) and _is_same_source(was, now) and _is_whole(was)
    )
    return min(near, key=rank, default=None)


def _is_same_source(was: Inputs, now: Inputs) -> bool:
    return any(was.get(part) == now[part] for part in ("path", "source"))


def _is_whole(inputs: Inputs) -> bool:
    """Return whether the inputs in a cache record are complete and have the right types.

    The inputs may be incomplete, because another program or an older release may have written the cache
    record.
    """
    return all(
        isinstance(inputs[each.name], each.type) if each.name in inputs else not each.is_in_all
        for each in INGREDIENTS
    )


def _arch_distance(was: str, now: str) -> SortKey:
    """Return a sort key for archs: the same arch, then archs of the same kind, then similar numbers."""
    numbers = [int("".join(filter(str.isdecimal, arch)) or 0) for arch in (was, now)]
    return was != now, was.partition("_")[0] != now.partition("_")[0], abs(numbers[0] - numbers[1])


def differences(was: Inputs, now: Inputs) -> tuple[Difference, ...]:
    """Return all inputs that differ, beginning with inputs that people change most often."""
    found = tuple(_differences(was, now))
    # The compiler does not use cuda.core, but cuda.core computes a part of the cache key.
    if not found and was["cuda_core"] != now["cuda_core"]:
        return (Difference("cuda_core", None, was["cuda_core"], now["cuda_core"]),)
    return found


def _differences(was: Inputs, now: Inputs) -> Iterator[Difference]:
    for each in INGREDIENTS:
        compare = _COMPARE_WITH_OTHERS.get(each.name)
        yield from compare(was, now) if compare else _compare_ingredient(each, was, now)


def _compare_ingredient(each: Ingredient, was: Inputs, now: Inputs) -> Iterator[Difference]:
    """Yield the differences between two values of an input. Lists and dicts are compared item by item."""
    kind = next(iter(each.sentences))
    if each.type in (list, dict):
        parts = _SPLIT_INTO_PARTS.get(each.name, _shown_by_name if each.type is dict else _by_value)
        pair = (parts(inputs.get(each.name, each.type())) for inputs in (was, now))
        yield from _compare_parts(kind, *pair, order=f"{kind} order" in each.sentences)
    elif was.get(each.name) != now.get(each.name):
        before, after = (_shown(inputs[each.name]) if each.name in inputs else None for inputs in (was, now))
        yield Difference(kind, None, before, after)


def _compare_assembled(was: Inputs, now: Inputs) -> Iterator[Difference]:
    if was["arch"] == now["arch"] and "assembled" not in was and "assembled" in now:
        yield Difference("assembled", None, None, now["assembled"])


def _compare_search(was: Inputs, now: Inputs) -> Iterator[Difference]:
    """Yield the differences between two search paths for headers.

    Folders outside the project are compared only if both search paths contain folders outside the project.

    The search path that hatch-cubin records for a unit contains only the folders that the unit's includes
    need: no folder for a unit without headers, and only folders of the project for a unit that includes only
    headers of the project. If a new header has added folders to the search path, only the header is reported.
    """
    paths = [was["search"], now["search"]]
    if not all(paths) and _user_headers(was["headers"]) != _user_headers(now["headers"]):
        return
    own = [[folder for folder in path if folder.startswith(OWN)] for path in paths]
    beyond = [len(path) > len(folders) for path, folders in zip(paths, own, strict=True)]
    yield from _compare_parts("search", *map(_by_value, paths if all(beyond) else own), order=True)


def _compare_header_trees(was: Inputs, now: Inputs) -> Iterator[Difference]:
    before, after = (
        {
            name: f"{inputs['builds'].get(name, name)} {value}"
            for name, value in inputs["headers"].items()
            if "/" not in name
        }
        for inputs in (was, now)
    )
    for name in dict.fromkeys((*before, *after)):
        # Headers are compared by digest, because a new version with the same content does not change the
        # cache key.
        if was["headers"].get(name) != now["headers"].get(name):
            yield Difference("headers", name, before.get(name), after.get(name))


def _compare_parts(
    kind: str, was: Mapping[str, str], now: Mapping[str, str], *, order: bool = False
) -> Iterator[Difference]:
    if order and was == now and [*was] != [*now]:
        yield Difference(f"{kind} order", None, ", ".join(was), ", ".join(now))
    for name in dict.fromkeys((*was, *now)):
        if was.get(name) != now.get(name):
            yield Difference(kind, name, was.get(name), now.get(name))


def _macro_values(values: Iterable[object]) -> dict[str, str]:
    return {name: value for name, _, value in (str(each).partition("=") for each in values)}


def _shown_by_name(values: Mapping[str, object]) -> dict[str, str]:
    return {name: _shown(value) for name, value in values.items()}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _linked_inputs(values: Iterable[object]) -> dict[str, str]:
    """Return a mapping from name to digest for the inputs of a link, in the order of the link."""
    return {name: digest for digest, name in (str(each).split(" ", 2)[::2] for each in values)}


def _by_value(values: Iterable[object]) -> dict[str, str]:
    return {str(value): str(value) for value in values}


def _user_headers(values: Mapping[str, str]) -> dict[str, str]:
    """Return a mapping from path to digest for the headers of the project.

    Names without '/' are left out, because each of them stands for all headers of a wheel or a toolkit.
    """
    return {name: value for name, value in values.items() if "/" in name}


def _by_tree_name(trees: Iterable[str]) -> dict[str, str]:
    return {_tree_name(tree): tree for tree in trees}


# For some inputs, a function that splits the value into named parts before the comparison.
_SPLIT_INTO_PARTS: Mapping[str, Callable[[Any], Mapping[str, str]]] = {
    "define": _macro_values,
    "headers": _user_headers,
    "linked": _linked_inputs,
    "trees": _by_tree_name,
}
# For some inputs, a function that compares them, because the comparison depends on other inputs.
_COMPARE_WITH_OTHERS: Mapping[str, Callable[[Inputs, Inputs], Iterable[Difference]]] = {
    "assembled": _compare_assembled,
    "builds": _compare_header_trees,
    # The function `differences` compares the version of cuda.core if no other input differs.
    "cuda_core": lambda _was, _now: (),
    "search": _compare_search,
}


def describe_all(differences: Sequence[Difference], now: Inputs) -> list[str]:
    """Return a sentence for each difference.

    If the compiler's version differs, one sentence covers the differences that the new version causes.
    """
    changed = [each for each in differences if not _comes_with_compiler(each)]
    if not changed or changed[0].input != "compiler" or len(changed) == len(differences):
        return [describe(each, now) for each in differences]
    compiler_versions, *others = (describe(each, now) for each in changed)
    return [f"{compiler_versions}, and the compiler's own headers and options differ too", *others]


def _comes_with_compiler(difference: Difference) -> bool:
    """Return whether a new compiler version usually causes this difference, such as other toolkit headers."""
    kind, name, *_values = difference
    return kind in {"headers", "tree", "implicit", "search order"} or (
        kind == "search" and not str(name).startswith(OWN)
    )


def describe(difference: Difference, now: Inputs) -> str:
    """Return a sentence that describes one difference."""
    kind, name, was, new = difference
    changed, added, gone = _SENTENCES[kind]
    template = added if was is None else gone if new is None else changed
    if kind == "headers":
        was, new = _tree_name(was or ""), _tree_name(new or "")
        template = "headers from {new} differ" if was == new else template
    label = (name or "").removeprefix(OWN)
    of_suffix = {".ptx": "ptxas", ".tileir": "tileiras"}
    tool = "nvJitLink" if "linked" in now else of_suffix.get(PurePosixPath(now["path"]).suffix, "NVRTC")
    return template.format(name=label, old=was, new=new, path=now["path"], tool=tool)


def _tree_name(tree: str) -> str:
    """Return the name of a header tree for messages, such as 'NVRTC 13.4.92'."""
    return _DIGESTS.sub("", tree).removesuffix(" headers")
