"""A packed bundle that is unpacked is, to the byte, what a build without packs gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hatch_cubin.bundle import layout, loader_files
from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.bundle.unpacked_form import files_without_packing
from tests.helpers import bundle, made, packed_bundle

ODD = {
    "order of macros": [made("red", variant={"B": "1", "A": "2"}), made("red", variant={"B": "2", "A": "2"})],
    "a macro that ends as another": [made("k", variant={"BA": "1", "A": "1"}, data=b"k")],
    "values with commas": [made("k", variant={"T": "a,B=1", "B": "1"}, data=b"k")],
    "names that differ in case only": [made("k", variant={"T": each}) for each in ("A", "a")],
    "names that no file can have": [made("con"), made("ün ï"), made("x" * 200)],
    "identical results": [made("a", data=b"same"), made("b", data=b"same"), made("c")],
    "kernels that differ by arch": [made("k", "sm_80"), made("k", "sm_90", {"k": "k", "extra": "extra"})],
    "text and code": [made("p", "compute_80"), made("p", "sm_80")],
    "nothing": [],
}


def unpacked(*built: layout.BuiltUnit) -> dict[str, bytes]:
    files = packed_bundle(*built, folder="src/demo/_cubins")
    manifest = read_manifest(files["manifest.json"])
    data = {(item.unit.module.name, str(item.unit.arch)): item.compiled.data for item in built}
    gone = {loader_files.PACKED, *(manifest.blocks or {})}
    beside = {name: files[name] for name in files if name not in gone}
    return {**beside, **files_without_packing(files["manifest.json"], manifest, data)}


@pytest.mark.parametrize("units", ODD.values(), ids=ODD)
def test_it_is_the_bundle_of_a_build_that_packs_nothing(units: list[layout.BuiltUnit]) -> None:
    assert unpacked(*units) == bundle(*units, folder="src/demo/_cubins")


TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\n"), min_size=1, max_size=6)
VARIANTS = st.dictionaries(st.sampled_from(["A", "B", "AB", "BA"]), st.text("AB=,12", max_size=5), max_size=4)


@settings(max_examples=60)
@given(st.lists(st.tuples(TEXT, VARIANTS), max_size=4, unique_by=str))
def test_whatever_macros_are_called(modules: list[tuple[str, dict[str, str]]]) -> None:
    units = {
        item.unit.module.name: item
        for item in (
            made(f"m{number}{base}", variant=macros) for number, (base, macros) in enumerate(modules)
        )
    }
    built = [units[name] for name in sorted(units)]
    assert unpacked(*built) == bundle(*built, folder="src/demo/_cubins")
