"""TCP flags as text."""

from __future__ import annotations

from kwire.capture.tcp.flags import format_flags


def test_flags_are_formatted_by_name() -> None:
    assert format_flags(0) == ""
    assert format_flags(0x12) == "SYN,ACK"
    assert format_flags(0xFF) == "FIN,SYN,RST,PSH,ACK,URG,ECE,CWR"
