"""Sources that stand for calls of libraries, in wheels, sdists and editable installs of real front ends."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cuda.core import Program, ProgramOptions
from cuda.pathfinder import find_nvidia_header_directory

from hatch_cubin.cubin.elf import read_sections
from hatch_cubin.loader._text_key import text_key
from tests.helpers import run, wheel_files, write_tree

from .projects import SETUPTOOLS, build, build_sdist, demo, unpack, wheel

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("warm")]

OPTIONS = ["-DN=4", "-std=c++14"]
IN_TABLE = 'extern "C" __global__ void add(float *x, float y) { x[0] = x[0] / y + N; }\n'
RECORDED = "template <class T> __global__ void scale(T *x) { *x *= N; }"
KEYS = [text_key("cupy", OPTIONS, text) for text in (IN_TABLE, RECORDED)]
LINE = json.dumps({"front": "cupy", "instantiate": ["scale<float>"], "options": OPTIONS})
FILES: dict[str, str | bytes] = {
    "src/demo/__init__.py": "",
    "src/demo/add.cu": IN_TABLE,
    f"recorded/{KEYS[1]}.cu": f"// {LINE}\n{RECORDED}",
}
TABLE = """\
archs = ["sm_80", "sm_90"]
recorded = ["recorded"]
[[{}.source]]
path = "src/demo/add.cu"
as = "cupy"
options = ["-std=c++14", "-DN=4"]
"""
PACKAGES = '[tool.hatch.build.targets.wheel]\npackages = ["src/demo"]\n'
HOOK, OWN = TABLE.format("tool.hatch.build.hooks.cubin"), TABLE.format("tool.hatch-cubin")


def project(root: Path, table: str = HOOK, more: str = PACKAGES) -> Path:
    return demo(root, table, FILES, more)


def modules(files: dict[str, bytes]) -> dict[str, Any]:
    manifest = json.loads(files["demo/_cubins/manifest.json"])
    assert (manifest["fronts"], manifest["kernels"]) == (["cuda.core", "cupy"], {})
    found: dict[str, Any] = manifest["modules"]
    assert found.keys() == {f"cupy:{key}" for key in KEYS}
    return found


def command(root: Path, *arguments: str | Path) -> str:
    return run(sys.executable, "-m", "hatch_cubin", *arguments, cwd=root).stdout


def test_a_wheel_is_the_same_from_the_tree_and_from_its_sdist(tmp_path: Path) -> None:
    root = project(tmp_path / "tree")
    from_tree = wheel(root)
    assert [*modules(from_tree)[f"cupy:{KEYS[1]}"]["kernels"]] == ["scale<float>"]
    assert "demo/_cubins/_text_key.py" in from_tree
    assert [name for name in from_tree if name.endswith(".cu")] == ["demo/add.cu"]  # read at run time
    top = unpack(build_sdist(root), tmp_path / "sdist")
    assert (top / f"recorded/{KEYS[1]}.cu").is_file()
    assert wheel(top) == from_tree


def test_a_packed_wheel_is_split_unpacked_and_verified(tmp_path: Path) -> None:
    root = project(tmp_path / "tree", f"pack = true\n{HOOK}")
    packed = build(root)
    modules(wheel_files(packed))
    assert "4 have exactly the same bytes" in command(root, "verify", packed, "--rebuild")
    for kind in ("companions", "variants"):
        command(root, "split", packed, "--by", "arch", "--as", kind, "--into", tmp_path / kind)
        for part in sorted((tmp_path / kind).glob("*.whl")):
            command(root, "verify", part)
    command(root, "unpack", packed, "--into", tmp_path / "unpacked")
    command(root, "verify", tmp_path / "unpacked")
    whole = wheel_files(build(project(tmp_path / "plain"), into=tmp_path / "plain-wheel"))
    unpacked = {path.name: path.read_bytes() for path in (tmp_path / "unpacked").rglob("*.*")}
    plain = {name.rpartition("/")[2]: data for name, data in whole.items() if "/_cubins/" in name}
    assert unpacked == plain


def test_a_wheel_with_an_edited_call_differs_by_its_source(tmp_path: Path) -> None:
    root = project(tmp_path / "tree")
    before = build(root, into=tmp_path / "before")
    (root / "src/demo/add.cu").write_text(IN_TABLE.replace("/ y", "* y * y"))
    after = build(root, into=tmp_path / "after")
    facts = json.loads(command(root, "diff", before, after, "--json"))
    text = json.dumps(facts)
    assert "src/demo/add.cu" in text
    assert '"whole"' not in text
    assert "cupy:" not in text.replace(f"cupy:{KEYS[1]}", "")


def test_an_editable_install_notices_edits_of_calls(tmp_path: Path) -> None:
    root = project(tmp_path)
    build(root, "editable", hooks_only=True)
    command(root, "verify", root / "src/demo/_cubins")
    code = f"from demo import _cubins as c; print(len(c.read('cupy:{KEYS[1]}', cc=(9, 0))))"

    def warnings() -> int:
        python = [sys.executable, "-W", "always", "-c", code]
        done = subprocess.run(python, cwd=root / "src", capture_output=True, text=True, check=True)
        return done.stderr.count("CubinStaleWarning")

    assert warnings() == 0
    with (root / f"recorded/{KEYS[1]}.cu").open("a") as file:
        file.write("// edited")
    assert warnings() == 1


@pytest.mark.parametrize("backend", ["setuptools.build_meta", "hatch_cubin.backend"])
def test_other_backends_have_calls_too(tmp_path: Path, backend: str) -> None:
    inner = 'backend = "flit_core.buildapi"\n' if backend == "hatch_cubin.backend" else ""
    text = f"{SETUPTOOLS}[tool.hatch-cubin]\n{inner}{OWN}".replace('"setuptools.build_meta"', f'"{backend}"')
    text = text.replace('version = "1.0"', 'version = "1.0"\ndescription = "x"')
    root = write_tree(tmp_path / "tree", {**FILES, "pyproject.toml": text})
    code = f"import {backend} as made; print(made.build_wheel('dist'), made.build_sdist('dist'))"
    (root / "dist").mkdir()
    names = run(sys.executable, "-c", code, cwd=root).stdout.split()
    made, sdist = (root / "dist" / name for name in names[-2:])
    modules(wheel_files(made))
    assert (unpack(sdist, tmp_path / "sdist") / f"recorded/{KEYS[1]}.cu").is_file()


# --- beside CuPy itself

COMPLEX = """\
#include <cupy/complex.cuh>
extern "C" __global__ void c(complex<float>* a) { a[0] = exp(a[0]) * complex<float>(2, 1) / a[0]; }
"""
CUB = """\
#include <cub/block/block_reduce.cuh>
extern "C" __global__ void sum(const float* in, float* out) {
    using Reduce = cub::BlockReduce<float, 128>;
    __shared__ typename Reduce::TempStorage storage;
    float found = Reduce(storage).Sum(in[threadIdx.x]);
    if (threadIdx.x == 0) out[0] = found;
}
"""
TEMPLATE = "template <class T, int N> __global__ void scale(T *x, T y) { x[0] = x[0] / y * T(N) + M; }\n"
CALLS: dict[str, tuple[list[str], str, list[str]]] = {
    "plain.cu": (OPTIONS, IN_TABLE, []),
    "complex.cu": ([], COMPLEX, []),
    "cub.cu": ([], CUB, []),
    "template.cu": (["-D", "M=2", "--Ofast-compile=min"], TEMPLATE, ["scale<float,3>", "scale<double, 1>"]),
    "crlf.cu": ([], '#line 1 "k.cu"\r\nextern "C" __global__ void l(int *x) {\r\n*x = __LINE__; }', []),
}
COMPILE = """\
import json, sys
from cupy._core import core
from cupy.cuda import compiler
compiler._get_arch_for_options_for_nvrtc = lambda arch=None: (f"-arch=sm_{arch}", "cubin")
found = {}
for name, (options, text, names) in json.load(sys.stdin).items():
    given = (*core.assemble_cupy_compiler_options(tuple(options)), "-ftz=true")
    for arch in ("80", "90"):
        made = compiler._compile_using_nvrtc_no_warning(
            text, given, arch, name, tuple(names) or None, None, False, False, None)
        found[f"{name} sm_{arch}"] = made[0].hex()
print(json.dumps(found))
"""


@pytest.mark.cupy
def test_the_machine_code_is_that_of_cupys_own_call(tmp_path: Path) -> None:
    produced = {
        name: {"text": text, "as": "cupy", "options": options, "instantiate": names}
        for name, (options, text, names) in CALLS.items()
    }
    built = wheel_with(tmp_path, produced, 'header-packages = ["cupy-cuda13x"]\n')
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input=json.dumps(CALLS),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "CUPY_CACHE_DIR": str(tmp_path / "cupy")},
    )
    theirs = {name: bytes.fromhex(data) for name, data in json.loads(done.stdout).items()}
    lines = json.loads(built["demo/_cubins/manifest.json"])["modules"]
    assert lines.keys() == {
        f"cupy:{text_key('cupy', options, text)}" for options, text, _names in CALLS.values()
    }
    for line in lines.values():
        for entry in line["entries"]:
            name = f"{line['source'].rpartition('/')[2]} {entry['arch']}"
            ours = built[f"demo/_cubins/{entry['file']}"]
            assert code_of(ours) == code_of(theirs[name]), name


def wheel_with(tmp_path: Path, produced: dict[str, Any], options: str = "") -> dict[str, bytes]:
    """Return the files of a wheel with these sources of a producer."""
    producer = '[[tool.hatch.build.hooks.cubin.producer]]\npath = "src/demo/gen.py"\n'
    files: dict[str, str | bytes] = {
        "src/demo/__init__.py": "",
        "src/demo/gen.py": f"def sources():\n    return {produced!r}\n",
    }
    return wheel(demo(tmp_path, f'archs = ["sm_80", "sm_90"]\n{options}{producer}', files, PACKAGES))


# Calls of cuda.core: fields of `ProgramOptions`, text and template names.
DIVIDE = 'extern "C" __global__ void d(float *x, float y) { x[0] = x[0] / y * x[1] + sqrtf(x[2]) + N; }\n'
HEADERS = """\
#include <cuda_fp16.h>
#include <cuda/std/cstdint>
extern "C" __global__ void h(__half *x, cuda::std::uint32_t n) { x[0] = x[n] * x[1]; }
"""
PROGRAMS: dict[str, tuple[dict[str, Any], str, list[str]]] = {
    "plain.cu": ({}, "namespace n { __global__ void q(int *x) { *x = __LINE__; } }\n", ["n::q"]),
    "template.cu": ({"std": "c++20", "define_macro": ("M", "2")}, TEMPLATE, ["scale<float,3>"]),
    "fast.cu": ({"use_fast_math": True, "define_macro": "N"}, DIVIDE, []),
    "ptxas.cu": ({"ptxas_options": ["-O3"], "max_register_count": 32, "define_macro": ["N"]}, DIVIDE, []),
    "lines.cu": (
        {
            "ftz": True,
            "fma": True,
            "prec_div": False,
            "prec_sqrt": False,
            "define_macro": [("N", "1")],
            "lineinfo": True,
            "device_code_optimize": True,
            "std": "c++17",
        },
        DIVIDE,
        [],
    ),
    "fma.cu": ({"fma": False, "define_macro": "N", "name": "mine", "ofast_compile": "mid"}, DIVIDE, []),
    "headers.cu": ({"disable_warnings": True, "diag_suppress": [177, 20]}, HEADERS, []),
}


def test_the_machine_code_is_that_of_cuda_cores_own_call(tmp_path: Path) -> None:
    flags = {
        name: flags_of(ProgramOptions(arch="sm_80", **fields)) for name, (fields, *_) in PROGRAMS.items()
    }
    produced = {
        name: {"text": text, "as": "cuda.core", "options": flags[name], "instantiate": names}
        for name, (_fields, text, names) in PROGRAMS.items()
    }
    built = wheel_with(tmp_path, produced)
    manifest = json.loads(built["demo/_cubins/manifest.json"])
    folders = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    for name, (fields, text, names) in PROGRAMS.items():
        line = manifest["modules"][f"cuda.core:{text_key('cuda.core', flags[name], text)}"]
        for entry in line["entries"]:
            options = ProgramOptions(arch=entry["arch"], include_path=folders, **fields)
            theirs = Program(text, "c++", options).compile("cubin", names)
            ours = built[f"demo/_cubins/{entry['file']}"]
            assert code_of(ours) == code_of(bytes(theirs.code)), (name, entry["arch"])
            symbols = [symbol.decode() for symbol in theirs.symbol_mapping.values()]
            assert {*symbols} <= {*line["kernels"].values()}, name


def flags_of(options: ProgramOptions) -> list[str]:
    """Return the options of a call, as a table has them."""
    return [flag.decode() for flag in options.as_bytes("nvrtc")[1:]]


def code_of(cubin: bytes) -> dict[str, bytes]:
    """Return the sections with machine code and what launches need, under names without a file's name."""
    return {
        re.sub(r"_GLOBAL__N__\w+?_cu_", "", name): data
        for name, _kind, data in read_sections(cubin)
        if name.startswith((".text", ".nv.info.", ".nv.constant"))
    }
