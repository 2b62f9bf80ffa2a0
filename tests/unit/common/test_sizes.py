"""Numbers as people read them."""

from __future__ import annotations

import pytest

from hatch_cubin.common.sizes import count, cuda, decimal, size


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


def test_a_number_of_things_has_the_ending_that_it_needs() -> None:
    assert [count(number, "unit") for number in (0, 1, 2, 11)] == ["0 units", "1 unit", "2 units", "11 units"]


def test_a_drivers_number_is_a_release_of_cuda() -> None:
    assert [cuda(number) for number in (12090, 13000, 13040)] == ["12.9", "13.0", "13.4"]
