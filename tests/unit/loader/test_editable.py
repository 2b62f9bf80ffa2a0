"""What an editable install has beside its loader: it compares sources, warns, or builds again."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin import loader
from hatch_cubin.bundle import layout
from hatch_cubin.config.toml_positions import TableLocation
from hatch_cubin.project import disk
from hatch_cubin.project.source import SUFFIXES
from hatch_cubin.project.source_roots import ProjectTree
from tests.helpers import bundle, load_bundle, made, refusal, write_tree

editable = loader._part("_editable")
CHANGED = "the kernels were built before these files changed: "
FIX = "install the package again, or set HATCH_CUBIN_REBUILD=1"
TOML = '[project]\nversion = "1"\n[tool.hatch-cubin]\ndefine = { N = 1 }\n'
BUILD = ("-c", "open('built', 'w').close()")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a project whose bundle was just written."""
    root = write_tree(tmp_path / "project", {"src/k.cu": "one", "src/k.h": "two"})
    notes(root)
    monkeypatch.setattr(editable, "_HERE", str(root / "src/pkg/_cubins"))
    return root


def notes(root: Path, rebuild: tuple[str, ...] = BUILD) -> None:
    folder, sources = "src/pkg/_cubins", ["src/k.cu", "src/k.h"]
    again = layout.RebuildCommand(rebuild, needs=("hatchling", "hatch_cubin"))
    (root / "pyproject.toml").write_text(TOML)
    table = TableLocation("pyproject.toml", TOML, ("tool", "hatch-cubin")).content
    inputs = layout.EditableInputs(sources, table)
    described = layout.describe_editable(ProjectTree(root), folder, inputs, again)
    layout.write(described, root / folder)


def look() -> list[str]:
    """Return what was warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        editable._compare_sources()
    return [str(each.message).removeprefix("hatch_cubin.loader: ") for each in caught]


def test_what_did_not_change_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", -(10**10))
    notes(root)
    monkeypatch.setattr(editable, "_sha256", None)
    assert look() == []


def test_what_was_only_touched_is_no_edit(root: Path) -> None:
    (root / "src/k.cu").write_text("one")
    assert look() == []


@pytest.mark.parametrize(("path", "text"), [("src/k.cu", "eno"), ("src/k.h", "longer"), ("src/k.h", None)])
def test_an_edit_is_warned_of(root: Path, path: str, text: str | None) -> None:
    (root / path).unlink() if text is None else (root / path).write_text(text)
    assert look() == [f"{CHANGED}{path}{' (deleted)' if text is None else ''}; {FIX}"]


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_a_new_source_is_warned_of(root: Path, suffix: str) -> None:
    write_tree(root / "src", {f"new{suffix}": "", f".k{suffix}": "", "notes.txt": "", "new.h": ""})
    assert look() == [f"{CHANGED}src/new{suffix} (new); {FIX}"]


def test_a_folder_that_is_gone_has_no_new_sources(root: Path) -> None:
    for name in ("k.cu", "k.h"):
        (root / "src" / name).unlink()
    bundle = root / "src/pkg"
    bundle.rename(root / "pkg")
    (root / "src").rmdir()
    (root / "other/pkg").mkdir(parents=True)
    (root / "pkg").rename(root / "src_pkg")
    editable._HERE = str(root / "src_pkg/_cubins")
    record = root / "src_pkg/_cubins/editable.json"
    record.write_text(record.read_text().replace('"../../.."', '"../.."'))
    assert look() == [f"{CHANGED}src/k.cu (deleted), src/k.h (deleted); {FIX}"]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 does not have tomllib")
@pytest.mark.parametrize(
    ("before", "after", "is_told"),
    [
        ("N = 1", "N = 2", True),
        ("hatch-cubin", "other", True),
        ("[tool", "[[tool", True),
        ("N = 1", "N =", True),
        ('version = "1"', 'version = "2"', False),
        ("N = 1", "N=1", False),
    ],
)
def test_an_edit_of_the_table_is_warned_of(root: Path, before: str, after: str, *, is_told: bool) -> None:
    (root / "pyproject.toml").write_text(TOML.replace(before, after))
    assert look() == ([f"{CHANGED}pyproject.toml; {FIX}"] if is_told else [])


def test_without_tomllib_an_edit_of_the_table_is_not_noticed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(name: str) -> Any:
        raise ImportError(name)

    (root / "pyproject.toml").write_text(TOML.replace("1", "2"))
    with warnings.catch_warnings(record=True), monkeypatch.context() as there:
        there.setattr(editable, "_import", refused)
        assert not editable._table_differs(str(root), "pyproject.toml", [0, 0, 0, ""], [], {})


@pytest.mark.parametrize("tick_ns", [-(10**10), disk.TIMESTAMP_STEP_NS], ids=["long before", "just before"])
def test_an_edit_of_the_same_size_whose_time_is_set_back_is_warned_of(
    root: Path, monkeypatch: pytest.MonkeyPatch, tick_ns: int
) -> None:
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", tick_ns)
    notes(root)
    path = root / "src/k.cu"
    status = path.stat()
    path.write_text("eno")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert len(look()) == 1


@pytest.mark.linux
def test_what_became_a_pipe_is_an_edit_and_not_waited_for(root: Path) -> None:
    (root / "src/k.cu").write_bytes(b"")  # of a pipe's size
    notes(root)
    (root / "src/k.cu").unlink()
    os.mkfifo(root / "src/k.cu")
    assert look() == [f"{CHANGED}src/k.cu; {FIX}"]


def test_of_another_size_it_is_not_read(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk, "TIMESTAMP_STEP_NS", -(10**10))
    notes(root)
    monkeypatch.setattr(editable, "_sha256", None)
    os.truncate(root / "src/k.cu", 1 << 32)
    assert len(look()) == 1


@pytest.mark.parametrize("instead", ["nothing", "pipe"])
def test_notes_that_are_gone_are_told(root: Path, instead: str) -> None:
    path = root / "src/pkg/_cubins/editable.json"
    path.unlink()
    if instead == "pipe":
        os.mkfifo(path)
    assert (
        str(refusal(loader.CubinError, look))
        == f"hatch_cubin.loader: {path} is missing or is not a file: install the package again"
    )


@pytest.mark.parametrize("switch", ["1", "TRUE"])
def test_it_builds_in_the_project(root: Path, monkeypatch: pytest.MonkeyPatch, switch: str) -> None:
    monkeypatch.setenv("HATCH_CUBIN_REBUILD", switch)
    assert look() == []
    assert not (root / "built").exists()
    (root / "src/k.cu").write_text("edited")
    assert look() == []
    assert (root / "built").exists()


def test_a_build_that_fails_is_an_error_with_its_words(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HATCH_CUBIN_REBUILD", "1")
    notes(root, ("-c", "import sys; print('out'); sys.exit('err')"))
    (root / "src/k.cu").write_text("edited")
    with pytest.raises(loader.CubinError) as caught:
        look()
    assert str(caught.value) == "hatch_cubin.loader: the kernels could not be rebuilt:\nout\nerr\n"


@pytest.mark.parametrize(
    ("gone", "said", "install"),
    [
        (("hatch_cubin",), "hatch-cubin", "hatch-cubin"),
        (("hatchling", "hatch_cubin"), "hatchling, hatch-cubin", "hatchling hatch-cubin"),
    ],
)
def test_what_a_build_needs_is_named(
    root: Path, monkeypatch: pytest.MonkeyPatch, gone: tuple[str, ...], said: str, install: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_REBUILD", "1")
    (root / "src/k.cu").write_text("edited")
    monkeypatch.setattr(editable, "_find_spec", lambda name, _path: None if name in gone else name)
    what = f"but these packages are not installed: {said}: pip install {install}$"
    with pytest.raises(loader.CubinError, match=what):
        look()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="reads no TOML")
@pytest.mark.parametrize(
    ("table", "install"),
    [
        (
            "requires = ['hatchling>=1.26', 'hatch-vcs', 'hatch-cubin']",
            "'hatchling>=1.26' hatch-vcs hatch-cubin",
        ),
        ("requires = [1]", "hatchling hatch-cubin"),
        ("", "hatchling hatch-cubin"),
        ("requires = [", "hatchling hatch-cubin"),
    ],
)
def test_all_that_builds_of_the_project_require_is_to_be_installed(
    root: Path, monkeypatch: pytest.MonkeyPatch, table: str, install: str
) -> None:
    monkeypatch.setenv("HATCH_CUBIN_REBUILD", "1")
    (root / "pyproject.toml").write_text(f"[build-system]\n{table}\n")
    (root / "src/k.cu").write_text("edited")
    monkeypatch.setattr(editable, "_find_spec", lambda _name, _path: None)
    with pytest.raises(loader.CubinError, match=f": pip install {install}$"):
        look()


# --- and the loader -------------------------------------------------------------------------------


def load(folder: Path, look: Callable[[Any], None] | None = None, **header: Any) -> Any:
    """Load an editable bundle that looks with *look*."""
    cubins = load_bundle(folder, {**bundle(made("k"), **header), "_editable.py": b""})
    if look is not None:
        cubins._part("_editable")._compare_sources = lambda: look(cubins)
    return cubins


def test_the_loader_looks_once_when_it_is_first_used(tmp_path: Path) -> None:
    seen: list[Any] = []
    cubins = load(tmp_path / "own", seen.append)
    assert seen == []
    for _ in range(2):
        cubins.names()
        cubins._own.clear()
    assert seen == [cubins]


def test_a_name_that_is_not_there_may_be_in_a_source_that_was_added_later(tmp_path: Path) -> None:
    """An editable install does not notice a new source in a new folder."""
    plain = load_bundle(tmp_path / "plain", bundle(made("k")))
    for cubins, is_told in ((load(tmp_path / "own", lambda _cubins: None), True), (plain, False)):
        with pytest.raises(cubins.CubinNotFoundError) as caught:
            cubins.find("histogram", cc=(9, 0))
        assert ("if its source is new, install the package again" in str(caught.value)) is is_told


def test_a_build_that_failed_is_told_every_time(tmp_path: Path) -> None:
    def look(cubins: Any) -> None:
        raise cubins.CubinError("failed")

    cubins = load(tmp_path, look)
    for _ in range(2):
        with pytest.raises(cubins.CubinError, match="failed"):
            cubins.read("k", cc=(9, 0))


def test_a_warning_that_is_an_error_is_raised_once(tmp_path: Path) -> None:
    def look(cubins: Any) -> None:
        warnings.warn("edited", cubins.CubinStaleWarning, stacklevel=1)

    cubins = load(tmp_path, look)
    with pytest.raises(cubins.CubinStaleWarning):
        cubins.read("k", cc=(9, 0))
    assert cubins.read("k", cc=(9, 0)) == b"k for sm_90"


@pytest.mark.parametrize("notes", ["", "[]", "{}", '{"root": 5}', '{"root": ".", "files": {"k.cu": [1]}}'])
def test_notes_that_are_damaged_are_told_each_time(tmp_path: Path, notes: str) -> None:
    cubins = load(tmp_path)
    (tmp_path / "editable.json").write_text(notes)
    for _ in range(2):
        with pytest.raises(cubins.CubinDamagedError, match=r"editable\.json is damaged: it cannot be read"):
            cubins.names()


def test_notes_that_the_system_cannot_read_are_told_as_such(tmp_path: Path) -> None:
    def look(_cubins: Any) -> None:
        raise OSError(errno.EMFILE, "Too many open files", "editable.json")

    cubins = load(tmp_path, look)
    with pytest.raises(
        cubins.CubinError, match=r"editable\.json cannot be read: Too many open files; the system"
    ):
        cubins.names()


def test_the_warning_is_at_the_line_that_asked(tmp_path: Path) -> None:
    for call in (
        "names()",
        "find('k', cc=(9, 0))",
        "read('k', cc=(9, 0))",
        "use({'k': b'.version .entry k('})",
    ):
        folder = tmp_path / call.partition("(")[0]
        cubins = load(folder)
        (folder / "editable.json").write_text(
            '{"files": {"k.cu": [0, 0, 0, ""]}, "folders": {}, "rebuild": [], "root": ".", "table": null}'
        )
        code = compile(f"\n\ncubins.{call}", "caller.py", "exec")
        with pytest.warns(cubins.CubinStaleWarning, match=r"changed: k\.cu \(deleted\)") as caught:
            exec(code, {"cubins": cubins})  # noqa: S102
        assert [(each.filename, each.lineno) for each in caught] == [("caller.py", 3)]


def test_another_bundle_is_not_compared_with_its_sources(tmp_path: Path) -> None:
    cubins = load(tmp_path / "own", lambda _cubins: None)
    write_tree(tmp_path / "other", {**bundle(made("other")), "_editable.py": b""})
    with cubins.use(tmp_path / "other"):
        assert cubins.names() == ("other",)


@pytest.mark.parametrize(
    ("header", "source", "found"),
    [
        pytest.param(
            {"folder": "src/pkg/_cubins"}, "src/pkg/deep/k.cu", "pkg/deep/k.cu", id="in the package"
        ),
        pytest.param({"folder": "src/pkg/_cubins"}, "k.cu", None, id="not shipped"),
        pytest.param({"folder": "src/pkg/_cubins"}, "src/pkg/deep", None, id="a folder"),
        pytest.param({}, "src/pkg/deep/k.cu", None, id="not known where"),
        pytest.param({"folder": "src/pkg/_cubins"}, "../src/pkg/deep/k.cu", "pkg/deep/k.cu", id="no way out"),
        pytest.param({"folder": "src/pkg/_cubins"}, "src/pkg/deep/k.cu\0", None, id="no name of a file"),
    ],
)
def test_the_source_is_found_where_the_package_has_it(
    tmp_path: Path, header: dict[str, Any], source: str, found: str | None
) -> None:
    write_tree(tmp_path, {"pkg/deep/k.cu": ""})
    cubins = load_bundle(tmp_path / "pkg/_cubins", bundle(made("k", source=source), **header))
    path = cubins.find("k", cc=(9, 0)).source_path
    assert path == (found and str(tmp_path / found))
