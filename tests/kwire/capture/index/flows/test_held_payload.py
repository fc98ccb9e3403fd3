"""What the index holds of a flow, payload or segments behind a gap, is limited and released."""

from __future__ import annotations

from typing import ClassVar

import pytest

from kwire.capture.index import build_index
from kwire.capture.index.flows import undecided_flows
from kwire.capture.index.streams import reassembly
from kwire.capture.index.streams.stream_pieces import AFTER_CAPTURE
from kwire.capture.kafka.client_detection import UndecidedBudget
from kwire.capture.reader import read_batches
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    batch_rows,
    connection_with_exchanges,
    keep_direction,
)

pytestmark = pytest.mark.parametrize("span_size", [1_024], indirect=True)


def with_a_lost_request(port: int, start: int) -> list[CapturedPacket]:
    """A connection of which only one side was captured, so that nothing acknowledges its lost request."""
    packets = connection_with_exchanges(30, port=port).packets
    kept = keep_direction([*packets[:5], *packets[6:]], from_client=True)
    return [packet._replace(ts=start + number) for number, packet in enumerate(kept)]


class UndecidedSizes(UndecidedBudget):
    """A budget that keeps all sizes that it had."""

    sizes: ClassVar[list[int]] = []

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, value)
        self.sizes.append(self.size)


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of the payload that is held for flows without a client, as a test goes on."""
    monkeypatch.setattr(UndecidedSizes, "sizes", [])
    monkeypatch.setattr(undecided_flows, "UndecidedBudget", UndecidedSizes)
    return UndecidedSizes.sizes


@pytest.mark.parametrize("opening", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\0\x99\x01" + bytes(94)])
def test_no_payload_is_held_for_connections_that_are_not_kafka(
    span_size: int, opening: bytes, sizes: list[int]
) -> None:
    connection = CapturedConnection().open()
    for _ in range(30):
        connection.send_client_bytes(opening).send_server_bytes(bytes(500))

    build_index(build_pcap(connection.packets))

    assert (max(sizes), sizes[-1]) == (len(opening), 0)


@pytest.mark.parametrize(("limit", "given_up"), [(1_000, []), (40, [40_000]), (10, [40_000, 40_001])])
def test_the_gaps_before_which_segments_wait_longest_are_given_up_if_too_many_wait(
    limit: int, given_up: list[int], span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    packets = [packet for number in range(2) for packet in with_a_lost_request(40_000 + number, number * 1_000)]
    capture = build_pcap(packets)
    monkeypatch.setattr(reassembly, "BUFFERED_TOTAL_MAX", limit)

    found = build_index(capture)

    early = [gap.flow for gap in found.gaps if gap.completed_by < AFTER_CAPTURE]
    assert sorted(max(port for _, port in found.flows[flow].key) for flow in early) == given_up
    assert sum(gap.is_request for gap in found.gaps) == 2
    assert_rows_of_pipeline(capture)


def test_the_start_of_a_stream_is_found_early_if_too_many_segments_wait(
    span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = [connection_with_exchanges(6, port=40_000 + number).packets[3:] for number in range(40)]
    capture = build_pcap([each[place] for place in range(12) for each in connections])
    monkeypatch.setattr(reassembly, "BUFFERED_TOTAL_MAX", 20)

    assert len(build_index(capture).read_exchanges(-1)) < 240
    rows = batch_rows(read_batches(capture, columns=["status"]))
    assert [row["status"] for row in rows] == ["ok"] * 240
