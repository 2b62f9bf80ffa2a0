"""What must hold of the variants of a wheel, whatever was shipped."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin import loader
from hatch_cubin.bundle.manifest import Manifest, ManifestEntry, ManifestModule
from hatch_cubin.common.arch_names import parse_arch
from hatch_cubin.wheels.splitting import variants

from .test_selection_laws import drivers

NUMBERS = (75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121)
GPUS = (*NUMBERS, 72, 88, 101, 107, 130)
archs = st.one_of(
    st.sampled_from(NUMBERS).map("sm_{}".format),
    st.sampled_from(NUMBERS).map("compute_{}".format),
    st.sampled_from((90, 100, 103, 120)).map("sm_{}a".format),
    st.sampled_from((100, 103, 120)).map("sm_{}f".format),
)
kernels = st.sets(st.sampled_from(("one", "two")), min_size=1).map(frozenset)
Shipped = list[tuple[str, int, frozenset[str]]]
modules = st.lists(
    st.lists(st.tuples(archs, drivers, kernels), unique_by=lambda entry: entry[0], min_size=1, max_size=6),
    min_size=1,
    max_size=3,
)


def manifest_of(shipped: list[Shipped]) -> Manifest:
    """Return the manifest of modules that have these archs, from these drivers on, with these kernels."""
    return Manifest(
        1,
        ("hatch-cubin", "0"),
        {},
        "lp64",
        None,
        False,  # noqa: FBT003
        tuple(
            ManifestModule(str(number), "m.cu", {}, {}, tuple(_entry(*each) for each in entries))
            for number, entries in enumerate(shipped)
        ),
    )


def _entry(arch: str, driver: int, kernels: frozenset[str]) -> ManifestEntry:
    kind = "ptx" if parse_arch(arch).is_ptx else "cubin"
    return ManifestEntry(arch, kind, arch, 1, "", driver, {name: name for name in kernels}, {})


@given(drivers, modules)
def test_what_the_whole_runs_on_a_gpu_its_variant_has(driver: int, shipped: list[Shipped]) -> None:
    made = variants.variants(manifest_of(shipped))
    numbers = {parse_arch(arch).number for entries in shipped for arch, *_others in entries if arch[0] == "s"}
    for cc, kernel in itertools.product(GPUS, ("one", "two")):
        units = made.get(variants.label_of(variants.installed_capability(cc, numbers)), frozenset())
        for number, entries in enumerate(shipped):
            having = [(arch, needed) for arch, needed, its in entries if kernel in its]
            chosen = loader.select(cc, driver, having)
            assert chosen is None or (str(number), chosen[0]) in units
