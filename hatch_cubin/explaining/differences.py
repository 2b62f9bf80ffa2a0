"""What differs between the inputs of two units, and which cached unit is nearest to one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..headers.resolve import OWN
from ..keys.ingredients import INGREDIENTS, Ingredient

Inputs = Mapping[str, Any]
Order = tuple[object, ...]

_DIGESTS = re.compile(r"( [0-9a-f]{64})+$")

_SENTENCES = {kind: three for each in INGREDIENTS for kind, three in each.sentences.items()}


class Difference(NamedTuple):
    """One input that is not what it was: its kind, its name where there are many of a kind, both values."""

    input: str
    name: str | None
    was: str | None
    now: str | None


class Nearest(NamedTuple):
    """The cached unit that is most like another one, and what tells them apart."""

    key: str
    inputs: Inputs
    differences: tuple[Difference, ...]


def nearest(now: Inputs, variant: Iterable[str], records: Mapping[str, Inputs]) -> Nearest | None:
    """Return the cached unit most like this one, of those whose source has the same path or the same text.

    *variant* are the macros that tell the unit from its source's other variants, as its inputs have them.
    """
    own = set(variant)

    def rank(each: Nearest) -> Order:
        was = each.inputs
        return (
            was["path"] != now["path"],
            _arch_distance(was["arch"], now["arch"]),
            len(own.difference(map(str, was["define"]))),
            len(each.differences),
            each.key,
        )

    near = (
        Nearest(key, was, differences(was, now))
        for key, was in records.items()
        if isinstance(was, dict) and _is_same_source(was, now) and _is_whole(was)
    )
    return min(near, key=rank, default=None)


def _is_same_source(was: Inputs, now: Inputs) -> bool:
    return any(was.get(part) == now[part] for part in ("path", "source"))


def _is_whole(inputs: Inputs) -> bool:
    """Say whether a record has every input that it needs to be compared, each of its type."""
    return all(
        isinstance(inputs[each.name], each.type) if each.name in inputs else not each.is_in_all
        for each in INGREDIENTS
    )


def _arch_distance(was: str, now: str) -> Order:
    """Return how far one arch is from another: 'the same' is nearest, then the same kind, then its number."""
    numbers = [int("".join(filter(str.isdecimal, arch)) or 0) for arch in (was, now)]
    return was != now, was.partition("_")[0] != now.partition("_")[0], abs(numbers[0] - numbers[1])


def differences(was: Inputs, now: Inputs) -> tuple[Difference, ...]:
    """Return every input that differs; those that people change come first."""
    found = tuple(_differences(was, now))
    if not found and was["cuda_core"] != now["cuda_core"]:  # no input, but it makes the keys
        return (Difference("cuda_core", None, was["cuda_core"], now["cuda_core"]),)
    return found


def _differences(was: Inputs, now: Inputs) -> Iterator[Difference]:
    for each in INGREDIENTS:
        compare = _COMPARED.get(each.name)
        yield from compare(was, now) if compare else _compared(each, was, now)


def _compared(each: Ingredient, was: Inputs, now: Inputs) -> Iterator[Difference]:
    """Yield how one ingredient differs: as a whole, or part by part if it is a list or a dict."""
    kind = next(iter(each.sentences))
    if each.type in (list, dict):
        parts = _PARTS.get(each.name, _named if each.type is dict else _members)
        pair = (parts(inputs.get(each.name, each.type())) for inputs in (was, now))
        yield from _changed(kind, *pair, order=f"{kind} order" in each.sentences)
    elif was.get(each.name) != now.get(each.name):
        before, after = (_shown(inputs[each.name]) if each.name in inputs else None for inputs in (was, now))
        yield Difference(kind, None, before, after)


def _assembled(was: Inputs, now: Inputs) -> Iterator[Difference]:
    if was["arch"] == now["arch"] and "assembled" not in was and "assembled" in now:
        yield Difference("assembled", None, None, now["assembled"])


def _search(was: Inputs, now: Inputs) -> Iterator[Difference]:
    """Yield how the search path differs: in the project's folders alone, unless both paths go beyond these.

    A first header brings the whole path, and a first header of others brings the rest of it.
    """
    paths = [was["search"], now["search"]]
    if not all(paths) and _headers(was["headers"]) != _headers(now["headers"]):
        return
    own = [[folder for folder in path if folder.startswith(OWN)] for path in paths]
    beyond = [len(path) > len(folders) for path, folders in zip(paths, own, strict=True)]
    yield from _changed("search", *map(_members, paths if all(beyond) else own), order=True)


def _trees(was: Inputs, now: Inputs) -> Iterator[Difference]:
    before, after = (
        {
            name: f"{inputs['builds'].get(name, name)} {value}"
            for name, value in inputs["headers"].items()
            if "/" not in name
        }
        for inputs in (was, now)
    )
    for name in dict.fromkeys((*before, *after)):
        if was["headers"].get(name) != now["headers"].get(name):  # a key does not say of which build
            yield Difference("headers", name, before.get(name), after.get(name))


def _changed(
    kind: str, was: Mapping[str, str], now: Mapping[str, str], *, order: bool = False
) -> Iterator[Difference]:
    if order and was == now and [*was] != [*now]:
        yield Difference(f"{kind} order", None, ", ".join(was), ", ".join(now))
    for name in dict.fromkeys((*was, *now)):
        if was.get(name) != now.get(name):
            yield Difference(kind, name, was.get(name), now.get(name))


def _macros(values: Iterable[object]) -> dict[str, str]:
    return {name: value for name, _, value in (str(each).partition("=") for each in values)}


def _named(values: Mapping[str, object]) -> dict[str, str]:
    return {name: _shown(value) for name, value in values.items()}


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _linked(values: Iterable[object]) -> dict[str, str]:
    """Return what a module is linked of, in order, with the digest and the kind of each."""
    return {name: what for what, name in (str(each).split(" ", 2)[::2] for each in values)}


def _members(values: Iterable[object]) -> dict[str, str]:
    return {str(value): str(value) for value in values}


def _headers(values: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that are the user's, and the digest of each."""
    return {name: value for name, value in values.items() if "/" in name}


def _builds(trees: Iterable[str]) -> dict[str, str]:
    return {_build(tree): tree for tree in trees}


# How lists and dicts are split into their parts, unless a part is a member or a name.
_PARTS: Mapping[str, Callable[[Any], Mapping[str, str]]] = {
    "define": _macros,
    "headers": _headers,
    "linked": _linked,
    "trees": _builds,
}
# What is compared with the help of other inputs.
_COMPARED: Mapping[str, Callable[[Inputs, Inputs], Iterable[Difference]]] = {
    "assembled": _assembled,
    "builds": _trees,
    "cuda_core": lambda _was, _now: (),  # reported only if nothing else differs
    "search": _search,
}


def say(differences: Sequence[Difference], now: Inputs) -> list[str]:
    """Return differences as people read them; those that come with another compiler are summed up."""
    changed = [each for each in differences if not _is_brought(each)]
    if not changed or changed[0].input != "compiler" or len(changed) == len(differences):
        return [say_one(each, now) for each in differences]
    compiler, *others = (say_one(each, now) for each in changed)
    return [f"{compiler}, and what comes with it", *others]


def _is_brought(difference: Difference) -> bool:
    """Say whether a difference comes with another compiler, for both belong to the environment."""
    kind, name, *_values = difference
    return kind in {"headers", "tree", "implicit", "search order"} or (
        kind == "search" and not str(name).startswith(OWN)
    )


def say_one(difference: Difference, now: Inputs) -> str:
    """Return one difference as people read it."""
    kind, name, was, new = difference
    changed, added, gone = _SENTENCES[kind]
    sentence = added if was is None else gone if new is None else changed
    if kind == "headers":
        was, new = _build(was or ""), _build(new or "")
        sentence = "headers from {now} differ" if was == new else sentence
    label = (name or "").removeprefix(OWN)
    tool = "nvJitLink" if "linked" in now else "ptxas" if now["path"].endswith(".ptx") else "NVRTC"
    return sentence.format(name=label, was=was, now=new, path=now["path"], tool=tool)


def _build(tree: str) -> str:
    """Return how people call the build of a tree of headers."""
    return _DIGESTS.sub("", tree).removesuffix(" headers")
