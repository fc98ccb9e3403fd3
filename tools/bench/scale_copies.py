"""Many capture files from a few real ones: the same clients again and again, each time from other hosts, and later.

A template is a capture as one array of bytes; a copy is that array with other addresses and times written into it, so
that gigabytes are made at the speed of the disk.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from kwire.capture.packets import packets
from kwire.capture.values import Packet

_LINKTYPE_RAW = 101
_FILE_HEAD = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, _LINKTYPE_RAW)
_RECORD_HEAD = 16
_SECOND = 1_000_000_000

Ints = npt.NDArray[np.int64]


class Template:
    """The packets of one capture of raw IPv4, and where their addresses and times lie."""

    def __init__(self, capture: Path, port: int) -> None:
        """`port` is the broker's: the other end of each packet is a client."""
        found = [each for each in packets(capture) if isinstance(each, Packet)]
        records, times, clients, at = [], [], [], 0
        for packet in found:
            source = struct.unpack_from(">H", packet.data, (packet.data[0] & 15) * 4)[0]
            clients.append(at + _RECORD_HEAD + (16 if source == port else 12))
            times.append(packet.ts - found[0].ts)
            records.append(struct.pack("<IIII", 0, 0, len(packet.data), packet.size) + packet.data)
            at += len(records[-1])
        self.packet_count = len(found)
        self.span_ns = times[-1] + _SECOND
        self._bytes = np.frombuffer(b"".join(records), dtype=np.uint8).copy()
        self._clients: Ints = np.array(clients)
        self._times: Ints = np.array(times)
        sizes = np.array([len(record) for record in records])
        self._starts: Ints = np.cumsum(sizes) - sizes

    @property
    def size(self) -> int:
        """Bytes of one copy."""
        return len(self._bytes)

    def copy(self, number: int, start_ns: int) -> npt.NDArray[np.uint8]:
        """The copy of this number, whose clients have the address 10.x.y.z of that number."""
        times = self._times + start_ns
        self._write(self._starts, times // _SECOND)
        self._write(self._starts + 4, times % _SECOND)
        address = 10 << 24 | number
        for place in range(4):
            self._bytes[self._clients + place] = address >> (24 - 8 * place) & 255
        return self._bytes

    def _write(self, at: Ints, values: Ints) -> None:
        """Little-endian words at these places."""
        for place in range(4):
            self._bytes[at + place] = values >> (8 * place) & 255


def write_files(templates: list[Template], folder: Path, *, size: int, file_size: int) -> Iterator[tuple[Path, int]]:
    """Files of about `file_size` until there are `size` bytes; each as it is done, with its count of packets."""
    number, start_ns, written = 0, 1_790_000_000 * _SECOND, 0
    for index in range(1, 1 << 20):
        if written >= size:
            return
        path = folder / f"scale-{index:05}.pcap"
        with path.open("wb") as file:
            held = _fill(file, templates, min(file_size, size - written), number, start_ns)
        number, start_ns, count = held
        written += path.stat().st_size
        yield path, count


def _fill(file: BinaryIO, templates: list[Template], size: int, number: int, start_ns: int) -> tuple[int, int, int]:
    """Copies of each template in turn; the next number, when it begins, and how many packets were written."""
    done, count = file.write(_FILE_HEAD), 0
    while True:
        for template in templates:
            file.write(template.copy(number, start_ns).data)
            done += template.size
            count += template.packet_count
            start_ns += template.span_ns
            number += 1
        if done >= size:
            return number, start_ns, count
