"""What an option switches on."""

from __future__ import annotations

from pathlib import Path

from hatch_cubin.compiling.hints import switches

from .settings import error, setting

INTEGER = '128-bit integer type is only supported in Linux with the "--device-int128" flag in NVRTC'
REAL = '128-bit floating point type is only supported in Linux with the "--device-float128" flag in NVRTC'


def test_types_of_128_bits_are_allowed_by_an_option_each(tmp_path: Path) -> None:
    found = [error(INTEGER), error(INTEGER, line=2), error(REAL, line=3), error("other", line=4)]
    told = switches.types_of_128_bits(found, setting(tmp_path, 'options = { std = "c++20" }'))
    assert told is not None
    assert told[0].hint == (
        'an option allows it: options = { std = "c++20", device-int128 = true, device-float128 = true }'
    )
    assert "2 more errors" in " ".join(told[0].context)
    assert told[1] == found[3:]


def test_other_errors_are_not_theirs(tmp_path: Path) -> None:
    assert switches.types_of_128_bits([error("other")], setting(tmp_path)) is None
