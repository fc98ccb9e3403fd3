"""Editions of messages; all but 4.3 extend another edition."""

from __future__ import annotations

from typing import Any

import pytest

from kwire import UnsupportedVersion, decode, encode, from_json, to_json
from kwire.messages import share_fetch
from kwire.messages.early_access import share_fetch as early_share_fetch
from kwire.registry import message_class

EARLY = "4.0-early-access"


def test_a_name_gives_the_class_of_its_edition() -> None:
    assert message_class("ShareFetchRequest") is share_fetch.ShareFetchRequest
    assert message_class("ShareFetchRequest", EARLY) is early_share_fetch.ShareFetchRequest


def test_a_class_determines_its_edition() -> None:
    request = early_share_fetch.ShareFetchRequest("g", "m")
    raw = encode(request, 0)

    assert encode(request, 0, edition=EARLY) == raw
    assert decode(early_share_fetch.ShareFetchRequest, 0, raw) == request
    assert decode(early_share_fetch.ShareFetchRequest, 0, raw, edition=EARLY) == request
    assert from_json("ShareFetchRequest", 0, to_json(request, 0), edition=EARLY) == request


def test_a_class_of_one_edition_is_rejected_in_another() -> None:
    with pytest.raises(UnsupportedVersion, match=r"4\.4.*4\.0-early-access"):
        encode(share_fetch.ShareFetchRequest("g"), 1, edition=EARLY)
    with pytest.raises(UnsupportedVersion, match=r"4\.0-early-access.*4\.4"):
        encode(early_share_fetch.ShareFetchRequest("g"), 0, edition="4.4")


def test_a_version_must_be_an_int() -> None:
    version: Any = 1.0

    with pytest.raises(UnsupportedVersion, match=r"version 1\.0"):
        decode("MetadataRequest", version, b"")
    with pytest.raises(UnsupportedVersion, match=r"version 1\.0"):
        encode(share_fetch.ShareFetchRequest(), version)


@pytest.mark.parametrize("wrong", [78, None, share_fetch.ShareFetchRequest()])
def test_a_message_is_given_by_name_or_class(wrong: Any) -> None:
    with pytest.raises(TypeError, match="by its name or class"):
        decode(wrong, 1, b"")


def test_an_edition_inherits_messages_of_the_default_edition() -> None:
    assert message_class("MetadataRequest", EARLY) is message_class("MetadataRequest")
    assert encode(message_class("MetadataRequest")(None), 1, edition=EARLY) == b"\xff\xff\xff\xff"


def test_every_function_rejects_an_unknown_edition() -> None:
    for call in (
        lambda: decode("MetadataRequest", 1, b"", edition="9.9"),
        lambda: decode(share_fetch.ShareFetchRequest, 1, b"", edition="9.9"),
        lambda: encode(share_fetch.ShareFetchRequest(), 1, edition="9.9"),
        lambda: from_json("MetadataRequest", 1, {}, edition="9.9"),
        lambda: to_json(share_fetch.ShareFetchRequest(), 1, edition="9.9"),
    ):
        with pytest.raises(UnsupportedVersion, match=r"9\.9"):
            call()
