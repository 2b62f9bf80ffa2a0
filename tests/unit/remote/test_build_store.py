"""The store of a build; a build without one imports nothing for it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hatch_cubin.cache.entries import Cache
from hatch_cubin.remote import build_store
from hatch_cubin.toolkit.toolkit import Facts, Toolkit
from tests.helpers import make_project, run

TOOLKIT = Toolkit(None, facts=Facts("1.2.2", 13, "13.0.88", (90,)))


def test_a_project_without_a_store_opens_none(tmp_path: Path) -> None:
    cache = Cache(tmp_path, None, print)
    assert build_store.open_store(make_project(tmp_path, {}), cache, [], TOOLKIT) is None


def test_a_build_without_a_store_imports_none_of_its_modules(tmp_path: Path) -> None:
    """Neither modules of this room nor libraries that only they need."""
    ours = ("hatch_cubin.remote.shared_store", "hatch_cubin.config.store_urls")
    unneeded = (*ours, "http.client", "ssl", "obstore")
    code = (
        "import sys, hatch_cubin.building.pipeline; "
        f"print([name for name in {unneeded} if name in sys.modules])"
    )
    assert run(sys.executable, "-c", code, cwd=tmp_path).stdout == "[]\n"


@pytest.mark.parametrize("url", ["https://cache.example", "https://ada:hunter2@cache.example"])
def test_the_url_is_shown_without_user_and_password(tmp_path: Path, url: str) -> None:
    project = make_project(tmp_path, {}, HATCH_CUBIN_REMOTE=url)
    remote = build_store.open_store(project, Cache(tmp_path, None, print), [], TOOLKIT)
    assert remote is not None
    assert remote.facts["url"] == "https://cache.example"
    assert "hunter2" not in repr(project.config)
