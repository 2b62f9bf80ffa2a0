"""What differs between the inputs of two units, and which cached unit is nearest to one. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..sources.search import OWN

Inputs = Mapping[str, Any]
Order = tuple[object, ...]

_PARTS: Mapping[str, type] = {  # without these, nothing can be compared
    "source": str,
    "path": str,
    "arch": str,
    "compiler": str,
    "define": list,
    "options": dict,
    "instantiate": list,
    "headers": dict,
    "search": list,
    "schema": str,
    "data_model": str,
    "implicit": list,
    "trees": list,
    "builds": dict,
    "cuda_core": str,
}
_DIGESTS = re.compile(r"( [0-9a-f]{64})+$")

_SENTENCES = {  # for what changed, what is new, what is gone
    "compiler": ("{tool} {was} -> {now}", "", ""),
    "arch": ("compiled for {was}, and not for {now}", "", ""),
    "path": ("compiled as {was}, and not as {now}", "", ""),
    "source": ("{path} was edited", "", ""),
    "data_model": ("data model {was} -> {now}", "", ""),
    "schema": ("hatch-cubin makes its keys in another way: {was} -> {now}", "", ""),
    "header": ("{name} was edited", "{name} is included now", "{name} is not included any more"),
    "macro": ("macro {name}: {was} -> {now}", "macro {name}={now} is new", "macro {name}={was} is gone"),
    "macro order": ("the order of the macros: {was} -> {now}", "", ""),
    "option": (
        "option {name}: {was} -> {now}",
        "option {name}={now} is new",
        "option {name}={was} is gone",
    ),
    "instantiation": ("", "{name} is instantiated now", "{name} is not instantiated any more"),
    "search": ("", "the search path has {name} now", "the search path has {name} no more"),
    "search order": ("the order of the search path: {was} -> {now}", "", ""),
    "headers": (
        "headers come from {now}, and came from {was}",
        "headers from {now} are included now",
        "headers from {was} are not included any more",
    ),
    "tree": (
        "there are other releases of {name}",
        "any header from {name} may be meant now",
        "no more may any header from {name} be meant",
    ),
    "cuda_core": ("cuda-core {was} -> {now}, which makes other keys", "", ""),
    "assembled": ("", "its PTX is assembled now, for {now}, which proves that it can be", ""),
    "object": (
        "compiled to be linked with mode {was}, and now {now}",
        "compiled to be linked now, with mode {now}",
        "compiled to be linked no more",
    ),
    "mode": ("linked with mode {was}, and now {now}", "", ""),
    "linked": (
        "{name} is not what it was",
        "{name} is linked now",
        "{name} is not linked any more",
    ),
    "linked order": ("the order of what is linked: {was} -> {now}", "", ""),
    "implicit": ("", "hatch-cubin adds {name!r} now", "hatch-cubin adds {name!r} no more"),
}


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
    return all(isinstance(inputs.get(part), kind) for part, kind in _PARTS.items())


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
    for part in ("compiler", "arch", "path", "source", "data_model", "schema"):
        if was[part] != now[part]:
            yield Difference(part, None, was[part], now[part])
    if was["arch"] == now["arch"] and "assembled" not in was and "assembled" in now:
        yield Difference("assembled", None, None, now["assembled"])
    for part in ("object", "mode"):
        if was.get(part) != now.get(part):
            yield Difference(part, None, was.get(part), now.get(part))
    yield from _changed("linked", _linked(was), _linked(now), order=True)
    own = _headers(was), _headers(now)
    yield from _changed("header", *own)
    yield from _changed("macro", _macros(was), _macros(now), order=True)
    yield from _changed("option", _options(was), _options(now))
    yield from _changed("instantiation", _members(was["instantiate"]), _members(now["instantiate"]))
    if (was["search"] and now["search"]) or own[0] == own[1]:  # a first header adds the whole path
        yield from _changed("search", *_search(was, now), order=True)
    before, after = _trees(was), _trees(now)
    for name in dict.fromkeys((*before, *after)):
        if was["headers"].get(name) != now["headers"].get(name):  # a key does not say of which build
            yield Difference("headers", name, before.get(name), after.get(name))
    yield from _changed("tree", *({_build(tree): tree for tree in each["trees"]} for each in (was, now)))
    yield from _changed("implicit", _members(was["implicit"]), _members(now["implicit"]))


def _changed(
    kind: str, was: Mapping[str, str], now: Mapping[str, str], *, order: bool = False
) -> Iterator[Difference]:
    if order and was == now and [*was] != [*now]:
        yield Difference(f"{kind} order", None, ", ".join(was), ", ".join(now))
    for name in dict.fromkeys((*was, *now)):
        if was.get(name) != now.get(name):
            yield Difference(kind, name, was.get(name), now.get(name))


def _macros(inputs: Inputs) -> dict[str, str]:
    return {name: value for name, _, value in (str(each).partition("=") for each in inputs["define"])}


def _options(inputs: Inputs) -> dict[str, str]:
    return {
        name: value if isinstance(value, str) else json.dumps(value)
        for name, value in inputs["options"].items()
    }


def _linked(inputs: Inputs) -> dict[str, str]:
    """Return what a module is linked of, in order, with the digest and the kind of each."""
    return {name: what for what, name in (str(each).split(" ", 2)[::2] for each in inputs.get("linked", ()))}


def _members(values: Iterable[object]) -> dict[str, str]:
    return {str(value): str(value) for value in values}


def _search(was: Inputs, now: Inputs) -> list[dict[str, str]]:
    """Return both search paths, with the project's folders alone unless both go beyond these.

    The first header from elsewhere adds the whole rest of the path, which is no change worth telling.
    """
    paths = [was["search"], now["search"]]
    own = [[folder for folder in path if folder.startswith(OWN)] for path in paths]
    beyond = [len(path) > len(folders) for path, folders in zip(paths, own, strict=True)]
    return [_members(path) for path in (paths if all(beyond) else own)]


def _headers(inputs: Inputs) -> dict[str, str]:
    """Return the headers that are the user's, and the digest of each."""
    return {name: value for name, value in inputs["headers"].items() if "/" in name}


def _trees(inputs: Inputs) -> dict[str, str]:
    """Return the build of each other tree of headers, and the digest of what is read from it."""
    return {
        name: f"{inputs['builds'].get(name, name)} {value}"
        for name, value in inputs["headers"].items()
        if "/" not in name
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
