"""Folders and files of any name: the same wheel, or an error that says which name cannot be compiled."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from hatch_cubin.cli.main import main
from tests.helpers import COPY_PTX, SAXPY, codes, refusal, run, sha256, wheel_files, write_tree

from .projects import build, build_sdist, demo, unpack

pytestmark = [pytest.mark.nvrtc, pytest.mark.linux]

FILES = {
    "demo/__init__.py": "",
    "demo/saxpy.cu": '#include "near.cuh"\n#include <far.cuh>\n' + SAXPY,
    "demo/near.cuh": "#pragma once\n",
    "demo/copy.ptx": COPY_PTX,
    "include/far.cuh": "#pragma once\n__device__ const char *const file = __FILE__;\n",
}
OPTIONS = 'archs = ["sm_90"]\ninclude-dirs = ["include"]\noptions = { lineinfo = true }'
NAMES = {
    "spaces": " a  b ",
    "umlaut": "für Größe",
    "decomposed umlaut": "u\u0308",
    "CJK": "项目",
    "right to left": "مشروع\u202e",
    "percent": "100%d%s%n",
    "quotes": 'it\'s "x"',
    "newline": "a\nb\r",
    "backslash": "a\\b\\",
    "escape": "\x1b[31m\a",
    "surrogate": "bad\udcff",
    "glob": "a*b[c]?{d}",
    "shell": "$HOME;`id`|&#!~",
    "option": "-o",
    "list": "a,b:c",
    "200 folders": "/".join(["d"] * 200),
    "longest component": "x" * 255,
    "longest path": "/".join(["y" * 250] * 14),
}


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The digest of the wheel as built in a folder that nobody would complain of."""
    folder = tmp_path_factory.mktemp("plain")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HATCH_CUBIN_CACHE_DIR", str(folder / "cache"))
        return sha256(build(demo(folder / "project", OPTIONS, FILES)).read_bytes())


@pytest.mark.parametrize("name", NAMES)
def test_a_project_gives_the_same_wheel_in_a_folder_of_any_name(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    plain: str,
    name: str,
) -> None:
    root = demo(tmp_path / NAMES[name], OPTIONS, FILES)
    assert sha256(build(root).read_bytes()) == plain
    monkeypatch.chdir(root)
    capsys.readouterr()
    assert main(["bake"]) == 0
    assert "2 units: 2 cached, 0 compiled" in capsys.readouterr().err


def test_a_component_that_is_too_long_is_the_systems_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatch_cubin", "bake", "--project", str(tmp_path / ("x" * 256))],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "File name too long" in done.stderr


INSIDE = {
    "a b": "blank",
    "größe": "umlaut",
    "u\u0308": "decomposed",
    "项目": "cjk",
    "مشروع": "rtl",
    "100%d": "percent",
    "it's": "quote",
    "a*b[c]{d}": "glob",
    "$HOME;`id`|&#!~": "shell",
    "-o": "option",
    "@x": "response",
    "a,b:c": "list",
    "x" * 240: "longest",
    "/".join(["d"] * 200): "deep",
}


def test_files_of_nearly_any_name_are_compiled(tmp_path: Path) -> None:
    files = {"demo/__init__.py": ""}
    for name, kernel in INSIDE.items():
        leaf = name.rpartition("/")[2]
        text = f'#include "{leaf}.h"\n' + SAXPY.replace("saxpy", kernel)
        files |= {f"demo/{name}.{kernel}.cu": text, f"demo/{name}.h": "#pragma once\n"}
        files |= {f"demo/{name}/{kernel}.cu": text, f"demo/{name}/{leaf}.h": "#pragma once\n"}
    root = demo(tmp_path / "project", 'archs = ["sm_90"]\noptions = { lineinfo = true }', files)
    direct = build(root)
    cubins = [name for name in wheel_files(direct) if name.endswith(".cubin")]
    assert len(cubins) == 2 * len(INSIDE)
    unpacked = unpack(build_sdist(root), tmp_path / "unpacked")
    assert sha256(build(unpacked).read_bytes()) == sha256(direct.read_bytes())


REFUSED = ['say "x"', "a\nb", "a\\b", "bad\udcff", "x\u202ey", "a\tb", "\x1b[31m"]


def test_files_that_no_compiler_can_be_given_are_each_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"demo/__init__.py": "", **{f"demo/{name}.cu": SAXPY for name in REFUSED}}
    root = demo(tmp_path, files=files)
    error = refusal(SystemExit, build, root)
    lines = capsys.readouterr().err.splitlines()
    assert error.code == 1
    assert sorted(lines[:-1:2]) == sorted(
        f"hatch-cubin: error: the name {f'demo/{name}.cu'!r} has characters that cannot be "
        "passed to a compiler "
        "[unusable-file-name]"
        for name in REFUSED
    )
    assert set(lines[1:-1:2]) == {"  hint: rename the file"}
    assert lines[-1] == f"hatch-cubin: {len(REFUSED)} errors, nothing was built"


READS = """
import os, sys
outside, seen = os.path.realpath(sys.argv[1]), []
def listen(event, args):
    if event == "open" and isinstance(args[0], (str, bytes)):
        seen.append(os.path.realpath(os.fsdecode(args[0])))
sys.addaudithook(listen)
from hatch_cubin.cli.main import main
code = main(["bake"])
print([path for path in seen if path.startswith(outside)], any(path.endswith("saxpy.cu") for path in seen))
sys.exit(code)
"""


def test_loops_end_and_nothing_behind_a_link_out_of_the_project_is_read(tmp_path: Path) -> None:
    write_tree(tmp_path / "outside", {"secret.cu": SAXPY, "secret.h": "", "secret.ptx": COPY_PTX})
    files = {
        **FILES,
        "demo/saxpy.cu": '#include <loop/loop/far.cuh>\n#if 0\n#include "gone.h"\n#endif\n' + SAXPY,
    }
    root = demo(tmp_path / "project", OPTIONS, files)
    links = {
        "demo/loop": ".",
        "demo/up": "../..",
        "demo/outside": "../../outside",
        "demo/dangling": "nowhere",
    }
    for name, target in {**links, "include/loop": ".", "demo/gone.h": "nowhere", "demo/me.h": "me.h"}.items():
        (root / name).symlink_to(target)
    done = run(sys.executable, "-c", READS, tmp_path / "outside", cwd=root)
    assert "2 units: 0 cached, 2 compiled" in done.stderr
    assert done.stdout.splitlines()[-1] == "[] True"


def test_a_source_that_is_a_link_to_no_file_of_the_project_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(tmp_path, {"secret.cu": SAXPY})
    root = demo(tmp_path / "project")
    for name, target in {
        "loop": "loop.cu",
        "out": "../../secret.cu",
        "gone": "nowhere",
        "zero": "/dev/zero",
    }.items():
        (root / f"demo/{name}.cu").symlink_to(target)
    with pytest.raises(SystemExit):
        build(root)
    lines = capsys.readouterr().err.splitlines()
    places = [line.split(":")[2].strip() for line in lines if " error: " in line]
    assert [*zip(codes("\n".join(lines)), places, strict=True)] == [
        ("file-not-readable", "demo/gone.cu"),
        ("file-not-readable", "demo/loop.cu"),
        ("link-leads-outside", "demo/out.cu"),
        ("link-leads-outside", "demo/zero.cu"),
    ]
    assert lines[-1] == "hatch-cubin: 4 errors, nothing was built"
