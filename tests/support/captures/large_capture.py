"""A capture that is large enough to be split."""

from __future__ import annotations

import struct
from pathlib import Path

from kwire.capture.index.scan.scanner import SPAN_SIZE
from tests.support.captures.capture_files import SHARE, CapturedPacket, build_pcap, read_ip_packets
from tests.support.captures.index_captures import copy_connections


def write_large(path: Path) -> Path:
    """Write a capture of three index spans: connections among large datagrams."""
    some = copy_connections(SHARE, 2)
    head, records = some[:24], some[24:]
    ports = struct.pack(">HHHH", 7000, 7001, 60_008, 0)
    datagram = struct.pack(">BBHHHBBH", 0x45, 0, 60_028, 1, 0, 64, 17, 0) + bytes(8) + ports + some[:60_000]
    filler = build_pcap([CapturedPacket(read_ip_packets()[0].ts, datagram)])[24:]
    with path.open("wb") as file:
        file.write(head)
        for _ in range(2):
            file.write(records)
            file.writelines([filler] * (SPAN_SIZE // len(filler)))
        file.write(records)
    return path
