"""A capture in several files, as rotated by a capture program."""

from __future__ import annotations

import os
import struct
from pathlib import Path

_HEAD, _RECORD_HEAD = 24, 16


def records_of(capture: Path) -> tuple[bytes, list[bytes]]:
    """The header of a little-endian pcap file, and its packets with their own headers."""
    content = capture.read_bytes()
    at, records = _HEAD, []
    while at < len(content):
        size = _RECORD_HEAD + struct.unpack_from("<I", content, at + 8)[0]
        records.append(content[at : at + size])
        at += size
    return content[:_HEAD], records


def pieces(capture: Path, folder: Path, count: int, *, name: str = "part") -> list[Path]:
    """Split a capture into `count` files with old modification times."""
    head, records = records_of(capture)
    folder.mkdir(exist_ok=True)
    size = len(records) // count + 1
    files = []
    for number in range(count):
        file = folder / f"{name}-{number:04}.pcap"
        file.write_bytes(head + b"".join(records[number * size : (number + 1) * size]))
        os.utime(file, (1, 1))
        files.append(file)
    return files
