"""UUIDs as text and bytes."""

from __future__ import annotations

import pytest

from kwire import uuids
from kwire.errors import InvalidValue


def test_a_uuid_is_22_characters_of_base64url() -> None:
    assert uuids.to_text(uuids.ZERO) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuids.from_text("-_-_AAAAAAAAAAAAAAAAAA") == bytes.fromhex("fbffbf") + bytes(13)
    for value in (bytes(range(16)), b"\xff" * 16):
        assert uuids.from_text(uuids.to_text(value)) == value


@pytest.mark.parametrize("text", ["", "AAAA", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 21 + "!", "ä" * 22, "A" * 1000])
def test_an_invalid_uuid_is_rejected(text: str) -> None:
    with pytest.raises(InvalidValue):
        uuids.from_text(text)
    with pytest.raises(InvalidValue):
        uuids.to_text(b"short")
