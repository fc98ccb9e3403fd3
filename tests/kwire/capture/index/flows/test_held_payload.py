"""Payload that the index holds for a flow is released when columns cannot read the flow any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import pytest

from kwire.capture.index.flows import side_scan, undecided_flows
from kwire.capture.index.streams import reassembly
from kwire.capture.kafka.client_detection import UndecidedBudget
from kwire.capture.kafka.frame_resync import PartialFrameBudget
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    request_bytes,
    response_bytes,
    send_bytes,
    split_segment,
    tcp_payload,
    unclean_reasons,
)

pytestmark = pytest.mark.parametrize("span_size", [1_024], indirect=True)

WAITING_MAX = 20
MINUTE_NS = 60_000_000_000


def segments_behind_a_gap(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    """More segments of a connection behind a gap than wait in all, so that the flow is not clean."""
    return [send_bytes(packets[-1], 1_000 + number, b"x") for number in range(3 * WAITING_MAX)]


def without_a_whole_header(port: int = 40_000) -> list[CapturedPacket]:
    """A connection whose client is not found before its end."""
    connection = CapturedConnection(("127.0.0.1", port)).open()
    for number in range(30):
        connection.exchange(request_bytes(number), response_bytes(number))
    return [packet for each in connection.packets[3:] for packet in split_segment(each, 9)]


def with_open_searches() -> list[CapturedPacket]:
    """A connection in whose directions no frame is found behind the first ones."""
    connection = CapturedConnection().open().exchange(request_bytes(0), response_bytes(0))
    for _ in range(20):
        connection.send_client_bytes(b"\xff" * 100).send_server_bytes(b"\xff" * 100)
    return connection.packets


def later(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [packet._replace(ts=packet.ts + MINUTE_NS) for packet in packets]


class UndecidedSizes(UndecidedBudget):
    """A budget that keeps all sizes that it had."""

    sizes: ClassVar[list[int]] = []

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, value)
        self.sizes.append(self.size)


class PartialSizes(PartialFrameBudget):
    """The same."""

    sizes: ClassVar[list[int]] = []

    def __setattr__(self, name: str, value: int) -> None:
        super().__setattr__(name, value)
        self.sizes.append(self.size)


@pytest.fixture(autouse=True)
def sizes(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """The sizes of the payload that is held for flows without a client, and for searches, as a test goes on."""
    for budget in (UndecidedSizes, PartialSizes):
        monkeypatch.setattr(budget, "sizes", [])
    monkeypatch.setattr(undecided_flows, "UndecidedBudget", UndecidedSizes)
    monkeypatch.setattr(side_scan, "PartialFrameBudget", PartialSizes)
    return UndecidedSizes.sizes, PartialSizes.sizes


def test_flows_without_a_client_that_are_left_to_the_pipeline_do_not_count(
    span_size: int, sizes: tuple[list[int], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    left = without_a_whole_header()
    held_size = sum(len(tcp_payload(packet)) for packet in left)
    capture = build_pcap([*left, *segments_behind_a_gap(left), *later(without_a_whole_header(40_002))])
    monkeypatch.setattr(reassembly, "_BUFFERED_TOTAL_MAX", WAITING_MAX)

    assert unclean_reasons(capture) == ["disorder", "clean"]
    assert max(sizes[0]) == held_size
    assert_rows_of_pipeline(capture)


@pytest.mark.parametrize("opening", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x16\x03\x01\0\x99\x01" + bytes(94)])
def test_no_payload_is_held_for_connections_that_are_not_kafka(
    span_size: int, opening: bytes, sizes: tuple[list[int], list[int]]
) -> None:
    connection = CapturedConnection().open()
    for _ in range(30):
        connection.send_client_bytes(opening).send_server_bytes(bytes(500))

    assert unclean_reasons(build_pcap(connection.packets)) == ["clean"]
    assert (max(sizes[0]), sizes[0][-1]) == (len(opening), 0)


@pytest.mark.parametrize("build_packets", [without_a_whole_header, with_open_searches])
def test_no_payload_is_held_for_flows_that_are_left_to_the_pipeline(
    build_packets: Callable[[], list[CapturedPacket]],
    span_size: int,
    sizes: tuple[list[int], list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    packets = build_packets()
    other = CapturedConnection(("127.0.0.1", 40_002)).open().exchange(request_bytes(0), response_bytes(0))

    capture = build_pcap([*packets, *segments_behind_a_gap(packets), *later(other.packets)])
    monkeypatch.setattr(reassembly, "_BUFFERED_TOTAL_MAX", WAITING_MAX)

    assert unclean_reasons(capture) == ["disorder", "clean"]
    assert max(sizes[0] + sizes[1]) > len(packets)
    assert [each[-1] for each in sizes] == [0, 0]
