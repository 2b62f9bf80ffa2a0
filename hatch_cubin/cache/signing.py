"""Sign the cache records that a build stores, and check the signatures of records in a cache or remote store.

A cache record contains the digest and the kernels of a compiled result. By signing a cache record, the owner
of a signing key states that the compile of the record's unit gave a result with the record's digest and
kernels. The whole cache record is signed, so a signature is valid for only one unit and one compiler.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..common import ed25519_keys, file_access
from ..common.ed25519_keys import Signature
from ..common.environment import REQUIRE_SIGNED, SIGNING_KEY
from ..errors import SignatureError, problem
from ..project.project import Project
from .records import split_signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

# The kinds of signed data: a compiled result, a list of results, and the texts that a producer (a function
# that generates sources) returned. A signature of data of one kind is not valid for data of another kind.
RECORD, INDEX, TEXTS = "record", "index", "texts"

_MAX_KEY_FILE_SIZE = 1000  # the maximum size of a key file in bytes; a key has a tenth of this size


_KEY_HINT = (
    f"set {SIGNING_KEY} to a private key, "
    "or to '@' and the path of a file that 'hatch-cubin keygen' has written"
)


class Distrust(NamedTuple):
    """The reason why an undamaged cache record is not trusted, and the key that signed the record."""

    reason: Literal["unsigned", "untrusted", "forged"]
    key: str | None = None


class SignaturePolicy:
    """The public keys that a project trusts to sign cache records.

    A cache record from a shared store must be signed with a trusted key. If signatures are not *required*, a
    cache record in the local cache folder is accepted without a signature, because this machine is assumed to
    have written the cache record. A cache record that is signed with an untrusted key is always rejected,
    because the project may have removed this key from the trusted keys.
    """

    def __init__(self, keys: Collection[str], *, required: bool) -> None:
        self.keys = frozenset(keys)
        self._required = required

    def distrust(self, data: bytes, kind: str = RECORD) -> Distrust | None:
        """Return the reason why a cache record in the cache folder is not trusted; None if it is trusted."""
        record, line = split_signature(data)
        signature = Signature.decode(line)
        if signature is None:
            return Distrust("unsigned") if self._required else None
        if signature.key not in self.keys:
            return Distrust("untrusted", signature.key)
        if self._required and not self.accepts(kind, record, line):
            return Distrust("forged", signature.key)
        return None

    def accepts(self, kind: str, data: bytes, line: bytes) -> bool:
        """Return whether *line* contains a trusted key's signature of *data*.

        *kind* is the kind of the signed data, such as a cache record.
        """
        signature = Signature.decode(line)
        if signature is None or signature.key not in self.keys:
            return False
        public = _public(signature.key)
        from cryptography.exceptions import InvalidSignature

        try:
            public.verify(signature.value, _message(kind, data))
        except InvalidSignature:
            return False
        return True


class Signer:
    """A private key that signs cache records and pack indexes. Error messages do not show the private key."""

    def __init__(self, raw: bytes) -> None:
        self._private: Ed25519PrivateKey = _key("private", raw)
        self.key = ed25519_keys.write(ed25519_keys.PUBLIC, self._private.public_key().public_bytes_raw())

    def sign(self, kind: str, data: bytes) -> bytes:
        """Return a line of text with the signature of *data*.

        *kind* is the kind of the signed data, such as a cache record.
        """
        return Signature(self.key, self._private.sign(_message(kind, data))).encode()


def _message(kind: str, data: bytes) -> bytes:
    return f"hatch-cubin/{kind}/v1\0".encode() + data


class Signing(NamedTuple):
    """The key with which a build signs its results, and the policy for checking other builds' signatures."""

    signer: Signer | None = None
    policy: SignaturePolicy | None = None

    def signed(self, record: bytes) -> bytes:
        """Return a cache record as a file stores it: with a signature, if the build has a signing key."""
        return record if self.signer is None else record + self.signer.sign(RECORD, record)

    def distrust(self, data: bytes) -> Distrust | None:
        """Return the reason why a cache record in the cache folder is not trusted; None if it is trusted."""
        return None if self.policy is None else self.policy.distrust(data)

    # If the project has trusted keys, cache records and pack indexes from a shared store must always be
    # signed.

    def accepts_record(self, data: bytes) -> bool:
        """Return whether this build accepts a cache record from a shared store."""
        return self.policy is None or self.policy.accepts(RECORD, *split_signature(data))

    def sign_index(self, index: bytes) -> bytes:
        """Return the signature to store with a pack index; empty if the build does not have a signing key."""
        return b"" if self.signer is None else self.signer.sign(INDEX, index)

    def accepts_index(self, index: bytes, signature: bytes) -> bool:
        """Return whether this build accepts a pack index with its signature from a shared store."""
        return self.policy is None or self.policy.accepts(INDEX, index, signature)


def signing_of(project: Project) -> Signing:
    """Return a build's signing key and signature policy; SignatureError if 'cryptography' is missing."""
    if project.config.trusted_keys and importlib.util.find_spec("cryptography") is None:
        # the package is only searched for, not imported, because most builds do not have to check a signature
        raise _missing("'cryptography' is not installed")
    return Signing(signer_of(project), signature_policy_of(project))


def signature_policy_of(project: Project) -> SignaturePolicy | None:
    """Return a project's policy for signatures; None if its configuration does not list trusted keys."""
    keys = project.config.trusted_keys
    return SignaturePolicy(keys, required=project.is_switched_on(REQUIRE_SIGNED)) if keys else None


def signer_of(project: Project) -> Signer | None:
    """Return the signer of a build; None if no environment variable contains a signing key."""
    if not (said := project.environ.get(SIGNING_KEY)):
        return None
    signer = Signer(_private(said, project))
    if signer.key not in project.config.trusted_keys:
        project.warn(
            f"no build will trust the signatures of {SIGNING_KEY}: trusted-keys does not list {signer.key}"
        )
    return signer


def new_key() -> tuple[str, str]:
    """Make a signing key pair, and return the private key and the public key as text."""
    raw = os.urandom(32)
    return ed25519_keys.write(ed25519_keys.PRIVATE, raw), Signer(raw).key


def _private(said: str, project: Project) -> bytes:
    """Return the private key from the environment variable, or from the file that the variable names.

    The message of a SignatureError never contains the private key.
    """
    path = "" if ed25519_keys.PRIVATE in said else said.removeprefix("@") * said.startswith("@")
    where = f"in {path} " if path else ""
    try:
        text = _read(os.path.expanduser(path), project) if path else said
        return ed25519_keys.read(ed25519_keys.PRIVATE, text.strip())
    except OSError as exc:
        what = f"{SIGNING_KEY}: {path} cannot be read: {exc.strerror}"
        wrong = problem("signing-key-not-readable", what, hint=_KEY_HINT)
    except ValueError as exc:
        wrong = problem("bad-signing-key", f"{SIGNING_KEY}: the key {where}{exc}", hint=_KEY_HINT)
    # the error is raised outside of the `except` blocks, because a traceback must not show the private key
    raise SignatureError(wrong)


def _read(path: str, project: Project) -> str:
    # the key file must not be a pipe, because a build may read the key twice
    with file_access.open_plain(path) as file:
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            import shlex

            project.warn(f"{SIGNING_KEY}: {path} can be read by other users: chmod 600 {shlex.quote(path)}")
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(project.root)):
            project.warn(
                f"{SIGNING_KEY}: {path} is inside the project, "
                "so sdists and wheels can contain the private key: move the file out of the project"
            )
        return file.read(_MAX_KEY_FILE_SIZE).decode("ascii", "replace")


@cache
def _public(text: str) -> Ed25519PublicKey:
    key: Ed25519PublicKey = _key("public", ed25519_keys.read_public(text))
    return key


def _key(kind: Literal["private", "public"], raw: bytes) -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519

        if kind == "private":
            return ed25519.Ed25519PrivateKey.from_private_bytes(raw)
        return ed25519.Ed25519PublicKey.from_public_bytes(raw)
    # The package 'cryptography' is missing, broken, or restricted by OpenSSL's settings.
    except Exception as exc:
        raise _missing(str(exc)) from exc


def _missing(reason: str) -> SignatureError:
    what = f"signatures cannot be made or checked without the package 'cryptography': {reason}"
    return SignatureError(problem("cryptography-unusable", what, hint='pip install "hatch-cubin[remote]"'))
