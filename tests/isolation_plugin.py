"""The plugin that gives each test folders of its own, and fails a test that leaves them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from multiprocessing import util
from pathlib import Path

import pytest

from . import sandbox
from .guard.sitecustomize import Guard

_GUARD = pytest.StashKey[Guard]()


def pytest_configure(config: pytest.Config) -> None:
    """Leave the user's environment before a test is even imported."""
    made = sandbox.enter(Path.home())
    # After multiprocessing has removed what it has in there, with -100.
    util.Finalize(None, shutil.rmtree, (made,), {"ignore_errors": True}, exitpriority=-200)
    config.stash[_GUARD] = sandbox.guard(made, *filter(None, [config.getoption("basetemp")]))


@pytest.fixture(scope="session", autouse=True)
def _guarded(pytestconfig: pytest.Config) -> Iterator[None]:
    """Guard every Python that a test starts, or a fixture of a module or of the session."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in pytestconfig.stash[_GUARD].environ().items():
            patch.setenv(name, value)
        yield


@pytest.fixture(autouse=True)
def _own_home(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Give each test a home folder and a cache that no other test has used."""
    for name, value in sandbox.own(tmp_path_factory.mktemp("own")).items():
        monkeypatch.setenv(name, value)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Iterator[None]:
    """Fail a test if it left its folders, or if a fixture or an import that was made for it did."""
    yield
    if seen := item.config.stash[_GUARD].seen():
        pytest.fail("\n".join(["outside of the tests' own folders:", *seen[:20]]), pytrace=False)
