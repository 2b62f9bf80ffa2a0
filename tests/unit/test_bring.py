"""The command for people with rare machines writes a report, and says whether something failed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin import __version__
from tests import bring


@pytest.mark.parametrize("code", [0, 1])
def test_the_report_has_the_versions_and_the_output_of_the_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int
) -> None:
    monkeypatch.setattr(bring, "CAPABILITIES", {"gpu": lambda: False})
    tests = (sys.executable, "-c", f"print('3 passed'); raise SystemExit({code})")
    assert bring.bring(tmp_path / "new/report", tests) == code
    report = {file.name: file.read_text("utf-8") for file in (tmp_path / "new/report").iterdir()}
    assert report.keys() == {"versions.txt", "tests.txt"}
    assert report["versions.txt"].startswith(f"hatch-cubin {__version__}\nPython ")
    assert report["tests.txt"] == "3 passed\n"
