"""Look up compiled units in the cache, and find the reason for each cache miss (a key of `REASONS`).

A unit's entry in the cache is not used if the entry is damaged (counted by `Cache.damaged`) or has no trusted
signature (listed in `Cache.distrusted`). If the cache has no entry for the key, `differences.nearest_unit`
compares the unit's inputs with those of the most similar unit in the cache. `keys/ingredients.py` lists all
inputs of a unit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..cache.entries import Cache, Compiled
from ..keys.jobs import Job
from . import differences
from .differences import NearestUnit

REASONS = {
    "new": "this cache does not contain any result of this source",
    "damaged": "the unit's cache entry is damaged, so a build compiles the unit again",
    "removed": "the unit's result was removed from the cache",
    "unknown": "the reason is unknown: all recorded inputs are the same as in an earlier build",
    "unsigned": "the unit's cache entry is not signed, but HATCH_CUBIN_REQUIRE_SIGNED requires a signature",
    "untrusted": "the unit's cache entry is signed with a key that is not in trusted-keys",
    "forged": "the signature of the unit's cache entry was made for other bytes",
    "differs": "",  # The output lists the inputs that differ, and not a sentence.
}


class UnitLookup(NamedTuple):
    """The result of looking up a unit in the cache: a cache hit, or the reason for a cache miss."""

    job: Job
    hit: Compiled | None = None
    reason: str | None = None
    nearest: NearestUnit | None = None
    signed_with: str | None = None  # The public key that made the signature, if the key is not trusted.

    @property
    def module(self) -> str:
        return self.job.unit.module.name

    @property
    def arch(self) -> str:
        return str(self.job.unit.arch)

    def facts(self) -> dict[str, Any]:
        """Return the result of the look-up for JSON output."""
        near = self.nearest
        return {
            "module": self.module,
            "arch": self.arch,
            "state": "miss" if self.hit is None else "hit",
            "key": self.job.keys.key.hex(),
            "reason": self.reason,
            "signed_with": self.signed_with,
            "nearest": near and {"key": near.key, "path": near.inputs["path"], "arch": near.inputs["arch"]},
            "differences": [each._asdict() for each in near.differences] if near else [],
        }

    def reason_lines(self, *, verbose: bool) -> list[str]:
        """Return lines of text that explain why the unit is a cache miss."""
        if self.reason is None:
            return []
        if self.reason == "differs" and self.nearest is not None:
            found, now = self.nearest.differences, self.job.inputs
            return (
                [differences.describe(each, now) for each in found]
                if verbose
                else differences.describe_all(found, now)
            )
        with_key = f": {self.signed_with}" if self.signed_with else ""
        return [REASONS[self.reason] + with_key]


def look_up_units(jobs: Sequence[Job], cache: Cache) -> list[UnitLookup]:
    """Look up each unit, and find the reason for each cache miss."""
    found = [_look_up_unit(job, cache) for job in jobs]
    if all(each.hit is not None for each in found):
        return found
    records = cache.inputs()
    return [each if each.hit or each.reason else _explain_miss(each.job, records) for each in found]


def _look_up_unit(job: Job, cache: Cache) -> UnitLookup:
    damaged = cache.damaged
    hit = job.cached_result(cache)
    if (doubt := cache.distrusted.get(job.keys.key)) is not None:
        return UnitLookup(job, reason=doubt.reason, signed_with=doubt.key)
    return UnitLookup(job, hit, "damaged" if cache.damaged > damaged else None)


def _explain_miss(job: Job, records: Mapping[str, Mapping[str, Any]]) -> UnitLookup:
    if job.keys.key.hex() in records:
        return UnitLookup(job, reason="removed")
    variant = [f"{name}={value}" for name, value in job.unit.module.variant]
    nearest = differences.nearest_unit(job.inputs, variant, records)
    if nearest is None:
        return UnitLookup(job, reason="new")
    return UnitLookup(job, reason="differs" if nearest.differences else "unknown", nearest=nearest)
