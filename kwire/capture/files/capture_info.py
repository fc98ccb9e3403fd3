"""Metadata of a capture file: its writer, its interfaces, host names, comments, and dropped packets."""

from __future__ import annotations

import struct
from contextlib import suppress
from dataclasses import dataclass, field

from kwire.capture.files import pcap, pcapng, pcapng_blocks
from kwire.capture.files.pcapng import BlockParser
from kwire.capture.files.pcapng_blocks import Interface
from kwire.capture.files.source import Source, not_a_capture, open_source

# Limits the memory for a file that consists of names, interfaces or comments.
_HOSTS_MAX = 100_000
_NAMES_MAX = 100
_INTERFACES_MAX = 10_000
_COMMENTS_MAX = 1_000
# The options of a section header that name its writer.
_WRITER = {2: "hardware", 3: "system", 4: "application"}
_SECTION = 0x0A0D0D0A
_READ = frozenset({_SECTION, pcapng.INTERFACE, pcapng.NAME_RESOLUTION, pcapng.STATISTICS})


@dataclass(slots=True)
class CaptureInfo:
    """The contents of a capture file except for its packets.

    `hosts` has the names of an address (as text), at most a hundred, from name resolution blocks.
    `dropped` has descriptions of packets that the capturing system dropped. A damaged file is read up to the damage at
    which `read_packets` stops too: so the interfaces are those of the packets that can be read.
    """

    format: str
    interfaces: list[Interface] = field(default_factory=list)
    hosts: dict[str, list[str]] = field(default_factory=dict)
    hardware: str = ""
    system: str = ""
    application: str = ""
    comments: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def read_capture_info(source: Source, unpacked_max: int | None = None) -> CaptureInfo:
    """Read the metadata of a capture; its packets are skipped.

    Args: unpacked_max: as `Options.unpacked_size_max`.

    Raises: CaptureError if it is neither pcap nor pcapng.
    """
    with open_source(source, unpacked_max) as reader:
        magic = reader.magic
        if magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS:
            return CaptureInfo("pcap")
        if magic != pcapng.MAGIC:
            raise not_a_capture(magic)
        info = CaptureInfo("pcapng")
        blocks = pcapng.BlockReader(reader, pcapng.BlockParser())
        with suppress(pcapng.DamagedError):
            for kind, body in blocks.read_blocks(_READ):
                # A block that is too short has no data; the next one may.
                with suppress(struct.error):
                    _add_block(info, blocks.parser, kind, body)
        return info


def _add_block(info: CaptureInfo, parser: BlockParser, kind: int, body: bytes) -> None:
    order = parser.order
    if kind == _SECTION:
        for code, value in pcapng_blocks.read_options(body, 16, order):
            text = pcapng_blocks.decode_text(value)
            if code in _WRITER:
                setattr(info, _WRITER[code], text)
            elif code == pcapng_blocks.OPT_COMMENT and len(info.comments) < _COMMENTS_MAX:
                info.comments.append(text)
    elif kind == pcapng.INTERFACE and len(info.interfaces) < _INTERFACES_MAX:
        info.interfaces.append(pcapng_blocks.parse_interface(body, order))
        parser.interfaces.append(info.interfaces[-1])
    elif kind == pcapng.NAME_RESOLUTION:
        for address, names in pcapng_blocks.parse_names(body, order):
            if address in info.hosts or len(info.hosts) < _HOSTS_MAX:
                known = info.hosts.get(address, [])
                info.hosts[address] = list(dict.fromkeys(known + names))[:_NAMES_MAX]
    elif kind == pcapng.STATISTICS:
        issue = pcapng_blocks.parse_dropped_packets(body, order, parser.interfaces)
        if issue is not None and len(info.dropped) < _COMMENTS_MAX:
            info.dropped.append(issue.detail)
