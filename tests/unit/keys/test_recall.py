"""What a build recalls of the one before: all that it asked cuda.core and NVRTC, and never anything wrong."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.building import pipeline
from hatch_cubin.cache.entries import Compiled
from hatch_cubin.cache.signing import Signer
from hatch_cubin.common import ed25519_keys, user_folders
from hatch_cubin.keys import recall
from hatch_cubin.project import disk
from hatch_cubin.project.project import Project
from hatch_cubin.toolkit import libraries
from hatch_cubin.toolkit.toolkit import Facts
from tests.helpers import COPY_PTX, REPOSITORY, SAXPY, SCALE, make_project, run, write_tree

FILES = {
    "saxpy.cu": '#include "near.cuh"\n' + SAXPY,
    "near.cuh": "#pragma once\n#define NEAR __DATE__\n",
    "scale.cu": SCALE,
    "half.cu": '#include <cuda_fp16.h>\nextern "C" __global__ void half_(__half *x) { *x = *x + *x; }\n',
    "copy.ptx": COPY_PTX,
}
OPTIONS = """\
archs = ["sm_90", "compute_90"]
[[tool.hatch.build.hooks.cubin.source]]
path = "demo/scale.cu"
instantiate = ["scale<float, 2>"]
variants = { WIDE = [1, 2] }
"""
ALL = 10
UNITS = 2  # of the small project


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's own folder, with the headers that NVRTC takes seconds to unpack."""
    folder, users = tmp_path / "own", user_folders.own_folder()
    folder.mkdir()
    (folder / "headers").symlink_to(users / "headers")
    monkeypatch.setattr(user_folders, "own_folder", lambda: folder)
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Project:
    """A project of one source and its header."""
    small = {name: FILES[name] for name in ("saxpy.cu", "near.cuh")}
    return make_project(tmp_path / "project", small, 'archs = ["sm_90", "compute_90"]')


def recollections(own: Path) -> list[Path]:
    return sorted(own.glob("recall/*"))


def overwrite(path: Path, data: bytes) -> None:
    """Overwrite a file in its place, with as many bytes, and set its times back: as `cp -p` does."""
    status = path.stat()
    path.write_bytes(data)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert path.stat().st_size == status.st_size


def known(project: Project) -> list[bool]:
    """Say of each unit whether it is recalled."""
    return [job.recorded is not None for job in pipeline.make_plan(project).jobs]


@pytest.mark.nvrtc
def test_what_is_recalled_is_what_is_found_out_without(tmp_path: Path, own: Path) -> None:
    project = make_project(tmp_path / "project", FILES, OPTIONS)
    first, planned = pipeline.build(project), pipeline.make_plan(project).jobs
    assert [job.recorded is not None for job in planned] == [True] * ALL
    recalled = pipeline.build(project)
    shutil.rmtree(own / "recall")
    plan = pipeline.make_plan(project)
    assert [(job.keys, job.inputs, job.closure) for job in plan.jobs] == [
        (job.keys, job.inputs, job.closure) for job in planned
    ]
    assert [job.recorded for job in plan.jobs] == [None] * ALL
    assert first == recalled == pipeline.build(project)


LOADED = """
import sys
from pathlib import Path
from hatch_cubin.building import pipeline
from tests.helpers import make_project
from tests.unit.keys.test_recall import FILES, OPTIONS
hold = Path(sys.argv[2])
hold.mkdir()
pipeline.build_held(make_project(Path(sys.argv[1]), FILES, OPTIONS), hold)
maps = Path("/proc/self/maps").read_text() if Path("/proc/self/maps").exists() else ""
needless = ("cuda.core", "numpy", "hatch_cubin.compiling.bake")
print(len(list(hold.iterdir())), *(name in sys.modules for name in needless), "nvrtc" in maps)
"""


@pytest.mark.nvrtc
@pytest.mark.linux
def test_a_build_of_hits_needs_nothing_that_compiles(tmp_path: Path) -> None:
    def build(number: int) -> str:
        command = [sys.executable, "-c", LOADED, str(tmp_path / "project"), str(tmp_path / f"hold{number}")]
        environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "home")}
        done = subprocess.run(
            command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    assert [build(0), build(1)] == ["0 True True True True", f"{ALL} False False False False"]


SIGNED = """
import sys
from pathlib import Path
from hatch_cubin.building import pipeline
from tests.helpers import SAXPY, make_project
pipeline.build(make_project(Path(sys.argv[1]), {"saxpy.cu": SAXPY}, sys.argv[2]))
print(*({"cryptography", "hatch_cubin.cache.signing"} & {*sys.modules}))
"""


@pytest.mark.nvrtc
@pytest.mark.linux
def test_what_was_checked_once_is_recalled(tmp_path: Path) -> None:
    """A build that finds nothing new has no signature to check, and nor has one that trusts no keys."""

    nobody = 'archs = ["sm_90"]\n'
    trusts = f'{nobody}trusted-keys = ["{Signer(bytes(32)).key}"]\n'

    def checks(options: str, home: str, **environ: str) -> bool:
        command = [sys.executable, "-c", SIGNED, str(tmp_path / "project"), options]
        homes = {"XDG_CACHE_HOME": str(tmp_path / home)}
        imported = run(*command, cwd=REPOSITORY, check=True, **homes, **environ).stdout.split()
        assert ("hatch_cubin.cache.signing" in imported) == (options == trusts)
        return "cryptography" in imported

    asked = {"HATCH_CUBIN_REQUIRE_SIGNED": "1"}
    key = ed25519_keys.write(ed25519_keys.PRIVATE, bytes(32))
    assert checks(trusts, "one", **asked, HATCH_CUBIN_SIGNING_KEY=key)
    assert not checks(trusts, "one", **asked, HATCH_CUBIN_REQUIRE_HITS="1")
    assert checks(trusts, "two", **asked, HATCH_CUBIN_REQUIRE_HITS="1")
    assert not checks(trusts, "two", **asked, HATCH_CUBIN_REQUIRE_HITS="1")
    assert not checks(trusts, "three", HATCH_CUBIN_REQUIRE_HITS="1")
    assert not checks(nobody, "four", HATCH_CUBIN_REQUIRE_HITS="1")


@pytest.mark.nvrtc
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize(
    "damage",
    ["a bit", "the end", "a folder in its place", "a pipe in its place", "another format", "nothing"],
)
def test_what_was_damaged_is_not_recalled(
    project: Project, own: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = pipeline.build(project)
    (path,) = recollections(own)
    data = path.read_bytes()
    if damage == "a bit":
        path.write_bytes(data[:500] + bytes([data[500] ^ 1]) + data[501:])
    elif damage == "the end":
        path.write_bytes(data[:-1])
    elif damage == "a folder in its place":
        path.unlink()
        path.mkdir()
    elif damage == "a pipe in its place":
        path.unlink()
        os.mkfifo(path)
    elif damage == "another format":
        monkeypatch.setattr(recall, "_FORMAT", 99)
    assert known(project) == [damage == "nothing"] * UNITS
    assert pipeline.build(project) == first
    assert known(project) == [True] * UNITS


@pytest.mark.nvrtc
def test_only_what_a_build_asked_for_is_kept(project: Project, own: Path) -> None:
    pipeline.build(project)
    (path,) = recollections(own)
    before = path.read_bytes()
    pipeline.build(project)
    assert recollections(own) == [path]
    assert path.read_bytes() == before
    text = (project.root / "demo/saxpy.cu").read_text()
    (project.root / "demo/saxpy.cu").write_text(text.replace("+=", "-="))
    assert known(project).count(False) == 2
    pipeline.build(project)
    assert known(project) == [True] * UNITS
    assert len(path.read_bytes().splitlines()) == len(before.splitlines())


@pytest.mark.nvrtc
@pytest.mark.parametrize("names", [["near.cuh", "saxpy.cu"], ["half.cu"]], ids=["own headers", "others'"])
def test_a_build_that_finds_out_nothing_writes_nothing(tmp_path: Path, own: Path, names: list[str]) -> None:
    project = make_project(tmp_path / "project", {name: FILES[name] for name in names}, 'archs = ["sm_90"]')
    pipeline.build(project)
    (kept,) = recollections(own)
    before = kept.stat().st_ino, kept.read_bytes()
    pipeline.build(project)
    assert (kept.stat().st_ino, kept.read_bytes()) == before


@pytest.mark.nvrtc
def test_an_entry_that_is_known_has_to_be_there_and_right(project: Project) -> None:
    cache = project.cache_folder
    first = pipeline.build(project)
    for path in cache.glob("entries/*/*"):
        path.write_bytes(path.read_bytes()[::-1])
    said: list[str] = []
    assert pipeline.build(replace(project, warn=said.append)) == first
    assert f"damaged cache entries, which are built again: {UNITS}" in said
    shutil.rmtree(cache / "entries")
    assert known(project) == [True] * UNITS
    assert pipeline.build(project) == first


def records(project: Project) -> list[Path]:
    return [path for path in project.cache_folder.glob("entries/*/*") if path.read_bytes()[64:66] == b"\n{"]


@pytest.mark.nvrtc
def test_a_record_that_was_damaged_is_noticed_and_healed(project: Project) -> None:
    first = pipeline.build(project)
    for path in records(project):
        path.write_bytes(path.read_bytes()[:-9])
    said: list[str] = []
    assert pipeline.build(replace(project, warn=said.append)) == first
    assert f"damaged cache entries, which are built again: {UNITS}" in said
    assert len(records(project)) == UNITS


@pytest.mark.nvrtc
def test_an_entry_that_somebody_replaced_with_its_record_is_not_taken(project: Project) -> None:
    first = pipeline.build(project)
    with pipeline.open_cache(project) as cache:
        for job in pipeline.make_plan(project).jobs:
            cache.put(job.keys.key, Compiled(b"poison for saxpy", {"saxpy": "saxpy"}), {})
    assert pipeline.build(project) == first


@pytest.mark.nvrtc
def test_a_build_for_other_archs_forgets_nothing(project: Project) -> None:
    pipeline.build(project)
    few = replace(project, config=replace(project.config, archs=("sm_100",)))
    pipeline.build(few)
    assert (known(few), known(project)) == ([True], [True] * UNITS)


@pytest.mark.nvrtc
def test_what_was_asked_for_is_let_go_of_and_kept_all_the_same(project: Project, own: Path) -> None:
    pipeline.build(project)
    (path,) = recollections(own)
    before = path.read_bytes()
    plan = pipeline.make_plan(project)
    (asked,) = {job.module_digest for job in plan.jobs}
    assert plan.recall.units(asked) == {}
    assert plan.toolkit.facts == plan.recall.facts
    plan.recall.record(plan.toolkit.facts._replace(core="another"), {})
    assert path.read_bytes().splitlines()[2:] == before.splitlines()[2:]


@pytest.mark.nvrtc
def test_an_entry_that_lost_its_record_is_made_again(project: Project) -> None:
    first = pipeline.build(project)
    entries = sorted(project.cache_folder.glob("entries/*/*"))
    for path in records(project):
        path.unlink()
    assert pipeline.build(project) == first
    assert sorted(project.cache_folder.glob("entries/*/*")) == entries


@pytest.mark.nvrtc
def test_another_installation_is_asked_anew(
    project: Project, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.build(project)
    another = libraries.Installation(["another"], [])
    monkeypatch.setattr(libraries, "installation", lambda _wanted: another)
    assert known(project) == [False] * UNITS
    monkeypatch.setattr(libraries, "installation", lambda _wanted: None)
    assert known(project) == [False] * UNITS
    pipeline.build(project)
    assert len(recollections(own)) == 1


@pytest.mark.nvrtc
@pytest.mark.parametrize("tick_ns", [-(10**10), disk.TIMESTAMP_STEP_NS], ids=["long before", "just before"])
def test_a_compiler_that_is_overwritten_with_its_size_and_its_time_is_asked_anew(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", tick_ns)
    library = tmp_path / "libnvrtc.so.13"
    library.write_text("13.0.1")
    monkeypatch.setattr(libraries, "installation", lambda _: libraries.Installation([], [str(library)]))
    pipeline.build(project)
    os.link(library, tmp_path / "another environment")
    assert known(project) == [True] * UNITS
    overwrite(library, b"13.0.2")
    assert known(project) == [False] * UNITS
    pipeline.build(project)
    assert known(project) == [True] * UNITS


@pytest.mark.nvrtc
def test_nothing_is_kept_of_a_build_during_which_the_compiler_changed(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "libnvrtc.so.13"
    library.write_text("13.0.1")
    monkeypatch.setattr(libraries, "installation", lambda _: libraries.Installation([], [str(library)]))
    plan = pipeline.make_plan(project)
    overwrite(library, b"13.0.2")
    pipeline.bake(project, plan)
    assert known(project) == [False] * UNITS


@pytest.mark.nvrtc
@pytest.mark.usefixtures("no_trouble")
def test_who_has_no_home_recalls_nothing(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def none() -> Path:
        raise RuntimeError("no home")

    pipeline.build(project)
    monkeypatch.setattr(user_folders, "own_folder", none)
    assert known(project) == [False] * UNITS
    pipeline.build(project)


@pytest.mark.nvrtc
def test_a_folder_that_cannot_be_written_is_no_fault(project: Project, own: Path) -> None:
    write_tree(own, {"recall": "in the way"})
    said: list[str] = []
    pipeline.build(replace(project, warn=said.append))
    assert [each for each in said if "__DATE__" not in each] == []
    assert known(project) == [False] * UNITS


def test_projects_that_were_not_built_for_long_are_forgotten(own: Path) -> None:
    facts = Facts("1.2", 13, "13.4.92", (75, 90))
    for number in range(25):
        recall.Recall(own / "recall" / f"{number}.txt").record(facts, {})
        os.utime(own / "recall" / f"{number}.txt", (1e9 + number, 1e9 + number))
    write_tree(own / "recall", {"killed.12": "", "writing.34": ""})
    os.utime(own / "recall" / "killed.12", (1e9, 1e9))
    assert recall.Recall(own / "recall" / "5.txt").facts == facts  # which is to use it
    recall.Recall(own / "recall" / "last.txt").record(facts, {})
    left = {"last.txt", "writing.34", "5.txt", *(f"{number}.txt" for number in range(7, 25))}
    assert {path.name for path in recollections(own)} == left


# --- which installation it is -------------------------------------------------------------------

SITE: Mapping[str, str] = {
    "cuda/bindings/nvrtc.so": "bindings",
    "cuda_bindings-13.1.0.dist-info/RECORD": "cuda/bindings/nvrtc.so,sha256=x,8\n",
    "cuda/core/__init__.py": "core",
    "cuda_core-1.2.2.dist-info/RECORD": 'cuda/core/__init__.py,,\n"cuda/core/a,b.txt",,\n',
    "cuda/pathfinder/__init__.py": "pathfinder",
    "cuda_pathfinder-1.0.dist-info/RECORD": "cuda/pathfinder/__init__.py,,\n",
    "nvidia/cu13/lib/libnvrtc.so.13": "nvrtc",
    "nvidia/cu13/lib/libnvrtc-builtins.so.13.1": "builtins",
    "nvidia/cu13/lib/libnvJitLink.so.13": "linker",
}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of the toolkit's wheels, all of its files of one time."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(sys, "path", ["/nowhere", str(tmp_path / "site")])
    for path in write_tree(tmp_path / "site", SITE).rglob("*.*"):
        os.utime(path, (1e9, 1e9))
    return tmp_path / "site"


def test_an_installation_is_the_same_wherever_it_is(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = libraries.identity(None)
    assert here is not None
    assert libraries.identity(None) == here != libraries.identity("13")
    site.rename(tmp_path / "elsewhere")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "elsewhere")])
    assert libraries.identity(None) == here


@pytest.mark.parametrize("name", [name for name in SITE if "dist-info" not in name])
@pytest.mark.parametrize("change", ["longer", "later"])
def test_an_installation_is_another_when_a_file_of_it_is(site: Path, name: str, change: str) -> None:
    before = libraries.identity(None)
    if change == "longer":
        (site / name).write_text(SITE[name] + "!")
        os.utime(site / name, (1e9, 1e9))
    else:
        os.utime(site / name, (1e9, 1e9 + 1))
    assert libraries.identity(None) not in {before, None}


@pytest.mark.parametrize(
    "files",
    [
        {"cuda_core-1.3.0.dist-info/RECORD": "cuda/core/__init__.py,,\n"},
        {"cuda_core-1.2.2.dist-info/RECORD": "__editable__.cuda_core.pth,,\ncuda/core/__init__.py,,\n"},
        {"cuda_core-1.2.2.dist-info/RECORD": ""},
        {"cuda_core-1.2.2.dist-info/RECORD": "cuda/core/gone.py,,\n"},
    ],
    ids=["two versions", "editable", "nothing", "a file less"],
)
def test_an_installation_that_nothing_tells_is_none(site: Path, files: Mapping[str, str]) -> None:
    write_tree(site, files)
    assert libraries.identity(None) is None


def test_what_an_unknown_nvjitlink_made_is_not_recalled(tmp_path: Path) -> None:
    facts = Facts("1.2", 13, "13.5.37", (80,))
    path = tmp_path / "recall.txt"
    recall.Recall(path, knows_linker=False).record(facts._replace(nvjitlink="13.5.37"), {})
    assert not path.exists()
    recall.Recall(path, knows_linker=False).record(facts, {})
    assert recall.Recall(path).facts == facts


def test_an_installation_without_nvjitlink_is_told_apart(site: Path) -> None:
    """Only builds that link or assemble need it."""
    before = libraries.identity(None)
    assert libraries.has_linker(None)
    (site / "nvidia/cu13/lib/libnvJitLink.so.13").unlink()
    assert libraries.identity(None) not in {before, None}
    assert not libraries.has_linker(None)


@pytest.mark.usefixtures("site")
def test_where_nothing_is_installed_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", ["/nowhere"])
    assert libraries.identity(None) is None
    assert not libraries.has_linker(None)


@pytest.mark.parametrize("package", ["core", "bindings", "pathfinder"])
def test_a_copy_that_python_meets_before_is_none_that_anything_tells(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    write_tree(tmp_path / "first", {f"cuda/{package}/__init__.py": ""})
    monkeypatch.setattr(sys, "path", [str(site)])
    assert libraries.identity(None) is not None
    monkeypatch.setattr(sys, "path", [str(tmp_path / "first"), str(site)])
    assert libraries.identity(None) is None


@pytest.mark.usefixtures("site")
def test_another_hatch_cubin_is_another_installation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = libraries.identity(None)
    write_tree(tmp_path / "hatch_cubin", {"_libraries.py": "", "_includes.py": "another scanner"})
    monkeypatch.setattr(libraries, "__file__", str(tmp_path / "hatch_cubin" / "_libraries.py"))
    assert len({before, libraries.identity(None), None}) == 3


@pytest.mark.parametrize("gone", ["cuda_core-1.2.2.dist-info/RECORD", "nvidia/cu13/lib/libnvrtc.so.13"])
def test_an_installation_that_lacks_a_part_is_none(site: Path, gone: str) -> None:
    (site / gone).unlink()
    assert libraries.identity(None) is None


def test_an_installation_needs_no_linker(site: Path) -> None:
    before = libraries.identity(None)
    (site / "nvidia/cu13/lib/libnvJitLink.so.13").unlink()
    assert len({before, libraries.identity(None), None}) == 3


def test_the_system_toolkit_is_that_of_its_folder(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("CUDA_HOME", str(home))
    assert libraries.identity("system") is None
    write_tree(home, {"lib64/libnvrtc.so.13": "nvrtc", "lib64/libnvJitLink.so.13": "linker"})
    first = libraries.identity("system")
    shutil.rmtree(site / "nvidia")
    assert first is not None
    assert libraries.identity("system") == first
    (home / "lib64/libnvrtc.so.13").write_text("another nvrtc")
    assert libraries.identity("system") not in {first, None}


# --- whether it is the same one -----------------------------------------------------------------


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files tell by their states whether they are the same, although they were written just now."""
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", -(10**10))


def here() -> libraries.Installation:
    found = libraries.installation(None)
    assert found is not None
    return found


def evidence() -> libraries.Evidence:
    found = here().evidence()
    assert found is not None
    return found


@pytest.mark.usefixtures("settled")
@pytest.mark.parametrize("name", [name for name in SITE if "dist-info" not in name])
def test_a_file_that_is_overwritten_with_its_size_and_its_time_makes_another_installation(
    site: Path, name: str
) -> None:
    before, identity = evidence(), libraries.identity(None)
    overwrite(site / name, SITE[name][::-1].encode())
    assert not here().is_that_of(before)
    assert libraries.identity(None) != identity


def test_one_that_is_linked_touched_or_copied_is_the_same(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = evidence()
    os.link(site / "nvidia/cu13/lib/libnvrtc.so.13", tmp_path / "linked")
    (site / "cuda/core/__init__.py").touch()
    assert here().is_that_of(before)
    shutil.copytree(site, tmp_path / "copied")
    monkeypatch.setattr(sys, "path", [str(tmp_path / "copied")])
    assert here().is_that_of(before)


@pytest.mark.usefixtures("settled", "site")
def test_files_whose_states_are_the_same_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    before = evidence()
    monkeypatch.setattr(libraries.Installation, "_contents", None)
    found = here()
    assert found.is_that_of(before)
    assert found.evidence() == before


@pytest.mark.usefixtures("settled")
def test_what_is_linked_while_a_build_runs_is_the_same_and_what_is_written_is_not(
    site: Path, tmp_path: Path
) -> None:
    found = here()
    first = found.evidence()
    os.link(site / "nvidia/cu13/lib/libnvrtc.so.13", tmp_path / "linked")
    assert found.evidence() == first
    overwrite(site / "nvidia/cu13/lib/libnvrtc.so.13", b"ctrvn")
    assert found.evidence() is None


@pytest.mark.parametrize("place", ["its start", "its middle", "its end", "its build"])
def test_a_large_library_is_another_by_samples_and_by_the_build_that_it_names(site: Path, place: str) -> None:
    library = site / "nvidia/cu13/lib/libnvrtc.so.13"
    data = bytearray(3_000_000)
    build = 1_234_567
    data[build : build + 50] = b"Cuda compilation tools, release 13.4, V13.4.92\0\0\0\0"
    library.write_bytes(data)
    before = evidence()
    assert here().is_that_of(before)
    at = {"its start": 5, "its middle": len(data) // 2, "its end": -5, "its build": build + 44}[place]
    data[at] ^= 1
    overwrite(library, bytes(data))
    assert not here().is_that_of(before)


def test_a_hatch_cubin_that_cannot_be_looked_at_recalls_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hatch_cubin").mkdir()
    (tmp_path / "hatch_cubin/gone.py").symlink_to("nowhere.py")
    monkeypatch.setattr(libraries, "__file__", str(tmp_path / "hatch_cubin/toolkit/libraries.py"))
    assert libraries.own_installation() is None
