"""The digest of everything that is installed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.producing.installed import installed_digest

ROW = "thing/__init__.py,sha256=abc,3\n"


def install(site: Path, record: str | None, info: str = "thing-1.0.dist-info") -> str:
    folder = site / info
    folder.mkdir(parents=True, exist_ok=True)
    if record is not None:
        (folder / "RECORD").write_text(record)
    return installed_digest([str(site)])


@pytest.mark.parametrize(
    "change",
    [
        lambda site: install(site, ROW.replace("abc", "abd")),
        lambda site: install(site, "other,sha256=1,1\n", "other-2.dist-info"),
        lambda site: install(site, None, "system-3.egg-info"),
    ],
)
def test_the_digest_follows_what_is_installed(tmp_path: Path, change: Callable[[Path], str]) -> None:
    before = install(tmp_path, ROW)
    assert change(tmp_path) != before == installed_digest(
        [str(tmp_path), str(tmp_path), str(tmp_path / "no")]
    ) or (change(tmp_path) != before)


def test_rows_that_differ_in_each_environment_do_not_count(tmp_path: Path) -> None:
    more = "../../bin/thing,sha256=1,1\nthing-1.0.dist-info/direct_url.json,sha256=2,1\nthing/x.pyc,,\n"
    assert install(tmp_path / "one", ROW) == install(tmp_path / "two", ROW + more)


def test_the_order_of_rows_does_not_count(tmp_path: Path) -> None:
    rows = ["a,sha256=1,1\n", "b,sha256=2,1\n"]
    assert install(tmp_path / "one", "".join(rows)) == install(tmp_path / "two", "".join(rows[::-1]))
