"""Where the file of a program cache cannot be, and the errors that say so."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hatch_cubin.program_cache import usable_paths
from tests import special_files

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("no_endless_wait")]

# As Linux writes them: number, parent, device, root, mount point, options, any number of fields, a hyphen,
# type, source, options.
MOUNTS = r"""
21 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
22 21 0:30 / /home rw - nfs4 server:/home rw
23 22 0:31 / /home/local rw master:2 propagate_from:1 - xfs /dev/vdb rw
24 21 0:32 / /with\040blank rw - cifs //server/share rw
25 21 0:33 / /over rw - ext4 /dev/vdc rw
26 21 0:34 / /over rw - fuse.sshfs me@server: rw
27 21 0:35 / /mnt/wsl rw - 9p drvfs rw
28 21 0:36 / /mnt/mine rw - fuse.mine mine rw
"""


@pytest.fixture
def mounts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "mountinfo"
    file.write_text(MOUNTS.lstrip())
    monkeypatch.setattr(usable_paths, "_MOUNT_TABLE", str(file))
    return file


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/cache", "ext4"),
        ("/home/me/cache", "nfs4"),
        ("/homely/cache", "ext4"),
        ("/home/local/cache", "xfs"),
        ("/with blank/cache", "cifs"),
        ("/over/cache", "fuse.sshfs"),
    ],
)
def test_the_last_file_system_mounted_above_a_path_counts(mounts: Path, path: str, kind: str) -> None:
    assert usable_paths.file_system_type(path) == kind


def test_without_a_mount_table_every_file_system_is_allowed(mounts: Path) -> None:
    mounts.unlink()
    assert usable_paths.file_system_type("/home/me/cache") == ""
    usable_paths.check("/home/me/cache")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/me/cache", "nfs4"),
        ("/with blank/cache", "cifs"),
        ("/over/cache", "fuse.sshfs"),
        ("/mnt/wsl/cache", "9p"),
    ],
)
def test_a_network_file_system_is_refused_with_the_reason(mounts: Path, path: str, kind: str) -> None:
    elsewhere = "name a file on a disk of this machine, or use cuda.core's FileStreamProgramCache"
    with pytest.raises(OSError, match=f"{kind} is a network file system") as raised:
        usable_paths.check(path)
    assert (raised.value.errno, raised.value.strerror, raised.value.filename) == (
        errno.ENOTSUP,
        f"{kind} is a network file system, where SQLite's write-ahead log does not work: {elsewhere}",
        path,
    )


@pytest.mark.parametrize("path", ["/cache", "/home/local/cache", "/mnt/mine/cache"])
def test_a_local_disk_is_allowed(mounts: Path, path: str) -> None:
    usable_paths.check(path)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (special_files.a_folder, "a program cache must be a file, but this path is a folder"),
        (special_files.a_pipe, "a program cache must be a file, but this path is a pipe"),
        (special_files.a_link_to_a_pipe, "a program cache must be a file, but this path is a pipe"),
        (special_files.a_socket, "a program cache must be a file, but this path is a socket"),
        (special_files.a_link_to_a_device, "a program cache must be a file, but this path is a device"),
    ],
)
def test_something_that_is_not_a_file_is_refused_and_not_opened(
    tmp_path: Path, make: Callable[[Path], None], said: str
) -> None:
    path = tmp_path / "cache"
    make(path)
    with pytest.raises(OSError, match="a program cache must be a file") as raised:
        usable_paths.check(str(path))
    assert (raised.value.strerror, raised.value.filename) == (said, str(path))


def test_a_path_that_cannot_exist_raises_the_systems_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        usable_paths.check(os.path.join(tmp_path, "file", "cache"))
