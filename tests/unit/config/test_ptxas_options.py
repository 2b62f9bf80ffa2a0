"""The options of ptxas: which can be set, and that nothing else reaches a compiler."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hatch_cubin.config import compiler_flags, ptxas_options
from hatch_cubin.config.compiler_flags import INSPECT
from hatch_cubin.errors import ConfigError
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import read_config

VALUES = {
    "": "",
    ptxas_options._KERNELS: "k",
    ptxas_options._BLOCK: "32,4",
    ptxas_options._NUMBER: "1",
    ptxas_options._REGISTERS: "archmax",
}
# What ptxas's help of 12.9, 13.0 and 13.5 shows, and what else it was seen to take.
OF_HELP = """
    Ofast-compile allow-expensive-optimizations apply-controls compile-as-tools-patch compile-only
    compiler-annotations def-load-cache def-store-cache device-debug device-function-maxrregcount
    device-stack-protector disable-optimizer-constants disable-warnings dont-merge-basicblocks
    enable-func-clone-sc entry extensible-whole-program fmad force-load-cache force-store-cache
    g-tensor-memory-access-check generate-line-info gno-fabric-access-check gno-tensor-memory-access-check
    gpu-name help input-as-string jobserver legacy-bar-warp-wide-behavior list-arch list-version machine
    make-errors-visible-at-exit maxntid maxrregcount minnctapersm opt-level optimize-float-atomics
    options-file output-file override-directive-values position-independent-code preserve-relocs
    register-usage-level return-at-end sanitize sp-bounds-check split-compile
    suppress-async-bulk-multicast-advisory-warning suppress-debug-info suppress-double-demote-warning
    suppress-position-independent-code-warning suppress-sparse-mma-advisory-info suppress-stack-size-warning
    verbose verbose2 version warn-on-double-precision-use warn-on-local-memory-usage warn-on-spills
    warning-as-error
"""
HIDDEN = ["compiler-stats", "compiler-stats-file", "fdevice-time-trace"]
# Each was seen to make some release of ptxas open a file, print, or take the next option for its value.
HOSTILE = [
    "--compiler-stats=time",
    "--compiler-stats-file=made",
    "--compiler-stats-file",
    "--fdevice-time-trace=made",
    "-fdevice-time-trace=made",
    "--apply-controls=made",
    "-apply-controls=made",
    "--options-file=made",
    "-optf=made",
    "--output-file=made",
    "-o=made",
    "-o",
    "--input-as-string=.version 8.0",
    "@made",
    "made",
    "made.ptx",
    "--opt-level",
    "-maxrregcount",
    "-e",
    "-v",
    "--verbose",
    "--verbose2",
    "-w,--compiler-stats-file=made",
    "-w --compiler-stats-file=made",
    "'-w'",
    '"--compiler-stats-file=made"',
    "-Xptxas=--compiler-stats-file=made",
    "--ptxas-options=--compiler-stats-file=made",
    "-e=../made",
    "-dlcm=/made",
    "--sanitize=made",
    "--entry=k --compiler-stats-file=made",
    "-w=made",
    "-w\\--compiler-stats-file=made",
    "--help",
    "--jobserver",
    "--unheard-of=made",
    "-",
    "--",
    "=made",
]


@pytest.mark.parametrize("option", HOSTILE)
def test_whatever_is_not_listed_is_refused(option: str) -> None:
    for value in (json.dumps(option), json.dumps(["-w", option])):
        with pytest.raises(ConfigError, match="cannot contain"):
            read_config(f"options = {{ ptxas-options = {value} }}")


def test_each_wrong_option_is_told_at_its_own_line() -> None:
    with pytest.raises(ConfigError) as caught:
        read_config('options.ptxas-options = [\n "-w",\n "-o=x",\n "-g",\n "--werror",\n]')
    first, second = caught.value.problems
    assert first.where is not None
    assert second.where is not None
    assert second.where.line == (first.where.line or 0) + 2


def test_every_option_of_ptxas_is_allowed_or_refused_with_a_reason() -> None:
    known = {
        name.removeprefix("--")
        for name in {*ptxas_options.ALLOWED, *ptxas_options.REFUSED}
        if name.startswith("--")
    }
    assert known == {*OF_HELP.split(), *HIDDEN}
    assert not ptxas_options.ALLOWED.keys() & ptxas_options.REFUSED.keys()


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("-w -O3", "write '-w', '-O3'"),
        ("-w,-O3", "write '-w', '-O3'"),
        ("-Xptxas -w", "write '-w'"),
        ("-Xptxas", "leave '-Xptxas' out: 'ptxas-options' has only options for ptxas"),
        ("-Xptxas=--opt-level 3", "write '--opt-level=3'"),
        ("O3", "write '-O3'"),
        ("--opt-level", "write '--opt-level=2'"),
        ("-fmad=on", "write '-fmad=true' or '-fmad=false'"),
        ("-w=1", "write '-w'"),
        ("--maxregcount=32", "did you mean '--maxrregcount'?"),
        ("--warn-on-spill", "did you mean '--warn-on-spills'?"),
        ("-o=k.cubin", None),
        ("k.ptx", ptxas_options._SEE_REFERENCE),
        ("-Xptxas -o=k", ptxas_options._SEE_REFERENCE),
        ("-w" + " " * 1_000_000 + "x", ptxas_options._SEE_REFERENCE),
    ],
    ids=lambda text: str(text)[:40],
)
def test_a_hint_says_what_may_be_meant(option: str, hint: str | None) -> None:
    assert ptxas_options.hint(option) == hint


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("-w -O3", "write ['-w', '-O3']"),
        ("-O3 -w --warn-spills", "write ['-O3', '-w', '-warn-spills']"),
        ("-O3 -w --unknown", "write ['-O3', '-w', '--unknown']"),
        ("w", "write '-w'"),
    ],
)
def test_several_options_in_one_string_become_an_array(option: str, hint: str) -> None:
    assert ptxas_options.hint(option, alone=True) == hint


@pytest.mark.parametrize(
    "option", ["-v", "--verbose2", "v", "--verbos", "-v=1", "-Xptxas -v", "-Xptxas=-v,-verbose"]
)
def test_the_registers_that_ptxas_would_print_are_seen_with_inspect(option: str) -> None:
    assert ptxas_options.hint(option) == compiler_flags.REGISTERS


def test_an_option_that_prints_registers_is_left_out_of_several() -> None:
    assert ptxas_options.hint("-v -O3", alone=True) == f"write '-O3'; {INSPECT}"
    assert ptxas_options.hint("-w,-v,-O3", alone=True) == f"write ['-w', '-O3']; {INSPECT}"


@pytest.mark.parametrize("option", ["-w", "-O3", "--opt-level=3", "-fmad=false"])
def test_what_hints_say_can_be_set(option: str) -> None:
    assert ptxas_options.check(option) == option


@pytest.mark.nvrtc
def test_no_option_that_can_be_set_makes_the_compiler_touch_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Toolkit(None)  # loads the NVRTC of this environment
    task = {"id": 0, "kind": "c++", "code": b'extern "C" __global__ void k() {}', "name": b"k"}
    taken = 0
    long = {name: value for name, value in ptxas_options.ALLOWED.items() if name.startswith("--")}
    for name, value in long.items():
        option = f"{name}={VALUES.get(value, value.partition('|')[0])}" if value else name
        assert ptxas_options.is_allowed(option)
        own = [b"-arch=sm_90", f"--ptxas-options={option}".encode()]
        taken += worker.compile_task({**task, "instantiate": [], "options": own})["ok"]
    assert [*tmp_path.iterdir()] == []
    assert taken > len(long) / 2  # no release knows all of them


@pytest.mark.nvrtc
def test_the_compiler_would_have_written_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, NVRTC has changed, and so has the reason for the list."""
    monkeypatch.chdir(tmp_path)
    Toolkit(None)
    options = ["-arch=sm_90", "--ptxas-options=--compiler-stats=time"]
    options.append(f"--ptxas-options=--compiler-stats-file={tmp_path / 'made'}")
    task = {"id": 0, "kind": "c++", "code": b'extern "C" __global__ void k() {}', "name": b"k"}
    worker.compile_task({**task, "instantiate": [], "options": [each.encode() for each in options]})
    assert (tmp_path / "made").exists()


def test_the_spellings_of_an_option_are_those_that_ptxas_takes() -> None:
    assert ptxas_options.ALLOWED["--warning-as-error"] == ptxas_options.ALLOWED["-Werror"] == ""
    assert "-warning-as-error" not in ptxas_options.ALLOWED
    assert "--Werror" not in ptxas_options.ALLOWED
    assert [ptxas_options.is_allowed(f"{dash}fmad=true") for dash in ("-", "--")] == [True, True]
    assert all(ptxas_options.is_allowed(f"-O{level}") for level in range(4))
