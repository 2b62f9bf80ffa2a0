"""What is installed, compared with what is needed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.toolkit import installed_wheels
from tests.helpers import install_wheel, write_tree


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    return tmp_path


@pytest.mark.parametrize(
    ("requirement", "version", "meets"),
    [
        ("a", "1.0", True),
        ("a==13.0.*", "13.0.88", True),
        ("a==13.0.*", "13.4.92", False),
        ("a==13.0.88.*", "13.0.88", True),
        ("a==13.0.88.*", "13.0.8", False),
        ("a==13.*", "13.5.0.6", True),
        ("a==13.0.3", "13.0.3.0", True),
        ("a==13.0.2", "13.0.3.0", False),
        ("a>=1.2,<2", "1.2", True),
        ("a>=1.2,<2", "1.10.1", True),
        ("a>=1.2,<2", "2.0", False),
        ("a>=1.2,<2", "0.4.2", False),
        ("a <14, >=13.0.88", "13.5.37", True),
        ("a<=3", "3.0", True),
        ("a>3", "3.0", False),
        ("a>=42", "50.0.2rc1", True),
        ("a~=1.0", "7", True),  # not understood
        ("a==1.0", "unknown", False),
    ],
)
def test_a_version_meets_a_requirement_or_not(
    site: Path, requirement: str, version: str, *, meets: bool
) -> None:
    install_wheel(site, "a", {}, version)
    assert installed_wheels.unmet([requirement]) == ([] if meets else [requirement])


def test_what_is_not_installed_meets_nothing(site: Path) -> None:
    assert site.is_dir()
    assert installed_wheels.unmet(["a", "-x"]) == ["a", "-x"]
    assert (installed_wheels.version_of("a"), installed_wheels.compiler()) == (None, [])
    assert installed_wheels.name_of("-x") == "-x"


def test_a_metapackage_needs_what_its_extras_need(site: Path) -> None:
    """But for what is needed by a requirement of its own."""
    install_wheel(site, "meta", {}, "13.0.2")
    needs = (
        "x==1.0.*; sys_platform == 'linux' and extra == 'one'",
        'y; extra == "two"',
        "z",
        "w<2; extra == 'one'",
    )
    metadata = next(site.glob("meta-*/METADATA"))
    lines = "".join(f"Requires-Dist: {each}\n" for each in needs)
    write_tree(site, {str(metadata.relative_to(site)): f"{metadata.read_text('utf-8')}{lines}"})
    install_wheel(site, "x", {}, "1.1")
    assert installed_wheels.unmet(["meta==13.0.*"]) == []
    assert installed_wheels.unmet(["meta[one,three]==13.0.*"]) == ["x==1.0.*", "w<2"]
    assert installed_wheels.unmet(["meta[one]==13.0.*", "w==1.*"]) == ["w==1.*", "x==1.0.*"]
    assert installed_wheels.unmet(["meta[one]==13.4.*"]) == ["meta[one]==13.4.*"]


def test_a_requirement_is_shown_with_the_version_that_is_here(site: Path) -> None:
    install_wheel(site, "a", {}, "1.1")
    shown = [installed_wheels.shown(each) for each in ("a[x,y]==2.*", "b>=1,<2", "c")]
    assert shown == ["a 2.* (1.1 is installed)", "b >=1,<2", "c"]


def test_the_parts_of_a_compiler_are_listed(site: Path) -> None:
    for name in ("cuda-core", "nvidia-cuda-nvrtc-cu12", "other"):
        install_wheel(site, name, {}, "1.1")
    assert installed_wheels.compiler() == ["nvidia-cuda-nvrtc-cu12 1.1", "cuda-core 1.1"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("13.0.3", "13.0.3.0", True),
        ("13.0.3", "13.0.3", True),
        ("13.0.3", "13.0.30", False),
        ("13.0", "13.1", False),
    ],
)
def test_releases_compare_as_numbers(one: str, other: str, *, same: bool) -> None:
    assert installed_wheels.same_release(one, other) is same
