"""Builds of projects whose sources a script produces."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.bundle import sbom
from hatch_cubin.cache import signing
from hatch_cubin.common import user_folders
from hatch_cubin.common.digest import file_digest
from hatch_cubin.errors import CompileError, HatchCubinError, SourceError
from hatch_cubin.frontends.open_project import open_project
from hatch_cubin.lockfile import required_wheels
from hatch_cubin.producing import running
from hatch_cubin.project.project import Project
from tests.command_line import Command
from tests.helpers import COPY_PTX, REPOSITORY, SAXPY, codes, found, refusal, run, write_tree
from tests.producers import KERNEL, SCRIPT, producer_project, producer_table, returning

pytestmark = [pytest.mark.nvrtc, pytest.mark.usefixtures("unmeasured")]

MM = {f"mm[B={size}].cu": KERNEL.format(name="mm", value=size) for size in (1, 2)}
MANY = {
    **MM,
    "mm[B=2].sm_90a.cu": KERNEL.format(name="mm", value=290),
    "scale.cu": {
        "text": "template <class T> __global__ void scale(T *x) { *x *= N; }",
        "instantiate": ["scale<float>"],
        "define": {"N": 4},
    },
    "copy.ptx": COPY_PTX,
}
PTX = 'produces = ["cu", "ptx"]'


def built(project: Project) -> dict[str, bytes]:
    return pipeline.build(project)


def modules(files: dict[str, bytes]) -> dict[str, dict[str, object]]:
    lines = files["manifest.json"].decode().splitlines()
    found = (json.loads(line.rstrip(",").partition(":")[2] or "0") for line in lines if '"entries"' in line)
    return {str(entry["source"]): entry for entry in found}


def test_a_bundle_has_the_modules_that_a_script_returns(tmp_path: Path) -> None:
    files = built(producer_project(tmp_path, returning(repr(MANY)), PTX))
    cubins = sorted(name for name in files if name.endswith(".cubin"))
    assert cubins == [
        "copy.sm_80.cubin",
        "mm.B-1.sm_80.cubin",
        "mm.B-2.sm_80.cubin",
        "mm.B-2.sm_90a.cubin",
        "scale.sm_80.cubin",
    ]
    bill = {each["name"] for each in json.loads(files[sbom.NAME])["components"]}
    assert {"demo/mm[B=1].cu", "demo/mm[B=2].sm_90a.cu", "demo/copy.ptx"} <= bill
    assert b'"sources":["demo/mm[B=2].cu","demo/mm[B=2].sm_90a.cu"]' in files["manifest.json"]


def test_a_produced_text_gives_the_code_of_a_file_with_that_text(tmp_path: Path) -> None:
    script = returning(repr({"saxpy.cu": SAXPY}))
    project = producer_project(tmp_path / "one", script)
    plain = producer_project(tmp_path / "two", files={"saxpy.cu": SAXPY, "gen.py": ""})
    plain = replace(plain, config=replace(plain.config, producer=()))
    (plain.root / "demo/gen.py").unlink()
    (one,) = pipeline.choose_plan(project).jobs
    (two,) = pipeline.choose_plan(plain).jobs
    assert one.keys == two.keys
    assert built(project)["saxpy.sm_80.cubin"] == built(plain)["saxpy.sm_80.cubin"]


def test_a_warm_build_starts_no_process_and_imports_nothing_of_the_producer(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning(repr(MM)))
    text = f"""\
import os, subprocess, sys
sys.path.insert(0, {str(REPOSITORY)!r})
from pathlib import Path
from hatch_cubin.building import pipeline
from hatch_cubin.frontends.open_project import open_project
project = open_project({str(project.root)!r}, os.environ, None, verbose=False)
def refuse(*_arguments, **_named):
    raise AssertionError("a process")
is_warm = sys.argv[1] == "warm"
if is_warm:
    subprocess.Popen.__init__ = refuse
files = pipeline.build(project)
assert "mm.B-1.sm_80.cubin" in files
loaded = {{"hatch_cubin.producing.running", "hatch_cubin.producing.failures", "demo"}} & {{*sys.modules}}
assert is_warm != bool(loaded), loaded
"""
    # This process may have imported setuptools, which adds its own distributions to sys.path.
    for build in ("cold", "warm"):
        command = [sys.executable, "-c", text, build]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_a_build_without_producers_imports_nothing_of_them(tmp_path: Path) -> None:
    text = f"""\
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from hatch_cubin.frontends import hatch
from hatch_cubin.building import pipeline
from hatch_cubin.lockfile import required_wheels
assert not [name for name in sys.modules if name.startswith("hatch_cubin.producing")]
"""
    done = subprocess.run(
        [sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_an_error_shows_the_lines_of_the_text_and_names_the_script(tmp_path: Path) -> None:
    text = "// one\n" * 3 + "__global__ void k() { wrong; }\n// two\n// three\n// four\n"
    error = refusal(CompileError, built, producer_project(tmp_path, returning(repr({"a.cu": text}))))
    (one,) = error.problems
    assert str(one.where) == "demo/a.cu:4"
    assert one.details[-7:-1] == (
        "produced by demo/gen.py:",
        "    2 | // one",
        "    3 | // one",
        "    4 | __global__ void k() { wrong; }",
        "    5 | // two",
        "    6 | // three",
    )


def test_an_error_without_a_line_names_the_script(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning("{'a.cu': '__device__ int x;'}"))
    (one,) = refusal(CompileError, built, project).problems
    assert one.details[-2] == "produced by demo/gen.py"


LINKED = {
    "a.cu": "__device__ int f() { return 2; }\n",
    "b.cu": 'extern "C" __global__ void k(int *x) { *x = g(); }\n',
}
MODULE = '[[tool.hatch.build.hooks.cubin.module]]\nname = "m"\nmode = "rdc"\nsources = ["demo/*.cu"]\n'


def test_errors_of_links_show_produced_texts(tmp_path: Path) -> None:
    texts = {**LINKED, "b.cu": f"__device__ int g();\n{LINKED['b.cu']}"}
    project = producer_project(tmp_path, returning(repr(texts)), MODULE)
    error = refusal(CompileError, built, project)
    assert any("demo/b.cu" in str(each) for each in error.problems)
    texts["a.cu"] = "__device__ int g() { return 2; }\n"
    assert "m.sm_80.cubin" in built(producer_project(tmp_path / "right", returning(repr(texts)), MODULE))


def test_the_lists_of_files_have_no_produced_names(tmp_path: Path) -> None:
    files, sources = pipeline.build_held(producer_project(tmp_path, files={"two.cu": SAXPY}), None)
    assert "one.sm_80.cubin" in files
    assert sources == ["demo/two.cu"]


def test_a_failed_producer_fails_the_build(tmp_path: Path) -> None:
    error = refusal(SourceError, built, producer_project(tmp_path, returning("{}")))
    assert found(error) == [("producer-returns-nothing", "demo/gen.py")]


def test_two_producers_fill_one_bundle(tmp_path: Path) -> None:
    more = f"{SCRIPT}def more():\n    return {{'two.cu': {KERNEL.format(name='two', value=2)!r}}}\n"
    files = built(producer_project(tmp_path, more, producer_table('call = "more"')))
    assert {"one.sm_80.cubin", "two.sm_80.cubin"} <= files.keys()


INCLUDING = {"a.cu": f'#include "near.cuh"\n#include <far.cuh>\n{SAXPY}'}
HEADERS = {"near.cuh": "#pragma once\n", "inc/far.cuh": "#pragma once\n", "inc/other.txt": "", "parts.py": ""}
FOLDERS = 'archs = ["sm_80"]\ninclude-dirs = ["demo/inc"]\n'


def including(root: Path, options: str = "") -> Project:
    script = f"from . import parts\n{returning(repr(INCLUDING))}"
    return producer_project(root, script, options, HEADERS, FOLDERS)


def test_a_produced_text_may_include_declared_files_and_the_include_folders(tmp_path: Path) -> None:
    error = refusal(SourceError, built, including(tmp_path))
    assert found(error) == [("undeclared-include", "pyproject.toml:12")]
    pasted = 'inputs = ["demo/near.cuh"]'
    assert error.problems[0].hint == f"write in the producer table: {pasted}"
    files, sources = pipeline.build_held(including(tmp_path, pasted), None)
    assert "a.sm_80.cubin" in files
    assert sources == ["demo/inc/far.cuh", "demo/near.cuh"]


def test_an_undeclared_include_is_told_at_the_table_of_its_function(tmp_path: Path) -> None:
    included = {"b.cu": f'#include "near.cuh"\n{SAXPY}'}
    script = f"{SCRIPT}def more():\n    return {included!r}\n"
    more = producer_table('call = "more"')
    tables = f'inputs = ["demo/x.txt"]\n{more}'
    error = refusal(
        SourceError, built, producer_project(tmp_path, script, tables, {"near.cuh": "", "x.txt": ""})
    )
    assert found(error) == [("undeclared-include", "pyproject.toml:14")]
    assert error.problems[0].hint == 'write in the producer table: inputs = ["demo/near.cuh"]'


def test_an_sdist_has_what_producers_may_use_and_runs_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = including(tmp_path, 'inputs = ["demo/near.cuh"]')
    monkeypatch.setattr(running, "run", None)
    needed = ["demo/gen.py", "demo/inc/far.cuh", "demo/inc/other.txt", "demo/near.cuh", "demo/parts.py"]
    assert sorted(pipeline.sdist_files(project)) == needed
    assert pipeline.needed_files(project) == needed
    assert pipeline.needed_files(project, by_name=True) == []


def test_files_to_link_are_needed_even_if_all_sources_are_produced(tmp_path: Path) -> None:
    table = f'{MODULE}link = ["demo/copy.ptx", "demo/no.ptx", "a-wheel:x.ptx"]\n'
    project = producer_project(tmp_path, SCRIPT, table, {"copy.ptx": COPY_PTX})
    assert pipeline.needed_files(project) == ["demo/copy.ptx", "demo/gen.py"]


def test_a_build_without_kernels_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run", None)
    project = producer_project(tmp_path, HATCH_CUBIN_SKIP="1")
    assert not any(name.endswith(".cubin") for name in built(project))


def required(project: Project) -> set[str]:
    return {*required_wheels.required_wheels(project.config, project.root, lambda: project)}


def test_build_requirements_need_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "run", None)
    archs = 'toolkit = "13.0"\narchs = ["sm_80"]\n'
    options = ('produces = ["ptx"]\nrequires = ["jinja2==3.*"]', 'requires = ["jinja2==3.*"]')
    ptx, plain = (producer_project(tmp_path, SCRIPT, each, archs=archs) for each in options)
    for_ptx, for_plain = map(required, (ptx, plain))
    assert {"jinja2==3.*", "cuda-toolkit[nvrtc,cudart,cccl,crt,nvcc]==13.0.*"} <= for_ptx
    assert {"jinja2==3.*", "cuda-toolkit[nvrtc,cudart,cccl,crt]==13.0.*"} <= for_plain
    monkeypatch.setenv("HATCH_CUBIN_SKIP", "1")
    assert required(ptx) == set()


def hatch(project: Project, command: Command, *arguments: str) -> tuple[int, str, str]:
    """Return how a verb ends for this project, and what it prints."""
    return command(*arguments, "--project", project.root)


def kept_texts() -> list[Path]:
    return sorted(user_folders.recall_folder().glob("*.texts"))


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep texts in a folder of this test's own, beside the headers that are slow to unpack."""
    folder, users = tmp_path / "own", user_folders.own_folder()
    folder.mkdir()
    (folder / "headers").symlink_to(users / "headers")
    monkeypatch.setattr(user_folders, "own_folder", lambda: folder)


def poison(path: Path) -> None:
    """Change a text that is kept, with the digest that fits."""
    body = path.read_bytes().split(b"\n")[1].replace(b"= 1;", b"= 7;")
    path.write_bytes(file_digest(body).encode() + b"\n" + body + b"\n")


@pytest.mark.usefixtures("own")
def test_a_poisoned_text_does_not_pass_a_rebuild(tmp_path: Path, command: Command) -> None:
    project = producer_project(tmp_path / "project")
    right = pipeline.build(project)
    (kept,) = kept_texts()
    poison(kept)
    wrong = pipeline.build(project)
    assert wrong["one.sm_80.cubin"] != right["one.sm_80.cubin"]
    for files, code, found_codes in ((right, 0, []), (wrong, 1, ["unit-inputs-differ"])):
        folder = write_tree(project.root / project.bundle_folder, files)
        before = kept.read_bytes()
        ended, _out, err = command("verify", folder, "--rebuild", "--project", project.root)
        assert (ended, codes(err)) == (code, found_codes)
        assert ("a producer has returned a different text" in err) is bool(code)
        assert kept.read_bytes() == before


@pytest.mark.usefixtures("own")
def test_an_unsigned_text_is_not_used_where_signatures_are_required(tmp_path: Path) -> None:
    private, public = signing.new_key()
    said: list[str] = []
    project = replace(producer_project(tmp_path / "project"), inform=said.append)
    right = pipeline.build(project)
    poison(kept_texts()[0])
    environ = {**project.environ, "HATCH_CUBIN_SIGNING_KEY": private, "HATCH_CUBIN_REQUIRE_SIGNED": "1"}
    config = replace(project.config, trusted_keys=(public,))
    strict = replace(project, environ=environ, config=config)
    said.clear()
    assert pipeline.build(strict)["one.sm_80.cubin"] == right["one.sm_80.cubin"]
    assert "running demo/gen.py" in said
    said.clear()
    pipeline.build(strict)
    assert "running demo/gen.py" not in said


def test_no_cache_has_the_text_of_a_source(tmp_path: Path) -> None:
    project = producer_project(tmp_path / "project", HATCH_CUBIN_CACHE_DIR=str(tmp_path / "cache"))
    pipeline.build(project)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    assert files
    assert not any(b"__global__" in path.read_bytes() for path in files)


def test_explain_names_the_script_and_the_place_of_each_arch(tmp_path: Path, command: Command) -> None:
    project = producer_project(tmp_path, returning(repr(MANY)), PTX)
    out = ""
    for asked, source in (
        ("demo/mm[B=1].cu", "demo/mm[B=1].cu"),
        ("demo/scale.cu", "demo/scale.cu"),
        ("demo/mm.sm_90a.cu", "demo/mm[B=2].sm_90a.cu"),
    ):
        ended, out, _err = hatch(project, command, "explain", asked)
        assert ended == 0
        assert out.splitlines()[0] == f"{source} is generated by demo/gen.py"
    assert "archs  'sm_90a' (demo/gen.py, in place of the global archs)" in out
    ended, _out, err = hatch(project, command, "explain", "demo/gen.py")
    assert ended == 1
    assert "hint: this file is a script that generates these sources: demo/copy.ptx" in err


def test_a_unit_that_no_shard_has_compiled_names_its_script(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {f"k{number}.cu": KERNEL.format(name="k", value=number) for number in range(4)}
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(tmp_path / "cache"))
    script = f"import os\nTEXTS = {texts!r}\ndef sources():\n"
    script += "    return {name: text + '//' * os.path.exists('../flag') for name, text in TEXTS.items()}\n"
    project = producer_project(tmp_path / "project", script)

    def shard(number: int) -> None:
        user_folders.remove_recalled_facts()  # another machine
        assert hatch(project, command, "bake", "--shard", f"{number}/2")[0] == 0

    shard(1)
    shard(2)
    with monkeypatch.context() as last:
        last.setenv("HATCH_CUBIN_REQUIRE_HITS", "1")
        assert hatch(project, command, "bake")[0] == 0
    shutil.rmtree(tmp_path / "cache")
    shard(1)
    (tmp_path / "flag").write_text("")
    shard(2)
    (tmp_path / "flag").unlink()
    user_folders.remove_recalled_facts()
    monkeypatch.setenv("HATCH_CUBIN_REQUIRE_HITS", "1")
    ended, _out, err = hatch(project, command, "bake")
    assert (ended, codes(err)) == (1, ["not-in-cache", "not-in-cache"])
    assert (
        "demo/gen.py returned the text of this source: if this text differs from the text in an earlier"
        in err
    )


def test_the_key_of_a_cache_follows_the_texts(tmp_path: Path, command: Command) -> None:
    keys = []
    for value in (1, 1, 2):
        script = returning(repr({"k.cu": KERNEL.format(name="k", value=value)}))
        keys.append(hatch(producer_project(tmp_path, script), command, "cache", "key")[1])
    assert keys[0] == keys[1] != keys[2]


def test_a_cluster_compiles_produced_sources(tmp_path: Path) -> None:
    script = returning(repr({**INCLUDING, **MANY}))
    options = f'{PTX}\ninputs = ["demo/near.cuh"]'
    project = producer_project(tmp_path / "project", script, options, HEADERS, FOLDERS)
    here = pipeline.build(project)
    config = replace(project.config, executor="concurrent.futures:ThreadPoolExecutor")
    environ = {**project.environ, "HATCH_CUBIN_CACHE_DIR": str(tmp_path / "cache")}
    elsewhere = replace(project, config=replace(config, cache_dir=str(tmp_path / "cache")), environ=environ)
    assert pipeline.build(elsewhere) == here


def test_the_commit_in_the_bill_covers_the_files_of_producers(tmp_path: Path) -> None:
    project = producer_project(tmp_path, archs='archs = ["sm_80"]\nprovenance = true\n')
    who = ("-c", "user.name=x", "-c", "user.email=x", "-c", "commit.gpgsign=false")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "x")):
        run("git", *arguments, cwd=tmp_path)

    def dirty() -> str:
        properties = json.loads(pipeline.build(project)[sbom.NAME])["metadata"]["component"]["properties"]
        return str({each["name"]: each["value"] for each in properties}["hatch-cubin:dirty"])

    assert dirty() == "false"
    (tmp_path / "demo/gen.py").write_text(f"{SCRIPT}#\n")
    assert dirty() == "true"


def test_ptx_for_another_arch_than_its_name_says_is_refused(tmp_path: Path) -> None:
    text = COPY_PTX.replace("sm_80", "sm_90a").replace("7.0", "8.0")
    project = producer_project(tmp_path, returning(repr({"mm[B=1].sm_90.ptx": text})), PTX)
    error = refusal(HatchCubinError, built, project)
    assert found(error) == [("ptx-target-unsuitable", "demo/mm[B=1].sm_90.ptx:2")]
    assert error.problems[0].hint == (
        "if this PTX is for sm_90a, let the producer return it under the name 'mm[B=1].sm_90a.ptx'"
    )


TEMPLATE = "template <class T> __global__ void scale(T *x) { *x = 2; }\n"


def test_tables_in_hints_match_the_produced_name(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning(repr({"s[B=1].cu": TEMPLATE})))
    (one,) = refusal(CompileError, built, project).problems
    table = (one.hint or "").partition("for example:")[2].replace("\n    ", "\n")
    assert 'path = "demo/s.cu"' in table
    text = (tmp_path / "pyproject.toml").read_text()
    (tmp_path / "pyproject.toml").write_text(f"{text}{table}")
    again = open_project(str(tmp_path), project.environ, None, verbose=False)
    assert "s.B-1.sm_80.cubin" in built(again)


def test_a_hint_does_not_exclude_a_name_that_only_the_script_knows(tmp_path: Path) -> None:
    texts = {"a.cu": "__device__ int f() { return 1; }\n", **MM}
    (one,) = refusal(CompileError, built, producer_project(tmp_path, returning(repr(texts)))).problems
    assert "remove this source from the texts that demo/gen.py returns" in (one.hint or "")


def test_a_hint_for_an_empty_text_does_not_exclude_its_name_either(tmp_path: Path) -> None:
    project = producer_project(tmp_path, returning("{'a.cu': '// nothing'}"), files={"b.cu": "// nothing"})
    of_script, of_file = refusal(SourceError, built, project).problems
    assert "remove this source from the texts that demo/gen.py returns" in (of_script.hint or "")
    assert 'exclude = ["demo/b.cu"]' in (of_file.hint or "")


def test_variants_with_the_same_code_are_named_by_their_module(tmp_path: Path) -> None:
    said: list[str] = []
    texts = {name: KERNEL.format(name="mm", value=1) for name in MM}
    built(replace(producer_project(tmp_path, returning(repr(texts))), inform=said.append))
    assert any(each.startswith("mm: ") and " B " in each for each in said)
