"""Which kernels the archs of a module lack."""

from __future__ import annotations

from dataclasses import replace

from hatch_cubin.cache.entries import Compiled
from hatch_cubin.common.arch_names import parse_arch
from hatch_cubin.compiling.missing_kernels import missing_kernel_notes
from hatch_cubin.planning.unit_plan import LinkRecipe, Module, Unit
from hatch_cubin.project.source import Source


def module(name: str, path: str = "demo/k.cu") -> Module:
    return Module(name, Source(path, ""))


def done(module: Module, **archs: str) -> dict[Unit, Compiled]:
    """Return the units of a module, the kernels of each arch named in a text."""
    return {
        Unit(module, parse_arch(arch)): Compiled(b"", {name: name for name in names.split()})
        for arch, names in archs.items()
    }


def test_archs_with_the_same_kernels_lack_none() -> None:
    assert missing_kernel_notes(done(module("k"), sm_80="a b", sm_90="b a", compute_90="a b")) == []
    assert missing_kernel_notes(done(module("k"), sm_80="a")) == []
    assert missing_kernel_notes({}) == []


def test_archs_that_lack_the_same_are_named_together() -> None:
    found = done(module("k"), sm_90="a b c", sm_80="a", compute_80="a", sm_100="a b")
    assert missing_kernel_notes(found) == [
        "demo/k.cu: the code for compute_80, sm_80 does not contain 2 of its 3 kernels: b, c",
        "demo/k.cu: the code for sm_100 does not contain 1 of its 3 kernels: c",
    ]


def test_archs_can_lack_kernels_of_each_other() -> None:
    assert missing_kernel_notes(done(module("k"), sm_80="old", sm_90="new")) == [
        "demo/k.cu: the code for sm_80 does not contain 1 of its 2 kernels: new",
        "demo/k.cu: the code for sm_90 does not contain 1 of its 2 kernels: old",
    ]


def test_what_many_variants_lack_is_said_once() -> None:
    both = {**done(module("k1"), sm_80="a", sm_90="a b"), **done(module("k2"), sm_80="a", sm_90="a b")}
    assert missing_kernel_notes(both) == [
        "demo/k.cu: the code for sm_80 does not contain 1 of its 2 kernels: b"
    ]


def test_of_many_names_some_are_shown() -> None:
    found = done(module("k"), sm_80="a", sm_90="a b c d e f")
    assert missing_kernel_notes(found) == [
        "demo/k.cu: the code for sm_80 does not contain 5 of its 6 kernels: b, c, d, …"
    ]


def test_one_kernel_with_two_symbols_is_lacked_by_nobody() -> None:
    units = [Unit(module("k"), parse_arch(arch)) for arch in ("sm_80", "sm_90")]
    same = Unit(units[0].module, units[1].arch)
    assert (
        missing_kernel_notes({units[0]: Compiled(b"", {"a": "_Z1a"}), same: Compiled(b"", {"a": "_Z2a"})})
        == []
    )


def test_a_linked_module_is_named_by_its_own_name() -> None:
    linked = replace(module("solver"), link=LinkRecipe("lto", (), ()))
    found = done(linked, sm_80="a", sm_90="a b")
    assert missing_kernel_notes(found) == [
        "solver: the code for sm_80 does not contain 1 of its 2 kernels: b"
    ]
