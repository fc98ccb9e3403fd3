"""Make a capture larger: `python -m tools.bench.capture_copies IN OUT.pcap --copies 10 --port 9092`.

Each copy follows the one before in time, and its clients have ports of their own, so that it is as if the same clients
had come again. Sequence numbers, acknowledgements and payloads are those of the original.
"""

from __future__ import annotations

import argparse
import struct
from pathlib import Path

from kwire.capture.packets import packets
from kwire.capture.values import Packet

_LINKTYPE_RAW = 101
#: Client ports are counted from here on, for the connections of every copy.
_PORT_FIRST, _PORT_LAST = 10_000, 65_535
_PAUSE_NS = 1_000_000_000


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture_copies", description=__doc__)
    parser.add_argument("source", type=Path, metavar="IN")
    parser.add_argument("out", type=Path, metavar="OUT.pcap")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--port", type=int, required=True, help="the broker's port, which stays")
    args = parser.parse_args()
    write_copies(args.source, args.out, copies=args.copies, port=args.port)


def write_copies(source: Path, out: Path, *, copies: int, port: int) -> int:
    """Write raw IPv4 packets `copies` times as a pcap file with nanoseconds; how many packets there are.

    Raises: ValueError when the copies need more client ports than there are.
    """
    found = [each for each in packets(source) if isinstance(each, Packet)]
    clients = sorted({number for each in found for number in _ports(each.data)} - {port})
    if copies * len(clients) > _PORT_LAST - _PORT_FIRST:
        raise ValueError(f"{copies} copies of {len(clients)} clients are more than there are ports")
    span = found[-1].ts - found[0].ts + _PAUSE_NS
    with out.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, _LINKTYPE_RAW))
        for copy in range(copies):
            moved = {old: _PORT_FIRST + copy * len(clients) + index for index, old in enumerate(clients)}
            moved[port] = port
            for each in found:
                file.write(_record(each, each.ts + copy * span, moved))
    return copies * len(found)


def _ports(data: bytes) -> tuple[int, int]:
    ports: tuple[int, int] = struct.unpack_from(">HH", data, (data[0] & 15) * 4)
    return ports


def _record(packet: Packet, ts: int, moved: dict[int, int]) -> bytes:
    at = (packet.data[0] & 15) * 4
    source, target = _ports(packet.data)
    data = packet.data[:at] + struct.pack(">HH", moved[source], moved[target]) + packet.data[at + 4 :]
    seconds, fraction = divmod(ts, 1_000_000_000)
    return struct.pack("<IIII", seconds, fraction, len(data), packet.size) + data


if __name__ == "__main__":
    main()
