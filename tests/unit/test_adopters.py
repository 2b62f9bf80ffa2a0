"""The script that builds real libraries: its parts without a network, and the page that it wrote."""

from __future__ import annotations

import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import REPOSITORY

sys.path.append(str(REPOSITORY / "adopters"))
import adopt
import page

PATCH = """\
--- a/module.py
+++ b/module.py
@@ -1,2 +1,3 @@
-from cupy import RawModule
+from own._cubins.cupy import RawModule
+
 RawModule()
"""
RESULT: dict[str, Any] = {
    "date": "2026-11-24",
    "kernels": 49,
    "units": 8,
    "compiling": 12.34,
    "seconds": [80.2, 95.0, 81.1],
    "bytes": [2_097_152, 2_402_304],
    "lines": [50, 4],
    "python": "3.13.0",
    "toolchain": {"hatch-cubin": "0.1.0", "nvrtc": "13.0.88", "cuda_core": "1.2.2"},
}


def named(name: str) -> dict[str, str]:
    return {"name": name, "version": "1.0", "kind": f"build of {name}", "missing": f"nothing of {name}"}


def test_the_committed_page_shows_the_committed_results() -> None:
    assert (REPOSITORY / page.PAGE).read_text("utf-8") == page.text(adopt.libraries(), adopt.results())


def test_the_committed_results_are_of_these_rows_and_patches() -> None:
    rows, results = adopt.libraries(), adopt.results()
    assert {row["name"]: adopt.fingerprint(row) for row in rows} == {
        name: result["of"] for name, result in results.items()
    }
    assert {path.stem for path in (adopt.HERE / "patches").iterdir()} == {*results}


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_patch_changes_files_with_any_line_ends(tmp_path: Path, end: str) -> None:
    (tmp_path / "module.py").write_text(f"from cupy import RawModule{end}RawModule(){end}", newline="")
    (tmp_path / "own.patch").write_text(PATCH)
    adopt.apply_patch(tmp_path / "own.patch", tmp_path)
    changed = (tmp_path / "module.py").read_text("utf-8")
    assert changed == "from own._cubins.cupy import RawModule\n\nRawModule()\n"


def test_a_patch_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import cupy\n")
    (tmp_path / "own.patch").write_text(PATCH)
    with pytest.raises(subprocess.CalledProcessError):
        adopt.apply_patch(tmp_path / "own.patch", tmp_path)
    assert (tmp_path / "module.py").read_text() == "import cupy\n"


def test_the_changed_lines_of_a_patch_are_counted_without_its_headers() -> None:
    assert adopt.changed_lines(PATCH) == [2, 1]


def test_an_sdist_with_the_right_digest_is_not_downloaded_again(tmp_path: Path) -> None:
    archive = tmp_path / "own-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as files:
        member = tarfile.TarInfo("own-1.0/module.py")
        member.size = 2
        files.addfile(member, io.BytesIO(b"1\n"))
    row = {**named("own"), "sha256": hashlib.sha256(archive.read_bytes()).hexdigest()}
    assert adopt.download(row, tmp_path) == archive
    root = adopt.unpack(archive, tmp_path / "unpacked")
    assert (root / "module.py").read_text() == "1\n"
    assert root.name == "own-1.0"


def test_the_page_shows_figures_and_failures() -> None:
    results = {"one": RESULT, "two": {"date": "2026-11-24", "failed": "patch"}}
    lines = page.text([named("one"), named("two"), named("three")], results).splitlines()
    cells = "all found | +50, -4 | 49 | 8 | 12.3 | 80 · 95 · 81 | 2 048 · 2 346 |"
    assert f"| one 1.0 | build of one | {cells}" in lines
    assert "| two 1.0 | build of two | failed: patch |  |  |  |  |  |  |" in lines
    assert [line for line in lines if line.startswith("- ") and "nothing of" in line] == [
        "- one: nothing of one.",
        "- two: nothing of two.",
    ]
    assert "| one | 2026-11-24 | 3.13.0 | 0.1.0 | 13.0.88 | 1.2.2 |" in lines
    assert not [line for line in lines if "three" in line]


def test_a_failed_library_does_not_stop_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def adopted(work: adopt.Work, _say: object) -> dict[str, int]:
        work.step = "patch"
        if work.row["name"] == "one":
            raise subprocess.CalledProcessError(1, "git")
        return {"kernels": 4}

    written: dict[str, dict[str, object]] = {}
    monkeypatch.setattr(adopt, "adopt", adopted)
    monkeypatch.setattr(adopt, "libraries", lambda: [named("one"), named("two")])
    monkeypatch.setattr(adopt, "fingerprint", lambda row: row["name"])
    monkeypatch.setattr(adopt, "results", lambda: written)
    monkeypatch.setattr(adopt, "write", written.update)
    monkeypatch.setattr(subprocess, "run", lambda *_args, **_kwargs: None)
    monkeypatch.setattr(sys, "argv", ["adopt.py", "--folder", str(tmp_path)])
    with pytest.raises(SystemExit) as exited:
        adopt.main()
    assert exited.value.code
    assert "one: failed" in capsys.readouterr().out
    assert (written["one"]["failed"], written["one"]["of"]) == ("patch", "one")
    assert (written["two"]["kernels"], written["two"]["of"]) == (4, "two")
