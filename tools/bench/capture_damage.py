"""Damage a capture as lossy captures are: `python -m tools.bench.capture_damage IN.pcap OUT.pcap --lost 0.01`.

The file is one of `capture_copies`: pcap with nanoseconds, in the byte order of x86.
"""

from __future__ import annotations

import argparse
import random
import struct
from pathlib import Path

_RECORD = struct.Struct("<IIII")
_HEADER_SIZE = 24
_WHOLE = 1 << 18


def main() -> None:
    """Write one file."""
    parser = argparse.ArgumentParser(prog="python -m tools.bench.capture_damage", description=__doc__)
    parser.add_argument("source", type=Path, metavar="IN.pcap")
    parser.add_argument("out", type=Path, metavar="OUT.pcap")
    parser.add_argument("--lost", type=float, default=0.0, help="the share of packets that are left out")
    parser.add_argument("--snaplen", type=int, default=_WHOLE, help="the bytes that are kept of each packet")
    args = parser.parse_args()
    print(write_damaged(args.source, args.out, lost=args.lost, snaplen=args.snaplen))


def write_damaged(source: Path, out: Path, *, lost: float = 0.0, snaplen: int = _WHOLE, seed: int = 1) -> int:
    """Write the packets without a share of them, cut to a size; return the number of packets that are left."""
    data, chance, at, count = source.read_bytes(), random.Random(seed), _HEADER_SIZE, 0
    with out.open("wb") as file:
        file.write(data[:_HEADER_SIZE])
        while at < len(data):
            seconds, fraction, captured, size = _RECORD.unpack_from(data, at)
            packet = data[at + _RECORD.size : at + _RECORD.size + min(captured, snaplen)]
            at += _RECORD.size + captured
            if chance.random() >= lost:
                file.write(_RECORD.pack(seconds, fraction, len(packet), size) + packet)
                count += 1
    return count


if __name__ == "__main__":
    main()
