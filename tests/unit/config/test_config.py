"""The hook's table: every key, every refusal with its line, and what the environment replaces."""

from __future__ import annotations

import contextlib
import re
import textwrap
from collections.abc import Mapping
from pathlib import Path

import pytest

from hatch_cubin import __version__
from hatch_cubin.common import ed25519_keys
from hatch_cubin.config import nvidia_wheels, suggestions, table_location, toml_positions
from hatch_cubin.config.compiler_flags import INSPECT, REGISTERS
from hatch_cubin.config.config import (
    Config,
    ModuleRule,
    ProducerRule,
    SourceRule,
    TableLocation,
    merge_macros,
    parse_config,
)
from hatch_cubin.config.nvrtc_options import ALLOWED
from hatch_cubin.config.value_checks import WrittenInstantiation
from hatch_cubin.errors import ConfigError, Location, Problem
from hatch_cubin.toolkit import worker
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import TABLE, Coded, pyproject, read_config, refusal, write_tree

FIRST = pyproject("").count("\n") + 1  # the line of a table's first key
HOOK = f"[{'.'.join(TABLE)}]"
SOURCE = f"[[{'.'.join(TABLE)}.source]]"
PRODUCER = SOURCE.replace("source", "producer")
MODULE = f"[[{'.'.join(TABLE)}.module]]"
A_SOURCE = f'{SOURCE}\npath = "k.cu"\n'
A_MODULE = f'{MODULE}\nname = "m"\nsources = ["k.cu"]\nmode = "lto"\n'

PRODUCT = {"kernel": "fill<{T}, {N}>", "N": "2..4", "T": ["int", True]}
KEY = ed25519_keys.write(ed25519_keys.PUBLIC, bytes(range(32)))
PRIVATE = ed25519_keys.write(ed25519_keys.PRIVATE, bytes(range(32)))

ALL_OPTIONS = f"the options are: {', '.join(ALLOWED).replace('_', '-')}"
NO_EFFECT = "these flags would change nothing: leave 'options' out"
COPY_HEADERS = (
    "put the headers into a folder of the project, for example as a git submodule, and list this folder in "
    "'include-dirs'"
)
LEAVE_ARCHS = "remove 'archs': without this key, a build compiles for 'all-major'"
AUTOMATIC = "remove 'jobs': without this key, a build compiles on all cores of the processor"
LINE = "(pyproject.toml:9)"
UNKNOWN = f"must be a CUDA version that hatch-cubin {__version__} knows, not"
NOT_REPLACED = "begins with a variable, but variables inside values are not replaced"
OUTSIDE = "must be a relative path inside the project"
NO_TOOLKIT = "must be a CUDA version such as '13', '13.0', '12.9' or '13.0.2', or 'system', not"


def problems(options: str, environ: Mapping[str, str] | None = None) -> list[Problem]:
    """Return what is wrong with a table, in the order found."""
    return list(refusal(ConfigError, read_config, options, environ).problems)


def coded(line: int, message: str) -> Coded:
    """Return what a problem in this line is equal to.

    In its message … stands for any text, and a code that is not `invalid-value` is at its end.
    """
    code = re.search(r" \[([a-z-]+)\]$", message)
    text = message if code else f"{message} [invalid-value]"
    values = (value.strip() for value in text.split("…"))
    return Coded(code[1] if code else "invalid-value", f"pyproject.toml:{line}", *values)


def messages(options: str) -> list[str]:
    return [str(problem) for problem in problems(options)]


def test_flags_that_other_keys_replace_are_told_beside_the_options() -> None:
    of_define = "macros are set with 'define', a key of hatch-cubin"
    (found,) = problems("options = ['-std=c++17', '-DN=4', '-DM', '-O3', '-lineinfo']")
    assert found.hint == f'{of_define}; for the other flags: options = {{ std = "c++17", lineinfo = true }}'
    (found,) = problems("options = '-DN=4'")
    assert found.hint == of_define
    (found,) = problems("options = ['-gencode', 'arch=compute_90,code=sm_90', '-D N=4', '-DM=\"a b\"']")
    assert found.hint == f"the archs to compile for are set with 'archs', a key of hatch-cubin; {of_define}"


def only_message(options: str) -> str:
    """Return the one message about a table's first line, without its place."""
    (problem,) = problems(options)
    assert problem.where == Location("pyproject.toml", FIRST)
    return problem.what


@pytest.mark.parametrize(
    ("options", "line", "what", "mark"),
    [
        ('define = { N = "…" }', 0, "define: '…'", "…"),
        ('include-dirs = ["include", "..."]', 0, "include-dirs: '...'", "..."),
        ('remote-cache = "https://…"', 0, "remote-cache: 'https://…'", "…"),
        (f'{A_SOURCE}name = "…"', 2, "name: '…'", "…"),
        (f'{A_SOURCE}instantiate = ["scale<float, …>"]', 2, "instantiate: 'scale<float, …>'", "…"),
        (f'{A_SOURCE}variants = {{ N = [1, "…"] }}', 2, "variants: '…'", "…"),
        (f'{SOURCE}\npath = "..."', 1, "path: '...'", "..."),
    ],
)
def test_a_placeholder_that_was_pasted_along_with_a_hint_is_refused(
    options: str, line: int, what: str, mark: str
) -> None:
    told = f"{what} still contains a placeholder"
    hint = f"replace the {mark} by a real value"
    where = Location("pyproject.toml", FIRST + line)
    assert problems(options) == [Problem(told, where, hint, code="placeholder-not-replaced")]


@pytest.mark.parametrize(
    "options", ["define = { N = '\"wait…\"' }", f'{A_SOURCE}instantiate = ["k<decltype(f(x...))>"]']
)
def test_text_with_three_dots_that_is_no_placeholder_is_read(options: str) -> None:
    read_config(options)


def test_an_empty_table_means_the_defaults() -> None:
    config = read_config()
    assert config == Config(place=config.place)
    assert (config.archs, config.sources) == (("all-major",), ("**/*.cu", "**/*.ptx", "**/*.tileir"))


def test_every_key_is_read() -> None:
    config = read_config(
        f"""\
        archs = ["sm_90a", "8.6+PTX", "all"]
        toolkit = "13.0.2"
        sources = ["kernels/**/*.cu"]
        exclude = ["**/wip_*"]
        package = "demo.gpu"
        include-dirs = ["include"]
        source-roots = {{ csrc = "../csrc", "t.2" = ".././../third//party/" }}
        header-packages = ["nvidia-cutlass", "a_b>=4,<5", "c == 1.*"]
        define = {{ N = 4, ON = true, OFF = false, X = 1.5, S = "float", "SQ(x)" = "x*x", E = "" }}
        options = {{ std = "c++20", max-register-count = 64, ptxas_options = ["-O1"] }}
        jobs = 3
        cache-dir = ".cache/cubins"
        cache-size = "2 GiB"
        max-size = "100 MB"
        trusted-keys = ["{KEY}"]
        ship-sources = true

        {SOURCE}
        path = "kernels/red.cu"
        name = "reduce"
        archs = ["sm_90"]
        include-dirs = ["other"]
        define = {{ N = 8, ON = false }}
        options = {{ lineinfo = true }}
        instantiate = [
          " scale<float, 4> ",
          {{ kernel = "fill<{{T}}, {{N}}>", N = "2..4", T = ["int", true] }},
        ]
        variants = {{ BLOCK = [128, "256", true, false], SCALAR = ["float"] }}
        """
    )
    assert config == Config(
        archs=("sm_90a", "8.6+PTX", "all"),
        toolkit="13.0.2",
        sources=("kernels/**/*.cu",),
        exclude=("**/wip_*",),
        package="demo.gpu",
        include_dirs=("include",),
        source_roots=(("csrc", "../csrc"), ("t.2", "../../third/party")),
        header_packages=("nvidia-cutlass", "a_b>=4,<5", "c == 1.*"),
        define=(("N", "4"), ("ON", "1"), ("X", "1.5"), ("S", "float"), ("SQ(x)", "x*x"), ("E", "")),
        options={"std": "c++20", "max_register_count": 64, "ptxas_options": ("-O1",)},
        jobs=3,
        cache_dir=".cache/cubins",
        cache_size=2 << 30,
        max_size=100_000_000,
        trusted_keys=(KEY,),
        ship_sources=True,
        source=(
            SourceRule(
                path="kernels/red.cu",
                name="reduce",
                archs=("sm_90",),
                include_dirs=("other",),
                define=(("N", "8"),),
                undefined=("ON",),
                options={"lineinfo": True},
                instantiate={
                    "scale<float, 4>": WrittenInstantiation(0, " scale<float, 4> "),
                    **{
                        f"fill<{kind}, {number}>": WrittenInstantiation(1, PRODUCT)
                        for kind in ("int", "true")
                        for number in (2, 3, 4)
                    },
                },
                variants=(("BLOCK", ("128", "256", "1", None)), ("SCALAR", ("float",))),
            ),
        ),
        place=config.place,
    )


def test_config_reports_every_problem_at_once_each_with_its_line() -> None:
    options = f"""\
        arch = ["sm_90"]
        archs = [
          "sm_90",
          "sm_1x",
          "native ",
        ]
        jobs = 0
        define = {{ T = 1, "1N" = 2 }}

        {SOURCE}
        variants = {{}}

        {SOURCE}
        path = "a.cu"
        [{SOURCE[2:-2]}.options]
        stdd = "c++20"
        """
    write = "write sm_90, sm_90a, compute_90, 90-real, 9.0+PTX or all-major"
    reserved = "cannot be a macro: NVRTC's built-in header uses this name, and no source would compile"
    assert problems(options) == [
        Problem(what, Location("pyproject.toml", FIRST + line), hint, code=code)
        for code, line, what, hint in [
            (
                "unknown-key",
                0,
                "'arch' is not an option of [tool.hatch.build.hooks.cubin]",
                "did you mean 'archs'?",
            ),
            ("unknown-arch", 3, f"archs: 'sm_1x' is not an arch; {write}", None),
            ("unknown-arch", 4, "archs: 'native ' is not an arch, did you mean 'native'?", None),
            ("invalid-value", 6, "jobs must be a whole number from 1 to 1024, not 0", AUTOMATIC),
            ("reserved-macro", 7, f"define.T {reserved}", None),
            ("invalid-value", 7, "define.1N is not a macro's name", None),
            (
                "invalid-value",
                10,
                "variants must be a table of arrays such as { BLOCK = [128, 256] }, not {}",
                None,
            ),
            (
                "missing-key",
                9,
                "this table also needs 'path'",
                'for example, in this table:\n    path = "**/*.cu"  # the sources to which the table applies',
            ),
            (
                "unknown-option",
                15,
                "options.stdd is not an option of cuda.core.ProgramOptions",
                "did you mean 'std'?",
            ),
        ]
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('archs = "sm_90"', "archs must be an array of strings, as in …, not 'sm_90'"),
        ("archs = [90]", "archs … [90]"),
        ("archs = []", "archs must name at least one arch"),
        ('archs = ["sm_90f"]', "archs: sm_90f does not exist: the first … sm_100f [unknown-arch]"),
        ("toolkit = 13", "toolkit must be a string that is not empty, not 13"),
        ('package = ""', "package … ''"),
        ('package = "my-pkg"', "package must be a dotted name such as 'mypkg' or 'mypkg.gpu', not 'my-pkg'"),
        ('package = "a..b"', "package … 'a..b'"),
        ("sources = [1]", "sources … [1]"),
        ('include-dirs = "include"', "include-dirs … 'include'"),
        ("define = []", "define must be a table of macros, not []"),
        (
            'define = { N = "a\\nb" }',
            r"define.N must be a boolean, a number or a one-line string, not 'a\nb'",
        ),
        (f"define = {{ N = {10**400} }}", f"define.N … 1{'0' * 136} … {'0' * 150}"),
        ("define = { N = inf }", "define.N must be a boolean, a number or a one-line string, not inf"),
        ("define = { N = [1] }", "define.N … [1]"),
        ("options = 1", "options must be a table such as { use-fast-math = true }, not 1"),
        ("options = { std = 17 }", "options.std must be a string, not 17"),
        ('options = { arch = "sm_90" }', "options.arch cannot be set: … 'archs' [option-not-allowed]"),
        (
            "options = { max-register-count = 1, max_register_count = 2 }",
            "options.max_register_count is set twice, in two spellings [option-set-twice]",
        ),
        ("jobs = true", "jobs must be a whole number from 1 to 1024, not True"),
        ('jobs = "4"', "jobs … '4'"),
        ("jobs = 1025", "jobs … 1025"),
        ("cache-dir = []", "cache-dir … []"),
        ('cache-dir = "a\\u0000"', r"cache-dir 'a\x00' has characters that no path should have"),
        ("cache-size = 4", "cache-size … 4"),
        ('ship-sources = "yes"', "ship-sources must be true or false, not 'yes'"),
        ("source = 1", f"source must be an array of tables, written as {SOURCE}"),
        ("source = [1]", f"source must be an array of tables, written as {SOURCE}"),
        ("module = [1]", f"module … {MODULE}"),
        ("sources = [{ path = 'a.cu' }]", "sources must be an array of strings"),
        ("sources = { path = 'a.cu' }", "sources must be an array of strings"),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(line: str, message: str) -> None:
    assert problems(line) == [coded(FIRST, message)]


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("toolkit = 13.0", 'toolkit = "13.0"'),
        ("toolkit = 13", 'toolkit = "13"'),
        *((f"toolkit = '{text}'", 'toolkit = "13.0"') for text in ("v13.0", "CUDA 13.0", "cu130", "==13.0")),
        ("toolkit = 'cuda12'", 'toolkit = "12"'),
        ("toolkit = 14.0", 'toolkit = "13.5"'),
        ("toolkit = '13.0.1.2.3'", 'toolkit = "13.0"'),
        ("toolkit = 'cu118'", 'toolkit = "12.9"'),
        ("toolkit = 11", 'toolkit = "12.9"'),
        ("toolkit = '13.x'", 'toolkit = "13"'),
        ("toolkit = 'latest'", 'toolkit = "13"'),
        ("toolkit = 'cuda-13.9'", 'toolkit = "13.5"'),
        ("toolkit = 'nightly'", None),
        ("toolkit = '13.'", None),
        ("archs = '80;90'", 'archs = ["80", "90"]'),
        ("archs = 'sm_90'", 'archs = ["sm_90"]'),
        ("archs = 'h100, sm_80'", 'archs = ["sm_90", "sm_80"]'),
        ("archs = [80, 90]", 'archs = ["80", "90"]'),
        ("archs = 9.0", 'archs = ["9.0"]'),
        ("archs = [90, 'sm_x']", None),
        ("archs = { sm_90 = true }", 'archs = ["sm_90"]'),
        ("toolkit = { version = '13.0' }", 'toolkit = "13.0"'),
        ("header-packages = { nvidia-cutlass = '4.2' }", 'header-packages = ["nvidia-cutlass"]'),
        ("archs = [true]", None),
        ("archs = []", None),
        (f"archs = 0x{'f' * 5000}", None),
        ("sources = 'src/*.cu'", 'sources = ["src/*.cu"]'),
        ("include-dirs = 'include'", 'include-dirs = ["include"]'),
        (f"include-dirs = '{'x' * 200}'", None),
        ('include-dirs = "a\\u007f"', None),
        ("include-dirs = [1]", None),
        ("include-dirs = { a = 1 }", 'include-dirs = ["a"]'),
        ("ship-sources = 'yes'", "ship-sources = true"),
        ("pack = 'on'", "pack = true"),
        ("provenance = 'maybe'", None),
        ("jobs = '4'", "jobs = 4"),
        ("jobs = 'many'", None),
        ('toolkit = ["13.0"]', 'toolkit = "13.0"'),
        ("toolkit = ['13.0', '12.9']", None),
        ('cache-dir = ["c"]', 'cache-dir = "c"'),
        ("cache-dir = [1]", None),
        ("package = 1", None),
        ("package = 'my-pkg.gpu'", 'package = "my_pkg.gpu"'),
        ("package = 'my pkg'", None),
        ("package = 'src/my-pkg/gpu/'", 'package = "my_pkg.gpu"'),
        ("package = 'python/pkg'", None),
        ("cache-size = '4 gb'", 'cache-size = "4 GB"'),
        ("cache-size = '2gib'", 'cache-size = "2 GiB"'),
        ("package = ['demo']", 'package = "demo"'),
        ("package = './demo/'", 'package = "demo"'),
        ("toolkit = '$CUDA_HOME'", 'toolkit = "system"'),
        ("toolkit = 'pip'", 'toolkit = "13"'),
        ("ship-sources = 0", "ship-sources = false"),
        ("cache-size = '2'", 'cache-size = "2 GB"'),
        ("cache-size = 2", 'cache-size = "2 GB"'),
        ("cache-size = 1.5", 'cache-size = "1.5 GB"'),
        ("cache-size = '2,5 gigabyte'", 'cache-size = "2.5 GB"'),
        ("cache-size = '2,5 g'", 'cache-size = "2.5 GB"'),
        ("cache-size = 2_000_000_000", 'cache-size = "2000 MB"'),
        ("cache-size = 2_000_000_001", 'cache-size = "2001 MB"'),
        ("cache-size = '200000000'", 'cache-size = "200000000 B"'),
        ("cache-size = '500 bytes'", 'cache-size = "500 B"'),
        ("max-size = '100'", 'max-size = "100 MB"'),
        ("max-size = 100", 'max-size = "100 MB"'),
        ('max-size = ["100 MB"]', 'max-size = "100 MB"'),
        ("cache-size = 'much'", None),
        ("max-size = '0 MB'", None),
        ("define = '-DN=4'", "define = { N = 4 }"),
        ("define = ['N=a b', '-D M']", 'define = { N = "a b", M = true }'),
        ("define = ['N 4']", None),
        ("define = []", None),
        ("define = 4", None),
        (
            "options = ['-std=c++17', '--use_fast_math', '-maxrregcount=32', '-G']",
            'options = { std = "c++17", use-fast-math = true, max-register-count = 32, debug = true }',
        ),
        ("options = '-lineinfo -O3'", "options = { lineinfo = true }"),
        ("options = '-lineinfo --no-such'", None),
        ("options = ['-maxrregcount', '64']", "options = { max-register-count = 64 }"),
        ("options = ['-std c++20', '-G']", 'options = { std = "c++20", debug = true }'),
        ("options = '-std c++20 -lineinfo'", 'options = { std = "c++20", lineinfo = true }'),
        ("options = { std = '-std=c++20' }", 'options = { std = "c++20" }'),
        (
            "options = ['-Xptxas', '-w,-O3', '-Xptxas', '-dlcm=ca']",
            'options = { ptxas-options = ["-w", "-O3", "-dlcm=ca"] }',
        ),
        (
            "options = '-O3 --use_fast_math -std=c++17 -lineinfo -Xptxas -w,-dlcm=ca -ftz=true'",
            (
                'options = { use-fast-math = true, std = "c++17", lineinfo = true, '
                'ptxas-options = ["-w", "-dlcm=ca"], ftz = true }'
            ),
        ),
        ("options = ['-ftz=true', '--fmad', 'false']", "options = { ftz = true, fma = false }"),
        ("options = ['-diag-suppress', '177,550']", "options = { diag-suppress = [177, 550] }"),
        (
            "options = ['-ccbin', 'g++', '-lineinfo', '--keep-dir', 'x']",
            "options = { lineinfo = true }",
        ),
        ("options = ['-G', 'lineinfo']", "options = { debug = true, lineinfo = true }"),
        ("options = ['-G', 'nonsense']", None),
        ("options = ['-std', 'nonsense']", None),
        ("options = ['-std', '+']", None),
        ("options = { std = 17, debug = true }", 'options = { std = "c++17", debug = true }'),
        ("options = { std = 'gnu++20' }", 'options = { std = "c++20" }'),
        ("options = { max-register-count = '64' }", "options = { max-register-count = 64 }"),
        ("options = { lineinfo = 'yes' }", "options = { lineinfo = true }"),
        ("options = { lineinfo = 'perhaps' }", None),
        ("options = { diag-suppress = ['177-D'] }", "options = { diag-suppress = [177] }"),
        ("options = { diag-warn = '#177-D, 550-D' }", "options = { diag-warn = [177, 550] }"),
        ("options = { diag-error = 'unused' }", None),
        ("options = { Xptxas = ['-Xptxas', '-w'] }", 'options = { ptxas-options = ["-w"] }'),
        ("options = { '--use_fast_math' = true }", "options = { use-fast-math = true }"),
        ("options = { ffast-math = 'on' }", "options = { use-fast-math = true }"),
        ("options = { maxrregcount = '64' }", "options = { max-register-count = 64 }"),
        ("options = { '-maxrregcount=64' = true }", "options = { max-register-count = 64 }"),
        ("options = { G = 1 }", "options = { debug = true }"),
        ("options = { fmad = 0 }", "options = { fma = false }"),
        ("options = { std = 'c++26' }", 'options = { std = "c++20" }'),
        ("options = { std = 'c++03' }", 'options = { std = "c++20" }'),
        ("options = { std = ['c++17'] }", 'options = { std = "c++17" }'),
        ("options = { Xptxas = '-w -O3' }", 'options = { ptxas-options = ["-w", "-O3"] }'),
        ("options = { Xptxas = ['-w'] }", 'options = { ptxas-options = ["-w"] }'),
        ("options = { extra-cuda-cflags = ['-lineinfo'] }", "options = { lineinfo = true }"),
        ("options = '-Xcompiler=-fPIC --use_fast_math'", "options = { use-fast-math = true }"),
        ("define = { '-DN' = 4 }", "define = { N = 4 }"),
        ("define = { 'N=4' = true, M = 1 }", "define = { N = 4, M = 1 }"),
        ("define = { '-D1' = 4, M = 3 }", None),
        ("define = [{ N = 4 }, { M = 'a' }]", 'define = { N = 4, M = "a" }'),
        ("options = '-lineinfo'", "options = { lineinfo = true }"),
        ("options = ['lineinfo']", "options = { lineinfo = true }"),
        ("options = ['lineinfo', 'nonsense']", None),
        (
            "options = [{ std = 'c++17' }, { lineinfo = true }]",
            'options = { std = "c++17", lineinfo = true }',
        ),
        ("options = [{ nonsense = 1 }]", None),
        ("options = 1", None),
    ],
)
def test_a_value_of_the_wrong_kind_is_shown_as_it_may_be_meant(line: str, meant: str | None) -> None:
    (problem,) = problems(line)
    assert problem.hint == meant
    if meant is not None:
        read_config(meant)


@pytest.mark.parametrize(
    ("options", "meant"),
    [
        ("{ ptxas-options = '-v' }", REGISTERS),
        ("{ ptxas-options = ['-O3', '-v'] }", REGISTERS),
        ("{ Xptxas = '-v' }", REGISTERS),
        ("{ Xptxas = '-v -O3' }", f'options = {{ ptxas-options = ["-O3"] }}; {INSPECT}'),
        ("{ '-Xptxas=-v' = true }", REGISTERS),
        ("{ res-usage = true }", REGISTERS),
        ("['-Xptxas', '-v']", REGISTERS),
        ("'--resource-usage'", REGISTERS),
        (
            "['-Xptxas', '-v', '--use_fast_math']",
            f"{REGISTERS}; for the other flags: options = {{ use-fast-math = true }}",
        ),
        (
            "['-Xptxas', '-v,-O3']",
            f'{REGISTERS}; for the other flags: options = {{ ptxas-options = ["-O3"] }}',
        ),
    ],
)
def test_a_flag_that_prints_registers_is_left_out_and_the_verb_is_named(options: str, meant: str) -> None:
    (problem,) = problems(f"options = {options}")
    assert problem.hint == meant


@pytest.mark.parametrize(
    ("arch", "meant"), [("sm_900", "sm_90"), ("compute_1000", "compute_100"), ("90.0", "sm_90")]
)
def test_an_arch_with_wrong_zeros_is_corrected(arch: str, meant: str) -> None:
    (problem,) = problems(f"archs = ['{arch}']")
    assert (problem.code, problem.what) == (
        "unknown-arch",
        f"archs: {arch!r} is not an arch, did you mean {meant!r}?",
    )
    assert read_config("archs = ['sm_130']").archs == ("sm_130",)  # later versions of CUDA may know it


def test_a_product_that_is_not_in_an_array_is_shown_in_one() -> None:
    (problem,) = problems(f"{SOURCE}\npath = 'a.cu'\ninstantiate = {{ kernel = 'k<{{T}}>', T = ['int'] }}")
    assert problem.hint == 'instantiate = [{ kernel = "k<{T}>", T = ["int"] }]'


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("archs = true", LEAVE_ARCHS),
        ("archs = 'auto'", LEAVE_ARCHS),
        ("jobs = true", AUTOMATIC),
        ("options = { O9 = true }", ALL_OPTIONS),
        ("options = { Xptxas = '--no-such' }", ALL_OPTIONS),
        ("options = { nvcc = '-O3' }", NO_EFFECT),
        ("options = { '-DN' = 4 }", "macros are set with 'define', a key of hatch-cubin"),
        (f"{SOURCE}\npath = 'a.cu'\ntemplates = ['k<int>']", "did you mean 'instantiate'?"),
        ("name_expressions = ['k<int>']", "did you mean '[[source]] with instantiate'?"),
        (f"{SOURCE}\npath = 'a.cu'\nname_expressions = ['k<int>']", "did you mean 'instantiate'?"),
        *(
            (
                f"{SOURCE}\npath = 'a.cu'\nvariants = {{ N = '{values}' }}",
                f"only 'instantiate' has ranges, so list each value: N = [{listed}]",
            )
            for values, listed in [
                ("0..3", "0, 1, 2, 3"),
                ("3 .. 0", "0, 1, 2, 3"),
                ("-1..1", "-1, 0, 1"),
                ("128..256", "128, 129, …, 256"),
            ]
        ),
        (f"{SOURCE}\npath = 'a.cu'\nfiles = ['b.cu']", "did you mean 'path'?"),
        ("options = { Xptxas = [1] }", ALL_OPTIONS),
        (
            "toolkit = ''",
            "remove 'toolkit': without this key, a build uses the installed NVRTC, or else the newest CUDA",
        ),
    ],
)
def test_a_value_without_a_right_line_has_another_hint(line: str, advice: str) -> None:
    (problem,) = problems(line)
    assert problem.hint == advice


@pytest.mark.parametrize(
    ("entry", "hint"),
    [("lib/f.cu", "move \"lib/f.cu\" to 'sources' of the same table"), ("lib/f.cpp", None)],
)
def test_a_source_is_not_linked_but_compiled(entry: str, hint: str | None) -> None:
    (problem,) = problems(f'{A_MODULE}link = ["{entry}"]')
    what = f"link: {entry!r} is a source, but 'link' is for files that are compiled already"
    assert (problem.what, problem.hint) == (what, hint)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("cuda-toolkit", "the CUDA toolkit already contains these headers: remove the entry"),
        ("cuda_core", "the CUDA toolkit already contains these headers: remove the entry"),
        ("mine.cuh", ""),
        ("cutlass", ""),
        ("cutlas", "did you mean 'nvidia-cutlass'?"),
        ("nvidia-cutlas", "did you mean 'nvidia-cutlass'?"),
        ("cuda-tookit", "the CUDA toolkit already contains these headers: remove the entry"),
        ("flashinfer", ""),
        ("curand", ""),
    ],
)
def test_a_library_or_a_header_is_not_the_name_of_a_distribution(name: str, value: str) -> None:
    (found,) = problems(f'header-packages = ["{name}"]')
    assert found == coded(FIRST, f"header-packages: {name!r} … {value} [not-a-header-package]")


@pytest.mark.parametrize(
    "flags", ["['--extended-lambda']", "'-O3 -Xcompiler=-fPIC'", "['-Xcompiler', '-fPIC', '-v']", "[]", "''"]
)
def test_flags_without_which_nothing_is_lost_are_left_out(flags: str) -> None:
    (problem,) = problems(f"options = {flags}")
    assert problem.hint == NO_EFFECT


@pytest.mark.parametrize(
    ("table", "home"),
    [
        ("define = { N = [1, 2] }", "source"),
        (f"{A_SOURCE}define = {{ N = [1, 2] }}", "source"),
        (f"{A_MODULE}define = {{ N = [1, 2] }}", "module"),
    ],
    ids=["everything", "source", "module"],
)
def test_several_values_of_a_macro_are_variants(table: str, home: str) -> None:
    (problem,) = problems(table)
    assert problem.hint == (
        "to build one module for each value, write this in "
        f"[[tool.hatch.build.hooks.cubin.{home}]]: variants = {{ N = [1, 2] }}"
    )


NOT_A_MACRO = "write it outside of the table 'define'"
OF_COMPILER = "is an option of the compiler: write the option in the table 'options'"


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("define = { archs = ['sm_90'] }", f"'archs' is an option of {HOOK}: {NOT_A_MACRO}"),
        ("define = { cache-dir = 'x' }", f"'cache-dir' is an option of {HOOK}: {NOT_A_MACRO}"),
        (
            f"{HOOK[:-1]}.define]\narchs = ['sm_90']",
            f"'archs' is an option of {HOOK}: write it above the header of the table 'define'",
        ),
        (
            f"{A_SOURCE}define = {{ instantiate = ['k<int>'] }}",
            f"'instantiate' is an option of [{HOOK[:-1]}.source]]: {NOT_A_MACRO}",
        ),
        (f"{A_SOURCE}define = {{ sources = ['x'] }}", f"'sources' is an option of {HOOK}"),
        ("define = { use-fast-math = true }", f"'use-fast-math' {OF_COMPILER}"),
        ("define = { std = 'c++20' }", f"'std' {OF_COMPILER}"),
        ("define = { mode = [1, 2] }", None),
    ],
)
def test_a_setting_in_the_table_of_macros(table: str, hint: str | None) -> None:
    (problem,) = problems(table)
    assert (problem.code in {"invalid-value", "reserved-macro"}, problem.hint) == (True, hint)


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("N = 4", "N is probably a macro: write it in the table 'define' instead of 'options'"),
        ("O9 = true", ALL_OPTIONS),
        ("'N-1' = 4", ALL_OPTIONS),
    ],
)
def test_a_macro_in_the_table_of_options(option: str, hint: str) -> None:
    (problem,) = problems(f"options = {{ {option} }}")
    assert (problem.code, problem.hint) == ("unknown-option", hint)


def test_values_that_no_variant_can_have_get_no_such_hint() -> None:
    (problem,) = problems("define = { N = [] }")
    assert problem.hint is None


@pytest.mark.parametrize("table", [A_SOURCE, A_MODULE], ids=["source", "module"])
def test_a_macro_has_one_value_or_several_in_one_table(table: str) -> None:
    (problem,) = problems(f"{table}define = {{ M = 1, N = 1 }}\nvariants = {{ N = [1, 2] }}")
    assert (problem.what, problem.hint) == (
        "define.N would change nothing: 'variants' gives N its values",
        "leave N out of 'define', or out of 'variants'",
    )


@pytest.mark.parametrize("undefined", ["'N'", "['M', 'N']"])
@pytest.mark.parametrize("table", ["", A_SOURCE, A_MODULE], ids=["everything", "source", "module"])
def test_a_macro_is_not_defined_and_taken_back_in_one_table(table: str, undefined: str) -> None:
    (problem,) = problems(f"{table}define = {{ L = 1, N = 1 }}\noptions = {{ undefine-macro = {undefined} }}")
    assert (problem.what, problem.hint) == (
        "define.N would change nothing: the option 'undefine-macro' removes N again",
        "leave N out of 'define', or out of 'undefine-macro'",
    )


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("variants = [{ N = 1 }, { N = 2, M = 'a' }]", 'variants = { N = [1, 2], M = ["a"] }'),
        ("variants = [1]", None),
        ("variants = ['N=1', 'N=2']", "variants = { N = [1, 2] }"),
        ("variants = ['1']", None),
        ("variants = { N = '128, 256' }", "variants = { N = [128, 256] }"),
        ("variants = { T = 'float,half' }", None),
        ("variants = { N = 'x,' }", 'variants = { N = ["x,"] }'),
        ("variants = {}", None),
        ("variants = { N = 1, M = [2, 3] }", "variants = { N = [1], M = [2, 3] }"),
        ("variants = { N = [] }", None),
        ("variants = { N = 1979-05-27 }", None),
        ("variants = { N = inf }", None),
        ("variants = { N = { min = 1, max = 4 } }", None),
    ],
)
def test_variants_are_shown_as_they_may_be_meant(line: str, meant: str | None) -> None:
    (problem,) = problems(f"{SOURCE}\npath = 'a.cu'\n{line}")
    assert problem.hint == meant
    if meant is not None:
        read_config(f"{SOURCE}\npath = 'a.cu'\n{meant}")


def test_a_hint_has_no_value_that_is_refused_itself() -> None:
    found = problems("options = { gencode = 'x', rdc = true, std = 17, maxrregcount = 32, lineinfo = true }")
    right = 'options = { std = "c++17", max-register-count = 32, lineinfo = true }'
    assert [each.hint for each in found if each.hint and each.hint.startswith("options")] == [right, right]
    read_config(right)


@pytest.mark.parametrize("value", ["'auto'", "'all'", "0", "-1", "''"])
@pytest.mark.parametrize("key", ["jobs", "cache-size", "max-size"])
def test_a_limit_that_is_none_is_left_out(key: str, value: str) -> None:
    (problem,) = problems(f"{key} = {value}")
    assert problem.hint is not None
    assert problem.hint.startswith("remove ")


@pytest.mark.parametrize(
    ("table", "lines", "hint"),
    [
        ("options", "std = 17", 'std = "c++17"'),
        ("options", "maxrregcount = 32", "max-register-count = 32"),
        ("define", "'-DN' = 4", "N = 4"),
    ],
)
def test_below_a_header_of_its_own_a_hint_is_one_key(table: str, lines: str, hint: str) -> None:
    header = f"[{'.'.join(TABLE)}.{table}]"
    (problem,) = problems(f"{header}\n{lines}")
    assert problem.hint == hint
    read_config(f"{header}\n{hint}")


def test_below_a_header_of_its_own_several_macros_are_several_lines() -> None:
    header = f"[{'.'.join(TABLE)}.define]"
    (problem,) = problems(f"{header}\nN = '4 -DM=3'")
    assert problem.hint == 'write one line for each macro: N = "4" and M = "3"'


@pytest.mark.parametrize("flag", ["Xcompiler", "gencode", "O3", "rdc", "I", "extended_lambda", "defines"])
def test_a_flag_that_is_no_option_has_a_remedy(flag: str) -> None:
    (problem,) = problems(f"options = {{ {flag} = true }}")
    assert problem.hint is not None
    assert "did you mean" not in problem.hint
    (problem,) = problems(f"{flag} = true")
    assert problem.hint is not None


def test_an_array_of_tables_that_is_called_sources_is_told_its_name() -> None:
    (problem,) = problems(f"[[{'.'.join(TABLE)}.sources]]\npath = 'k.cu'")
    assert problem.hint == f"did you mean {SOURCE}?"


@pytest.mark.parametrize(
    ("toolkit", "key", "right"),
    [
        ("13.0", "header-packages = ['nvidia-curand-cu12']", "'nvidia-curand'"),
        ("13.0", "header-packages = ['nvidia_curand_cu12==10.*']", "'nvidia-curand'"),
        ("13.0", "header-packages = ['nvidia-curand-cu13']", "'nvidia-curand'"),
        ("13.0", "header-packages = ['nvidia-cudnn-cu12']", "'nvidia-cudnn-cu13'"),
        ("13.0", "header-packages = ['cupy-cuda12x']", "'cupy-cuda13x'"),
        ("12.9", "header-packages = ['nvidia-curand']", "'nvidia-curand-cu12'"),
        ("12.9", "header-packages = ['nvidia-nccl-cu13']", "'nvidia-nccl-cu12'"),
        ("12.9", "header-packages = ['nvidia-curand-cu12', 'nvidia-nccl-cu12', 'nvidia-cutlass']", None),
        ("13", "header-packages = ['nvidia-curand', 'nvidia-cudnn-cu13', 'cupy-cuda13x']", None),
        ("system", "header-packages = ['nvidia-curand-cu12']", None),
        ("13.0", "link = ['nvidia-cuda-runtime-cu12:**/libcudadevrt.a']", "'nvidia-cuda-runtime'"),
        ("12.9", "link = ['nvidia-cuda-runtime:**/libcudadevrt.a']", "'nvidia-cuda-runtime-cu12'"),
        ("12.9", "link = ['nvidia-cuda-runtime-cu12:**/libcudadevrt.a', 'a.cubin']", None),
    ],
)
def test_a_wheel_of_another_cuda_is_refused_with_the_right_one(
    toolkit: str, key: str, right: str | None
) -> None:
    module = f"{MODULE}\nname = 'm'\nsources = ['a.cu']\nmode = 'rdc'\n" if key.startswith("link") else ""
    options = f"toolkit = '{toolkit}'\n{module}{key}"
    if right is None:
        read_config(options)
    else:
        (problem,) = problems(options)
        assert problem.what.endswith(f"the wheel for that version is {right}")


def test_the_cuda_of_the_environment_decides_which_wheels_are_right() -> None:
    table = "toolkit = '13.0'\nheader-packages = ['nvidia-curand-cu12']"
    assert read_config(table, {"HATCH_CUBIN_TOOLKIT": "12.9"}).header_packages == ("nvidia-curand-cu12",)


@pytest.mark.parametrize("entry", ["-lcublas", "-L/opt/lib", "cufft", "lib/libcurand.so.10", "libfoo.so"])
def test_a_library_of_the_host_cannot_be_linked(entry: str) -> None:
    assert suggestions.link(entry, 13) == nvidia_wheels.HOST_LIBRARY
    assert suggestions.link("libcusolverdx.a", 13) is None


def test_a_flag_for_a_library_is_refused_with_what_can_be_linked() -> None:
    module = f"{MODULE}\nname = 'm'\nsources = ['a.cu']\nmode = 'rdc'\n"
    (problem,) = problems(f"{module}link = ['-lcublas']")
    assert problem.hint == nvidia_wheels.HOST_LIBRARY


@pytest.mark.parametrize("address", ["my-bucket/cubins", "s3.example.org/x", "localhost:8080", "bucket"])
def test_an_address_without_a_scheme_gets_one(address: str) -> None:
    (in_table,) = problems(f"remote-cache = '{address}'")
    (in_variable,) = problems("", {"HATCH_CUBIN_REMOTE": address})
    assert in_table.hint == in_variable.hint == suggestions._SCHEMES
    assert read_config(f"remote-cache = 'https://{address}'").remote_cache
    assert problems("remote-cache = 'ftp://x'")[0].hint is None


@pytest.mark.parametrize("address", ["/mnt/team/cubins", "~/cubins", "./cubins", "file:///mnt/team"])
def test_a_folder_is_not_a_remote_cache(address: str) -> None:
    (in_table,) = problems(f"remote-cache = '{address}'")
    (in_variable,) = problems("", {"HATCH_CUBIN_REMOTE": address})
    assert in_table.hint == in_variable.hint == suggestions._FOLDER


@pytest.mark.parametrize(
    "entry", ["-lcudadevrt", "cudadevrt:libcudadevrt.a", "nvidia-cuda-runtime", "C:\\lib\\x64\\cudadevrt.lib"]
)
@pytest.mark.parametrize(("toolkit", "end"), [("13.0", ""), ("12.9", "-cu12"), ("system", "; with CUDA 12 ")])
def test_the_device_runtime_is_told_as_it_is_linked(entry: str, toolkit: str, end: str) -> None:
    module = f"{MODULE}\nname = 'm'\nsources = ['a.cu']\nmode = 'rdc'\n"
    (problem,) = problems(f"toolkit = '{toolkit}'\n{module}link = ['{entry}']")
    assert problem.hint is not None
    line, semicolon, _other = problem.hint.partition(";")
    assert end in problem.hint
    assert bool(semicolon) is (toolkit == "system")
    read_config(f"toolkit = '{toolkit}'\n{module}{line}")


@pytest.mark.parametrize(
    ("entry", "hint"),
    [
        ("nvidia-cutlass=4.0", 'write "nvidia-cutlass==4.0"'),
        ("nvidia-cutlass 4.0", 'write "nvidia-cutlass==4.0"'),
        ("nvidia-cutlass[x]@4.0", 'write "nvidia-cutlass==4.0"'),
        (
            "./third_party/cutlass",
            'for headers in a folder of the project, write: include-dirs = ["third_party/cutlass"]',
        ),
        ("cutlass/cutlass.h", "did you mean 'nvidia-cutlass'?"),
        ("inc/own.h", 'for headers in a folder of the project, write: include-dirs = ["inc"]'),
        ("../cutlass/include", None),
        ("a;b", 'write "a"'),
        ("nvidia-cutlass @ https://example.org/c.whl", 'write "nvidia-cutlass"'),
        ("nvidia-cutlass[x]", 'write "nvidia-cutlass"'),
        ("git+https://example.org/cutlass", COPY_HEADERS),
    ],
)
def test_what_is_no_header_package_is_shown_as_it_may_be_meant(entry: str, hint: str | None) -> None:
    (problem,) = problems(f"header-packages = ['{entry}']")
    assert problem.hint == hint


def test_a_key_of_the_table_whose_header_is_not_written_is_sent_below_a_new_one() -> None:
    header = "[[tool.hatch-cubin.source]]"
    place = TableLocation("pyproject.toml", f"{header}\npath = 'a.cu'\njobs = 4", ("tool", "hatch-cubin"))
    with pytest.raises(ConfigError) as caught:
        parse_config({"source": [{"path": "a.cu", "jobs": 4}]}, place, {})
    (problem,) = caught.value.problems
    own = "[tool.hatch-cubin]"
    assert (
        problem.hint
        == f"'jobs' is an option of {own}: move the line out of {header}, below a new header {own}"
    )


@pytest.mark.parametrize(
    ("line", "macros"),
    [
        ("define = { N = '4 -DM=3' }", (("N", "4"), ("M", "3"))),
        ("define = { N = '4 -D M=3 -DL=a', K = 2 }", (("N", "4"), ("M", "3"), ("L", "a"), ("K", "2"))),
        ("define = { N = '-DN=4' }", (("N", "4"),)),
        ("define = { N = '-DM=4' }", (("M", "4"),)),
        ("define = ['-DN=4 -DM -DL=a']", (("N", "4"), ("M", "1"), ("L", "a"))),
        ("define = '-DN=4 -DM=3'", (("N", "4"), ("M", "3"))),
    ],
)
def test_several_macros_in_one_value_are_shown_apart(line: str, macros: tuple[tuple[str, str], ...]) -> None:
    (problem,) = problems(line)
    assert problem.hint is not None
    assert read_config(problem.hint).define == macros
    (problem,) = problems(f"{SOURCE}\npath = 'a.cu'\n{line}")
    assert read_config(f"{SOURCE}\npath = 'a.cu'\n{problem.hint}").source[0].define == macros


@pytest.mark.parametrize("value", ["4 -D", "a -DM", "a -DM==3", "x-DM=3"])
def test_a_value_with_a_minus_sign_is_one_macro(value: str) -> None:
    assert read_config(f"define = {{ N = '{value}' }}").define == (("N", value),)


def test_a_second_macro_that_cannot_be_defined_has_no_line() -> None:
    (problem,) = problems("define = { N = '4 -DT=3' }")
    assert problem.hint is None


@pytest.mark.parametrize(
    ("options", "hint"),
    [
        ("mode = 'rdc'", f"'mode' is an option of {MODULE}"),
        ("link = []", f"'link' is an option of {MODULE}"),
        (f"{SOURCE}\npath = 'a.cu'\nmode = 'rdc'", f"'mode' is an option of {MODULE}"),
        (f"{SOURCE}\npath = 'a.cu'\nsources = ['a.cu']", "did you mean 'path'?"),
        (
            "options = { define = {} }",
            f"'define' is an option of {HOOK}: write it outside of the table 'options'",
        ),
        (
            f"[{HOOK[1:-1]}.options]\nheader_packages = []",
            f"'header-packages' is an option of {HOOK}: write it above the header of the table 'options'",
        ),
        ("options = { instantiate = [] }", f"'instantiate' is an option of {SOURCE}"),
        (
            f"{SOURCE}\npath = 'a.cu'\n[{HOOK[1:-1]}.source.options]\narchs = []",
            f"'archs' is an option of {SOURCE}: write it above the header of the table 'options'",
        ),
        (
            "maxrregcount = 64",
            "'max-register-count' is an option of the compiler: write the option in the table 'options'",
        ),
        ("architectures = []", "did you mean 'archs'?"),
        ("gpu = 'H100'", "did you mean 'archs'?"),
        ("instantiate = ['f<int>']", f"'instantiate' is an option of {SOURCE}"),
        ("variants = { N = [1] }", f"'variants' is an option of {SOURCE}"),
        (
            f"{SOURCE}\npath = 'a.cu'\njobs = 4",
            f"'jobs' is an option of {HOOK}: move the line from {SOURCE} to the lines below {HOOK} {LINE}",
        ),
        (
            f"{MODULE}\nname = 'm'\nmode = 'rdc'\nsources = ['a.cu']\ncache-size = '2 GB'",
            (
                f"'cache-size' is an option of {HOOK}: "
                f"move the line from {MODULE} to the lines below {HOOK} {LINE}"
            ),
        ),
        *(
            (
                f"{key} = true",
                f"{key!r} is an option of the compiler: write the option in the table 'options'",
            )
            for key in ("lineinfo", "use-fast-math")
        ),
    ],
)
def test_a_key_of_another_table_is_sent_there(options: str, hint: str) -> None:
    (problem,) = problems(options)
    assert problem.hint == hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("path = ''", "path … ''"),
        ("path = '../a.cu'", f"path '../a.cu' {OUTSIDE} [path-leaves-project]"),
        ("jobs = 3", f"'jobs' is not an option of {SOURCE} [unknown-key]"),
        ("name = 'a/b'", "name must be a plain name, not 'a/b'"),
        ("name = 'a[b]'", "name … 'a[b]'"),
        ("archs = []", "archs must name at least one arch"),
        ("instantiate = ['a', ' ']", "instantiate: ' ' is not the name of a kernel, such …"),
        ("instantiate = ['scale<{T}>']", "instantiate: 'scale<{T}>' has a placeholder …"),
        ("variants = 1", "variants must be a table of arrays such as { BLOCK = [128, 256] }, not 1"),
        (
            "instantiate = ['float']",
            "instantiate: 'float' is a type: write the kernel's name too, as in 'scale<float>'",
        ),
        ("instantiate = ['unsigned long']", "instantiate: 'unsigned long' is a type …"),
        ("variants.N = 1", "variants.N must be an array of at least one value, not 1"),
        ("variants.N = []", "variants.N … []"),
        ("variants.N = [[]]", "variants.N must be a boolean, a number or a one-line string, not []"),
        ("variants.1N = [1]", "variants.1N … a macro's name"),
        ("variants.N = [128, 64, '128']", "variants.N has '128' twice [repeated-value]"),
        ("variants.N = [1, 2, true]", "variants.N has '1' twice, because true means 1 [repeated-value]"),
        ("variants.N = [false, false]", "variants.N has false twice [repeated-value]"),
    ],
)
def test_a_source_table_is_checked_like_the_whole(line: str, message: str) -> None:
    path = "" if line.startswith("path") else "path = 'a.cu'"
    assert problems(f"{SOURCE}\n{line}\n{path}") == [coded(FIRST + 1, message)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *((text, OUTSIDE) for text in ("~", "../x", "../**", "**/../..", "/etc/*", "~/x", "C:/x")),
        *((text, OUTSIDE) for text in (r"C:\x", r"\\host\x", r"a\..\b")),
        (r"a\b", "must be written with '/', as \"a/b\""),
        *((text, NOT_REPLACED) for text in ("$HOME/x", "${SRC}/x", "%CUDA_PATH%/x")),
        *((text, "has characters that no path should have") for text in ("a\0b", "a\nb")),
    ],
    ids=ascii,
)
@pytest.mark.parametrize(
    ("key", "written_in"),
    [
        ("sources:", "sources = [{}]"),
        ("exclude:", "exclude = [{}]"),
        ("include-dirs:", "include-dirs = [{}]"),
        ("path", "[[tool.hatch.build.hooks.cubin.source]]\npath = {}"),
        ("include-dirs:", "[[tool.hatch.build.hooks.cubin.source]]\npath = '*'\ninclude-dirs = [{}]"),
        ("options.pre_include", "options = {{ pre_include = [{}] }}"),
    ],
    ids=["sources", "exclude", "include-dirs", "path", "include-dirs of a source", "pre-include"],
)
def test_a_path_that_leaves_the_project_is_refused(
    key: str, written_in: str, text: str, message: str
) -> None:
    written = (
        text.encode("unicode_escape").decode().replace(r"\x", r"\u00")
        if text.isprintable() is False
        else text
    )
    quoted = f'"{written}"' if written != text else f"'{text}'"
    (problem,) = problems(written_in.format(quoted))
    expected = f"{key} {text!r} {message}"
    if key == "options.pre_include" and not text.isprintable():
        expected = f"{key} must be a string or an array of strings, not {[text]!r}"
    assert problem.what == expected


def test_a_path_is_kept_in_its_shortest_spelling() -> None:
    config = read_config('sources = ["./a//*.cu"]\ninclude-dirs = ["include/", "."]')
    assert (config.sources, config.include_dirs) == (("a/*.cu",), ("include", "."))


@pytest.mark.parametrize("toolkit", ["12", "13", "12.9", "13.0", "13.0.2", "13.0.3.0", "system"])
def test_a_toolkit_is_a_cuda_version_or_the_systems(toolkit: str) -> None:
    assert read_config(f'toolkit = "{toolkit}"').toolkit == toolkit


@pytest.mark.parametrize("toolkit", ["13.", ">=13", "13.0 ", "System", "13.٩", "13.0.2.1.0", "13.100"])
def test_what_is_no_cuda_version_is_refused(toolkit: str) -> None:
    assert only_message(f'toolkit = "{toolkit}"') == f"toolkit {NO_TOOLKIT} {toolkit!r}"


@pytest.mark.parametrize(
    ("toolkit", "reason", "line"),
    [
        ("11.8", "must be CUDA 12 or later, not '11.8'", "12.9"),
        ("10.2.1", "must be CUDA 12 or later, not '10.2.1'", "12.9"),
        ("12.7", "must be a published CUDA version, not '12.7': the last CUDA 12 is 12.9", "12.9"),
        ("12.10", "… '12.10': the last CUDA 12 is 12.9", "12.9"),
        ("13.9", f"{UNKNOWN} '13.9': the newest version is 13.5, …", "13.5"),
        ("14", "… '14': the newest version is 13.5, …", "13.5"),
        ("13.0.9", "… '13.0.9': the newest CUDA 13.0 is 13.0.3, …", "13.0"),
        ("12.9.9", "… '12.9.9': the newest CUDA 12.9 is 12.9.2, …", "12.9"),
        ("13.0.0.1", "… '13.0.0.1': the newest CUDA 13.0 is 13.0.3, …", "13.0"),
    ],
)
def test_a_release_that_is_not_known_is_refused_with_one_that_is(
    toolkit: str, reason: str, line: str
) -> None:
    (found,) = problems(f'toolkit = "{toolkit}"')
    assert found == coded(FIRST, f"toolkit {reason} [unknown-cuda-version]")
    assert found.hint == f'toolkit = "{line}"'


@pytest.mark.parametrize(("text", "size"), [("2 GiB", 2 << 30), ("2GB", 2 * 10**9), ("1.5 KiB", 1536)])
def test_a_size_is_a_number_and_a_unit(text: str, size: int) -> None:
    assert read_config(f'cache-size = "{text}"').cache_size == size


@pytest.mark.parametrize("text", ["0.000 GiB", "2 gib", "2 G", "-1 GiB", "2 GiB ", "٢ GiB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    what = f"cache-size must be a size such as '2 GiB', not {text!r}"
    assert only_message(f'cache-size = "{text}"') == what


@pytest.mark.parametrize("name", ["a b", "-a", "a=1", "a~1", "a @ https://example.org/a.whl", "a[b]", ""])
def test_a_header_package_is_a_name_and_perhaps_its_versions(name: str) -> None:
    message = f"header-packages: {name!r} is not the name of a distribution, such as 'nvidia-cutlass'"
    assert only_message(f"header-packages = ['{name}']") == message


def test_a_marker_is_not_a_part_of_a_requirement_of_the_table() -> None:
    said = only_message("header-packages = ['a; python_version > \"3\"']")
    assert said.endswith(": remove the marker, which begins with ';'")


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("'make()'", 'call = "make"'),
        ("'src/demo/gen.py:make'", 'call = "make"'),
        ("'def make'", 'call = "make"'),
        ("['make']", 'call = "make"'),
        ("'G.sources'", None),
    ],
)
def test_a_call_is_the_name_of_a_function(call: str, hint: str | None) -> None:
    (one,) = problems(f"{PRODUCER}\npath = 'demo/gen.py'\ncall = {call}\n")
    assert (one.code, one.hint) == ("invalid-value", hint)


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ("[]", "trusted-keys must name at least one key"),
        ('["AAAA"]', "trusted-keys: a key is not a public key, which begins with 'ed25519:'"),
        (f'["{KEY[:-1]}"]', "trusted-keys: a key has 55 characters, and a public key has 56"),
        (
            f'["{ed25519_keys.write(ed25519_keys.PUBLIC, bytes(32))}"]',
            (
                "trusted-keys: a key is so weak that anyone could forge its signatures: "
                "use a key of 'hatch-cubin keygen'"
            ),
        ),
        ("[1]", 'trusted-keys must be an array of strings, as in ["a", "b"], not [1]'),
        ('"abc"', 'trusted-keys must be an array of strings, as in ["a", "b"], not \'abc\''),
    ],
)
def test_what_is_no_key_is_refused(keys: str, what: str) -> None:
    (problem,) = problems(f"trusted-keys = {keys}")
    hint = "'hatch-cubin keygen FILE' makes a key, and prints the line for pyproject.toml"
    assert (problem.what, problem.hint) == (what, hint)


def test_each_bad_key_has_its_line() -> None:
    lines = [problem.where for problem in problems(f'trusted-keys = [\n"A",\n"{KEY}",\n"B",\n]')]
    assert lines == [Location("pyproject.toml", FIRST + number) for number in (1, 3)]


def test_a_key_that_is_no_array_is_told_with_the_line_to_paste() -> None:
    (problem,) = problems(f'trusted-keys = "{KEY}"')
    assert problem.hint == f'trusted-keys = ["{KEY}"]'


@pytest.mark.parametrize("value", [f'["{KEY}", "{PRIVATE}"]', f'"{PRIVATE}"', f'[["{PRIVATE}"]]'])
def test_a_private_key_is_refused_and_not_shown(value: str) -> None:
    (problem,) = problems(f"trusted-keys = {value}")
    assert PRIVATE[20:30] not in str(problem)
    assert str(problem) == (
        f"pyproject.toml:{FIRST}: trusted-keys contains a private key: everybody who reads the file can sign "
        "with the key\n"
        "  hint: make a new key with 'hatch-cubin keygen', and put its public key here"
    )


def test_signatures_that_are_required_need_keys_that_count() -> None:
    environ = {"HATCH_CUBIN_REQUIRE_SIGNED": "1"}
    assert read_config(f'trusted-keys = ["{KEY}"]', environ).trusted_keys == (KEY,)
    (problem,) = problems('archs = ["sm_90"]', environ)
    assert str(problem) == (
        f"pyproject.toml:{FIRST - 1}: HATCH_CUBIN_REQUIRE_SIGNED is set, but there are no 'trusted-keys' "
        "to check signatures with\n"
        "  hint: 'hatch-cubin keygen FILE' makes a key, and prints the line for pyproject.toml"
    )
    (problem,) = problems('archs = ["sm_90"]', {**environ, "HATCH_CUBIN_SIGNING_KEY": "@key"})
    assert "build once without HATCH_CUBIN_REQUIRE_SIGNED" in str(problem.hint)


@pytest.mark.parametrize("name", ["__CUDA", "BLOCK", "TYPE", "DEBUG", "f(a, b)", "f()", "log(...)"])
def test_a_macro_may_have_parameters(name: str) -> None:
    assert read_config(f'define = {{ "{name}" = 1 }}').define == ((name, "1"),)


def test_a_macro_with_a_hyphen_is_suggested_with_an_underscore() -> None:
    assert only_message("define = { N-1 = 1 }") == "define.N-1 is not a macro's name: did you mean N_1?"
    assert only_message("define = { -DN = 1 }") == "define.-DN is not a macro's name"


@pytest.mark.parametrize("name", ["", "1N", "N M", "N=1", "é", "f(", "f(a)(b)", "N\\u0000"])
def test_what_is_no_macro_is_refused(name: str) -> None:
    shown = name.replace("\\u0000", r"\x00")
    assert only_message(f'define = {{ "{name}" = 1 }}') == f"define.{shown} is not a macro's name"


@pytest.mark.parametrize("name", ["T", "x", "size", "type", "value", "size(a)"])
@pytest.mark.parametrize("value", ["4", "false"])
def test_a_macro_that_the_compilers_own_header_uses_is_refused(name: str, value: str) -> None:
    expected = coded(FIRST, f"define.{name} cannot be a macro: NVRTC's built-in … [reserved-macro]")
    assert problems(f'define = {{ "{name}" = {value} }}') == [expected]


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("macro", "compiles"),
    [
        *((name, False) for name in ("T", "x", "size", "type", "value", "size(a)", "x(a)", "warpSize()")),
        *((name, True) for name in ("N", "BLOCK", "DEBUG", "TYPE", "T(a)", "value(a)", "f(a,b)")),
    ],
)
def test_nvrtc_compiles_with_the_macros_that_are_allowed_and_with_no_other(
    macro: str, *, compiles: bool
) -> None:
    Toolkit(None)  # loads the NVRTC of this environment
    task = {"id": 0, "kind": "c++", "code": b"__global__ void k() {}", "name": b"k", "instantiate": []}
    result = worker.compile_task({**task, "options": [b"-arch=sm_90", f"-D{macro}=float".encode()]})
    assert result["ok"] is compiles
    with contextlib.nullcontext() if compiles else pytest.raises(ConfigError, match="cannot be a macro"):
        read_config(f'define = {{ "{macro}" = "float" }}')


def test_an_option_may_be_written_with_hyphens_or_underscores() -> None:
    both = (read_config(f"options = {{ {key} = true }}") for key in ("use-fast-math", "use_fast_math"))
    assert [config.options for config in both] == [{"use_fast_math": True}] * 2


@pytest.mark.parametrize("written", ["'/etc/x.h'", "['a.h', '../x.h']"])
def test_a_header_that_is_included_first_stays_inside_the_project(written: str) -> None:
    path = written.strip("[]").rpartition(" ")[2]
    message = f"options.pre-include {path} {OUTSIDE}"
    assert only_message(f"options = {{ pre-include = {written} }}") == message


@pytest.mark.parametrize("written", ["/c/cubins", "~/cubins", "../cubins", "a/../../cubins", "C:\\\\cubins"])
def test_a_cache_folder_of_the_table_stays_inside_the_project(written: str) -> None:
    (problem,) = problems(f'cache-dir = "{written}"')
    folder = written.replace("\\\\", "\\")
    assert (problem.what, problem.hint) == (
        f"cache-dir {OUTSIDE}, not {folder!r}",
        "the environment variable HATCH_CUBIN_CACHE_DIR can name any folder",
    )


@pytest.mark.parametrize("written", ["/c/cubins", "~/cubins", "../cubins"])
def test_a_cache_folder_of_the_environment_may_lie_anywhere(written: str) -> None:
    assert read_config("", {"HATCH_CUBIN_CACHE_DIR": written}).cache_dir == written


def test_headers_that_are_included_first_are_one_or_several() -> None:
    both = (
        read_config(f"options = {{ pre_include = {written} }}") for written in ("'a.h'", "['a.h', 'b.h']")
    )
    assert [config.options["pre_include"] for config in both] == ["a.h", ("a.h", "b.h")]


@pytest.mark.parametrize(
    ("line", "guess"),
    [
        ("arhcs = 1", "archs"),
        ("include_dirs = 1", "include-dirs"),
        ("sources-list = 1", "sources"),
        ("nvcc_flags = 1", "options"),
        ("cuda-version = 1", "toolkit"),
        ("ignore = 1", "exclude"),
        (f"{PRODUCER}\npath = 'demo/gen.py'\nscript = 1", "path"),
        (f"{PRODUCER}\npath = 'demo/gen.py'\ndependencies = 1", "requires"),
    ],
)
def test_an_unknown_key_comes_with_a_guess(line: str, guess: str | None) -> None:
    (problem,) = problems(line)
    assert problem.hint == (guess and f"did you mean {guess!r}?")


@pytest.mark.parametrize("key", ["enabled", "disable", "enable_by_default"])
def test_a_key_that_would_turn_kernels_off_is_answered_with_the_variable_that_does(key: str) -> None:
    (one,) = problems(f"{key} = false")
    assert "HATCH_CUBIN_SKIP=1" in (one.hint or "")


def test_an_unknown_key_like_no_other_comes_with_all_that_there_are() -> None:
    (of_table,) = problems("zzz = 1")
    (of_source,) = problems(f"{SOURCE}\npath = '*'\nzzz = 1")
    assert str(of_table.hint).startswith("the known keys are: archs, cache-dir, cache-size, ")
    names = "archs, as, define, include-dirs, instantiate, name, options, path, variants"
    assert of_source.hint == f"the known keys are: {names}"


def test_hatchlings_own_keys_are_left_to_hatchling() -> None:
    config = read_config(
        """\
        enable-by-default = false
        dependencies = ["x"]
        require-runtime-dependencies = true
        require-runtime-features = ["y"]
        """
    )
    assert config == Config(place=config.place)


def test_a_hostile_key_or_value_makes_one_short_line() -> None:
    long = "x" * 1_000_000
    found = messages(f'"a\\n\\u001b[31m" = 1\npackage = ["{long}"]\nnope{long} = 1')
    assert found[0].startswith(f"pyproject.toml:{FIRST}: 'a\\n\\x1b[31m' is not an option of ")
    assert all(len(line) < 500 for message in found for line in message.splitlines())
    assert found[1].startswith(f"pyproject.toml:{FIRST + 1}: package must be a string")


def test_twenty_thousand_bad_archs_are_each_reported() -> None:
    listed = "".join(f'  "sm_{number}x",\n' for number in range(20_000))
    found = problems(f"archs = [\n{listed}]")
    assert len(found) == 20_000
    assert found[-1].where == Location("pyproject.toml", FIRST + 20_000)


@pytest.mark.parametrize(
    ("variable", "value", "field", "expected"),
    [
        ("ARCHS", "8.6;9.0+PTX, native", "archs", ("8.6", "9.0+PTX", "native")),
        ("TOOLKIT", "12.9", "toolkit", "12.9"),
        ("JOBS", "16", "jobs", 16),
        ("CACHE_DIR", "/var/cache/x", "cache_dir", "/var/cache/x"),
    ],
)
def test_a_variable_replaces_its_key(variable: str, value: str, field: str, expected: object) -> None:
    table = 'archs = ["sm_90"]\ntoolkit = "13"\njobs = 1\ncache-dir = "here"'
    config = read_config(table, {f"HATCH_CUBIN_{variable}": value})
    assert getattr(config, field) == expected
    assert getattr(read_config(table, {f"HATCH_CUBIN_{variable}": ""}), field) == getattr(
        read_config(table), field
    )


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ARCHS", " ,", "HATCH_CUBIN_ARCHS: must name at least one arch"),
        ("ARCHS", "sm90", "HATCH_CUBIN_ARCHS: 'sm90' is not an arch, did you mean 'sm_90'?"),
        ("ARCHS", "sm_90 al", "HATCH_CUBIN_ARCHS: 'al' is not an arch, did you mean 'all'?"),
        ("TOOLKIT", "CUDA", f"HATCH_CUBIN_TOOLKIT: {NO_TOOLKIT} 'CUDA'"),
        ("JOBS", "many", "HATCH_CUBIN_JOBS: must be a whole number from 1 to 1024, not 'many'"),
        ("JOBS", "0", "HATCH_CUBIN_JOBS: must be a whole number from 1 to 1024, not 0"),
        (
            "CACHE_DIR",
            "$HOME/x",
            f"HATCH_CUBIN_CACHE_DIR: '$HOME/x' {NOT_REPLACED}",
        ),
        ("CACHE_DIR", "off", "HATCH_CUBIN_CACHE_DIR: must be a path, not 'off'"),
        ("REPORT", "1", "HATCH_CUBIN_REPORT: must be a path, not '1'"),
        (
            "EXECUTOR",
            "localhost:8786",
            "HATCH_CUBIN_EXECUTOR: must be one of 'dask://host:8786', 'tls://host:8786' or "  # noqa: ISC004
            "'module:function', optionally followed by ',local', not 'localhost:8786'",
        ),
        ("CACHE_DIR", "a\nb", r"HATCH_CUBIN_CACHE_DIR: 'a\nb' has characters that no path should have"),
    ],
)
def test_a_bad_variable_is_named_and_has_no_line(variable: str, value: str, message: str) -> None:
    (found,) = problems("", {f"HATCH_CUBIN_{variable}": value})
    assert found._replace(hint=None) == Problem(message, code="invalid-variable")


@pytest.mark.parametrize(
    ("variable", "value", "meant"),
    [
        ("ARCHS", '["sm_90", "80"]', "sm_90,80"),
        ("ARCHS", "'sm_90'", "sm_90"),
        ("ARCHS", "sm90", "sm_90"),
        ("JOBS", " 4 ", "4"),
        ("JOBS", "-j4", "4"),
        ("ARCHS", "-gencode arch=compute_90,code=sm_90", "sm_90"),
        ("TOOLKIT", "/usr/local/cuda", "system"),
        ("REMOTE", "none", "off"),
        ("TOOLKIT", "v13.0", "13.0"),
        ("TIMEOUT", "30m", "1800"),
        ("TIMEOUT", "2 hours", "7200"),
        ("TIMEOUT", "90s", "90"),
        ("SKIP", "yes", "1"),
        ("LOCKED", "'off'", "0"),
        ("REQUIRE_HITS", " 1", "1"),
    ],
)
def test_a_bad_variable_is_shown_as_it_may_be_meant(variable: str, value: str, meant: str) -> None:
    name = f"HATCH_CUBIN_{variable}"
    (found,) = problems("", {name: value})
    assert found.hint == f"{name}={meant}"
    read_config("", {name: meant})


def test_no_limit_is_set_by_no_variable() -> None:
    (found,) = problems("", {"HATCH_CUBIN_TIMEOUT": "0"})
    assert found.hint == (
        "unset HATCH_CUBIN_TIMEOUT: without this variable, the compile of a unit may take up to 30 minutes"
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ARCHS", "x"),
        ("JOBS", "many"),
        ("TOOLKIT", "x"),
        ("TIMEOUT", "0m"),
        ("REPORT", "1"),
        ("CACHE_DIR", "off"),
        ("SKIP", "perhaps"),
        ("REMOTE", "'https://user:password@cache.example.org'"),
    ],
)
def test_what_nobody_can_guess_or_what_may_be_secret_is_not_shown(variable: str, value: str) -> None:
    (found,) = problems("", {f"HATCH_CUBIN_{variable}": value})
    assert found.hint is None


def test_a_variable_that_asks_for_what_is_so_without_it_is_told_so() -> None:
    (found,) = problems("", {"HATCH_CUBIN_JOBS": "all"})
    assert found.hint == (
        "unset HATCH_CUBIN_JOBS: without this variable, a build compiles on all cores of the processor"
    )


def test_a_bad_table_and_a_bad_variable_are_reported_together() -> None:
    assert len(problems("jobs = 0", {"HATCH_CUBIN_TOOLKIT": "x", "HATCH_CUBIN_ARCHS": "y"})) == 3


@pytest.mark.parametrize("text", ["a =", "= 1", "a = 'x", "a = " + "[" * 5000])
def test_a_place_in_a_text_that_cannot_be_read_is_the_file(text: str) -> None:
    assert TableLocation("pyproject.toml", text, ("a",)).of("b") == Location("pyproject.toml")


def test_where_to_write_a_line_depends_on_what_the_file_has() -> None:
    line = 'exclude = ["a.ptx"]'
    texts = ("[t]", "[[t.source]]\npath = 'a.cu'", "[t]\nexclude = []")
    places = [TableLocation("pyproject.toml", text, ("t",)) for text in texts]
    assert [place.how_to_set("exclude", line) for place in places] == [
        f"write below [t] the line {line}",
        f"write below a new header [t] the line {line}",
        f"replace 'exclude' at pyproject.toml:2 with {line}",
    ]


def test_a_table_is_called_as_it_is_written() -> None:
    place = TableLocation("hatch.toml", "", ("build", "hooks", "cubin"))
    assert (str(place), place.source_tables) == ("[build.hooks.cubin]", "[[build.hooks.cubin.source]]")


def test_a_table_of_another_file_is_found_there() -> None:
    text = textwrap.dedent("""
        [build.hooks.cubin]
        jobs = 1
    """)
    place = TableLocation("hatch.toml", text, ("build", "hooks", "cubin"))
    assert (place.of(), place.of("jobs")) == (Location("hatch.toml", 2), Location("hatch.toml", 3))


def test_macros_merge_with_the_later_value_at_the_earlier_place() -> None:
    base = (("A", "1"), ("B", "2"), ("C", "3"))
    assert merge_macros(base, (("B", "4"), ("D", "5")), ("C",)) == (("A", "1"), ("B", "4"), ("D", "5"))


# Around another backend


def wrapped(text: str, *, wraps: bool = True) -> Config:
    """Return the configuration of a table of a project whose build backend is ours."""
    whole = f"[tool.hatch-cubin]\n{textwrap.dedent(text)}"
    place = TableLocation("pyproject.toml", whole, ("tool", "hatch-cubin"), wraps=wraps)
    return parse_config(toml_positions.loads(whole)["tool"]["hatch-cubin"], place, {})


def test_the_backend_inside_is_read_where_ours_is_around_it() -> None:
    config = wrapped('backend = "a.b:c.d"\nbackend-path = ["./tools"]\npackage-dir = "python/demo"\n')
    assert (config.backend, config.backend_path, config.package_dir) == ("a.b:c.d", ("tools",), "python/demo")


NO_BACKEND = "the key 'backend' is missing: it names the build backend that makes the wheel\n  hint:"
MESON = 'backend = "mesonpy"'
OTHER = "backend must be another build backend, such as 'mesonpy', not"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", f"1: {NO_BACKEND} set 'backend' to the project's former build backend, as in {MESON}"),
        (
            '[build-system]\nrequires = ["numpy", "meson-python>=0.16", "hatch-cubin"]\n',
            f"1: {NO_BACKEND} {MESON}",
        ),
        *(
            (f"backend = {value!r}", f"2: {OTHER} {value!r}")
            for value in (
                "hatch_cubin.backend",
                "hatch_cubin.build",
                "hatchcubin",
                "a b",
                "a:",
                "a.",
                "a:b:c",
            )
        ),
        *(
            (f'backend = "{name}"', f'2: {OTHER} {name!r}\n  hint: backend = "{right}"')
            for name, right in (("meson-python", "mesonpy"), ("Flit-Core", "flit_core.buildapi"))
        ),
        (
            'build-backend = "mesonpy"',
            "2: 'build-backend' is not an option of [tool.hatch-cubin]\n  hint: did you mean 'backend'?",
        ),
        ('backend = "a"\npackage-dir = "../b"', f"3: package-dir '../b' {OUTSIDE}"),
        ('backend = "a"\nbackend-path = ["/b"]', f"3: backend-path: '/b' {OUTSIDE}"),
    ],
)
def test_a_backend_inside_that_cannot_be_is_told(text: str, message: str) -> None:
    assert str(refusal(ConfigError, wrapped, text)) == f"pyproject.toml:{message}"


@pytest.mark.parametrize("key", ["backend", "backend-path", "package-dir"])
def test_without_ours_around_it_there_is_none(key: str) -> None:
    assert str(refusal(ConfigError, wrapped, f"{key} = 1", wraps=False)) == (
        f"pyproject.toml:2: {key!r} is not an option of [tool.hatch-cubin]\n  hint: only projects "
        'with build-backend = "hatch_cubin.backend" can set this key, in [tool.hatch-cubin]'
    )


@pytest.mark.parametrize("key", ["build-backend", "requires"])
def test_a_key_of_build_system_is_told_where_it_belongs(key: str) -> None:
    assert str(refusal(ConfigError, wrapped, f"{key} = 1", wraps=False)) == (
        f"pyproject.toml:2: {key!r} is not an option of [tool.hatch-cubin]\n"
        f"  hint: {key!r} belongs in the table [build-system]"
    )


def test_a_module_table_is_read_whole() -> None:
    config = read_config(
        f"""\
        {MODULE}
        name = "solver"
        sources = ["./a.cu", "physics/*.cu"]
        mode = "rdc"
        link = ["lib//x.ptx", "nvidia-cuda-runtime ==13.0.* : **/libcudadevrt.a"]
        archs = ["sm_90"]
        include-dirs = ["inc"]
        define = {{ N = 1, M = false }}
        options = {{ fma = true }}
        variants = {{ BLOCK = [64, 128] }}
        """
    )
    assert config.module == (
        ModuleRule(
            name="solver",
            sources=("a.cu", "physics/*.cu"),
            mode="rdc",
            link=("lib/x.ptx", "nvidia-cuda-runtime ==13.0.*:**/libcudadevrt.a"),
            archs=("sm_90",),
            include_dirs=("inc",),
            define=(("N", "1"),),
            undefined=("M",),
            options={"fma": True},
            variants=(("BLOCK", ("64", "128")),),
        ),
    )


def test_all_that_is_wrong_with_a_module_table_is_told() -> None:
    told = messages(f"{MODULE}\nsource = []\nmode = 'both'\nlink = ['../x.a', 'a b:c', 'a:/c']\n")
    assert [each.partition(": ")[2] for each in told] == [
        f"'source' is not an option of {MODULE}\n  hint: did you mean 'sources'?",
        "mode must be 'lto' or 'rdc', not 'both'",
        f"link: '../x.a' {OUTSIDE}\n"  # noqa: ISC004
        "  hint: move x.a into the project, or into a folder that 'source-roots' lists",
        "link: 'a b' is not the name of a distribution, such as 'nvidia-cutlass'",
        f"link: '/c' {OUTSIDE}",
        "this table also needs 'name'\n"  # noqa: ISC004
        "  hint: for example, in this table:\n"
        '    name = "linked"  # must differ from the name of each source',
    ]
    (empty,) = messages(f"{MODULE}\nname = 'm'\nmode = 'lto'\nsources = []\n")
    assert empty.endswith(": sources must name at least one source")


def test_a_producer_table_is_read_whole() -> None:
    config = read_config(
        f"""\
        {PRODUCER}
        path = "./src/gen.py"
        call = "texts"
        produces = ["cu", "ptx"]
        inputs = ["src/*.j2"]
        environment = ["LEVEL"]
        requires = ["jinja2 ==3.*", "pyptx[all]"]
        seconds = 5
        """
    )
    assert config.producer == (
        ProducerRule(
            path="src/gen.py",
            call="texts",
            produces=("cu", "ptx"),
            inputs=("src/*.j2",),
            environment=("LEVEL",),
            requires=("jinja2 ==3.*", "pyptx[all]"),
            seconds=5,
        ),
    )


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("path = 'gen.cu'", "path must be the path of one Python module"),
        ("path = 'src/*.py'", "path must be the path of one Python module"),
        ("path = 'src/gen.v2.py'", "path must be the path of one Python module"),
        ("path = 'src/__init__.py'", "path cannot be 'src/__init__.py', because hatch-cubin does not run"),
        ("call = 'a.b'", "call must be the name of a function"),
        ("produces = ['cubin']", "produces: must be 'cu', 'ptx' or 'tileir'"),
        ("environment = ['A-B']", "environment: 'A-B' is not the name of an environment variable"),
        ("requires = ['a b']", "requires: 'a b' is not the name of a distribution"),
        ("seconds = 0", "seconds must be a whole number of seconds from 1 on, not 0"),
        ("seconds = true", "seconds must be a whole number of seconds from 1 on, not True"),
        ("seconds = 1.5", "seconds must be a whole number of seconds from 1 on, not 1.5"),
    ],
)
def test_a_wrong_value_in_a_producer_table_is_told(line: str, what: str) -> None:
    path = "" if line.startswith("path") else "path = 'gen.py'\n"
    (one,) = problems(f"{PRODUCER}\n{path}{line}\n")
    assert one.code == "invalid-value"
    assert one.what.startswith(what)


def test_a_producer_needs_a_path() -> None:
    (one,) = problems(f"{PRODUCER}\ncall = 'x'\n")
    assert one.code == "missing-key"


def test_the_toolkits_own_folder_needs_no_include_dirs() -> None:
    ending = "; leave this path out, because the toolkit's headers are always found"
    assert only_message('include-dirs = ["/usr/local/cuda/include"]').endswith(f"{OUTSIDE}{ending}")
    assert only_message('include-dirs = ["$CUDA_HOME/include"]').endswith(f"{NOT_REPLACED}{ending}")


@pytest.mark.parametrize(
    "key", ["define = {{ {} = 1 }}", f"{SOURCE}\npath = 'k.cu'\nvariants = {{{{ {{}} = [1, 2] }}}}"]
)
@pytest.mark.parametrize("name", ["__CUDACC__", "__cpp_concepts", "__LINE__", "__global__", "__cplusplus"])
def test_what_nvrtc_defines_itself_is_no_macro_of_the_table(key: str, name: str) -> None:
    (found,) = problems(key.format(name))
    assert f"{name} cannot be a macro, because NVRTC itself defines this macro" in found.what


def test_a_compiler_that_nvrtc_is_not_cannot_be_claimed() -> None:
    assert only_message("define = { __GNUC__ = 11 }").startswith("define.__GNUC__ cannot be a macro: ")


@pytest.mark.parametrize(
    "name",
    ["NDEBUG", "_USE_MATH_DEFINES", "__CUDA_NO_HALF_OPERATORS__", "__HIP_PLATFORM_AMD__", "__x86_64__"],
)
def test_names_that_compilers_only_look_for_are_free(name: str) -> None:
    assert read_config(f"define = {{ {name} = true }}").define == ((name, "1"),)


@pytest.mark.nvrtc
def test_what_nvrtc_defines_itself_is_told_by_nvrtc() -> None:
    """A source sees each, and none of those that are free."""
    refused = ["__CUDACC__", "__CUDACC_RTC__", "__CUDA_ARCH__", "__cplusplus", "__EDG__", "__LP64__"]
    free = ["NDEBUG", "__x86_64__", "__clang__", "_MSC_VER", "__CUDA_NO_HALF_OPERATORS__"]
    Toolkit(None).load()
    code = "".join(f"#ifdef {name}\n__device__ int seen_{name};\n#endif\n" for name in (*refused, *free))
    task = {"id": 0, "kind": "c++", "code": code.encode(), "name": b"k.cu", "instantiate": [], "ptx": True}
    ptx = worker.compile_task(task | {"options": [b"-arch=compute_80"]})["ptx"].decode()
    assert [name for name in (*refused, *free) if f"seen_{name}" in ptx] == refused


@pytest.mark.parametrize("folder", [".", "./"])
def test_the_cache_has_a_folder_of_its_own(folder: str) -> None:
    found = problems(f"cache-dir = '{folder}'")
    assert found == [
        coded(FIRST, f"cache-dir must be a folder of its own, such as '.cubins', not {folder!r}")
    ]


def test_a_hint_writes_the_headers_of_inner_tables_in_full() -> None:
    (found,) = problems("options = { rdc = true }")
    assert (
        found.hint
        == f"to link several sources, write a {SOURCE.replace('source', 'module')} table with mode = 'rdc'"
    )


HEADER = "under [tool.hatch.build.hooks.cubin]: "


@pytest.mark.parametrize(
    ("where", "hint", "shown"),
    [
        (Location("a.cu", 1), 'include-dirs = ["inc"]', f'{HEADER}include-dirs = ["inc"]'),
        (Location("a.cu", 1), "do this: define = { N = 1 }", f"do this: {HEADER}define = {{ N = 1 }}"),
        (Location("pyproject.toml", FIRST - 1), 'package = "a"', f'{HEADER}package = "a"'),
        (None, 'package = "a"', f'{HEADER}package = "a"'),
        (Location("pyproject.toml", FIRST), 'archs = ["sm_90"]', 'archs = ["sm_90"]'),
        (Location("a.cu", 1), "write int n = 1", "write int n = 1"),
        (Location("a.cu", 1), None, None),
    ],
)
def test_a_line_to_add_names_its_table(where: Location | None, hint: str | None, shown: str | None) -> None:
    named = read_config("archs = ['sm_90']").with_table(Problem("wrong", where, hint))
    assert named.hint == shown
    assert read_config("archs = ['sm_90']").with_table(named) == named


@pytest.mark.parametrize(
    ("environ", "begins"),
    [
        ({"HATCH_CUBIN_TOOLKIT": "12.9"}, "build without HATCH_CUBIN_TOOLKIT, which replaces 'toolkit'"),
        ({}, "CUDA 13.0 can target sm_110"),
    ],
)
def test_a_line_that_a_variable_replaces_names_the_variable(environ: dict[str, str], begins: str) -> None:
    config = read_config("toolkit = '13.0'", environ)
    hint = 'CUDA 13.0 can target sm_110 too: toolkit = "13.0"'
    named = config.with_table(Problem("wrong", Location("pyproject.toml", FIRST), hint))
    assert (named.hint or "").startswith(begins)
    assert (named.hint or "").endswith(hint)
    assert config.with_table(named) == named


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        ("demo.gen:make", 'path = "src/demo/gen.py"\n    call = "make"'),
        ("src/demo/gen.py:make", 'path = "src/demo/gen.py"\n    call = "make"'),
        ("demo.gen", 'path = "src/demo/gen.py"'),
    ],
)
def test_a_producer_named_like_an_import_is_shown_as_its_file(tmp_path: Path, path: str, lines: str) -> None:
    table = f"[[tool.hatch.build.hooks.cubin.producer]]\npath = '{path}'"
    write_tree(tmp_path, {"pyproject.toml": pyproject(table), "src/demo/gen.py": ""})
    read, place, _backend = table_location.find_table(tmp_path)
    (found,) = refusal(ConfigError, parse_config, read, place, {}).problems
    assert (found.code, found.hint) == ("invalid-value", f"in this table, write:\n    {lines}")


@pytest.mark.parametrize(
    ("entries", "path"),
    [
        ('["a::scale<float>"]', '"src/b.cu"'),
        ('[{ kernel = "scale<{T}>", T = ["float"] }]', '"src/b.cu"'),
        ('["other<int>"]', '"**/*.cu"'),
        ('["<"]', '"**/*.cu"'),
        ("[]", '"**/*.cu"'),
        ("1", '"**/*.cu"'),
    ],
)
def test_a_table_without_a_path_is_shown_the_source_of_its_template(
    tmp_path: Path, entries: str, path: str
) -> None:
    files = {"src/a.cu": "void f();", "src/b.cu": "void scale (int);", "src/c.txt": "", ".git/a.cu": "scale("}
    write_tree(tmp_path, {"pyproject.toml": pyproject(f"{SOURCE}\ninstantiate = {entries}"), **files})
    table, place, _backend = table_location.find_table(tmp_path)
    problems_found = refusal(ConfigError, parse_config, table, place, {}).problems
    (found,) = (each for each in problems_found if each.code == "missing-key")
    assert f"    path = {path}" in str(found.hint)


def test_a_folder_of_the_project_is_not_a_wheel_with_headers(tmp_path: Path) -> None:
    write_tree(tmp_path, {"pyproject.toml": pyproject("header-packages = ['inc']"), "inc/a.h": ""})
    table, place, _backend = table_location.find_table(tmp_path)
    (found,) = refusal(ConfigError, parse_config, table, place, {}).problems
    hint = 'for headers in a folder of the project, write: include-dirs = ["inc"]'
    assert (found.code, found.hint) == ("folder-as-package", hint)


@pytest.mark.parametrize(
    ("line", "hint"),
    [("produces = 'cu'", 'produces = ["cu"]'), ("seconds = '60'", "seconds = 60")],
)
def test_a_value_of_a_producer_that_is_of_another_kind_is_shown_as_it_may_be_meant(
    line: str, hint: str
) -> None:
    (found,) = problems(f"{PRODUCER}\npath = 'gen.py'\n{line}")
    assert found.hint == hint


SOURCE_K = "[[tool.hatch.build.hooks.cubin.source]]\npath = 'k.cu'\n"


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [
        ("name = 'a'", "name = 'b'", '"a"'),
        ("archs = ['sm_80']", "archs = ['sm_90']", '["sm_80"]'),
        ("define = { N = 4 }", "define = { N = 8 }", 'variants = { N = ["4", "8"] }'),
        ("options = { lineinfo = true }", "options = { lineinfo = false }", "true"),
    ],
)
def test_two_source_tables_of_one_path_do_not_replace_a_setting(first: str, second: str, value: str) -> None:
    table = f"{SOURCE_K}{first}\n{SOURCE_K.replace('k.cu', './k.cu')}{second}\n"
    error = refusal(ConfigError, read_config, table)
    assert [*error.problems] == [Coded("setting-replaced", "pyproject.toml:15", value)]


@pytest.mark.parametrize(
    "table",
    [
        f"{SOURCE_K}instantiate = ['f<1>']\n{SOURCE_K}instantiate = ['f<2>']\n",
        f"{SOURCE_K}define = {{ N = 4 }}\n{SOURCE_K}define = {{ N = 4, M = 1 }}\n",
        f"{SOURCE_K.replace('k.cu', '*.cu')}name = 'a_{{stem}}'\n{SOURCE_K}name = 'a'\n",
    ],
)
def test_source_tables_that_add_to_each_other_are_no_error(table: str) -> None:
    assert len(read_config(table).source) == 2
