"""A capture that is large enough to be cut."""

from __future__ import annotations

import struct
from pathlib import Path

from kwire.capture.index.walking.walk import SPAN_SIZE
from tests.kwire.capture.index.kit import copies
from tests.kwire.capture.wire import SHARE, Wire, ip_packets, pcap


def write_large(path: Path) -> Path:
    """Three spans: connections among datagrams of many bytes, which are captures."""
    some = copies(SHARE, 2)
    head, records = some[:24], some[24:]
    ports = struct.pack(">HHHH", 7000, 7001, 60_008, 0)
    datagram = struct.pack(">BBHHHBBH", 0x45, 0, 60_028, 1, 0, 64, 17, 0) + bytes(8) + ports + some[:60_000]
    filler = pcap([Wire(ip_packets()[0].ts, datagram)])[24:]
    with path.open("wb") as file:
        file.write(head)
        for _ in range(2):
            file.write(records)
            file.writelines([filler] * (SPAN_SIZE // len(filler)))
        file.write(records)
    return path
