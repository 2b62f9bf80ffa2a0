"""What the parser takes, the schema that editors are given takes as well."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hatch_cubin.common import ed25519_keys
from hatch_cubin.config import reader
from hatch_cubin.config.config import TableLocation, parse_config
from hatch_cubin.config.nvrtc_options import ALLOWED
from hatch_cubin.errors import ConfigError
from tests import schemas

from . import strategies as some

pytestmark = pytest.mark.counted

fastjsonschema: Any = pytest.importorskip("fastjsonschema", reason="validate-pyproject is not installed")
ACCEPTS = fastjsonschema.compile(json.loads(schemas.OWN.read_text("utf-8")))

_WORDS = st.text("ab_.-/*<>, 019:~\\", max_size=8)
_MACROS = st.dictionaries(
    st.sampled_from(["N", "BLOCK", "F(x, y)", "T", "1N"]),
    st.booleans() | st.integers() | st.floats() | _WORDS,
)
_OPTIONS = st.dictionaries(
    st.sampled_from([spelled for name in ALLOWED for spelled in (name, name.replace("_", "-"))]),
    st.booleans()
    | st.integers(-300, 300)
    | _WORDS
    | st.lists(_WORDS, max_size=2)
    | st.lists(st.integers(), max_size=2),
    max_size=2,
)
_KEY = ed25519_keys.write(ed25519_keys.PUBLIC, bytes(range(32)))
_SIZES = st.from_regex(r"[0-9]{1,3}(\.[0-9])? ?[KMGT]?i?B?", fullmatch=True)
_ARCHS = st.lists(some.specs, max_size=3)
_CALL_OPTIONS = st.lists(st.sampled_from(["-DN=4", "-std=c++17", "--Ofast-compile=max", "-G"]), max_size=3)
_OF_SOURCE: Mapping[str, st.SearchStrategy[Any]] = {
    "name": _WORDS,
    "as": st.sampled_from(["cupy", "cuda.core", "numba"]),
    "archs": _ARCHS,
    "include-dirs": st.lists(_WORDS | some.paths, max_size=2),
    "define": _MACROS,
    "options": _OPTIONS | _CALL_OPTIONS,
    "instantiate": st.lists(_WORDS | some.products, max_size=2),
    "variants": st.dictionaries(
        st.sampled_from(["N", "M"]), st.lists(st.integers(0, 9) | _WORDS, max_size=3)
    ),
}
_OF_EVERY_MODULE: Mapping[str, st.SearchStrategy[Any]] = {
    "name": some.names | _WORDS,
    "sources": st.lists(some.paths | some.globs, max_size=2),
    "mode": st.sampled_from(["lto", "rdc", "LTO"]),
}
_OF_MODULE: Mapping[str, st.SearchStrategy[Any]] = {
    **{key: value for key, value in _OF_SOURCE.items() if key not in ("name", "as", "instantiate")},
    "link": st.lists(some.globs | st.sampled_from(["a:b.a", " a == 1 : b/*.a", "a:/b", ":b"]), max_size=2),
}
_OF_PRODUCER: Mapping[str, st.SearchStrategy[Any]] = {
    "path": some.paths.map("{}.py".format) | _WORDS,
    "call": st.sampled_from(["sources", "größe", "a.b", "1a", ""]),
    "produces": st.lists(st.sampled_from(["cu", "ptx", "cubin"]), max_size=2),
    "inputs": st.lists(some.globs | _WORDS, max_size=2),
    "environment": st.lists(st.sampled_from(["LEVEL", "_X1", "größe", "A B", ""]), max_size=2),
    "requires": st.lists(
        st.sampled_from(["jinja2==3.*", "a[b]>=1", "c; python_version<'3'", "-r x"]), max_size=2
    ),
    "seconds": st.integers(-1, 100_000),
}
_OF_TABLE: Mapping[str, st.SearchStrategy[Any]] = {
    **{
        key: value
        for key, value in _OF_SOURCE.items()
        if key in ("archs", "include-dirs", "define", "options")
    },
    "toolkit": st.sampled_from(["13", "12.9", "system", "13.0.2.1", "14", "13."]),
    "sources": st.lists(some.globs | _WORDS, max_size=2),
    "exclude": st.lists(some.globs | _WORDS, max_size=2),
    "recorded": st.lists(some.paths | _WORDS, max_size=2),
    "package": some.names | st.sampled_from(["a.b", "_a", "größe", "a-b"]),
    "source-roots": st.dictionaries(
        some.names, st.sampled_from(["../a", "../../b.c", "./../d", "..", "a", "../a/"])
    ),
    "header-packages": st.lists(some.names | st.sampled_from(["a==1.*", "a >= 1, != 2", "a~=1"]), max_size=2),
    "jobs": st.integers(-1, 2000),
    "cache-dir": some.paths | _WORDS,
    "cache-size": _SIZES,
    "max-size": _SIZES,
    "trusted-keys": st.lists(st.sampled_from([_KEY, _KEY[:-1], f"{_KEY} "]), max_size=2),
    "remote-cache": st.sampled_from(
        ["https://a.b:8080/c", "http://[::1]/x", "s3://a", "gs://a/b/", "az://x", "ftp://x"]
    ),
    "pack": st.booleans(),
    "ship-sources": st.booleans(),
    "provenance": st.booleans(),
    "source": st.lists(
        st.fixed_dictionaries({"path": some.globs | _WORDS}, optional={**_OF_SOURCE}), max_size=2
    ),
    "producer": st.lists(st.fixed_dictionaries({}, optional={**_OF_PRODUCER}), max_size=2),
    "module": st.lists(st.fixed_dictionaries({**_OF_EVERY_MODULE}, optional={**_OF_MODULE}), max_size=2),
}
_OF_WRAPPER: Mapping[str, st.SearchStrategy[Any]] = {
    "backend": st.sampled_from(["mesonpy", "größe.b:c.d", "a.", "a:", "a-b", "hatch_cubin.backend"]),
    "backend-path": st.lists(some.paths | _WORDS, max_size=2),
    "package-dir": some.paths | _WORDS,
}
TABLES = st.fixed_dictionaries({}, optional={**_OF_TABLE, **_OF_WRAPPER}) | some.tables


def the_schema_takes_what_is_parsed(table: dict[str, Any]) -> None:
    try:
        parse_config(table, TableLocation("pyproject.toml", "", (), wraps="backend" in table), {})
    except ConfigError:
        return
    ACCEPTS(table)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TABLES)
def test_what_the_parser_takes_the_schema_takes(table: dict[str, Any]) -> None:
    the_schema_takes_what_is_parsed(table)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_so_it_does_key_by_key(data: st.DataObject) -> None:
    """Most tables of many keys are wrong somewhere."""
    each = {**_OF_TABLE, **_OF_WRAPPER}
    key = data.draw(st.sampled_from([*each]))
    around = {"backend": "mesonpy"} if key in _OF_WRAPPER else {}
    the_schema_takes_what_is_parsed({**around, key: data.draw(each[key])})


def test_each_key_is_tried() -> None:
    assert {*_OF_TABLE} == {*reader._CHECKS}
    assert {*_OF_WRAPPER} == {*reader._WRAPPER_CHECKS}
    assert {"path", *_OF_SOURCE} == {*reader._SOURCE_CHECKS}
    assert {*_OF_EVERY_MODULE, *_OF_MODULE} == {*reader._MODULE_CHECKS}
    assert {*_OF_PRODUCER} == {*reader._PRODUCER_CHECKS}
