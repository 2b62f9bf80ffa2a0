"""Keys and signatures as text: one text for each, and no slip of the hand gives another."""

from __future__ import annotations

import base64
import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hatch_cubin.common.ed25519_keys import PRIVATE, PUBLIC, SIGNATURE, read, read_public, write

SIZES = {PUBLIC: 32, PRIVATE: 32, SIGNATURE: 64}
LETTERS = string.ascii_letters + string.digits + "-_+/=: \n"
PRIME = 2**255 - 19
KEY = bytes(range(32))

texts = st.sampled_from([*SIZES]).flatmap(
    lambda kind: st.binary(min_size=SIZES[kind], max_size=SIZES[kind]).map(lambda raw: (kind, raw))
)


@given(texts)
def test_what_was_written_is_read_back(of: tuple[str, bytes]) -> None:
    kind, raw = of
    text = write(kind, raw)
    assert read(kind, text) == raw
    assert text.isprintable()
    assert not {*text} & {*"=+/ '\"\\"}  # it needs no quotes, and a double click takes all of it


@given(texts, st.data())
def test_a_letter_that_is_not_as_it_was_is_noticed(of: tuple[str, bytes], data: st.DataObject) -> None:
    kind, raw = of
    text = write(kind, raw)
    at = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from(LETTERS).filter(lambda letter: letter != text[at]))
    for other in (
        text[:at] + letter + text[at + 1 :],
        text[:at] + text[at + 1 :],
        text[:at] + letter + text[at:],
    ):
        with pytest.raises(ValueError, match=r"^(is not|is a|has) "):
            read(kind, other)


@given(texts, st.sampled_from([*SIZES]))
def test_a_text_of_one_kind_is_none_of_another(of: tuple[str, bytes], other: str) -> None:
    kind, raw = of
    if other != kind:
        for text in (write(kind, raw), write(kind, raw).replace(f"{kind}:", f"{other}:")):
            with pytest.raises(ValueError, match=r"^(is|has) "):
                read(other, text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "is not a public key, which begins with 'ed25519:'"),
        ("AAAA", "is not a public key, which begins with 'ed25519:'"),
        ("rsa:AAAA", "is not a public key, which begins with 'ed25519:'"),
        (write(PRIVATE, KEY), "is a private key, but must be a public key, which begins with 'ed25519:'"),
        (write(PUBLIC, KEY)[:-1], "has 55 characters, and a public key has 56"),
        (write(PUBLIC, KEY)[:-1] + "!", "is not a public key, which begins with 'ed25519:'"),
        (write(PUBLIC, KEY)[:-1] + "A", "has a wrong character: copy the text again"),
    ],
)
def test_what_is_wrong_is_told_without_showing_it(text: str, what: str) -> None:
    with pytest.raises(ValueError, match=f"^{what}$"):
        read(PUBLIC, text)


def multiplied(x: int, y: int) -> tuple[int, int]:
    """Return a point of the curve added to itself three times over: eight times the point."""
    d = -121665 * pow(121666, -1, PRIME)
    for _ in range(3):
        both = d * x * x * y * y
        x, y = (
            2 * x * y * pow(1 + both, -1, PRIME) % PRIME,
            (y * y + x * x) * pow(1 - both, -1, PRIME) % PRIME,
        )
    return x, y


def points_of_low_order() -> list[int]:
    """Return the heights of all points that are nothing when they are multiplied by eight."""
    d, root = -121665 * pow(121666, -1, PRIME) % PRIME, pow(2, (PRIME - 1) // 4, PRIME)
    found = {0, 1, PRIME - 1}
    # Twice such a point has the height 0: 1 - 2 y² - d y⁴ = 0.
    square = pow(1 + d, (PRIME + 3) // 8, PRIME)
    for one in (square, square * root % PRIME):
        for sign in (1, -1):
            height = (sign * one - 1) * pow(d, -1, PRIME) % PRIME
            candidate = pow(height, (PRIME + 3) // 8, PRIME)
            for y in (candidate, candidate * root % PRIME):
                if (d * y**4 + 2 * y * y - 1) % PRIME == 0:
                    found |= {y, PRIME - y}
    return sorted(found)


def test_there_are_five_heights_of_low_order() -> None:
    assert len(points_of_low_order()) == 5
    assert multiplied(0, PRIME - 1) == (0, 1)


@pytest.mark.parametrize("sign", [0, 1 << 255])
@pytest.mark.parametrize("y", [*points_of_low_order(), PRIME, PRIME + 1, 2**255 - 1], ids=hex)
def test_a_key_for_which_anybody_can_sign_is_none(y: int, sign: int) -> None:
    text = write(PUBLIC, (y | sign).to_bytes(32, "little"))
    with pytest.raises(
        ValueError,
        match=r"^is so weak that anyone could forge its signatures: use a key of 'hatch-cubin keygen'$",
    ):
        read_public(text)


def test_any_other_public_key_is_one() -> None:
    assert read_public(write(PUBLIC, KEY)) == KEY


def test_its_text_is_plain_base64_with_the_beginning_of_a_digest() -> None:
    kind, _, letters = write(PUBLIC, KEY).partition(":")
    assert (kind, base64.urlsafe_b64decode(letters)[:32]) == ("ed25519", KEY)
