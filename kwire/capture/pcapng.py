"""The pcapng file: sections of blocks. Source: draft-ietf-opsawg-pcapng."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from kwire.capture import blocks
from kwire.capture.pcap import PACKET_SIZE_MAX
from kwire.capture.values import Packet, Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.capture.blocks import Interface
    from kwire.capture.keylog import KeyLog
    from kwire.capture.source import Reader

MAGIC = b"\x0a\x0d\x0d\x0a"

# Names (which `about` reads), journals, custom blocks and all that are unknown are passed over: no row is made of them.
INTERFACE, _PACKET_OLD, _PACKET_SIMPLE, NAMES, STATISTICS, _PACKET, _SECRETS = 1, 2, 3, 4, 5, 6, 10
_READ = frozenset({INTERFACE, _PACKET_OLD, _PACKET_SIMPLE, STATISTICS, _PACKET, _SECRETS})
# The kind of secrets that is a TLS key log: "TLSK".
_TLS_KEY_LOG = 0x544C534B
# A block is its packet, options, and room for comments; anything longer is not believed.
_BLOCK_SIZE_MAX = PACKET_SIZE_MAX + (1 << 20)
# A file of nothing but interfaces must not fill the memory.
INTERFACES_MAX = 1 << 16


class _CorruptError(Exception):
    """The rest of the file cannot be read; becomes a Trouble."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def packets(reader: Reader, keys: KeyLog | None = None) -> Iterator[Packet | Trouble]:
    """The packets of all sections, after the first block type, which the caller has read and found to be `MAGIC`.

    Args: keys: takes the TLS secrets of the file, as they come.
    """
    sections = _Sections(reader, keys)
    if keys is not None:
        keys.may_grow = True
    head = MAGIC
    while head:
        try:
            found = sections.block(head)
            head = reader.read(4)
        except _CorruptError as error:
            yield Trouble(error.kind, reader.trouble or str(error), sections.number, sections.ts)
            return
        if found is not None:
            yield found
    if reader.trouble:
        yield Trouble("file_truncated", reader.trouble, sections.number, sections.ts)


class _Sections:
    """What must be known to read the next block: the section's byte order and interfaces."""

    def __init__(self, reader: Reader, keys: KeyLog | None) -> None:
        self.reader = reader
        self.keys = keys
        self.order = "<"
        self.interfaces: list[Interface] = []
        self.number = 0
        self.ts = 0

    def block(self, head: bytes) -> Packet | Trouble | None:
        """Read one block of which the four type bytes are read already."""
        if head == MAGIC:
            self._section()
            return None
        kind, size = struct.unpack(self.order + "II", self._exactly(4, head))
        # The length counts the type, itself and its copy at the end; all blocks are padded to 32 bits.
        if size < 12 or size % 4:
            raise _CorruptError("file_corrupt", f"a block after packet {self.number} states a length of {size}")
        if kind not in _READ:
            if not self.reader.skip(size - 8):
                raise _CorruptError("file_truncated", f"the file ends inside a block after packet {self.number}")
            return None
        if size > _BLOCK_SIZE_MAX:
            raise _CorruptError("file_corrupt", f"a block after packet {self.number} states a length of {size}")
        body = self._exactly(size - 8)
        if struct.unpack(self.order + "I", body[-4:])[0] != size:
            raise _CorruptError("file_corrupt", f"the two lengths of a block after packet {self.number} differ")
        return self._read(kind, body[:-4])

    def _section(self) -> None:
        head = self._exactly(8)
        self.order = ">" if head[4:] == b"\x1a\x2b\x3c\x4d" else "<"
        size, magic = struct.unpack(self.order + "II", head)
        if magic != 0x1A2B3C4D or size < 28:
            raise _CorruptError("file_corrupt", "a section header has no byte-order mark")
        if not self.reader.skip(size - 12):
            raise _CorruptError("file_truncated", "the file ends inside a section header")
        # Interface numbers begin anew in each section.
        self.interfaces = []

    def _read(self, kind: int, body: bytes) -> Packet | Trouble | None:
        try:
            if kind == INTERFACE:
                self._add(blocks.interface(body, self.order))
                return None
            if kind == STATISTICS:
                return blocks.dropped(body, self.order, self.interfaces)
            if kind == _SECRETS:
                self._learn(body)
                return None
            self.number += 1
            if kind == _PACKET_SIMPLE:
                return self._simple(body)
            layout = "HHIIII" if kind == _PACKET_OLD else "IIIII"
            fields = struct.unpack_from(self.order + layout, body)
        except struct.error:
            return Trouble("file_corrupt", f"a block after packet {self.number} is too short", self.number, self.ts)
        high, low, kept, size = fields[-4:]
        return self._packet(fields[0], body[20 : 20 + kept], kept, size, (high, low))

    def _add(self, interface: Interface) -> None:
        if len(self.interfaces) >= INTERFACES_MAX:
            raise _CorruptError("file_corrupt", f"a section has more than {INTERFACES_MAX} interfaces")
        self.interfaces.append(interface)

    def _learn(self, body: bytes) -> None:
        kind, size = struct.unpack_from(self.order + "II", body)
        if kind == _TLS_KEY_LOG and self.keys is not None:
            self.keys.add(body[8 : 8 + size].decode("latin-1"))

    def _simple(self, body: bytes) -> Packet | Trouble:
        (size,) = struct.unpack_from(self.order + "I", body)
        snaplen = self.interfaces[0].snaplen if self.interfaces else 0
        kept = min(size, snaplen or size, len(body) - 4)
        # A simple packet has no time of its own; the one before it is the nearest that the file tells.
        return self._packet(0, body[4 : 4 + kept], kept, size, None)

    def _packet(
        self, interface: int, data: bytes, kept: int, size: int, clock: tuple[int, int] | None
    ) -> Packet | Trouble:
        if interface >= len(self.interfaces):
            detail = f"packet {self.number} names interface {interface}, which the section does not have"
            return Trouble("file_corrupt", detail, self.number, self.ts)
        if len(data) < kept:
            detail = f"packet {self.number} claims {kept} bytes in a smaller block"
            return Trouble("file_corrupt", detail, self.number, self.ts)
        if clock is not None:
            self.ts = self.interfaces[interface].ns(*clock)
        return Packet(self.number, self.ts, self.interfaces[interface].link, data, max(size, kept))

    def _exactly(self, size: int, before: bytes = b"") -> bytes:
        data = self.reader.read(size)
        if len(data) < size:
            raise _CorruptError("file_truncated", f"the file ends inside a block after packet {self.number}")
        return before + data
