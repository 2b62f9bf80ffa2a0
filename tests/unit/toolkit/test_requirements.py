"""What the build front end is asked to install."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest

from hatch_cubin.common import ed25519_keys
from hatch_cubin.config import toml_positions
from hatch_cubin.toolkit import requirements as requirements_module
from hatch_cubin.toolkit.requirements import (
    CLUSTERS,
    SIGNATURES,
    build_requirements,
    install_command,
    versions,
)
from tests.helpers import REPOSITORY, TABLE, read_config, write_tree

CORE = "cuda-core>=1.2,<2"
NEWEST = [
    CORE,
    "cuda-bindings==13.*",
    "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.*",
]


@pytest.mark.parametrize(
    ("toolkit", "requirements"),
    [
        ("13", NEWEST),
        ("13.0", [CORE, "cuda-bindings==13.*", "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*"]),
        ("13.0.2", [CORE, "cuda-bindings==13.*", "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.2"]),
        ("12.9", [CORE, "cuda-bindings==12.*", "cuda-toolkit[nvrtc,cudart,cccl,nvcc]==12.9.*"]),
    ],
)
def test_a_toolkit_is_asked_for_with_its_bindings_and_headers(toolkit: str, requirements: list[str]) -> None:
    assert build_requirements(read_config(f'toolkit = "{toolkit}"'), {}) == requirements


@pytest.mark.parametrize(
    ("toolkit", "python"), [("13.0", "cuda-python==13.*"), ("12.9", "cuda-python>=12.8,<13")]
)
def test_cutlass_asks_for_the_cuda_python_of_the_bindings(toolkit: str, python: str) -> None:
    table = f'toolkit = "{toolkit}"\nheader-packages = ["nvidia-cutlass"]'
    assert python == build_requirements(read_config(table), {})[2]


def test_cutlass_asks_for_no_cuda_python_if_the_systems_toolkit_is_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements_module, "system_major", lambda: None)
    table = 'toolkit = "system"\nheader-packages = ["nvidia-cutlass"]'
    assert build_requirements(read_config(table), {}) == [CORE, "cuda-bindings", "nvidia-cutlass"]


@pytest.mark.parametrize(
    ("toolkit", "extras"),
    [("13.0", "nvrtc,cudart,cccl,crt,nvcc"), ("12.9", "nvrtc,cudart,cccl,nvcc")],
)
def test_ptx_sources_ask_for_the_wheel_of_ptxas(toolkit: str, extras: str) -> None:
    asked = build_requirements(read_config(f'toolkit = "{toolkit}"'), {}, extras=["nvcc"])
    assert asked[2:] == [f"cuda-toolkit[{extras}]=={toolkit}.*"]


@pytest.mark.parametrize(
    ("toolkit", "extras"),
    [
        ("13", "nvrtc,cudart,cccl,crt,nvcc,tileiras"),
        ("13.3", "nvrtc,cudart,cccl,crt,nvcc,tileiras"),
        ("13.2", "nvrtc,cudart,cccl,crt,nvcc"),
        ("12.9", "nvrtc,cudart,cccl,nvcc"),
    ],
)
def test_tile_kernels_ask_for_tileiras_of_a_release_that_has_it(toolkit: str, extras: str) -> None:
    asked = build_requirements(read_config(f'toolkit = "{toolkit}"'), {}, extras=["tileiras", "nvcc"])
    assert asked[2:] == [f"cuda-toolkit[{extras}]=={toolkit}.*"]


@pytest.mark.parametrize(
    ("toolkit", "last", "linker"),
    [("13.0.2", "crt", "nvidia-nvjitlink==13.0.*"), ("12.9.1", "nvcc", "nvidia-nvjitlink-cu12==12.9.*")],
)
def test_linked_modules_ask_for_the_linker_of_the_toolkits_minor(
    toolkit: str, last: str, linker: str
) -> None:
    module = '[[tool.hatch.build.hooks.cubin.module]]\nname = "m"\nsources = ["a.cu"]\nmode = "lto"'
    table = f'toolkit = "{toolkit}"\n{module}'
    asked = build_requirements(read_config(table), {})
    assert asked[2:] == [f"cuda-toolkit[nvrtc,nvjitlink,cudart,cccl,{last}]=={toolkit}", linker]


@pytest.mark.parametrize(
    ("library", "bindings"),
    [
        ("libnvrtc.so.12.9.86", "cuda-bindings==12.*"),
        ("libnvrtc.so.13", "cuda-bindings==13.*"),
        ("none", "cuda-bindings"),
    ],
)
@pytest.mark.linux
def test_the_systems_toolkit_needs_bindings_of_its_own_major_and_no_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, bindings: str
) -> None:
    monkeypatch.setenv("CUDA_HOME", str(write_tree(tmp_path, {f"lib64/{library}": ""})))
    assert build_requirements(read_config('toolkit = "system"'), {}) == [CORE, bindings]


KEY = ed25519_keys.write(ed25519_keys.PUBLIC, bytes(range(32)))


@pytest.mark.parametrize(
    ("table", "environ", "signs"),
    [
        ("", {}, []),
        (f'trusted-keys = ["{KEY}"]', {}, [SIGNATURES]),
        ("", {"HATCH_CUBIN_SIGNING_KEY": "@key"}, [SIGNATURES]),
        ("", {"HATCH_CUBIN_SIGNING_KEY": ""}, []),
        (f'trusted-keys = ["{KEY}"]', {"HATCH_CUBIN_SKIP": "1"}, None),
    ],
)
def test_what_signs_is_asked_for_where_something_is_signed(
    table: str, environ: dict[str, str], signs: list[str] | None
) -> None:
    config = read_config(f'toolkit = "13"\n{table}')
    assert build_requirements(config, environ) == ([] if signs is None else [*NEWEST, *signs])
    if signs is not None:
        locked = ["cuda-core==1.2", "cuda-bindings==13.*", *signs]
        assert build_requirements(config, environ, {"cuda-core": "1.2"}) == locked


@pytest.mark.parametrize(
    ("extras", "known", "added"),
    [
        (["nvcc"], {}, ["cuda-toolkit[nvcc]==13.0.1"]),
        (["nvcc"], {"nvidia-cuda-nvcc": "13.0.88"}, []),
        (["nvcc", "tileiras"], {"nvidia-cuda-nvcc": "13.0.88"}, []),  # which has no tileiras
        (["tileiras"], {"cuda-toolkit": "13.5.0"}, ["cuda-toolkit[tileiras]==13.5.0"]),
        ([], {}, []),
    ],
)
def test_an_older_lock_file_lacks_what_the_first_ptx_source_needs(
    extras: list[str], known: dict[str, str], added: list[str]
) -> None:
    locked = {"cuda-core": "1.2.0", "cuda-toolkit": "13.0.1", **known}
    pins = [f"{name}=={version}" for name, version in locked.items()]
    found = build_requirements(read_config('toolkit = "13"'), {}, locked, extras=extras)
    assert found == [*pins, "cuda-bindings==13.*", *added]


def test_an_older_lock_file_lacks_what_the_first_linked_module_needs() -> None:
    table = f'toolkit = "13"\n[[{".".join(TABLE)}.module]]\nname = "m"\nmode = "lto"\nsources = ["*.cu"]'
    found = build_requirements(read_config(table), {}, {"cuda-core": "1.2.0", "cuda-toolkit": "13.0.1"})
    assert found == [
        "cuda-core==1.2.0",
        "cuda-toolkit==13.0.1",
        "cuda-bindings==13.*",
        "nvidia-nvjitlink==13.0.*",
    ]


def test_it_is_the_extra_that_the_error_names() -> None:
    extras = toml_positions.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
    assert SIGNATURES in extras["remote"]


def test_header_packages_are_asked_for_after_the_toolkit() -> None:
    config = read_config('toolkit = "13"\nheader-packages = ["some-headers==4.*"]')
    assert build_requirements(config, {}) == [*NEWEST, "some-headers==4.*"]


@pytest.mark.parametrize(
    ("url", "asked"), [("s3://bucket/x", ["obstore>=0.11,<1"]), ("https://cache.example", [])]
)
def test_a_store_in_a_bucket_is_asked_for_its_client_by_the_table_or_the_environment(
    url: str, asked: list[str]
) -> None:
    table = read_config(f'toolkit = "13"\nremote-cache = "{url}"\n')
    assert build_requirements(table, {}) == [*NEWEST, *asked]
    variable = {"HATCH_CUBIN_REMOTE": url}
    assert build_requirements(read_config('toolkit = "13"\n', variable), variable) == [*NEWEST, *asked]
    locked = {"cuda-core": "1.2.2", "nvidia-nvjitlink": "13.0.88"}
    exact = ["cuda-core==1.2.2", "nvidia-nvjitlink==13.0.88", "cuda-bindings==13.*", *asked]
    assert build_requirements(table, {}, locked) == exact


@pytest.mark.parametrize("value", ["1", "true"])
def test_nothing_is_asked_for_where_the_bundle_has_no_kernels(value: str) -> None:
    config = read_config('toolkit = "13"\nheader-packages = ["nvidia-cutlass"]')
    assert build_requirements(config, {"HATCH_CUBIN_SKIP": value}) == []


def test_the_command_for_a_compiler_has_packages_even_if_builds_skip_kernels() -> None:
    config = read_config("toolkit = '13.0'")
    command = install_command(config, {})
    assert install_command(config, {"HATCH_CUBIN_SKIP": "1"}) == command
    assert "cuda-toolkit" in command


@pytest.mark.parametrize("value", ["", "0"])
def test_a_switch_that_is_off_skips_nothing(value: str) -> None:
    assert build_requirements(read_config('toolkit = "13"'), {"HATCH_CUBIN_SKIP": value}) == NEWEST


@pytest.mark.parametrize(
    ("installed", "requirements"),
    [
        ({"cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc"}, []),
        ({"cuda-core", "cuda-bindings", "nvidia-cuda-nvrtc-cu12"}, []),
        ({"cuda-core", "cuda-bindings"}, NEWEST),
        ({"cuda-bindings", "nvidia-cuda-nvrtc"}, NEWEST),
        ({"cuda-core", "nvidia-cuda-nvrtc"}, NEWEST),
        (set(), NEWEST),
    ],
    ids=["cuda 13", "cuda 12", "no nvrtc", "no core", "no bindings", "nothing"],
)
def test_an_unset_toolkit_is_the_one_that_is_there_or_the_newest(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], requirements: list[str]
) -> None:
    def version(name: str) -> str:
        if name not in installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return "1.2"

    monkeypatch.setattr(importlib.metadata, "version", version)
    assert build_requirements(read_config(), {}) == requirements
    assert build_requirements(read_config('header-packages = ["a"]'), {}) == [*requirements, "a"]


@pytest.mark.parametrize(
    ("where", "asked"),
    [("dask://a:1", [CLUSTERS]), ("tls://a:1,local", [CLUSTERS]), ("ray://a", []), ("a:b", []), ("", [])],
)
def test_a_dask_cluster_is_asked_for_its_client(where: str, asked: list[str]) -> None:
    environ = {"HATCH_CUBIN_EXECUTOR": where}
    config = read_config('toolkit = "13"', environ)
    assert build_requirements(config, environ) == [*NEWEST, *asked]
    declared = toml_positions.loads((REPOSITORY / "pyproject.toml").read_text("utf-8"))
    assert declared["project"]["optional-dependencies"]["dask"] == [CLUSTERS]
    assert CLUSTERS in declared["dependency-groups"]["test"]


def test_of_the_systems_toolkit_no_wheel_makes_a_difference() -> None:
    found = versions(read_config('toolkit = "system"'), 13, (), {"nvcc", "tileiras"})
    assert found.keys() <= {"cuda-core"}
