"""A finished sdist, written again: what stays, what comes, what goes, and what is refused."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from hatch_cubin.errors import BundleError
from hatch_cubin.frontends import source_archive
from tests.helpers import refusal, write_tree

NAME = "demo-1.0.tar.gz"
TABLE = '[tool.hatch-cubin]\nbackend = "x"\n'


def member(name: str, data: bytes = b"", **fields: object) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.size, info.mtime, info.mode, info.uname = len(data), 1_000_000, 0o600, "builder"
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def make(folder: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]]) -> Path:
    folder.mkdir()
    with tarfile.open(folder / NAME, "w:gz", pax_headers={"comment": "of a commit"}) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return folder / NAME


def rewrite(
    tmp_path: Path,
    *members: tuple[tarfile.TarInfo, bytes],
    files: dict[str, str] | None = None,
    caches: tuple[str, ...] = (),
) -> list[tuple[tarfile.TarInfo, bytes | None]]:
    """Return the members of the new sdist, and what each file holds."""
    root = write_tree(tmp_path / "tree", files or {})
    made = make(tmp_path / "inner", members)
    source_archive.write_copy(made, tmp_path / "dist", {name: root / name for name in files or ()}, caches)
    assert [path.name for path in (tmp_path / "dist").iterdir()] == [NAME]
    with tarfile.open(tmp_path / "dist" / NAME) as archive:
        assert archive.pax_headers == {"comment": "of a commit"}
        opened = [(info, archive.extractfile(info)) for info in archive.getmembers()]
        return [(info, None if file is None else file.read()) for info, file in opened]


def test_members_stay_as_they_are_and_the_projects_files_come(tmp_path: Path) -> None:
    found = rewrite(
        tmp_path,
        member("demo-1.0", type=tarfile.DIRTYPE, mode=0o755),
        member("demo-1.0/run", b"#!", mode=0o755),
        member("demo-1.0/src/old.cu", b"old"),
        member("demo-1.0/src/same.cu", b"same"),
        member("demo-1.0/link", type=tarfile.SYMTYPE, linkname="src/../run"),
        member("demo-1.0/hard", type=tarfile.LNKTYPE, linkname="demo-1.0/run"),
        files={"src/new.cu": "new", "src/old.cu": "newer", "src/same.cu": "same", "b.h": "b"},
    )
    assert [(info.name, info.mode, data) for info, data in found] == [
        ("demo-1.0", 0o755, None),
        ("demo-1.0/run", 0o755, b"#!"),
        ("demo-1.0/src/old.cu", 0o600, b"newer"),
        ("demo-1.0/src/same.cu", 0o600, b"same"),
        ("demo-1.0/link", 0o600, b"#!"),
        ("demo-1.0/hard", 0o600, b"#!"),
        ("demo-1.0/b.h", 0o644, b"b"),
        ("demo-1.0/src/new.cu", 0o644, b"new"),
    ]
    assert {info.mtime for info, _data in found} == {1_000_000}
    assert {info.uname for info, _data in found} == {"builder"}


def test_a_link_in_the_place_of_a_needed_file_becomes_the_file(tmp_path: Path) -> None:
    link = member("demo-1.0/k.cu", type=tarfile.SYMTYPE, linkname="gone.cu")
    found = rewrite(tmp_path, member("demo-1.0/PKG-INFO"), link, files={"k.cu": "k"})
    assert [(info.name, info.type, data) for info, data in found][1:] == [
        ("demo-1.0/k.cu", tarfile.REGTYPE, b"k")
    ]


def test_bundles_and_caches_of_the_tree_go(tmp_path: Path) -> None:
    found = rewrite(
        tmp_path,
        member("demo-1.0/PKG-INFO"),
        member("demo-1.0/src/demo/_cubins", type=tarfile.DIRTYPE),
        member("demo-1.0/src/demo/_cubins/__init__.py"),
        member("demo-1.0/.cache/entries/00/x"),
        member("demo-1.0/.cache/entries_of_others"),
        caches=(".cache/entries",),
    )
    names = [info.name for info, _data in found]
    assert names == ["demo-1.0/PKG-INFO", "demo-1.0/.cache/entries_of_others"]


@pytest.mark.parametrize(
    ("packed", "shipped"),
    [
        ('# written anew\n[tool.hatch-cubin]\nbackend="x"\n', "packed"),
        ("[project]\n", "tree"),
        (f"{TABLE}jobs = 1\n", "tree"),
        (f"[build-system]\nrequires = []\n{TABLE}", "tree"),
        ("no TOML", "tree"),
    ],
)
def test_pyproject_toml_is_that_of_the_tree_where_the_other_asks_for_something_else(
    tmp_path: Path, packed: str, shipped: str
) -> None:
    ((_info, data),) = rewrite(
        tmp_path, member("demo-1.0/pyproject.toml", packed.encode()), files={"pyproject.toml": TABLE}
    )
    assert data == {"packed": packed, "tree": TABLE}[shipped].encode()


def test_an_sdist_is_the_same_whenever_it_is_written(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        rewrite(tmp_path / name, member("demo-1.0/PKG-INFO"), files={"k.cu": "k"})
    first, second = (tmp_path / name / "dist" / NAME for name in ("a", "b"))
    assert first.read_bytes() == second.read_bytes()
    assert first.read_bytes()[4:8] == bytes(4)  # where gzip has the time


@pytest.mark.parametrize(
    "wrong",
    [
        member("/etc/x"),
        member("demo-1.0/../x"),
        member("other/x"),
        member("demo-1.0/x", type=tarfile.SYMTYPE, linkname="../x"),
        member("demo-1.0/x", type=tarfile.SYMTYPE, linkname="/etc/x"),
        member("demo-1.0/x", type=tarfile.LNKTYPE, linkname="../x"),
    ],
    ids=["absolute", "up", "beside", "link up", "link to the root", "hard link"],
)
def test_nothing_leads_out_of_an_sdists_folder(tmp_path: Path, wrong: tuple[tarfile.TarInfo, bytes]) -> None:
    with pytest.raises(BundleError) as caught:
        rewrite(tmp_path, member("demo-1.0/PKG-INFO"), wrong)
    assert str(caught.value) == f"{NAME}: {wrong[0].name!r} leads out of the folder demo-1.0/"
    assert [*(tmp_path / "dist").iterdir()] == []


def test_an_sdist_of_another_kind_is_told(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"no archive")
    for name in ("demo-1.0.zip", NAME):
        error = refusal(BundleError, source_archive.write_copy, tmp_path / name, tmp_path / "dist", {}, ())
        assert str(error) == f"{name}: is not a .tar.gz file, so it is not an sdist"


def test_an_sdist_without_files_is_told(tmp_path: Path) -> None:
    with pytest.raises(BundleError) as caught:
        rewrite(tmp_path, member("demo-1.0", type=tarfile.DIRTYPE), files={"k.cu": ""})
    assert str(caught.value) == f"{NAME}: does not contain files"


def test_an_sdist_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "dist").write_text("")
    with pytest.raises(BundleError) as caught:
        rewrite(tmp_path, member("demo-1.0/PKG-INFO"))
    assert str(caught.value) == f"{tmp_path / 'dist' / NAME}: cannot be written: File exists"
