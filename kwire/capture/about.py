"""What a capture file says of itself: who wrote it, its interfaces, names of addresses, how much was dropped."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kwire.capture import blocks, pcap, pcapng
from kwire.capture.source import no_capture, opened

if TYPE_CHECKING:
    from kwire.capture.blocks import Interface
    from kwire.capture.source import Reader, Source

# A file of nothing but names, interfaces or comments must not fill the memory.
_HOSTS_MAX = 100_000
_NAMES_MAX = 100
_INTERFACES_MAX = 10_000
_COMMENTS_MAX = 1_000
_BLOCK_SIZE_MAX = 1 << 24
_SHB_HARDWARE, _SHB_SYSTEM, _SHB_APPLICATION = 2, 3, 4
_SECTION = 0x0A0D0D0A


@dataclass(slots=True)
class About:
    """What stands in the file beside its packets.

    `hosts` are names by address (as text), from name resolution blocks; an address has at most a hundred.
    `dropped` are sentences about packets that the capturing system lost. A damaged file tells what precedes the damage.
    """

    format: str
    interfaces: list[Interface] = field(default_factory=list)
    hosts: dict[str, list[str]] = field(default_factory=dict)
    hardware: str = ""
    system: str = ""
    application: str = ""
    comments: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)


def about(source: Source) -> About:
    """Read what a capture says of itself, passing over its packets.

    Raises: CaptureError when it is neither pcap nor pcapng.
    """
    with opened(source) as reader:
        magic = reader.magic
        if magic in pcap.MAGICS or magic in pcap.IXIA_MAGICS:
            return About("pcap")
        if magic != pcapng.MAGIC:
            raise no_capture(magic)
        found = About("pcapng")
        _Walk(reader, found).blocks()
        return found


class _Walk:
    """Goes from block to block of all sections."""

    def __init__(self, reader: Reader, found: About) -> None:
        self._reader = reader
        self._found = found
        self._order = "<"
        # Numbers count the interfaces of a section.
        self._interfaces: list[Interface] = []

    def blocks(self) -> None:
        """Read until the file ends, or cannot be followed any further."""
        head = pcapng.MAGIC
        while head == pcapng.MAGIC or len(head) == 4:
            rest = self._reader.read(8 if head == pcapng.MAGIC else 4)
            if head == pcapng.MAGIC:
                self._order = ">" if rest[4:] == b"\x1a\x2b\x3c\x4d" else "<"
                self._interfaces = []
            if len(rest) < 4 or not self._block(head, rest):
                return
            head = self._reader.read(4)

    def _block(self, head: bytes, rest: bytes) -> bool:
        kind, size = struct.unpack(self._order + "II", head + rest[:4])
        left = size - 4 - len(rest)
        if left < 4:
            return False
        if kind not in _READ or left > _BLOCK_SIZE_MAX:
            return self._reader.skip(left)
        body = rest[4:] + self._reader.read(left)
        if len(body) < size - 8:
            return False
        try:
            self._learn(kind, body[:-4])
        except struct.error:
            # A block that is too short tells nothing; the next may.
            return True
        return True

    def _learn(self, kind: int, body: bytes) -> None:
        found, order = self._found, self._order
        if kind == _SECTION:
            for code, value in blocks.options(body, 16, order):
                self._say(code, blocks.text(value))
        elif kind == pcapng.INTERFACE and len(found.interfaces) < _INTERFACES_MAX:
            found.interfaces.append(blocks.interface(body, order))
            self._interfaces.append(found.interfaces[-1])
        elif kind == pcapng.NAMES:
            for address, names in blocks.names(body, order):
                self._name(address, names)
        elif kind == pcapng.STATISTICS:
            trouble = blocks.dropped(body, order, self._interfaces)
            if trouble is not None and len(found.dropped) < _COMMENTS_MAX:
                found.dropped.append(trouble.detail)

    def _name(self, address: str, names: list[str]) -> None:
        hosts = self._found.hosts
        if address not in hosts and len(hosts) >= _HOSTS_MAX:
            return
        known = hosts.setdefault(address, [])
        for name in names:
            if len(known) >= _NAMES_MAX:
                return
            if name not in known:
                known.append(name)

    def _say(self, code: int, value: str) -> None:
        found = self._found
        if code == blocks.OPT_COMMENT and len(found.comments) < _COMMENTS_MAX:
            found.comments.append(value)
        elif code == _SHB_HARDWARE:
            found.hardware = value
        elif code == _SHB_SYSTEM:
            found.system = value
        elif code == _SHB_APPLICATION:
            found.application = value


_READ = frozenset({_SECTION, pcapng.INTERFACE, pcapng.NAMES, pcapng.STATISTICS})
