"""Sign what this build stores, and check who has signed what it finds.

A signature says: whoever has this key has compiled what is under that key of the cache, and got these bytes
and these kernels. It is one of the whole record, so it holds for no other unit and no other compiler.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Collection
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from ..common import ed25519_keys, file_access
from ..common.ed25519_keys import Signature
from ..common.environment import REQUIRE_SIGNED, SIGNING_KEY
from ..errors import SignatureError, problem
from ..project.project import Project
from .records import split_signature

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

RECORD, INDEX = "record", "index"  # what can be signed: the signature of one is none of the other

_MAX_KEY_FILE_SIZE = 1000  # bytes of a file with a key: some ten times what it has


_KEY_HINT = "give it a key, or '@' and the path of a file that 'hatch-cubin keygen' has written"


class Distrust(NamedTuple):
    """Why a record does not count, though nothing of it is damaged, and the key that it is signed with."""

    reason: Literal["unsigned", "untrusted", "forged"]
    key: str | None = None


class SignaturePolicy:
    """The keys whose signatures count.

    What others made, in a shared store, has to be signed with one of them. In the cache's folder that is so
    where it is *required*. Elsewhere what is not signed was compiled here; but what is signed with another
    key came from somebody who is trusted no more.
    """

    def __init__(self, keys: Collection[str], *, required: bool) -> None:
        self.keys = frozenset(keys)
        self._required = required

    def distrust(self, data: bytes) -> Distrust | None:
        """Return why the file of a record in the cache's own folder does not count; None where it does."""
        record, line = split_signature(data)
        signature = Signature.decode(line)
        if signature is None:
            return Distrust("unsigned") if self._required else None
        if signature.key not in self.keys:
            return Distrust("untrusted", signature.key)
        if self._required and not self.accepts(RECORD, record, line):
            return Distrust("forged", signature.key)
        return None

    def accepts(self, kind: str, data: bytes, line: bytes) -> bool:
        """Say whether a line holds the signature of *data*, as that *kind* of thing, by a key that counts."""
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
    """Signs with one private key, which nothing else ever holds or shows."""

    def __init__(self, raw: bytes) -> None:
        self._private: Ed25519PrivateKey = _key("private", raw)
        self.key = ed25519_keys.write(ed25519_keys.PUBLIC, self._private.public_key().public_bytes_raw())

    def sign(self, kind: str, data: bytes) -> bytes:
        """Return the line that holds the signature of *data*, as that *kind* of thing."""
        return Signature(self.key, self._private.sign(_message(kind, data))).encode()


def _message(kind: str, data: bytes) -> bytes:
    return f"hatch-cubin/{kind}/v1\0".encode() + data


class Signing(NamedTuple):
    """What signs the results of a build, and whose signatures count for it."""

    signer: Signer | None = None
    policy: SignaturePolicy | None = None

    def signed(self, record: bytes) -> bytes:
        """Return a record as it is stored."""
        return record if self.signer is None else record + self.signer.sign(RECORD, record)

    def distrust(self, data: bytes) -> Distrust | None:
        """Return why the file of a record does not count; None where it does."""
        return None if self.policy is None else self.policy.distrust(data)

    # What comes from a store that others write counts only if it is signed, whatever this job asks for.

    def accepts_record(self, data: bytes) -> bool:
        """Say whether the file of a record that comes from a store counts."""
        return self.policy is None or self.policy.accepts(RECORD, *split_signature(data))

    def sign_index(self, index: bytes) -> bytes:
        """Return what goes to a store beside its index."""
        return b"" if self.signer is None else self.signer.sign(INDEX, index)

    def accepts_index(self, index: bytes, seal: bytes) -> bool:
        """Say whether an index that comes from a store, with its seal, counts."""
        return self.policy is None or self.policy.accepts(INDEX, index, seal)


def signing_of(project: Project) -> Signing:
    """Return what signs and checks in a build; SignatureError where nothing can, and something should."""
    if project.config.trusted_keys and importlib.util.find_spec("cryptography") is None:
        raise _missing("it is not installed here")  # nor imported: most builds have nothing new to check
    return Signing(signer_of(project), signature_policy_of(project))


def signature_policy_of(project: Project) -> SignaturePolicy | None:
    """Return whose signatures count for a project; None where its table names no keys."""
    keys = project.config.trusted_keys
    return SignaturePolicy(keys, required=project.is_switched_on(REQUIRE_SIGNED)) if keys else None


def signer_of(project: Project) -> Signer | None:
    """Return what signs the results of this build; None where it has no key."""
    if not (said := project.environ.get(SIGNING_KEY)):
        return None
    signer = Signer(_private(said, project))
    keys = project.config.trusted_keys
    if keys and signer.key not in keys:
        project.warn(
            f"{SIGNING_KEY} is not among trusted-keys, so what it signs does not count: {signer.key}"
        )
    return signer


def new_key() -> tuple[str, str]:
    """Return a new private key and its public one, as text."""
    raw = os.urandom(32)
    return ed25519_keys.write(ed25519_keys.PRIVATE, raw), Signer(raw).key


def _private(said: str, project: Project) -> bytes:
    """Return the private key that the variable holds or names; SignatureError, which never shows it."""
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
    raise SignatureError(wrong)  # outside of the handlers: a traceback must not show what was read


def _read(path: str, project: Project) -> str:
    with file_access.opened(
        path
    ) as file:  # a pipe could be read only once, and a build may read the key twice
        if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o077:
            import shlex

            project.warn(f"{SIGNING_KEY}: {path} is open to others: chmod 600 {shlex.quote(path)}")
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
    except Exception as exc:  # it is not there, broken, or forbidden here: by OpenSSL's own rules
        raise _missing(str(exc)) from exc


def _missing(why: str) -> SignatureError:
    what = f"signatures cannot be made or checked without 'cryptography': {why}"
    return SignatureError(problem("cryptography-unusable", what, hint='pip install "hatch-cubin[remote]"'))
