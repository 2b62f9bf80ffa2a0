"""`inspect --ptx` and `--sass`: the code of a kernel, with the lines of its source."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cli.main import main
from hatch_cubin.wheels.reading.code_listing import ptx_lines
from tests.cubins import cubin
from tests.helpers import bundle, made, pyproject, write_tree

SOURCE = """\
extern "C" __global__ void saxpy(float a, const float *x, float *y, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    y[i] += a * x[i];
}
__global__ void other(float *y) { y[0] = 1; }
"""
PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry copies(.param .u64 to) { ret; }
.visible .entry copy(
\t.param .u64 to
)
{
\t.loc 1 3 1
\t{ // inside
\tmov.u32 %r1, 1;
\t}
\t.loc\t2 7 1

\t.loc 9 1 1
\tret;
}
\t.file\t1 "/src/copy.cu"
\t.file\t2 "/proc/self/fd/77/src/copy.cuh"
"""


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[Any, list[str], list[str]]:
    try:
        code: Any = main(["inspect", *map(str, arguments)])
    except SystemExit as ended:
        code = ended.code
    out, err = capsys.readouterr()
    return code, out.splitlines(), err.splitlines()


def made_bundle(folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    text = PTX.encode()
    built = (
        made("copy", "compute_80", {"copy": "copy", "copies": "copies"}, data=text),
        made("k", "sm_90", data=cubin("k")),
        made("k", "sm_80", data=cubin("k", registers=41)),
    )
    return write_tree(folder / "_cubins", {**bundle(*built), **(files or {})})


def test_ptx_is_printed_with_the_lines_of_its_source(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_tree(tmp_path, {"src/copy.cu": "one\ntwo\n  three();\n"})
    place = made_bundle(tmp_path)
    assert told(capsys, place, "--ptx", "copy") == (
        0,
        [
            f"{place}: copy for compute_80",
            "  .visible .entry copy(",
            "      .param .u64 to",
            "  )",
            "  {",
            "  // src/copy.cu:3  three();",
            "      { // inside",
            "      mov.u32 %r1, 1;",
            "      }",
            "      ret;",
            "  }",
        ],
        [],
    )


def test_the_facts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = made_bundle(tmp_path)
    _code, out, _err = told(capsys, place, "--ptx", "copies", "--json")
    (result,) = json.loads("\n".join(out))["results"]
    line = ".visible .entry copies(.param .u64 to) { ret; }"
    assert result == {
        "named": str(place),
        "path": str(place),
        "listings": [
            {
                "module": "copy",
                "arch": "compute_80",
                "kernel": "copies",
                "symbol": "copies",
                "lines": [{"text": line, "file": None, "line": None}],
            }
        ],
    }


def test_a_text_without_the_kernel_or_its_end() -> None:
    with pytest.raises(ValueError, match="does not contain the kernel cop"):
        ptx_lines(PTX, "cop")
    assert [each["text"] for each in ptx_lines(".entry k()\n{\n  ret;\n", "k")] == [".entry k()", "{"]


@pytest.mark.parametrize("file", ["../secret.cu", "secret.txt", "absent.cu", "folder.cu"])
def test_only_sources_that_lie_in_this_folder_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    here = write_tree(tmp_path / "here", {"secret.txt": "secret\n" * 9, "folder.cu/x": ""})
    write_tree(tmp_path, {"secret.cu": "secret\n" * 9})
    monkeypatch.chdir(here)
    text = PTX.replace("/src/copy.cu", file, 1).encode()
    place = write_tree(here / "_cubins", bundle(made("copy", "compute_80", data=text)))
    _code, out, _err = told(capsys, place, "--ptx", "copy")
    assert f"  // {file}:3" in out


def test_a_line_that_the_source_has_no_more_is_named_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write_tree(tmp_path, {"src/copy.cu": "one\n"}))
    assert "  // src/copy.cu:3" in told(capsys, made_bundle(tmp_path), "--ptx", "copy")[1]


@pytest.mark.parametrize(
    ("asked", "what", "hint"),
    [
        (
            ("--ptx", "k"),
            "manifest.json: does not have PTX of 'k' for any arch [no-such-code]",
            "the bundle has code of this kernel for sm_80, sm_90",
        ),
        (
            ("--ptx", "copy", "--arch", "compute_90"),
            "does not have PTX of 'copy' for compute_90 [no-such-code]",
            "the bundle has code of this kernel for compute_80",
        ),
        (
            ("--ptx", "absent"),
            "_cubins: does not have a kernel 'absent' [no-such-kernel]",
            "without --ptx and --sass, 'hatch-cubin inspect' lists",
        ),
    ],
)
def test_what_is_not_there_is_told_with_what_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], what: str, hint: str
) -> None:
    code, out, err = told(capsys, made_bundle(tmp_path), *asked)
    assert (code, out) == (1, [])
    assert err[0].startswith("hatch-cubin: error: ")
    assert err[0].endswith(what)
    assert err[1].startswith(f"  hint: {hint}")


def test_a_file_that_is_gone_or_not_what_it_should_be(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = made_bundle(tmp_path, {"copy.compute_80.ptx": b".entry other() {}"})
    assert told(capsys, place, "--ptx", "copy")[2] == [
        f"hatch-cubin: error: {place}/copy.compute_80.ptx: does not contain the kernel copy [code-unreadable]"
    ]
    (place / "copy.compute_80.ptx").unlink()
    assert told(capsys, place, "--ptx", "copy")[2] == [
        f"hatch-cubin: error: {place}/copy.compute_80.ptx: is missing [file-missing]"
    ]


def test_one_bundle_of_several_may_have_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tree(tmp_path / "b/_cubins", bundle(made("j", data=cubin("j"))))
    made_bundle(tmp_path / "a")
    code, out, err = told(capsys, tmp_path, "--ptx", "copies")
    assert (code, len(out), err) == (0, 2, [])


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (("--arch", "sm_90"), "--arch needs --ptx or --sass"),
        (("--ptx", "k", "--html", "x"), "--html and --report cannot show a kernel's code"),
        (("--ptx", "k", "--sass", "k"), "not allowed with argument --ptx"),
    ],
)
def test_options_that_do_not_go_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: tuple[str, ...], why: str
) -> None:
    code, _out, err = told(capsys, tmp_path, *asked)
    assert code == 2
    assert why in err[-1]


# Machine code


def test_without_nvdisasm_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatch_cubin.cli.listing.find_tool", lambda *_: None)
    assert told(capsys, made_bundle(tmp_path), "--sass", "k") == (
        1,
        [],
        [
            (
                "hatch-cubin: error: NVIDIA's nvdisasm, which prints machine code, is not installed here"
                " [nvdisasm-not-found]"
            ),
            "  hint: pip install nvidia-cuda-nvdisasm, or put the nvdisasm of a toolkit on PATH",
        ],
    )


@pytest.mark.linux
def test_a_cubin_that_nvdisasm_cannot_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hatch_cubin.cli.listing.find_tool", lambda *_: "false")
    place = made_bundle(tmp_path, {"k.sm_80.cubin": cubin("j")})
    _code, _out, err = told(capsys, place, "--sass", "k", "--arch", "sm_90")
    assert err[0].startswith(f"hatch-cubin: error: {place}/k.sm_90.cubin: cannot be read by false: Command ")
    _code, _out, err = told(capsys, place, "--sass", "k", "--arch", "sm_80")
    assert err == [f"hatch-cubin: error: {place}/k.sm_80.cubin: does not have the kernel k [code-unreadable]"]
    (place / "k.sm_80.cubin").write_bytes(cubin("k")[:80])
    _code, _out, err = told(capsys, place, "--sass", "k", "--arch", "sm_80")
    assert err == [f"hatch-cubin: error: {place}/k.sm_80.cubin: is a damaged cubin [code-unreadable]"]


@pytest.mark.nvrtc
@pytest.mark.cuobjdump
def test_machine_code_follows_the_lines_that_it_comes_from(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"demo/__init__.py": "", "demo/saxpy.cu": SOURCE}
    options = 'archs = ["sm_80", "sm_90"]\noptions = { lineinfo = true }\npack = true\n'
    monkeypatch.chdir(write_tree(tmp_path, {"pyproject.toml": pyproject(options), **files}))
    assert main(["bundle", "--into", "demo"]) == 0
    capsys.readouterr()
    code, out, err = told(capsys, "demo", "--sass", "saxpy", "--arch", "sm_90")
    assert (code, err) == (0, [])
    assert out[0] == "demo/_cubins: saxpy for sm_90"
    where = out.index("  // demo/saxpy.cu:4  y[i] += a * x[i];")
    assert any("STG" in line for line in out[where:])
    assert "BRA" in out[-1]  # and not what fills up the memory behind it
    assert not any("demo/saxpy.cu:6" in line for line in out)  # which is of the other kernel
    _code, out, _err = told(capsys, "demo", "--sass", "other")
    assert [line for line in out if ": other" in line] == [
        "demo/_cubins: other in saxpy for sm_80",
        "demo/_cubins: other in saxpy for sm_90",
    ]
