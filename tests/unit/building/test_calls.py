"""Builds of sources that stand for calls of CuPy: tables, texts of producers, and recorded calls."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import loader_files
from hatch_cubin.bundle.manifest import read_manifest
from hatch_cubin.common import user_folders
from hatch_cubin.compiling import call_options, plan_warnings
from hatch_cubin.errors import SourceError
from hatch_cubin.loader._text_key import text_key
from hatch_cubin.lockfile import lock_format
from hatch_cubin.producing import running
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit.toolkit import Toolkit
from tests.helpers import TABLE, found, load_bundle, make_project, read_config, refusal
from tests.producers import producer_table

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("unmeasured")]

SOURCE = f"[[{'.'.join(TABLE)}.source]]"
IN_TABLE = '#include "n.cuh"\nextern "C" __global__ void add(float *x) { *x += N / M; }\n'
PRODUCED = "template <class T> __global__ void scale(T *x) { *x *= N; }\n"
RECORDED = PRODUCED + "// another text"
OPTIONS = ["-DN=4"]
KEYS = {
    name: text_key("cupy", OPTIONS, text)
    for name, text in {"a": IN_TABLE, "p": PRODUCED, "r": RECORDED}.items()
}
FILES = {
    "a.cu": IN_TABLE,
    "plain.cu": 'extern "C" __global__ void add(float *x) { *x += M; }\n',
    "inc/n.cuh": "#define M 3\n",
    f"calls/{KEYS['r']}.cu": (
        f"// {json.dumps({'front': 'cupy', 'instantiate': ['scale<int>'], 'options': OPTIONS})}\n{RECORDED}"
    ),
    f"calls/{KEYS['r']}-2.cu": (
        f"// {json.dumps({'front': 'cupy', 'instantiate': ['scale<char>'], 'options': OPTIONS})}\n{RECORDED}"
    ),
    "gen.py": (
        "def sources():\n"
        f'    return {{"p.cu": {{"text": {PRODUCED!r}, "as": "cupy", "options": {OPTIONS!r}, '
        '"instantiate": ["scale<float>"]}}\n'
    ),
}
TABLES = f"""\
archs = ["sm_80"]
define = {{ M = 5 }}
recorded = ["demo/calls"]
{SOURCE}
path = "demo/a.cu"
as = "cupy"
options = {json.dumps(OPTIONS)}
include-dirs = ["demo/inc"]
{producer_table()}"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path / "p", FILES, TABLES, HATCH_CUBIN_CACHE_DIR=str(tmp_path / "cache"))


def test_a_bundle_has_the_calls_under_their_keys(project: Project, tmp_path: Path) -> None:
    files = pipeline.build(project)
    manifest = json.loads(files["manifest.json"])
    assert manifest["fronts"] == ["cuda.core", "cupy"]
    assert manifest["kernels"] == {"add": ["plain"]}
    modules = manifest["modules"]
    assert modules.keys() == {"plain", *(f"cupy:{key}" for key in KEYS.values())}
    sources = {name: line["source"] for name, line in modules.items()}
    assert sources[f"cupy:{KEYS['p']}"] == "demo/p.cu"
    of_both = modules[f"cupy:{KEYS['r']}"]
    assert of_both["sources"] == [f"demo/calls/{KEYS['r']}-2.cu", f"demo/calls/{KEYS['r']}.cu"]
    assert [*of_both["kernels"]] == ["scale<char>", "scale<int>"]
    options = modules[f"cupy:{KEYS['a']}"]["options"]
    assert options.pop("define_macro") == ["N=4"]
    assert options == {"std": "c++17", "ftz": True, "device_as_default_execution_space": True}
    assert loader_files.TEXT_KEY in files
    assert {*read_manifest(files["manifest.json"]).loader_files} == {
        name for name in files if name.endswith(".py")
    }
    assert b"cupy:" not in files["__init__.pyi"]
    assert b"scale" not in files["__init__.pyi"]
    cubins = load_bundle(tmp_path / "bundle", files)
    assert cubins.names() == ("add",)
    assert cubins.find(f"cupy:{KEYS['r']}", cc=(8, 0)).kernels.keys() == {"scale<char>", "scale<int>"}


def test_calls_are_not_warned_about_like_modules_with_names(project: Project) -> None:
    """Templates that nobody used, and kernels that another source has too."""
    (project.root / "demo/b.cu").write_text('#include "plain.cu"\n')
    text = f"{PRODUCED}template <class T> __global__ void unused(T *x) {{}}\n"
    key = text_key("cupy", OPTIONS, text)
    line = json.dumps({"front": "cupy", "instantiate": ["scale<int>"], "options": OPTIONS})
    (project.root / f"demo/calls/{key}.cu").write_text(f"// {line}\n{text}")
    said: list[str] = []
    table = f'{SOURCE}\npath = "demo/b.cu"\nas = "cupy"\noptions = ["-DM=2"]\n'
    config = read_config(TABLES + table, project.environ)
    pipeline.build(replace(project, config=config, warn=said.append))
    assert said == []


def test_a_plain_bundle_has_nothing_of_calls(tmp_path: Path) -> None:
    files = pipeline.build(
        make_project(tmp_path, {"plain.cu": FILES["plain.cu"]}, "archs = ['sm_80']\ndefine = {M = 1}")
    )
    assert "fronts" not in json.loads(files["manifest.json"])
    assert loader_files.TEXT_KEY not in files


def test_a_skipped_or_empty_bundle_can_be_imported_by_its_drop_in(project: Project, tmp_path: Path) -> None:
    skipped = replace(project, environ={**project.environ, "HATCH_CUBIN_SKIP": "1"})
    returned = make_project(
        tmp_path / "r", {"gen.py": FILES["gen.py"]}, producer_table(), HATCH_CUBIN_SKIP="1"
    )
    empty = make_project(tmp_path / "e", {}, 'archs = ["sm_80"]\nrecorded = ["demo/calls"]')
    for each in (skipped, returned, empty):
        files = pipeline.build(each)
        assert (json.loads(files["manifest.json"])["fronts"], loader_files.TEXT_KEY in files) == (
            ["cuda.core", "cupy"],
            True,
        )


def test_texts_of_calls_stay_in_the_wheel(project: Project) -> None:
    """The package reads them at run time."""
    skipped = replace(project, environ={**project.environ, "HATCH_CUBIN_SKIP": "1"})
    recorded = {f"demo/calls/{KEYS['r']}{more}.cu" for more in ("", "-2")}
    for each in (project, skipped):
        _files, left_out = pipeline.build_with_sources(each)
        assert {*left_out} == {"demo/plain.cu", *recorded}


def test_headers_of_recorded_calls_stay_in_the_wheel(project: Project) -> None:
    """CuPy needs the headers at run time, if the package makes the text from its own files."""
    call = {"front": "cupy", "options": [*OPTIONS, "-Idemo/inc"]}
    path = f"demo/calls/{text_key('cupy', call['options'], IN_TABLE)}.cu"
    (project.root / path).write_text(f"// {json.dumps(call)}\n{IN_TABLE}")
    (project.root / "demo/a.cu").unlink()
    config = read_config('define = { M = 5 }\nrecorded = ["demo/calls"]', project.environ)
    _files, left_out = pipeline.build_with_sources(replace(project, config=config))
    assert path in left_out
    assert "demo/inc/n.cuh" not in left_out


def test_an_sdist_has_all_files_of_calls(project: Project) -> None:
    assert {name.removeprefix("demo/") for name in pipeline.sdist_files(project)} >= FILES.keys()


def test_a_locked_build_needs_no_text(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = pipeline.build(project)
    made = pipeline.make_lock(project)
    (project.root / lock_format.NAME).write_text(lock_format.encode(made), "utf-8")
    (producer,) = made.producers.values()
    assert producer["texts"]["p.cu"]["key"] == KEYS["p"]
    assert not pipeline.check_lock(project, made).changes
    user_folders.remove_recalled_facts()
    monkeypatch.setattr(running, "run", None)
    monkeypatch.setattr(Toolkit, "load", None)
    strict = replace(project, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"})
    locked = pipeline.build(strict)
    assert {name: data for name, data in locked.items() if "sbom" not in name} == plain


def without_line(project: Project) -> None:
    path = project.root / f"demo/calls/{KEYS['r']}.cu"
    path.write_text(path.read_text() + "// edited")


def with_structs(project: Project) -> None:
    (project.root / "demo/a.cu").write_text(f"#include <cupy/carray.cuh>\n{IN_TABLE}")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (without_line, ("recorded-call-damaged", f"demo/calls/{KEYS['r']}.cu")),
        (with_structs, ("structs-of-host", "demo/a.cu:1")),
    ],
)
def test_what_no_call_can_find_is_refused(
    project: Project, change: Callable[[Project], object], expected: tuple[str, str]
) -> None:
    change(project)
    assert found(refusal(SourceError, pipeline.build, project)) == [expected]


def test_a_failed_compile_has_no_hint_to_set_what_the_call_does_not_have(project: Project) -> None:
    (project.root / "demo/a.cu").write_text(f"{IN_TABLE}\n__global__ void k(int *x) {{ *x = BLOCK; }}\n")
    error: Any = refusal(Exception, pipeline.build, project)
    (hint,) = [each.hint for each in error.problems]
    place = project.config.place.of("source", 0)
    assert hint.startswith(f"write all options of the library's call into the table at {place}; ")


def test_a_failed_recorded_call_has_no_hint_to_write_options(project: Project) -> None:
    text = "__global__ void k(int *x) { *x = M * BLOCK; }\n"
    path = f"demo/calls/{text_key('cupy', [], text)}.cu"
    (project.root / path).write_text(f'// {{"front": "cupy", "options": []}}\n{text}')
    error: Any = refusal(Exception, pipeline.build, project)
    (hint,) = {each.hint for each in error.problems}
    assert hint == (
        "correct the source text, or the options of the call that compiles the text: "
        "the call fails at run time too"
    )


@pytest.mark.parametrize("front", ["cupy", "cuda.core"])
def test_a_macro_outside_a_call_is_added_by_the_hint_to_the_options_of_the_call(
    tmp_path: Path, front: str
) -> None:
    """The table's `define` does not apply to the call; the hint keeps options, and has all used macros."""
    lines = (
        'archs = ["sm_80"]\n'
        'define = { n_rows = 4, "SQ(x)" = "((x)*(x))", SIGN = 1, "TWO" = 2, UNUSED = 1 }\n'
        f'{SOURCE}\npath = "demo/a.cu"\nas = "{front}"\noptions = ["-DONE=1"]\n'
    )
    code = "// UNUSED\n#if SIGN\n__global__ void k(int *x) { *x = SQ(n_rows) / TWO; }\n#endif\n"
    text = f"{code}__global__ void one(int *x) {{ *x = n_rows; *x = SQ(ONE); }}\n"
    plain = "__global__ void other(int *x) { *x = 1; }\n"
    project = make_project(tmp_path, {"a.cu": text, "plain.cu": plain}, lines)
    error: Any = refusal(Exception, pipeline.build, project)
    place = project.config.place.of("source", 0)
    written = 'options = ["-DONE=1", "-Dn_rows=4", "-DSQ(x)=((x)*(x))", "-DSIGN=1", "-DTWO=2"]'
    cure = (
        "'define' does not apply to a source with 'as': "
        f"in the table at {place}, write {written}, as in the library's call"
    )
    assert [each.hint.startswith(cure) for each in error.problems] == [True]
    warned = plan_warnings.unread_macros(project, pipeline.make_plan(project).jobs)
    assert [cure in (each.hint or "") for each in warned] == [True] * 4 + [False]
    cured = lines.replace('options = ["-DONE=1"]', written)
    pipeline.build(replace(project, config=read_config(cured, project.environ)))


def test_options_outside_all_calls_are_told_with_the_options_to_write_into_the_call(tmp_path: Path) -> None:
    said: list[str] = []
    lines = (
        'archs = ["sm_80"]\noptions = { use-fast-math = true }\ninclude-dirs = ["demo/inc"]\n'
        f'{SOURCE}\npath = "demo/a.cu"\nas = "cupy"\noptions = ["-DN=1"]\n'
    )
    project = make_project(
        tmp_path, {"a.cu": "__global__ void k(int *x) { *x = N; }\n", "inc/n.h": ""}, lines
    )
    config = project.config
    pipeline.build(replace(project, inform=said.append))
    place = f"into the table at {config.place.of('source', 0)}"
    written = 'options = ["-DN=1", "--use_fast_math"]'
    assert [each.split(": ", 1)[0] for each in said if "[setting-without-effect]" in each] == [
        str(config.place.of(key)) for key in ("options", "include-dirs")
    ]
    assert f"write {written} {place}" in said[0]
    cured = lines.replace("options = { use-fast-math = true }\n", "").replace('options = ["-DN=1"]', written)
    cured = cured.replace('include-dirs = ["demo/inc"]\n', "") + 'include-dirs = ["demo/inc"]\n'
    said.clear()
    pipeline.build(replace(project, config=read_config(cured, project.environ), inform=said.append))
    plain = make_project(tmp_path, {"plain.cu": "__global__ void other(int *x) { *x = 1; }\n"}, lines)
    pipeline.build(replace(plain, inform=said.append))
    assert [each for each in said if "[setting-without-effect]" in each] == []


def test_options_outside_recorded_and_produced_calls_are_told(tmp_path: Path) -> None:
    text = 'extern "C" __global__ void k(int *x) { *x = 2; }'
    code = f'def sources():\n    return {{"p.cu": {{"text": {text!r}, "as": "cupy"}}}}\n'
    recorded = {f"calls/{text_key('cupy', [], text)}.cu": f'// {{"front": "cupy", "options": []}}\n{text}'}
    table = 'archs = ["sm_80"]\noptions = { use-fast-math = true }\n'
    tables = {producer_table(): {"gen.py": code}, 'recorded = ["demo/calls"]\n': recorded}
    hints = []
    for number, (more, files) in enumerate(tables.items()):
        project = make_project(tmp_path / str(number), files, table + more)
        (found,) = call_options.settings_of_no_call(project, pipeline.make_plan(project).jobs)
        hints.append(found.hint)
    line = '"options": ["--use_fast_math"]'
    place = "into the settings that demo/gen.py returns for this source"
    to_call = f"remove 'options'; if the library's call needs it, write {line} {place}"
    assert hints == [to_call, "remove 'options'"]


def test_without_modules_no_option_is_said_to_be_outside_all_calls(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"a.cu": ""}, "options = { use-fast-math = true }\n")
    assert call_options.settings_of_no_call(project, []) == []


def test_a_macro_outside_a_produced_call_is_added_by_the_hint_to_the_returned_options(
    tmp_path: Path,
) -> None:
    text = 'extern "C" __global__ void k(int *x) { *x = N * 2; }'
    code = f'def sources():\n    return {{"p.cu": {{"text": {text!r}, "as": "cupy"}}}}\n'
    project = make_project(
        tmp_path, {"gen.py": code}, f'archs = ["sm_80"]\ndefine = {{ N = 4 }}\n{producer_table()}'
    )
    error: Any = refusal(Exception, pipeline.build, project)
    (hint,) = [each.hint for each in error.problems]
    written = '"options": ["-DN=4"]'
    assert f"in the settings that demo/gen.py returns for this source, write {written}, " in hint
    (project.root / "demo/gen.py").write_text(code.replace('"as"', f'{written}, "as"'))
    pipeline.build(project)


def test_the_hint_for_a_missing_header_is_a_table_of_the_call(project: Project) -> None:
    (project.root / "far").mkdir()
    (project.root / "demo/inc/n.cuh").rename(project.root / "far/n.cuh")
    error: Any = refusal(Exception, pipeline.build, project)
    (hint,) = [each.hint for each in error.problems]
    lines = hint.partition(":")[2].replace("\n    ", "\n")
    assert lines.splitlines() == ["", SOURCE, 'path = "demo/a.cu"', 'include-dirs = ["far"]']
    pipeline.build(replace(project, config=read_config(TABLES + lines, project.environ)))


def test_an_error_in_a_recorded_call_has_the_line_of_the_file(project: Project) -> None:
    text = "#include <cuda.h>\n\n__global__ void k(int *x) { *x = wrong; *x = 1 }\n#error end\n"
    path = f"demo/calls/{text_key('cupy', [], text)}.cu"
    (project.root / path).write_text(f'// {{"front": "cupy", "options": []}}\n{text}')
    error: Any = refusal(Exception, pipeline.build, project)
    assert [str(each.where) for each in error.problems] == [f"{path}:4", f"{path}:4", f"{path}:5"]
    assert f"while compiling {path} for sm_80" in str(error)


def test_sources_that_the_lock_does_not_know_are_new(project: Project) -> None:
    made = pipeline.make_lock(project)
    assert made.modules.keys() == {"plain", *(f"cupy:{key}" for key in KEYS.values())}
    assert len(read_sources(project).all) == 4
