"""The pages about the program cache: what they show runs, and what they list is what there is."""

from __future__ import annotations

import contextlib
import inspect
import sqlite3
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hatch_cubin import SQLiteProgramCache
from hatch_cubin.program_cache import database, statements
from tests.docs_pages import blocks, code, page, section
from tests.docs_pages import rows as cells
from tests.helpers import SAXPY, bundle, load_bundle, made

pytest.importorskip("cuda.core")

GUIDE = page("guides/compiling-at-run-time")
REFERENCE = page("reference/program-cache")


@pytest.mark.nvrtc
def test_what_the_guide_shows_compiles_once_and_can_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, kernels = ModuleType("mypkg"), ModuleType("mypkg.kernels")
    package._cubins = load_bundle(tmp_path / "bundle", bundle(made("k")))  # type: ignore[attr-defined]
    package.kernels = kernels  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "mypkg", package)
    monkeypatch.setenv("HOME", str(tmp_path))
    used, tested = blocks(GUIDE, "python")
    exec(used, vars(kernels))  # noqa: S102 - our own page
    code = bytes(kernels.compiled(SAXPY, "sm_90").code)
    file = tmp_path / ".cache/mypkg/programs"
    kernels.programs()._then.close()
    with SQLiteProgramCache(file) as cache:
        assert len(cache) == 1
        assert bytes(kernels.compiled(SAXPY, "sm_90").code) == code
        tests: dict[str, object] = {}
        exec(tested.replace("@pytest.fixture(autouse=True)\n", ""), tests)  # noqa: S102 - our own page
        replaced = tests["programs"](monkeypatch)  # type: ignore[operator]
        kernels.compiled(SAXPY, "sm_80")
        assert (len(replaced), len(cache)) == (1, 1)


def test_the_arguments_are_those_that_are_documented() -> None:
    parameters = inspect.signature(SQLiteProgramCache).parameters.values()
    bare = inspect.Signature([each.replace(annotation=inspect.Parameter.empty) for each in parameters])
    assert f"`SQLiteProgramCache{bare}` is a" in REFERENCE
    assert [code(row[0])[0] for row in cells(REFERENCE)[:2]] == [*bare.parameters]


def test_the_columns_of_the_file_are_those_that_are_documented(tmp_path: Path) -> None:
    SQLiteProgramCache(tmp_path / "cache").close()
    with contextlib.closing(sqlite3.connect(tmp_path / "cache")) as connection:
        columns = [
            f"{table}.{name}"
            for table in ("entries", "contents")
            for _number, name, *_rest in connection.execute(f"PRAGMA table_info({table})")
        ]
    assert [code(row[0])[0] for row in cells(section(REFERENCE, "## The file"))] == columns


def test_the_numbers_are_those_of_the_code() -> None:
    assert f"in its file in batches, after {database._SAVE_AFTER_READS} reads" in REFERENCE
    assert database._SAVE_AFTER_S == 1
    assert f"up to {statements._BUSY_TIMEOUT_S:g} seconds for other writers" in REFERENCE
