"""Which tileiras compiles tile kernels, and what is said where a part of it is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.common.arch_names import Arch
from hatch_cubin.errors import ToolchainError
from hatch_cubin.toolkit import tile_assembler
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from tests.helpers import found, write_tree

TOOLS = ("bin/tileiras", "bin/ptxas", "lib/libnvvm.so.4")
FACTS = Facts("1.2.2", 13, "13.3.33", (75, 80, 90))


def parts(build: str, *others: str) -> dict[str, str]:
    """Return the files of a toolkit; each contains its version somewhere."""
    builds = (build, *others, *[build] * (2 - len(others)))
    return {
        name: f"release notes\nrelease {each.rpartition('.')[0]}, V{each}\nmore"
        for name, each in zip(TOOLS, builds, strict=True)
    }


def test_the_versions_of_all_three_are_a_part_of_its_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_tree(tmp_path / "site/nvidia/cu13", parts("13.3.36", "13.3.73", "13.3.73"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nothing"), str(tmp_path / "site")])
    toolkit = Toolkit(None, facts=FACTS)
    assert (toolkit.tileiras_if_used, toolkit.extras) == (None, frozenset())
    assert toolkit.tileiras == "13.3.36 (ptxas 13.3.73, libnvvm 13.3.73)"
    assert toolkit.tile_assembler == str(home / "bin/tileiras")
    assert toolkit.compilers["tileiras"] == toolkit.facts.tileiras == toolkit.tileiras_if_used
    assert toolkit.extras == {"tileiras"}
    write_tree(home, parts("13.3.36"))
    assert Toolkit(None, facts=FACTS).tileiras == "13.3.36"


def test_facts_about_it_need_no_files() -> None:
    assert Toolkit(None, facts=FACTS._replace(tileiras="13.3.36")).tileiras == "13.3.36"


def test_the_first_complete_one_of_the_release_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "a/nvidia/cu13", parts("13.2.36"))
    write_tree(tmp_path / "b/nvidia/cu13", {"bin/tileiras": "release 13.3, V13.3.36"})
    right = write_tree(tmp_path / "c/nvidia/cu13", parts("13.3.36"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / each) for each in "abc"])
    assert tile_assembler.find(None, "13.3").path == str(right / "bin/tileiras")


def test_the_one_of_cuda_home_is_where_the_installer_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = parts("13.3.36")
    files["nvvm/lib64/libnvvm.so"] = files.pop("lib/libnvvm.so.4")
    write_tree(tmp_path, files)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    toolkit = Toolkit("system", facts=FACTS)
    assert toolkit.tile_assembler == str(tmp_path / "bin/tileiras")


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ({}, "tileiras is missing, ptxas is missing, libnvvm is missing"),
        (
            {name: text for name, text in parts("13.3.36").items() if "nvvm" not in name},
            "tileiras is 13.3.36, ptxas is 13.3.36, libnvvm is missing",
        ),
        (
            {name: text for name, text in parts("13.3.36").items() if "tileiras" not in name},
            "tileiras is missing, ptxas is 13.3.36, libnvvm is 13.3.36",
        ),
        (parts("13.5.37"), "tileiras is 13.5.37, ptxas is 13.5.37, libnvvm is 13.5.37"),
        (
            {**parts("13.3.36"), "bin/ptxas": "release 13.3"},
            "tileiras is 13.3.36, ptxas is of an unknown version, libnvvm is 13.3.36",
        ),
    ],
    ids=["all", "libnvvm", "tileiras", "another release", "no version"],
)
def test_what_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], what: str
) -> None:
    write_tree(tmp_path / "nvidia/cu13", files)
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    with pytest.raises(ToolchainError) as caught:
        _ = Toolkit(None, facts=FACTS).tileiras
    assert [code for code, _where in found(caught.value)] == ["tileiras-not-found"]
    (problem,) = caught.value.problems
    assert what in problem.what
    wheels = " ".join(tile_assembler.wheels("13.3"))
    assert problem.hint == f"pip install {wheels}"


@pytest.mark.parametrize(
    ("wanted", "hint"), [("13.3", "build with isolation"), ("system", "install tileiras, nvcc and libnvvm")]
)
def test_how_to_install_it_depends_on_the_toolkit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: str, hint: str
) -> None:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    with pytest.raises(ToolchainError) as caught:
        _ = Toolkit(wanted, facts=FACTS).tile_assembler
    assert (caught.value.problems[0].hint or "").startswith(hint)


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"lineinfo": True, "std": "c++20"}, ["--lineinfo"]),
        ({"lineinfo": True, "debug": True}, ["--device-debug", "--opt-level=0"]),
    ],
)
def test_options_of_a_module_are_flags_of_tileiras(options: dict[str, object], flags: list[str]) -> None:
    assert tile_assembler.flags(options, Arch(90, "a")) == ["--gpu-name=sm_90", *flags]


@pytest.mark.parametrize(("nvrtc", "tile"), [("13.3.33", (80, 90)), ("13.2.51", ()), ("12.9.86", ())])
def test_tileiras_knows_the_capabilities_of_nvrtc_from_8_0_on(nvrtc: str, tile: tuple[int, ...]) -> None:
    assert Toolkit(None, facts=FACTS._replace(nvrtc=nvrtc)).toolchain().tile == tile
