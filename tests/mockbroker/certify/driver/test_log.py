"""The log of a driver."""

from __future__ import annotations

from mockbroker.certify.driver.log import DriverLog


def test_what_a_driver_writes_cannot_act_on_a_terminal() -> None:
    log = DriverLog()
    log.append("first\r\n\x1b]0;title\x07\x1b[2J\x9b31m red\r\n\tat Main \u202e".encode())

    for text in (log.text(), log.last_lines()):
        assert text.replace("\n", "").isprintable()
        assert "\\x1b]0;title\\x07\\x1b[2J\\x9b31m red" in text
    assert log.text() == "first\n\\x1b]0;title\\x07\\x1b[2J\\x9b31m red\n    at Main \\u202e"
