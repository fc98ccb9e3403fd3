"""Packets that were captured twice are read once and counted; packets that were sent again are not."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from kwire.capture.index import build_index
from kwire.capture.index.scan import packet_copies as column_copies
from kwire.capture.index.scan import scanner
from kwire.capture.network import packet_copies
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    convert_to_ipv6,
    read_ip_packets,
    with_identification,
)
from tests.support.captures.index_captures import assert_rows_of_pipeline, connection_with_exchanges, mirror_packets
from tests.support.captures.range_indexes import SPAN_SIZE, assert_indexes_equal, build_by_size

MICROSECOND = 1_000
Mirror = Callable[[list[CapturedPacket]], list[CapturedPacket]]


def delayed(packet: CapturedPacket, delay: int = 20 * MICROSECOND) -> CapturedPacket:
    return packet._replace(ts=packet.ts + delay)


def with_hop(packet: CapturedPacket) -> CapturedPacket:
    """The packet behind a router: with another TTL and checksum of its IP header."""
    return packet._replace(data=packet.data[:8] + b"\x21" + packet.data[9:10] + b"\x12\x34" + packet.data[12:])


def is_from_broker(packet: CapturedPacket) -> bool:
    source, target = struct.unpack_from(">HH", packet.data, 20)
    return bool(source < target)


def mirror_adjacent(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [each for packet in packets for each in (packet, delayed(packet))]


def mirror_one_direction(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [each for packet in packets for each in (packet, delayed(packet))[: 1 + is_from_broker(packet)]]


def mirror_late(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    """Each copy comes some packets later, in another order."""
    return mirror_packets(packets, random.Random(1), 30_000 * MICROSECOND)


def mirror_with_hops(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [each for packet in packets for each in (packet, with_hop(delayed(packet)))]


def mirror_thrice(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [each for packet in packets for each in (packet, delayed(packet), packet)]


MIRRORS: list[Mirror] = [mirror_adjacent, mirror_one_direction, mirror_late, mirror_with_hops, mirror_thrice]


def marked(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    """With an IP identification for each packet, also for those that the system sends with 0."""
    return [with_identification(each, 1 + number % 65_535) for number, each in enumerate(packets)]


def rows_without_numbers(capture: bytes, level: str) -> list[dict[str, object]]:
    """The rows of connections; packets have other numbers where others are between them."""
    numbers = {"number", "req_packet", "resp_packet", "first_packet", "last_packet", "issues"}
    rows = [row for row in read_rows(capture, level) if row["conn_id"] is not None]
    return [{name: value for name, value in row.items() if name not in numbers} for row in rows]


def copy_issues(capture: bytes) -> list[object]:
    """The details of the issues about copies; each has a row of its own, which is no problem."""
    rows = [row for row in read_rows(capture) if row["conn_id"] is None]
    assert {(row["status"], row["in_flight"]) for row in rows} <= {("ok", None)}
    issues = [row["issues"] for row in rows]
    return [issue["detail"] for each in issues if isinstance(each, list) for issue in each]


@pytest.mark.parametrize("mirror", MIRRORS)
def test_a_mirrored_capture_has_the_rows_of_the_capture_and_one_about_its_copies(mirror: Mirror) -> None:
    packets = marked(read_ip_packets())
    plain, mirrored = build_pcap(packets), build_pcap(mirror(packets))

    for level in ("messages", "flows", "packets"):
        assert rows_without_numbers(mirrored, level) == rows_without_numbers(plain, level)
        assert_rows_of_pipeline(mirrored, level, Options())
    [detail] = copy_issues(mirrored)
    count = len(mirror(packets)) - len(packets)
    assert str(detail).startswith("packets were captured twice")
    assert str(detail).endswith(f", {count} times)")
    assert copy_issues(plain) == []


def ipv6(packets: list[CapturedPacket]) -> list[CapturedPacket]:
    return [each._replace(data=convert_to_ipv6(each.data)) for each in packets]


def test_without_an_identification_packets_with_data_are_copies_if_they_follow_at_once() -> None:
    packets = ipv6(read_ip_packets(CAPTURES / "small_kpy.pcap"))
    mirrored = build_pcap(mirror_adjacent(packets))

    assert rows_without_numbers(mirrored, "messages") == rows_without_numbers(build_pcap(packets), "messages")
    assert {row["retransmits_client"] for row in read_rows(mirrored, "flows")} == {0}
    assert len(copy_issues(mirrored)) == 1
    assert_rows_of_pipeline(mirrored, "packets")


@pytest.mark.parametrize(
    ("change", "count"),
    [
        (lambda packet: packet, 0),
        (lambda packet: delayed(packet, packet_copies.MARKED_NS), 0),
        (lambda packet: delayed(packet, packet_copies.MARKED_NS + MICROSECOND), 1),
        (lambda packet: with_identification(packet, 0x7F7F), 1),
        (lambda packet: packet._replace(data=packet.data[:36] + b"\x7f\x7f" + packet.data[38:]), 1),
    ],
    ids=["copy", "late copy", "too late", "other identification", "other checksum"],
)
def test_a_packet_that_was_sent_again_is_a_retransmission(
    change: Callable[[CapturedPacket], CapturedPacket], count: int
) -> None:
    packets = connection_with_exchanges(4).packets
    capture = build_pcap([*packets, change(packets[-2])])

    assert [row["retransmits_client"] for row in read_rows(capture, "flows")] == [count]
    assert len(copy_issues(capture)) == 1 - count
    for level in ("messages", "flows", "packets"):
        assert_rows_of_pipeline(capture, level)


def test_acknowledgements_without_an_identification_may_be_equal() -> None:
    packets = CapturedConnection(("::1", 40_000), ("::1", 9092)).open().packets
    capture = build_pcap([*packets, packets[-1], delayed(packets[-1])])

    assert len(list(read_rows(capture, "packets"))) == 5
    assert copy_issues(capture) == []


def test_copies_that_were_stored_in_another_size_change_no_row() -> None:
    """Two interfaces may have different limits."""
    packets = connection_with_exchanges(4).packets
    capture = build_pcap(each for packet in packets for each in (packet, packet._replace(stored_size=44)))

    assert rows_without_numbers(capture, "messages") == rows_without_numbers(build_pcap(packets), "messages")
    assert_rows_of_pipeline(capture)


@pytest.fixture
def short_distance(monkeypatch: pytest.MonkeyPatch) -> int:
    for module in (packet_copies, column_copies):
        monkeypatch.setattr(module, "DISTANCE_MAX", 40)
    monkeypatch.setattr(scanner, "SPAN_SIZE", SPAN_SIZE)
    return 40


@pytest.mark.parametrize("seed", range(6))
def test_columns_find_the_same_copies_from_span_to_span(seed: int, short_distance: int) -> None:
    chance, packets = random.Random(seed), read_ip_packets(CAPTURES / "small_ck.pcap")
    places = [(place + chance.choice((0, 1, 20, 38, 39, 40, 41, 60)), each) for place, each in enumerate(packets)]
    placed = [*enumerate(packets), *(each for each in places if chance.random() < 0.7)]
    capture = build_pcap(each for _, each in sorted(placed, key=lambda each: each[0]))

    for level in ("messages", "packets"):
        assert_rows_of_pipeline(capture, level)


@pytest.mark.parametrize("mirror", [mirror_adjacent, mirror_late])
@pytest.mark.parametrize("range_spans", [1, 3])
def test_copies_are_found_across_the_ranges_of_a_file(
    mirror: Mirror, range_spans: int, short_distance: int, tmp_path: Path
) -> None:
    path = tmp_path / "mirrored.pcap"
    path.write_bytes(build_pcap(mirror(marked(read_ip_packets()))))
    expected = build_index(path)

    assert [issue.kind for _, issue in expected.issues] == [packet_copies.COPIES_KIND]
    assert_indexes_equal(build_by_size(path, tmp_path, range_spans * SPAN_SIZE, 2), expected)
