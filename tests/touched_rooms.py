"""List the commits that touch more than three rooms: `hatch run touched [RANGE]`. See decision 0051."""

from __future__ import annotations

import subprocess
import sys

MOST = 3


def rooms_of(paths: str) -> set[str]:
    """Return the rooms of the package that hold *paths*, which stand on a line each."""
    parts = (path.split("/") for path in paths.splitlines())
    return {part[1] for part in parts if part[0] == "hatch_cubin" and len(part) > 2}


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], check=True, capture_output=True, text=True).stdout


def _since_the_last_release() -> str:
    tags = _git("tag", "--sort=-creatordate").split()
    return f"{tags[0]}..HEAD" if tags else "HEAD"


def main() -> None:
    """Print each commit of the range with its rooms if they are too many, then how many these are of all."""
    commits = _git(
        "rev-list", "--no-merges", sys.argv[1] if sys.argv[1:] else _since_the_last_release()
    ).split()
    touched = {commit: rooms_of(_git("show", "--format=", "--name-only", commit)) for commit in commits}
    within = {commit: rooms for commit, rooms in touched.items() if rooms}
    broad = {commit: rooms for commit, rooms in within.items() if len(rooms) > MOST}
    for commit, rooms in broad.items():
        print(_git("show", "--no-patch", "--format=%h %s", commit).strip(), "|", *sorted(rooms))
    print(f"{len(broad)} of {len(within)} commits touch more than {MOST} rooms")


if __name__ == "__main__":
    main()
