"""Writer of pcapng files, and generator of the TCP packets of a connection that was recorded without packets.

Sources: draft-ietf-opsawg-pcapng (block and option layout), RFC 9293 (TCP header), RFC 791 and RFC 8200 (IP headers).
"""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING

from kwire.capture.tcp.flags import ACK, FIN, PSH, RST, SYN
from kwire.capture.tcp.sequence_numbers import SEQ_MASK

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

LINKTYPE_RAW = 101

# An IPv4 packet is at most 65,535 bytes: 20 for its header, 20 for TCP's.
MSS = 65_495

_OPT_COMMENT = 1
_SHB_USERAPPL = 4
_IF_NAME = 2
_IF_TSRESOL = 9
# The largest value of an option, since its length is a 16-bit field.
_OPTION_SIZE_MAX = 65_535

Address = tuple[str, int]


class PcapngWriter:
    """Writes one section; the clocks of its interfaces count nanoseconds.

    The writer does not flush: the caller decides when a reader can see the data.
    """

    def __init__(
        self,
        fileobj: BinaryIO,
        *,
        link: int = LINKTYPE_RAW,
        application: str = "kwire",
        comment: str | None = None,
        interface: str | None = None,
    ) -> None:
        """Write the section header, with a comment if there is one, and the interface."""
        self._file = fileobj
        options = _encode_option(_OPT_COMMENT, comment) + _encode_option(_SHB_USERAPPL, application)
        # Section length -1: not known while writing.
        self._write_block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + _finish_options(options))
        self._interfaces = 0
        self.add_interface(link, interface)

    def add_interface(self, link: int, name: str | None = None) -> int:
        """Add an interface with this link type; return its number for `write_packet`."""
        options = _encode_option(_IF_NAME, name) + struct.pack("<HHB3x", _IF_TSRESOL, 1, 9)
        self._write_block(0x00000001, struct.pack("<HHI", link, 0, 0) + _finish_options(options))
        self._interfaces += 1
        return self._interfaces - 1

    def write_packet(
        self, ts_ns: int, packet: bytes, comment: str | None = None, *, interface: int = 0, size: int | None = None
    ) -> None:
        """Append one packet with its time in nanoseconds since 1970.

        Args: size: its length on the wire, if the capture has only the beginning of it.
        """
        sizes = len(packet), len(packet) if size is None else size
        head = struct.pack("<IIIII", interface, ts_ns >> 32 & 0xFFFFFFFF, ts_ns & 0xFFFFFFFF, *sizes)
        options = _finish_options(_encode_option(_OPT_COMMENT, comment))
        self._write_block(0x00000006, head + packet + bytes(-len(packet) % 4) + options)

    def _write_block(self, kind: int, body: bytes) -> None:
        size = 12 + len(body)
        self._file.write(struct.pack("<II", kind, size) + body + struct.pack("<I", size))


class TcpConversation:
    """Generates the packets of one TCP connection, as a network without loss would have carried its bytes.

    Every method returns IP packets in sending order, ready for `PcapngWriter.write_packet`. Data is acknowledged by
    the next packet of the other side, so an idle receiver sends no packet.
    """

    def __init__(self, client: Address, server: Address, *, isn: tuple[int, int] = (1_000, 5_000)) -> None:
        """Addresses of one family, `(ip, port)`; `isn` are the first sequence numbers of client and server."""
        self._ends = (_pack_endpoint(client), _pack_endpoint(server))
        if len(self._ends[0][0]) != len(self._ends[1][0]):
            raise ValueError(f"{client[0]} and {server[0]} are addresses of different families")
        self._next = list(isn)
        self._ident = 0

    def open(self) -> list[bytes]:
        """SYN, SYN-ACK, ACK."""
        return [self._build_packet(0, SYN), self._build_packet(1, SYN | ACK), self._build_packet(0, ACK)]

    def from_client(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Segments that carry `data` to the server."""
        return self._send_data(0, data)

    def from_server(self, data: bytes | memoryview) -> Iterator[bytes]:
        """Segments that carry `data` to the client."""
        return self._send_data(1, data)

    def acknowledge(self, *, by_client: bool = True) -> bytes:
        """ACK without data, of all bytes of the other side."""
        return self._build_packet(0 if by_client else 1, ACK)

    def close(self, *, by_client: bool = True) -> list[bytes]:
        """FIN, FIN-ACK, ACK; `by_client` selects the first sender."""
        first = 0 if by_client else 1
        order = (first, FIN | ACK), (1 - first, FIN | ACK), (first, ACK)
        return [self._build_packet(side, flags) for side, flags in order]

    def reset(self, *, by_client: bool = True) -> list[bytes]:
        """RST."""
        return [self._build_packet(0 if by_client else 1, RST | ACK)]

    def _send_data(self, side: int, data: bytes | memoryview) -> Iterator[bytes]:
        view = memoryview(data)
        for start in range(0, len(view), MSS):
            last = start + MSS >= len(view)
            yield self._build_packet(side, ACK | PSH if last else ACK, view[start : start + MSS])

    def _build_packet(self, side: int, flags: int, payload: bytes | memoryview = b"") -> bytes:
        (source, source_port), (target, target_port) = self._ends[side], self._ends[1 - side]
        seq = self._next[side]
        ack = self._next[1 - side] if flags & ACK else 0
        head = struct.pack(">HHIIBBHHH", source_port, target_port, seq, ack, 5 << 4, flags, 65_535, 0, 0)
        size = len(head) + len(payload)
        # SYN and FIN each take one sequence number.
        self._next[side] = (self._next[side] + len(payload) + bool(flags & (SYN | FIN))) & SEQ_MASK
        tail = struct.pack(">HxB", size, 6) if len(source) == 4 else struct.pack(">I3xB", size, 6)
        check = checksum(b"".join((source, target, tail, head, payload)))
        segment = b"".join((head[:16], struct.pack(">H", check), head[18:], payload))
        return self._build_ip_header(source, target, size) + segment

    def _build_ip_header(self, source: bytes, target: bytes, size: int) -> bytes:
        if len(source) == 16:
            return struct.pack(">IHBB", 6 << 28, size, 6, 64) + source + target
        self._ident = (self._ident + 1) & 0xFFFF
        # "Don't fragment" is set, as operating systems do for TCP.
        head = struct.pack(">BBHHHBBH", 0x45, 0, 20 + size, self._ident, 0x4000, 64, 6, 0) + source + target
        return head[:10] + struct.pack(">H", checksum(head)) + head[12:]


def checksum(data: bytes) -> int:
    """Return the Internet checksum (RFC 1071): the complement of the one's complement sum of 16-bit words.

    That sum is the data as a number modulo 65,535; one big integer division is much faster than a loop.
    """
    value = int.from_bytes(data + bytes(len(data) % 2), "big")
    total = value % 0xFFFF
    return 0xFFFF - (total or (0xFFFF if value else 0))


def _pack_endpoint(address: Address) -> tuple[bytes, int]:
    host, port = address
    return ipaddress.ip_address(host).packed, port


def _encode_option(code: int, text: str | None) -> bytes:
    if not text:
        return b""
    value = text.encode("utf-8", "replace")[:_OPTION_SIZE_MAX]
    return struct.pack("<HH", code, len(value)) + value + bytes(-len(value) % 4)


def _finish_options(options: bytes) -> bytes:
    """Add the end-of-options option; a block without options has none."""
    return options + bytes(4) if options else b""
