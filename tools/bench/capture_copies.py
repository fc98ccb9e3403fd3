"""Copy the connections of a capture: `python -m tools.bench.capture_copies IN OUT.pcap --copies 10 --port 9092`.

Each copy follows the copy before in time, and its clients have other ports, as if they had connected again. Sequence
numbers, acknowledgements and payloads are those of the original. With `--depth` so many requests of a connection share
a packet, and then their responses do, as from clients that do not wait for each response.
"""

from __future__ import annotations

import argparse
import struct
from collections.abc import Iterator
from pathlib import Path

from kwire.capture.files.packet_reader import read_packets
from kwire.capture.model import Packet

_LINKTYPE_RAW = 101
#: The first and the last client port of all copies.
_PORT_FIRST, _PORT_LAST = 10_000, 65_535
# The most bytes of the packets that are joined: an IPv4 packet has 65,535 at most.
_JOINED_MAX = 60_000
_PAUSE_NS = 1_000_000_000


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture_copies", description=__doc__)
    parser.add_argument("source", type=Path, metavar="IN")
    parser.add_argument("out", type=Path, metavar="OUT.pcap")
    parser.add_argument("--copies", type=int, default=10)
    parser.add_argument("--port", type=int, required=True, help="the broker's port, which is not changed")
    parser.add_argument("--depth", type=int, default=1, help="requests in a packet (default: %(default)s)")
    args = parser.parse_args()
    write_copies(args.source, args.out, copies=args.copies, port=args.port, depth=args.depth)


def write_copies(source: Path, out: Path, *, copies: int, port: int, depth: int = 1) -> int:
    """Write raw IPv4 packets `copies` times as a pcap file with nanoseconds; return the number of packets.

    Args: port: the broker's. depth: how many requests share a packet.
    Raises: ValueError when the copies need more client ports than exist.
    """
    packets = [packet for packet in read_packets(source) if isinstance(packet, Packet)]
    if depth > 1:
        packets = list(_join_frames(packets, port, depth))
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


def _join_frames(packets: list[Packet], port: int, depth: int) -> Iterator[Packet]:
    """The packets, with the payloads of up to `depth` requests of a connection in one packet, then their responses."""
    waiting: dict[int, tuple[list[Packet], list[Packet]]] = {}
    for packet in packets:
        source, target = _ports(packet.data)
        client = target if source == port else source
        has_payload = _payload_start(packet.data) < len(packet.data)
        requests, responses = waiting.setdefault(client, ([], []))
        size = sum(len(each.data) for each in (*requests, *responses, packet))
        if size > _JOINED_MAX or not has_payload or len(responses) == depth:
            yield from map(_join, filter(None, (requests, responses)))
            requests, responses = waiting[client] = [], []
        if has_payload:
            (responses if source == port else requests).append(packet)
        else:
            yield packet
    for requests, responses in waiting.values():
        yield from map(_join, filter(None, (requests, responses)))


def _join(packets: list[Packet]) -> Packet:
    """One packet with the payloads of all; the last one determines when it is captured."""
    start = _payload_start(packets[0].data)
    data = packets[0].data[:start] + b"".join(each.data[_payload_start(each.data) :] for each in packets)
    data = data[:2] + struct.pack(">H", len(data)) + data[4:]
    return packets[-1]._replace(data=data, size=len(data))


def _payload_start(data: bytes) -> int:
    at = (data[0] & 15) * 4
    return at + (data[at + 12] >> 4) * 4


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
