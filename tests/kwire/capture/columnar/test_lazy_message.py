"""A message that is read in part has the attributes of the decoded one."""

from __future__ import annotations

import pytest

from kwire import registry
from kwire.capture.columnar.lazy_message import LazyMessage, head_reader
from kwire.codec import decode
from tests.support.messages.filled_messages import filled_vectors

NAMES = [
    f"{name}{half}"
    for name in ("Fetch", "ShareFetch", "ShareAcknowledge", "Metadata")
    for half in ("Request", "Response")
]


@pytest.mark.parametrize("name", NAMES)
def test_attributes_are_those_of_the_decoded_message(name: str) -> None:
    for vector in filled_vectors(name, registry.DEFAULT_EDITION):
        decoded = decode(name, vector.version, vector.raw)
        lazy = LazyMessage(name, vector.version, b"before" + vector.raw + b"after", 6)

        for field in decoded.__struct_fields__:
            assert getattr(lazy, field) == getattr(decoded, field)
        with pytest.raises(AttributeError):
            _ = lazy.no_such_field


def test_the_head_ends_before_the_first_array() -> None:
    assert head_reader("ShareFetchRequest", 1).fields[:3] == ("group_id", "member_id", "share_session_epoch")
    assert "session_epoch" in head_reader("FetchRequest", 16).fields
    assert head_reader("FetchResponse", 16).fields == ("throttle_time_ms", "error_code", "session_id")
    assert head_reader("MetadataRequest", 12).fields == ()
