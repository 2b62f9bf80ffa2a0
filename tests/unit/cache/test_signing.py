"""Who signs, whose signatures count, and what is said of a key that cannot be used."""

from __future__ import annotations

import builtins
import importlib.util
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cache.records import decode, split_signature
from hatch_cubin.cache.signing import (
    INDEX,
    RECORD,
    Distrust,
    SignaturePolicy,
    Signer,
    Signing,
    new_key,
    signing_of,
)
from hatch_cubin.common import ed25519_keys
from hatch_cubin.common.ed25519_keys import Signature
from hatch_cubin.errors import SignatureError
from hatch_cubin.project.project import Project
from tests.helpers import found, read_config
from tests.special_files import a_pipe

OWN, OTHER = Signer(bytes([1]) * 32), Signer(bytes([2]) * 32)
PRIVATE = ed25519_keys.write(ed25519_keys.PRIVATE, bytes([1]) * 32)
HINT = (
    "\n  hint: set HATCH_CUBIN_SIGNING_KEY to a private key, or to '@' and the path of a file that "
    "'hatch-cubin keygen' has written"
)
DATA = b"a record\n{}\n"


# --- signatures ---------------------------------------------------------------------------------


def test_a_signature_is_that_of_its_key_and_its_data_and_its_kind() -> None:
    trust = SignaturePolicy([OWN.key], required=True)
    line = OWN.sign(RECORD, DATA)
    assert trust.accepts(RECORD, DATA, line)
    assert not trust.accepts(INDEX, DATA, line)
    assert not trust.accepts(RECORD, DATA + b" ", line)
    assert not trust.accepts(RECORD, DATA, OTHER.sign(RECORD, DATA))
    assert not trust.accepts(RECORD, DATA, b"")
    assert not trust.accepts(RECORD, DATA, b"\xff\n")
    assert not trust.accepts(RECORD, DATA, line + line)
    assert not SignaturePolicy([], required=False).accepts(RECORD, DATA, line)


def test_what_is_signed_is_a_kind_and_the_exact_bytes() -> None:
    """Whoever writes another reader or signer finds it so: RFC 8032, over a text that names what it is of."""
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    signature = Signature.decode(OWN.sign(RECORD, DATA))
    assert signature is not None
    public = Ed25519PublicKey.from_public_bytes(ed25519_keys.read(ed25519_keys.PUBLIC, signature.key))
    public.verify(signature.value, b"hatch-cubin/record/v1\0" + DATA)


DOUBTS: dict[str, tuple[bytes, Distrust | None, Distrust | None]] = {
    "signed with a key that counts": (DATA + OWN.sign(RECORD, DATA), None, None),
    "not signed": (DATA, None, Distrust("unsigned")),
    "signed with another key": (
        DATA + OTHER.sign(RECORD, DATA),
        Distrust("untrusted", OTHER.key),
        Distrust("untrusted", OTHER.key),
    ),
    "under the signature of something else": (
        DATA + OWN.sign(INDEX, DATA),
        None,  # one's own folder, which nobody else writes
        Distrust("forged", OWN.key),
    ),
}


@pytest.mark.parametrize("record", DOUBTS)
def test_what_counts_depends_on_whose_the_folder_is(record: str) -> None:
    data, of_ones_own, of_others = DOUBTS[record]
    assert SignaturePolicy([OWN.key], required=False).distrust(data) == of_ones_own
    assert SignaturePolicy([OWN.key], required=True).distrust(data) == of_others


def test_what_comes_from_a_store_is_signed_or_counts_for_nothing() -> None:
    """Also where one's own folder need not be."""
    signing = Signing(OWN, SignaturePolicy([OWN.key], required=False))
    assert signing.accepts_record(signing.signed(DATA))
    assert signing.accepts_index(b"index", signing.sign_index(b"index"))
    for line in (b"", OTHER.sign(RECORD, DATA), OWN.sign(INDEX, DATA)):
        assert not signing.accepts_record(DATA + line)
    for seal in (
        b"",
        OTHER.sign(INDEX, b"index"),
        OWN.sign(RECORD, b"index"),
        signing.sign_index(b"another"),
    ):
        assert not signing.accepts_index(b"index", seal)


def test_who_trusts_no_keys_trusts_whoever_can_write_to_a_store() -> None:
    nobody = Signing()
    assert nobody.accepts_record(DATA)
    assert nobody.accepts_index(b"index", nobody.sign_index(b"index"))


def test_a_file_is_what_is_signed_and_the_line_below_it() -> None:
    line = OWN.sign(RECORD, DATA)
    assert split_signature(DATA) == (DATA, b"")
    assert split_signature(DATA + line) == (DATA, line)
    assert split_signature(b"one line\n") == (b"", b"one line\n")
    assert decode(b"one line\n") is None


# --- the key of a build -------------------------------------------------------------------------


def project(said: str = "", trusted: str = OWN.key) -> tuple[Project, list[str]]:
    """Return a project with a key to sign with, and what it warns of."""
    warnings: list[str] = []
    config = read_config(f"trusted-keys = {json.dumps([trusted])}\n" if trusted else "")
    return Project(
        root=Path(),
        packages={},
        config=config,
        environ={"HATCH_CUBIN_SIGNING_KEY": said},
        warn=warnings.append,
    ), warnings


def written(tmp_path: Path, text: str = f"{PRIVATE}\n", mode: int = 0o600) -> Path:
    path = tmp_path / "the key"
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_build_without_keys_neither_signs_nor_checks() -> None:
    there, _warnings = project(trusted="")
    assert signing_of(there) == (None, None)


def test_a_key_is_in_the_variable_or_in_a_file_that_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for said in (PRIVATE, f" {PRIVATE}\n", f"@{written(tmp_path)}", "@~/the key"):
        there, warnings = project(said)
        signing = signing_of(there)
        assert signing.signer is not None
        assert (signing.signer.key, warnings) == (OWN.key, [])


@pytest.mark.linux
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620])
def test_a_file_that_others_can_open_is_told(tmp_path: Path, mode: int) -> None:
    path = written(tmp_path, mode=mode)
    there, warnings = project(f"@{path}")
    signing_of(there)
    assert warnings == [f"HATCH_CUBIN_SIGNING_KEY: {path} can be read by other users: chmod 600 '{path}'"]


@pytest.mark.parametrize("named", ["the key", "keys/../the key", "{}/the key"])
def test_a_key_that_sdists_and_wheels_could_contain_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str
) -> None:
    (tmp_path / "keys").mkdir()
    written(tmp_path)
    monkeypatch.chdir(tmp_path)
    path = named.format(tmp_path)
    there, warnings = project(f"@{path}")
    signing_of(there)
    assert [each.partition(", ")[0] for each in warnings] == [
        f"HATCH_CUBIN_SIGNING_KEY: {path} is inside the project"
    ]
    monkeypatch.chdir(tmp_path / "keys")
    there, warnings = project("@../the key")
    assert signing_of(there).signer is not None
    assert warnings == []


@pytest.mark.parametrize("trusted", [OTHER.key, ""])
def test_a_key_that_signs_for_nobody_is_told(trusted: str) -> None:
    there, warnings = project(PRIVATE, trusted)
    signing_of(there)
    assert warnings == [
        f"no build will trust the signatures of HATCH_CUBIN_SIGNING_KEY: trusted-keys does not list {OWN.key}"
    ]


@pytest.mark.parametrize(
    ("said", "trusted", "starts"),
    [
        ("", OWN.key, ["HATCH_CUBIN_SIGNING_KEY is empty"]),
        (PRIVATE, OWN.key, ["HATCH_CUBIN_SIGNING_KEY is set"]),
        (PRIVATE, "", []),
    ],
)
def test_a_build_whose_cache_would_stay_unsigned_is_told(said: str, trusted: str, starts: list[str]) -> None:
    there, warnings = project(said, trusted)
    there.warn_of_variables()
    assert [line.partition(",")[0] for line in warnings] == starts
    required = {**there.environ, "HATCH_CUBIN_REQUIRE_SIGNED": "1"}
    warnings.clear()
    replace(there, environ=required).warn_of_variables()
    assert warnings == ["HATCH_CUBIN_SIGNING_KEY is empty, so results are not signed"] * (said == "")


@pytest.mark.parametrize(
    ("table", "variable", "is_lost"),
    [
        ("cache-dir = 'cubins'", None, True),
        ("", "cubins", True),
        ("cache-dir = 'cubins'", "/var/cubins", False),
        ("", "~/cubins", False),
        ("", None, False),
    ],
)
@pytest.mark.parametrize("is_sdist", [True, False])
def test_a_cache_inside_an_unpacked_sdist_is_told(
    tmp_path: Path, table: str, variable: str | None, *, is_lost: bool, is_sdist: bool
) -> None:
    if is_sdist:
        (tmp_path / "PKG-INFO").touch()
    warnings: list[str] = []
    environ = {"HATCH_CUBIN_CACHE_DIR": variable} if variable else {}
    config = read_config(f"{table}\n", environ)
    Project(
        root=tmp_path, packages={}, config=config, environ=environ, warn=warnings.append
    ).warn_of_variables()
    starts = ["the cache folder cubins is in an unpacked sdist"] * (is_lost and is_sdist)
    assert [line.partition(",")[0] for line in warnings] == starts


KEY, KEY_IN_FILE = "HATCH_CUBIN_SIGNING_KEY: the key", "HATCH_CUBIN_SIGNING_KEY: the key in {}"
NO_KEY = "is not a private key, which begins with 'ed25519-private:'"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("secret", f"{KEY} {NO_KEY}"),
        ("@", f"{KEY} {NO_KEY}"),
        (f"@{PRIVATE}", f"{KEY} {NO_KEY}"),
        (PRIVATE[:-1], f"{KEY} has 63 characters, and a private key has 64"),
        (PRIVATE[:-2] + "AA", f"{KEY} has a wrong character: copy the text again"),
        (
            PRIVATE.replace("-private", ""),
            (f"{KEY} is a public key, but must be a private key, which begins with"),
        ),
        (f"{PRIVATE} {PRIVATE}", f"{KEY} {NO_KEY}"),
    ],
)
def test_a_malformed_key_is_an_error_that_does_not_show_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, what: str
) -> None:
    def refusal(said: str) -> str:
        with pytest.raises(SignatureError) as caught:
            signing_of(project(said)[0])
        letters = PRIVATE.partition(":")[2]
        assert letters[:8] not in str(caught.value)
        assert found(caught.value) == [("bad-signing-key", "")]
        assert str(caught.value).endswith(HINT)
        return str(caught.value)

    assert refusal(said).startswith(what)
    if not said.startswith("@"):
        path = written(tmp_path, said)
        assert refusal(f"@{path}").startswith(what.replace(KEY, KEY_IN_FILE.format(path)))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SignatureError) as caught:
        signing_of(project(f"@{tmp_path / 'absent'}")[0])
    what = f"HATCH_CUBIN_SIGNING_KEY: {tmp_path / 'absent'} cannot be read: No such file or directory"
    assert found(caught.value) == [("signing-key-not-readable", "")]
    assert str(caught.value) == what + HINT


@pytest.mark.linux
@pytest.mark.usefixtures("no_endless_wait")
@pytest.mark.parametrize(("make", "what"), [(a_pipe, "is a pipe"), (Path.mkdir, "is a folder")])
def test_what_is_no_file_is_not_waited_for(tmp_path: Path, make: Callable[[Path], object], what: str) -> None:
    make(tmp_path / "key")
    with pytest.raises(SignatureError, match=f"cannot be read: it {what}"):
        signing_of(project(f"@{tmp_path / 'key'}")[0])


def test_a_new_key_is_another_one_each_time() -> None:
    (private, public), other = new_key(), new_key()
    assert private != other[0]
    signer = signing_of(project(private, public)[0]).signer
    assert signer is not None
    assert signer.key == public


# --- what checks signatures ---------------------------------------------------------------------

MISSING = (
    "signatures cannot be made or checked without the package 'cryptography': {}\n"
    '  hint: pip install "hatch-cubin[remote]"'
)


def test_keys_that_are_trusted_and_cannot_be_checked_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(SignatureError) as caught:
        signing_of(project()[0])
    assert found(caught.value) == [("cryptography-unusable", "")]
    assert str(caught.value) == MISSING.format("'cryptography' is not installed")
    assert signing_of(project(trusted="")[0]) == (None, None)


@pytest.mark.parametrize("use", [lambda: Signer(bytes(32)), lambda: _unseen().accepts(RECORD, DATA, _line())])
def test_cryptography_that_does_not_work_is_an_error_with_its_words(
    monkeypatch: pytest.MonkeyPatch, use: Callable[[], object]
) -> None:
    real = builtins.__import__

    def broken(name: str, *rest: Any) -> Any:
        if name.startswith("cryptography.hazmat"):
            raise ImportError("no libssl")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(SignatureError) as caught:
        use()
    assert str(caught.value) == MISSING.format("no libssl")


UNSEEN = Signer(bytes([9]) * 32)  # a key that no other test has made ready


def _unseen() -> SignaturePolicy:
    return SignaturePolicy([UNSEEN.key], required=True)


def _line() -> bytes:
    return Signature(UNSEEN.key, bytes(64)).encode()
