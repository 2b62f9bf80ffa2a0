"""Open the remote store that all builds of a project share."""

from __future__ import annotations

from collections.abc import Mapping

from ..cache.entries import Cache
from ..config.store_urls import PLAIN
from ..project.project import Project
from .calls import PATIENCE_S, StoreCalls
from .location import StoreTarget, store_target
from .shared_store import SharedStore
from .store import Store, StoreError


def open_shared_store(
    project: Project, cache: Cache, compiler: str, units: int, patience_s: float | None = None
) -> SharedStore | None:
    """Return the project's remote store; None if there is no store.

    On an error, print a warning and return None.
    """
    target = store_target(project.config, project.environ)
    if target is None:
        return None

    def warn(why: str) -> None:
        project.warn(f"the remote cache at {target.url.shown} cannot be used fully: {why}")

    try:
        calls = StoreCalls(_store(target, project.environ), warn, patience_s or PATIENCE_S)
        return SharedStore(calls, cache, name=(project.package, compiler), units=units, policy=cache.signing)
    except StoreError as exc:
        warn(str(exc))
        return None


def _store(target: StoreTarget, environ: Mapping[str, str]) -> Store:
    if target.url.scheme in PLAIN:
        from .http import HttpStore

        return HttpStore(target)
    from .buckets import BucketStore

    return BucketStore(target, environ)
