"""The list of commits that touch many rooms: which rooms the files of a commit are in."""

from __future__ import annotations

from tests.touched_rooms import rooms_of


def test_files_in_rooms_count_once_for_each_room() -> None:
    paths = (
        "hatch_cubin/keys/jobs.py",
        "hatch_cubin/keys/recall.py",
        "hatch_cubin/wheels/reading/page.py",
        "hatch_cubin/errors.py",
        "tests/unit/cache/test_entries.py",
        "README.md",
    )
    assert rooms_of("\n".join(paths)) == {"keys", "wheels"}
