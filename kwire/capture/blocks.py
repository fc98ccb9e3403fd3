"""What blocks of pcapng say beside packets: interfaces, statistics and names. Source: draft-ietf-opsawg-pcapng."""

from __future__ import annotations

import ipaddress
import struct
from typing import TYPE_CHECKING, NamedTuple

from kwire.capture.values import Trouble

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_OPT_END, OPT_COMMENT = 0, 1
_IF_NAME, _IF_DESCRIPTION, _IF_TSRESOL, _IF_FILTER, _IF_TSOFFSET = 2, 3, 9, 11, 14
_ISB_RECEIVED, _ISB_DROPPED = 4, 5
_NRB_END, _NRB_IPV4, _NRB_IPV6 = 0, 1, 2
# A clock may be set to any time; beyond 64 bits (the year 2262) no reader of rows could follow.
_TS_MAX = 2**63 - 1


class Interface(NamedTuple):
    """`per_second` units of its clock make a second; `offset` is added, in nanoseconds."""

    link: int
    snaplen: int
    per_second: int
    offset: int
    name: str = ""
    description: str = ""
    filter: str = ""

    def ns(self, high: int, low: int) -> int:
        """A time in the interface's own unit as nanoseconds."""
        ts = (high << 32 | low) * 1_000_000_000 // self.per_second + self.offset
        return min(max(ts, 0), _TS_MAX)


def options(body: bytes, at: int, order: str) -> Iterator[tuple[int, bytes]]:
    """Code and value of the options that begin at `at`; what is cut off ends them."""
    while at + 4 <= len(body):
        code, size = struct.unpack_from(order + "HH", body, at)
        if code == _OPT_END:
            return
        yield code, body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4


def interface(body: bytes, order: str) -> Interface:
    """An interface description. Raises: struct.error when it is too short."""
    link, snaplen = struct.unpack_from(order + "H2xI", body)
    per_second, offset = 1_000_000, 0
    texts = {_IF_NAME: "", _IF_DESCRIPTION: "", _IF_FILTER: ""}
    for code, value in options(body, 8, order):
        if code == _IF_TSRESOL and len(value) == 1:
            # The top bit chooses powers of two, else of ten.
            exponent = value[0] & 0x7F
            per_second = 2**exponent if value[0] & 0x80 else 10**exponent
        elif code == _IF_TSOFFSET and len(value) == 8:
            offset = struct.unpack(order + "q", value)[0] * 1_000_000_000
        elif code == _IF_FILTER:
            # The first byte tells the filter's language, of which only the first is text.
            texts[code] = text(value[1:]) if value[:1] == b"\0" else ""
        elif code in texts:
            texts[code] = text(value)
    return Interface(link, snaplen, per_second, offset, texts[_IF_NAME], texts[_IF_DESCRIPTION], texts[_IF_FILTER])


def dropped(body: bytes, order: str, interfaces: Sequence[Interface]) -> Trouble | None:
    """What interface statistics say of packets that were not captured; None when they know of none.

    Raises: struct.error when the block is too short.
    """
    index, high, low = struct.unpack_from(order + "III", body)
    found = {code: value for code, value in options(body, 12, order) if len(value) == 8}
    count = struct.unpack(order + "Q", found.get(_ISB_DROPPED, bytes(8)))[0]
    if not count:
        return None
    name, ts = (interfaces[index].name, interfaces[index].ns(high, low)) if index < len(interfaces) else ("", 0)
    where = f"interface {name or index}"
    received = struct.unpack(order + "Q", found.get(_ISB_RECEIVED, bytes(8)))[0]
    of_all = f" of {received}" if received >= count else ""
    return Trouble("dropped", f"{where}: {count}{of_all} packets were dropped while they were captured", 0, ts)


def names(body: bytes, order: str) -> Iterator[tuple[str, list[str]]]:
    """Addresses and their names from a name resolution block."""
    at = 0
    while at + 4 <= len(body):
        kind, size = struct.unpack_from(order + "HH", body, at)
        if kind == _NRB_END:
            return
        value = body[at + 4 : at + 4 + size]
        at += 4 + size + -size % 4
        width = {_NRB_IPV4: 4, _NRB_IPV6: 16}.get(kind, 0)
        if width and len(value) > width:
            found = [text(each) for each in value[width:].split(b"\0") if each]
            if found:
                yield str(ipaddress.ip_address(value[:width])), found


def text(value: bytes) -> str:
    """An option's text; what is no UTF-8 is replaced."""
    return value.split(b"\0")[0].decode("utf-8", "replace")
