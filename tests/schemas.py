"""Write the JSON schema of the table that the package ships: `hatch run schemas`.

Which keys there are, and what a source has, is asked of `config/reader.py`; what they mean, of the reference.
What a value may be is said here once for each function that checks one, as far as a schema can say it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from hatch_cubin.common import arch_names
from hatch_cubin.common.ed25519_keys import PUBLIC
from hatch_cubin.config import (
    known_names,
    nvrtc_options,
    ptxas_options,
    reader,
    reserved_macros,
    store_urls,
    value_checks,
)
from hatch_cubin.config.known_names import WRAPPER
from hatch_cubin.config.schema import Schema, written
from hatch_cubin.loader._text_key import FRONTS
from tests.docs_pages import code, page, rows, section
from tests.helpers import REPOSITORY

OWN = REPOSITORY / "hatch_cubin/config/table.schema.json"
# Without a URL as its $id, validate-pyproject would not resolve the references in it.
HEAD = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "$id": "https://hatch-cubin.invalid/table.schema.json",
    "title": "Kernels that hatch-cubin builds",
}
REFERENCE = page("reference/configuration")

_INSIDE = r"^(?![/\\~])(?![^/]*:)(?!(?:[^/]*/)*\.\.(?:/|$))[^\\]+$"
_HERE = r"^(?![/\\~])(?![^/\\]*:)(?!(?:[^/\\]*[/\\])*\.\.(?:[/\\]|$))"
_LINK = rf"^(?:[^:]*:)?{_INSIDE[1:]}"
_ABOVE = r"^(?:\./+)*\.\./[^\\]*[^\\./]"
_PREDEFINED = re.sub(r"\s", "", reserved_macros.PREDEFINED.pattern)
_MACRO = r"^[A-Za-z_][A-Za-z0-9_]*(?:\([A-Za-z0-9_ ,.]*\))?$"
_WORD = r"[^\W\d]\w*"
_DISTRIBUTION = r"^[A-Za-z0-9][A-Za-z0-9._-]*(?: *(?:===?|!=|~=|[<>]=?) *[A-Za-z0-9.*+!_-]+(?: *,.*)?)?$"


def _releases() -> str:
    """Return a pattern of the releases of CUDA that are known."""

    def of(major: int, minors: Mapping[int, int]) -> str:
        known = (rf"{minor}(?:\.0?[0-{patch}](?:\.[0-9]{{1,2}})?)?" for minor, patch in minors.items())
        return rf"{major}(?:\.0?(?:{'|'.join(known)}))?"

    return "|".join(of(*each) for each in value_checks.CUDA.items())


def text(**more: Any) -> Schema:
    return {"type": "string", "minLength": 1, **more}


def _macros(value: Schema) -> Schema:
    return {"type": "object", "propertyNames": _ref("macro"), "additionalProperties": value}


def _ref(name: str) -> Schema:
    return {"$ref": f"#/definitions/{name}"}


MACRO = {"type": ["boolean", "number", "string"]}
MACROS = {"type": "array", "items": MACRO}
PRODUCT = {
    "type": "object",
    "required": ["kernel"],
    "properties": {"kernel": {"type": "string", "pattern": r"^[^{}]*(?:\{[A-Za-z_][A-Za-z0-9_]*\}[^{}]*)+$"}},
    "additionalProperties": {
        "anyOf": [
            {"type": "string", "pattern": r"^-?[0-9]{1,9}\.\.-?[0-9]{1,9}$"},
            {"type": "array", "items": {"type": ["boolean", "integer", "string"]}, "minItems": 1},
        ]
    },
}
ARCH = {
    "anyOf": [
        {"enum": [*arch_names.GROUPS]},
        {"pattern": "|".join(f"^(?:{pattern})$" for pattern, _style in arch_names._SPELLINGS)},
    ]
}
OF_ONE: Mapping[Callable[..., Any], Schema] = {
    value_checks.arch: _ref("arch"),
    value_checks.backend: text(pattern=rf"^{_WORD}(?:[.:]{_WORD})*$", **{"not": {"const": WRAPPER}}),
    value_checks.boolean: {"type": "boolean"},
    value_checks.header_package: text(pattern=_DISTRIBUTION),
    value_checks.jobs: {"type": "integer", "minimum": 1, "maximum": 1024},
    value_checks.kernel: text(pattern=r"\S"),
    value_checks.link: text(pattern=_LINK),
    value_checks.mode: {"enum": ["lto", "rdc"]},
    value_checks.name: text(pattern=r'^[^/\\\[\]<>"]+$'),
    value_checks.name_of_sources: text(
        pattern=r'^[^/\\\[\]<>"]+$', **{"not": {"pattern": r"\{(?!(?:parent|stem)\})[^{}]*\}"}}
    ),
    value_checks.package: text(pattern=rf"^{_WORD}(?:\.{_WORD})*$"),
    value_checks.path: _ref("path"),
    value_checks.python_file: text(
        pattern=rf"{_INSIDE[:-1]}(?<!__init__)\.py$", **{"not": {"pattern": r"[*?\[]"}}
    ),
    value_checks.front: {"enum": [*FRONTS]},
    value_checks.function: text(pattern=rf"^{_WORD}$"),
    value_checks.produced_suffix: {"enum": [*value_checks.PRODUCED_SUFFIXES]},
    value_checks.variable: text(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$"),
    value_checks.requirement: text(pattern=_DISTRIBUTION.replace("(", r"(?: *\[[A-Za-z0-9._, -]*\])?(", 1)),
    value_checks.time_limit: {"type": "integer", "minimum": 1, "maximum": 86_400},
    value_checks.remote: text(
        pattern=rf"^(?:{'|'.join(sorted(store_urls.PLAIN | store_urls.OBJECTS))})://[^@?#\s]+$"
    ),
    value_checks.size: text(
        pattern=rf"^[0-9]{{1,9}}(?:\.[0-9]{{1,3}})? *(?:{'|'.join(value_checks._SIZE_UNITS)})$"
    ),
    value_checks.toolkit: text(pattern=rf"^(?:system|{_releases()})$"),
    value_checks.trusted_key: text(pattern=rf"^{PUBLIC}:"),
}


def _option(name: str, kind: str) -> Schema:
    one = {"type": re.findall("boolean|integer|string", kind)[0]}
    if one["type"] == "integer":
        limits = nvrtc_options.RANGES[name]
        one |= {"minimum": limits[0], "maximum": limits[-1]}
    elif one["type"] == "string":
        pattern = {**nvrtc_options.PATTERNS, "ptxas_options": ptxas_options.PATTERN}.get(name)
        one |= {"minLength": 1} if pattern is None else {"pattern": f"^(?:{pattern})$"}
        one = _ref("path") if name == "pre_include" else one
    return {"anyOf": [one, {"type": "array", "items": one}]} if "array" in kind else one


def _options() -> Schema:
    known = {name: _option(name, kind) for name, kind in nvrtc_options.ALLOWED.items()}
    spelled = {name.replace("_", "-"): schema for name, schema in known.items()}
    return {"type": "object", "properties": known | spelled, "additionalProperties": False}


def of_reader(read: Callable[..., Any]) -> Schema:
    """Return what a value may be that is read so; KeyError for a new way to read one: it belongs in here."""
    if isinstance(read, reader.ValueCheck):
        return OF_ONE[read.check]
    if isinstance(read, reader.ArrayCheck):
        return {"type": "array", "items": OF_ONE[read.check]}
    of_its_own: Mapping[Callable[..., Any], Callable[[], Schema]] = {
        reader._archs: lambda: {"type": "array", "items": OF_ONE[value_checks.arch], "minItems": 1},
        reader._cache_dir: lambda: text(pattern=_HERE),
        reader._globs: lambda: {"type": "array", "items": _ref("path")},
        reader._instantiate: lambda: {
            "type": "array",
            "items": {"anyOf": [OF_ONE[value_checks.kernel], PRODUCT]},
        },
        reader._members: lambda: {"type": "array", "items": _ref("path"), "minItems": 1},
        reader._modules: lambda: {"type": "array", "items": _module()},
        reader._define: lambda: _macros(MACRO),
        reader._option_table: lambda: _ref("options"),
        reader._options_of_source: lambda: {
            "anyOf": [_ref("options"), {"type": "array", "items": {"type": "string"}}]
        },
        reader._source_roots: lambda: {
            "type": "object",
            "propertyNames": {"pattern": r"^[^\W_](?:[\w.-]*[\w-])?$"},
            "additionalProperties": text(pattern=_ABOVE),
        },
        reader._python_file: lambda: OF_ONE[value_checks.python_file],
        reader._producers: lambda: {"type": "array", "items": _producer()},
        reader._sources: lambda: {"type": "array", "items": _source()},
        reader._trusted_keys: lambda: {
            "type": "array",
            "items": OF_ONE[value_checks.trusted_key],
            "minItems": 1,
        },
        reader._variants: lambda: {"minProperties": 1, **_macros({**MACROS, "minItems": 1})},
    }
    return of_its_own[read]()


def _meanings() -> dict[str, str]:
    """Return what the reference says of each key, without its links."""
    found = {}
    for heading in (
        "## Keys",
        "## Source tables",
        "## Module tables",
        "## Producer tables",
        "## Around another backend",
    ):
        for name, *_cells, meaning in rows(section(REFERENCE, heading)):
            plain = re.sub(r",? ?\[see below\]\(#[\w-]+\)", "", meaning)
            found[code(name)[0]] = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", plain)
    return found


def table(readers: Mapping[str, Callable[..., Any]], prefix: str = "") -> Schema:
    """Return the schema of a table whose keys are read so."""
    meanings = _meanings()
    keys = {key: {"description": meanings[prefix + key], **of_reader(read)} for key, read in readers.items()}
    return {"type": "object", "properties": keys, "additionalProperties": False}


def _source() -> Schema:
    return {**table(reader._SOURCE_CHECKS, "source."), "required": ["path"]}


def _producer() -> Schema:
    return {**table(reader._PRODUCER_CHECKS, "producer."), "required": ["path"]}


def _module() -> Schema:
    return {**table(reader._MODULE_CHECKS, "module."), "required": [*reader._REQUIRED_MODULE_KEYS]}


def definitions() -> Schema:
    """Return what several places of the table have in common."""
    predefined = {"pattern": rf"^(?:{_PREDEFINED})(?:\(.*)?$"}
    return {
        "arch": {"type": "string", **ARCH},
        "macro": {"pattern": _MACRO, "not": {"anyOf": [{"enum": sorted(reserved_macros.NAMES)}, predefined]}},
        "options": _options(),
        "path": text(pattern=_INSIDE),
    }


def own_table() -> Schema:
    """Return the schema of `[tool.hatch-cubin]`."""
    whole = table({**reader._CHECKS, **reader._WRAPPER_CHECKS})
    whole["properties"] |= {
        key: {"description": "a key of Hatch's"} for key in sorted(known_names.HATCHLING_KEYS)
    }
    return {**HEAD, **whole, "definitions": definitions()}


if __name__ == "__main__":
    OWN.write_text(written(own_table()), "utf-8")
