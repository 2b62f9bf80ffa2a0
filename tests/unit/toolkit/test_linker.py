"""Links in the process of the tests, as a worker makes them."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.common.arch_names import Arch, Target
from hatch_cubin.compiling.executor import Result
from hatch_cubin.compiling.outcome import outcome_of
from hatch_cubin.cubin import elf
from hatch_cubin.keys.ingredients import UnitInputs, inputs_of
from hatch_cubin.planning.linked_modules import plan_modules
from hatch_cubin.planning.unit_plan import Module, Unit
from hatch_cubin.project.source import Source
from hatch_cubin.toolkit import linker, worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import TABLE, read_config

pytestmark = pytest.mark.nvrtc

USER = b"""\
__device__ int f(int);
extern __device__ int v;
extern "C" __global__ void k(int *p) { *p = f(*p) + v; }
"""
ADD = b"__device__ int f(int a) { return a + 1; }\n__device__ int v = 3;\n"
LTO, RDC = [b"-arch=sm_90", b"-lto"], [b"-arch=sm_90"]


def compiled(code: bytes, mode: str) -> tuple[str, bytes, bytes]:
    """Return an input of a link."""
    _ = Toolkit(None).nvjitlink
    task: dict[str, Any] = {"id": 0, "code": code, "name": b"k.cu", "instantiate": [], "searches": False}
    kind, option = ("lto", b"-dlto") if mode == "lto" else ("c++", b"-rdc=true")
    done = worker.compile_task({**task, "kind": kind, "options": [b"-arch=sm_90", option]})
    assert done["ok"], done["log"]
    return "lto" if mode == "lto" else "cubin", code[:12], done["output"]


def linked(options: list[bytes], *inputs: tuple[str, bytes, bytes], **more: Any) -> dict[str, Any]:
    task: dict[str, Any] = {"id": 0, "kind": "link", "code": b"", "name": b"m", "instantiate": []}
    given = {"options": options, "inputs": [*inputs], "ptx": False, "searches": False}
    return worker.compile_task({**task, **given, **more})


@pytest.mark.parametrize(("mode", "options"), [("lto", LTO), ("rdc", RDC)])
def test_a_link_gives_a_cubin_that_can_be_loaded(mode: str, options: list[bytes]) -> None:
    done = linked(options, compiled(USER, mode), compiled(ADD, mode))
    assert (done["ok"], done["symbols"], done["ptx"]) == (True, {}, b"")
    cubin = elf.read_cubin(done["output"])
    assert (cubin.kernels, cubin.loadable) == (("k",), True)


def test_ptx_is_assembled_before_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = [compiled(USER, "lto"), compiled(ADD, "lto")]
    assert b".visible .entry k(" in linked(LTO, *inputs, ptx=True)["ptx"]
    real, calls = worker._linked, []

    def refuse(options: list[bytes], own: list[tuple[str, bytes, bytes]]) -> worker.Outcome:
        calls.append(options)
        return worker.Outcome(ok=False, log=b"refused") if len(calls) == refused else real(options, own)

    monkeypatch.setattr(worker, "_linked", refuse)
    for refused in (2, 3):  # to make the text of it, and to assemble that
        calls.clear()
        assert (linked(LTO, *inputs, ptx=True)["ok"], len(calls)) == (False, refused)


def test_what_is_missing_is_told_with_what_each_lto_ir_declares() -> None:
    done = linked(LTO, compiled(USER, "lto"))
    assert not done["ok"]
    assert set(done["symbols"]) == {"", USER[:12].decode()}
    assert all(".extern" in each and "_Z1fi" in each for each in done["symbols"].values())
    variable = b'extern __device__ int v; extern "C" __global__ void k(int *p) { *p = v; }\n'
    assert not linked(LTO, compiled(variable, "lto"))["ok"]  # which nvJitLink only warns of
    assert linked(RDC, compiled(USER, "rdc"))["symbols"] == {}


def test_a_probe_finds_what_lto_ir_and_another_input_define() -> None:
    inputs = [compiled(USER, "lto"), compiled(ADD, "lto")]
    names = [b"_Z1fi", b"_Z1gi", b"v", b"w"]
    probe = b'extern "C" __device__ void _Z1fi();\nextern "C" __device__ void _Z1gi();\n'
    probe += b'extern "C" __global__ void hatch_cubin_probe() { _Z1fi(); _Z1gi(); }\n'
    done = linked(LTO, *inputs, code=probe, instantiate=names)
    assert done["log"].splitlines() == ["Multiple definition of '_Z1fi'", "Multiple definition of 'v'"]
    assert linked(LTO, *inputs, code=b"no C++ at all", instantiate=names)["ok"]


def planned(table: str) -> list[Module]:
    config = read_config(f'archs = ["sm_90"]\n{table}')
    return plan_modules(config, [Source("a.cu", "")], [["a.cu"]], {("sm_90",): (Target(Arch(90)),)})


def test_the_linker_is_told_what_the_compiler_is_told_of_code() -> None:
    table = f"[[{'.'.join(TABLE)}.module]]\nname = 'm'\nsources = ['a.cu']\nmode = 'lto'\n"
    options = (
        'options = { use-fast-math = true, fma = false, max-register-count = 32, ptxas-options = ["-w"] }\n'
    )
    config = read_config(f'archs = ["sm_90"]\n{table}{options}')
    (module, _object) = plan_modules(
        config, [Source("a.cu", "")], [["a.cu"]], {("sm_90",): (Target(Arch(90)),)}
    )
    unit = Unit(module, Arch(90, kind="compute"))
    assert {*linker.link_options(unit)} == {
        b"-arch=sm_90",
        b"-lto",
        b"-maxrregcount=32",
        b"-ftz=1",
        b"-prec-div=0",
        b"-prec-sqrt=0",
        b"-fma=0",
        b"-Xptxas=-w",
    }
    plain = inputs_of(UnitInputs(unit, Toolkit(None)))["options"]
    assert plain["ptxas_options"] == ["-w"]
    inputs = [compiled(USER, "lto"), compiled(ADD, "lto")]
    assert linked([*linker.link_options(unit)], *inputs)["ok"]


def test_an_object_that_cannot_be_linked_is_no_result() -> None:
    table = f"[[{'.'.join(TABLE)}.module]]\nname = 'm'\nsources = ['a.cu']\nmode = 'rdc'\n"
    config = read_config(f'archs = ["sm_90"]\n{table}')
    (_module, part) = plan_modules(
        config, [Source("a.cu", "")], [["a.cu"]], {("sm_90",): (Target(Arch(90)),)}
    )
    found = outcome_of(Unit(part, Arch(90)), Result(0, ok=True, output=b"\x7fELF"), [])
    assert isinstance(found, list)
    assert [each.text for each in found] == ["the compiler's result is a damaged cubin"]
