"""Connections with versions and APIs that Kafka 4.0 removed are detected as Kafka, whatever their bodies are."""

from __future__ import annotations

import random
import struct

import pytest

from kwire import read_capture
from kwire.capture.kafka.heuristics import find_response, is_certain_request
from kwire.capture.model import Row
from kwire.capture.options import FRAME_SIZE_MAX, Options
from kwire.headers import encode_response
from kwire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tests.support.captures.capture_files import CapturedConnection, build_pcap, comparable_exchanges, read_capture_rows
from tests.support.captures.conversations import metadata_exchange, summarize_rows
from tests.support.captures.index_captures import assert_rows_of_pipeline

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
    assert {row["client_id"] for row in found} == {"sarama"}
    assert {row["latency_us"] is None for row in found} == {False}
    assert comparable_exchanges(read_capture(build_pcap(connection.packets)).to_pylist()) == comparable_exchanges(found)


@pytest.mark.parametrize(("api_key", "version"), OLD)
@pytest.mark.parametrize("client_id", [None, b""])
def test_the_first_request_of_a_connection_needs_no_client_id(
    api_key: int, version: int, client_id: bytes | None
) -> None:
    connection = CapturedConnection().open()
    for each in range(3):
        connection.exchange(request(api_key, version, each, client_id), struct.pack(">i", each) + bytes(20))

    found = connection.read_rows()
    requests = [(row["api_key"], row["api_version"], row["correlation_id"]) for row in found]
    assert requests == [(api_key, version, each) for each in range(3)]
    assert comparable_exchanges(read_capture(build_pcap(connection.packets)).to_pylist()) == comparable_exchanges(found)


@pytest.mark.parametrize(("api_key", "version"), OLD)
def test_a_client_id_that_is_no_text_is_not_one_of_kafka(api_key: int, version: int) -> None:
    connection = CapturedConnection().open().exchange(request(api_key, version, 0, b"no\0text"), bytes(24))

    assert connection.read_rows() == []


@pytest.mark.parametrize(("api_key", "version"), OLD)
@pytest.mark.parametrize("client_id", [None, b""])
def test_midstream_a_request_that_cannot_be_decoded_needs_a_client_id(
    api_key: int, version: int, client_id: bytes | None
) -> None:
    connection = CapturedConnection().exchange(request(api_key, version, 0, client_id), bytes(24))

    assert connection.read_rows() == []


@pytest.mark.parametrize("body", [b"", bytes(1), struct.pack(">hii", 5, 1500, 1), struct.pack(">hii", 1, 1500, 0)])
def test_an_old_produce_without_a_client_id_must_have_a_plausible_body(body: bytes) -> None:
    start = struct.pack(">hhih", 0, 0, 0, 0) + body + bytes(30)

    assert CapturedConnection().open().exchange(start, bytes(24)).read_rows() == []


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("ports", [frozenset(), frozenset({9092})])
def test_api_versions_with_zeros_behind_its_end_is_a_request_with_an_issue(
    is_open: bool, ports: frozenset[int]
) -> None:
    # An old librdkafka sends this.
    asked = struct.pack(">hhih", 18, 0, 0x810, 7) + b"rdkafka" + bytes(4)
    answer = encode_response(ApiVersionsResponse(api_keys=[ApiVersion(18, 0, 3)]), 0, 0x810)
    connection = CapturedConnection().open() if is_open else CapturedConnection()
    connection.exchange(asked, answer).exchange(*metadata_exchange(0x811))

    found = connection.read_rows(ports=ports)
    assert summarize_rows(found) == [("ApiVersions", 0x810, "ok"), ("Metadata", 0x811, "ok")]
    assert [(kind, "4 bytes behind the end" in detail) for kind, detail in issues_of(found[0])] == [
        ("protocol_violation", True)
    ]
    assert_rows_of_pipeline(build_pcap(connection.packets), options=Options(ports=ports))


@pytest.mark.parametrize("rest", [b"\0\0\0\1", b"text"])
def test_midstream_api_versions_with_other_bytes_behind_its_end_is_no_request(rest: bytes) -> None:
    asked = struct.pack(">hhih", 18, 0, 0x810, 7) + b"rdkafka" + rest

    assert CapturedConnection().exchange(asked, bytes(24)).read_rows() == []


def issues_of(row: Row) -> list[tuple[str, str]]:
    issues = row["issues"]
    assert isinstance(issues, list)
    return [(issue["kind"], issue["detail"]) for issue in issues]


def test_a_response_with_a_small_correlation_id_is_no_old_produce_request() -> None:
    # OffsetFetch v8: no tags, no throttle, one group; the length of its name is the code of a character.
    answer = struct.pack(">ibib", 1, 0, 0, 2) + b"\x21" + b"g" * 32 + bytes(20)

    assert not is_certain_request(struct.pack(">i", len(answer)) + answer, 0, FRAME_SIZE_MAX)


@pytest.mark.parametrize("is_start", [True, False])
def test_the_first_response_with_any_pending_id_is_found(is_start: bool) -> None:
    def response(correlation_id: int, size: int = 8) -> bytes:
        return struct.pack(">ii", size, correlation_id) + bytes(size - 4)

    for first, second in ((5, 6), (6, 5), (-7, 5)):
        rest = b"\x7f" * 11
        data = rest + response(first) + response(second)
        starts = {0, len(rest)} if is_start else {0}

        assert find_response(data, starts, FRAME_SIZE_MAX, {5: 0, 6: 0, -7: 0}) == len(rest)
        assert find_response(data, {0}, FRAME_SIZE_MAX, {}) is None


def test_an_id_without_a_possible_size_before_it_is_not_a_response() -> None:
    pending = {0x01020304: 0}
    raw_id = struct.pack(">i", 0x01020304)
    for size in (-1, 3, FRAME_SIZE_MAX + 1, 2**31 - 1):
        data = b"\x7f" + struct.pack(">i", size) + raw_id + b"abcd"
        assert find_response(data, {0, 1}, FRAME_SIZE_MAX, pending) is None
    for data in (raw_id + b"abcd", b"\0\0\x08" + raw_id + b"abcd"):
        assert find_response(data, {0}, FRAME_SIZE_MAX, pending) is None


def test_pending_ids_are_found_as_by_one_pattern_of_all() -> None:
    chance = random.Random(3)
    for _ in range(2000):
        pending = dict.fromkeys((chance.randrange(4) << chance.choice((0, 8, 16)) for _ in range(3)), 0)
        data = bytes(chance.choice((0, 0, 0, 1, 2, 8, 40)) for _ in range(60))
        starts = {0, *(chance.randrange(60) for _ in range(3))}

        assert find_response(data, starts, 100, pending) == find_by_pattern(data, starts, pending)


def find_by_pattern(data: bytes, starts: set[int], pending: dict[int, int]) -> int | None:
    """The same by trying every position."""

    def size_at(at: int) -> int:
        return int.from_bytes(data[at : at + 4], "big")

    def is_response(at: int) -> bool:
        end = at + 4 + size_at(at)
        follows = end + 8 <= len(data) and size_at(end + 4) in pending
        return at in starts or end == len(data) or follows

    places = [at for at in range(len(data) - 7) if 4 <= size_at(at) <= 100]
    filling = [at for at in places if at in starts and at + 4 + size_at(at) in {*starts, len(data)}]
    found = [at for at in places if size_at(at + 4) in pending and is_response(at)]
    return min([*filling, *found[:1]], default=None)
