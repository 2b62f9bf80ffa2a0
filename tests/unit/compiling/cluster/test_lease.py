"""What goes to a worker and comes back: nothing that is not the answer to what was asked is taken."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest

from hatch_cubin.compiling.cluster.lease import FileListing, Lease, Reply, checked_results
from hatch_cubin.compiling.executor import Result

from .fake_workers import LISTING, done, reply, task

LEASE = Lease(7, "build", "process", LISTING, (task(1), task(2)), 60.0, 0)
RICH = Result(
    1, ok=True, output=b"\0cubin", log="said", symbols={"k<1>": "_Z1k"}, ptx=b"ptx", seconds=0.5, shared=False
)


def test_what_was_sealed_is_opened_as_it_was() -> None:
    data = pickle.dumps(reply(LEASE, RICH, done(2), worker="tcp://a"))
    sent = pickle.loads(data)  # noqa: S301 - of this test
    assert checked_results(sent, LEASE) == {
        1: replace(RICH, worker="tcp://a"),
        2: replace(done(2), worker="tcp://a"),
    }


def test_a_listing_is_named_by_all_that_is_in_it() -> None:
    files = {"77/a.h": ("project/a.h", "12")}
    some = FileListing.of({77: "77"}, ["77"], files)
    others = [
        FileListing.of({78: "77"}, ["77"], files),
        FileListing.of({77: "77"}, ["77", "77/b"], files),
        FileListing.of({77: "77"}, ["77"], {"77/a.h": ("project/a.h", "13")}),
        FileListing.of({77: "77"}, ["77"], {"77/b.h": ("project/a.h", "12")}),
    ]
    assert some.digest == FileListing.of({77: "77"}, ["77"], dict(files)).digest
    assert len({some.digest, *(each.digest for each in others)}) == 5


FIRST, SECOND = reply(LEASE).results
OTHERS = {
    "nothing": None,
    "text": "of course",
    "another lease's": reply(LEASE._replace(number=8)),
    "other files": reply(LEASE._replace(listing="others")),
    "another task": reply(LEASE._replace(tasks=(replace(task(1), code=b"other"), task(2)))),
    "other options": reply(LEASE._replace(tasks=(replace(task(1), options=(b"-arch=sm_80",)), task(2)))),
    "one twice": Reply("", "", 7, (FIRST, FIRST)),
    "too few": Reply("", "", 7, (FIRST,)),
    "none": Reply("", "", 7),
    "more": Reply("", "", 7, (FIRST, SECOND, ({**FIRST[0], "id": 3}, FIRST[1]))),
    "exchanged": Reply("", "", 7, ((FIRST[0], SECOND[1]), (SECOND[0], FIRST[1]))),
    "a flipped bit": Reply("", "", 7, (({**FIRST[0], "output": b"nf 1"}, FIRST[1]), SECOND)),
    "a changed log": Reply("", "", 7, (({**FIRST[0], "log": "x"}, FIRST[1]), SECOND)),
    "failed after all": Reply("", "", 7, (({**FIRST[0], "ok": False}, FIRST[1]), SECOND)),
    "no bytes": Reply("", "", 7, (({**FIRST[0], "output": None}, FIRST[1]), SECOND)),
    "no symbols": Reply("", "", 7, (({**FIRST[0], "symbols": None}, FIRST[1]), SECOND)),
    "text for bytes": Reply("", "", 7, (({**FIRST[0], "output": "of 1"}, FIRST[1]), SECOND)),
    "no time": Reply("", "", 7, (({**FIRST[0], "seconds": "long"}, FIRST[1]), SECOND)),
    "fields": Reply("", "", 7, (({"id": 1}, FIRST[1]), SECOND)),
    "no fields": Reply("", "", 7, ((None, FIRST[1]), SECOND)),  # type: ignore[arg-type]
    "fields of what is no text": Reply("", "", 7, (({1: FIRST[0]}, FIRST[1]), SECOND)),  # type: ignore[dict-item]
    "symbols that are no text": Reply("", "", 7, (({**FIRST[0], "symbols": {1: 1}}, FIRST[1]), SECOND)),
    "no results": Reply("", "", 7, None),  # type: ignore[arg-type]
    "a result without its proof": Reply("", "", 7, ((FIRST[0],), SECOND)),  # type: ignore[arg-type]
    "no proof": Reply("", "", 7, ((FIRST[0], None), SECOND)),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_whatever_else_comes_back_is_no_answer(other: object) -> None:
    with pytest.raises(ValueError, match=r"^the (reply|worker) "):
        checked_results(other, LEASE)
