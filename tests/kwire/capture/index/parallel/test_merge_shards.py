"""Limits that apply to all flows of a file are checked over all shards."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.capture import index
from kwire.capture.index import index_writer
from kwire.capture.index.flows import flow_builder, pairing, waiting_limits
from kwire.capture.index.flows.message_columns import DROPPED, ExchangeColumns
from kwire.capture.index.parallel import merge_shards
from kwire.capture.kafka import client_detection
from tests.support.captures.capture_files import build_pcap
from tests.support.captures.index_captures import connection_with_exchanges, split_segment, tcp_payload
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

    assert expected.is_clean.mean() > 0.8
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
    assert bool(expected.is_clean.all())
    # Some clients are found earlier.
    assert len(expected.read_exchanges(-1)) < len(before.read_exchanges(-1))
    assert_indexes_equal(build_by_size(path, folder, SPAN_SIZE * 4, 3), expected)


def test_the_connections_of_all_shards_together_may_exceed_the_limit(
    many_connections: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index_writer, "OPEN_MAX", 5)
    expected = index.build_index(many_connections)

    assert "clean" not in {flow.unclean_reason for flow in expected.flows}
    assert_indexes_equal(build_by_size(many_connections, tmp_path, SPAN_SIZE * 4, 3), expected)
