from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from kwire.capture.export.pcapng_writer import MSS, PcapngWriter, TcpConversation, checksum
from tests.support import needs


def written(tmp_path: Path, client: str, server: str) -> Path:
    buffer = io.BytesIO()
    writer = PcapngWriter(buffer, comment="as the broker saw it", interface="node 0")
    connection = TcpConversation((client, 40_000), (server, 9092), isn=(0xFFFF_FF00, 7))
    clock = 1_700_000_000_123_456_789
    packets = [
        *connection.open(),
        *connection.from_client(b"q" * 300),
        *connection.from_server(bytes(range(256)) * 600),
        *connection.from_client(b"odd"),
        *connection.close(),
    ]
    for number, packet in enumerate(packets):
        writer.write_packet(clock + number, packet, comment="first" if number == 0 else None)
    path = tmp_path / "written.pcapng"
    path.write_bytes(buffer.getvalue())
    return path


def test_the_checksum_is_that_of_rfc_1071() -> None:
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
    assert checksum(b"") == 0xFFFF
    assert checksum(b"\xff\xff") == 0


@pytest.mark.parametrize(("client", "server"), [("127.0.0.1", "127.0.0.2"), ("::1", "fe80::1")])
def test_tshark_finds_a_complete_conversation_with_correct_checksums(tmp_path: Path, client: str, server: str) -> None:
    tshark = needs.tool("tshark")
    path = written(tmp_path, client, server)

    command = [
        tshark, "-r", str(path), "-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE",
        "-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.len", "-e", "tcp.checksum.status",
        "-e", "_ws.expert.message",
    ]  # fmt: skip
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("\t") for line in lines]

    assert rows[0][0] == "1700000000.123456789"
    assert [int(row[1]) for row in rows] == [0, 0, 0, 300, MSS, MSS, 600 * 256 - 2 * MSS, 3, 0, 0, 0]
    assert {row[2] for row in rows} == {"1"}
    warnings = " ".join(row[3] for row in rows)
    for word in ("unseen", "out-of-order", "etransmission", "not captured", "Malformed"):
        assert word.lower() not in warnings.lower()


def test_addresses_of_different_families_are_refused() -> None:
    with pytest.raises(ValueError, match="different families"):
        TcpConversation(("127.0.0.1", 1), ("::1", 2))
