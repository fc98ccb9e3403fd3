"""``kwire about``: what captures hold and say of themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from kwire.cli.main import main
from tests.kwire.capture.test_blocks import named_interface, names_block, statistics
from tests.kwire.capture.wire import CAPTURES, Talk, block, enhanced, ip_packets, option, pcap, section

Capsys = pytest.CaptureFixture[str]


def told(capsys: Capsys, *paths: Path) -> tuple[int, list[str], str]:
    code = main(["about", *map(str, paths)])
    found = capsys.readouterr()
    return code, found.out.splitlines(), found.err


def test_a_capture_is_told_in_a_few_lines(capsys: Capsys) -> None:
    path = CAPTURES / "small_ck.pcap"

    assert told(capsys, path) == (
        0,
        [
            f"{path}: pcap",
            "  from 2026-11-21T08:37:23.700810Z to 2026-11-21T08:37:29.447214Z",
            "  10 TCP connections, 216 packets, 47250 bytes of payload",
            "  10 Kafka",
            "  broker 127.0.0.1 port 21092: 10 connections",
        ],
        "",
    )


def test_what_a_file_says_of_itself_comes_first_and_is_escaped(capsys: Capsys, tmp_path: Path) -> None:
    origin = option(1, b"a \x1b[2Jcomment") + option(2, b"a machine") + option(3, b"a system") + option(4, b"a program")
    body = b"".join(enhanced(each.ts // 1000, each.packet) for each in ip_packets())
    path = tmp_path / "a.pcapng"
    path.write_bytes(
        section(options=origin + bytes(4)) + named_interface() + names_block() + statistics(dropped=7) + body
    )

    code, lines, _ = told(capsys, path)
    assert code == 0
    assert lines[:8] == [
        f"{path}: pcapng",
        "  written by: a program",
        "  system: a system",
        "  hardware: a machine",
        "  comment: a \\x1b[2Jcomment",
        "  interface 0: eth0, the first card, raw, filter tcp port 9092",
        "  10.0.0.1: broker-1, kafka.example",
        "  ::1: here",
    ]
    assert lines[-1] == "  ! interface eth0: 7 of 100 packets were dropped while they were captured"


def test_an_address_of_many_names_is_told_with_the_first_of_them(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    names = b"".join(b"host-%d\0" % number for number in range(7))
    path.write_bytes(section() + block(4, option(1, bytes([10, 0, 0, 1]) + names)))

    assert "  10.0.0.1: host-0, host-1, host-2, host-3, host-4 and 2 more names" in told(capsys, path)[1]


def test_connections_are_told_by_kind(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    browsing = Talk(broker=("127.0.0.1", 80)).open().client_bytes(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n").wires
    path.write_bytes(pcap([*browsing, *Talk(broker=("127.0.0.1", 81)).open().wires]))

    _, lines, _ = told(capsys, path, CAPTURES / "small_tlskey.pcap")
    assert lines[2:5] == ["  2 TCP connections, 7 packets, 30 bytes of payload", "  1 not Kafka", "  1 no data"]
    assert lines[-1] == "  2 TLS (see --tls-keylog of kwire decode)"


def test_an_empty_capture_holds_nothing(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(pcap([]))

    assert told(capsys, path)[1] == [f"{path}: pcap", "  0 TCP connections, 0 packets, 0 bytes of payload"]


def test_what_is_no_capture_is_told_and_the_next_file_is_read(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello", encoding="utf-8")

    code, lines, error = told(capsys, path, CAPTURES / "small_ck.pcap")
    assert code == 1
    assert lines[0].endswith("small_ck.pcap: pcap")
    assert "neither pcap nor pcapng" in error
    assert told(capsys, Path("-"))[0] == 2
    assert told(capsys, tmp_path / "nothing")[0] == 2
