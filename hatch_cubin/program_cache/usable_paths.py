"""Check whether a path can be the file of a `SQLiteProgramCache`: a regular file on a local disk."""

from __future__ import annotations

import contextlib
import errno
import re
import stat

from ..common import file_access

_MOUNT_TABLE = "/proc/self/mountinfo"
# SQLite's write-ahead log needs shared memory, which processes on different machines do not have.
_NETWORK_FILE_SYSTEMS = re.compile(
    "(fuse[.])?(9p|afs|beegfs|blobfuse2?|ceph(-fuse)?|cifs|coda|davfs2?|gcsfuse|gfs2|glusterfs|goofys|gpfs|lizardfs|"
    "lustre|mfs|moosefs|mount-s3|ncpfs|nfs4?|ocfs2|orangefs|panfs|pvfs2|rclone|s3fs|smb3|smbfs|sshfs|virtiofs|wekafs)"
)


def check(path: str) -> None:
    """Raise an OSError with the reason if *path* cannot be a database file. No file is opened."""
    mode = 0
    with contextlib.suppress(FileNotFoundError):
        mode = file_access.status_of(path).st_mode
    if mode and not stat.S_ISREG(mode):
        raise OSError(
            errno.EINVAL, f"a program cache must be a file, but this path {file_access.kind(mode)}", path
        )
    kind = file_system_type(path)
    if _NETWORK_FILE_SYSTEMS.fullmatch(kind):
        what = f"{kind} is a network file system, where SQLite's write-ahead log does not work"
        hint = "name a file on a disk of this machine, or use cuda.core's FileStreamProgramCache"
        raise OSError(errno.ENOTSUP, f"{what}: {hint}", path)


def file_system_type(path: str) -> str:
    """Return the type of the file system that *path* is on; an empty text on systems other than Linux."""
    try:
        with open(_MOUNT_TABLE, encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read()
    except OSError:  # only Linux has this file
        return ""
    found = ("", "")
    for line in mounts.splitlines():
        there, _, rest = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), there.split(" ")[4])
        if len(point) >= len(found[0]) and f"{path}/".startswith(f"{point.rstrip('/')}/"):
            # if two file systems are mounted at the same path, the later mount hides the earlier mount
            found = (point, rest.split(" ")[0])
    return found[1]
