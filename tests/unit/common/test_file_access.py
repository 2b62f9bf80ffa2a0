"""What stands at a path, and how a file is written that a user named."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.common import file_access
from tests.special_files import (
    a_file,
    a_folder,
    a_link_to_a_device,
    a_link_to_a_folder,
    a_link_to_a_pipe,
    a_link_to_itself,
    a_link_to_nowhere,
    a_pipe,
    a_socket,
)

KINDS: dict[Callable[[Path], None], str] = {
    a_file: "is a file",
    a_folder: "is a folder",
    a_pipe: "is a pipe",
    a_socket: "is a socket",
    a_link_to_a_pipe: "is a pipe",
    a_link_to_a_device: "is a device",
    a_link_to_a_folder: "is a folder",
    a_link_to_nowhere: "is a link to a file that does not exist",
    a_link_to_itself: "is a link to a file that does not exist",
}

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("no_endless_wait")]


@pytest.mark.parametrize("put", KINDS)
def test_what_stands_there_has_a_name(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "it")
    assert file_access.kind(file_access.status_of(tmp_path / "it").st_mode) == KINDS[put]


def test_nothing_has_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        file_access.status_of(tmp_path / "it")


def test_a_file_is_written_and_anew_what_was_there(tmp_path: Path) -> None:
    for text in ("of somebody", "ours"):
        file_access.write(tmp_path / "it", text)
        assert (tmp_path / "it").read_text() == text
    assert (tmp_path / "it").stat().st_mode & 0o111 == 0


@pytest.mark.parametrize("put", [a_pipe, a_link_to_a_pipe, a_socket])
def test_what_nobody_reads_is_not_waited_for(tmp_path: Path, put: Callable[[Path], None]) -> None:
    put(tmp_path / "it")
    with pytest.raises(OSError, match=rf"the file {KINDS[put]}, and no process reads from this file"):
        file_access.write(tmp_path / "it", "text")


def test_a_folder_is_the_systems_error(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        file_access.write(tmp_path, "text")


def test_a_device_is_written(tmp_path: Path) -> None:
    file_access.write("/dev/null", "text")
    with pytest.raises(OSError, match="No space left on device"):
        file_access.write("/dev/full", "text")


def test_a_pipe_that_is_read_slowly_gets_all_of_it(tmp_path: Path) -> None:
    text = "0123456789" * 100_000  # more than a pipe holds
    os.mkfifo(tmp_path / "it")
    first = os.open(tmp_path / "it", os.O_RDONLY | os.O_NONBLOCK)  # so that somebody is there
    writing = threading.Thread(target=file_access.write, args=(tmp_path / "it", text))
    writing.start()
    with open(tmp_path / "it") as file:  # once the other end is open, too
        os.close(first)
        assert file.read() == text
    writing.join()


def test_a_system_without_pipes_by_name_waits_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "O_NONBLOCK")
    monkeypatch.delattr(os, "set_blocking")
    file_access.write(tmp_path / "it", "text")
    assert (tmp_path / "it").read_text() == "text"
