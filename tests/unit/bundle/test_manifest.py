"""The bundle's two indexes: what is written is read again, and nothing else is taken for it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.bundle.manifest import (
    Manifest,
    ManifestEntry,
    ManifestModule,
    canonical,
    keys_line,
    prove_manifest,
    read_keys,
    read_manifest,
    write_keys,
    write_manifest,
)
from tests.helpers import bundle, made, sha256


def changed(data: bytes, **fields: Any) -> bytes:
    return json.dumps({**json.loads(data), **fields}).encode()


FILES = bundle(
    made("a", "sm_80"),
    made("a", "compute_80"),
    made("b", variant={"N": "4", "M": "x"}),
    folder="demo/_cubins",
)
MANIFEST, KEYS = FILES["manifest.json"], FILES["keys.json"]


def entry(base: str, arch: str, name: str, data: bytes, driver: int) -> ManifestEntry:
    kind = "ptx" if arch.startswith("compute") else "cubin"
    return ManifestEntry(arch, kind, name, len(data), sha256(data), driver, {base: base}, {})


def test_a_manifest_is_read_as_it_was_written() -> None:
    a = (
        entry("a", "sm_80", "a.sm_80.cubin", b"a for sm_80", 13000),
        entry("a", "compute_80", "a.compute_80.ptx", FILES["a.compute_80.ptx"], 12000),
    )
    b = entry("b", "sm_90", "b.N-4.M-x.sm_90.cubin", b"b[N=4,M=x] for sm_90", 13000)
    assert read_manifest(MANIFEST) == Manifest(
        format=1,
        generator=("hatch-cubin", __version__),
        toolchain={"nvrtc": "13.0.88"},
        data_model="lp64",
        folder="demo/_cubins",
        skipped=False,
        modules=(
            ManifestModule("a", "demo/a.cu", {}, {}, a),
            ManifestModule("b[N=4,M=x]", "demo/b.cu", {"N": "4", "M": "x"}, {}, (b,)),
        ),
    )


def test_a_variant_knows_the_name_it_is_one_of() -> None:
    assert [module.base for module in read_manifest(MANIFEST).modules] == ["a", "b"]


def test_an_entry_whose_kernels_are_its_own_has_them() -> None:
    files = bundle(made("k", "sm_80", {"f": "f"}), made("k", "sm_90", {"f": "f", "g": "g"}))
    entries = read_manifest(files["manifest.json"]).modules[0].entries
    assert [dict(each.kernels) for each in entries] == [{"f": "f"}, {"f": "f", "g": "g"}]


def test_a_bundle_without_kernels_says_so() -> None:
    assert read_manifest(bundle(skipped=True)["manifest.json"]).skipped


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"", "is not JSON", id="empty"),
        pytest.param(MANIFEST[:-3], "is not JSON", id="cut"),
        pytest.param(b"\xff", "is not JSON", id="no text"),
        pytest.param(b"[" * 100_000, "is not JSON", id="deep"),
        pytest.param(b"[]", "'it' is not of the type dict", id="list"),
        pytest.param(b"{}", "does not have 'format'", id="no format"),
        pytest.param(changed(MANIFEST, format="1"), "'format' is not of the type int", id="format"),
        pytest.param(
            changed(MANIFEST, format=4),
            ("has format 4, but this version of hatch-cubin reads formats up to 3"),
            id="newer",
        ),
        pytest.param(changed(MANIFEST, generator={"name": "x"}), "does not have 'version'", id="generator"),
        pytest.param(changed(MANIFEST, modules={"a": 1}), "'a' is not of the type dict", id="module"),
        pytest.param(changed(MANIFEST, folder=1), "'folder' is not of the type str", id="folder"),
    ],
)
def test_what_is_no_manifest_says_why(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=f"^{why}$"):
        read_manifest(data)


@pytest.mark.parametrize(
    ("field", "value", "why"),
    [
        ("entries", [1], "'a' is not of the type dict"),
        ("entries", [{}], "does not have 'arch'"),
        ("variant", {"N": 1}, "'N' is not of the type str"),
        ("kernels", {"f": 1}, "'f' is not of the type str"),
        ("source", None, "'source' is not of the type str"),
    ],
)
def test_a_malformed_module_says_why(field: str, value: object, why: str) -> None:
    module = json.loads(MANIFEST)["modules"]["a"]
    with pytest.raises(ValueError, match=f"^{why}$"):
        read_manifest(changed(MANIFEST, modules={"a": {**module, field: value}}))


def test_what_was_written_proves_itself() -> None:
    prove_manifest(MANIFEST)
    prove_manifest(bundle(skipped=True)["manifest.json"])


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        pytest.param(b"13.0.88", b"13.0.89", 1, id="the header, whose check stands first"),
        pytest.param(b'"demo/a.cu"', b'"demo/e.cu"', 5, id="a module"),
        pytest.param(b'\n"a":["a"]', b'\n"a":["b[N=4,M=x]"]', 2, id="the index"),
        pytest.param(b'},"toolchain"', b'} ,"toolchain"', 7, id="a space"),
    ],
)
def test_an_edited_manifest_names_a_line(old: bytes, new: bytes, line: int) -> None:
    assert old in MANIFEST
    with pytest.raises(ValueError, match=rf"^line {line} was edited or damaged: hatch-cubin would"):
        prove_manifest(MANIFEST.replace(old, new, 1))


def test_a_bit_more_at_the_end_is_found() -> None:
    with pytest.raises(ValueError, match=r"^line 9 was edited or damaged"):
        prove_manifest(MANIFEST + b"\n")


def test_keys_are_read_by_module_and_arch() -> None:
    assert read_keys(KEYS) == {
        "a": {"compute_80": sha256(b"a for compute_80"), "sm_80": sha256(b"a for sm_80")},
        "b[N=4,M=x]": {"sm_90": sha256(b"b[N=4,M=x] for sm_90")},
    }


@pytest.mark.parametrize(
    ("data", "why"),
    [
        pytest.param(b"{", "is not JSON", id="cut"),
        pytest.param(b"{}", "does not have 'units'", id="no units"),
        pytest.param(KEYS.replace(b'"a":{', b'"c":{'), "line 1 was edited or damaged", id="edited"),
        pytest.param(
            b"".join(write_keys({"a": keys_line("a", {"sm_80": {}})})), "does not have 'key'", id="no key"
        ),
        pytest.param(b'{"units":{"a":[]}}', "'a' is not of the type dict", id="no archs"),
    ],
)
def test_damaged_keys_say_why(data: bytes, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        read_keys(data)


def test_one_value_has_one_text() -> None:
    assert canonical({"b": [1, None], "a": "ü"}) == '{"a":"ü","b":[1,null]}'
    assert write_manifest({"format": 1, "x": 2}, {}, []) == write_manifest({"x": 2, "format": 1}, {}, [])
