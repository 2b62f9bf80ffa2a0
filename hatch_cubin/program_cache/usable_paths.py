"""Where the file of a `SQLiteProgramCache` can be: on a disk of this machine, and where no other thing is."""

from __future__ import annotations

import contextlib
import errno
import re
import stat

from ..common import file_access

_MOUNTS = "/proc/self/mountinfo"
# What several machines write at once. The processes of one database share memory, so they are on one machine.
_SHARED = re.compile(
    "(fuse[.])?(9p|afs|beegfs|blobfuse2?|ceph(-fuse)?|cifs|coda|davfs2?|gcsfuse|gfs2|glusterfs|goofys|gpfs|lizardfs|"
    "lustre|mfs|moosefs|mount-s3|ncpfs|nfs4?|ocfs2|orangefs|panfs|pvfs2|rclone|s3fs|smb3|smbfs|sshfs|virtiofs|wekafs)"
)


def check(path: str) -> None:
    """Raise an OSError that says why, where no database can be at *path*; nothing is opened for that."""
    mode = 0
    with contextlib.suppress(FileNotFoundError):
        mode = file_access.looked_at(path).st_mode
    if mode and not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"a program cache is a file, and this {file_access.kind(mode)}", path)
    kind = file_system(path)
    if _SHARED.fullmatch(kind):
        what = f"{kind} is a network file system, where SQLite's write-ahead log does not work"
        hint = "name a file on a disk of this machine, or use cuda.core's FileStreamProgramCache"
        raise OSError(errno.ENOTSUP, f"{what}: {hint}", path)


def file_system(path: str) -> str:
    """Return the type of the file system that *path* is on; nothing where the system does not tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            mounts = file.read()
    except OSError:  # not Linux
        return ""
    found = ("", "")
    for line in mounts.splitlines():
        there, _, rest = line.partition(" - ")
        point = re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), there.split(" ")[4])
        if len(point) >= len(found[0]) and f"{path}/".startswith(f"{point.rstrip('/')}/"):
            found = (point, rest.split(" ")[0])  # of two at one place, the later lies above
    return found[1]
