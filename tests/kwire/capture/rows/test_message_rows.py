"""Rows of messages: packet numbers as in Wireshark, counts within the type of the column, and damaged records."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Segment
from kwire.capture.reader import read_rows
from kwire.capture.rows.columns import LEVELS
from kwire.headers import encode_request, encode_response
from kwire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.messages.produce import ProduceResponse
from tests.support.capture_model.packet_dissection import dissect_packets
from tests.support.captures.capture_files import CapturedConnection, collect_issue_kinds
from tests.support.captures.conversations import identified, metadata_exchange, produce_request, summarize_rows

CAPTURES = Path(__file__).parents[3] / "captures"


@pytest.mark.parametrize("name", ["small_ck", "small_jshare"])
def test_the_packet_of_a_request_or_response_contains_its_first_bytes(name: str) -> None:
    file = CAPTURES / f"{name}.pcap"
    payloads = {each.packet: each.payload for each in dissect_packets(read_packets(file)) if isinstance(each, Segment)}
    found = [row for row in read_rows(file) if row["status"] == "ok"]

    for row in found:
        asked = struct.pack(">hhi", row["api_key"], row["api_version"], row["correlation_id"])
        answered = struct.pack(">i", row["correlation_id"])
        assert asked in payloads[row["req_packet"]]  # type: ignore[index]
        assert row["resp_packet"] is None or answered in payloads[row["resp_packet"]]  # type: ignore[index]
    assert len({row["req_packet"] for row in found}) > 10
    assert min(payloads) == 1


def test_every_level_has_the_packets_of_the_message() -> None:
    file = CAPTURES / "small_share.pcap"
    known = {(row["req_packet"], row["resp_packet"]) for row in read_rows(file)}
    levels = [each for each, columns in LEVELS.items() if "req_packet" in {column.name for column in columns}]

    assert {"messages", "partitions", "share_acquired", "share_acks", "records"} <= set(levels)
    for level in levels:
        places = {(row["req_packet"], row["resp_packet"]) for row in read_rows(file, level)}
        assert places, level
        assert places <= known


def test_only_rows_of_the_selected_apis_are_returned() -> None:
    connection = identified().exchange(*metadata_exchange(2)).send_client_bytes(b"\xff" * 4)

    assert [row["api_name"] for row in connection.read_rows(apis=frozenset({"Metadata"}))] == ["Metadata"]
    assert len(connection.read_rows()) == 3


def test_partition_counts_are_limited_to_the_column_type() -> None:
    topics = [CreatableTopic("a", 2**31 - 1), CreatableTopic("b", 2**31 - 1)]
    request = encode_request(CreateTopicsRequest(topics), 5, 2, "me")
    rows = CapturedConnection().open().send_requests(request).read_rows()

    assert (rows[0]["n_topics"], rows[0]["n_partitions"]) == (2, 2**31 - 1)


def test_a_damaged_record_batch_is_an_issue_of_a_complete_message() -> None:
    request = bytearray(produce_request(2))
    request[-8] ^= 1
    connection = CapturedConnection().open().exchange(bytes(request), encode_response(ProduceResponse(), 9, 2))
    rows = connection.read_rows()

    assert summarize_rows(rows) == [("Produce", 2, "ok")]
    assert collect_issue_kinds(rows) == {"records"}
    assert "CRC" in str(rows[0]["issues"])
