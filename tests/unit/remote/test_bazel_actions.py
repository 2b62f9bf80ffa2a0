"""The bytes of an `ActionResult`, as Bazel's remote execution API has it."""

from __future__ import annotations

import pytest

from hatch_cubin.remote.bazel_actions import Action, OutputFile, decode, encode

ACTION = Action((OutputFile("a", "0" * 64, 300), OutputFile("b/c", "f" * 64, 0)), b"said", b"seal")
# The bytes that the published classes write, and those with more fields: an exit code, a worker, contents.
PUBLISHED = bytes.fromhex(
    f"124a 0a0161 1245 0a40 {'30' * 64} 10ac02"
    f"1249 0a03622f63 1242 0a40 {'66' * 64}"
    "2a04 73616964 3a04 7365616c"
)
WITH_MORE = bytes.fromhex(
    f"124f 0a0161 1245 0a40 {'30' * 64} 10ac02 2001 2a0178"
    f"1249 0a03622f63 1242 0a40 {'66' * 64}"
    "2001 2a04 73616964 3a04 7365616c 4a03 0a0177"
)


def test_an_action_is_encoded_as_by_the_published_classes() -> None:
    assert encode(ACTION) == PUBLISHED
    assert encode(Action(())) == b""


def test_fields_that_a_server_adds_are_skipped() -> None:
    fixed = bytes.fromhex("65 00000000 69 0000000000000000")  # unknown fields of 32 and of 64 bits
    assert decode(PUBLISHED) == decode(WITH_MORE) == decode(PUBLISHED + fixed) == ACTION


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(PUBLISHED[:-1], id="cut off in a text"),
        pytest.param(PUBLISHED + b"\x2a", id="cut off before a length"),
        pytest.param(PUBLISHED + b"\x65\0", id="cut off in four bytes"),
        pytest.param(b"\xff" * 11, id="a number in the message has no end"),
        pytest.param(b"\x2b", id="a group, which nobody writes"),
        pytest.param(b"\x28\x01", id="a number for a text"),
        pytest.param(b"\x10\x01", id="a number for a file"),
        pytest.param(b"\x12\x03\x0a\x01a", id="an output file has no digest"),
        pytest.param(PUBLISHED.replace(b"0" * 64, b"G" * 64), id="a digest that is none"),
        pytest.param(PUBLISHED.replace(b"b/c", b"b\xff\xffc"[:3]), id="a path that is no text"),
        pytest.param(PUBLISHED.replace(b"\x10\xac\x02", b"\x12\x01\x02"), id="a text for a size"),
    ],
)
def test_bytes_that_are_not_an_action_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode(data)
