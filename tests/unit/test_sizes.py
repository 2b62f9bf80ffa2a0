"""Numbers of bytes as people read them."""

from __future__ import annotations

import pytest

from hatch_cubin._sizes import decimal, size


@pytest.mark.parametrize(
    ("count", "binary", "thousands"),
    [
        (0, "0 B", "0 B"),
        (999, "999 B", "999 B"),
        (1000, "1000 B", "1.0 KB"),
        (1536, "1.5 KiB", "1.5 KB"),
        (100_000_000, "95.4 MiB", "100.0 MB"),
        (3 << 30, "3.0 GiB", "3.2 GB"),
    ],
)
def test_a_size_is_told_in_the_unit_that_fits(count: int, binary: str, thousands: str) -> None:
    assert (size(count), decimal(count)) == (binary, thousands)
