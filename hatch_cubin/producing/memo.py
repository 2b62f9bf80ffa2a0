"""Save the texts that a producer returned, for the next build of the same project on this machine.

The texts are saved in the user's own cache folder, and not in the shared cache, because other users who may
read compiled code must not read sources. A file contains a digest, then JSON, then a signature if the build
signs cache entries. If the digest does not match, or a required signature is missing, the producer runs
again.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..common import user_folders
from ..common.digest import digest, file_digest
from ..project.project import Project
from .producer_inputs import Produced

if TYPE_CHECKING:
    from ..cache.signing import Signing

_FILES = 50  # the most recently used files are kept
_MOST = 1 << 28  # bytes


def read(project: Project, key: str) -> Produced | None:
    """Return the texts that were saved for a producer's key; None if no trusted texts were saved."""
    signing = _signing(project)
    with contextlib.suppress(OSError, ValueError, RuntimeError):
        path = _path(project, key)
        with user_folders.open_retained(path, _MOST) as file:
            data = file.read()
        proof, body = data.split(b"\n", 2)[:2]
        if proof.decode() != file_digest(body) or _is_distrusted(signing, data):
            return None
        recorded, found = json.loads(body)
        if recorded == key:
            os.utime(path)
            return [(name, value) for name, value in found]
    return None


def write(project: Project, key: str, produced: Produced) -> None:
    """Save the texts of a producer.

    If the folder cannot be written, the texts are not saved, and no error is raised.
    """
    body = json.dumps([key, [*produced]]).encode()
    record = file_digest(body).encode() + b"\n" + body + b"\n"
    signing = _signing(project)
    if signing is not None and signing.signer is not None:
        from ..cache.signing import TEXTS

        record += signing.signer.sign(TEXTS, record)
    with contextlib.suppress(OSError, RuntimeError):
        user_folders.write_retained(_path(project, key), record, _FILES)


def _path(project: Project, key: str) -> Path:
    root = os.fsencode(os.path.realpath(project.root))
    return user_folders.recall_folder() / f"{digest([root, key])[:32]}.texts"


def _signing(project: Project) -> Signing | None:
    if not project.uses_signatures:
        return None
    from ..cache.signing import signing_of  # lazy import: needed only for signatures

    return signing_of(project)


def _is_distrusted(signing: Signing | None, data: bytes) -> bool:
    if signing is None or signing.policy is None:
        return False
    from ..cache.signing import TEXTS

    return signing.policy.distrust(data, TEXTS) is not None
