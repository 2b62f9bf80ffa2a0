"""`verify --rebuild`: what a build from nothing tells of a bundle that holds together, and what it cannot."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import __version__
from hatch_cubin.building import pipeline
from hatch_cubin.bundle import layout, manifest, sbom
from hatch_cubin.cache import entries
from hatch_cubin.cli.main import main
from hatch_cubin.common import user_folders
from hatch_cubin.lockfile import lock_format
from hatch_cubin.project.project import Project
from tests.command_line import Command
from tests.cubins import OTHERS, bill_for, cubin, make_wheel
from tests.helpers import SAXPY, Coded, bundle, made, make_project, run, sha256, write_tree

from .test_verify import CODE, INFO, Answer, recorded

TWO = 'archs = ["sm_80", "sm_90"]\n'


def built(project: Project) -> Path:
    """Return an editable install's bundle, built as its hook would build it."""
    return write_tree(project.root / project.bundle_folder, pipeline.build(project))


def rebuilt(command: Command, what: Path, project: Path, *more: str) -> Answer:
    return Answer(command, what, "--rebuild", "--project", project, *more)


def _notes() -> set[str]:
    return {path.name for path in user_folders.own_folder().glob("builds/*")}


@pytest.mark.nvrtc
def test_a_rebuild_that_gives_the_same(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))  # where nobody else notes anything
    bundle_folder = built(make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO))
    report, before = tmp_path / "report.json", _notes()
    switches = {"SKIP": "1", "REQUIRE_HITS": "1", "LOCKED": "1", "REPORT": str(report), "SIGNING_KEY": "none"}
    switches["EXECUTOR"] = "no_such_cluster:make"
    for name, value in switches.items():
        monkeypatch.setenv(f"HATCH_CUBIN_{name}", value)
    answer = rebuilt(command, bundle_folder, tmp_path)
    assert (
        answer.out.splitlines()[1]
        == f"{bundle_folder.as_posix()}: of 2 units compiled again, 2 have exactly the same bytes"
    )
    assert (answer.code, report.exists()) == (0, False)
    assert _notes() == before  # of the builds with caches that are kept


@pytest.mark.nvrtc
def test_a_bundle_tells_its_package_where_nobody_else_does(tmp_path: Path, command: Command) -> None:
    text = '[build-system]\nbuild-backend = "flit_core.buildapi"\n[tool.hatch-cubin]\narchs = ["sm_90"]\n'
    packages = dict.fromkeys(["src/a/__init__.py", "src/b/__init__.py", "lib/demo/__init__.py"], "")
    write_tree(tmp_path, {"pyproject.toml": text, "lib/demo/saxpy.cu": SAXPY, **packages})
    assert main(["bundle", "--project", str(tmp_path), "--into", str(tmp_path / "lib/demo")]) == 0
    answer = Answer(command, tmp_path / "lib/demo", "--rebuild", "--project", tmp_path)
    assert answer.code == 0
    assert "of 1 unit compiled again, 1 has exactly the same bytes\n" in answer.out


@pytest.mark.nvrtc
def test_a_poisoned_cache_is_found(tmp_path: Path, command: Command) -> None:
    """Another kernel's code under a unit's key, with a record that proves it: every digest is right."""
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO)
    evil = make_project(
        tmp_path / "evil", {"saxpy.cu": SAXPY.replace("a * x[i]", "x[i]")}, 'archs = ["sm_90"]\n'
    )
    (poison,) = pipeline.bake(evil, pipeline.make_plan(evil)).done.values()
    plan = pipeline.make_plan(project)
    pipeline.bake(project, plan, noted=False)  # who recalls it is not deceived
    (victim,) = (job for job in plan.jobs if str(job.unit.arch) == "sm_90")
    with pipeline.open_cache(project) as cache:
        cache.put(victim.keys.key, poison, {})
    shipped = built(project)
    assert (shipped / "saxpy.sm_90.cubin").read_bytes() == poison.data
    assert Answer(command, shipped).code == 0  # nothing else can tell
    answer = rebuilt(command, shipped, tmp_path)
    assert answer.code == 1
    assert (
        answer.out.splitlines()[1]
        == f"{shipped.as_posix()}: of 2 units compiled again, 1 has exactly the same bytes"
    )
    assert answer.err.splitlines()[-3:] == [
        (
            f"hatch-cubin: error: {shipped.as_posix()}: "
            "the rebuild differs in 1 unit although all inputs are equal [unit-differs]"
        ),
        "  saxpy for sm_90",
        "  hint: the cache or the wheel was probably tampered with: empty the cache, and build again",
    ]


@pytest.mark.nvrtc
def test_a_record_that_swaps_the_names_of_kernels_is_found(tmp_path: Path, command: Command) -> None:
    """Of names that only the compiler knows: no other would be believed."""
    source = "using one = int;\nusing two = float;\ntemplate <class T> __global__ void k(T *x) { *x = 1; }\n"
    of_source = "[[tool.hatch.build.hooks.cubin.source]]\npath = 'demo/k.cu'\n"
    table = f"archs = ['sm_90']\n{of_source}instantiate = ['k<one>', 'k<two>']\n"
    project = make_project(tmp_path, {"k.cu": source}, table)
    plan = pipeline.make_plan(project)
    (compiled,) = pipeline.bake(project, plan, noted=False).done.values()  # who recalls it is not deceived
    swapped = dict(zip(compiled.kernels, [*compiled.kernels.values()][::-1], strict=True))
    assert swapped != compiled.kernels
    with pipeline.open_cache(project) as cache:
        cache.put(plan.jobs[0].keys.key, entries.Compiled(compiled.data, swapped), {})
    shipped = built(project)
    assert Answer(command, shipped).code == 0
    assert rebuilt(command, shipped, tmp_path).errors == [
        Coded("unit-differs", shipped.as_posix(), "1 unit ")
    ]


@pytest.mark.nvrtc
def test_other_sources_are_told_from_a_wrong_result(tmp_path: Path, command: Command) -> None:
    project = make_project(tmp_path, {"saxpy.cu": SAXPY, "gone.cu": SAXPY.replace("saxpy", "gone")}, TWO)
    shipped = tmp_path / "shipped" / "_cubins"
    shutil.copytree(built(project), shipped)
    (tmp_path / "demo" / "gone.cu").unlink()
    write_tree(
        tmp_path / "demo",
        {"saxpy.cu": SAXPY.replace("+=", "-="), "new.cu": SAXPY.replace("saxpy", "fresh")},
    )
    answer = rebuilt(command, shipped, tmp_path, "--json")
    facts = json.loads(answer.out)
    (result,) = facts["results"]
    assert result["rebuild"]["toolchain"] == []
    assert [(unit["module"], unit["arch"], unit["verdict"]) for unit in result["rebuild"]["units"]] == [
        ("gone", "sm_80", "only in the bundle"),
        ("gone", "sm_90", "only in the bundle"),
        ("new", "sm_80", "only in the rebuild"),
        ("new", "sm_90", "only in the rebuild"),
        ("saxpy", "sm_80", "other inputs"),
        ("saxpy", "sm_90", "other inputs"),
    ]
    assert [(problem["what"], problem["details"]) for problem in facts["errors"]] == [
        (
            "the inputs of 2 units differ in the rebuild: a source, a header, an option or the compiler",
            ["saxpy for sm_80", "saxpy for sm_90"],
        ),
        ("the wheel has 2 units that the project does not build", ["gone for sm_80", "gone for sm_90"]),
        ("the project builds 2 units that the wheel does not have", ["new for sm_80", "new for sm_90"]),
    ]


@pytest.mark.nvrtc
def test_another_toolchain_proves_nothing_and_is_named(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, 'archs = ["sm_90"]\n')
    toolkit = pipeline.make_plan(project).toolkit
    files = bundle(
        made("saxpy", data=cubin("saxpy")),
        folder="demo/_cubins",
        toolchain={"cuda_core": toolkit.core, "nvrtc": "13.0.88", "nvjitlink": toolkit.nvjitlink_if_loaded},
    )
    folder = write_tree(tmp_path / "demo" / "_cubins", files)
    answer = rebuilt(command, folder, tmp_path)
    assert answer.err.splitlines()[-5:] == [
        (
            f"hatch-cubin: error: {folder}: the inputs of 1 unit differ in the rebuild: "
            "a source, a header, an option or the compiler [unit-inputs-differ]"
        ),
        "  saxpy for sm_90",
        "  the difference proves nothing, because the wheel's build and the rebuild differ in:",
        f"    nvrtc: 13.0.88 in the wheel, {toolkit.nvrtc} in the rebuild",
        "  hint: verify the wheel with the sources and the toolkit of its build",
    ]
    made_lock = pipeline.make_lock(project)
    (tmp_path / lock_format.NAME).write_text(lock_format.encode(made_lock))
    again = rebuilt(command, tmp_path / "demo" / "_cubins", tmp_path)
    named = (
        f"install the toolkit that cubin.lock names, and verify the wheel again: pip install "
        f"cuda-core=={toolkit.core} cuda-toolkit=="
    )
    assert again.err.splitlines()[-1].startswith(f"  hint: {named}")


@pytest.mark.nvrtc
def test_a_rebuild_that_fails_hides_nothing_that_is_known(tmp_path: Path, command: Command) -> None:
    shipped = built(make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO))
    (shipped / "stray.cubin").write_text("")
    write_tree(tmp_path / "demo", {"saxpy.cu": "__global__ void saxpy() { wrong; }"})
    errors = rebuilt(command, shipped, tmp_path).errors
    assert any('identifier "wrong" is undefined' in error for error in errors)
    assert Coded("file-not-listed", shipped / "stray.cubin") in errors
    assert len(errors) == 2


@pytest.mark.nvrtc
def test_keys_that_cannot_be_read_stop_the_comparison(tmp_path: Path, command: Command) -> None:
    shipped = built(make_project(tmp_path, {"saxpy.cu": SAXPY}, 'archs = ["sm_90"]\n'))
    (shipped / "keys.json").write_text("{}")
    what = "the manifest or the cache keys of this bundle cannot be read: does not have 'units'"
    assert f"{shipped.as_posix()}: {what} [manifest-unreadable]" in rebuilt(command, shipped, tmp_path).errors


@pytest.mark.nvrtc
def test_a_bundle_of_another_project_is_not_compared(tmp_path: Path, command: Command) -> None:
    make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO)
    shipped = write_tree(tmp_path / "other", bundle(made("k", data=CODE), folder="src/other/_cubins"))
    answer = rebuilt(command, shipped, tmp_path)
    what = f"does not contain a bundle of this project (demo/_cubins), only {shipped.as_posix()}"
    assert answer.errors == [f"{shipped}: {what} [bundle-of-other-project]"]


# --- forgeries that hold together -----------------------------------------------------------------

BESIDE = f"{INFO}/sboms/{sbom.NAME}"
Forge = Callable[[dict[str, bytes]], object]


def wheel_of(root: Path, forge: Forge | None = None, table: str = TWO, **build: str) -> Path:
    """Return a wheel of a project in *root*, with something else in it that RECORD fits."""
    files = pipeline.build(make_project(root, {"saxpy.cu": SAXPY}, table, **build))
    files = {BESIDE if name == sbom.NAME else f"demo/_cubins/{name}": data for name, data in files.items()}
    files["demo/__init__.py"] = b""
    if forge is not None:
        forge(files)
    return make_wheel(root / "demo-1.0-py3-none-any.whl", recorded(files))


def in_manifest(change: Callable[[Any], object]) -> Forge:
    """Return what writes a manifest anew, all of whose checks hold."""

    def forge(files: dict[str, bytes]) -> None:
        fields = json.loads(files["demo/_cubins/manifest.json"])
        change(fields)
        header = {key: value for key, value in fields.items() if key not in ("check", "kernels", "modules")}
        modules = {
            name: {key: value for key, value in line.items() if key != "check"}
            for name, line in fields["modules"].items()
        }
        lines = (manifest.module_line(*each) for each in modules.items())
        pieces = manifest.write_manifest(header, fields["kernels"], lines)
        files["demo/_cubins/manifest.json"] = b"".join(pieces)

    return forge


def in_keys(files: dict[str, bytes]) -> None:
    units = json.loads(files["demo/_cubins/keys.json"])["units"]
    units["saxpy"]["sm_90"]["program_key"] = "00" * 32
    lines = {name: manifest.keys_line(name, archs) for name, archs in units.items()}
    files["demo/_cubins/keys.json"] = b"".join(manifest.write_keys(lines))


def in_bill(files: dict[str, bytes]) -> None:
    fields = json.loads(files[BESIDE])
    parts = [*fields["components"], sbom.part("library", "evil", "1.0", wheel="evil")]
    files[BESIDE] = sbom.write_bill(fields["metadata"]["component"], parts)


@pytest.mark.nvrtc
@pytest.mark.parametrize(
    ("forge", "name"),
    [
        (
            in_manifest(lambda fields: fields["modules"]["saxpy"].update(options={"std": "c++20"})),
            "manifest.json",
        ),
        (
            in_manifest(lambda fields: fields["modules"]["saxpy"].update(source="demo/../evil.cu")),
            "manifest.json",
        ),
        (in_manifest(lambda fields: fields.update(more="evil")), "manifest.json"),
        (in_manifest(lambda fields: fields["toolchain"].update(cuda_core="0")), "manifest.json"),
        (in_keys, "keys.json"),
        (in_bill, sbom.NAME),
        (lambda files: files.update({BESIDE: b"{}"}), sbom.NAME),
    ],
    ids=[
        "options",
        "a source",
        "a field more",
        "the toolchain",
        "what a cache is asked",
        "the bill",
        "no bill",
    ],
)
def test_every_file_that_is_ours_is_compared(
    tmp_path: Path, command: Command, forge: Forge, name: str
) -> None:
    """Also those that no unit of code depends on, and that hold together with what says what they are."""
    wheel = wheel_of(tmp_path, forge)
    answer = rebuilt(command, wheel, tmp_path)
    assert answer.code == 1
    assert answer.out.splitlines()[-2:] == [
        f"{wheel}/demo/_cubins: of 2 units compiled again, 2 have exactly the same bytes",
        f"{wheel}/demo/_cubins: of {OTHERS} other files made again, {OTHERS - 1} have exactly the same bytes",
    ]
    assert Coded("file-differs", "demo/_cubins", "1 file ") in answer.errors
    assert f"  {name}" in answer.err.splitlines()


@pytest.mark.nvrtc
def test_code_that_the_manifest_was_made_to_fit_is_found_by_a_rebuild_alone(
    tmp_path: Path, command: Command
) -> None:
    evil = make_project(tmp_path / "evil", {"saxpy.cu": SAXPY.replace("a * x[i]", "x[i]")}, TWO)
    of_evil = pipeline.build(evil)
    meant = json.loads(of_evil["manifest.json"])["modules"]["saxpy"]["entries"]

    def forge(files: dict[str, bytes]) -> None:
        files["demo/_cubins/saxpy.sm_90.cubin"] = of_evil["saxpy.sm_90.cubin"]
        in_manifest(lambda fields: fields["modules"]["saxpy"]["entries"].__setitem__(1, meant[1]))(files)

    wheel = wheel_of(tmp_path, forge)
    answer = Answer(command, wheel)
    assert (answer.code, "agree with the manifest" in answer.out) == (0, True)  # and no more is said
    assert rebuilt(command, wheel, tmp_path).errors == [Coded("unit-differs", "demo/_cubins", "1 unit ")]


@pytest.mark.nvrtc
def test_a_unit_is_only_the_same_where_its_file_is(tmp_path: Path, command: Command) -> None:
    """What the manifest says of it does not do."""

    def forge(files: dict[str, bytes]) -> None:
        files["demo/_cubins/saxpy.sm_90.cubin"] = files["demo/_cubins/saxpy.sm_80.cubin"]
        del files["demo/_cubins/saxpy.sm_80.cubin"]

    answer = rebuilt(command, wheel_of(tmp_path, forge), tmp_path)
    assert answer.out.splitlines()[0].endswith(
        "/demo/_cubins: of 2 units compiled again, 0 have exactly the same bytes"
    )
    assert Coded("unit-differs", "demo/_cubins", "2 units ") in answer.errors
    assert Coded("file-missing", "demo/_cubins/saxpy.sm_80.cubin") in answer.errors


@pytest.mark.nvrtc
def test_what_hatch_cubin_did_not_make_nothing_here_can_prove(tmp_path: Path, command: Command) -> None:
    """That is what signatures are for; the guide, the threat model and SECURITY.md say so."""
    wheel = wheel_of(tmp_path, lambda files: files.update({"demo/__init__.py": b"import evil\n"}))
    assert Answer(command, wheel).code == 0
    assert rebuilt(command, wheel, tmp_path).code == 0


@pytest.mark.nvrtc
def test_a_loader_with_code_appended_passes_no_rebuild_whatever_version_it_claims(
    tmp_path: Path, command: Command
) -> None:
    def forge(files: dict[str, bytes]) -> None:
        files["demo/_cubins/__init__.py"] += b"\nimport evil\n"
        in_manifest(lambda fields: fields["generator"].update(version="0.0.1"))(files)
        files[BESIDE] = bill_for({"manifest.json": files["demo/_cubins/manifest.json"]})

    answer = rebuilt(command, wheel_of(tmp_path, forge), tmp_path)
    assert answer.errors == [
        "demo/_cubins: the rebuild differs in 3 files although all compiled code is equal [file-differs]",
        Coded("unknown-release", "demo/_cubins/manifest.json", " 0.0.1 ", __version__),
    ]
    assert answer.err.splitlines()[2:8] == [
        "  __init__.py",
        "  manifest.json",
        f"  {sbom.NAME}",
        "  the difference proves nothing, because the wheel's build and the rebuild differ in:",
        f"    hatch-cubin: 0.0.1 in the wheel, {__version__} in the rebuild",
        "  hint: verify the wheel with the sources and the toolkit of its build",
    ]


@pytest.mark.nvrtc
def test_the_commit_is_compared_where_the_bill_names_one(tmp_path: Path, command: Command) -> None:
    """A wheel of an sdist, which is of no commit, is told from one of the tree."""
    wheel = wheel_of(tmp_path)
    traced = f"{TWO}provenance = true\n"
    make_project(tmp_path, {"saxpy.cu": SAXPY}, traced)
    git = ("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
    for words in (("init", "-q"), ("add", "demo", "pyproject.toml"), ("commit", "-qm", "one")):
        run(*git, *words, cwd=tmp_path)
    commit = run("git", "rev-parse", "HEAD", cwd=tmp_path).stdout.strip()
    answer = rebuilt(command, wheel, tmp_path)
    assert answer.errors == [Coded("file-differs", "demo/_cubins", "1 file ")]
    assert answer.err.splitlines()[-5:] == [
        f"  {sbom.NAME}",
        "  the difference proves nothing, because the wheel's build and the rebuild differ in:",
        f"    commit: none in the wheel, {commit} in the rebuild",
        "    dirty: none in the wheel, false in the rebuild",
        "  hint: the wheel was built from an sdist: unpack the sdist, and verify the wheel there",
    ]
    wheel = wheel_of(tmp_path, table=traced)
    run(*git, "commit", "-q", "--allow-empty", "-m", "two", cwd=tmp_path)
    answer = rebuilt(command, wheel, tmp_path)
    assert answer.err.splitlines()[-1] == (
        "  hint: verify the wheel in a checkout of the commit that it was built from"
    )


@pytest.mark.nvrtc
def test_the_notes_of_an_editable_install_are_compared(tmp_path: Path, command: Command) -> None:
    project = make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO)
    pipeline.build_in_place(project, layout.HATCH_REBUILD)
    folder = tmp_path / "demo/_cubins"
    (tmp_path / "demo/saxpy.cu").touch()  # when a source was written is nobody's business
    answer = rebuilt(command, folder, tmp_path)
    assert (answer.code, answer.out.splitlines()[-1]) == (
        0,
        f"{folder.as_posix()}: of {OTHERS} other files made again, {OTHERS} have exactly the same bytes",
    )
    notes = json.loads((folder / "editable.json").read_text())
    notes["files"]["demo/saxpy.cu"][-1] = sha256(b"evil")
    (folder / "editable.json").write_text(f"{manifest.canonical(notes)}\n")
    differs = Coded("file-differs", folder, "1 file ")
    assert rebuilt(command, folder, tmp_path).errors == [differs]
    (folder / "editable.json").write_text("{}")
    edited = Coded("not-as-written", folder / "editable.json")
    assert rebuilt(command, folder, tmp_path).errors == [differs, edited]


@pytest.mark.nvrtc
def test_the_bundle_that_is_imported_is_compared_whatever_another_says_that_it_is(
    tmp_path: Path, command: Command
) -> None:
    """A true copy under another package, whose manifest still names the project's folder."""

    def forge(files: dict[str, bytes]) -> None:
        for name in [*files]:
            if name.startswith("demo/_cubins/"):
                files[f"a/{name[5:]}"] = files[name]
        in_keys(files)

    answer = rebuilt(command, wheel_of(tmp_path, forge), tmp_path)
    assert answer.errors == [
        (
            "a/_cubins: was not compared with a rebuild, because this project builds only "
            "demo/_cubins [bundle-not-compared]"
        ),
        Coded("file-differs", "demo/_cubins", "1 file "),
    ]


@pytest.mark.nvrtc
def test_of_several_copies_in_a_folder_one_has_to_be_named(tmp_path: Path, command: Command) -> None:
    first = built(make_project(tmp_path, {"saxpy.cu": SAXPY}, TWO))
    second = shutil.copytree(first, tmp_path / "build/lib/demo/_cubins")
    what = "contains several bundles that this project (demo/_cubins) may have built"
    assert rebuilt(command, tmp_path, tmp_path).errors == [
        f"{tmp_path}: {what}: {second.as_posix()}, {first.as_posix()} [several-bundles]"
    ]
    assert rebuilt(command, first, tmp_path).code == 0


@pytest.mark.nvrtc
def test_a_package_in_a_namespace_that_the_project_does_not_tell_is_its_own(
    tmp_path: Path, command: Command
) -> None:
    def forge(files: dict[str, bytes]) -> None:
        for name in [name for name in files if name.startswith("demo/")]:
            files[f"ns/{name}"] = files.pop(name)

    answer = rebuilt(command, wheel_of(tmp_path, forge), tmp_path)
    assert (answer.code, answer.errors) == (0, [])


@pytest.mark.nvrtc
def test_a_package_in_the_data_of_its_wheel_is_its_own_and_not_that_in_a_namespace(
    tmp_path: Path, command: Command
) -> None:
    def forge(files: dict[str, bytes]) -> None:
        for name in [name for name in files if name.startswith("demo/")]:
            files[f"ns/{name}"] = files[f"demo-1.0.data/platlib/{name}"] = files.pop(name)

    answer = rebuilt(command, wheel_of(tmp_path, forge), tmp_path)
    what = (
        "was not compared with a rebuild, because this project builds only demo-1.0.data/platlib/demo/_cubins"
    )
    assert (answer.code, answer.errors) == (1, [f"ns/demo/_cubins: {what} [bundle-not-compared]"])
