"""Open the store that a project names."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hatch_cubin.remote.opening import open_shared_store
from hatch_cubin.remote.shared_store import SharedStore
from tests.cached_results import folder_with
from tests.helpers import make_project


def opened(root: Path, url: str | None, said: list[str]) -> SharedStore | None:
    environ = {} if url is None else {"HATCH_CUBIN_REMOTE": url}
    project = replace(make_project(root, {}, **environ), warn=said.append)
    return open_shared_store(project, folder_with(root / "cache", []), "13.0.88", 1)


@pytest.mark.parametrize("url", ["https://cache.example/x", "s3://bucket/x", "gs://bucket/x", "az://box/x"])
def test_the_scheme_of_the_url_selects_the_kind_of_store(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "ada")
    said = list[str]()
    found = opened(tmp_path, url, said)
    assert said == []
    assert found is not None
    assert found.facts["url"] == url


def test_a_project_without_a_remote_cache_opens_no_store(tmp_path: Path) -> None:
    assert opened(tmp_path, None, []) is None


def test_without_obstore_a_bucket_is_a_warning_and_the_build_has_no_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    said = list[str]()
    assert opened(tmp_path, "s3://bucket/x", said) is None
    why = "obstore is not installed: pip install 'hatch-cubin[remote]'"
    assert said == [f"the remote cache at s3://bucket/x cannot be used fully: {why}"]


def test_invalid_credentials_of_a_cloud_are_reported_without_their_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT_KEY", "hunter2")
    said = list[str]()
    assert opened(tmp_path, "gs://bucket/x", said) is None
    why = "the environment variables with settings for this store are not valid"
    assert said == [f"the remote cache at gs://bucket/x cannot be used fully: {why}"]
