"""[[source]] tables that stand for a call of CuPy: its options, and what cannot be in such a table."""

from __future__ import annotations

from typing import Any

import pytest

from hatch_cubin.config.config import SourceRule, TableLocation
from hatch_cubin.config.reader import read_source_settings
from hatch_cubin.errors import ConfigError, Problem
from tests.helpers import TABLE, pyproject, read_config, refusal

SOURCE = f"[[{'.'.join(TABLE)}.source]]"
DEFAULTS = {"std": "c++17", "ftz": True, "device_as_default_execution_space": True}


def rule(options: str, front: str = "cupy") -> SourceRule:
    (one,) = read_config(f'{SOURCE}\npath = "k.cu"\nas = "{front}"\n{options}').source
    return one


def refused(lines: str, start: str = 'as = "cupy"') -> list[tuple[str, int, str | None]]:
    """Return code, line below the table's header and hint of each problem."""
    text = f'{SOURCE}\npath = "k.cu"\n{start}\n{lines}'
    error = refusal(ConfigError, read_config, text)
    first = pyproject(text).splitlines().index(SOURCE)
    return [(each.code, line_of(each) - first - 1, each.hint) for each in error.problems]


def line_of(problem: Problem) -> int:
    assert problem.where is not None
    return problem.where.line or 0


def test_a_call_without_options_has_those_that_cupy_adds() -> None:
    one = rule('include-dirs = ["inc"]\narchs = ["sm_90"]\ninstantiate = ["f<1>"]')
    assert (one.front, one.call_options, one.define, one.options) == ("cupy", (), (), DEFAULTS)
    assert (one.include_dirs, one.archs, [*one.instantiate]) == (("inc",), ("sm_90",), ["f<1>"])


def test_the_options_of_a_call_are_settings() -> None:
    written = (
        *("-std=c++14", "-DN=4", "-D", "M", "--define-macro=F(x)=x", "-DN=5", "-DE=", "-Icsrc"),
        *("--include-path", "a/./b", "-Icsrc", "--diag-suppress=177,20", "-diag-suppress", "177"),
        *("--Ofast-compile=max", "-Ofc=min"),
    )
    one = rule(f'options = {[*written]}\ninclude-dirs = ["inc", "csrc"]'.replace("'", '"'))
    assert one.call_options == written
    assert one.define == (("N", "5"), ("M", "1"), ("F(x)", "x"), ("E", ""))
    assert one.include_dirs == ("csrc", "a/b", "inc")
    changed = {"std": "c++14", "ofast_compile": "min", "diag_suppress": (177, 20, 177)}
    assert one.options == {**DEFAULTS, **changed}


def test_options_for_speed_are_settings() -> None:
    one = rule('options = ["-use_fast_math", "--maxrregcount=300"]')
    assert one.options == {**DEFAULTS, "use_fast_math": True, "max_register_count": 300}


def test_the_last_form_of_a_macro_counts() -> None:
    assert rule('options = ["-DF=1", "-DF(x)=x", "-DF=2"]').define == (("F", "2"),)


def test_a_project_knows_the_libraries_of_its_calls() -> None:
    both = {"cupy", "cuda.core"}
    producer = f'[[{".".join(TABLE)}.producer]]\npath = "gen.py"'
    for text, fronts in (
        ("", set()),
        ('recorded = ["calls"]', both),
        (f'{SOURCE}\npath = "k.cu"\nas = "cupy"', {"cupy"}),
        (f'{SOURCE}\npath = "k.cu"\nas = "cuda.core"', {"cuda.core"}),
        (producer, set()),
    ):
        assert read_config(text).fronts(runs_producers=True) == fronts
    assert read_config(producer).fronts(runs_producers=False) == both


LEAVE_OUT = (
    "remove the option from this table and from the call; or remove this table and exclude the source, so "
    "that CuPy compiles the text at run time"
)


@pytest.mark.parametrize(
    ("option", "code"),
    [
        ("--fmad=false", "option-without-key"),
        ("", "option-without-key"),
        ("-D", "option-without-key"),
        ("-arch=sm_90", "option-without-key"),
        ("-DT=float", "reserved-macro"),
        ("-D4=1", "invalid-value"),
        ("-std=c++03", "invalid-value"),
        ("--diag-suppress=x", "invalid-value"),
        ("--Ofast-compile=1", "invalid-value"),
    ],
)
def test_an_option_that_no_key_has_is_refused_where_it_is(option: str, code: str) -> None:
    assert refused(f'options = ["-DN=4",\n"{option}"]') == [(code, 4, LEAVE_OUT)]


@pytest.mark.parametrize("option", ["-arch=sm_90", "--gpu-architecture=sm_90"])
def test_the_arch_of_a_call_of_cuda_core_stays_in_the_call(option: str) -> None:
    told = "remove the option from this table, because 'archs' chooses the archs; the call can keep its arch"
    assert refused(f'options = ["{option}"]', 'as = "cuda.core"') == [("option-without-key", 3, told)]


@pytest.mark.parametrize(
    ("option", "code", "meant"),
    [
        ("-DA -DB", "invalid-value", '"-DA", "-DB"'),
        ("-std=c++17 -DB=1", "invalid-value", '"-std=c++17", "-DB=1"'),
        ("--maxrregcount 64", "option-without-key", '"--maxrregcount", "64"'),
        (" -DA", "option-without-key", '"-DA"'),
    ],
)
def test_each_option_is_a_string_of_its_own(option: str, code: str, meant: str) -> None:
    ((found, line, hint),) = refused(f'options = ["-DN=4", "{option}"]')
    assert (found, line) == (code, 3)
    assert str(hint).endswith(f'options = ["-DN=4", {meant}]')


@pytest.mark.parametrize(
    ("option", "meant"), [("--use-fast-math", "--use_fast_math"), ("-std c++17", "-std=c++17")]
)
def test_the_spelling_of_a_call_is_suggested(option: str, meant: str) -> None:
    assert refused(f'options = ["{option}"]') == [("option-without-key", 3, f"did you mean {meant!r}?")]


def test_every_wrong_option_is_reported() -> None:
    found = refused('options = ["-G", "-DN=4", "-w", "-std=c++03"]')
    assert [code for code, _line, _hint in found] == ["option-without-key"] * 2 + ["invalid-value"]


@pytest.mark.parametrize("folder", ["/usr/include", "../inc", "~/inc"])
def test_a_folder_outside_of_the_project_has_another_key(folder: str) -> None:
    ((code, line, hint),) = refused(f'options = ["-I{folder}"]')
    assert (code, line) == ("path-leaves-project", 3)
    assert "the project's folders in 'include-dirs'" in str(hint)


def test_an_absolute_folder_of_the_project_is_shown_as_it_may_be_written(tmp_path: Any) -> None:
    place = TableLocation("pyproject.toml", "", TABLE)
    place.root = str(tmp_path)
    settings = {"as": "cupy", "options": [f"-I{tmp_path / 'inc'}"]}
    error = refusal(ConfigError, read_source_settings, settings, place)
    assert [each.hint for each in error.problems] == ['write "-Iinc"']


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("define = { N = 4 }", "write the macros in 'options', as in the call: \"-DN=4\""),
        (
            "variants = { N = [4, 5] }",
            (
                "remove 'variants', because this table describes only one call; "
                "to describe several calls, let a producer return one text for each of the calls"
            ),
        ),
        ('name = "k"', "remove 'name': the library finds the module by the text and the options of its call"),
    ],
)
def test_a_call_has_no_settings_of_a_source(line: str, hint: str) -> None:
    assert refused(line) == [("setting-changes-call", 3, hint)]


def test_options_have_the_form_of_their_table() -> None:
    table = 'options = { std = "c++14", ofast-compile = "min", diag-suppress = [1, 2], ftz = true }'
    meant = 'options = ["-std=c++14", "--Ofast-compile=min", "--diag-suppress=1", "--diag-suppress=2"]'
    assert refused(table) == [("options-in-other-form", 3, meant)]
    assert rule(meant).front
    text = 'options = "-DN=4 -G"'
    assert refused(text) == [("options-in-other-form", 3, 'options = ["-DN=4", "-G"]')]
    assert [each[0] for each in refused("options = [4]")] == ["invalid-value"]
    assert [each[0] for each in refused("options = 4")] == ["invalid-value"]
    meant = "options = { use-fast-math = true }"
    assert refused('options = ["--use_fast_math"]', "") == [("invalid-value", 3, meant)]


@pytest.mark.parametrize(
    ("value", "meant"),
    [('"CuPy"', "cupy"), ('"cuda-core"', "cuda.core"), ("true", "cupy"), ('["cupy"]', "cupy")],
)
def test_the_library_has_one_name(value: str, meant: str) -> None:
    assert refused('options = ["-DN=4"]', f"as = {value}") == [("invalid-value", 2, f'as = "{meant}"')]


# Options of cuda.core


def test_a_call_of_cuda_core_has_the_options_of_its_fields() -> None:
    written = (
        *("-std=c++20", "-DN=4", "--ftz=true", "--prec-sqrt=false", "-prec-div=true", "--fmad=false"),
        *("--use_fast_math", "-lineinfo", "--dopt=on", "--maxrregcount=64", "--ptxas-options=-O3"),
        *("-Xptxas=-v", "-Xptxas=-O1", "-Xptxas=-O3"),
        *("--disable-warnings", "--diag-suppress=1", "--diag-suppress=2,1"),
    )
    one = rule(f"options = {[*written]}".replace("'", '"'), "cuda.core")
    assert (one.front, one.call_options, one.define) == ("cuda.core", written, (("N", "4"),))
    assert one.options == {
        "std": "c++20",
        "ftz": True,
        "prec_sqrt": False,
        "prec_div": True,
        "fma": False,
        "use_fast_math": True,
        "lineinfo": True,
        "device_code_optimize": True,
        "max_register_count": 64,
        "ptxas_options": ("-O3", "-v", "-O1", "-O3"),
        "disable_warnings": True,
        "diag_suppress": (1, 2, 1),
    }
    assert rule("", "cuda.core").options == {}


@pytest.mark.parametrize(
    "option", ["--options-file=x", "--compiler-stats-file=x", "-o=x", "--fdevice-time-trace=x", "x.ptx"]
)
def test_an_option_of_ptxas_that_a_project_cannot_set_is_refused_in_a_call_too(option: str) -> None:
    written = f'"--ptxas-options=--opt-level=2", "-Xptxas={option}"'
    ((code, line, hint),) = refused(f"options = [{written}]", 'as = "cuda.core"')
    assert (code, line, hint) == ("invalid-value", 3, LEAVE_OUT.replace("CuPy", "cuda.core"))


def test_other_options_are_left_to_cuda_core() -> None:
    ((code, line, hint),) = refused('options = ["-DN=4", "--device-int128"]', 'as = "cuda.core"')
    assert (code, line, hint) == ("option-without-key", 3, LEAVE_OUT.replace("CuPy", "cuda.core"))


def test_options_of_cuda_core_have_the_form_of_their_table() -> None:
    table = (
        'options = { std = "c++14", use-fast-math = true, lineinfo = false, fma = false, '
        'ptxas-options = ["-O3"], minimal = true, max-register-count = 32 }'
    )
    flags = '"-std=c++14", "--use_fast_math", "--fmad=false", "--ptxas-options=-O3", "--maxrregcount=32"'
    assert refused(table, 'as = "cuda.core"') == [("options-in-other-form", 3, f"options = [{flags}]")]


def test_only_sources_stand_for_calls() -> None:
    error = refusal(ConfigError, read_config, 'as = "cupy"\noptions = ["-DN=4"]')
    assert [each.code for each in error.problems] == ["unknown-key", "invalid-value"]
    assert "[[" in str(error.problems[0].hint)


def test_a_producer_may_return_the_text_of_a_call() -> None:
    place = TableLocation("pyproject.toml", "", TABLE)
    values = read_source_settings({"as": "cupy", "options": ["-DN=4"], "instantiate": ["f<1>"]}, place)
    one = SourceRule(path="k.cu", **values)
    assert (one.front, one.define, one.call_options) == ("cupy", (("N", "4"),), ("-DN=4",))
