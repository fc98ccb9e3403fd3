"""The packets of a stream are those of the file, wherever its pieces end."""

from __future__ import annotations

import gzip
import random

import pytest

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.index.scan.spans import Span
from kwire.capture.index.scan.stream_scan import scan_stream
from kwire.capture.merged_issues import MergedIssues
from kwire.capture.model import NO_PACKET, CaptureError, CaptureIssue, Packet
from kwire.capture.tls.key_log import KeyLog
from tests.support.captures.capture_files import (
    CAPTURES,
    build_block,
    build_interface,
    build_packet_block,
    build_pcapng,
    build_secrets,
    build_section,
)
from tests.support.captures.capture_files import CapturedPacket as Captured
from tests.support.captures.piece_source import PieceSource

PACKETS = [Captured(1_700_000_000_000_000_000 + 1_000 * number, bytes([number]) * (number + 1)) for number in range(40)]
KEY_LOG = "CLIENT_RANDOM " + 64 * "a" + " " + 96 * "b"
PCAPNG = build_pcapng(PACKETS)
MADE = {
    "pcap": (CAPTURES / "small_share.pcap").read_bytes(),
    "pcapng": PCAPNG,
    "other blocks": build_section() + build_block(0x0BAD, bytes(5_000)) + PCAPNG[28:],
    "big endian": build_pcapng(PACKETS, ">"),
    "sections": PCAPNG + build_section(">") + build_interface(">") + build_packet_block(7, b"later", ">"),
    "an unknown interface": PCAPNG + build_packet_block(7, b"no", number=3) + build_packet_block(8, b"yes"),
    "a damaged block": PCAPNG + build_packet_block(7, b"no")[:-1] + b"!" + PCAPNG,
    "a claim": (CAPTURES / "small_share.pcap").read_bytes() + 12 * b"\xff" + bytes(4),
    "a cut block": PCAPNG + build_block(0x0BAD, bytes(100))[:-20],
}
MADE |= {f"{name}, cut": data[: len(data) - 7] for name, data in MADE.items()}
MADE |= {f"{name}, gzip": gzip.compress(data) for name, data in list(MADE.items())[:4]}
MADE["a damaged gzip"] = gzip.compress(PCAPNG)[:-30]


def scan(source: PieceSource) -> tuple[list[Packet], list[CaptureIssue]]:
    """The packets of a stream, and its merged issues."""
    packets, issues = list[Packet](), MergedIssues()
    for item in scan_stream(source, KeyLog()):
        if isinstance(item, CaptureIssue):
            issues.add(item.packet, item)
        elif isinstance(item, Span):
            columns = (item.number, item.ts, item.link, item.at, item.captured, item.size)
            for number, ts, link, at, captured, size in zip(*(column.tolist() for column in columns), strict=True):
                packets.append(Packet(number, ts, link, item.data[at : at + captured], size))
    return packets, [issue for _, issue in issues.numbered]


@pytest.mark.parametrize("largest", [3, 50, 3_000, 1 << 20])
@pytest.mark.parametrize("name", MADE)
def test_the_packets_and_issues_of_a_stream_are_those_of_the_packet_reader(name: str, largest: int) -> None:
    data = MADE[name]
    found = scan(PieceSource(data, random.Random(f"{name} {largest}"), largest))
    items, issues = list(read_packets(data)), MergedIssues()
    for item in items:
        if isinstance(item, CaptureIssue):
            issues.add(item.packet, item)
    assert found[0] == [item for item in items if isinstance(item, Packet)]
    assert found[1] == [issue for _, issue in issues.numbered]


def test_secrets_are_known_before_the_packets_behind_them() -> None:
    data = build_section() + build_interface() + build_secrets(KEY_LOG) + PCAPNG[48:]
    for largest in (10, 10_000):
        keys = KeyLog()
        items = scan_stream(PieceSource(data, random.Random(1), largest), keys)
        assert keys.may_grow is False
        next(item for item in items if isinstance(item, Span))
        assert len(keys) == 1
        assert keys.may_grow


def test_a_marker_precedes_each_wait() -> None:
    items = list(scan_stream(PieceSource(PCAPNG, random.Random(3), 200), KeyLog()))
    spans = [place for place, item in enumerate(items) if isinstance(item, Span)]
    assert len(spans) > 5
    assert all(items[place + 1] is NO_PACKET for place in spans[:-1])


@pytest.mark.parametrize("data", [b"", b"abc", b"neither of the two formats of captures"])
def test_what_is_no_capture_is_refused(data: bytes) -> None:
    with pytest.raises(CaptureError, match=r"it is empty|neither pcap nor pcapng"):
        list(scan_stream(PieceSource(data, random.Random(1), 100), KeyLog()))
