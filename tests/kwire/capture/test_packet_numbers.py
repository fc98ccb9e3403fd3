"""Rows name the packets in which their request and response begin, as Wireshark counts them."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kwire.capture.ip import segments
from kwire.capture.packets import packets
from kwire.capture.pipeline import rows
from kwire.capture.schemas import LEVELS
from kwire.capture.values import Segment

CAPTURES = Path(__file__).parents[2] / "captures"


@pytest.mark.parametrize("name", ["small_ck", "small_jshare"])
def test_the_packet_of_a_request_and_of_a_response_holds_its_first_bytes(name: str) -> None:
    file = CAPTURES / f"{name}.pcap"
    payloads = {each.packet: each.payload for each in segments(packets(file)) if isinstance(each, Segment)}
    found = [row for row in rows(file) if row["status"] == "ok"]

    for row in found:
        asked = struct.pack(">hhi", row["api_key"], row["api_version"], row["correlation_id"])
        answered = struct.pack(">i", row["correlation_id"])
        assert asked in payloads[row["req_packet"]]  # type: ignore[index]
        assert row["resp_packet"] is None or answered in payloads[row["resp_packet"]]  # type: ignore[index]
    assert len({row["req_packet"] for row in found}) > 10
    assert min(payloads) == 1


def test_every_level_names_the_packets_of_the_message() -> None:
    file = CAPTURES / "small_share.pcap"
    known = {(row["req_packet"], row["resp_packet"]) for row in rows(file)}
    levels = [each for each, columns in LEVELS.items() if "req_packet" in {column.name for column in columns}]

    assert {"messages", "partitions", "share_acquired", "share_acks", "records"} <= set(levels)
    for level in levels:
        places = {(row["req_packet"], row["resp_packet"]) for row in rows(file, level)}
        assert places, level
        assert places <= known
