"""When a result is accepted: if it is for the arch that was asked for, and has the kernels of its source."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.cache.records import decode, entry_path, record_key
from hatch_cubin.common import user_folders
from hatch_cubin.common.arch_names import parse_arch
from hatch_cubin.compiling.executor import Result
from hatch_cubin.compiling.outcome import outcome_of, why_wrong
from hatch_cubin.errors import CompileError
from hatch_cubin.planning.unit_plan import Unit
from hatch_cubin.project.source import Source
from tests.cubins import FUNC, KERNEL, elf
from tests.helpers import COPY_PTX, SAXPY, SCALE, made, make_project
from tests.unit.cubin.test_target import with_header

SYMBOL = "_Z5scaleIfLi4EEvPT_"
NAME = "scale<float, 4>"
PTX_FOR_90 = COPY_PTX.replace("sm_80", "sm_90")


def code(kernel: str, arch: str = "sm_90", *, kind: int = 2) -> bytes:
    note = f"NVIDIA Corp\0ptxas\0-arch {arch} \0".encode()
    data = elf((kernel, FUNC, KERNEL, 2), kind=kind, more=[(".note.nv.tkinfo", 7, note, 0)])
    return with_header(data, 8, 0x06000002 | int(arch[3:].rstrip("af")) << 8)


def text(kernel: str, target: str = "sm_90") -> bytes:
    return f".version 9.0\n.target {target}\n.visible .entry {kernel}() {{ ret; }}\n".encode()


def unit(arch: str, source: str, path: str = "demo/k.cu", *names: str, **changed: object) -> Unit:
    module = dataclasses.replace(
        made("k").unit.module,
        source=Source(path, source),
        instantiate=names,
        **changed,  # type: ignore[arg-type]
    )
    return Unit(module, parse_arch(arch))


def result(output: bytes, ptx: bytes = b"", symbols: Mapping[str, str] | None = None) -> Result:
    return Result(0, ok=True, output=output, ptx=ptx, symbols=symbols or {})


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        pytest.param(unit("sm_90", SAXPY), result(code("saxpy")), id="a cubin"),
        pytest.param(unit("compute_90", SAXPY), result(code("saxpy"), text("saxpy")), id="PTX"),
        pytest.param(unit("sm_80", COPY_PTX, "demo/copy.ptx"), result(code("copy", "sm_80")), id="of PTX"),
        pytest.param(
            unit("compute_80", COPY_PTX, "demo/copy.ptx"), result(code("copy", "sm_75")), id="PTX itself"
        ),
        pytest.param(
            unit("sm_90", SCALE, "demo/k.cu", NAME), result(code(SYMBOL), symbols={NAME: SYMBOL}), id="a name"
        ),
        pytest.param(unit("sm_90", SAXPY, part_of="m"), result(code("saxpy", kind=1)), id="an object"),
        *(
            pytest.param(
                unit("sm_90", source, path, options={"ptxas_options": option}), result(code("k")), id=option
            )
            for option, source, path in (
                ("-e=k", SAXPY, "demo/k.cu"),
                ("--entry=k,j", SAXPY, "demo/k.cu"),
                ("--entry=k", PTX_FOR_90, "demo/k.ptx"),
            )
        ),
    ],
)
def test_what_was_asked_for_is_accepted(asked: Unit, answer: Result) -> None:
    assert why_wrong(asked, answer) is None
    assert isinstance(outcome_of(asked, answer, []), Compiled)


REFUSED = {
    "another arch": (unit("sm_90", SAXPY), result(code("saxpy", "sm_80")), "is for sm_80, not for sm_90"),
    "plain code": (unit("sm_90a", SAXPY), result(code("saxpy")), "is for sm_90, not for sm_90a"),
    "code for one arch": (
        unit("sm_100", SAXPY),
        result(code("saxpy", "sm_100a")),
        "is for sm_100a, not for sm_100",
    ),
    "another target": (
        unit("compute_90", SAXPY),
        result(code("saxpy"), text("saxpy", "sm_100")),
        "is for compute_100, not for compute_90",
    ),
    "no PTX": (unit("compute_90", SAXPY), result(code("saxpy"), b""), "is neither a cubin nor PTX"),
    "no cubin": (unit("sm_90", SAXPY), result(b"junk"), "is not a cubin"),
    "another source": (
        unit("sm_90", SAXPY),
        result(code("other")),
        "is missing kernels that its source defines: saxpy",
    ),
    "another source, and other options": (
        unit("sm_90", SAXPY, options={"ptxas_options": ("-v", "--maxntid=64")}),
        result(code("other")),
        "is missing kernels that its source defines: saxpy",
    ),
    "another PTX": (
        unit("sm_80", COPY_PTX, "demo/copy.ptx"),
        result(code("other", "sm_80")),
        "is missing kernels that its source defines: copy",
    ),
    "without a name": (
        unit("sm_90", SCALE, "demo/k.cu", "scale<int, 4>"),
        result(code(SYMBOL)),
        "does not have exactly the kernels that were requested",
    ),
    "another instance": (
        unit("sm_90", SCALE, "demo/k.cu", NAME),
        result(code("_Z5scaleIiLi4EEvPT_"), symbols={NAME: SYMBOL}),
        "does not contain exactly the kernels that are listed for it",
    ),
    "an object for another arch": (
        unit("sm_90", SAXPY, part_of="m"),
        result(code("saxpy", "sm_80", kind=1)),
        "is for sm_80, not for sm_90",
    ),
}


@pytest.mark.parametrize(
    ("asked", "answer", "wrong"),
    REFUSED.values(),
    ids=REFUSED,
)
def test_what_was_not_asked_for_is_refused_whoever_sent_it(asked: Unit, answer: Result, wrong: str) -> None:
    assert why_wrong(asked, answer) == f"the compiler's result {wrong}"
    (problem,) = outcome_of(asked, answer, [])  # type: ignore[misc]
    assert problem.text == f"the compiler's result {wrong}"


def swapped(cache: Path) -> None:
    """Exchange the results of two units of a cache, and write records that prove the exchanged ones."""
    records = [record for path in cache.glob("entries/*/*") if (record := decode(path.read_bytes()))]
    one, other = sorted(records, key=lambda record: str(record.inputs["arch"]))
    data = {each.key: Path(entry_path(cache, bytes.fromhex(each.key))).read_bytes() for each in (one, other)}
    for mine, theirs in ((one, other), (other, one)):
        key = bytes.fromhex(mine.key)
        Path(entry_path(cache, key)).write_bytes(data[theirs.key])
        forged = mine._replace(sha256=theirs.sha256, size=theirs.size, kernels=theirs.kernels)
        Path(entry_path(cache, record_key(key))).write_bytes(forged.encode())


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    "archs", [("sm_80", "sm_90"), ("sm_90", "sm_90a"), ("sm_100", "sm_100a"), ("compute_80", "compute_90")]
)
@pytest.mark.parametrize("recalled", [True, False], ids=["recalled", "not recalled"])
def test_a_cache_that_has_another_archs_code_under_a_key_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, archs: tuple[str, str], *, recalled: bool
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    said: list[str] = []
    project = dataclasses.replace(
        make_project(
            tmp_path / "project",
            {"k.cu": SAXPY},
            f"archs = {json.dumps(archs)}",
            HATCH_CUBIN_CACHE_DIR=str(tmp_path / "cache"),
        ),
        warn=said.append,
    )
    right = pipeline.build(project)
    swapped(tmp_path / "cache")
    if not recalled:
        shutil.rmtree(user_folders.own_folder() / "recall")
    assert pipeline.build(project) == right
    assert said == ["damaged cache entries, which are built again: 2"]
    assert pipeline.build(project) == right


@pytest.mark.nvrtc
def test_ptx_whose_later_target_is_for_one_arch_alone_is_not_built_under_the_first(tmp_path: Path) -> None:
    text = COPY_PTX.replace(".target sm_80\n", ".target sm_80\n.target sm_90a\n")
    with pytest.raises(CompileError):
        pipeline.build(make_project(tmp_path, {"copy.ptx": text}, 'archs = ["compute_80"]'))
