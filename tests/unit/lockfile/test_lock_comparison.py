"""What a build with a lock does: as one without it would, or it says what has changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache import entries
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.errors import CompileError, ConfigError, HatchCubinError, Location, LockError, ToolchainError
from hatch_cubin.lockfile import lock_comparison, lock_format, locked_build, required_wheels
from hatch_cubin.project.project import Project, read_sources
from hatch_cubin.toolkit import libraries, toolkit
from tests.helpers import COPY_PTX, SAXPY, SCALE, found, make_project, refusal, write_tree
from tests.unit.lockfile.test_lock_format import checked

pytestmark = pytest.mark.nvrtc

FILES = {
    "demo/saxpy.cu": SAXPY,
    "demo/scale.cu": SCALE,
    "demo/copy.ptx": COPY_PTX,
    "demo/half.cu": '#include "part.cu"\n#include "near.h"\n#include <far.h>\n'
    '#if __has_include("own.h")\n#include "own.h"\n#endif\n'
    'extern "C" __global__ void half(float *x) { *x = scaled(make_cuFloatComplex(*x, 0)); }\n',
    "demo/part.cu": '#include "of_part.h"\n#if __has_include(<own_part.h>)\n#include <own_part.h>\n#endif\n',
    "parts/own_part.h": "",
    "demo/of_part.h": "#pragma once\n",
    "demo/near.h": "#pragma once\n",
    "include/far.h": "#pragma once\n#include <cuComplex.h>\n#include FOUND\n"
    "__device__ inline float scaled(cuFloatComplex x) { return FACTOR * cuCrealf(x); }\n",
    "include/found.h": "#pragma once\n#define FACTOR 2.0f\n",
    "other/far.h": "#error the first folder has it\n",
    "first.h": "#pragma once\n",
}
OPTIONS = """\
toolkit = "13"
archs = ["sm_90", "compute_90"]
include-dirs = ["include", "other"]
define = { FOUND = "<found.h>" }
options = { pre_include = ["first.h"] }
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/scale.cu"
instantiate = ["scale<float, 2>"]
variants = { WIDE = [1, 2] }
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/part.cu"
include-dirs = ["parts"]
"""


@dataclass(frozen=True)
class Edit:
    """What happens between the lock and a build: files, where None removes one, the table, variables."""

    files: Mapping[str, str | None] = field(default_factory=dict)
    table: tuple[str, str] = ("", "")
    environ: Mapping[str, str] = field(default_factory=dict)


def _project(root: Path, cache: Path, edit: Edit = Edit()) -> Project:
    """Return the project in a new folder, edited."""
    files = {name: text for name, text in {**FILES, **edit.files}.items() if text is not None}
    options = OPTIONS.replace(*edit.table) if edit.table[0] else OPTIONS
    environ = {"HATCH_CUBIN_CACHE_DIR": str(cache), **edit.environ}
    return make_project(write_tree(root, files), {}, options, **environ)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> str:
    """The lock of the project."""
    return lock_format.encode(pipeline.make_lock(_project(tmp_path_factory.mktemp("project"), cache)))


@pytest.fixture
def project(tmp_path: Path, cache: Path, text: str) -> Project:
    """The project, with its lock, in another folder."""
    project = _project(tmp_path / "project", cache)
    (project.root / lock_format.NAME).write_text(text)
    return project


def _evaluated(project: Project) -> locked_build.LockVerdict:
    verdict = locked_build.evaluate(project, read_sources(project))
    assert verdict is not None
    return verdict


KEPT = {
    "nothing": Edit(),
    "a file that is no source": Edit({"demo/notes.txt": ""}),
    "a header that nothing asks for": Edit({"include/unused.h": "", "demo/unused.h": ""}),
    "where an angled include does not look": Edit({"demo/found.h": "", "demo/far.h": ""}),
    "a folder of that name": Edit({"demo/own/notes.txt": ""}),
    "fewer archs": Edit(environ={"HATCH_CUBIN_ARCHS": "sm_90"}),
    "an arch that is removed": Edit(table=('"sm_90", "compute_90"', '"sm_90"')),
    "another way to write archs": Edit(table=('"sm_90", "compute_90"', '"90"')),
    "what no result depends on": Edit(table=("toolkit", "jobs = 2\nship-sources = true\ntoolkit")),
    "a removed header that nothing read": Edit({"other/far.h": None, "other/keep.h": ""}),
}
CHANGES = {
    "a source": (Edit({"demo/saxpy.cu": f"{SAXPY} "}), "demo/saxpy.cu is changed"),
    "line ends of a source": (
        Edit({"demo/saxpy.cu": SAXPY.replace("\n", "\r\n")}),
        (
            "demo/saxpy.cu differs only in its line ends, LF or CRLF: write the line '*.cu text eol=lf' in "
            ".gitattributes, save the file with LF, and then write the lock again"
        ),
    ),
    "PTX": (Edit({"demo/copy.ptx": f"{COPY_PTX}\n"}), "demo/copy.ptx is changed"),
    "a header": (Edit({"include/found.h": "#define FACTOR 3.0f\n"}), "include/found.h is changed"),
    "a header that is gone": (Edit({"demo/near.h": None}), "demo/near.h is gone"),
    "a part of another source": (Edit({"demo/part.cu": "// empty\n"}), "demo/part.cu is changed"),
    "a header of that part alone": (
        Edit({"parts/own_part.h": "__global__ void its() {}\n"}),
        "parts/own_part.h is changed",
    ),
    "a pre-included header": (Edit({"first.h": "#define WIDE 3\n"}), "first.h is changed"),
    "another one before it": (
        Edit({"include/first.h": ""}),
        "include/first.h is new, and an include may find this file",
    ),
    "a new source": (Edit({"demo/more.cu": SAXPY.replace("saxpy", "more")}), "demo/more.cu is new"),
    "a removed source": (Edit({"demo/saxpy.cu": None}), "demo/saxpy.cu is gone"),
    "a source that is left out": (
        Edit(table=("archs", 'exclude = ["demo/saxpy.cu"]\narchs')),
        "saxpy is gone",
    ),
    "a source that is left out, and whose part is none any more": (
        Edit(table=("archs", 'exclude = ["demo/half.cu"]\narchs')),
        "half is gone",
    ),
    "an instantiation of a part": (
        Edit(table=('["parts"]', '["parts"]\ninstantiate = ["some<int>"]')),
        "part is new",
    ),
    "a shadow beside a quoted include": (
        Edit({"demo/near.h": None, "include/near.h": "#pragma once\n"}),
        "demo/near.h is gone",
    ),
    "a shadow of the toolkit's": (
        Edit({"include/cuComplex.h": ""}),
        "include/cuComplex.h is new, and an include may find this file",
    ),
    "a shadow of what the toolkit includes": (
        Edit({"other/math.h": ""}),
        "other/math.h is new, and an include may find this file",
    ),
    "a folder that the toolkit has, too": (
        Edit({"other/crt/host_defines.h": ""}),
        "other/crt is new, and an include may find this file",
    ),
    "a header that was asked for": (
        Edit({"demo/own.h": "#undef FACTOR\n#define FACTOR 4.0f\n"}),
        "demo/own.h is new, and an include may find this file",
    ),
    "the same in another folder": (
        Edit({"include/own.h": "#undef FACTOR\n#define FACTOR 4.0f\n"}),
        "include/own.h is new, and an include may find this file",
    ),
    "a macro": (Edit(table=("{ FOUND", "{ FAST = true, FOUND")), "define of copy is changed"),
    "what a macro finds": (Edit(table=("<found.h>", "<other.h>")), "define of copy is changed"),
    "an option": (
        Edit(table=("options = {", "options = { use_fast_math = true,")),
        "options of copy is changed",
    ),
    "the order of folders": (
        Edit(table=('"include", "other"', '"other", "include"')),
        "include-dirs of copy is changed",
    ),
    "an instantiation": (
        Edit(table=("scale<float, 2>", "scale<float, 4>")),
        "instantiate of scale[WIDE=1] is changed",
    ),
    "fewer variants": (Edit(table=("[1, 2]", "[1]")), "scale[WIDE=2] is gone"),
    "a variant": (Edit(table=("[1, 2]", "[1, 2, 3]")), "scale[WIDE=3] is new"),
    "a name": (Edit(table=("instantiate", 'name = "grow"\ninstantiate')), "scale[WIDE=1] is gone"),
    "an arch": (Edit(table=('["sm_90"', '["sm_80", "sm_90"')), "copy for sm_80 is not in the lock"),
    "a variable's arch": (Edit(environ={"HATCH_CUBIN_ARCHS": "sm_80"}), "copy for sm_80 is not in the lock"),
    "an arch that no toolkit has": (
        Edit(environ={"HATCH_CUBIN_ARCHS": "sm_52"}),
        "cannot be assembled for sm_52",
    ),
    "the toolkit": (Edit(table=('"13"', '"13.5"')), "toolkit was 13, and is now 13.5"),
    "no toolkit": (Edit(table=('toolkit = "13"\n', "")), "toolkit was 13, and is now not set"),
    "a variable's toolkit": (
        Edit(environ={"HATCH_CUBIN_TOOLKIT": "12.9"}),
        "toolkit was 13, and is now 12.9",
    ),
    "a package of headers": (
        Edit(table=("archs", 'header-packages = ["nvidia-cutlass"]\narchs')),
        "header-packages was [], and is now ['nvidia-cutlass']",
    ),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_changes_no_unit_needs_no_compiler_and_gives_the_same_bundle(
    name: str, tmp_path: Path, cache: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = _project(tmp_path / "project", cache, KEPT[name])
    fresh = pipeline.build(project)
    (project.root / lock_format.NAME).write_text(text)
    verdict = _evaluated(project)
    assert (verdict.plan.changes, verdict.plan.doubts, verdict.results is None) == ((), (), False)
    monkeypatch.setattr(pipeline, "make_plan", None)  # which asks the toolkit
    assert pipeline.build(project) == fresh


@pytest.mark.parametrize("name", CHANGES)
def test_what_changes_a_unit_is_told_and_the_lock_not_believed(
    name: str, tmp_path: Path, cache: Path, text: str
) -> None:
    edit, change = CHANGES[name]
    project = _project(tmp_path / "project", cache, edit)
    (project.root / lock_format.NAME).write_text(text)
    verdict = _evaluated(project)
    assert (verdict.plan.changes[0], verdict.plan.jobs, verdict.results) == (change, (), None)
    with pytest.raises(LockError) as caught:
        _evaluated(replace(project, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"}))
    (error,) = caught.value.problems
    assert (error.code, error.details) == ("lock-stale", verdict.plan.changes)
    # The lock of a table that nobody edited is not stale, and 'hatch-cubin lock' alone would change nothing.
    assert [variable for variable in edit.environ if variable not in error.what] == []
    assert [variable for variable in edit.environ if f"build without {variable}" not in str(error.hint)] == []
    assert ("is stale" in error.what, error.hint == lock_format.HINT) == (not edit.environ,) * 2


def test_the_same_project_has_the_same_lock_in_any_folder(project: Project, text: str) -> None:
    assert lock_format.encode(pipeline.make_lock(project)) == text
    assert str(project.root) not in text


def test_other_versions_are_told(project: Project, text: str) -> None:
    found = lock_format.decode(text)
    before = found._replace(generator="0.0.1", data_model="llp64")
    assert lock_comparison.plan_by_lock(before, project, read_sources(project)).changes == (
        f"the version of hatch-cubin was 0.0.1, and is now {found.generator}",
        "the data model was llp64, and is now lp64",
    )


def test_a_build_goes_on_with_the_toolkit_where_the_lock_is_stale_and_says_so(
    tmp_path: Path, cache: Path, text: str
) -> None:
    edit = Edit({"demo/near.h": "// edited\n", "demo/saxpy.cu": None})
    project = _project(tmp_path / "project", cache, edit)
    fresh = pipeline.build(project)
    (project.root / lock_format.NAME).write_text(text)
    said: list[str] = []
    assert pipeline.build(replace(project, inform=said.append)) == fresh
    stale = (
        "cubin.lock is stale (demo/near.h is changed, and 2 more): run 'hatch-cubin lock' to "
        "write the lock again"
    )
    assert stale in said


def test_a_build_with_another_arch_from_the_environment_goes_on_and_names_the_variable(
    tmp_path: Path, cache: Path, text: str
) -> None:
    project = _project(tmp_path / "project", cache, Edit(environ={"HATCH_CUBIN_ARCHS": "sm_80"}))
    fresh = pipeline.build(project)
    (project.root / lock_format.NAME).write_text(text)
    said: list[str] = []
    assert pipeline.build(replace(project, inform=said.append)) == fresh
    assert [line.split(" (")[0] for line in said if line.startswith("cubin.lock")] == [
        "cubin.lock does not match a build with HATCH_CUBIN_ARCHS"
    ]


def test_what_the_cache_lacks_is_compiled_and_has_to_have_the_locks_keys(
    project: Project, tmp_path: Path, text: str
) -> None:
    bundle = pipeline.build(project)
    config = replace(project.config, cache_dir=str(tmp_path / "empty"))
    empty = replace(project, config=config, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"})
    assert _evaluated(empty).results is None
    assert pipeline.build(empty) == bundle
    assert _evaluated(empty).results is not None
    found = lock_format.decode(text)
    older = found._replace(builds={**found.builds, "nvrtc": "13.0.1"})
    (project.root / lock_format.NAME).write_text(lock_format.encode(older))
    shutil.rmtree(tmp_path / "empty")
    with pytest.raises(LockError, match=rf"NVRTC was 13\.0\.1, and is now {found.builds['nvrtc']}"):
        pipeline.build(empty)
    said: list[str] = []
    free = replace(project, config=config, inform=said.append)
    assert pipeline.build(free) == bundle
    assert any(line.startswith("cubin.lock is stale (NVRTC was 13.0.1, and is now ") for line in said)


def _without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no compiler, as an isolated build that asked for none."""
    monkeypatch.setattr(libraries, "installation", lambda _wanted: None)
    for name in ("cuda.core", "cuda.bindings"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize("lost", ["all", "one", "the folder", "to another folder", "its permission"])
def test_a_build_without_a_compiler_whose_cache_has_lost_units_says_so(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    folder = tmp_path / "cache"
    shutil.copytree(project.cache_folder, folder)
    own = replace(project, config=replace(project.config, cache_dir=str(folder)))
    assert required_wheels.required_wheels(own.config, own.root, lambda: own) == []
    jobs = _evaluated(own).plan.jobs
    if lost == "all":
        shutil.rmtree(folder / "entries")
    elif lost == "one":
        with pipeline.open_cache(own) as cache:
            cache.forget(jobs[0].keys.key)
    elif lost == "the folder":
        shutil.rmtree(folder)
    elif lost == "to another folder":
        own = replace(own, config=replace(own.config, cache_dir=str(tmp_path / "elsewhere")))
    else:
        shutil.rmtree(folder)
        folder.write_text("a file")
    _without_compiler(monkeypatch)
    (problem,) = refusal(ToolchainError, pipeline.choose_plan, own).problems
    count = 1 if lost == "one" else len(jobs)
    assert f"{count} of {len(jobs)} units are not in the cache at {own.cache_folder}" in problem.what
    assert problem.where == Location(lock_format.NAME)
    assert "build again" in str(problem.hint)
    assert any("cuda.core" in each for each in problem.details)
    monkeypatch.undo()
    assert required_wheels.required_wheels(own.config, own.root, lambda: own)[0].startswith("cuda-core==")


@pytest.mark.parametrize("name", ["a source", "a header that is gone", "a new source", "a variable's arch"])
def test_a_build_without_a_compiler_whose_project_was_changed_since_it_asked_says_so(
    project: Project, cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert required_wheels.required_wheels(project.config, project.root, lambda: project) == []
    edit, change = CHANGES[name]
    edited = _project(project.root, cache, edit)
    for path in [path for path, content in edit.files.items() if content is None]:
        (project.root / path).unlink()
    _without_compiler(monkeypatch)
    (problem,) = refusal(ToolchainError, pipeline.choose_plan, edited).problems
    assert problem.code == "cuda-core-not-importable"
    assert f"({change}" in problem.details[0]
    assert [variable for variable in edit.environ if variable not in problem.details[0]] == []
    command = locked_build.install_command(edited)
    assert command is not None
    assert "build again" in str(problem.hint)
    assert str(problem.hint).endswith(command)
    monkeypatch.undo()
    assert required_wheels.required_wheels(edited.config, edited.root, lambda: edited)[0].startswith(
        "cuda-core=="
    )


def test_a_stale_lock_is_not_why_an_installed_compiler_fails(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(project.root, {"demo/saxpy.cu": f"{SAXPY} "})
    _without_compiler(monkeypatch)
    overwritten = (("an old cuda-python is installed",), "reinstall cuda-python")
    monkeypatch.setattr(toolkit, "_overwritten_bindings", lambda: overwritten)
    (problem,) = refusal(ToolchainError, pipeline.choose_plan, project).problems
    assert (problem.details, problem.hint) == overwritten


def test_without_a_lock_the_compiler_alone_is_missing(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.root / lock_format.NAME).unlink()
    _without_compiler(monkeypatch)
    (problem,) = refusal(ToolchainError, pipeline.choose_plan, project).problems
    assert (problem.code, problem.details) == ("cuda-core-not-importable", ())


def test_what_is_known_of_locked_results_is_recalled(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    bundle = pipeline.build(project)
    known = [job.recorded for job in _evaluated(project).plan.jobs]
    assert all(each is not None and each.size for each in known)
    monkeypatch.setattr(entries, "read_record", None)
    assert pipeline.build(project) == bundle


def test_a_locked_build_takes_no_unit_that_was_compiled_to_other_bytes(tmp_path: Path) -> None:
    cache = {"HATCH_CUBIN_CACHE_DIR": str(tmp_path / "cache")}
    root = tmp_path / "project"
    project = make_project(root, {"saxpy.cu": SAXPY}, 'archs = ["sm_80", "sm_90"]', **cache)
    made = pipeline.make_lock(project)
    made.modules["saxpy"]["units"]["sm_80"][2] = "0" * 64
    (root / lock_format.NAME).write_text(lock_format.encode(made))
    assert pipeline.build(project)
    locked = replace(project, environ={**project.environ, "HATCH_CUBIN_LOCKED": "1"})
    with pytest.raises(LockError, match="1 of 2 results differ from the digests") as caught:
        pipeline.build(locked)
    assert caught.value.problems[0].details == ("saxpy for sm_80",)


def test_a_lock_counts_more_than_what_is_recalled(tmp_path: Path) -> None:
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, 'archs = ["sm_80", "sm_90"]')
    made = pipeline.make_lock(project)  # which notes what it found
    units = made.modules["saxpy"]["units"]
    units["sm_80"][2] = "0" * 64
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(made))
    write_tree(tmp_path, {"demo/more.cu": SAXPY.replace("saxpy", "more")})  # also where it is stale
    jobs = [job for job in pipeline.choose_plan(project).jobs if job.unit.module.name == "saxpy"]
    assert [job.recorded and (job.recorded.sha256, job.recorded.size > 0) for job in jobs] == [
        ("0" * 64, False),
        (units["sm_90"][2], True),
    ]


def test_what_a_group_leaves_out_is_told_with_a_lock_too(tmp_path: Path) -> None:
    said: list[str] = []
    project = make_project(tmp_path, {"copy.ptx": COPY_PTX}, 'archs = ["all-major"]')
    project = replace(project, inform=said.append)
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(project)))
    notes = [line for line in said if "not built for" in line]
    said.clear()
    pipeline.choose_plan(project)
    assert notes
    assert said == notes


def test_what_was_found_is_there_whatever_becomes_of_the_cache(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.cache_folder, tmp_path / "cache")
    own = replace(project, config=replace(project.config, cache_dir=str(tmp_path / "cache")))
    (tmp_path / "hold").mkdir()
    plan = pipeline.choose_plan(own, hold=tmp_path / "hold")
    shutil.rmtree(tmp_path / "cache")
    assert {*pipeline.bake(own, plan).done} == {job.unit for job in plan.jobs}
    assert len([*(tmp_path / "hold/locked").iterdir()]) == len(plan.jobs)


def test_only_the_result_that_was_locked_is_taken_from_the_cache(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.cache_folder, tmp_path / "poisoned")
    poisoned = replace(project, config=replace(project.config, cache_dir=str(tmp_path / "poisoned")))
    bundle = pipeline.build(poisoned)
    job, other = (
        next(job for job in _evaluated(project).plan.jobs if job.unit.name == f"{name} for sm_90")
        for name in ("scale[WIDE=1]", "saxpy")
    )
    with pipeline.open_cache(poisoned) as store:
        stranger = store.get(other.keys.key)
        assert stranger is not None
        store.put(job.keys.key, stranger, {})
    assert _evaluated(poisoned).results is None
    warned: list[str] = []
    assert pipeline.build(replace(poisoned, warn=warned.append)) == bundle
    assert warned == ["damaged cache entries, which are built again: 1"]
    assert _evaluated(poisoned).results is not None


def test_names_that_no_build_gives_are_not_taken_from_the_cache(project: Project, tmp_path: Path) -> None:
    shutil.copytree(project.cache_folder, tmp_path / "poisoned")
    poisoned = replace(project, config=replace(project.config, cache_dir=str(tmp_path / "poisoned")))
    bundle = pipeline.build(poisoned)
    job = next(job for job in _evaluated(project).plan.jobs if job.unit.name == "scale[WIDE=1] for sm_90")
    with pipeline.open_cache(poisoned) as store:
        honest = job.cached_result(store)
        assert honest is not None
        (symbol,) = honest.kernels.values()
        store.put(job.keys.key, Compiled(honest.data, {"scale<double, 2>": symbol}), {})
    assert _evaluated(poisoned).results is None
    assert pipeline.build(poisoned) == bundle


def test_a_header_that_cannot_be_read_makes_a_lock_stale(project: Project) -> None:
    header = project.root / "demo/near.h"
    header.unlink()
    os.mkfifo(header)
    said: list[str] = []
    with pytest.raises(HatchCubinError) as caught:
        pipeline.build(replace(project, inform=said.append))
    assert found(caught.value)[0] == ("not-a-regular-file", "demo/near.h")
    assert any(line.startswith("cubin.lock is stale (demo/near.h is changed") for line in said)
    with pytest.raises(HatchCubinError) as caught:
        pipeline.make_lock(project)
    assert found(caught.value)[0] == ("not-a-regular-file", "demo/near.h")


def test_what_is_a_part_of_a_source_that_is_refused_is_told_beside_that(tmp_path: Path) -> None:
    """It counts as a source of its own then, which no lock has."""
    header = write_tree(tmp_path, {"far.h": ""}) / "far.h"
    files = {"k.cu": f'#include "part.cu"\n#include "{header}"\n{SAXPY}', "part.cu": ""}
    project = make_project(tmp_path / "project", files, 'archs = ["sm_90"]')
    (project.root / lock_format.NAME).write_text(lock_format.encode(pipeline.make_lock(project)))
    assert "manifest.json" in pipeline.build(project)
    header.unlink()
    os.mkfifo(header)
    first, second = refusal(CompileError, pipeline.build, project).problems
    assert first.code == "not-a-regular-file"
    assert second.where == Location("demo/part.cu")


def test_what_only_the_compilers_headers_tell_needs_the_compiler(tmp_path: Path) -> None:
    """An include that can be anything can also be a file that is not there yet."""
    source = f"#if 0\n#include UNKNOWN(x)\n#endif\n{SAXPY}"
    project = make_project(tmp_path, {"any.cu": source}, 'archs = ["sm_90"]', HATCH_CUBIN_LOCKED="1")
    made = pipeline.make_lock(project)
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(made))
    verdict = _evaluated(project)
    assert verdict.plan.doubts == ("the includes of demo/any.cu depend on the compiler's headers",)
    assert (made.unsure, verdict.plan.changes, verdict.results) == (["demo/any.cu"], (), None)
    assert "manifest.json" in pipeline.build(project)
    write_tree(tmp_path, {"demo/more.h": ""})
    with pytest.raises(LockError, match="any for sm_90 has a different cache key"):
        pipeline.build(project)


FORGED: tuple[Any, ...] = (
    None,
    5,
    -1,
    True,
    1.5,
    10**30,
    "x",
    "",
    [],
    {},
    [5],
    {"a": 5},
    "\ud800",
    "a\0b",
    "\n::error::x",
)


def _forged(values: dict[str, Any]) -> Iterator[str]:
    """Yield the texts of a lock with another value at each place, under another name, or without that."""

    def places(value: Any) -> Iterator[tuple[Any, Any]]:
        items = [*value.items()] if isinstance(value, dict) else [*enumerate(value)]
        for key, each in items:
            yield value, key
            if isinstance(each, (dict, list)):
                yield from places(each)

    for home, key in [*places(values)]:
        before = home[key]
        for value in FORGED:
            home[key] = value
            yield checked(values)
        home[key] = before
        if isinstance(home, dict):
            del home[key]
            yield checked(values)
            for name in filter(lambda each: isinstance(each, str), FORGED):
                home[name] = before
                yield checked(values)
                del home[name]
            home[key] = before


def test_a_forged_lock_is_believed_or_refused_and_no_crash(project: Project, text: str) -> None:
    values = {name: each for name, each in json.loads(text).items() if name not in {"about", "check"}}
    sources, outcomes = read_sources(project), {"refused": 0, "stale": 0, "as it was": 0}
    for forged in _forged(values):
        try:
            found = lock_format.decode(forged)
        except ConfigError:
            outcomes["refused"] += 1
            continue
        plan = lock_comparison.plan_by_lock(found, project, sources)
        lock_comparison.fits_table(found, project)
        lock_comparison.units_that_differ(found, [(job, "") for job in plan.jobs])
        outcomes["stale" if plan.changes else "as it was"] += 1
    assert all(outcomes.values()), outcomes
