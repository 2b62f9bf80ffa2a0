"""The verb `explain`, with the real compiler and real cache entries.

What finds reasons is in the room `explaining`; it is asked through the verb, as people see it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache, Compiled
from hatch_cubin.cache.signing import RECORD, Signer
from hatch_cubin.cli.main import main
from hatch_cubin.config.value_checks import _SOME_ARCHS
from hatch_cubin.keys import ingredients
from hatch_cubin.keys.jobs import make_jobs
from hatch_cubin.loader._text_key import text_key
from hatch_cubin.project.project import read_sources
from hatch_cubin.toolkit import libraries
from hatch_cubin.toolkit import toolkit as toolkit_module
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.command_line import Command
from tests.helpers import COPY_PTX, Coded, make_project, pyproject, refusal, write_tree

pytestmark = pytest.mark.nvrtc

K = '#include "a.cuh"\nextern "C" __global__ void k(float *x) { *x = N + B; }\n'
RED = 'extern "C" __global__ void red(int *x) { *x = BLOCK; }\n'
FILES = {
    "demo/__init__.py": "",
    "demo/k.cu": K,
    "demo/a.cuh": '#include "deep/b.cuh"\n',
    "demo/deep/b.cuh": "#define B 1\n",
    "demo/red.cu": RED,
    "demo/copy.ptx": COPY_PTX,
}
OPTIONS = """\
archs = ["sm_80", "sm_90"]
define = { N = 4 }
options = { lineinfo = true }
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/red.cu"
archs = ["sm_90"]
variants = { BLOCK = [64, 128] }
"""
ARCHS = ["archs  'sm_80', 'sm_90' (pyproject.toml:10)"]
MISS = "miss  k for sm_80, sm_90"

Explain = Callable[..., list[str]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "project", {"pyproject.toml": pyproject(OPTIONS), **FILES})


@pytest.fixture
def explain(root: Path, capsys: pytest.CaptureFixture[str]) -> Explain:
    """Return the lines that the verb prints for these arguments."""

    def ask(*arguments: str) -> list[str]:
        capsys.readouterr()
        assert main(["explain", "--project", str(root), *arguments]) == 0
        return capsys.readouterr().out.splitlines()

    return ask


@pytest.fixture
def baked(root: Path) -> Path:
    """The project, with all that it consists of in the cache."""
    assert main(["bake", "--project", str(root)]) == 0
    return root


def configure(root: Path, *edits: tuple[str, str]) -> None:
    options = OPTIONS
    for was, now in edits:
        assert was in options
        options = options.replace(was, now)
    (root / "pyproject.toml").write_text(pyproject(options))


def test_an_empty_cache_has_nothing_to_compare_with(explain: Explain) -> None:
    assert explain("demo/k.cu") == [
        MISS,
        "      this cache does not contain any result of this source",
        *ARCHS,
    ]


@pytest.mark.parametrize("name", ["demo/k.cu", "./demo/k.cu", "k"])
def test_a_hit_needs_no_reason(explain: Explain, baked: Path, name: str) -> None:
    assert explain(name) == ["hit   k for sm_80, sm_90", *ARCHS]


def test_a_header_of_a_header_is_named(explain: Explain, baked: Path) -> None:
    (baked / "demo/deep/b.cuh").write_text("#define B 2\n")
    assert explain("k") == [MISS, "      demo/deep/b.cuh was edited", *ARCHS]
    assert explain("red")[0] == "hit   red[BLOCK=64], red[BLOCK=128] for sm_90"


def test_every_input_that_differs_is_named(explain: Explain, baked: Path) -> None:
    configure(baked, ("N = 4", "N = 5"), ("lineinfo = true", 'std = "c++20", max_register_count = 32'))
    (baked / "demo/k.cu").write_text(f"#include <cuda_fp16.h>\n{K}")
    lines = explain("k")
    headers = [line for line in lines if re.fullmatch(r" {6}headers from .* are now included", line)]
    assert headers  # of wheels and, from CUDA 13.3 on, NVRTC's own
    assert lines == [
        MISS,
        "      demo/k.cu has changed",
        "      macro N: 4 -> 5",
        "      option lineinfo=true is gone",
        "      option std=c++20 is new",
        "      option max_register_count=32 is new",
        *headers,
        *ARCHS,
    ]


def test_a_long_list_is_cut_and_v_shows_all_of_it(explain: Explain, baked: Path) -> None:
    configure(baked, ("N = 4", ", ".join(["N = 4", *(f"M{number} = 0" for number in range(10))])))
    lines = [f"      macro M{number}=0 is new" for number in range(10)]
    assert explain("k") == [MISS, *lines[:8], "      and 2 more (-v lists them)", *ARCHS]
    units = json.loads("\n".join(explain("k", "--json")))["units"]
    assert explain("k", "-v") == [
        *(
            line
            for unit in units
            for line in (
                f"miss  k for {unit['arch']}",
                *lines,
                f"      key {unit['key']}",
                f"      nearest {unit['nearest']['key']}: demo/k.cu for {unit['arch']}",
            )
        ),
        *ARCHS,
    ]


def test_v_shows_the_key_of_a_hit(explain: Explain, baked: Path) -> None:
    (unit,) = json.loads("\n".join(explain("red[BLOCK=64]", "--json")))["units"]
    assert explain("red[BLOCK=64]", "-v")[:2] == ["hit   red[BLOCK=64] for sm_90", f"      key {unit['key']}"]


def test_a_renamed_source_is_found_by_its_text(explain: Explain, baked: Path) -> None:
    (baked / "demo/k.cu").rename(baked / "demo/k2.cu")
    assert explain("k2") == [
        "miss  k2 for sm_80, sm_90",
        "      the cache has a result with the name demo/k.cu, but not with the name demo/k2.cu",
        *ARCHS,
    ]


def test_a_new_arch_stands_beside_those_that_were_compiled(explain: Explain, baked: Path) -> None:
    configure(baked, ('archs = ["sm_80", "sm_90"]', 'archs = ["90", "sm_89"]'))
    assert explain("k") == [
        "miss  k for compute_90",
        "      the cache has a result for sm_90, but not for compute_90",
        "miss  k for sm_89",
        "      the cache has a result for sm_90, but not for sm_89",
        "hit   k for sm_90",
        "archs  '90' (pyproject.toml:10) gives sm_90 compute_90",
        "archs  'sm_89' (pyproject.toml:10)",
    ]


def test_a_new_variant_is_compared_with_another_and_an_old_one_with_itself(
    explain: Explain, baked: Path
) -> None:
    configure(baked, ("[64, 128]", "[64, 96, 128]"), ("lineinfo = true", "lineinfo = false"))
    same = ["      option lineinfo: true -> false"]
    assert explain("red") == [
        "miss  red[BLOCK=64], red[BLOCK=128] for sm_90",
        *same,
        "miss  red[BLOCK=96] for sm_90",
        *[line for line in explain("red[BLOCK=96]") if line.startswith("      macro")],
        *same,
        "archs  'sm_90' (pyproject.toml:15, in place of the global archs)",
    ]


def test_many_modules_with_one_reason_are_counted(explain: Explain, root: Path) -> None:
    configure(root, ("[64, 128]", str([*range(10, 20)])))
    names = ", ".join(f"red[BLOCK={number}]" for number in range(10, 18))
    assert explain("red")[0] == f"miss  {names} and 2 more for sm_90"


def test_another_build_of_the_compiler_is_named(explain: Explain, root: Path) -> None:
    project = make_project(root, {}, OPTIONS)
    toolkit = Toolkit(None)
    jobs = [job for job in make_jobs(project, read_sources(project), toolkit) if job.unit.arch.number == 90]
    with Cache(project.cache_folder, None, print) as cache:
        for job in jobs:
            inputs = {**job.inputs, "compiler": "13.1.5"}
            cache.put(hashlib.sha256(job.keys.key).digest(), Compiled(b"older k", {"k": "k"}), inputs)
    assert explain("k", "--arch", "sm_90")[1:3] == [
        "miss  k for sm_90",
        f"      NVRTC 13.1.5 -> {toolkit.nvrtc}",
    ]
    assert explain("copy", "--arch", "sm_90")[1:3] == [
        "miss  copy for sm_90",
        f"      ptxas 13.1.5 -> {toolkit.ptxas}",
    ]


def test_keys_that_cuda_core_makes_in_another_way_differ_for_no_input(
    explain: Explain, baked: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(libraries, "installation", lambda _wanted: None)  # nothing is recalled
    monkeypatch.setattr(
        ingredients, "core_key", lambda *unit: hashlib.sha256(toolkit_module.core_key(*unit)).digest()
    )
    assert explain("k") == [
        MISS,
        "      the reason is unknown: all recorded inputs are the same as in an earlier build",
        *ARCHS,
    ]


def entry(explain: Explain, *asked: str) -> Path:
    """Return the file that the cache has a unit's bytes in."""
    answer = json.loads("\n".join(explain(*asked, "--json")))
    (unit,) = answer["units"]
    name = hashlib.sha256(bytes.fromhex(unit["key"])).hexdigest()
    return Path(answer["cache"], "entries", name[:2], name[2:])


def test_a_damaged_entry_is_told_from_one_that_is_gone(explain: Explain, baked: Path) -> None:
    path = entry(explain, "k", "--arch", "sm_80")
    path.write_bytes(path.read_bytes()[:-1])
    entry(explain, "k", "--arch", "sm_90").unlink()
    assert explain("k") == [
        "miss  k for sm_80",
        "      the unit's cache entry is damaged, so a build compiles the unit again",
        "miss  k for sm_90",
        "      the unit's result was removed from the cache",
        *ARCHS,
    ]


TRUSTED, STRANGER = Signer(bytes([1]) * 32), Signer(bytes([2]) * 32)
DOUBTS: dict[str, tuple[Callable[[bytes], bytes], str, str | None]] = {
    "unsigned": (
        lambda record: record,
        "the unit's cache entry is not signed, but HATCH_CUBIN_REQUIRE_SIGNED requires a signature",
        None,
    ),
    "untrusted": (
        lambda record: record + STRANGER.sign(RECORD, record),
        f"the unit's cache entry is signed with a key that is not in trusted-keys: {STRANGER.key}",
        STRANGER.key,
    ),
    "forged": (
        lambda record: record + TRUSTED.sign(RECORD, record + b" "),
        f"the signature of the unit's cache entry was made for other bytes: {TRUSTED.key}",
        TRUSTED.key,
    ),
}


@pytest.mark.parametrize("reason", DOUBTS)
def test_what_no_trusted_key_has_signed_is_told_with_its_reason(
    explain: Explain, baked: Path, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    signed, said, key = DOUBTS[reason]
    for path in Path(os.environ["HATCH_CUBIN_CACHE_DIR"]).glob("entries/*/*"):
        if b'"kernels"' in (data := path.read_bytes()):
            path.write_bytes(signed(data))
    configure(baked, ("define =", f'trusted-keys = ["{TRUSTED.key}"]\ndefine ='))
    monkeypatch.setenv("HATCH_CUBIN_REQUIRE_SIGNED", "1")
    assert explain("red")[:2] == ["miss  red[BLOCK=64], red[BLOCK=128] for sm_90", f"      {said}"]
    units = json.loads("\n".join(explain("red", "--json")))["units"]
    assert {(unit["reason"], unit["signed_with"]) for unit in units} == {(reason, key)}


def test_programs_get_all_of_it(explain: Explain, baked: Path) -> None:
    units = {unit["arch"]: unit["key"] for unit in json.loads("\n".join(explain("k", "--json")))["units"]}
    header = baked / "demo/deep/b.cuh"
    before = hashlib.sha256(header.read_bytes()).hexdigest()
    header.write_text("#define B 2\n")
    answer = json.loads(
        "\n".join(explain("k", "--json", "--arch", "sm_80", "--gpu", "8.9", "--driver", "13.0"))
    )
    (unit,) = answer["units"]
    assert unit["key"] not in units.values()
    assert answer == {
        "format": 1,
        "verb": "explain",
        "errors": [],
        "source": "demo/k.cu",
        "produced_by": None,
        "cache": os.environ["HATCH_CUBIN_CACHE_DIR"],
        "toolchain": f"NVRTC {Toolkit(None).nvrtc}",
        "units": [
            {
                "module": "k",
                "arch": "sm_80",
                "state": "miss",
                "key": unit["key"],
                "reason": "differs",
                "signed_with": None,
                "nearest": {"key": units["sm_80"], "path": "demo/k.cu", "arch": "sm_80"},
                "differences": [
                    {
                        "input": "header",
                        "name": "project/demo/deep/b.cuh",
                        "was": before,
                        "now": hashlib.sha256(header.read_bytes()).hexdigest(),
                    }
                ],
            }
        ],
        "archs": [
            {"spec": spec, "where": "pyproject.toml:10", "own": False, "gives": [spec], "left_out": []}
            for spec in ("sm_80", "sm_90")
        ],
        "arch": {"arch": "sm_80", "built": True, "why": "'sm_80' (pyproject.toml:10) includes this arch"},
        "gpu": {
            "cc": "8.9",
            "driver": "13.0",
            "newest": Toolkit(None).nvrtc.rpartition(".")[0],
            "modules": [
                {
                    "module": "k",
                    "arch": "sm_80",
                    "rule": "same major, lower minor",
                    "needs": "13.0",
                    "certain": True,
                    "why": None,
                    "absent_kernels": [],
                }
            ],
        },
    }


def test_an_arch_is_asked_about(explain: Explain, baked: Path) -> None:
    assert explain("k", "--arch", "sm_89") == [
        "sm_89 is not built for demo/k.cu: no entry of archs (pyproject.toml:10) includes this arch",
        *ARCHS,
    ]
    assert explain("k", "--arch", "sm_80") == [
        "sm_80 is built for demo/k.cu: 'sm_80' (pyproject.toml:10) includes this arch",
        "hit   k for sm_80",
        *ARCHS,
    ]


def test_archs_that_ptx_cannot_serve_are_shown(explain: Explain, root: Path) -> None:
    configure(root, ('archs = ["sm_80", "sm_90"]', 'archs = ["all-major"]'))
    (line,) = explain("copy")[2:]
    assert line.startswith("archs  'all-major' (pyproject.toml:10) gives sm_80 sm_90 ")
    assert line.endswith(" compute_80, not sm_75")
    reason = "demo/copy.ptx: not built for sm_75, which cannot run PTX with .target sm_80"
    assert explain("copy", "--arch", "sm_75") == [f"sm_75 is not built for demo/copy.ptx: {reason}", line]
    (unit,) = json.loads("\n".join(explain("copy", "--json")))["archs"]
    assert unit["left_out"] == [{"arch": "sm_75", "why": reason}]


def test_the_variable_stands_for_the_tables_archs(
    explain: Explain, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_ARCHS", "sm_100")
    assert explain("k")[2:] == ["archs  'sm_100' (HATCH_CUBIN_ARCHS)"]
    why = "no entry of archs (HATCH_CUBIN_ARCHS) includes this arch"
    assert explain("k", "--gpu", "9.0")[0] == f"k on 9.0: nothing; {why}"


@pytest.mark.parametrize(
    ("asked", "line"),
    [
        (["k", "--gpu", "8.9"], "k on 8.9: sm_80 (same major, lower minor); needs driver 13.0"),
        (["k", "--gpu", "sm_90a"], "k on 9.0: sm_90 (exact); needs driver 13.0"),
        (
            ["k", "--gpu", "90", "--driver", "12.9"],
            "k on 9.0 with driver 12.9: nothing; with a newer driver, the GPU would load sm_90: 13.0",
        ),
        (
            ["k", "--gpu", "12.0"],
            "k on 12.0: nothing; no entry of archs (pyproject.toml:10) includes this arch",
        ),
        (
            ["red", "--gpu", "9.0"],
            "red[BLOCK=64], red[BLOCK=128] on 9.0: sm_90 (exact); needs driver 13.0",
        ),
    ],
)
def test_a_gpu_is_asked_about(explain: Explain, baked: Path, asked: list[str], line: str) -> None:
    assert Toolkit(None).major == 13
    assert explain(*asked)[0] == line
    assert not [each for each in explain(*asked) if each.startswith("archs")]


def test_a_kernel_that_the_source_defines_for_some_archs(explain: Explain, root: Path) -> None:
    newer = "#if __CUDA_ARCH__ >= 900\n{}#endif\n".format(RED.replace("BLOCK", "1"))
    (root / "demo/k.cu").write_text(f"{K}{newer}")
    (root / "demo/red.cu").unlink()
    configure(root, (OPTIONS[OPTIONS.index("[[") :], ""))
    assert explain("red", "--gpu", "8.0")[0] == "k on 8.0: sm_80 (exact); needs driver 13.0"  # not compiled
    assert main(["bake", "--project", str(root)]) == 0
    for gpu in ("8.0", "8.6"):
        why = "the code for sm_80 does not contain the kernel red"
        assert explain("red", "--gpu", gpu)[0] == f"k on {gpu}: nothing; {why}"
    assert explain("red", "--gpu", "9.0")[0] == "k on 9.0: sm_90 (exact); needs driver 13.0"
    assert (
        explain("red", "--gpu", "7.5")[0]
        == "k on 7.5: nothing; no entry of archs (pyproject.toml:10) includes this arch"
    )
    absent = "the code for sm_80 does not contain red"
    assert explain("demo/k.cu", "--gpu", "8.0")[0] == f"k on 8.0: sm_80 (exact); needs driver 13.0; {absent}"


def test_what_ptx_needs_is_known_once_it_is_compiled(explain: Explain, root: Path) -> None:
    configure(root, ('archs = ["sm_80", "sm_90"]', 'archs = ["compute_80"]'))
    newest = Toolkit(None).nvrtc.rpartition(".")[0]
    rule = "compute_80 (PTX, translated by the driver)"
    assert explain("k", "--gpu", "8.9")[0] == f"k on 8.9: {rule}; driver {newest} is new enough"
    assert explain("k", "--gpu", "8.9", "--driver", "13.0")[0] == (
        f"k on 8.9 with driver 13.0: {rule}, if the driver is new enough: the required driver "
        "version is known only after a compile"
    )
    assert explain("copy", "--gpu", "8.9")[0] == f"copy on 8.9: {rule}; needs driver 11.0"
    assert main(["bake", "--project", str(root), "--only", "k"]) == 0
    assert explain("k", "--gpu", "8.9")[0] == f"k on 8.9: {rule}; needs driver {newest}"


def test_a_source_may_be_named_by_its_whole_path(explain: Explain, root: Path) -> None:
    assert explain(str(root / "demo" / "k.cu")) == explain("demo/k.cu")


def test_a_source_of_a_root_may_be_named_by_the_way_to_it(explain: Explain, root: Path) -> None:
    write_tree(root, {"../shared/s.cu": K.replace('#include "a.cuh"', "")})
    configure(root, ("define", 'sources = ["**/*.cu", "csrc/*.cu"]\nsource-roots.csrc = "../shared"\ndefine'))
    found = explain("csrc/s.cu")
    assert found[0] == "miss  s for sm_80, sm_90"
    assert explain("../shared/s.cu") == explain(str(root / "../shared/s.cu")) == found


def test_a_driver_without_a_gpu_is_wrong_usage(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert refusal(SystemExit, main, ["explain", "--project", str(root), "k", "--driver", "13.0"]).code == 2
    assert capsys.readouterr().err.endswith("hatch-cubin explain: error: --driver needs --gpu\n")


@pytest.mark.parametrize(
    ("asked", "hint"),
    [
        ("demo/kk.cu", "did you mean 'demo/k.cu' or 'demo/red.cu'?"),
        ("demo/sub/red.cu", "did you mean 'demo/red.cu'?"),
        ("redd", "did you mean 'red'?"),
        ("nothing of the kind", "'hatch-cubin plan' lists all sources"),
        ("demo/deep/b.cuh", "this file is a header that these sources include: demo/k.cu"),
        (
            "demo/__init__.py",
            "the file exists, but it is not a .cu or .ptx file, or 'sources' or 'exclude' leaves it out",
        ),
    ],
)
def test_a_wrong_name_is_guessed(root: Path, command: Command, asked: str, hint: str) -> None:
    ended = command("explain", "--project", root, asked)
    assert ended.code == 1
    what = f"{asked!r} is not a source, a module or a kernel of this project"
    assert ended.err == f"hatch-cubin: error: {what} [unknown-name]\n  hint: {hint}\n"


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("--arch=89", "argument --arch: '89' is not a single arch: write the arch as sm_89 or compute_89"),
        ("--arch=sm_x", f"argument --arch: 'sm_x' is not an arch; write {_SOME_ARCHS}"),
        ("--arch=h100", "argument --arch: 'h100' is not an arch, did you mean 'sm_90'?"),
        ("--arch=sm_900", "argument --arch: 'sm_900' is not an arch, did you mean 'sm_90'?"),
        ("--gpu=x", "argument --gpu: 'x' is not a compute capability: write a capability such as 8.9"),
        ("--gpu=H100", "argument --gpu: 'H100' is not a compute capability: did you mean 9.0?"),
        (
            "--gpu=ampere",
            "argument --gpu: 'ampere' is not a compute capability: did you mean 8.0 or 8.6 or 8.7?",
        ),
        (
            "--driver=580.65",
            (
                "argument --driver: '580.65' is not a CUDA version: "
                "write the version that nvidia-smi shows, for example 13.0"
            ),
        ),
    ],
)
def test_a_wrong_value_names_its_option(option: str, complaint: str, command: Command) -> None:
    ended = command("explain", "k", option)
    assert ended.code == 2
    assert ended.err.endswith(f"hatch-cubin explain: error: {complaint}\n")


KERNELS = {
    "demo/scale.cu": "template <class T, int N> __global__ void scale(T *x) { *x *= N; }\n",
    "demo/two.cu": 'extern "C" __global__ void\n__launch_bounds__(64) fill(int *x) { *x = 2; }\n',
    "demo/three.cu": 'extern "C" __global__ void fill(int *x) { *x = 3; }\n',
    "demo/by_header.cu": '#include "kernel.cuh"\n',
    "demo/kernel.cuh": 'extern "C" __global__ void of_header(int *x) { *x = 3; }\n',
    "demo/first.cu": "__device__ int next(int);\n"
    'extern "C" __global__ void linked(int *x) { *x = next(1); }\n',
    "demo/second.cu": "__device__ int next(int n) { return n + 1; }\n",
}
TABLES = """\
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/scale.cu"
instantiate = ["scale<float, 4>", "scale<unsigned int, 2>"]
[[tool.hatch.build.hooks.cubin.module]]
name = "both"
sources = ["demo/first.cu", "demo/second.cu"]
mode = "rdc"
archs = ["sm_90"]
"""


@pytest.mark.parametrize(
    ("asked", "modules"),
    [
        ("scale<float, 4>", ["scale"]),
        (" scale < unsigned  int,2 >", ["scale"]),
        ("scale", ["scale"]),
        ("red[BLOCK=64]", ["red[BLOCK=64]"]),
        ("red[ BLOCK = 128 ]", ["red[BLOCK=128]"]),
        ("of_header", ["by_header"]),
        ("linked", ["both"]),
        ("copy", ["copy"]),
    ],
)
def test_a_kernel_names_its_units(root: Path, command: Command, asked: str, modules: list[str]) -> None:
    write_tree(root, {"pyproject.toml": pyproject(OPTIONS + TABLES), **KERNELS})
    if asked == "of_header":  # no source of the project says which that is, only what was compiled
        assert command("bake", "--project", root, "--only", "by_header").code == 0
    ended = command("explain", "--project", root, asked, "--json")
    assert ended.code == 0
    units = json.loads(ended.out)["units"]
    assert list(dict.fromkeys(unit["module"] for unit in units)) == modules


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        (
            "fill",
            (
                "'fill' is a kernel of several sources"
                " [kernel-in-several-sources]\n  hint: name one of these sources: demo/three.cu, demo/two.cu"
            ),
        ),
        (
            "scale<float, 8>",
            "'scale<float, 8>' is not a source, a module or a kernel of this",
        ),
    ],
)
def test_a_kernel_that_names_no_source_is_told(
    root: Path, capsys: pytest.CaptureFixture[str], asked: str, complaint: str
) -> None:
    write_tree(root, {"pyproject.toml": pyproject(OPTIONS + TABLES), **KERNELS})
    with pytest.raises(SystemExit):
        main(["explain", "--project", str(root), asked])
    assert capsys.readouterr().err.startswith(f"hatch-cubin: error: {complaint}")


def test_a_wheel_is_left_to_other_verbs(command: Command) -> None:
    answer = command("explain", "dist/demo-1.0-py3-none-any.whl")
    assert answer.errors == [Coded("unknown-name", "", "'dist/demo-1.0-py3-none-any.whl' is a wheel")]
    assert "'hatch-cubin inspect WHEEL'" in answer.err
    assert "'hatch-cubin check WHEEL'" in answer.err


def test_a_call_of_a_library_is_named_by_the_first_digits_of_its_key(
    root: Path, explain: Explain, capsys: pytest.CaptureFixture[str]
) -> None:
    source = '[[tool.hatch.build.hooks.cubin.source]]\npath = "demo/call.cu"\nas = "cupy"\n'
    (root / "demo/call.cu").write_text("__global__ void f() {}\n")
    (root / "pyproject.toml").write_text(
        pyproject(f'archs = ["sm_80"]\nsources = ["demo/call.cu"]\n{source}')
    )
    digits = text_key("cupy", [], "__global__ void f() {}\n")[:12]
    lines = explain("demo/call.cu")
    assert f"miss  cupy:{digits} for sm_80" in lines
    assert explain(digits) == explain(f"cupy:{digits}") == lines
    assert main(["plan", "--project", str(root)]) == 0
    assert capsys.readouterr().out.startswith(f"cupy:{digits}  sm_80  miss  demo/call.cu  ")
