"""`check`: what a release job wants to know of finished wheels, and what it must not publish."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from hatch_cubin.bundle.layout import BuiltUnit
from hatch_cubin.wheels.checking import check as checking
from tests.command_line import Command
from tests.cubins import FUNC, KERNEL, PTX, REGISTERS, elf, make_wheel
from tests.helpers import Coded, bundle, codes, made, pyproject, wheel_files, write_tree
from tests.sample_wheels import INFO, Kernel, code, units, wheel_of, whole_wheel

KERNELS: dict[Kernel, bytes] = {
    (name, arch): code(name) for name in ("a", "b", "c") for arch in ("sm_80", "sm_90")
}


BUILD_AGAIN = "and build without HATCH_CUBIN_ARCHS"
OR = (
    "or name the GPUs that the wheel is for with --gpu, "
    "or name the kernels that need not run on all GPUs with --except"
)


class Answer(NamedTuple):
    code: int
    out: list[str]
    err: list[str]


def check(command: Command, *arguments: str | Path) -> Answer:
    code, out, err = command("check", *arguments)
    return Answer(code, out.splitlines(), err.splitlines())


def facts(command: Command, *arguments: str | Path) -> Any:
    return json.loads(command("check", *arguments, "--json").out)


def test_a_wheel_to_publish(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    answer = check(command, wheel)
    assert (answer.code, answer.err) == (0, [])
    assert answer.out[0] == f"{wheel}"
    assert answer.out[1].startswith("  ")
    assert "; the largest files: demo/_cubins/__init__.py " in answer.out[1]
    assert answer.out[2:] == [
        "",
        f"{wheel}/demo/_cubins: the code that each GPU runs",
        "  kernels        8.0    9.0",
        "  all 3 kernels  sm_80  sm_90",
    ]


def test_the_facts(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, {("a", "sm_80"): code("a", spills=2, stack=8)})
    found = facts(command, wheel, "--gpu", "8.0")
    (result,) = found.pop("results")
    largest = result.pop("largest")
    assert next(iter(largest)) == "demo/_cubins/__init__.py"
    assert found == {
        "format": 1,
        "verb": "check",
        "ok": True,
        "errors": [],
        "table": None,
        "max_size": None,
        "unmatched": [],
    }
    served = {"gpu": "8.0", "arch": "sm_80", "kind": "cubin", "rule": "exact", "min_driver": 13000}
    assert result == {
        "named": str(wheel),
        "path": str(wheel),
        "ok": True,
        "bytes": wheel.stat().st_size,
        "bundles": [
            {
                "place": "demo/_cubins",
                "where": f"{wheel}/demo/_cubins",
                "gpus": [{"gpu": "8.0", "cubin": 1, "ptx": 0, "none": 0, "min_driver": 13000}],
                "kernels": [
                    {"module": "a", "kernel": "a", "archs": ["sm_80"], "absent_from": [], "served": [served]}
                ],
                "spills": [
                    {"module": "a", "kernel": "a", "arch": "sm_80", "source": "demo/a.cu", "spills": 2}
                ],
            }
        ],
        "warnings": [],
    }


def test_a_kernel_that_a_promised_gpu_has_nothing_of(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, {key: data for key, data in KERNELS.items() if key != ("b", "sm_80")})
    answer = check(command, wheel)
    assert answer.code == 1
    assert answer.out[4:] == [
        "  kernels         8.0      9.0",
        "  2 of 3 kernels  sm_80    sm_90",
        "  b               nothing  sm_90",
    ]
    assert answer.err == [
        f"hatch-cubin: error: {wheel}/demo/_cubins: 1 of 3 kernels cannot run on 8.0 [gpu-not-served]",
        "  b: built for sm_90",
        f'  hint: add "sm_80" to the archs of these kernels, if the kernels support 8.0, {BUILD_AGAIN}; {OR}',
    ]


def test_a_kernel_that_its_source_defines_for_some_archs_only(tmp_path: Path, command: Command) -> None:
    both = elf(("a", FUNC, KERNEL, 2), ("n", FUNC, KERNEL, 2), more=[REGISTERS])
    files = bundle(
        made("m", "sm_80", {"a": "a"}, data=code("a")),
        made("m", "sm_90", {"a": "a", "n": "n"}, data=both),
    )
    answer = check(command, whole_wheel(tmp_path, files), "--gpu", "8.0,8.6,7.5", "--except", "a")
    hint = (
        "the source does not define these kernels for sm_80, perhaps because of an '#if': define the kernels "
        'for sm_80 too, and add "sm_75" to the archs of these kernels, if the kernels support 7.5, '
        f"and build without HATCH_CUBIN_ARCHS; {OR}"
    )
    assert answer.err[1:] == [
        "  n in m: built for sm_90; the code for sm_80 does not contain this kernel",
        f"  hint: {hint}",
    ]


def test_the_gpus_that_a_wheel_is_for_can_be_named(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    assert check(command, wheel, "--gpu", "8.6,9.0").code == 0
    answer = check(command, wheel, "--gpu", "7.5 12.0;sm_75")
    assert answer.code == 1
    values = ("3 of 3 kernels ", " 7.5, 12.0 ")
    assert answer.err[0] == Coded("gpu-not-served", f"{wheel}/demo/_cubins", *values)
    for text in ("H100", "9", "compute_90"):
        wrong = command("check", wheel, "--gpu", text)
        said = f"{text!r} is not a compute capability: did you mean 9.0?"
        assert (wrong.code, said in wrong.err) == (2, True)


def test_a_list_of_gpus_that_is_empty_is_not_the_wheels_own(tmp_path: Path, command: Command) -> None:
    answer = check(command, wheel_of(tmp_path, KERNELS), "--gpu", "")
    assert answer.code == 2
    assert answer.err[-1].endswith(
        "argument --gpu: '' is not a compute capability: write a capability such as 8.9"
    )


def for_debugger(name: str) -> bytes:
    return elf((name, FUNC, KERNEL, 3), more=[(".nv_debug_info_reg_sass", 1, b"", 0), REGISTERS])


def test_code_for_a_debugger_is_not_for_publishing(tmp_path: Path, command: Command) -> None:
    text = PTX.replace(b".target sm_80", b".target sm_80, debug")
    kernels = {("a", "sm_80"): for_debugger("a"), ("b", "sm_80"): code("b"), ("copy", "compute_80"): text}
    wheel = wheel_of(tmp_path, kernels)
    answer = check(command, wheel, "--gpu", "8.0")
    assert answer.code == 1
    what = "the bundle has 2 units compiled for a debugger (-G), without optimization [debug-code]"
    assert answer.err[-4:] == [
        f"hatch-cubin: error: {wheel}/demo/_cubins: {what}",
        "  a for sm_80",
        "  copy for compute_80",
        "  hint: build without the option 'debug'; a profiler needs only the option 'lineinfo'",
    ]
    assert check(command, wheel, "--gpu", "8.0", "--except", "a", "--except", "copy").code == 0


def test_of_many_units_for_a_debugger_the_first_are_named(tmp_path: Path, command: Command) -> None:
    kernels = {(f"k{number:02}", "sm_80"): for_debugger(f"k{number:02}") for number in range(12)}
    answer = check(command, wheel_of(tmp_path, kernels))
    assert answer.err[1] == "  k00 for sm_80"
    assert answer.err[-2] == "  and 2 more"


def test_code_beside_the_bundle_is_not_for_publishing_unless_it_is_spared(
    tmp_path: Path, command: Command
) -> None:
    files = bundle(*units(KERNELS))
    wheel = whole_wheel(tmp_path, files, "py3-none-any", **{"../demo/old.cubin": code("a")})
    members = {name.replace(f"{INFO}/../", ""): data for name, data in wheel_files(wheel).items()}
    make_wheel(wheel, {name: data.replace(f"{INFO}/../".encode(), b"") for name, data in members.items()})
    answer = check(command, wheel)
    assert answer.code == 1
    assert answer.err[0] == (
        f"hatch-cubin: error: {wheel}/demo/old.cubin: is GPU code outside the bundle, "
        "so no manifest lists it [stray-code]"
    )
    assert check(command, wheel, "--except", "demo/*.cubin").code == 0


@pytest.mark.parametrize("glob", ["b", "b*", "[ab]", "**"])
def test_kernels_may_be_spared_that_some_gpus_lack(tmp_path: Path, command: Command, glob: str) -> None:
    wheel = wheel_of(tmp_path, {key: data for key, data in KERNELS.items() if key != ("b", "sm_80")})
    assert check(command, wheel, "--except", "x", "--except", "a").code == 1
    answer = check(command, wheel, "--except", glob, "--json")
    assert [error["what"] for error in json.loads("\n".join(answer.out))["errors"]] == []
    assert answer.code == 0


def test_ptx_serves_too_from_a_driver_on(tmp_path: Path, command: Command) -> None:
    files = bundle(
        *units(KERNELS),
        made("copy", "compute_80", {"copy": "copy"}, data=PTX),
        made("copy", "sm_90", {"copy": "copy"}, data=code("copy")),
    )
    answer = check(command, whole_wheel(tmp_path, files))
    assert answer.code == 0
    assert answer.out[-1] == "  copy            compute_80 from driver 11.0  sm_90"
    assert [line.rpartition("_cubins: ")[2] for line in answer.err] == [
        "1 of 4 kernels have only PTX for 8.0, while other kernels have machine code [only-ptx]",
        "  copy: built for sm_90, compute_80",
    ]
    assert check(command, tmp_path / "demo-1.0-py3-none-any.whl", "--except", "copy").err == []


def test_of_many_only_some_are_named(tmp_path: Path, command: Command) -> None:
    many: dict[Kernel, bytes] = {(f"k{number}", "sm_90"): code(f"k{number}") for number in range(12)}
    answer = check(
        command, wheel_of(tmp_path, {**many, ("a", "sm_80"): code("a"), ("a", "sm_90"): code("a")})
    )
    assert answer.err[1] == "  k0: built for sm_90"
    assert answer.err[11] == "  and 2 more"


@pytest.mark.parametrize("skipped", [True, False])
def test_a_wheel_without_kernels(tmp_path: Path, command: Command, *, skipped: bool) -> None:
    wheel = whole_wheel(tmp_path, bundle(skipped=skipped))
    answer = check(command, wheel)
    assert answer.code == 1
    what = "does not contain any kernel [no-kernels]"
    assert answer.err[0] == f"hatch-cubin: error: {wheel}/demo/_cubins: {what}"
    assert ("HATCH_CUBIN_SKIP" if skipped else "'hatch-cubin plan'") in answer.err[1]


def test_no_bundle_at_all(tmp_path: Path, command: Command) -> None:
    empty = make_wheel(tmp_path / "demo-1.0-py3-none-any.whl", {"demo/__init__.py": b""})
    sound = wheel_of(tmp_path / "b", KERNELS)
    ended = command("check", empty, sound, "absent.whl")
    assert f"{sound}/demo/_cubins: the code that each GPU runs\n" in ended.out
    assert ended.errors == [Coded("no-bundle", empty), Coded("no-such-wheel", "absent.whl")]


def test_spills_are_listed_the_worst_first(tmp_path: Path, command: Command) -> None:
    spilling: dict[Kernel, bytes] = {
        (f"k{number}", "sm_80"): code(f"k{number}", spills=number, stack=8) for number in range(1, 13)
    }
    answer = check(command, wheel_of(tmp_path, {**spilling, ("a", "sm_80"): code("a")}))
    assert answer.code == 0
    assert answer.out[-13:-8] == [
        "kernels that spill registers: 12",
        "  and 2 more kernels: 'hatch-cubin inspect' lists all kernels",
        "  kernel  arch   spills  source",
        "  k12     sm_80      12  demo/k12.cu",
        "  k11     sm_80      11  demo/k11.cu",
    ]


def test_a_spilling_kernel_of_a_call_is_named_by_its_source(tmp_path: Path, command: Command) -> None:
    data = code("axpy", spills=3, stack=8)
    files = bundle(made(f"cupy:{'1' * 64}", "sm_80", {"axpy": "axpy"}, source="demo/call.cu", data=data))
    answer = check(command, write_tree(tmp_path / "_cubins", files))
    assert answer.out[-1] == "  axpy in cupy:111111111111  sm_80       3  demo/call.cu"


def test_a_second_glob_needs_the_option_again(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    answer = check(command, "--except", "a", "b", "x*", wheel)
    hints = [line.partition("add ")[2] for line in answer.err if line.startswith("  hint: ")]
    assert hints == ["--except b", "--except 'x*'"]
    assert check(command, "--except", "a", "--except", "b", wheel).err == []


@pytest.mark.parametrize("arguments", [["--except", "a", "gone.whl"], ["gone"]])
def test_a_name_that_cannot_be_a_glob_of_the_option_is_only_absent(
    command: Command, arguments: list[str]
) -> None:
    assert not any("--except" in line for line in check(command, *arguments).err)


def test_a_wheel_that_the_option_except_takes_for_its_glob_is_named(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    answer = check(command, "--except", wheel)
    assert (answer.code, answer.err[-1].count(str(wheel))) == (2, 1)
    assert answer.err[-1].endswith(": write the wheel before --except, and a glob after it")


def test_what_verify_proves_tags_and_paths_are_checked_too(tmp_path: Path, command: Command) -> None:
    files = bundle(*units({("a", "sm_80"): code("a") + b"\0/home/me/a.cu"}), data_model="llp64")
    answer = check(command, whole_wheel(tmp_path, {**files, "more": b""}))
    assert codes("\n".join(answer.err)) == ["wrong-platform", "absolute-path", "file-not-listed"]
    assert "a.sm_80.cubin: " in answer.err[2]


def test_a_manifest_that_cannot_be_read_is_told_once(tmp_path: Path, command: Command) -> None:
    place = write_tree(tmp_path / "_cubins", {"manifest.json": b"{}"})
    unreadable = Coded("manifest-unreadable", place / "manifest.json", "'format'")
    assert command("check", place).errors == [unreadable]


# Sizes


def test_a_wheel_that_is_larger_than_an_option_allows(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    assert check(command, wheel, "--max-size", "1 MB").code == 0
    answer = check(command, wheel, "--max-size", "10KB")
    assert answer.code == 1
    assert answer.err[0] == Coded("wheel-too-large", wheel, " 10.0 KB ")
    assert answer.err[1].startswith("  the largest files: demo/_cubins/__init__.py ")


def test_the_table_of_the_project_that_is_here_has_a_budget_too(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path / "dist", KERNELS)
    monkeypatch.chdir(tmp_path)
    assert facts(command, wheel)["max_size"] is None
    write_tree(tmp_path, {"pyproject.toml": pyproject('max-size = "10 KB"\n')})
    assert facts(command, wheel)["max_size"] == 10_000
    assert facts(command, wheel, "--max-size", "1 MB")["max_size"] == 1_000_000
    write_tree(tmp_path, {"pyproject.toml": "[project]\nname = 'demo'\n"})
    assert facts(command, wheel)["max_size"] is None
    assert check(command, wheel, "--max-size", "much").code == 2


def test_what_pypi_does_not_take_is_a_warning(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    monkeypatch.setattr(checking, "PYPI_MAX_BYTES", 1000)
    answer = check(command, wheel)
    assert answer.code == 0
    size = f"{wheel.stat().st_size / 1000:.1f} KB"
    assert answer.err == [
        (
            f"hatch-cubin: warning: {wheel}: is {size}, but PyPI accepts at most 100 MB unless you request a "
            "higher limit [over-pypi-limit]"
        ),
        '  hint: to make this an error, add this line to the table of hatch-cubin: max-size = "100 MB"',
    ]
    (result,) = facts(command, wheel)["results"]
    assert [warning["path"] for warning in result["warnings"]] == [str(wheel)]


def test_a_folder_weighs_nothing_and_has_no_tags(tmp_path: Path, command: Command) -> None:
    place = write_tree(tmp_path / "demo/_cubins", bundle(*units(KERNELS)))
    answer = check(command, place, "--max-size", "1 B")
    assert (answer.code, answer.out[0], answer.out[1]) == (0, f"{place}", "")


# Markdown


def test_as_markdown_it_has_what_is_wrong_too(tmp_path: Path, command: Command) -> None:
    kernels = {key: data for key, data in KERNELS.items() if key != ("b", "sm_80")}
    wheel = wheel_of(tmp_path / "b", kernels)
    lines = check(command, wheel, "--markdown").out
    assert lines[0] == f"### {tmp_path}/b/demo-1.0-py3-none-any.whl".replace("_", r"\_")
    assert lines[6:10] == [
        "| kernels | 8.0 | 9.0 |",
        "| --- | --- | --- |",
        "| 2 of 3 kernels | `sm_80` | `sm_90` |",
        "| b | `nothing` | `sm_90` |",
    ]
    assert lines[11:14] == ["### problems", "", "| where | what |"]
    assert "1 of 3 kernels cannot run on 8.0; b: built for sm\\_90; hint: add " in lines[15]


def test_either_json_or_markdown(tmp_path: Path, command: Command) -> None:
    assert check(command, "x", "--json", "--markdown").code == 2


# A job of GitHub Actions


@pytest.fixture
def summary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(tmp_path))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    return tmp_path / "summary.md"


LINUX_TAG = "PyPI does not accept linux_… tags"
CPU_LIBRARY = b"\x7fELF".ljust(18, b"\0") + b"\x3e\0"  # the number of x86-64
NO_PLATFORM = "change the tag to py3-none-any, because the wheel contains no machine code for CPUs"
PTX_ALONE = (
    "1 of 3 kernels have only PTX for 8.0, while other kernels have machine code"
    "%0A  b: built for sm_90, compute_80"
)
NOTHING_FOR = (
    "3 of 3 kernels cannot run on 7.5"
    "%0A  a: built for sm_80, sm_90%0A  b: built for sm_90, compute_80%0A  c: built for sm_80, sm_90"
    '%0A  hint: add "sm_75" to the archs of these kernels, if the kernels support 7.5, and build '
    "without HATCH_CUBIN_ARCHS; or name the GPUs that the wheel is for with --gpu, "
    "or name the kernels that need not run on all GPUs with --except"
)


def test_a_job_has_its_summary_and_its_annotations(tmp_path: Path, command: Command, summary: Path) -> None:
    lacking = {key: data for key, data in KERNELS.items() if key != ("b", "sm_80")}
    files = bundle(*units({**lacking, ("b", "compute_80"): PTX.replace(b"copy", b"b")}))
    wheel = whole_wheel(tmp_path / "dist", files, "cp312-cp312-linux_x86_64")
    answer = check(command, wheel, "--gpu", "7.5,8.0")
    shown = check(command, wheel, "--gpu", "7.5,8.0", "--markdown").out
    place = "file=dist/demo-1.0-cp312-cp312-linux_x86_64.whl"
    assert [line for line in answer.err if line.startswith("::")] == [
        f"::warning {place}::{LINUX_TAG}%0A  hint: {NO_PLATFORM}",
        f"::warning {place}/demo/_cubins::{PTX_ALONE}",
        f"::error {place}/demo/_cubins::{NOTHING_FOR}",
    ]
    once = "\n".join(["## hatch-cubin check", "", *shown, "", ""])
    assert summary.read_text("utf-8") == once * 2
    assert "### problems" in once
    assert "### warnings" in once


@pytest.mark.parametrize(
    ("more", "hint"),
    [
        ({}, NO_PLATFORM),
        ({"native.so": code("a")}, NO_PLATFORM),
        ({"native.so": CPU_LIBRARY}, "'auditwheel repair' replaces these tags by manylinux_… tags"),
    ],
    ids=["kernels alone", "a cubin named as a library", "a library"],
)
def test_only_machine_code_for_cpus_needs_a_platform_tag(
    tmp_path: Path, command: Command, more: dict[str, bytes], hint: str
) -> None:
    wheel = whole_wheel(tmp_path, bundle(*units(KERNELS)), "py3-none-linux_x86_64", **more)
    warnings = "\n".join([f"hatch-cubin: warning: {wheel}: {LINUX_TAG} [linux-tag]", f"  hint: {hint}"])
    assert warnings in command("check", wheel).warnings


def test_a_summary_that_cannot_be_written_is_a_warning(
    tmp_path: Path, command: Command, summary: Path
) -> None:
    summary.mkdir()
    answer = check(command, wheel_of(tmp_path / "dist", KERNELS))
    assert answer.code == 0
    assert answer.err == ["hatch-cubin: warning: GITHUB_STEP_SUMMARY cannot be written: Is a directory"]


# The table


def in_project(folder: Path, options: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write_tree(folder, {"pyproject.toml": pyproject(options)}))


def test_a_table_that_is_right_is_said_to_be(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(tmp_path, 'archs = ["sm_90"]', monkeypatch)
    place = "pyproject.toml [tool.hatch.build.hooks.cubin]"
    assert check(command, "--table") == Answer(0, [f"{place}: the table is correct"], [])
    assert facts(command, "--table")["table"] == place


def test_all_that_is_wrong_with_a_table_is_told_beside_what_is_wrong_with_wheels(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(tmp_path, 'archs = ["sm_9"]\njbos = 3', monkeypatch)
    assert command("check", "--table", "absent.whl").errors == [
        Coded("no-such-wheel", "absent.whl"),
        Coded("unknown-arch", "pyproject.toml:10", "archs: 'sm_9' "),
        Coded("unknown-key", "pyproject.toml:11", "'jbos' "),
    ]
    assert facts(command, "--table")["table"] is None


def test_a_table_without_hatch_cubin_among_the_requirements_is_not_right(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = pyproject('archs = ["sm_90"]', requires='"hatchling"')
    monkeypatch.chdir(write_tree(tmp_path, {"pyproject.toml": text}))
    assert command("check", "--table").errors == [
        Coded("hatch-cubin-not-required", "pyproject.toml:2", 'requires = ["hatchling", "hatch-cubin"]')
    ]


def test_a_right_table_whose_backend_builds_no_kernels_is_not_all_that_there_is_to_say(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        '[build-system]\nrequires = ["flit-core"]\nbuild-backend = "flit_core.buildapi"\n[tool.hatch-cubin]\n'
    )
    monkeypatch.chdir(write_tree(tmp_path, {"pyproject.toml": text, "demo/__init__.py": ""}))
    answer = command("check", "--table")
    assert (answer.code, codes(answer.err)) == (0, ["backend-without-kernels"])


def test_a_project_without_a_table_says_so(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_tree(tmp_path, {"pyproject.toml": ""}))
    assert command("check", "--table").errors == [Coded("no-table", "pyproject.toml")]


def test_there_has_to_be_something_to_check(command: Command) -> None:
    answer = check(command)
    assert answer.code == 2
    assert "name a wheel, or write --table" in answer.err[-1]


def test_without_a_project_wheels_are_checked_and_a_table_is_missed(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert facts(command, wheel)["max_size"] is None
    assert command("check", wheel, "--table").errors == [Coded("not-a-project", "", "elsewhere")]


def test_the_variable_that_replaces_archs_is_a_warning(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    answer = check(command, wheel)
    assert (answer.code, codes("\n".join(answer.err))) == (0, ["archs-replaced"])
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "")
    assert check(command, wheel).err == []


def test_archs_of_the_table_that_no_wheel_has_are_a_warning(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_90")
    in_project(tmp_path, 'archs = ["sm_80", "9.0", "100", "native"]', monkeypatch)
    answer = check(command, wheel, "--table")
    assert answer.code == 0
    assert answer.err[0] == Coded("arch-not-shipped", "pyproject.toml:10", "for sm_100, compute_100, which")
    in_project(tmp_path, 'archs = ["sm_80", "sm_90"]', monkeypatch)
    assert check(command, wheel, "--table").err == []
    with_tile_kernels = wheel_of(tmp_path / "tile", {("a", "sm_90a"): code("a")})
    in_project(tmp_path, 'archs = ["sm_90"]', monkeypatch)
    assert check(command, with_tile_kernels, "--table", "--gpu", "9.0").err == []


LINKED = '[[tool.hatch.build.hooks.cubin.module]]\nname = "a"\nsources = ["demo/a.cu"]\nmode = "rdc"\n'
TILE = code("a") + b"\0___NV_TILE_LAUNCH_META_DATA___\0"


@pytest.mark.parametrize(
    ("built", "table", "missing"),
    [
        ([made("a", data=code("a"))], "", ["for compute_90,"]),
        ([made("a", "sm_80", data=code("a"))], "", ["for sm_90, compute_90,"]),
        ([made("a", data=code("a")), made("a", "compute_90", data=PTX)], "", []),
        ([made("a", "sm_90a", data=TILE)], "", []),
        ([made("a", "sm_90a", data=TILE), made("b", data=code("b"))], "", ["for compute_90,"]),
        ([made("a", data=code("a"))], LINKED, []),
        ([made("a", data=code("a"), variant={"N": "1"})], LINKED, []),
        ([made("b", data=code("b"))], LINKED, ["for compute_90,"]),
        ([made("a", data=code("a"), source="demo/a.ptx")], "", ["for compute_90,"]),
        (
            [
                made("a", data=code("a"), source="demo/a.ptx"),
                made("a", "compute_75", data=PTX, source="demo/a.ptx"),
            ],
            "",
            [],
        ),
    ],
    ids=[
        "no PTX",
        "no PTX and no machine code",
        "PTX",
        "tile kernels",
        "tile kernels and others",
        "linked",
        "a variant of a linked module",
        "a linked module that is elsewhere",
        "a PTX source without PTX",
        "a PTX source for an older arch",
    ],
)
def test_ptx_of_the_table_that_no_wheel_has_is_a_warning(
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    *,
    built: list[BuiltUnit],
    table: str,
    missing: list[str],
) -> None:
    wheel = whole_wheel(tmp_path, bundle(*built))
    in_project(tmp_path, f'archs = ["sm_90", "compute_90"]\n{table}', monkeypatch)
    told = [line for line in check(command, wheel, "--table").err if "arch-not-shipped" in line]
    assert told == [Coded("arch-not-shipped", "pyproject.toml:10", each) for each in missing]


@pytest.mark.parametrize(
    ("options", "listed"),
    [
        ('exclude = ["**/drafts/**"]', ["demo/drafts/a.cu", "demo/drafts/b.ptx"]),
        ('exclude = ["src/demo/drafts/a.cu"]', ["demo/drafts/a.cu"]),
        ('exclude = ["demo/drafts/*.ptx"]', ["demo/drafts/b.ptx"]),
        ('exclude = ["drafts/a.cu"]', ["demo/drafts/a.cu"]),
        ('exclude = ["**/*.txt", "other.cu"]', []),
        ("", []),
    ],
)
def test_sources_that_exclude_names_are_listed_if_they_are_in_the_wheel(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch, options: str, listed: list[str]
) -> None:
    wheel = wheel_of(tmp_path, KERNELS)
    with zipfile.ZipFile(wheel, "a") as archive:
        for name in ("a.cu", "b.ptx", "c.txt"):
            archive.writestr(f"demo/drafts/{name}", "")
    in_project(tmp_path, f'archs = ["sm_80", "sm_90"]\n{options}', monkeypatch)
    title = f"{wheel}: these sources are not compiled because of 'exclude', but they are in the wheel"
    lines = check(command, wheel, "--table").out
    found = lines[lines.index(title) + 1 :] if title in lines else []
    assert [line.strip() for line in found if "drafts" in line] == listed
    assert title not in check(command, wheel).out


def test_sources_are_not_listed_for_a_folder(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_project(tmp_path, 'exclude = ["**/*.cu"]', monkeypatch)
    with zipfile.ZipFile(wheel_of(tmp_path, KERNELS)) as archive:
        archive.extractall(tmp_path / "files")
    write_tree(tmp_path, {"files/demo/a.cu": ""})
    assert "exclude" not in command("check", tmp_path / "files", "--table").out


def test_a_glob_that_matches_nothing_is_a_warning(tmp_path: Path, command: Command) -> None:
    wheel = wheel_of(tmp_path, {("saxpy", "sm_80"): code("saxpy"), ("scale", "sm_80"): code("scale")})
    answer = check(command, wheel, "--except", "sa*", "--except", "scael", "--except", "x*")
    assert answer.code == 0
    assert answer.err == [
        "hatch-cubin: warning: --except 'scael' does not match any kernel or module [except-matches-nothing]",
        "  hint: did you mean 'scale'?",
        Coded("except-matches-nothing", "", "'x*' "),
    ]
    assert facts(command, wheel, "--except", "sa*", "--except", "scael")["unmatched"] == ["scael"]
    assert facts(command, tmp_path / "none.whl", "--except", "scael")["unmatched"] == []
