"""The progress line, and formats of sizes and durations."""

from __future__ import annotations

import pytest

from kwire.cli.progress import Progress, format_duration, format_size
from tests.support.cli.commands import TerminalStream


def test_progress_is_one_line_that_is_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    now, screen = [0.0], TerminalStream()
    progress = Progress("trace.pcap", 4_000_000, screen, clock=lambda: now[0])
    progress.update(10)
    assert screen.getvalue() == ""

    now[0] = 2.0
    progress.update(1_000_000)
    assert screen.getvalue() == "\r\x1b[K█████░░░░░░░░░░░░░░░  25%  1.0 MB of 4.0 MB  500 kB/s  6 s left  trace.pcap"
    progress.update(1_000_001)
    assert screen.getvalue().count("\r") == 1
    progress.hide()
    progress.hide()
    assert screen.getvalue().endswith("\r\x1b[K")
    assert screen.getvalue().count("\r") == 2


def test_sizes_and_durations_are_formatted_with_units() -> None:
    sizes = {0: "0 B", 999: "999 B", 1_500: "1.5 kB", 123_456: "123 kB", 7 * 10**9: "7.0 GB"}
    assert {size: format_size(size) for size in sizes} == sizes
    assert [format_duration(each) for each in (0, 59.4, 61, 3_725)] == ["0 s", "59 s", "1:01 min", "1:02 h"]


def test_the_progress_of_compressed_input_shows_what_was_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    now, screen = [0.0], TerminalStream()
    progress = Progress("trace.pcap.zst", 131_000, screen, clock=lambda: now[0])
    progress.update(131_000)
    now[0] = 2.0
    progress.update_unpacked(30_000_000)

    assert screen.getvalue().endswith("131 kB of 131 kB  65.5 kB/s  30.0 MB unpacked  trace.pcap.zst")
