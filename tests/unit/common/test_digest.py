"""Digests: what they are over, to the byte, for caches live longer than versions."""

from __future__ import annotations

import hashlib

from hatch_cubin.common.digest import digest, file_digest


def test_each_part_is_preceded_by_its_length_in_eight_bytes() -> None:
    data = b"\0\0\0\0\0\0\0\2\xc3\xa9" + b"\0\0\0\0\0\0\0\0" + b"\0\0\0\0\0\0\0\1x"
    assert digest(["é", b"", "x"]) == hashlib.sha256(data).hexdigest()


def test_a_lone_surrogate_of_a_file_name_can_be_digested() -> None:
    assert digest(["\udcff"]) == digest([b"\xed\xb3\xbf"])


def test_a_files_digest_is_what_sha256sum_prints() -> None:
    assert file_digest(b"abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
