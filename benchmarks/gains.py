"""What a user gains, in words and as a picture: of the rows that name what a user has without us."""

from __future__ import annotations

import html
from collections.abc import Sequence

from measuring import Row

_WIDTH, _LEFT, _BAR, _STEP, _TOP = 760, 170, 14, 58, 40
_FULL = _WIDTH - _LEFT - 90  # of the peer's bar
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.theirs { fill: #b6bec8 }
.ours { fill: #4c8f00 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .theirs { fill: #57606a }
  .ours { fill: #76b900 }
}
"""


def lines(rows: Sequence[Row]) -> list[str]:
    """Return a line for each peer: how many times as fast ours is, and at what."""
    shown = _measured(rows)
    wide = max((len(row.peer) for row in shown), default=0)
    return [f"{row.peer:<{wide}}  {_times(row):>6} as fast: {_told(row)}" for row in shown]


def plot(rows: Sequence[Row]) -> str:
    """Return a picture of the same: for each peer its bar, and ours as a part of it."""
    shown = _measured(rows)
    height = _TOP + _STEP * len(shown)
    parts = [part for at, row in enumerate(shown) for part in _bars(row, _TOP + at * _STEP)]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            "<title>Time with hatch-cubin, as a part of the time without</title>",
            f"<style>\n{_STYLE}</style>",
            '<text x="0" y="18">Time with hatch-cubin (green), as a part of the time without</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _measured(rows: Sequence[Row]) -> list[Row]:
    return [row for row in rows if row.peer and row.ratio]


def _bars(row: Row, top: int) -> list[str]:
    assert row.ratio is not None
    ours = max(1.0, min(row.ratio, 1.0) * _FULL)
    theirs = max(1.0, min(1.0, 1 / row.ratio) * _FULL)
    end = _LEFT + theirs + 8
    return [
        f'<text x="{_LEFT - 10}" y="{top + 20}" text-anchor="end">{html.escape(row.peer)}</text>',
        f'<rect class="theirs" x="{_LEFT}" y="{top}" width="{theirs:.1f}" height="{_BAR}"/>',
        f'<rect class="ours" x="{_LEFT}" y="{top + _BAR}" width="{ours:.1f}" height="{_BAR}"/>',
        f'<text x="{end:.1f}" y="{top + 20}">{_times(row)}</text>',
        f'<text class="small" x="{_LEFT}" y="{top + 2 * _BAR + 12}">{html.escape(_told(row))}</text>',
    ]


def _times(row: Row) -> str:
    assert row.ratio
    return f"{1 / row.ratio:.2g} ×" if row.ratio > 0.1 else f"{1 / row.ratio:.0f} ×"


def _told(row: Row) -> str:
    return f"{row.ours:.2g} s, not {row.theirs:.2g} s ({row.what})"
