"""Copy the connections of a capture: `python -m tools.bench.capture_copies IN OUT.pcap --copies 10 --port 9092`.

Each copy follows the copy before in time, and its clients have other ports, as if they had connected again. Sequence
numbers, acknowledgements and payloads are those of the original.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Packet

_LINKTYPE_RAW = 101
#: The first and the last client port of all copies.
_PORT_FIRST, _PORT_LAST = 10_000, 65_535
_PAUSE_NS = 1_000_000_000


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture_copies", description=__doc__)
    parser.add_argument("source", type=Path, metavar="IN")
    parser.add_argument("out", type=Path, metavar="OUT.pcap")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--port", type=int, required=True, help="the broker's port, which is not changed")
    args = parser.parse_args()
    write_copies(args.source, args.out, copies=args.copies, port=args.port)


def write_copies(source: Path, out: Path, *, copies: int, port: int) -> int:
    """Write raw IPv4 packets `copies` times as a pcap file with nanoseconds; return the number of packets.

    Raises: ValueError when the copies need more client ports than exist.
    """
    packets = [packet for packet in read_packets(source) if isinstance(packet, Packet)]
    clients = sorted({number for packet in packets for number in _ports(packet.data)} - {port})
    if copies * len(clients) > _PORT_LAST - _PORT_FIRST:
        raise ValueError(f"{copies} copies of {len(clients)} clients need more ports than exist")
    span = packets[-1].ts - packets[0].ts + _PAUSE_NS
    with out.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, _LINKTYPE_RAW))
        for copy in range(copies):
            new_ports = {old: _PORT_FIRST + copy * len(clients) + index for index, old in enumerate(clients)}
            new_ports[port] = port
            for packet in packets:
                file.write(_record(packet, packet.ts + copy * span, new_ports))
    return copies * len(packets)


def _ports(data: bytes) -> tuple[int, int]:
    ports: tuple[int, int] = struct.unpack_from(">HH", data, (data[0] & 15) * 4)
    return ports


def _record(packet: Packet, ts: int, new_ports: dict[int, int]) -> bytes:
    at = (packet.data[0] & 15) * 4
    source, target = _ports(packet.data)
    data = packet.data[:at] + struct.pack(">HH", new_ports[source], new_ports[target]) + packet.data[at + 4 :]
    seconds, fraction = divmod(ts, 1_000_000_000)
    return struct.pack("<IIII", seconds, fraction, len(data), packet.size) + data


if __name__ == "__main__":
    main()
