"""Connections with versions and APIs that Kafka 4.0 removed are detected as Kafka, also without schemas."""

from __future__ import annotations

import struct

import pytest

from kwire import read_capture
from kwire.capture.kafka.heuristics import is_certain_request
from kwire.capture.options import FRAME_SIZE_MAX
from tests.support.captures.capture_files import CapturedConnection, build_pcap, comparable_exchanges, read_capture_rows

PRODUCE = struct.pack(">hii", 1, 1500, 1) + b"\0\1t" + struct.pack(">iii", 1, 0, 40) + bytes(40)
OLD = [(0, 0), (0, 2), (1, 0), (1, 3), (2, 0), (8, 1), (9, 0), (19, 1), (4, 1), (5, 0), (6, 8), (7, 3)]


def request(api_key: int, version: int, correlation_id: int, client_id: bytes | None = b"sarama") -> bytes:
    head = struct.pack(">hhi", api_key, version, correlation_id)
    text = b"\xff\xff" if client_id is None else struct.pack(">h", len(client_id)) + client_id
    return head + text + (bytes(40) if api_key else PRODUCE)


@pytest.mark.parametrize(("api_key", "version"), OLD)
@pytest.mark.parametrize("is_open", [True, False])
def test_a_connection_with_only_removed_versions_is_kafka(api_key: int, version: int, is_open: bool) -> None:
    connection = CapturedConnection().open() if is_open else CapturedConnection()
    for each in range(70_000, 70_005):
        connection.send_requests(request(api_key, version, each)).send_responses(struct.pack(">i", each) + bytes(20))

    found = read_capture_rows(build_pcap(connection.packets))
    assert [(row["api_key"], row["api_version"], row["correlation_id"]) for row in found] == [
        (api_key, version, each) for each in range(70_000, 70_005)
    ]
    assert {row["status"] for row in found} == {"undecodable"}
    assert {row["client_id"] for row in found} == {None if 4 <= api_key <= 7 else "sarama"}
    assert {row["latency_us"] is None for row in found} == {False}
    assert comparable_exchanges(read_capture(build_pcap(connection.packets)).to_pylist()) == comparable_exchanges(found)


@pytest.mark.parametrize(("api_key", "version"), OLD)
def test_a_request_that_cannot_be_decoded_needs_a_client_id(api_key: int, version: int) -> None:
    for client_id in (None, b"", b"no\0text"):
        connection = CapturedConnection().open().exchange(request(api_key, version, 0, client_id), bytes(24))
        assert connection.read_rows() == []


def test_a_response_with_a_small_correlation_id_is_no_old_produce_request() -> None:
    # OffsetFetch v8: no tags, no throttle, one group; the length of its name is the code of a character.
    answer = struct.pack(">ibib", 1, 0, 0, 2) + b"\x21" + b"g" * 32 + bytes(20)

    assert not is_certain_request(struct.pack(">i", len(answer)) + answer, 0, FRAME_SIZE_MAX)
