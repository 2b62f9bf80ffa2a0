"""The N-th file operation fails, for every N: on the cache folder, the bundle's, the project's own."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.bundle import layout
from hatch_cubin.common import temporary_folders
from hatch_cubin.errors import BundleError
from tests.build import projects
from tests.fault_counts import Figures
from tests.faults.harness.builds import FILES, OPTIONS, UNITS, Builds, read_as_before, read_as_now
from tests.faults.harness.disk import Disk, Fault, faults
from tests.helpers import bundle, load_bundle, made, wheel_files, write_tree

pytest.importorskip("cuda.core")
pytestmark = [pytest.mark.linux, pytest.mark.nvrtc]


def every_fault(
    calls: Callable[[], object], below: Path, reset: Callable[[], object], figures: Figures
) -> Iterator[Fault]:
    """Yield failures of each file operation below a folder that *calls* makes, each from the same start.

    All of them with every error are for a release; else every third, with one error in turn.
    """
    reset()
    with Disk(below) as disk:
        calls()
    for fault in itertools.islice(faults(disk.calls, every_code=figures.long), 0, None, figures.pick(3, 1)):
        reset()
        yield fault


def resetting(folder: Path, model: Path) -> Callable[[], None]:
    """Return what makes *folder* a copy of *model*, or nothing where there is no model."""

    def reset() -> None:
        shutil.rmtree(folder, ignore_errors=True)
        if model.exists():
            shutil.copytree(model, folder)
            for path in folder.rglob("*"):  # the copy has just read what it copied
                os.utime(path, (path.stat().st_mtime, path.stat().st_mtime))

    return reset


# --- the cache folder ---------------------------------------------------------------------------

CAP = 64 << 10
WITH_CAP = f'{OPTIONS}cache-size = "{CAP >> 10} KiB"\n'


def nothing(folder: Path) -> None:
    shutil.rmtree(folder)


def everything(folder: Path) -> None:
    assert len(list(folder.glob("entries/*/*"))) == 2 * UNITS


def half(folder: Path) -> None:
    for number, path in enumerate(sorted(folder.glob("entries/*/*"))):
        if number % 3 == 0:
            path.unlink()
        elif number % 3 == 1:
            path.write_bytes(b"")


def more_than_its_cap(folder: Path) -> None:
    from cuda.core.utils import FileStreamProgramCache

    recent = set(folder.glob("entries/*/*"))
    FileStreamProgramCache(folder).update({b"%d" % number: bytes(CAP // 4) for number in range(5)})
    for path in set(folder.glob("entries/*/*")) - recent:
        os.utime(path, (0, 0))


@pytest.mark.parametrize("start", [nothing, everything, half, more_than_its_cap])
def test_a_failing_call_on_the_cache_folder_costs_one_warning(
    memory: Path, start: Callable[[Path], None], figures: Figures
) -> None:
    cache, model = memory / "cache", memory / "model"
    builds = Builds(memory / "project", cache, options=WITH_CAP)
    right = builds.bake().made
    cache.rename(model)
    start(model)
    counts: Counter[str] = Counter()
    for fault in every_fault(builds.bake, cache, resetting(cache, model), figures):
        with Disk(cache, fault) as disk:
            outcome = builds.bake()
        about_cache = [line for line in outcome.warnings if line.startswith(f"the cache at {cache} cannot")]
        counts.update(faults=disk.failed, runs=1, warned=len(about_cache))
        counts.update(wrong=outcome.made != right, errors=outcome.error is not None)
        assert (outcome.made, len(about_cache) <= 1) == (right, True), (fault, outcome)
        after, at_last = builds.bake(), builds.bake()
        assert (after.made, at_last.made, at_last.compiled, at_last.warnings) == (right, right, 0, ()), fault
        if not outcome.warnings:  # nothing was lost in silence
            assert after.compiled == 0, fault
        counts.update(healed=1, compiled_again=after.compiled)
        assert sum(path.stat().st_size for path in cache.glob("entries/*/*")) <= CAP, fault
        resetting(cache, model)()
        counts["errors of the store alone"] += fails_alone(cache, fault, builds)
    figures.tell(**counts)


def fails_alone(cache: Path, fault: Fault, builds: Builds) -> bool:
    """Say whether the same build over cuda.core's store itself would end in an error, for the record."""
    from cuda.core.utils import FileStreamProgramCache

    try:
        with Disk(cache, fault):
            store = FileStreamProgramCache(cache)
            for key in builds.keys:
                if store.get(key) is None:
                    store[key] = bytes(5000)
    except OSError:
        return True
    return False


# --- the folder of the bundle -------------------------------------------------------------------

OLD = bundle(*(made(name, data=name.encode() + b"1") for name in "abc"))
NEW = bundle(*(made(name, data=name.encode() + b"2") for name in "abd"))


@pytest.mark.parametrize("before", [{}, OLD, NEW], ids=["none", "old", "same"])
def test_a_failing_call_on_the_bundle_s_folder_is_one_line(
    memory: Path, before: dict[str, bytes], figures: Figures
) -> None:
    folder, model = memory / "bundle", memory / "model"
    if before:
        write_tree(model, before)
    cubins = load_bundle(memory, {})
    counts: Counter[str] = Counter()
    for fault in every_fault(lambda: layout.write(NEW, folder), folder, resetting(folder, model), figures):
        with Disk(folder, fault) as disk:
            error = None
            try:
                layout.write(NEW, folder)
            except BundleError as exc:
                error = str(exc)
        counts.update(faults=disk.failed, runs=1, errors=error is not None)
        if error is None and fault.code == errno.ENOENT:  # what is said to be gone already is not removed
            assert NEW.items() <= written(folder).items(), fault
        elif error is None:
            assert written(folder) == NEW, fault
        else:
            assert ": cannot write the bundle: " in error, fault
            assert "\n" not in error
        assert loaded(cubins, folder) <= {b"a1", b"b1", b"c1", b"a2", b"b2", b"d2", b"damaged"}
        layout.write(NEW, folder)
        assert written(folder) == NEW, fault
        counts.update(healed=1)
    figures.tell(**counts)


def written(folder: Path) -> dict[str, bytes]:
    """Return what stands in a bundle's folder, but what could not be removed after a failure."""
    return {
        path.name: path.read_bytes() for path in folder.iterdir() if not path.name.startswith(".writing-")
    }


def loaded(cubins: Any, folder: Path) -> set[bytes]:
    """Return what a loader reads there."""
    found = set()
    for name in "abcd" if (folder / "manifest.json").exists() else "":
        try:
            with cubins.use(str(folder)):
                found.add(cubins.read(name, cc=(9, 0)))
        except cubins.CubinDamagedError:
            found.add(b"damaged")
        except cubins.CubinNotFoundError:
            pass
    return found


# --- the folders of a wheel's build -------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of the archives it lets go
@pytest.mark.parametrize("where", ["staging", "dist"])
def test_a_failing_call_while_a_wheel_is_made_leaves_a_right_wheel_or_none(
    memory: Path, where: str, figures: Figures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what fails in hatchling's own writing is told by hatchling, which lets the error through."""
    builds = Builds(memory / "project", memory / "cache")
    staging, dist = memory / "staging", memory / "project" / "dist"
    staging.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(staging))
    monkeypatch.setenv("HATCH_CUBIN_CACHE_DIR", str(memory / "cache"))
    failing = {"staging": staging, "dist": dist}[where]

    def wheel() -> None:
        with builds.stubbed():
            projects.build(memory / "project")

    def reset() -> None:
        shutil.rmtree(dist, ignore_errors=True)

    wheel()
    right = kept(dist)
    counts: Counter[str] = Counter()
    for fault in every_fault(wheel, failing, reset, figures):
        with Disk(failing, fault) as disk:
            ending: object = None
            try:
                wheel()
            except SystemExit as exc:
                ending = exc.code
            except OSError:
                ending = "an error of hatchling's"
        assert ending in {None, 1, "an error of hatchling's"}
        counts.update(
            faults=disk.failed, runs=1, errors=ending == 1, errors_of_hatchling=isinstance(ending, str)
        )
        if ending is None:
            made = kept(dist)
            counts["wrong"] += made != right
            assert made == right, fault
    reset()
    wheel()
    assert kept(dist) == right
    figures.tell(**counts)


@pytest.mark.counted
def test_temporary_folders_that_seem_to_be_gone_at_once_are_an_error(memory: Path) -> None:
    """Another process may remove a folder before it is locked. Trying again must have an end."""
    memory.mkdir(exist_ok=True)
    gone = Fault("stat", 1, errno.ENOENT, lasting=True)
    with (
        Disk(memory, gone),
        pytest.raises(OSError, match="another process removes each new temporary folder"),
    ):
        temporary_folders.make_in(memory)
    assert len([*memory.iterdir()]) <= 100


def kept(dist: Path) -> dict[str, bytes]:
    """Return the files of the one wheel in *dist*, but what hatchling leaves out where it cannot see it."""
    (wheel,) = dist.iterdir()
    files = wheel_files(wheel).items()
    return {name: data for name, data in files if "/sboms/" not in name and not name.endswith("/RECORD")}


# --- the project's sources and headers ----------------------------------------------------------

EDITS: dict[str, dict[str, str | None]] = {
    "a header is gone": {"maybe.cuh": None},
    "a header is another": {"../include/deep.cuh": "#define DEEP 2\n"},
    "a source is another": {"inner/c.cu": FILES["inner/c.cu"] + "// edited\n"},
}


@pytest.mark.parametrize("where", ["demo", "include"])
def test_a_failing_call_on_sources_and_headers_is_an_error_and_never_another_kernel(
    memory: Path, where: str, figures: Figures
) -> None:
    root, cache = memory / "project", memory / "cache"
    builds = Builds(root, cache)
    rights = {}
    for edit, changes in EDITS.items():
        with edited(root, changes):
            rights[edit] = builds.build().made
        shutil.rmtree(cache)
    right = builds.build().made
    counts: Counter[str] = Counter()
    for fault in every_fault(builds.build, root / where, resetting(cache, memory / "nothing"), figures):
        with Disk(root / where, fault) as disk:
            # What lasts is the compiler's to meet as well.
            outcome = builds.build(read_as_now if fault.lasting else read_as_before)
        counts.update(faults=disk.failed, runs=1, errors=outcome.error is not None)
        if outcome.error is None:
            gone = fault.lasting and fault.code in {errno.ENOENT, errno.EACCES}
            assert outcome.made in [right, *([rights["a header is gone"]] if gone else [])], fault
        else:
            for problem in outcome.error.problems:
                assert "\n" not in problem.what, fault
        assert builds.build().made == right, fault
        for edit, changes in EDITS.items():
            with edited(root, changes):
                assert builds.build().made == rights[edit], (fault, edit)
        counts.update(healed=1)
    figures.tell(**counts)


@contextlib.contextmanager
def edited(root: Path, changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change files of the project's package for a while."""
    paths = {root / "demo" / name: text for name, text in changes.items()}
    before = {path: path.read_text() for path in paths}
    for path, text in paths.items():
        path.unlink() if text is None else path.write_text(text)
    yield
    for path, text in before.items():
        path.write_text(text)
