"""Special files, links and folders in the place of a plain file: each function makes one at a path."""

from __future__ import annotations

import os
import stat
from pathlib import Path


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


def a_socket(path: Path) -> None:
    os.mknod(path, stat.S_IFSOCK | 0o600)  # to bind one, its path would have to be short


def a_link_to_a_pipe(path: Path) -> None:
    os.mkfifo(path.with_name(f"{path.name}.pipe"))
    path.symlink_to(f"{path.name}.pipe")


def a_link_to_a_device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def a_link_to_nowhere(path: Path) -> None:
    path.symlink_to("nowhere")


def a_link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def a_link_to_a_folder(path: Path) -> None:
    path.symlink_to(path.parent, target_is_directory=True)


def a_folder(path: Path) -> None:
    path.mkdir()
    os.mkfifo(path / "pipe")


def a_file(path: Path) -> None:
    path.write_text("of somebody")


def a_sparse_file(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)
