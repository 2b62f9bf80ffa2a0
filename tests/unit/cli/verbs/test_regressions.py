"""Three wheels of a library of 400 kernels, each with one regression: that one is found, and nothing else."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.command_line import Command
from tests.sample_wheels import Kernel, code, wheel_of

ARCHS = ("sm_80", "sm_90")
LIBRARY: dict[Kernel, bytes] = {
    (f"k{number:03}", arch): code(f"k{number:03}", size=600 + at)
    for number in range(400)
    for at, arch in enumerate(ARCHS)
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel_of(tmp_path_factory.mktemp("library"), LIBRARY)


def facts(command: Command, *arguments: str | Path) -> Any:
    ended = command(*arguments, "--json")
    return json.loads(ended.out)


def differences(found: Any) -> dict[str, Any]:
    """Return what differs between two bundles, but for sizes."""
    (bundle,) = found["bundles"]
    return {name: bundle[name] for name in ("toolchain", "lost", "gained", "changes") if bundle[name]}


def errors(found: Any) -> list[str]:
    return [error["what"] for error in found["errors"]]


FAIL_ON = ("--fail-on", "lost,spills,registers,stack,shared,size=5%")


def test_the_library_itself(library: Path, command: Command) -> None:
    checked = facts(command, "check", library, "--max-size", "2MB")
    assert (checked["errors"], checked["results"][0]["warnings"]) == ([], [])
    assert checked["results"][0]["bundles"][0]["spills"] == []
    found = facts(command, "diff", library, library, *FAIL_ON)
    assert (differences(found), found["bundles"][0]["units"], found["errors"]) == ({}, [], [])


def test_spills_of_one_kernel_on_one_arch(library: Path, tmp_path: Path, command: Command) -> None:
    kernel = {"module": "k217", "kernel": "k217", "arch": "sm_90"}
    spilling = code("k217", size=601, spills=12)
    wheel = wheel_of(tmp_path, {**LIBRARY, ("k217", "sm_90"): spilling})
    found = facts(command, "diff", library, wheel, *FAIL_ON)
    assert differences(found) == {"changes": [{"what": "spills", **kernel, "before": 0, "after": 12}]}
    assert errors(found) == [
        "kernels use more register spills than before: 1, but --fail-on spills does not allow this"
    ]
    checked = facts(command, "check", wheel)
    assert (checked["errors"], checked["results"][0]["warnings"]) == ([], [])
    assert checked["results"][0]["bundles"][0]["spills"] == [
        {**kernel, "source": "demo/k217.cu", "spills": 12}
    ]


def test_a_kernel_lost_for_one_arch(library: Path, tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, {key: data for key, data in LIBRARY.items() if key != ("k031", "sm_80")})
    found = facts(command, "diff", library, wheel, *FAIL_ON)
    lost = {"module": "k031", "kernel": "k031", "archs": ["sm_80"], "whole": False}
    assert differences(found) == {"lost": [lost]}
    assert errors(found) == [
        "kernels are missing after the change: 1, but --fail-on lost does not allow this"
    ]
    checked = facts(command, "check", wheel)
    assert errors(checked) == ["1 of 400 kernels cannot run on 8.0"]
    assert checked["results"][0]["warnings"] == []


def test_twelve_percent_more(library: Path, tmp_path: Path, command: Command) -> None:
    now = library.stat().st_size
    grown = {
        key: code(key[0], size=600 + ARCHS.index(key[1]) + round(0.1145 * now / len(LIBRARY)))
        for key in LIBRARY
    }
    wheel = wheel_of(tmp_path, grown)
    assert 1.11 < wheel.stat().st_size / now < 1.13
    found = facts(command, "diff", library, wheel, *FAIL_ON)
    assert differences(found) == {}
    (error,) = errors(found)
    assert error.startswith("the size has grown from ")
    assert re.search(r", \+12\.\d %, but --fail-on size=5% does not allow this$", error)
    assert facts(command, "diff", library, wheel, "--fail-on", "size=15%")["errors"] == []
    checked = facts(command, "check", wheel, "--max-size", f"{now} B")
    (error,) = errors(checked)
    assert "but max-size allows only" in error
    assert checked["results"][0]["warnings"] == []
