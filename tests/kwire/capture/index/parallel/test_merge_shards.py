"""Limits that apply to all flows of a file are checked over all shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index.flows import flow_builder, pairing, waiting_limits
from kwire.capture.index.flows.message_columns import DROPPED, ExchangeColumns
from kwire.capture.index.parallel import merge_shards
from kwire.capture.index.streams import reassembly
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.kafka import client_detection
from tests.support.captures.capture_files import build_pcap
from tests.support.captures.index_captures import connection_with_exchanges, keep_direction, split_segment, tcp_payload
from tests.support.captures.range_indexes import (
    SPAN_SIZE,
    assert_indexes_equal,
    build_by_size,
)

pytestmark = pytest.mark.slow


def read_parts(built: index.Index) -> Iterator[ExchangeColumns]:
    return map(built.read_exchanges, (*range(len(built.spans)), -1))


def count_dropped(built: index.Index) -> int:
    return sum(int(((exchanges.request.marks & DROPPED) > 0).sum()) for exchanges in read_parts(built))


def test_the_limit_of_waiting_messages_is_checked_over_all_shards(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = index.build_index(many_connections)
    monkeypatch.setattr(merge_shards, "LIMITS", flow_builder.LIMITS._replace(waiting_count=3))
    for module in (pairing, waiting_limits):
        monkeypatch.setattr(module, "WAITING_MAX", 3)
    expected = index.build_index(many_connections)

    assert count_dropped(before) == 0 < count_dropped(expected)
    assert_indexes_equal(build_by_size(many_connections, tmp_path, SPAN_SIZE * 4, 4), expected)


@pytest.mark.parametrize(("range_size", "count"), [(SPAN_SIZE, 2), (7 * SPAN_SIZE, 5)])
def test_connections_that_began_before_the_capture_are_merged_from_their_shards(
    midstream_connections: Path, range_size: int, count: int, tmp_path: Path
) -> None:
    expected = index.build_index(midstream_connections)

    assert_indexes_equal(build_by_size(midstream_connections, tmp_path, range_size, count), expected)


def test_the_limit_of_undecided_flows_is_checked_over_all_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No packet has a whole header, so clients are found at the end.
    connections = [connection_with_exchanges(30, port=40_000 + number).packets[3:] for number in range(6)]
    packets = [piece for each in connections for packet in each for piece in split_segment(packet, 9)]
    path, folder = tmp_path / "undecided.pcap", tmp_path / "work"
    path.write_bytes(build_pcap(sorted(packets, key=lambda packet: packet.ts)))
    folder.mkdir()
    before = index.build_index(path)
    size_max = sum(len(tcp_payload(packet)) for packet in packets) // 2
    monkeypatch.setattr(merge_shards, "LIMITS", flow_builder.LIMITS._replace(undecided_size=size_max))
    monkeypatch.setattr(client_detection, "UNDECIDED_TOTAL_MAX", size_max)
    monkeypatch.setattr(client_detection, "_UNDECIDED_SIZE_REDUCED", 100)
    expected = index.build_index(path)

    assert not before.others
    # Some clients are found earlier.
    assert len(expected.read_exchanges(-1)) < len(before.read_exchanges(-1))
    assert_indexes_equal(build_by_size(path, folder, SPAN_SIZE * 4, 3), expected)


def test_the_limit_of_segments_behind_gaps_is_checked_over_all_shards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = [connection_with_exchanges(30, port=40_000 + number).packets for number in range(6)]
    # Nothing acknowledges the lost requests.
    packets = [p for each in connections for p in keep_direction([*each[:5], *each[6:]], from_client=True)]
    path, folder = tmp_path / "gaps.pcap", tmp_path / "work"
    path.write_bytes(build_pcap(sorted(packets, key=lambda packet: packet.ts)))
    folder.mkdir()
    before = index.build_index(path)
    monkeypatch.setattr(merge_shards, "LIMITS", flow_builder.LIMITS._replace(buffered_count=60))
    monkeypatch.setattr(reassembly, "BUFFERED_TOTAL_MAX", 60)
    expected = index.build_index(path)

    ends, expected_ends = ({gap.completed_by for gap in each.gaps} for each in (before, expected))
    assert min(expected_ends) < min(ends) == AFTER_CAPTURE
    assert_indexes_equal(build_by_size(path, folder, SPAN_SIZE * 4, 3), expected)
