"""Which variants a wheel is split into, and what each has: what the loader would choose on its GPUs."""

from __future__ import annotations

import json

import pytest

from hatch_cubin.bundle.manifest import Manifest, read_manifest
from hatch_cubin.wheels.splitting.variants import (
    describe_variants,
    installed_capability,
    label_of,
    read_labels,
    stranded_gpus,
    variants,
)
from tests.helpers import bundle, made

# What uv 0.13.9 installed on each capability, where there was a variant for each of these numbers.
OFFERED = (62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 110, 120, 121)
SEEN = {
    "6.2": "sm62",
    "7.5": "sm75",
    "8.0": "sm80",
    "8.6": "sm86",
    "8.7": "sm87",
    "8.8": "sm87",
    "8.9": "sm89",
    "9.0": "sm90",
    "10.0": "sm100",
    "10.1": "sm101",
    "10.3": "sm103",
    "10.7": "sm103",
    "11.0": "sm110",
    "12.0": "sm120",
    "12.1": "sm121",
    "13.0": "null",
}


def manifest_for(*archs: str) -> Manifest:
    """Return the manifest of a module that is built for these archs, by CUDA 13."""
    text = b".version 9.0\n"
    built = (made("m", arch, data=text if "compute" in arch else arch.encode()) for arch in archs)
    return read_manifest(bundle(*built)["manifest.json"])


def archs_of(*archs: str) -> dict[str, str]:
    """Return what each variant has of one module."""
    return {
        name: " ".join(sorted(arch for _module, arch in units))
        for name, units in variants(manifest_for(*archs)).items()
    }


def test_a_gpu_is_given_the_variant_that_uv_was_seen_to_take() -> None:
    taken = {gpu: label_of(installed_capability(int(gpu.replace(".", "")), OFFERED)) for gpu in SEEN}
    assert taken == SEEN


@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        (["sm_80", "sm_90"], {"sm80": "sm_80", "sm90": "sm_90"}),
        # 8.7 runs no code of 8.0, and has the variant of it: so that has the PTX too.
        (
            ["sm_80", "sm_90", "compute_80"],
            {"null": "compute_80", "sm80": "compute_80 sm_80", "sm90": "sm_90"},
        ),
        (
            ["sm_80", "sm_90", "compute_90"],
            {"null": "compute_90", "sm80": "sm_80", "sm90": "sm_90"},
        ),
        # 8.8 and 8.9 are given the variant for 8.7, and run the code of 8.0 and 8.6.
        (["sm_80", "sm_87"], {"sm80": "sm_80", "sm87": "sm_80 sm_87"}),
        (["sm_80", "sm_86", "sm_87"], {"sm80": "sm_80", "sm86": "sm_86", "sm87": "sm_86 sm_87"}),
        # Code of 9.0a runs on 9.0 alone, and the variant is for all of that major.
        (["sm_90a", "compute_90"], {"null": "compute_90", "sm90": "compute_90 sm_90a"}),
        (["sm_90", "sm_90a"], {"sm90": "sm_90 sm_90a"}),
        (
            ["sm_100", "sm_103", "compute_100"],
            {"null": "compute_100", "sm100": "compute_100 sm_100", "sm103": "sm_103"},
        ),
        # What a family has serves all that is above it in the major, but for Tegra parts.
        (["sm_100f", "sm_103a"], {"sm100": "sm_100f", "sm103": "sm_100f sm_103a"}),
        (["compute_75", "compute_90"], {"null": "compute_75 compute_90"}),
    ],
)
def test_a_variant_has_what_is_chosen_where_it_is_installed(
    archs: list[str], expected: dict[str, str]
) -> None:
    assert archs_of(*archs) == expected


def test_each_module_and_each_kernel_of_it_is_chosen_for_by_itself() -> None:
    built = [
        made("m", "sm_80", {"one": "one"}),
        made("m", "sm_86", {"two": "two"}),
        made("other", "sm_90"),
        made("text", "compute_75"),
    ]
    manifest = read_manifest(bundle(*built)["manifest.json"])
    assert {name: sorted(units) for name, units in variants(manifest).items()} == {
        "null": [("text", "compute_75")],
        "sm80": [("m", "sm_80"), ("text", "compute_75")],
        "sm86": [("m", "sm_80"), ("m", "sm_86"), ("text", "compute_75")],  # 'one' runs there, too
        "sm90": [("other", "sm_90"), ("text", "compute_75")],
    }


def test_older_drivers_choose_too() -> None:
    text = made("m", "compute_80", data=b".version 7.0\n")  # which drivers of CUDA 11 take
    manifest = read_manifest(bundle(made("m", "sm_90"), text)["manifest.json"])
    assert variants(manifest)["sm90"] == {("m", "sm_90"), ("m", "compute_80")}


def test_archs_that_do_not_exist_make_no_variant() -> None:
    data = bundle(made("m", "sm_90"), made("m", "compute_90"))["manifest.json"]
    manifest = read_manifest(data.replace(b'"arch":"sm_90"', b'"arch":"sm_9x"'))
    assert variants(manifest) == {"null": {("m", "compute_90")}}


@pytest.mark.parametrize(
    ("archs", "expected"),
    [
        (["sm_100a"], [("sm100", 103)]),
        (["sm_100a", "sm_103a"], []),
        (["sm_100a", "compute_100"], []),
        (["sm_100f"], []),
        (["sm_120a", "sm_100a"], [("sm100", 103), ("sm120", 121)]),
        (["sm_80"], []),  # 8.7 is a Tegra part
        (["sm_90a"], []),
    ],
)
def test_a_variant_that_strands_a_gpu(archs: list[str], expected: list[tuple[str, int]]) -> None:
    assert [*stranded_gpus(manifest_for(*archs))] == expected


def test_what_lacks_one_kernel_of_several_on_a_gpu_strands_none() -> None:
    manifest = read_manifest(bundle(made("fast", "sm_100a"), made("plain", "sm_100"))["manifest.json"])
    assert [*stranded_gpus(manifest)] == []


def test_what_describes_variants_is_what_uv_reads() -> None:
    assert json.loads(describe_variants(["null", "sm90", "sm100"])) == {
        "$schema": "https://variants-schema.wheelnext.dev/peps/850/v0.2.0.json",
        "default-priorities": {"namespace": ["nvidia"]},
        "providers": {
            "nvidia": {
                "plugin-api": "nvidia_variant_provider.plugin:NvidiaVariantPlugin",
                "requires": ["nvidia-variant-provider>=0.0.1,<1.0.0"],
            }
        },
        "variants": {
            "null": {},
            "sm90": {"nvidia": {"sm_arch": ["90_real"]}},
            "sm100": {"nvidia": {"sm_arch": ["100_real"]}},
        },
    }
    assert sorted(read_labels(describe_variants(["null", "sm90"]))) == ["null", "sm90"]


@pytest.mark.parametrize(
    "data",
    [describe_variants(["SM 80"]), b"", b"[]", b'{"variants":{"null":{}}}', b"\xff", b'{"variants":5}'],
)
def test_what_others_describe_is_not_read(data: bytes) -> None:
    with pytest.raises(ValueError, match="was not written by hatch-cubin"):
        read_labels(data)
