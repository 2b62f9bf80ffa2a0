"""Which ptxas assembles PTX sources, and what is said where it is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.errors import ToolchainError
from hatch_cubin.toolkit import assembler
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from tests.helpers import found, write_tree

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")


def program(path: Path, said: str) -> str:
    """Write a program that says something when it is asked for its version, and return its path."""
    write_tree(path.parent, {path.name: f"#!/bin/sh\n{said}\n"})
    path.chmod(0o755)
    return str(path)


def version(build: str) -> str:
    minor = build.rpartition(".")[0]
    return f"echo 'Cuda compilation tools, release {minor}, V{build}'"


@pytest.mark.parametrize(
    ("wanted", "major", "place"),
    [
        (None, 13, "site/nvidia/cu13/bin"),
        ("13.0", 13, "site/nvidia/cu13/bin"),
        ("12.9", 12, "site/nvidia/cuda_nvcc/bin"),
        ("system", 13, "home/bin"),
    ],
)
def test_it_lies_where_the_toolkit_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str | None, major: int, place: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere"), str(tmp_path / "site")])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "home"))
    for each in ("site/nvidia/cu13/bin", "site/nvidia/cuda_nvcc/bin", "home/bin"):
        program(tmp_path / each / "ptxas", version("13.0.88"))
    assert assembler.find(wanted, major, "13.0.88", "") == str(tmp_path / place / "ptxas")


def test_the_one_of_nvrtcs_build_is_taken_wherever_it_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "a"), str(tmp_path / "b")])
    program(tmp_path / "a/nvidia/cu13/bin/ptxas", version("13.0.48"))
    right = program(tmp_path / "b/nvidia/cu13/bin/ptxas", version("13.0.88"))
    assert assembler.find(None, 13, "13.0.88", "") == right


def refusal(
    monkeypatch: pytest.MonkeyPatch, site: Path, wanted: str | None = None, nvrtc: str = "13.0.88"
) -> str:
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.setenv("CUDA_HOME", str(site / "home"))
    toolkit = Toolkit(wanted, facts=Facts("1.2.2", 13, nvrtc, (75, 90)))
    with pytest.raises(ToolchainError) as caught:
        _ = toolkit.assembler
    assert found(caught.value) == [("ptxas-not-found", "")]
    return str(caught.value).replace(str(site), "SITE")


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (version("13.0.48"), "13.0.48"),
        ("echo what", "not runnable (exit code 0)"),
        ("exit 3", "not runnable (exit code 3)"),
        ("kill -KILL $$", "not runnable (exit code -9)"),
    ],
)
def test_another_build_is_not_used_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, why: str
) -> None:
    program(tmp_path / "nvidia/cu13/bin/ptxas", said)
    place = "SITE/nvidia/cu13/bin/ptxas"
    assert (
        f" 13.0.88, the version of the installed NVRTC, but no ptxas has this version: {place} is {why}\n"
        in refusal(monkeypatch, tmp_path)
    )


def test_one_that_does_not_start_or_does_not_end_is_told_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = program(tmp_path / "nvidia/cu13/bin/ptxas", "")
    for fault, why in (
        (PermissionError(13, "Permission denied"), r"not runnable \(Permission denied\)"),
        (subprocess.TimeoutExpired(path, 60), r"not runnable \(it took longer than 60 s\)"),
    ):

        def fail(*_arguments: Any, fault: Exception = fault, **_options: Any) -> None:
            raise fault

        monkeypatch.setattr(subprocess, "run", fail)
        assert re.search(why, refusal(monkeypatch, tmp_path))


@pytest.mark.parametrize(
    ("wanted", "hint"),
    [
        (None, "pip install nvidia-cuda-nvcc==13.0.88"),
        ("13.0", "build with isolation, which installs ptxas, or pip install nvidia-cuda-nvcc==13.0.88"),
        ("system", "install the toolkit's compiler (nvcc) into CUDA_HOME"),
    ],
)
def test_where_there_is_none_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str | None, hint: str
) -> None:
    assert refusal(monkeypatch, tmp_path, wanted) == (
        "PTX sources need ptxas 13.0.88, the version of the installed NVRTC, but no ptxas "
        f"was found\n  hint: {hint}"
    )


def test_the_wheel_of_cuda_12_has_a_name_of_its_own() -> None:
    assert assembler.wheel(12, "12.9.86") == "nvidia-cuda-nvcc-cu12==12.9.86"


def test_a_release_with_two_versions_is_refused_with_the_name_of_the_one_that_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "nvidia/cu13/bin/ptxas", version("13.3.73"))
    message = refusal(monkeypatch, tmp_path, "13.3", assembler.WITHOUT_PTXAS)
    assert 'pip install nvidia-cuda-nvcc==13.3.33, or write toolkit = "13.3.0"' in message
