"""Companions: where they are looked for, how often, and what is told of those that cannot be read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.common import file_access
from hatch_cubin.wheels.reading.bundles import FileElsewhereError, open_wheel
from hatch_cubin.wheels.reading.compiled_code import read_results
from hatch_cubin.wheels.reading.survey import manifest_of
from tests.command_line import Command
from tests.cubins import make_wheel
from tests.helpers import wheel_files
from tests.split_wheels import PARTS, install, split_wheel

MAIN, SM80, SM90 = PARTS


def types(path: Path) -> set[type]:
    """Return of which types the results of a wheel are."""
    with open_wheel(str(path)) as opened:
        (bundle,) = opened.bundles
        return {type(data) for _module, _entry, data in read_results(bundle, manifest_of(bundle))}


UNREADABLE: dict[str, tuple[Callable[[Path], object], str]] = {
    "cut off": (lambda wheel: wheel.write_bytes(wheel.read_bytes()[:-100]), ": cannot be read as a wheel"),
    "empty": (lambda wheel: make_wheel(wheel, {}), "/the_demo_cubins_sm90/companion.json: is missing"),
    "no JSON": (
        lambda wheel: make_wheel(wheel, {"the_demo_cubins_sm90/companion.json": b"{"}),
        "/the_demo_cubins_sm90/companion.json: ",
    ),
}


@pytest.mark.parametrize("how", UNREADABLE)
def test_a_companion_that_cannot_be_read_is_not_told_as_another_versions(
    tmp_path: Path, command: Command, how: str
) -> None:
    parts = split_wheel(tmp_path)
    spoil, told = UNREADABLE[how]
    spoil(parts / SM90)
    for verb in ("verify", "check"):
        ended = command(verb, parts / MAIN)
        assert ended.code == 1
        err = ended.err
        assert f"{(parts / SM90).as_posix()}{told}" in err
        assert "another version" not in err


def test_a_companions_folder_into_which_nobody_may_look_is_told(
    tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = split_wheel(tmp_path)
    site = install(tmp_path / "site", *(parts / name for name in PARTS))
    closed, read = site / "the_demo_cubins_sm90/companion.json", file_access.read

    def refuses(path: Path, most: int) -> bytes:
        if path == closed:
            raise PermissionError(13, "Permission denied", str(path))
        return read(path, most)

    monkeypatch.setattr(file_access, "read", refuses)
    ended = command("verify", site / "demo")
    assert ended.code == 1
    assert f"{closed.as_posix()}: cannot be read: Permission denied" in ended.err


def test_a_wheel_that_was_renamed_has_its_companions_all_the_same(
    tmp_path: Path,
) -> None:
    parts = split_wheel(tmp_path)
    (parts / MAIN).rename(parts / "main.whl")
    assert types(parts / "main.whl") == {bytes}
    without = {
        name: data for name, data in wheel_files(parts / "main.whl").items() if "dist-info" not in name
    }
    assert types(make_wheel(parts / "bare.whl", without)) == {bytes, FileElsewhereError}
