"""Tile kernels in a build, with a stand-in for tileiras; `tests/build/test_tile.py` has the real one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import CompileError, ConfigError, HatchCubinError, SourceError, ToolchainError
from hatch_cubin.explaining.kernel_lookup import units_by_kernel
from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.lockfile import lock_format
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit import tile_assembler, worker
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.reading.survey import survey
from tests.helpers import COPY_PTX, SAXPY, TABLE, found, make_project, refusal, write_tree
from tests.tile_tools import TILE, TILE_IR, cubin, install

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]

ARCHS = 'archs = ["sm_80", "sm_90", "compute_90"]\n'
OPTIONS = f'{ARCHS}options = {{ std = "c++20" }}\n'


def manifest(project: Project) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(pipeline.build(project)["manifest.json"])
    return found


def archs(modules: dict[str, Any]) -> dict[str, list[str]]:
    return {name: sorted(entry["arch"] for entry in each["entries"]) for name, each in modules.items()}


def without_kernel() -> bytes:
    """Return a cubin as tileiras makes it of Tile IR without kernels; NVRTC refuses the name in C++."""
    code = cubin("sm_90a", 'extern "C" __global__ void __Sdummy_kernel() {}')
    return code.replace(b"__Sdummy_kernel", b"__$dummy_kernel")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    return install(tmp_path / "site", monkeypatch)


@pytest.mark.parametrize("body", ["{}", "{ oops }"])
def test_a_worker_compiles_tile_kernels_in_two_steps(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    assembler = worker._Assembler()
    assembler.scratch, assembler.programs = str(tmp_path), {"tileir": str(home / "bin/tileiras")}
    monkeypatch.setattr(worker, "_assembler", assembler)
    code = f'extern "C" __tile_global__ void k(float *x) {body}'.encode()
    task = {"id": 0, "kind": "tile", "code": code, "name": b"k.cu", "instantiate": [], "searches": False}
    options = [b"-arch=sm_90", b"--std=c++20", b"--enable-tile"]
    made = worker.compile_task({**task, "options": options, "tile_flags": [b"--gpu-name=sm_90"]})
    assert (made["ok"], made["output"] == cubin("sm_90a")) == (body == "{}", body == "{}"), made["log"]


def test_a_source_with_both_kinds_of_kernels_becomes_two_modules(tmp_path: Path, home: Path) -> None:
    notes: list[str] = []
    project = make_project(tmp_path / "p", {"k.cu": TILE + SAXPY}, OPTIONS)
    vars(project)["inform"] = notes.append
    found = manifest(project)
    assert archs(found["modules"]) == {"k": ["compute_90", "sm_80", "sm_90"], "k_tile": ["sm_80", "sm_90a"]}
    assert {name: [*each["kernels"]] for name, each in found["modules"].items()} == {
        "k": ["saxpy"],
        "k_tile": ["negate"],
    }
    types = [each[2] for each in found["modules"]["k_tile"]["parameters"]["negate"]]
    assert types == ["const float *", "float *", "int"]
    assert found["toolchain"]["tileiras"] == Toolkit(None).nvrtc
    assert (home / "seen.tileir").read_bytes().startswith(b"\x7fTileIR\0")
    assert any("demo/k.cu: not built for compute_90" in note for note in notes)


def test_tile_ir_is_a_source_that_keeps_its_bytes(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_HOME", "/elsewhere")
    project = make_project(tmp_path / "p", {"ir.tileir": TILE_IR}, ARCHS)
    found = manifest(project)
    assert archs(found["modules"]) == {"ir": ["sm_80", "sm_90a"]}
    assert [len(each) for each in found["modules"]["ir"]["parameters"]["negate"]] == [2, 2, 2]
    assert (home / "seen.tileir").read_bytes() == TILE_IR
    assert "CUDA_HOME" not in (home / "environment").read_text()
    write_tree(tmp_path / "demo/_cubins", pipeline.build(project))
    jobs = make_jobs(project, read_sources(project), Toolkit(None))
    with pipeline.open_cache(project) as cache:
        assert {*units_by_kernel(jobs, cache)} == {"negate"}
    with open_wheel(str(tmp_path / "demo")) as opened:
        units = survey(opened.bundles[0])["units"]
    kernels = [kernel for unit in units for kernel in unit["kernels"]]
    assert [kernel["tile"] for kernel in kernels] == [True, True]


def test_templates_are_instantiated_in_the_module_of_their_kind(tmp_path: Path, home: Path) -> None:
    other = "template <class T> __global__ void other(T *x) { *x = 1; }\n"
    text = TILE.replace('extern "C" __tile', "template <int N> __tile").replace("256", "N") + other
    (home / "sm_90.cubin").write_bytes(
        cubin(
            "sm_90a",
            "template <int N> __global__ void negate(const float *x, float *y, int n) { y[n] = x[N]; }\n"
            "template __global__ void negate<64>(const float*, float*, int);",
        )
    )
    table = f'[[{".".join(TABLE)}.source]]\npath = "demo/k.cu"\ninstantiate = ["negate<64>", "other<int>"]\n'
    project = make_project(tmp_path / "p", {"k.cu": text}, OPTIONS.replace('"sm_80", ', "") + table)
    warnings: list[str] = []
    vars(project)["warn"] = warnings.append
    modules = manifest(project)["modules"]
    assert {name: [*each["kernels"]] for name, each in modules.items()} == {
        "k": ["other<int>"],
        "k_tile": ["negate<64>"],
    }
    assert warnings == []


def test_a_template_of_a_tile_kernel_that_is_not_instantiated_is_warned_of(
    tmp_path: Path, home: Path
) -> None:
    template = "template <int N> __tile_global__ void t() {}\n"
    project = make_project(tmp_path / "p", {"k.cu": TILE + SAXPY + template}, OPTIONS)
    warnings: list[str] = []
    vars(project)["warn"] = warnings.append
    pipeline.build(project)
    assert [each.splitlines()[0].endswith("[template-not-instantiated]") for each in warnings] == [True]


def test_an_instantiation_of_a_tile_kernel_behind_a_macro_is_explained(tmp_path: Path, home: Path) -> None:
    text = f"#define TK __tile_global__ void\n{TILE}template <int N> TK t(int *x) {{}}\n{SAXPY}"
    table = f'[[{".".join(TABLE)}.source]]\npath = "demo/k.cu"\ninstantiate = ["t<4>"]\n'
    error = refusal(
        CompileError, pipeline.build, make_project(tmp_path / "p", {"k.cu": text}, OPTIONS + table)
    )
    assert {*found(error)} == {("wrong-compiler-result", "demo/k.cu")}
    assert "__tile_global__" in (error.problems[0].hint or "")


def test_a_template_of_a_tile_kernel_is_in_the_hint_for_a_source_without_kernels(
    tmp_path: Path, home: Path
) -> None:
    (home / "sm_90.cubin").write_bytes(without_kernel())
    text = f"template <int N> __tile_global__ void t(int *x) {{}}\n{SAXPY}"
    project = make_project(tmp_path / "p", {"k.cu": text}, OPTIONS.replace('"sm_80", ', ""))
    (problem,) = refusal(CompileError, pipeline.build, project).problems
    assert (problem.code, 'instantiate = ["t<4>"]' in (problem.hint or "")) == (
        "source-without-kernels",
        True,
    )


def test_a_locked_build_needs_no_tileiras(tmp_path: Path, home: Path) -> None:
    producer = f'[[{".".join(TABLE)}.producer]]\npath = "demo/gen.py"\nproduces = ["cu", "tileir"]\n'
    script = f"def sources():\n    return {{'p.tileir': {TILE_IR!r}, 'q.cu': {TILE + SAXPY!r}}}\n"
    project = make_project(tmp_path / "p", {"k.cu": TILE, "gen.py": script}, OPTIONS + producer)
    lock = pipeline.make_lock(project)
    (project.root / lock_format.NAME).write_text(lock_format.encode(lock))
    first = pipeline.build(project)
    assert {*archs(json.loads(first["manifest.json"])["modules"])} == {"k", "p", "q", "q_tile"}
    (home / "bin/tileiras").unlink()
    assert pipeline.build(project) == first


def test_a_crash_of_tileiras_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    install(tmp_path / "site", monkeypatch, (), then='echo "error: no such luck"; exit 3')
    project = make_project(tmp_path / "p", {"ir.tileir": TILE_IR}, 'archs = ["sm_90"]')
    (problem,) = refusal(CompileError, pipeline.build, project).problems
    assert (problem.what, problem.where and problem.where.path) == ("no such luck", "demo/ir.tileir")
    assert problem.hint is None


def test_tile_code_without_a_kernel_is_reported(tmp_path: Path, home: Path) -> None:
    (home / "sm_90.cubin").write_bytes(without_kernel())
    text = "template <int N> __tile_global__ void t() {}\n"
    project = make_project(tmp_path / "p", {"k.cu": text}, OPTIONS.replace('"sm_80", ', ""))
    assert found(refusal(CompileError, pipeline.build, project)) == [("source-without-kernels", "demo/k.cu")]


def test_a_source_with_tile_code_and_no_tile_kernel_is_reported(tmp_path: Path, home: Path) -> None:
    (home / "sm_90.cubin").write_bytes(without_kernel())
    text = f"__tile__ int f() {{ return 1; }}\n{SAXPY}"
    project = make_project(tmp_path / "p", {"k.cu": text}, OPTIONS.replace('"sm_80", ', ""))
    error = refusal(CompileError, pipeline.build, project)
    assert found(error) == [("source-without-kernels", "demo/k.cu")]
    assert "__CUDACC_TILE__" in (error.problems[0].hint or "")


def test_another_kernel_in_a_header_is_not_left_out_silently(tmp_path: Path, home: Path) -> None:
    files: dict[str, str | bytes] = {"k.cu": f'#include "s.cuh"\n{TILE}', "s.cuh": SAXPY}
    project = make_project(tmp_path / "p", files, OPTIONS)
    error = refusal(CompileError, pipeline.build, project)
    assert found(error) == [("kernel-beside-tile-kernels", "demo/k.cu")]


def test_an_error_in_tile_code_is_at_its_line(tmp_path: Path, home: Path) -> None:
    project = make_project(tmp_path / "p", {"k.cu": TILE.replace("0.0f -", "wrong -", 1)}, OPTIONS)
    assert ("compiler-error", "demo/k.cu:6") in found(refusal(CompileError, pipeline.build, project))


@pytest.mark.parametrize(
    ("archs", "code", "built"),
    [
        (["sm_75"], "arch-without-tile-kernels", []),
        (["sm_100f"], "arch-without-tile-kernels", []),
        (["compute_90"], "arch-without-tile-kernels", []),
        (["sm_90", "sm_90a"], None, ["sm_90a"]),
        (["all"], None, ["sm_80", "sm_90a", "sm_100a"]),
    ],
)
def test_archs_that_tileiras_lacks_are_left_out_of_groups_and_refused_by_name(
    tmp_path: Path, archs: list[str], code: str | None, built: list[str]
) -> None:
    toolkit = Toolkit(None, facts=Facts("1.2", 13, "13.5.37", (75, 80, 90, 100), None, "13.5.37"))
    project = make_project(tmp_path, {"ir.tileir": TILE_IR}, f"archs = {archs}")
    if code is None:
        jobs = make_jobs(project, read_sources(project), toolkit)
        assert [str(job.unit.arch) for job in jobs] == built
    else:
        error = refusal(HatchCubinError, make_jobs, project, read_sources(project), toolkit)
        assert [each for each, _where in found(error)] == [code]
        assert "sm_80 sm_90 sm_100" in (error.problems[0].hint or "")


def test_an_older_toolkit_is_refused(tmp_path: Path) -> None:
    toolkit = Toolkit(None, facts=Facts("1.2", 13, "13.2.51", (75, 80, 90)))
    project = make_project(tmp_path, {"k.cu": TILE}, 'archs = ["sm_80"]')
    error = refusal(ConfigError, make_jobs, project, read_sources(project), toolkit)
    assert [code for code, _where in found(error)] == ["toolkit-without-tile-kernels"]


def test_tile_kernels_cannot_be_linked(tmp_path: Path) -> None:
    table = f'[[{".".join(TABLE)}.module]]\nname = "m"\nsources = ["demo/*"]\nmode = "rdc"\n'
    project = make_project(tmp_path, {"k.cu": TILE, "l.cu": SAXPY}, OPTIONS + table)
    error = refusal(ConfigError, make_jobs, project, read_sources(project), Toolkit(None))
    assert found(error) == [("tile-kernels-linked", "demo/k.cu")]


def test_settings_without_an_effect_on_tile_ir_are_refused(tmp_path: Path) -> None:
    options = (
        'archs = ["sm_90"]\ndefine = { N = 4 }\noptions = { lineinfo = true, fma = false, std = "c++20" }'
    )
    files: dict[str, str | bytes] = {"ir.tileir": TILE_IR, "copy.ptx": COPY_PTX}
    project = make_project(tmp_path, files, options)
    error = refusal(ConfigError, make_jobs, project, read_sources(project), Toolkit(None))
    assert [code for code, _where in found(error)] == ["cpp-setting-for-ptx", "option-without-effect"]
    del files["copy.ptx"]
    project = make_project(tmp_path / "other", files, options)
    error = refusal(ConfigError, make_jobs, project, read_sources(project), Toolkit(None))
    assert [code for code, _where in found(error)] == ["cpp-setting-for-ptx", *["option-without-effect"] * 2]


@pytest.mark.parametrize("data", [b"module {}", b"version https://git-lfs.github.com/spec/v1\n"])
def test_a_file_that_is_not_tile_ir_is_refused(tmp_path: Path, data: bytes) -> None:
    project = make_project(tmp_path, {"ir.tileir": data})
    error = refusal(SourceError, read_sources, project)
    assert found(error) == [("not-tile-ir", "demo/ir.tileir")]
    assert (error.problems[0].hint is None) == (data == b"module {}")


def test_a_project_without_tile_kernels_does_not_look_for_tileiras(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    home = install(tmp_path / "site", monkeypatch, ())
    (home / "lib/libnvvm.so.4").unlink()
    monkeypatch.setattr(tile_assembler, "_homes", lambda _wanted: [home])
    project = make_project(tmp_path / "p", {"k.cu": SAXPY}, 'archs = ["sm_90"]')
    assert "tileiras" not in manifest(project)["toolchain"]
    project = make_project(tmp_path / "t", {"k.cu": TILE}, OPTIONS)
    error = refusal(ToolchainError, pipeline.build, project)
    assert [code for code, _where in found(error)] == ["tileiras-not-found"]
