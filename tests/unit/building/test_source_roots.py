"""A project with folders above it: what its kernels can read, in the tree and in an sdist."""

from __future__ import annotations

import itertools
import json
import posixpath
import re
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.errors import HatchCubinError, SourceError
from hatch_cubin.headers import resolve
from hatch_cubin.headers.includes import Resolver
from hatch_cubin.headers.search_path import project_roots
from hatch_cubin.lockfile import lock_format
from hatch_cubin.project.project import Project
from tests.helpers import SAXPY, found, make_project, refusal, write_tree

pytestmark = pytest.mark.nvrtc

ROOTS = 'source-roots = { csrc = "../csrc", third = "../third" }\n'
OPTIONS = f'archs = ["sm_90"]\nsources = ["csrc/*.cu", "**/*.cu"]\ninclude-dirs = ["csrc/include"]\n{ROOTS}'
# Paths are in the bytes: those of `assert`.
PRESENT = "#pragma once\n#include <cassert>\n__device__ inline void present(int n) { assert(n > 0); }\n"
ABOVE = {
    "csrc/plain.cu": SAXPY,
    "csrc/near.h": PRESENT,
    "csrc/deep/far.h": '#include "../near.h"\n',
    "csrc/include/inc.h": PRESENT,
    "third/t.h": PRESENT,
    "other.h": PRESENT,
}
CROSSING = "is included by a path that leaves a source root with '..'; "
CROSSING += "in an sdist, this path leads to a different file"


def mono(root: Path, above: Mapping[str, str], own: Mapping[str, str], options: str = OPTIONS) -> Project:
    """Return a project in a monorepo, with files above it and files in its package."""
    write_tree(root, {"third/unused.h": "", **ABOVE, **above})
    return make_project(root / "pkg", own, options)


def including(header: str) -> str:
    return f"#include {header}\n" + SAXPY.replace("int i =", "present(n); int i =")


def unpacked(project: Project, into: Path) -> Project:
    """Return what is built from the project's sdist, in a folder of its own."""
    files = {place: path.read_bytes() for place, path in pipeline.sdist_files(project).items()}
    (into / "demo").mkdir(parents=True)
    write_tree(into, {"PKG-INFO": "", "demo/__init__.py": "", **files})
    shutil.copy(project.root / "pyproject.toml", into)
    return Project(root=into, packages=project.packages, config=project.config, environ=project.environ)


def compiled(project: Project) -> dict[str, bytes]:
    """Return what a build with an empty cache makes."""
    config = replace(project.config, cache_dir=str(project.root / "cache"))
    return pipeline.build(replace(project, config=config))


@pytest.mark.parametrize(
    ("source", "header"),
    [
        pytest.param("csrc", '"near.h"', id="beside it"),
        pytest.param("csrc", '"deep/far.h"', id="below it, and from there back"),
        pytest.param("csrc", '"../third/t.h"', id="in a root that lies beside its own, here and there"),
        pytest.param("csrc", "<inc.h>", id="on the search path"),
        pytest.param("demo", "<inc.h>", id="from the project on the search path"),
        pytest.param("demo", "<csrc/near.h>", id="by the root's name from the project's own folder"),
    ],
)
@pytest.mark.parametrize("more", ["", "options = { lineinfo = true }\n"], ids=["plain", "lineinfo"])
def test_what_is_built_from_the_sdist_is_what_is_built_from_the_tree(
    tmp_path: Path, source: str, header: str, more: str
) -> None:
    options = OPTIONS.replace('["csrc/include"]', '["csrc/include", "."]') + more
    files = {"k.cu": including(header)}
    above = {f"csrc/{name}": text for name, text in files.items()} if source == "csrc" else {}
    project = mono(tmp_path, above, {} if above else files, options)
    built = compiled(project)
    assert compiled(unpacked(project, tmp_path / "un/packed/far/from/it")) == built
    assert b"/proc/self/fd/77/" in built["k.sm_90.cubin"]


@pytest.mark.parametrize(
    ("source", "header", "named"),
    [
        pytest.param("csrc/k.cu", '"../other.h"', "../other.h", id="out of a root"),
        pytest.param("csrc/k.cu", '"../../demo/own.h"', "demo/own.h", id="into the project, in an sdist"),
        pytest.param("demo/k.cu", '"../../csrc/near.h"', "csrc/near.h", id="into a root as it lies here"),
        pytest.param("demo/k.cu", '"../../other.h"', "../other.h", id="out of the project"),
    ],
)
def test_an_include_that_leads_elsewhere_in_an_sdist_is_refused(
    tmp_path: Path, source: str, header: str, named: str
) -> None:
    folder, _, name = source.partition("/")
    files = {name: including(header)}
    above = {source: files[name]} if folder == "csrc" else {}
    project = mono(tmp_path, above, {"own.h": "", **({} if above else files)})
    error = refusal(HatchCubinError, pipeline.build, project)
    hint = (
        "add the header's folder to 'include-dirs' (which may list folders in "
        "source roots), and include the header without '..'"
    )
    if named.startswith(("..", "demo")):
        hint = (
            "add the header's folder to 'source-roots' and to "
            "'include-dirs', and include the header without '..'"
        )
    assert str(error) == f"{named}: {CROSSING}\n  included from {source}:1\n  hint: {hint}"


# Files of a monorepo, and their names in the project.
HEADERS = {
    "csrc/near.h": "csrc/near.h",
    "csrc/deep/far.h": "csrc/deep/far.h",
    "third/t.h": "third/t.h",
    "pkg/demo/own.h": "demo/own.h",
    "pkg/top.h": "top.h",
    "other.h": "other.h",
}
WAYS = ("", "./", "../", "../../", "../../../", "deep/", "deep/../", "../deep/")
FOLDERS = ("", "csrc/", "third/", "demo/", "pkg/", "csrc/../third/")
NAMES = ("near.h", "far.h", "t.h", "own.h", "top.h", "other.h")


def found_header(project: Project, path: str, header: str) -> str | None:
    """Return what an include finds by the word of the keys, nothing for none; None where that is refused."""
    resolver = Resolver(project.tree, project_roots(project.tree, project.config.include_dirs))
    try:
        files = resolver.resolve(path, f"#include {header}\\n", (), ()).files
    except SourceError:
        return None
    (logical,) = files or [""]
    return posixpath.normpath(logical.partition("/")[2]) if logical else ""


def asking(headers: Iterable[str]) -> str:
    """Return a source that has, for each header, the number of the file that the compiler finds for it."""
    return SAXPY + "".join(
        f"#undef WHICH\n#define WHICH 0\n#if __has_include({header})\n#include {header}\n#endif\n"
        f"__device__ int which{number} = WHICH;\n"
        for number, header in enumerate(headers)
    )


def answers(ptx: bytes) -> list[str]:
    """Return the files that were found."""
    numbers = re.findall(rb"\.u32 which(\d+)(?: = (\d+))?;", ptx)
    return [
        ["", *HEADERS.values()][int(file or 0)]
        for _at, file in sorted(numbers, key=lambda each: int(each[0]))
    ]


def test_what_the_compiler_finds_is_what_the_keys_know_in_the_tree_and_in_an_sdist(tmp_path: Path) -> None:
    texts = {path: f"#undef WHICH\n#define WHICH {number}\n" for number, path in enumerate(HEADERS, 1)}
    sources = {"a": "csrc/a.cu", "b": "csrc/deep/b.cu", "c": "third/c.cu", "d": "demo/d.cu", "e": "e.cu"}
    paths = json.dumps([*sources.values()])
    options = f'archs = ["compute_90"]\nsources = {paths}\ninclude-dirs = ["csrc", "."]\n{ROOTS}'
    project = make_project(write_tree(tmp_path, texts) / "pkg", {}, options)
    spelled = [f"{way}{folder}{name}" for way in WAYS for folder in FOLDERS for name in NAMES]
    headers = [*(f'"{each}"' for each in spelled), *(f"<{each}>" for each in spelled)]
    expected: dict[str, list[str]] = {}
    for module, path in sources.items():
        known = {header: found_header(project, path, header) for header in headers}
        asked = [header for header in headers if known[header] is not None]
        expected[module] = [known[header] or "" for header in asked]
        project.tree.disk_path(path).write_text(asking(asked))
    built = compiled(project)
    assert {module: answers(built[f"{module}.compute_90.ptx"]) for module in sources} == expected
    assert {*itertools.chain(*expected.values())} == {"", *HEADERS.values()} - {"other.h"}
    assert compiled(unpacked(project, tmp_path / "un/packed/far/from/it")) == built


def test_an_include_that_leads_nowhere_is_the_compilers_error(tmp_path: Path) -> None:
    project = mono(tmp_path, {"csrc/k.cu": including('"../inc.h"')}, {})
    with pytest.raises(HatchCubinError) as caught:
        pipeline.build(project)
    assert str(caught.value).splitlines()[:1] == ['csrc/k.cu:1: cannot open source file "../inc.h"']


def test_a_header_of_a_root_is_found_for_a_hint(tmp_path: Path) -> None:
    project = mono(tmp_path, {}, {"k.cu": including("<far.h>")})
    error = refusal(HatchCubinError, pipeline.build, project)
    (found,) = error.problems
    assert (found.what, str(found.where)) == ('cannot open source file "far.h"', "demo/k.cu:1")
    assert str(found.hint).endswith('include-dirs = ["csrc/include", "csrc/deep"]')


def test_a_header_that_is_a_link_out_of_its_root_is_refused(tmp_path: Path) -> None:
    project = mono(tmp_path, {"csrc/k.cu": including('"link.h"')}, {})
    (tmp_path / "csrc/link.h").symlink_to("../other.h")
    error = refusal(HatchCubinError, pipeline.build, project)
    assert found(error) == [("link-leads-outside", "csrc/link.h")]
    assert error.problems[0].details == ("included from csrc/k.cu:1",)


def test_a_computed_include_means_files_of_roots_too(tmp_path: Path) -> None:
    text = "#define NEAR(x) #x\n#define H NEAR(deep/far.h)\n#include H\n" + SAXPY
    project = mono(tmp_path, {"csrc/k.cu": text}, {})
    built = compiled(project)
    assert set(pipeline.sdist_files(project)) >= {
        "source-roots/csrc/deep/far.h",
        "source-roots/csrc/near.h",
        "source-roots/csrc/k.cu",
    }
    assert built["k.sm_90.cubin"]


UP_AND_DOWN = f"""\
#define TEXT(x) #x
#define NEAR(x) TEXT(x)
#define UP ..
#include NEAR(UP/csrc/near.h)
{SAXPY}"""
GUESS = "#define TEXT(x) #x\n#define NEAR(x) TEXT(x)\n"


def key_of(project: Project, name: str) -> bytes:
    (key,) = {job.keys.key for job in pipeline.make_plan(project).jobs if job.unit.module.name == name}
    return key


@pytest.mark.parametrize(
    ("above", "own"),
    [
        pytest.param({}, {"k.cu": f"{GUESS}#include NEAR(csrc/near.h)\n{SAXPY}"}, id="from the package"),
        pytest.param({"csrc/k.cu": f"{GUESS}#include NEAR(csrc/near.h)\n{SAXPY}"}, {}, id="from a root"),
        pytest.param({"csrc/k.cu": UP_AND_DOWN}, {}, id="by two macros"),
    ],
)
def test_what_an_include_may_mean_by_the_name_of_a_root_is_in_the_key_and_in_the_sdist(
    tmp_path: Path, above: dict[str, str], own: dict[str, str]
) -> None:
    project = mono(tmp_path, above, own, OPTIONS.replace('["csrc/include"]', '["."]'))
    assert compiled(project)["k.sm_90.cubin"]
    before = key_of(project, "k")
    assert "source-roots/csrc/near.h" in pipeline.sdist_files(project)
    (tmp_path / "csrc/near.h").write_text(PRESENT + "// edited\n")
    assert key_of(project, "k") != before


def test_what_is_too_large_to_be_scanned_is_part_of_what_an_include_may_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resolve, "_SCANNED_BYTES", 4096)
    files = {"k.cu": f"{GUESS}#include NEAR(near.h)\n{SAXPY}", "near.h": "", "data.bin": "x" * 5000}
    project = make_project(tmp_path, files, 'archs = ["sm_90"]\n')
    before = key_of(project, "k")
    assert key_of(project, "k") == before
    (tmp_path / "demo/data.bin").write_text("y" * 5000)
    assert key_of(project, "k") != before


def test_a_folder_that_is_a_link_out_of_a_root_is_refused(tmp_path: Path) -> None:
    """Its kernels would be missing, and nobody told."""
    project = mono(tmp_path, {"else/k.cu": SAXPY}, {}, OPTIONS.replace("csrc/*.cu", "csrc/**/*.cu"))
    (tmp_path / "csrc/more").symlink_to("../else")
    assert found(refusal(SourceError, pipeline.make_plan, project)) == [("link-leads-outside", "csrc/more")]


def test_an_sdist_that_was_made_without_us_is_told(tmp_path: Path) -> None:
    project = mono(tmp_path, {}, {"own.cu": SAXPY})
    again = unpacked(project, tmp_path / "un/packed")
    shutil.rmtree(again.root / "source-roots")
    error = refusal(HatchCubinError, pipeline.make_plan, again)
    why = (
        "this project is an sdist (it has PKG-INFO) without source-roots/csrc: build "
        "the sdist with hatch-cubin"
    )
    hints = [problem.hint for problem in error.problems if problem.code == "pattern-matches-nothing"]
    assert why in hints


def test_a_guess_that_finds_a_link_out_of_a_root_is_refused(tmp_path: Path) -> None:
    project = mono(tmp_path, {"csrc/k.cu": f"{GUESS}#include NEAR(near.h)\n{SAXPY}", "else/secret.h": ""}, {})
    (tmp_path / "csrc/link.h").symlink_to("../else/secret.h")
    assert ("link-leads-outside", "csrc/link.h") in found(refusal(SourceError, pipeline.make_plan, project))


def test_a_lock_of_the_tree_holds_in_the_sdist(tmp_path: Path) -> None:
    project = mono(tmp_path, {"csrc/k.cu": including('"near.h"')}, {"own.cu": including("<inc.h>")})
    made = lock_format.encode(pipeline.make_lock(project))
    (project.root / lock_format.NAME).write_text(made)
    again = unpacked(project, tmp_path / "un/packed/far/from/it")
    assert (again.root / lock_format.NAME).read_text() == made
    assert [*pipeline.check_lock(again, lock_format.decode(made)).changes] == []
    assert lock_format.encode(pipeline.make_lock(again)) == made
    (tmp_path / "csrc/near.h").write_text("")
    assert [*pipeline.check_lock(project, lock_format.decode(made)).changes] == ["csrc/near.h is changed"]


def test_another_build_recalls_what_the_first_found_in_roots(tmp_path: Path) -> None:
    project = mono(tmp_path, {"csrc/k.cu": including('"near.h"')}, {})
    first = pipeline.make_plan(project)
    pipeline.bake(project, first)
    again = pipeline.make_plan(project)
    assert [job.keys for job in again.jobs] == [job.keys for job in first.jobs]
    assert all(job.recorded for job in again.jobs)
    (tmp_path / "csrc/near.h").write_text(PRESENT + "// edited\n")
    edited = pipeline.make_plan(project)
    before = {job.unit.name: job.keys.key for job in first.jobs}
    changed = {job.unit.name for job in edited.jobs if job.keys.key != before[job.unit.name]}
    assert changed == {"k for sm_90"}


def test_what_an_sdist_lacks_is_nothing_that_its_kernels_need(tmp_path: Path) -> None:
    project = mono(tmp_path, {}, {"own.cu": SAXPY}, OPTIONS.replace('"csrc/*.cu", ', ""))
    again = unpacked(project, tmp_path / "un/packed/far/from/it")
    assert not (again.root / "source-roots").exists()
    assert compiled(again) == compiled(project)


def test_a_project_that_was_copied_away_from_its_roots_says_so(tmp_path: Path) -> None:
    project = mono(tmp_path / "mono", {}, {"own.cu": SAXPY})
    shutil.copytree(project.root, tmp_path / "copied")
    error = refusal(HatchCubinError, pipeline.build, replace(project, root=tmp_path / "copied"))
    assert found(error) == [("source-root-not-found", "pyproject.toml:13")] * 2
    assert [f"'../{name}'" in str(error) for name in ("csrc", "third")] == [True, True]
