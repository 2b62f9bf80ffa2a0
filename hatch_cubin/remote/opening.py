"""Open the store that a project's builds have behind their cache folder."""

from __future__ import annotations

from collections.abc import Mapping

from ..cache.entries import Cache
from ..config.store_urls import PLAIN
from ..project.project import Project
from .calls import PATIENCE_S, Calls
from .location import Place, place_of
from .shared_store import Shared
from .store import FaultError, Store


def open_shared(
    project: Project, cache: Cache, compiler: str, units: int, patience_s: float | None = None
) -> Shared | None:
    """Return the store of a project; None where it has none, or one that cannot be opened: a warning."""
    place = place_of(project.config, project.environ)
    if place is None:
        return None

    def warn(why: str) -> None:
        project.warn(f"the remote cache at {place.url.shown} cannot be used fully: {why}")

    try:
        calls = Calls(_store(place, project.environ), warn, patience_s or PATIENCE_S)
        return Shared(calls, cache, name=(project.package, compiler), units=units, trust=cache.signing)
    except FaultError as exc:
        warn(str(exc))
        return None


def _store(place: Place, environ: Mapping[str, str]) -> Store:
    if place.url.scheme in PLAIN:
        from .http import HttpStore

        return HttpStore(place)
    from .buckets import ObjectStore

    return ObjectStore(place, environ)
