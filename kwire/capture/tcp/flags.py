"""TCP control flags. Source: RFC 9293 section 3.1."""

from __future__ import annotations

FIN, SYN, RST, PSH, ACK = 0x01, 0x02, 0x04, 0x08, 0x10

FLAG_NAMES = ("FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR")
"""The names of the flags, the lowest bit first."""


def format_flags(flags: int) -> str:
    """Return the flags of a TCP header as text, as `SYN,ACK`."""
    return ",".join(name for bit, name in enumerate(FLAG_NAMES) if flags >> bit & 1)
