"""Reader of pcapng files: sections of blocks. Source: draft-ietf-opsawg-pcapng."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kwire.capture.files import pcapng_blocks
from kwire.capture.files.pcap import PACKET_SIZE_MAX
from kwire.capture.files.pcapng_blocks import Interface
from kwire.capture.files.source import KeyLogSink, Reader
from kwire.capture.model import NO_PACKET, CaptureIssue, NoPacket, Packet

MAGIC = b"\x0a\x0d\x0d\x0a"

# Name resolution blocks (which `capture_info` reads), journals, custom and unknown blocks are skipped.
INTERFACE, PACKET_OLD, PACKET_SIMPLE, NAME_RESOLUTION, STATISTICS, PACKET, SECRETS = 1, 2, 3, 4, 5, 6, 10
READ = frozenset({INTERFACE, PACKET_OLD, PACKET_SIMPLE, STATISTICS, PACKET, SECRETS})
# In place of the kind of a block: the next one may not be available yet.
_NO_BLOCK = -1
# The kind of secrets that is a TLS key log: "TLSK".
TLS_KEY_LOG = 0x544C534B
# A packet with its options and comments; a longer block is taken as corrupt.
BLOCK_SIZE_MAX = PACKET_SIZE_MAX + (1 << 20)
# Limits the memory for a file that consists of interfaces.
INTERFACES_MAX = 1 << 16


CUT_BLOCK = "the file ends inside a block after packet {}"


class DamagedError(Exception):
    """The rest of the file cannot be read. `kind` is that of the `CaptureIssue` which reports it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(detail)
        self.kind = kind


def read_packets(reader: Reader, keys: KeyLogSink | None = None) -> Iterator[Packet | CaptureIssue | NoPacket]:
    """Yield the packets of all sections of a file, whose magic number is `MAGIC`.

    Args: keys: receives the TLS secrets of the file, as they come.
    """
    if keys is not None:
        keys.may_grow = True
    yield from read_blocks(reader, BlockParser(keys))


def read_blocks(reader: Reader, parser: BlockParser) -> Iterator[Packet | CaptureIssue | NoPacket]:
    """Yield the packets of the next blocks. Args: parser: as the blocks before left it."""
    try:
        for kind, body in BlockReader(reader, parser).read_blocks(READ):
            packet = NO_PACKET if kind == _NO_BLOCK else parser.parse_block(kind, body)
            if packet is not None:
                yield packet
    except DamagedError as error:
        yield CaptureIssue(error.kind, reader.error or str(error), parser.number, parser.ts)
        return
    if reader.error:
        yield CaptureIssue("file_truncated", reader.error, parser.number, parser.ts)


class BlockParser:
    """Parses the blocks with packets, and those that packets need.

    order, interfaces: of the current section. number, ts: of the last packet.
    """

    def __init__(self, keys: KeyLogSink | None = None) -> None:
        """Args: keys: receives the TLS secrets, as they come."""
        self.keys = keys
        self.order = "<"
        self.interfaces: list[Interface] = []
        self.number = self.ts = 0

    def parse_block(self, kind: int, body: bytes) -> Packet | CaptureIssue | None:
        """Parse a block of `READ`; return its packet or issue, if any."""
        try:
            if kind == INTERFACE:
                self.interfaces.append(pcapng_blocks.parse_interface(body, self.order))
                if len(self.interfaces) > INTERFACES_MAX:
                    raise DamagedError("file_corrupt", f"a section has more than {INTERFACES_MAX} interfaces")
                return None
            if kind == STATISTICS:
                return pcapng_blocks.parse_dropped_packets(body, self.order, self.interfaces)
            if kind == SECRETS:
                self._add_secrets(body)
                return None
            self.number += 1
            if kind == PACKET_SIMPLE:
                return self._simple_packet(body)
            layout = "HHIIII" if kind == PACKET_OLD else "IIIII"
            fields = struct.unpack_from(self.order + layout, body)
        except struct.error:
            return self._issue(f"a block after packet {self.number} is too short")
        high, low, stored, size = fields[-4:]
        return self._packet(fields[0], body[20 : 20 + stored], stored, size, (high, low))

    def _add_secrets(self, body: bytes) -> None:
        kind, size = struct.unpack_from(self.order + "II", body)
        if kind == TLS_KEY_LOG and self.keys is not None:
            self.keys.add_lines(body[8 : 8 + size].decode("latin-1"))

    def _simple_packet(self, body: bytes) -> Packet | CaptureIssue:
        (size,) = struct.unpack_from(self.order + "I", body)
        snaplen = self.interfaces[0].snaplen if self.interfaces else 0
        stored = min(size, snaplen or size, len(body) - 4)
        # A simple packet has no time of its own; the time of the packet before it is the nearest known one.
        return self._packet(0, body[4 : 4 + stored], stored, size, None)

    def _packet(
        self, number: int, data: bytes, stored: int, size: int, clock: tuple[int, int] | None
    ) -> Packet | CaptureIssue:
        if number >= len(self.interfaces):
            return self._issue(f"packet {self.number} names interface {number}, which the section does not have")
        if len(data) < stored:
            return self._issue(f"packet {self.number} claims {stored} bytes in a smaller block")
        interface = self.interfaces[number]
        if clock is not None:
            self.ts = interface.to_nanoseconds(*clock)
        return Packet(self.number, self.ts, interface.link, data, max(size, stored))

    def _issue(self, detail: str) -> CaptureIssue:
        return CaptureIssue("file_corrupt", detail, self.number, self.ts)


class BlockReader:
    """Reads the blocks of all sections."""

    def __init__(self, reader: Reader, parser: BlockParser) -> None:
        """Read from the beginning of a block on, whose type is the magic number of `reader`.

        Args: parser: gets the byte order of each section. The caller passes the blocks to it.
        """
        self.reader = reader
        self.parser = parser

    def read_blocks(self, kinds: frozenset[int]) -> Iterator[tuple[int, bytes]]:
        """Yield kind and body of the blocks of these kinds; the others are skipped. `_NO_BLOCK` comes before a wait.

        Whatever the kinds are, the same damage ends the reading: that of a block which `read_packets` reads. Of other
        kinds, a block that is too long is skipped, and only the first of its two lengths is used.
        Raises: DamagedError.
        """
        head = self.reader.magic
        while head:
            is_section = head == MAGIC
            head += self._read_exactly(8 if is_section else 4)
            if is_section:
                self._begin_section(head)
            kind, size = struct.unpack_from(self.parser.order + "II", head)
            is_checked = kind in READ
            # The length includes the type, both copies of the length, and the padding to 32 bits.
            if not is_section and (size < 12 or size % 4 or (is_checked and size > BLOCK_SIZE_MAX)):
                raise DamagedError(
                    "file_corrupt", f"a block after packet {self.parser.number} states a length of {size}"
                )
            if self.reader.may_wait(size - len(head)):
                yield _NO_BLOCK, b""
            if kind in kinds and size <= BLOCK_SIZE_MAX:
                body = head[8:] + self._read_exactly(size - len(head))
                if is_checked:
                    self._check_end(head, body[-4:])
                yield kind, body[:-4]
            elif is_checked:
                self._skip_exactly(size - len(head) - 4, is_section=False)
                self._check_end(head, self._read_exactly(4))
            else:
                self._skip_exactly(size - len(head), is_section=is_section)
            if self.reader.may_wait(8):
                yield _NO_BLOCK, b""
            head = self.reader.read(4)

    def _check_end(self, head: bytes, end: bytes) -> None:
        if end != head[4:8]:
            raise DamagedError("file_corrupt", f"the two lengths of a block after packet {self.parser.number} differ")

    def _skip_exactly(self, size: int, *, is_section: bool) -> None:
        if not self.reader.skip(size):
            detail = "the file ends inside a section header" if is_section else CUT_BLOCK.format(self.parser.number)
            raise DamagedError("file_truncated", detail)

    def _begin_section(self, head: bytes) -> None:
        """Each section has a byte order of its own, and numbers its interfaces from 0."""
        self.parser.order = ">" if head[8:] == b"\x1a\x2b\x3c\x4d" else "<"
        self.parser.interfaces = []
        size, magic = struct.unpack_from(self.parser.order + "II", head, 4)
        if magic != 0x1A2B3C4D or size < 28:
            raise DamagedError("file_corrupt", "a section header has no byte-order mark")

    def _read_exactly(self, size: int) -> bytes:
        data = self.reader.read(size)
        if len(data) < size:
            raise DamagedError("file_truncated", CUT_BLOCK.format(self.parser.number))
        return data
