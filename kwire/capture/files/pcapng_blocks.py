"""Parsers of pcapng blocks without packets: interfaces, statistics and names. Source: draft-ietf-opsawg-pcapng."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kwire.capture.model import CaptureIssue

_OPT_END, OPT_COMMENT = 0, 1
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL, _IF_FILTER, _IF_TSOFFSET = 2, 3, 9, 11, 14
_ISB_RECEIVED, _ISB_DROPPED = 4, 5
_NRB_END, _NRB_IPV4, _NRB_IPV6 = 0, 1, 2
# A clock may be set to any time; rows hold at most 64 bits of nanoseconds (the year 2262).
_TS_MAX = 2**63 - 1


class Interface(NamedTuple):
    """An interface. `per_second` units of its clock are one second; `offset` is added, in nanoseconds."""

    link: int
    snaplen: int
    per_second: int
    offset: int
    name: str = ""
    description: str = ""
    filter: str = ""

    def to_nanoseconds(self, high: int, low: int) -> int:
        """Convert a time from the unit of the interface."""
        ts = (high << 32 | low) * 1_000_000_000 // self.per_second + self.offset
        return min(max(ts, 0), _TS_MAX)


def read_options(body: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    """Yield code and value of the options that begin at `at`; an incomplete option ends them."""
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == _OPT_END:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


def parse_interface(body: bytes, order: str) -> Interface:
    """Parse an interface description. Raises: struct.error if it is too short."""
    link, snaplen = struct.unpack_from(order + "H2xI", body)
    per_second, offset = 1_000_000, 0
    texts = {_IF_NAME: "", _IF_DESCRIPTION: "", _IF_FILTER: ""}
    for code, value in read_options(body, 8, order):
        if code == _IF_TSRESOL and len(value) == 1:
            # The top bit selects powers of two, else of ten.
            exponent = value[0] & 0x7F
            per_second = 2**exponent if value[0] & 0x80 else 10**exponent
        elif code == _IF_TSOFFSET and len(value) == 8:
            offset = struct.unpack(order + "q", value)[0] * 1_000_000_000
        elif code == _IF_FILTER:
            # The first byte is the type of the filter; only type 0 is text.
            texts[code] = decode_text(value[1:]) if value[:1] == b"\0" else ""
        elif code in texts:
            texts[code] = decode_text(value)
    return Interface(link, snaplen, per_second, offset, texts[_IF_NAME], texts[_IF_DESCRIPTION], texts[_IF_FILTER])


def parse_dropped_packets(body: bytes, order: str, interfaces: Sequence[Interface]) -> CaptureIssue | None:
    """Parse the dropped packets in interface statistics; None if there are none.

    Raises: struct.error if the block is too short.
    """
    index, high, low = struct.unpack_from(order + "III", body)
    counters = {code: value for code, value in read_options(body, 12, order) if len(value) == 8}
    count = struct.unpack(order + "Q", counters.get(_ISB_DROPPED, bytes(8)))[0]
    if not count:
        return None
    is_known = index < len(interfaces)
    name, ts = (interfaces[index].name, interfaces[index].to_nanoseconds(high, low)) if is_known else ("", 0)
    where = f"interface {name or index}"
    received = struct.unpack(order + "Q", counters.get(_ISB_RECEIVED, bytes(8)))[0]
    of_all = f" of {received}" if received >= count else ""
    return CaptureIssue("dropped", f"{where}: {count}{of_all} packets were dropped while they were captured", 0, ts)


def parse_names(body: bytes, order: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the addresses of a name resolution block, each with its names."""
    at = 0
    while at + 4 <= len(body):
        kind, size = struct.unpack_from(order + "HH", body, at)
        if kind == _NRB_END:
            return
        value = body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
        width = {_NRB_IPV4: 4, _NRB_IPV6: 16}.get(kind, 0)
        if width and len(value) > width:
            names = [decode_text(name) for name in value[width:].split(b"\0") if name]
            if names:
                yield str(ipaddress.ip_address(value[:width])), names


def decode_text(value: bytes) -> str:
    """Decode the text of an option; invalid UTF-8 is replaced."""
    return value.split(b"\0")[0].decode("utf-8", "replace")
