"""Where headers come from: header wheels and the toolkit's own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, cast

import platformdirs
import pytest

from hatch_cubin import __version__
from hatch_cubin.common import user_folders
from hatch_cubin.errors import ConfigError, ToolchainError
from hatch_cubin.headers import search_path
from hatch_cubin.headers.resolve import SearchFolder
from hatch_cubin.project.source_roots import ProjectTree
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import install_wheel, read_config, refusal, write_tree

PACKAGE = Path(search_path.__file__).parent


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of installed packages, the only one that is searched."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [str(site)])
    return site


def install(site: Path, name: str, *files: str) -> None:
    install_wheel(site, name, dict.fromkeys(files, ""))


def test_the_projects_own_folders_are_called_by_their_paths(tmp_path: Path) -> None:
    assert list(search_path.project_roots(ProjectTree(tmp_path), ["include", "a/b/"])) == [
        SearchFolder(tmp_path / "include", "project/include"),
        SearchFolder(tmp_path / "a/b", "project/a/b"),
    ]


def test_every_include_folder_of_a_header_package_is_searched(site: Path) -> None:
    files = (
        "lib/include/a.hpp",
        "lib/include/sub/include/b.h",
        "tools/include/c.inl",
        "include.h",
        "src/d.h",
    )
    install(site, "Some-Headers", *files, "docs/include/readme.txt")
    config = read_config('header-packages = ["Some-Headers>=1,<2"]')
    assert list(search_path.package_roots(config)) == [
        SearchFolder(site / "lib/include", "some-headers/lib/include", "Some-Headers==1.2"),
        SearchFolder(site / "tools/include", "some-headers/tools/include", "Some-Headers==1.2"),
    ]


def test_a_header_package_of_nvidias_is_searched_in_the_folder_that_it_shares(site: Path) -> None:
    install(site, "nvidia-cuda-nvcc-cu12", "nvidia/cuda_nvcc/include/crt/mma.h", "nvidia/cuda_nvcc/bin/ptxas")
    (root,) = search_path.package_roots(read_config('header-packages = ["nvidia-cuda-nvcc-cu12"]'))
    assert (root.path, root.path.is_dir()) == (site / "nvidia/cuda_nvcc/include", True)


def test_every_header_package_that_does_not_serve_is_named(site: Path) -> None:
    install(site, "empty", "empty/__init__.py")
    config = read_config('header-packages = ["absent", "empty"]')
    assert str(refusal(ConfigError, list, search_path.package_roots(config))) == (
        "pyproject.toml:10: header-packages: 'absent' is not installed in the build environment\n"
        "  hint: a build with isolation installs this wheel; for a "
        "build without isolation: pip install absent\n"
        "pyproject.toml:10: header-packages: 'empty' has no include folder\n"
        "  hint: remove 'empty' from header-packages: the wheel does not have a folder of headers"
    )


class FakeToolkit:
    """A toolkit that has no compiler, only a version and headers to unpack."""

    def __init__(self, nvrtc: str, *, bundled: bool = True) -> None:
        self.nvrtc = nvrtc
        self.version = (int(nvrtc.split(".", maxsplit=1)[0]), int(nvrtc.split(".")[1]))
        self.major = self.version[0]
        self.installs: list[Path] = []
        self._bundled = bundled

    def install_headers(self, folder: Path) -> bool:
        self.installs.append(folder)
        write_tree(folder, {"cuda_fp16.h": "", "cccl/cub/cub.cuh": ""})
        return self._bundled


def roots(toolkit: FakeToolkit, *, system: bool = False) -> list[SearchFolder]:
    """Return the toolkit's roots; the shims for the host's headers are always among them."""
    found = search_path.toolkit_roots(cast("Toolkit", toolkit), system=system)
    shims = SearchFolder(PACKAGE / "host_headers", "shims", f"shims of hatch-cubin {__version__}")
    assert shims in found
    return [root for root in found if root != shims]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the user's cache folder."""

    def user_cache_dir(*_args: object, **_options: object) -> str:
        return str(tmp_path / "home")

    monkeypatch.setattr(platformdirs, "user_cache_dir", user_cache_dir)
    return tmp_path / "home"


def test_bundled_headers_are_unpacked_once_for_each_build_of_nvrtc(site: Path, home: Path) -> None:
    first, again, other = FakeToolkit("13.5.37"), FakeToolkit("13.5.37"), FakeToolkit("13.5.40")
    folder = home / "headers/13.5.37/include"
    expected = [
        SearchFolder(folder, "nvrtc", "NVRTC 13.5.37 headers"),
        SearchFolder(folder / "cccl", "nvrtc/cccl", "NVRTC 13.5.37 headers"),
    ]
    assert roots(first) == roots(again) == expected
    assert roots(other)[0].path == home / "headers/13.5.40/include"
    assert [len(each.installs) for each in (first, again, other)] == [1, 0, 1]
    assert (folder / "cuda_fp16.h").is_file()
    assert sorted(path.name for path in (home / "headers").iterdir()) == ["13.5.37", "13.5.40"]
    assert site.exists()


def test_half_an_unpacked_folder_is_replaced(site: Path, home: Path) -> None:
    write_tree(home / "headers/13.5.37", {"include/stale.h": ""})
    assert site.exists()
    (bundled, _cccl) = roots(FakeToolkit("13.5.37"))
    assert [path.name for path in sorted(bundled.path.iterdir())] == ["cccl", "cuda_fp16.h"]


def write_runtime(folder: Path, version: str) -> None:
    """Write the header that says of which CUDA version it is."""
    major, minor, _patch = map(int, version.split("."))
    write_tree(folder, {"cuda_runtime_api.h": f"#define CUDART_VERSION  {major * 1000 + minor * 10}"})


@pytest.mark.linux
@pytest.mark.usefixtures("site")
@pytest.mark.parametrize(
    "name", ["", "13.5.37", "13.5.37/complete", "13.5.37/include", "13.5.37/include/cccl"]
)
def test_what_a_pipe_has_the_place_of_is_unpacked_again(home: Path, name: str) -> None:
    first = roots(FakeToolkit("13.5.37"))
    path = home / "headers" / name
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    os.mkfifo(path)
    toolkit = FakeToolkit("13.5.37")
    assert roots(toolkit) == first
    assert (len(toolkit.installs), all(root.path.is_dir() for root in first)) == (1, True)


class LateToolkit(FakeToolkit):
    """A toolkit that another build overtakes while it unpacks its headers."""

    def install_headers(self, folder: Path) -> bool:
        write_tree(folder.parents[2] / self.nvrtc, {"complete": "", "include/cccl/theirs.h": ""})
        return super().install_headers(folder)


@pytest.mark.usefixtures("site")
def test_another_build_that_is_first_wins_and_keeps_its_folder(home: Path) -> None:
    (bundled, _cccl) = roots(LateToolkit("13.5.37"))
    assert bundled.path == home / "headers/13.5.37/include"
    assert [path.name for path in bundled.path.rglob("*.h")] == ["theirs.h"]


@pytest.mark.usefixtures("site", "home")
@pytest.mark.parametrize("nvrtc", ["13.5.37", "13.2.9"])
def test_without_bundled_headers_there_are_those_of_the_wheels(nvrtc: str) -> None:
    assert roots(FakeToolkit(nvrtc, bundled=False)) == []


@pytest.mark.usefixtures("site", "no_trouble")
def test_where_the_home_cannot_be_written_the_headers_are_unpacked_for_this_process(home: Path) -> None:
    write_tree(home, {"headers": "not a folder"})
    first, again = FakeToolkit("13.5.37"), FakeToolkit("13.5.37")
    assert roots(first) == roots(again)
    (bundled, _cccl) = roots(again)
    assert (bundled.path / "cuda_fp16.h").is_file()
    assert (len(first.installs), again.installs) == (1, [])
    assert user_folders.fallback_warning() == (
        "this build uses a temporary folder as cache folder, "
        f"because NVRTC's headers cannot be unpacked into the user's cache folder: {home / 'headers'} "
        "is not a folder; the next build cannot reuse the results of this build"
    )


@pytest.mark.usefixtures("site", "no_trouble")
def test_headers_that_can_be_unpacked_nowhere_are_an_error(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(home, {"headers": "not a folder"})
    monkeypatch.setattr(user_folders, "use_temporary_folder", lambda _why: home / "headers")
    assert str(refusal(ToolchainError, roots, FakeToolkit("13.5.37"))) == (
        "NVRTC's headers cannot be unpacked "
        f"into the user's cache folder ({home / 'headers'} is not a folder), "
        f"nor into a temporary folder ({home / 'headers'} is not a folder)"
    )


@pytest.mark.parametrize(
    ("nvrtc", "folders"),
    [
        ("13.0.88", ["cu13/include", "cu13/include/cccl"]),
        ("12.9.86", ["cuda_runtime/include", "cuda_cccl/include", "cuda_nvcc/include"]),
    ],
)
def test_the_wheels_of_each_major_are_searched(site: Path, nvrtc: str, folders: list[str]) -> None:
    write_tree(site / "nvidia", {f"{folder}/some.h": "" for folder in folders})
    write_runtime(site / "nvidia" / folders[0], nvrtc)
    found = roots(FakeToolkit(nvrtc))
    assert [(root.path, root.logical) for root in found] == [
        (site / "nvidia" / folder, f"cuda/{folder}") for folder in folders
    ]


def test_the_trees_of_wheels_are_known_by_the_versions_of_all_that_share_them(site: Path) -> None:
    write_runtime(site / "nvidia/cu13/include", "13.0.88")

    def tree(wheel: str) -> str:
        write_tree(site, {f"{wheel}.dist-info/METADATA": ""})
        (found,) = {root.tree for root in roots(FakeToolkit("13.0.88"))}
        return found

    labels = [tree(wheel) for wheel in ("nvidia_curand-1.0", "nvidia_cuda_cccl-13.0.85", "other-1.0")]
    assert labels[0] != labels[1] == labels[2]


@pytest.mark.parametrize(
    ("header", "fits"),
    [
        ("#define CUDART_VERSION  13000", True),
        ("#define CUDART_VERSION 13010", False),
        ("#define CUDART_VERSION 12000", False),
        ("// nothing", False),
    ],
)
def test_headers_are_taken_only_of_the_compilers_version(site: Path, header: str, fits: bool) -> None:  # noqa: FBT001 - a fact
    write_tree(site / "nvidia/cu13/include", {"cuda_runtime_api.h": header})
    assert bool(roots(FakeToolkit("13.0.88"))) is fits


@pytest.mark.parametrize("version", ["12.8.1", None], ids=["another version", "of no known version"])
def test_what_stands_beside_headers_that_do_not_fit_is_refused_with_them(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str | None
) -> None:
    """libcu++ and crt/ do not say of which CUDA they are."""
    fitting = tmp_path / "other"
    monkeypatch.setattr(sys, "path", [str(site), str(fitting)])
    write_tree(site / "nvidia", {"cuda_cccl/include/cub.h": "", "cuda_nvcc/include/crt/a.h": ""})
    if version is not None:
        write_runtime(site / "nvidia/cuda_runtime/include", version)
    assert roots(FakeToolkit("12.9.86")) == []
    write_tree(fitting / "nvidia", {"cuda_cccl/include/cub.h": ""})
    write_runtime(fitting / "nvidia/cuda_runtime/include", "12.9.37")
    assert [
        root.path.relative_to(fitting / "nvidia").as_posix() for root in roots(FakeToolkit("12.9.86"))
    ] == [
        "cuda_runtime/include",
        "cuda_cccl/include",
    ]


@pytest.mark.parametrize("variable", ["CUDA_HOME", "CUDA_PATH"])
def test_a_system_toolkit_is_searched_and_nothing_else(
    tmp_path: Path, site: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    write_tree(site / "nvidia", {"cu13/include/some.h": ""})
    write_tree(
        tmp_path / "cuda/include", {"cccl/cub.h": "", "cuda_runtime_api.h": "#define CUDART_VERSION 13050"}
    )
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(variable, str(tmp_path / "cuda"))
    toolkit: Any = FakeToolkit("13.5.37")
    assert roots(toolkit, system=True) == [
        SearchFolder(tmp_path / "cuda/include", "cuda/include", "CUDA_HOME 13.5.37"),
        SearchFolder(tmp_path / "cuda/include/cccl", "cuda/include/cccl", "CUDA_HOME 13.5.37"),
    ]
    assert toolkit.installs == []


def test_what_nobody_has_unpacked_yet_can_be_left_out(site: Path, home: Path) -> None:
    toolkit = FakeToolkit("13.5.37")

    def found() -> list[str]:
        asked = search_path.toolkit_roots(cast("Toolkit", toolkit), system=False, unpacks=False)
        return [root.logical for root in asked if root.logical.startswith("nvrtc")]

    assert (found(), toolkit.installs) == ([], [])
    assert roots(toolkit)[0].path == home / "headers/13.5.37/include"
    assert found() == ["nvrtc", "nvrtc/cccl"]
    assert site.exists()


SHARED = "nvidia/cu13/include"


def test_headers_that_a_build_would_not_have_are_here_by_chance(site: Path) -> None:
    install(site, "nvidia-cuda-runtime", f"{SHARED}/cuda_runtime.h")
    install(site, "nvidia-cuda-nvdisasm", "nvidia/cu13/bin/nvdisasm")
    assert search_path.unrequired_headers(read_config(), pytest.fail) == {}
    for name in ("nvidia-cublas", "nvidia-curand", "nvidia-nvtx"):
        install(site, name, f"{SHARED}/{name}.h", f"nvidia/cu13/lib/{name}.so")
    there = {f"{SHARED}/nvidia-cublas.h": "nvidia-cublas", f"{SHARED}/nvidia-curand.h": "nvidia-curand"}
    assert search_path.unrequired_headers(read_config(), lambda: ["hatchling", "NVIDIA_nvtx>=1"]) == there
    packages = read_config('header-packages = ["nvidia-cublas", "nvidia-curand<11", "nvidia-nvtx"]')
    assert search_path.unrequired_headers(packages, pytest.fail) == {}
    found = search_path.wheels_at(
        ["cuda/cu13/include/nvidia-cublas.h", "cuda/cu13/include/cuda_runtime.h"], there
    )
    assert found == {"cuda/cu13/include/nvidia-cublas.h": "nvidia-cublas"}


def test_what_a_requirement_needs_is_not_here_by_chance(site: Path) -> None:
    for name in ("nvidia-cublas", "nvidia-curand", "nvidia-cufft"):
        install(site, name, f"{SHARED}/{name}.h")
    install(site, "cuda-toolkit")
    (metadata,) = site.glob("cuda_toolkit-*.dist-info/METADATA")
    needs = ["nvidia-cublas==1; extra == 'cublas'", 'nvidia-curand ; extra == "rand"', "nvidia-cufft>=1"]
    with metadata.open("a") as file:
        file.writelines(f"Requires-Dist: {need}\n" for need in needs)
    left = search_path.unrequired_headers(read_config(), lambda: ["cuda-toolkit[cublas, nvrtc]==13.*"])
    assert set(left.values()) == {"nvidia-curand"}
