"""Write many capture files from a few real ones: copies of the clients, each with another address and at a later time.

A template is a capture as one array of bytes. A copy is that array with other addresses and times written into it, so
that gigabytes are written at the speed of the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Packet

_LINKTYPE_RAW = 101
_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, _LINKTYPE_RAW)
_RECORD_HEADER_SIZE = 16
_SECOND = 1_000_000_000

Ints = npt.NDArray[np.int64]


class Template:
    """The packets of one capture of raw IPv4, and the offsets of their addresses and times."""

    def __init__(self, capture: Path, port: int) -> None:
        """`port` is the broker's; the other endpoint of each packet is a client."""
        packets = [packet for packet in read_packets(capture) if isinstance(packet, Packet)]
        records, times, clients, at = [], [], [], 0
        for packet in packets:
            source = struct.unpack_from(">H", packet.data, (packet.data[0] & 15) * 4)[0]
            clients.append(at + _RECORD_HEADER_SIZE + (16 if source == port else 12))
            times.append(packet.ts - packets[0].ts)
            records.append(struct.pack("<IIII", 0, 0, len(packet.data), packet.size) + packet.data)
            at += len(records[-1])
        self.packet_count = len(packets)
        self.span_ns = times[-1] + _SECOND
        self._bytes = np.frombuffer(b"".join(records), dtype=np.uint8).copy()
        self._clients: Ints = np.array(clients)
        self._times: Ints = np.array(times)
        sizes = np.array([len(record) for record in records])
        self._starts: Ints = np.cumsum(sizes) - sizes

    @property
    def size(self) -> int:
        """The size of one copy in bytes."""
        return len(self._bytes)

    def copy(self, number: int, start_ns: int) -> npt.NDArray[np.uint8]:
        """The copy with this number, whose clients have the address 10.x.y.z of that number."""
        times = self._times + start_ns
        self._write(self._starts, times // _SECOND)
        self._write(self._starts + 4, times % _SECOND)
        address = 10 << 24 | number
        for index in range(4):
            self._bytes[self._clients + index] = address >> (24 - 8 * index) & 255
        return self._bytes

    def _write(self, at: Ints, values: Ints) -> None:
        """Write little-endian words at these offsets."""
        for index in range(4):
            self._bytes[at + index] = values >> (8 * index) & 255


def write_files(templates: list[Template], folder: Path, *, size: int, file_size: int) -> Iterator[tuple[Path, int]]:
    """Write files of about `file_size` until they have `size` bytes; yield each with its packet count."""
    number, start_ns, written = 0, 1_790_000_000 * _SECOND, 0
    for index in range(1, 1 << 20):
        if written >= size:
            return
        path = folder / f"scale-{index:05}.pcap"
        with path.open("wb") as file:
            number, start_ns, count = _fill(file, templates, min(file_size, size - written), number, start_ns)
        written += path.stat().st_size
        yield path, count


def _fill(file: BinaryIO, templates: list[Template], size: int, number: int, start_ns: int) -> tuple[int, int, int]:
    """Write copies of each template in turn; return the next number, its time, and the count of packets written."""
    written, count = file.write(_FILE_HEADER), 0
    while True:
        for template in templates:
            file.write(template.copy(number, start_ns).data)
            written += template.size
            count += template.packet_count
            start_ns += template.span_ns
            number += 1
        if written >= size:
            return number, start_ns, count
