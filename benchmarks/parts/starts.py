"""Start the command line, and the hook where everything is cached."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from commands import COMMAND, build, bundle_of
from measuring import Goal, Row, cost, in_turn
from projects import plain_project, small_project, write_project

_ENDS_WITH_1 = "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:], stderr=-3) != 1)"


def rows(folder: Path, *, quick: bool) -> Iterator[Row]:
    wrong = write_project(folder / "wrong", {}, ("sm_9x",))
    one = [sys.executable, "-S", "-c", _ENDS_WITH_1]
    helped, bare, failed, ended = in_turn(
        lambda: cost([*COMMAND, "--help"], folder),
        lambda: cost([sys.executable, "-c", "pass"], folder),
        lambda: cost([*one, *COMMAND, "plan"], wrong),
        lambda: cost([*one, sys.executable, "-c", "raise SystemExit(1)"], wrong),
        quick=quick,
    )
    yield Row("hatch-cubin --help", "python -c pass", helped.wall, bare.wall, Goal(3))
    around = ended.wall - bare.wall  # the process that looks at the exit status
    yield Row("a configuration error", "python -c pass", failed.wall - around, bare.wall, Goal(3))
    root = small_project(folder / "three", 3)
    build(root)
    plain = plain_project(folder / "three-plain", bundle_of(root))
    ours, theirs = in_turn(lambda: build(root), lambda: build(plain), quick=quick)
    what = "hook, 3 kernels, all cached"
    yield Row(what, "the same build without the hook", ours.wall, theirs.wall, Goal(1, 0.5))
