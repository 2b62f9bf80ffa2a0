"""What NVIDIA's own reader says of a bundle's cubins, where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.wheels.reading.bundles import open_wheel
from hatch_cubin.wheels.reading.cuobjdump import find_cuobjdump, read_usage
from hatch_cubin.wheels.reading.survey import survey
from tests.capabilities import cuobjdump
from tests.cubins import USING
from tests.helpers import SCALE, make_project, write_tree
from tests.unit.cli.verbs.test_inspect import inspect_json


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bundle of a project with kernels that spill, share, stack, and are templates."""
    root = tmp_path_factory.mktemp("real")
    options = """\
        archs = ["sm_75", "sm_80", "sm_90a", "sm_100f", "sm_120", "compute_90"]
        [[tool.hatch.build.hooks.cubin.source]]
        path = "demo/scale.cu"
        instantiate = ["scale<float, 4>", "scale<double, 2>"]
        """
    project = make_project(root, {"using.cu": USING, "scale.cu": SCALE}, options)
    return write_tree(root / "demo" / "_cubins", pipeline.build(project))


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
def test_nvidias_reader_agrees_on_every_kernel_of_a_real_bundle(real: Path) -> None:
    program = cuobjdump()
    assert program is not None
    with open_wheel(str(real)) as opened:
        units = survey(opened.bundles[0])["units"]
    cubins = [unit for unit in units if unit["kind"] == "cubin"]
    assert len(cubins) == 10
    for unit in cubins:
        assert read_usage(program, (real / unit["file"]).read_bytes()) == {
            kernel["symbol"]: {name: kernel[name] for name in ("registers", "shared", "stack")}
            for kernel in unit["kernels"]
        }


@pytest.mark.nvrtc
def test_templates_are_named_as_they_were_spelled_and_spills_are_seen(real: Path) -> None:
    with open_wheel(str(real)) as opened:
        units = {(unit["module"], unit["arch"]): unit for unit in survey(opened.bundles[0])["units"]}
    assert [kernel["name"] for kernel in units["scale", "sm_80"]["kernels"]] == [
        *("scale<double, 2>", "scale<float, 4>")
    ]
    spilling = {kernel["name"]: (kernel["spills"] or 0) > 0 for kernel in units["using", "sm_80"]["kernels"]}
    assert spilling == {"plain": False, "shares": False, "spills": True, "stacks": False}


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
def test_nvidias_reader_helps_where_ours_cannot_read(
    real: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = inspect_json(capsys, real)["results"][0]["bundles"][0]["units"]

    def cannot(data: bytes) -> dict[str, dict[str, int]]:
        raise ValueError("is a cubin whose attributes cannot be read")

    monkeypatch.setattr("hatch_cubin.wheels.reading.survey.read_resources", cannot)
    theirs = inspect_json(capsys, real)["results"][0]["bundles"][0]["units"]
    assert theirs == [
        {**unit, "kernels": [{**kernel, "spills": None} for kernel in unit["kernels"]]} for unit in ours
    ]
    monkeypatch.setattr("hatch_cubin.wheels.reading.cuobjdump.find_cuobjdump", lambda environ: None)
    nobodys = inspect_json(capsys, real)["results"][0]["bundles"][0]["units"]
    assert [[kernel["name"] for kernel in unit["kernels"]] for unit in nobodys] == [
        [kernel["name"] for kernel in unit["kernels"]] for unit in ours
    ]
    assert {kernel["registers"] for unit in nobodys for kernel in unit["kernels"]} == {None}


def test_nvidias_reader_is_found_on_path_in_cuda_home_and_beside_this_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    program = tmp_path / "bin" / "cuobjdump"
    write_tree(tmp_path, {"bin/cuobjdump": ""})
    program.chmod(0o755)
    assert find_cuobjdump({"PATH": ""}) is None
    assert find_cuobjdump({"PATH": str(program.parent)}) == str(program)
    assert find_cuobjdump({"PATH": "", "CUDA_HOME": str(tmp_path)}) == str(program)


@pytest.mark.cuobjdump
def test_nvidias_reader_says_when_it_cannot_read(tmp_path: Path) -> None:
    program = cuobjdump()
    assert program is not None
    with pytest.raises(ValueError, match="cannot be read by"):
        read_usage(program, b"no code")
