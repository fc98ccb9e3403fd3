"""Fetches without a session are found in columns, by the place of session id and epoch in each version."""

from __future__ import annotations

import struct

import pytest

from kwire import encode
from kwire.capture.columnar.session_columns import STATELESS, session_fields
from kwire.capture.kafka.session_tracker import SessionExchange, SessionTracker
from kwire.messages.fetch import FetchRequest, FetchResponse
from kwire.registry import codec_of_name

VERSIONS = sorted(codec_of_name("FetchRequest").readers)
FIRST = 7


@pytest.mark.parametrize("version", [version for version in VERSIONS if version >= FIRST])
def test_session_id_and_epoch_are_where_the_codec_writes_them(version: int) -> None:
    raw = encode(FetchRequest(session_id=0x1234567, session_epoch=-1), version)
    fields = session_fields(version)

    assert fields is not None
    assert [struct.unpack_from(">i", raw, at)[0] for at in fields] == [0x1234567, -1]


@pytest.mark.parametrize("version", [version for version in VERSIONS if version < FIRST])
def test_earlier_versions_have_no_sessions(version: int) -> None:
    assert session_fields(version) is None


def test_a_fetch_without_a_session_changes_none() -> None:
    sessions, broker = SessionTracker(), (bytes((10, 0, 0, 1)), 9092)
    for ts, (asked_id, epoch, answered_id) in enumerate([(0, 0, 7), (0, -1, 0), (0, -1, 9)]):
        request = FetchRequest(session_id=asked_id, session_epoch=epoch)
        exchange = SessionExchange(broker, 1, 13, ts, request, FetchResponse(session_id=answered_id))
        found = sessions.follow_request(exchange)
        if epoch == -1:
            assert found == STATELESS

    request = FetchRequest(session_id=7, session_epoch=1)
    found = sessions.follow_request(SessionExchange(broker, 1, 13, 9, request, FetchResponse(session_id=7)))

    assert found is not None
    assert found.partitions is not None
