"""Payload that arrived in IP fragments is read by columns, with the rows of the pipeline."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from kwire.capture.index import build_index
from kwire.capture.index.columns import Columns
from kwire.capture.index.stored_payload import STORED_BASE, StoredPayload
from kwire.capture.options import Options
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedPacket,
    build_pcap,
    fragment_ipv4,
    read_ip_packets,
)
from tests.support.captures.index_captures import (
    IMPAIRED,
    assert_rows_of_pipeline,
    connection_with_exchanges,
    count_flows,
    split_segment,
    tcp_payload,
)
from tests.support.captures.range_indexes import SPAN_SIZE, assert_indexes_equal, build_by_size

SHARE = CAPTURES / "small_share.pcap"


def fragment(packets: Iterable[CapturedPacket], size: int) -> list[CapturedPacket]:
    """All packets with data in IP fragments of this size."""
    out: list[CapturedPacket] = []
    for number, packet in enumerate(packets):
        pieces = fragment_ipv4(packet.data, size, number) if tcp_payload(packet) else [packet.data]
        out += [packet._replace(data=piece) for piece in pieces]
    return out


def fragment_some(packets: list[CapturedPacket], seed: int, share: float = 0.3) -> list[CapturedPacket]:
    """Some packets in fragments, of which some are lost or in another order."""
    chance, out = random.Random(seed), list[CapturedPacket]()
    for packet in packets:
        pieces = fragment([packet], chance.choice((24, 48, 400))) if chance.random() < share else [packet]
        if chance.random() < 0.3:
            chance.shuffle(pieces)
        if len(pieces) > 1 and chance.random() < 0.05:
            pieces.pop(chance.randrange(len(pieces)))
        out += pieces
    return out


def test_stored_payload_is_read_by_position() -> None:
    stored = StoredPayload(Columns(), [])
    for payload in (b"abc", b"", b"defgh", b""):
        stored.add_span(payload)

    assert stored.extents == [(STORED_BASE + at, size) for at, size in ((0, 3), (3, 0), (3, 5), (8, 0))]
    assert stored.read(STORED_BASE + 1, 2) == b"bc"
    assert stored.read(STORED_BASE + 3, 100) == b"defgh"
    assert stored.read(STORED_BASE + 8, 1) == b""


@pytest.mark.parametrize("number", range(3, 13))
def test_each_packet_of_a_connection_may_be_fragmented(number: int) -> None:
    packets = connection_with_exchanges(5).packets
    capture = build_pcap([*packets[:number], *fragment([packets[number]], 24), *packets[number + 1 :]])

    assert count_flows(capture) == 1
    assert len(assert_rows_of_pipeline(capture)) == 5


@pytest.mark.parametrize("size", [3, 9, 60])
def test_a_frame_may_begin_in_one_fragmented_packet_and_continue_in_others(size: int) -> None:
    packets = connection_with_exchanges(5).packets
    capture = build_pcap(fragment([piece for each in packets for piece in split_segment(each, size)], 24))

    assert count_flows(capture) == 1
    assert len(assert_rows_of_pipeline(capture)) == 5


def test_a_connection_may_begin_before_the_capture_with_fragments() -> None:
    capture = build_pcap(fragment(connection_with_exchanges(30).packets[4:], 24))

    assert count_flows(capture) == 1
    assert len(assert_rows_of_pipeline(capture)) == 30


@pytest.mark.slow
@pytest.mark.usefixtures("span_size")
@pytest.mark.parametrize("level", ["messages", "partitions", "records"])
@pytest.mark.parametrize("span_size", [SPAN_SIZE, 24 << 20], indirect=True)
def test_a_capture_of_fragments_is_read_by_columns(level: str) -> None:
    capture = build_pcap(fragment(read_ip_packets(SHARE), 400))

    assert_rows_of_pipeline(capture, level, Options(sessions=False))


@pytest.mark.slow
@pytest.mark.usefixtures("span_size")
@pytest.mark.parametrize("span_size", [SPAN_SIZE, 24 << 20], indirect=True)
@pytest.mark.parametrize("impairment", ["loss", "copies", "swaps", "lateness", "midstream", "small segments"])
def test_fragments_of_damaged_flows(impairment: str) -> None:
    for seed, name in enumerate(("share", "txn", "kpy")):
        packets = IMPAIRED[impairment](read_ip_packets(CAPTURES / f"small_{name}.pcap"))
        capture = build_pcap(fragment_some(packets, seed))

        assert_rows_of_pipeline(capture)
        assert_rows_of_pipeline(capture, options=Options(sessions=False))


@pytest.mark.slow
@pytest.mark.parametrize("span_size", [SPAN_SIZE], indirect=True)
@pytest.mark.parametrize("range_size", [SPAN_SIZE, 5 * SPAN_SIZE])
def test_shards_build_the_same_index(range_size: int, span_size: int, tmp_path: Path) -> None:
    path = tmp_path / "fragments.pcap"
    path.write_bytes(build_pcap(fragment_some(read_ip_packets(SHARE), 1)))
    expected = build_index(path)

    assert len(expected.spans) * span_size > path.stat().st_size
    assert sum(size for _, size in expected.stored) > 1000
    assert_indexes_equal(build_by_size(path, tmp_path, range_size, 3), expected)
