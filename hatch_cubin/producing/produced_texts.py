"""Turn what a producer (a Python function) returned into sources, or report wrong names and values.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..common.arch_names import number_of
from ..common.digest import file_digest
from ..config.config import ProducerRule, SourceRule, TableLocation
from ..config.reader import read_source_settings
from ..config.toml_lines import setting
from ..config.toml_positions import loads
from ..config.value_checks import PRODUCED_SUFFIXES
from ..errors import ConfigError, HatchCubinError, Location, Problem, SourceError, problem
from ..project.source import Production, Source, decode_source, decode_tile_ir
from .producer_inputs import Produced

_NAME = re.compile(
    r"(?P<base>[^/\\\[\]{}<>\":*?|.]+)"
    r"(?:\[(?P<variant>[^/\\\[\]\"]*)\])?"
    r"(?:\.(?P<arch>[^/\\\[\]{}.]*))?"
    r"\.(?P<suffix>[a-z]+)"
)
_VALUE = re.compile(r"(?P<name>[A-Za-z_][A-Za-z0-9_]*)=(?P<value>[^=,]+)")
_EXAMPLES = "such as 'axpy.cu', 'matmul[BM=64].cu' or 'matmul[BM=64].sm_90a.ptx'"
_FORM = (
    "write the name of a text as stem[KEY=value,…].arch.cu; [KEY=value,…] and .arch are optional, "
    ".ptx or .tileir may replace .cu, the stem has no dot or brace, and the name has no slash"
)
_NUMBERS_OF_BOOLEANS = {"true": "1", "false": "0"}  # the loader writes True and False in the same way
_HEADER = (
    "put the text of a header into each source that needs it, or write the header to a file of the project"
)
_HEADER_SUFFIXES = tuple(f".{suffix}'" for suffix in ("cuh", "h", "hpp", "hxx", "inc", "inl"))
_WHERE_TO_PASTE = "in the mapping for this name: "


class _PlaceOfScript(TableLocation):
    """Locates each setting that a producer returns: in the producer's Python file, without a line number."""

    def __init__(self, path: str, table: tuple[str, ...]) -> None:
        super().__init__(path, "", table)

    def of(self, *_path: str | int) -> Location:
        return Location(self.file)

    def tables(self, _key: str) -> str:
        return "the mapping that the producer returns for one source"

    def in_full(self, hint: str | None) -> str | None:
        """Rewrite the TOML in a hint as an item of the Python mapping that a producer returns."""
        try:
            items = loads(hint or "").items()
        except ValueError:
            return hint
        return _WHERE_TO_PASTE + ", ".join(f"{key!r}: {value!r}" for key, value in items) if items else hint


def sources_of(produced: Produced, rule: ProducerRule, place: TableLocation) -> list[Source]:
    """Return the sources that a producer returned; a SourceError lists all wrong names and values."""
    sources: list[Source] = []
    problems: list[Problem] = []
    for name, value in produced:
        try:
            sources.append(_source(name, value, rule, _PlaceOfScript(rule.path, place.table)))
        except HatchCubinError as exc:
            problems += (_with_name(each, name) for each in exc.problems)
    problems += _equal_variants(sources)
    if problems:
        raise SourceError(*problems)
    return sources


def _equal_variants(sources: Sequence[Source]) -> Iterator[Problem]:
    """Yield a problem for names that differ only in order, such as a[X=1,Y=2].cu and a[Y=2,X=1].cu."""
    first: dict[tuple[Any, ...], Source] = {}
    for source in sources:
        made = source.produced
        if made is None or not made.variant:
            continue
        name = PurePosixPath(source.path).name
        other = first.setdefault((made.base, frozenset(made.variant), made.file), source)
        if other is not source:
            what = f"{name!r} has the same values as {PurePosixPath(other.path).name!r}, in another order"
            yield problem("bad-produced-name", what, Location(made.producer))


def _with_name(found: Problem, name: Any) -> Problem:
    is_named = not isinstance(name, str) or found.what.startswith(repr(name))
    return found if is_named else found._replace(what=f"{name!r}: {found.what}")


def _source(name: Any, value: Any, rule: ProducerRule, place: TableLocation) -> Source:
    where = Location(rule.path)
    parts = _parts(name, rule, where)
    variant = dict(_variant(parts["variant"], where))
    settings = {**value} if isinstance(value, Mapping) and not _is_other(value) else {"text": value}
    text = settings.pop("text", {"": ""})
    is_binary = parts["suffix"] == "tileir"
    data = _bytes(text, where) if is_binary else _text(text, where).encode()
    for key, each in settings.items():
        for other in _others(each):
            what = f"{key} contains a value of type {_type(other)}"
            hint = "use texts, numbers, booleans, lists and dicts"
            raise ConfigError(problem("invalid-value", what, where, hint))
    if parts["arch"] and "archs" in settings:
        what = f"the name of this source says that it is for {parts['arch']}, so 'archs' has no effect"
        raise ConfigError(problem("key-in-wrong-table", what, where))
    fields = read_source_settings(settings, place)
    if parts["arch"]:
        fields["archs"] = (parts["arch"],)
    path = str(PurePosixPath(rule.path).with_name(name))
    middle = f".{parts['arch']}" if parts["arch"] else ""
    production = Production(
        producer=rule.path,
        by=rule.name,
        file=f"{parts['base']}{middle}.{parts['suffix']}",
        base=parts["base"],
        rule=SourceRule(path=path, **fields),
        variant=tuple(variant.items()),
        arch=parts["arch"] or "",
        settings=settings,
    )
    text, encoding = (decode_tile_ir if is_binary else decode_source)(data, where)
    return Source(path, text, file_digest(data), encoding, produced=production)


def _parts(name: Any, rule: ProducerRule, where: Location) -> Mapping[str, Any]:
    """Return the parts of a source's name; ConfigError if the name is wrong, for example its suffix."""
    match = _NAME.fullmatch(name) if isinstance(name, str) and name.isprintable() else None
    if match is None or match["suffix"] not in PRODUCED_SUFFIXES:
        shown = repr(name) if isinstance(name, str) else f"a key of type {_type(name)}"
        what = f"{shown} is not the file name of a source, {_EXAMPLES}"
        hint = _HEADER if shown.endswith(_HEADER_SUFFIXES) else _FORM
        raise ConfigError(problem("bad-produced-name", what, where, hint))
    if match["arch"] is not None and number_of(match["arch"]) is None:
        what = (
            f"has {match['arch']!r} before the suffix, but {match['arch']!r} is not an arch such as "
            "'sm_90a' or 'compute_90'"
        )
        raise ConfigError(problem("bad-produced-name", what, where, _FORM))
    if match["suffix"] not in rule.produces:
        what = f"ends in .{match['suffix']}, which 'produces' in the [[producer]] table does not list"
        produces = [*rule.produces, match["suffix"]]
        hint = f"write in the producer table: {setting('produces', produces)}"
        raise ConfigError(problem("unexpected-suffix", what, where, hint))
    return match.groupdict()


def _variant(text: str | None, where: Location) -> Iterator[tuple[str, str]]:
    """Yield the names and values of a variant, as in `BM=64,T=float`."""
    seen: set[str] = set()
    for part in text.split(",") if text is not None else ():
        match = _VALUE.fullmatch(part.strip())
        if match is None or match["name"] in seen:
            what = (
                f"[{text}] must have a form such as [BM=64,T=float], "
                "with each key once, and without ',' or '=' in a value"
            )
            raise ConfigError(problem("bad-produced-name", what, where))
        seen.add(match["name"])
        value = match["value"].strip()
        yield match["name"], _NUMBERS_OF_BOOLEANS.get(value.lower(), value)


def _text(text: Any, where: Location) -> str:
    if not isinstance(text, str):
        if kind := _type(text):
            what = f"must be a text, or a mapping with 'text' and settings of the source, but has type {kind}"
        else:
            what = "is a mapping without the key 'text', which must contain the text of the source"
        raise ConfigError(problem("produced-no-text", what, where))
    try:
        text.encode()
    except UnicodeEncodeError:
        what = "contains a surrogate (half of a character), which cannot be encoded in UTF-8"
        raise ConfigError(problem("produced-no-text", what, where)) from None
    if not text.strip():
        raise ConfigError(problem("empty-source", "is empty: there is no kernel in it", where))
    return text


def _bytes(value: Any, where: Location) -> bytes:
    if not _is_other(value) or "data" not in value:
        what = (
            "must be the bytes of Tile IR, or a mapping with these bytes under the key 'text' "
            "and settings of the source under other keys"
        )
        raise ConfigError(problem("produced-no-text", what, where))
    data: str = value["data"]
    return data.encode("latin-1")


def _others(value: Any) -> Iterator[Mapping[str, str]]:
    """Yield each value inside *value* that the producer's process could not send, because of its type."""
    if _is_other(value):
        yield value
    elif isinstance(value, (Mapping, list)):
        for each in value.values() if isinstance(value, Mapping) else value:
            yield from _others(each)


def _type(value: Any) -> str:
    return str(value[""]) if _is_other(value) else type(value).__name__


def _is_other(value: Any) -> bool:
    """Return whether a value is the placeholder for a value that the producer's process cannot send."""
    return isinstance(value, Mapping) and [*value][:1] == [""]
