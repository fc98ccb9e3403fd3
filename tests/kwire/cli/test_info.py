"""``kwire info``: metadata and content of captures."""

from __future__ import annotations

from pathlib import Path

from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    build_block,
    build_named_interface,
    build_names_block,
    build_option,
    build_packet_block,
    build_pcap,
    build_section,
    build_statistics,
    read_ip_packets,
)
from tests.support.cli.commands import Capsys, Shown, run_kwire


def run_info(capsys: Capsys, *paths: Path) -> Shown:
    return run_kwire(capsys, "info", *paths)


def test_a_capture_is_summarized_in_a_few_lines(capsys: Capsys) -> None:
    path = CAPTURES / "small_ck.pcap"

    assert run_info(capsys, path) == (
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


def test_metadata_of_a_file_comes_first_and_is_escaped(capsys: Capsys, tmp_path: Path) -> None:
    texts = (b"a \x1b[2Jcomment", b"a machine", b"a system", b"a program")
    origin = b"".join(build_option(number, text) for number, text in enumerate(texts, 1))
    head = build_section(options=origin + bytes(4)) + build_named_interface() + build_names_block()
    body = b"".join(build_packet_block(each.ts // 1000, each.data) for each in read_ip_packets())
    path = tmp_path / "a.pcapng"
    path.write_bytes(head + build_statistics(dropped=7) + body)

    code, lines, _ = run_info(capsys, path)
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


def test_an_address_with_many_names_shows_the_first_ones(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "a.pcapng"
    names = b"".join(b"host-%d\0" % number for number in range(7))
    path.write_bytes(build_section() + build_block(4, build_option(1, bytes([10, 0, 0, 1]) + names)))

    assert "  10.0.0.1: host-0, host-1, host-2, host-3, host-4 and 2 more names" in run_info(capsys, path)[1]


def test_connections_are_counted_by_kind(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "mixed.pcap"
    browsing, silent = (CapturedConnection(broker=("127.0.0.1", port)).open() for port in (80, 81))
    browsing.send_client_bytes(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
    path.write_bytes(build_pcap([*browsing.packets, *silent.packets]))

    _, lines, _ = run_info(capsys, path, CAPTURES / "small_tlskey.pcap")
    assert lines[2:5] == ["  2 TCP connections, 7 packets, 30 bytes of payload", "  1 not Kafka", "  1 no data"]
    assert lines[-1] == "  2 TLS (see --tls-keylog of kwire decode)"


def test_an_empty_capture_has_zero_counts(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "empty.pcap"
    path.write_bytes(build_pcap([]))

    assert run_info(capsys, path)[1] == [f"{path}: pcap", "  0 TCP connections, 0 packets, 0 bytes of payload"]


def test_a_file_that_is_no_capture_is_reported_and_the_next_is_read(capsys: Capsys, tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("hello", encoding="utf-8")

    code, lines, error = run_info(capsys, path, CAPTURES / "small_ck.pcap")
    assert code == 1
    assert lines[0].endswith("small_ck.pcap: pcap")
    assert "neither pcap nor pcapng" in error
    assert run_info(capsys, Path("-"))[0] == 2
    assert run_info(capsys, tmp_path / "nothing")[0] == 2
