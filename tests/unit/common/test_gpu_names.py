"""GPUs by the names that people know, and what else is written where an arch should be."""

from __future__ import annotations

import pytest

from hatch_cubin.common import arch_names, gpu_names


@pytest.mark.parametrize(
    ("number", "names"),
    [
        (70, "V100, Tesla V100-SXM2-32GB, volta"),
        (75, "T4, RTX 2080 Ti, GTX 1660 SUPER, Turing"),
        (80, "A100, NVIDIA A100 80GB PCIe, A30"),
        (86, "A10G, A40, RTX A6000, RTX 3090, rtx3060ti"),
        (87, "Jetson AGX Orin"),
        (89, "L4, L40S, GeForce RTX 4090, RTX 4070 Ti SUPER, RTX 4060 Laptop GPU, RTX 6000 Ada, ada"),
        (90, "H100, h100, H100 NVL, H200, GH200, Hopper"),
        (100, "B200, GB200"),
        (103, "B300"),
        (110, "Jetson Thor"),
        (120, "RTX 5090, RTX PRO 6000"),
        (121, "Spark, DGX Spark, GB10"),
    ],
)
def test_a_gpu_is_known_by_the_name_on_its_box(number: int, names: str) -> None:
    assert {name: gpu_names.capabilities(name) for name in names.split(", ")} == dict.fromkeys(
        names.split(", "), (number,)
    )


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("sm90", "sm_90"),
        ("sm_90+PTX", "sm_90 compute_90"),
        ("sm80+ptx", "sm_80 compute_80"),
        ("SM_90", "sm_90"),
        ("sm-90a", "sm_90a"),
        ("90A", "sm_90a"),
        ("compute90", "compute_90"),
        ("sm_9.0", "sm_90"),
        ("sm_80a", ""),
        ("h100", "sm_90"),
        ("ampere", "sm_80 sm_86 sm_87"),
        ("80;90", "80 90"),
        ("sm_90,sm_100", "sm_90 sm_100"),
        ("compute_90,sm_90", "compute_90 sm_90"),
        ("sm_80,sm90 H100", "sm_80 sm_90 sm_90"),
        ("-gencode=arch=compute_90,code=sm_90", "sm_90"),
        ("arch=compute_90a,code=[sm_90a,compute_90a]", "sm_90a compute_90a"),
        ("80;x", ""),
        ("", ""),
        ("sm_9", "sm_90"),
        ("compute_900a", "compute_90a"),
        ("sm_1000", "sm_100"),
        ("12", "sm_120"),
        ("900-real", "sm_90"),
        ("sm_0", ""),
        ("100x", ""),
    ],
)
def test_what_is_no_arch_is_guessed(text: str, meant: str) -> None:
    assert " ".join(gpu_names.archs_meant(text)) == meant
    for spec in meant.split():
        arch_names.parse_spec(spec)
