"""Attacks on a cache that a build takes over from others: whoever can write the folder gains nothing by it.

A victim's first build is signed, with a key that its table trusts. Then somebody who has the folder, and keys
of their own, changes it. The victim's next build does not trust the folder: it finds a miss, and makes the
right wheel.
"""

from __future__ import annotations

import base64
import functools
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hatch_cubin.cache.records import entry_path, record_key, split_signature
from hatch_cubin.cache.signing import INDEX, RECORD, Signer
from hatch_cubin.common import ed25519_keys, user_folders
from hatch_cubin.common.ed25519_keys import Signature
from hatch_cubin.errors import MissError
from tests.faults.harness.builds import OPTIONS, UNITS, Builds, Outcome
from tests.helpers import read_config, sha256
from tests.store_server import store_server

pytest.importorskip("cuda.core")
pytestmark = pytest.mark.nvrtc

TRUSTED, REVOKED, STRANGER = (bytes([number]) * 32 for number in (1, 2, 3))
ORDER = 2**252 + 27742317777372353535851937790883648493  # of Ed25519's group
ASKED = {"HATCH_CUBIN_REQUIRE_SIGNED": "1"}


def signs(key: bytes) -> dict[str, str]:
    return {"HATCH_CUBIN_SIGNING_KEY": ed25519_keys.write(ed25519_keys.PRIVATE, key)}


def public(key: bytes) -> bytes:
    return ed25519_keys.read(ed25519_keys.PUBLIC, Signer(key).key)


class Victim:
    """A project with its cache, and its builds."""

    def __init__(self, folder: Path) -> None:
        self.cache = folder / "cache"
        self._builds = Builds(folder / "project", self.cache)

    def build(self, *trusted: bytes, **environ: str) -> Outcome:
        """Build where those keys are trusted; without any, whoever has written the folder is."""
        named = [Signer(key).key for key in trusted]
        table = f"{OPTIONS}trusted-keys = {json.dumps(named)}\n" if named else OPTIONS
        usual = {"HATCH_CUBIN_CACHE_DIR": str(self.cache)}
        config = read_config(table, {**usual, **environ})
        self._builds.project = replace(
            self._builds.project, config=config, environ={**os.environ, **usual, **environ}
        )
        outcome = self._builds.build()
        # Other tests check the warnings about variables.
        about_results = (line for line in outcome.warnings if "HATCH_CUBIN_SIGNING_KEY" not in line)
        return replace(outcome, warnings=(*about_results,))

    @functools.cached_property
    def units(self) -> list[Unit]:
        return [Unit(self.cache, key) for key in self._builds.keys]


class Unit:
    """The two files of a unit, for whoever can write them."""

    def __init__(self, cache: Path, key: bytes) -> None:
        self.key = key
        self.entry, self.record = (Path(entry_path(cache, each)) for each in (key, record_key(key)))

    @property
    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = json.loads(self.plain.splitlines()[1])
        return fields

    @property
    def plain(self) -> bytes:
        return split_signature(self.record.read_bytes())[0]

    @property
    def line(self) -> bytes:
        return split_signature(self.record.read_bytes())[1]

    def poison(self) -> bytes:
        """Exchange the code for other code, and return a record that proves it."""
        data = self.entry.read_bytes()
        other = data[:-1] + bytes([data[-1] ^ 1])
        self.entry.write_bytes(other)
        return encoded({**self.fields, "sha256": sha256(other)})


def encoded(fields: dict[str, Any], **style: Any) -> bytes:
    text = json.dumps(fields, sort_keys=True, **{"separators": (",", ":"), **style})
    return f"{sha256(text.encode())}\n{text}\n".encode()


@pytest.fixture
def victim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Victim:
    own, users = tmp_path / "own", user_folders.own_folder()
    own.mkdir()
    (own / "headers").symlink_to(users / "headers")
    monkeypatch.setattr(user_folders, "own_folder", lambda: own)
    return Victim(tmp_path)


# --- what stands in the folder then -------------------------------------------------------------

Attack = Callable[[Unit, Unit], object]  # on a unit, with another one's files at hand


def poisoned(*, signed_by: bytes | None = None, kind: str = RECORD) -> Attack:
    def attack(unit: Unit, _other: Unit) -> None:
        record = unit.poison()
        unit.record.write_bytes(record + (Signer(signed_by).sign(kind, record) if signed_by else b""))

    return attack


def under_the_old_signature(change: Callable[[dict[str, Any]], dict[str, Any]], **style: Any) -> Attack:
    def attack(unit: Unit, _other: Unit) -> None:
        unit.record.write_bytes(encoded(change(unit.fields), **style) + unit.line)

    return attack


def with_line(change: Callable[[bytes], bytes]) -> Attack:
    """The record as it was stored, and another line below it."""

    def attack(unit: Unit, _other: Unit) -> None:
        unit.record.write_bytes(unit.plain + change(unit.line))

    return attack


def poisoned_with_line(change: Callable[[bytes], bytes]) -> Attack:
    def attack(unit: Unit, _other: Unit) -> None:
        line = unit.line
        unit.record.write_bytes(unit.poison() + change(line))

    return attack


def replayed(unit: Unit, other: Unit) -> None:
    shutil.copy(other.entry, unit.entry)
    shutil.copy(other.record, unit.record)


def replayed_with_its_key(unit: Unit, other: Unit) -> None:
    shutil.copy(other.entry, unit.entry)
    unit.record.write_bytes(encoded({**other.fields, "key": unit.key.hex()}) + other.line)


def by(key: bytes, value: bytes) -> Callable[[bytes], bytes]:
    """Return a line that claims a key's signature, whatever that is worth."""
    return lambda _line: Signature(ed25519_keys.write(ed25519_keys.PUBLIC, key), value).encode()


def with_other_number(line: bytes) -> bytes:
    """Return the one other signature that a check without bounds would take."""
    signature = Signature.decode(line)
    assert signature is not None
    number = int.from_bytes(signature.value[32:], "little") + ORDER
    return signature._replace(value=signature.value[:32] + number.to_bytes(32, "little")).encode()


def padded(line: bytes) -> bytes:
    """Return the line with base64 that other readers take for the same."""
    return line.removesuffix(b"\n") + b"====\n"


def in_other_letters(line: bytes) -> bytes:
    return base64.b64encode(base64.urlsafe_b64decode(line.split(b":")[-1])) + b"\n"


def exchanged(fields: dict[str, Any]) -> dict[str, Any]:
    return {**fields, "kernels": {f"other_{name}": symbol for name, symbol in fields["kernels"].items()}}


IDENTITY = b"\1" + bytes(31)  # of the group: a point for which anybody can sign

FORGED: dict[str, Attack] = {
    "poisoned, unsigned": poisoned(),
    "poisoned, signed by a stranger": poisoned(signed_by=STRANGER),
    "poisoned, signed with a key that was revoked": poisoned(signed_by=REVOKED),
    "poisoned, under a trusted signature of something else": poisoned(signed_by=TRUSTED, kind=INDEX),
    "poisoned, under its old signature": poisoned_with_line(lambda line: line),
    "poisoned, under a signature of zeros": poisoned_with_line(by(bytes(32), bytes(64))),
    "poisoned, under anybody's signature": poisoned_with_line(by(IDENTITY, IDENTITY + bytes(32))),
    "replayed with its own key": replayed_with_its_key,
    "the signature gone": with_line(lambda _line: b""),
    "a trusted key's signature of zeros": with_line(by(public(TRUSTED), bytes(64))),
    "a signature with a number out of bounds": with_line(with_other_number),
    "other names of kernels": under_the_old_signature(exchanged),
    "other inputs": under_the_old_signature(lambda fields: {**fields, "inputs": {}}),
    "other warnings": under_the_old_signature(lambda fields: {**fields, "warnings": ["all is well"]}),
    "the same in another spelling": under_the_old_signature(dict, indent=None, separators=(", ", ": ")),
}
DAMAGED: dict[str, Attack] = {
    "replayed": replayed,
    "the entry alone poisoned": lambda unit, _other: unit.poison(),
    "an old format": under_the_old_signature(lambda fields: {**fields, "format": 1}),
    "the signature cut": with_line(lambda line: line[:-9] + b"\n"),
    "the line's end cut": with_line(lambda line: line[:-1]),
    "the signature twice": with_line(lambda line: line + line),
    "an empty line first": with_line(lambda line: b"\n" + line),
    "spaces in it": with_line(lambda line: line.replace(b" ", b"  ")),
    "padded": with_line(padded),
    "in other letters": with_line(in_other_letters),
    "a letter of the key changed": with_line(lambda line: line[:20] + b"AA" + line[22:]),
    "no key": with_line(lambda line: line.split(b" ")[1]),
    "a private key in place of it": with_line(lambda line: line.replace(b"ed25519:", b"ed25519-private:")),
}


@pytest.mark.parametrize("recalls", [True, False], ids=["recalled", "not recalled"])
@pytest.mark.parametrize("attack", [*FORGED, *DAMAGED])
def test_what_was_forged_is_a_miss(victim: Victim, attack: str, recalls: bool) -> None:  # noqa: FBT001
    right = victim.build(TRUSTED, REVOKED, **signs(TRUSTED))
    warm = victim.build(TRUSTED, **ASKED)
    assert (right.compiled, warm) == (UNITS, replace(right, compiled=0))
    if not recalls:
        shutil.rmtree(user_folders.own_folder() / "recall")
    first, *others = victim.units
    for unit, other in zip(victim.units, [*others, first], strict=True):
        ({**FORGED, **DAMAGED})[attack](unit, other)
    strict = victim.build(TRUSTED, **ASKED, HATCH_CUBIN_REQUIRE_HITS="1")
    assert isinstance(strict.error, MissError)
    assert len(strict.error.problems) == UNITS
    again = victim.build(TRUSTED, **ASKED, **signs(TRUSTED))
    assert (again.made, again.compiled) == (right.made, UNITS)
    units = f"results in the cache that are not used, because no trusted key has signed them: {UNITS}"
    damage = f"damaged cache entries, which are built again: {UNITS}"
    assert again.warnings == ((units if attack in FORGED else damage),)
    assert victim.build(TRUSTED, **ASKED) == warm


def test_what_the_forgeries_are_worth_where_nobody_asks_for_signatures(victim: Victim) -> None:
    right = victim.build()
    for unit in victim.units:
        unit.record.write_bytes(unit.poison())
    shutil.rmtree(user_folders.own_folder() / "recall")
    served = victim.build()
    assert (served.compiled, served.warnings, served.made == right.made) == (0, (), False)


# --- a store that others fill ---------------------------------------------------------------------


@pytest.mark.parametrize("signed", [{}, signs(STRANGER)], ids=["unsigned", "signed by a stranger"])
def test_of_a_poisoned_store_nothing_is_taken_where_keys_are_trusted(
    victim: Victim, signed: dict[str, str]
) -> None:
    right = victim.build(**signed)
    for unit in victim.units:
        forged = unit.poison()
        line = Signer(STRANGER).sign(RECORD, forged) if signed else b""
        unit.record.write_bytes(forged + line)
    with store_server() as store:
        at = {"HATCH_CUBIN_REMOTE": store.url}

        def build_elsewhere(*trusted: bytes, **environ: str) -> Outcome:
            shutil.rmtree(victim.cache, ignore_errors=True)
            return victim.build(*trusted, **at, **environ)

        shutil.rmtree(user_folders.own_folder() / "recall")
        victim.build(HATCH_CUBIN_REMOTE_WRITE="1", **at, **signed)
        served = build_elsewhere()
        assert (served.compiled, served.made == right.made) == (0, False)  # who trusts whoever writes there
        shutil.rmtree(user_folders.own_folder() / "recall")
        assert build_elsewhere(TRUSTED) == replace(right, compiled=UNITS)
        write = {"HATCH_CUBIN_REMOTE_WRITE": "1", **signs(TRUSTED)}
        assert build_elsewhere(TRUSTED, **write) == replace(right, compiled=UNITS)
        assert build_elsewhere(TRUSTED, **ASKED) == replace(right, compiled=0)


# --- who is trusted, and when -------------------------------------------------------------------


OF_THE_SAME_SIZE: dict[str, Callable[[Unit], bytes]] = {
    "poisoned": Unit.poison,
    "another name": lambda unit: encoded({**unit.fields, "kernels": {"j": "k"}}),
}


@pytest.mark.parametrize("attack", OF_THE_SAME_SIZE)
def test_what_was_proven_is_recalled_and_gives_what_was_proven(victim: Victim, attack: str) -> None:
    """Also if a record has the size and the time that it had: a build that recalls it does not read it."""
    right = victim.build(TRUSTED, **ASKED, **signs(TRUSTED))
    for unit in victim.units:
        before, line = unit.record.stat(), unit.line
        unit.record.write_bytes(OF_THE_SAME_SIZE[attack](unit) + line)
        os.utime(unit.record, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert unit.record.stat().st_size == before.st_size
    assert victim.build(TRUSTED, **ASKED, **signs(TRUSTED)).made == right.made


@pytest.mark.parametrize("asked", [{}, ASKED], ids=["one's own folder", "a folder of others"])
def test_a_key_that_the_table_drops_counts_no_more(victim: Victim, asked: dict[str, str]) -> None:
    right = victim.build(TRUSTED, REVOKED, **asked, **signs(REVOKED))
    assert victim.build(TRUSTED, REVOKED, **asked).compiled == 0
    again = victim.build(TRUSTED, **asked, **signs(TRUSTED))
    assert (again.made, again.compiled) == (right.made, UNITS)
    assert again.warnings == (
        (f"results in the cache that are not used, because no trusted key has signed them: {UNITS}"),
    )


def test_a_key_that_the_table_gains_counts_at_once(victim: Victim) -> None:
    right = victim.build(**signs(STRANGER))
    assert victim.build(TRUSTED, STRANGER, **ASKED) == replace(right, compiled=0)


def test_what_is_recalled_without_signatures_is_not_recalled_with_them(victim: Victim) -> None:
    right = victim.build(TRUSTED)
    assert victim.build(TRUSTED).compiled == 0
    again = victim.build(TRUSTED, **ASKED, **signs(TRUSTED))
    assert (again.made, again.compiled) == (right.made, UNITS)
    assert victim.build(TRUSTED, **ASKED).compiled == 0
    assert victim.build(TRUSTED).compiled == 0


@pytest.mark.parametrize("key", [{}, signs(STRANGER)], ids=["no key", "a key that is not trusted"])
def test_what_a_build_cannot_sign_is_no_hit_for_the_next_one_either(
    victim: Victim, key: dict[str, str]
) -> None:
    """Whether the two are on one machine, and the second recalls the first, makes no difference."""
    right = victim.build(TRUSTED, **ASKED, **key)
    again = victim.build(TRUSTED, **ASKED, **key)
    assert (again.made, again.compiled) == (right.made, UNITS)
    said = f"results in the cache that are not used, because no trusted key has signed them: {UNITS}"
    assert said in again.warnings


def test_what_is_signed_is_a_hit_for_whoever_asks_for_no_signatures(victim: Victim) -> None:
    right = victim.build(**signs(STRANGER))
    shutil.rmtree(user_folders.own_folder() / "recall")
    assert victim.build() == replace(right, compiled=0)


# --- the key ------------------------------------------------------------------------------------


def test_the_key_is_in_nothing_that_a_build_writes_or_says(
    victim: Victim, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.json"
    outcome = victim.build(TRUSTED, **ASKED, **signs(TRUSTED), HATCH_CUBIN_REPORT=str(report))
    written = [*user_folders.own_folder().glob("[!h]*/*"), *victim.cache.rglob("entries/*/*"), report]
    (letters,) = (value.partition(":")[2].encode() for value in signs(TRUSTED).values())
    assert outcome.made is not None
    texts = [*map(Path.read_bytes, written), *outcome.made.values(), *map(str.encode, capfd.readouterr())]
    assert len(texts) > 2 * UNITS
    assert [text for text in texts if letters in text or TRUSTED in text] == []
