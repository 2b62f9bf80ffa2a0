"""Kernels that several modules have."""

from __future__ import annotations

from dataclasses import replace

from hatch_cubin.compiling.shared_kernels import shared_kernel_notes
from hatch_cubin.config.config import SourceRule
from hatch_cubin.planning.unit_plan import Module
from hatch_cubin.project.source import Production

from .test_missing_kernels import done, module


def notes(*modules: tuple[Module, str]) -> list[str]:
    return [note.partition(" [")[0] for note in whole_notes({}, *modules)]


def whole_notes(headers: dict[str, str], *modules: tuple[Module, str]) -> list[str]:
    """Return the notes with hints; the source of each module includes all *headers*."""
    found = {unit: code for each, kernels in modules for unit, code in done(each, sm_90=kernels).items()}
    return shared_kernel_notes(found, lambda unit: {unit.module.source.path: "", **headers})


def test_modules_with_a_kernel_of_one_name_are_told() -> None:
    a, b = module("a", "demo/a.cu"), module("b", "demo/b.cu")
    assert notes((a, "saxpy own"), (b, "saxpy")) == [
        "demo/b.cu: the modules a, b have kernels of the same name: saxpy"
    ]


def test_the_header_with_the_text_of_a_shared_kernel_is_named() -> None:
    modules = ((module("a", "demo/a.cu"), "fill a"), (module("b", "demo/b.cu"), "fill b"))
    fill = 'extern "C"\n__global__ void fill(int *p) {}'
    (note,) = whole_notes({"demo/fill.cuh": fill, "demo/other.cuh": ""}, *modules)
    assert "move fill from demo/fill.cuh:2" in note
    assert "'exclude'" not in note
    (note,) = whole_notes({"demo/b.cu": fill}, *modules)
    assert "'exclude'" in note


def test_a_message_for_many_is_short() -> None:
    many = [(module(f"m{number}", f"demo/{number}.cu"), "a b c d") for number in range(5)]
    assert notes(*many) == [
        "demo/4.cu: the modules m0, m1, m2 and 2 more have kernels of the same name: a, b, c and 1 more"
    ]


def test_variants_object_files_and_calls_are_not_told() -> None:
    a = module("a")
    variants = [(replace(a, variant=(("N", value),)), "k") for value in ("1", "2")]
    assert notes(*variants, (replace(module("b"), part_of="m"), "k")) == []
    assert notes((a, "k"), (replace(module("c"), front="cupy"), "k")) == []


def test_modules_that_producers_returned_are_not_told() -> None:
    rule = SourceRule(path="k.cu")
    made = Production(producer="gen.py", by="gen.py:sources", file="k.cu", base="k", rule=rule, settings={})
    produced = [replace(each, source=replace(each.source, produced=made)) for each in map(module, ("a", "b"))]
    assert notes(*((each, "k") for each in produced)) == []
    assert len(notes(*((each, "k") for each in produced), (module("c"), "k"))) == 1
