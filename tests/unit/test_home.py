"""Where things are kept between builds."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import platformdirs
import pytest

from hatch_cubin import _home, _pipeline
from tests.helpers import COPY_PTX, make_project, run

pytestmark = pytest.mark.usefixtures("no_trouble")


@pytest.fixture
def homeless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be a user of whom the system knows nothing."""

    def user_cache_dir(*_args: object, **_options: object) -> str:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(platformdirs, "user_cache_dir", user_cache_dir)


def test_things_are_kept_in_the_users_cache_folder() -> None:
    assert _home.user_folder() == Path(platformdirs.user_cache_dir("hatch-cubin", appauthor=False))
    assert _home.trouble() is None


@pytest.mark.usefixtures("homeless")
def test_a_user_without_a_home_has_one_temporary_folder_per_process_and_is_told() -> None:
    folder = _home.user_folder()
    assert (folder.is_dir(), _home.user_folder()) == (True, folder)
    assert _home.trouble() == (
        "this user has no home folder: Could not determine home directory.; "
        "a temporary folder does instead, and the next build finds nothing in it"
    )


def test_the_temporary_folder_is_removed_when_the_process_ends(tmp_path: Path) -> None:
    code = "from hatch_cubin import _home; print(_home.instead('why'))"
    folder = Path(run(sys.executable, "-c", code, cwd=tmp_path).stdout.strip())
    assert folder.name.startswith("hatch-cubin-")
    assert not folder.exists()


@pytest.mark.linux
def test_what_killed_builds_left_is_swept_beside_headers_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(_home, "own_folder", lambda: tmp_path / "own")
    for place in ("temporary", "own/headers"):
        (tmp_path / place / "hatch-cubin-leftover.held").mkdir(parents=True)
    _home.sweep()
    assert [path.name for path in tmp_path.glob("**/hatch-cubin-*")] == []


@pytest.mark.usefixtures("homeless")
def test_without_any_place_there_is_nothing_to_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    def gettempdir() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", gettempdir)
    _home.sweep()


@pytest.mark.nvrtc
@pytest.mark.usefixtures("homeless")
def test_a_build_without_a_home_is_one_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HATCH_CUBIN_CACHE_DIR")
    project = make_project(tmp_path, {"copy.ptx": COPY_PTX}, 'archs = ["sm_90"]')
    said: list[str] = []
    files = _pipeline.build(replace(project, warn=said.append))
    assert "copy.sm_90.cubin" in files
    assert said == [_home.trouble()]
