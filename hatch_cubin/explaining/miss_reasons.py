"""Look units up in the cache, and find out why each miss is one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..cache.entries import Cache, Compiled
from ..keys.jobs import Job
from . import differences
from .differences import Nearest

REASONS = {
    "new": "nothing of this source is in this cache",
    "damaged": "its entry is damaged, and will be built again",
    "removed": "its entry was removed from the cache",
    "unknown": "no input that is recorded differs",
    "unsigned": "it is in the cache, and not signed, which HATCH_CUBIN_REQUIRE_SIGNED asks for",
    "untrusted": "it is in the cache, signed with a key that is not among trusted-keys",
    "forged": "it is in the cache, under a signature that is not its own",
    "differs": "",  # the differences say it
}


class Found(NamedTuple):
    """A unit, with its result if it is a hit, and with the reason if it is a miss."""

    job: Job
    hit: Compiled | None = None
    reason: str | None = None
    nearest: Nearest | None = None
    signed_with: str | None = None  # where that is the reason

    @property
    def module(self) -> str:
        return self.job.unit.module.name

    @property
    def arch(self) -> str:
        return str(self.job.unit.arch)

    def facts(self) -> dict[str, Any]:
        """Return what is known of the unit, for JSON."""
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

    def why(self, *, verbose: bool) -> list[str]:
        """Return why the unit is a miss, in lines for people."""
        if self.reason is None:
            return []
        if self.reason == "differs" and self.nearest is not None:
            found, now = self.nearest.differences, self.job.inputs
            return (
                [differences.say_one(each, now) for each in found] if verbose else differences.say(found, now)
            )
        with_key = f": {self.signed_with}" if self.signed_with else ""
        return [REASONS[self.reason] + with_key]


def look_up(jobs: Sequence[Job], cache: Cache) -> list[Found]:
    """Return what the cache has of each unit; the cache's records are read only where a unit is a miss."""
    found = [_look_up(job, cache) for job in jobs]
    if all(each.hit is not None for each in found):
        return found
    records = cache.inputs()
    return [each if each.hit or each.reason else _explained(each.job, records) for each in found]


def _look_up(job: Job, cache: Cache) -> Found:
    damaged = cache.damaged
    hit = job.found_in(cache)
    if (doubt := cache.doubts.get(job.keys.key)) is not None:
        return Found(job, reason=doubt.reason, signed_with=doubt.key)
    return Found(job, hit, "damaged" if cache.damaged > damaged else None)


def _explained(job: Job, records: Mapping[str, Mapping[str, Any]]) -> Found:
    if job.keys.key.hex() in records:
        return Found(job, reason="removed")
    variant = [f"{name}={value}" for name, value in job.unit.module.variant]
    nearest = differences.nearest(job.inputs, variant, records)
    if nearest is None:
        return Found(job, reason="new")
    return Found(job, reason="differs" if nearest.differences else "unknown", nearest=nearest)
