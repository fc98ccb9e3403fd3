"""TLS connections are decrypted if their secrets are known; otherwise a row has the reason."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import kwire
from kwire.capture.export.pcapng_writer import TcpConversation
from kwire.capture.model import Row
from kwire.capture.reader import read_rows
from kwire.capture.tls import ciphers, key_log
from kwire.capture.tls.key_log import KeyLog
from kwire.capture.tls.tls_direction import RecordKey
from kwire.errors import MissingExtra
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from tests.support.captures.capture_files import (
    CAPTURES,
    CapturedConnection,
    CapturedPacket,
    build_interface,
    build_packet_block,
    build_pcap,
    build_pcapng,
    build_secrets,
    build_section,
    collect_issue_kinds,
    read_capture_rows,
)
from tests.support.captures.tls_captures import TlsConnection, exchange_messages, record_tls_capture

pytestmark = pytest.mark.slow

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
REAL, REAL_KEYS = CAPTURES / "small_tlskey.pcap", CAPTURES / "small_tlskey.keys"


def names(rows: Iterable[Row]) -> list[str]:
    return [f"{row['api_name']} v{row['api_version']} {row['status']}" for row in rows if row["api_key"] is not None]


def details(rows: Iterable[Row]) -> str:
    return str([row["issues"] for row in rows])


EXPECTED = ["ApiVersions v3 ok"] + ["Metadata v12 ok"] * 4


def test_real_tls_traffic_of_a_client_is_decrypted() -> None:
    rows = kwire.read_capture(REAL, tls_keylog=REAL_KEYS).to_pylist()

    assert names(rows) == [
        "ApiVersions v4 ok",
        "Metadata v13 ok",
        "ApiVersions v4 ok",
        "InitProducerId v4 ok",
        "Metadata v13 ok",
        "Metadata v13 ok",
        "Produce v9 ok",
    ]
    assert {row["tls"] for row in rows} == {True}
    assert collect_issue_kinds(rows) == set()
    assert all(0 < row["latency_us"] < 100_000 for row in rows)
    records = kwire.read_capture(REAL, "records", tls_keylog=REAL_KEYS, payload=True).to_pylist()
    assert len(records) > 0
    assert all(row["value"] for row in records)


SUITES_12 = [
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "ecdsa"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "ecdsa"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdsa"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "rsa"),
    ("AES128-GCM-SHA256:@SECLEVEL=0", "rsa"),
    ("AES128-SHA:@SECLEVEL=0", "rsa"),
    ("AES256-SHA256:@SECLEVEL=0", "rsa"),
    ("ECDHE-RSA-AES128-SHA256:@SECLEVEL=0", "rsa"),
    ("ECDHE-RSA-AES256-SHA384:@SECLEVEL=0", "rsa"),
    ("ECDHE-ECDSA-AES256-SHA:@SECLEVEL=0", "ecdsa"),
    ("ECDHE-ECDSA-AES128-CCM", "ecdsa"),
    ("ECDHE-ECDSA-AES256-CCM8:@SECLEVEL=0", "ecdsa"),
    ("AES256-CCM:@SECLEVEL=0", "rsa"),
    ("AECDH-AES128-SHA:@SECLEVEL=0", "ecdsa"),
    ("AECDH-AES256-SHA:@SECLEVEL=0", "ecdsa"),
]


@pytest.mark.parametrize(("suite", "kind"), SUITES_12)
def test_tls_1_2_is_read(suite: str, kind: str) -> None:
    recording = record_tls_capture(TLS_12, suite, kind=kind)

    rows = recording.read_rows()
    assert names(rows) == EXPECTED
    assert {row["tls"] for row in rows} == {True}
    assert collect_issue_kinds(rows) == set()


def test_every_aes_suite_of_openssl_is_decrypted() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    ways = ("PSK", "SRP", "CAMELLIA", "ARIA", "CHACHA20")
    found = [each for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    found = [each for each in found if not any(way in each["name"] for way in ways)]

    assert len(found) > 40
    for each in found:
        suite = ciphers._SUITES_12[each["id"] & 0xFFFF]
        _, bits, mode = each["symmetric"].rsplit("-", 2)
        assert suite.key_size == int(bits) // 8
        assert suite.cipher.removesuffix("8") == mode
        assert suite.cipher.endswith("8") == each["name"].endswith("CCM8")
        assert suite.mac == (each["digest"] or "")
        assert suite.hash == ("sha384" if each["name"].endswith("SHA384") else "sha256")


def test_tls_1_3_is_read() -> None:
    assert names(record_tls_capture(TLS_13).read_rows()) == EXPECTED


@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303, 0x1304, 0x1305])
def test_each_tls_1_3_cipher_decrypts_its_records(suite: int) -> None:
    cipher = ciphers.tls13_cipher(suite, bytes(48 if suite == 0x1302 else 32))
    body = encrypt_record(cipher, 7, 23, b"content", bytes(3))
    head = struct.pack(">BHH", 23, 0x0303, len(body))

    assert cipher.decrypt_record(7, head, body) == (23, b"content")
    assert cipher.decrypt_record(8, head, body) is None


def encrypt_record(cipher: object, number: int, kind: int, content: bytes, padding: bytes = b"") -> bytes:
    """Encrypt the body of a TLS 1.3 record; kwire itself only decrypts."""
    aead, iv = cipher._aead, cipher._iv  # type: ignore[attr-defined]
    data = content + bytes([kind]) + padding
    size = len(data) + (8 if cipher.overhead == 14 else 16)  # type: ignore[attr-defined]
    sealed: bytes = aead.encrypt((iv ^ number).to_bytes(12, "big"), data, struct.pack(">BHH", 23, 0x0303, size))
    return sealed


class Continued:
    """Continues a real TLS 1.3 connection with records encrypted here, in ways that the TLS library does not offer."""

    def __init__(self, suite: int = 0x1302) -> None:
        self.connection = TlsConnection(TLS_13)
        exchange_messages(self.connection, 1)
        self.suite = suite
        (random_bytes,) = {line.split()[1] for line in self.connection.key_log.splitlines() if not line.startswith("#")}
        self.secret = KeyLog(self.connection.key_log).secrets_of(bytes.fromhex(random_bytes))[key_log.TRAFFIC_LABELS[0]]
        self.number = 1

    def send(self, kind: int, content: bytes, padding: bytes = b"") -> None:
        body = encrypt_record(ciphers.tls13_cipher(self.suite, self.secret), self.number, kind, content, padding)
        self.connection.capture.send_client_bytes(struct.pack(">BHH", 23, 0x0303, len(body)) + body)
        self.number += 1

    def ask(self, correlation_id: int, padding: bytes = b"") -> None:
        frame = encode_request(ApiVersionsRequest("me", "1"), 3, correlation_id, "me")
        self.send(23, struct.pack(">i", len(frame)) + frame, padding)

    def update(self) -> None:
        self.send(22, b"\x18\0\0\1\0")
        self.secret, self.number = ciphers.next_secret(self.suite, self.secret), 0

    def found(self, packets: list[CapturedPacket] | None = None) -> list[Row]:
        packets = packets or self.connection.capture.packets
        return read_capture_rows(build_pcap(packets), tls_keylog=self.connection.key_log)


def test_key_updates_and_padding_are_supported() -> None:
    connection = Continued()
    connection.ask(1)
    connection.update()
    connection.ask(2, padding=bytes(100))
    connection.update()
    connection.update()
    connection.ask(3)

    found = connection.found()
    assert [row["correlation_id"] for row in found] == [0, 1, 2, 3]
    assert collect_issue_kinds(found) == {"no_response"}


def test_a_lost_key_update_is_detected() -> None:
    connection = Continued()
    connection.ask(1)
    connection.update()
    connection.ask(2)
    connection.ask(3)
    # The packet before the last two is the update.
    packets = connection.connection.capture.packets
    found = connection.found(packets[:-3] + packets[-2:])

    assert [row["correlation_id"] for row in found] == [0, 1, 2, 3]
    assert collect_issue_kinds(found) == {"no_response"}
    found = connection.found(packets[:-4] + packets[-2:])
    assert [row["correlation_id"] for row in found if row["api_key"] is not None] == [0, 2, 3]
    assert "lost" in collect_issue_kinds(found)


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
@pytest.mark.parametrize("seed", range(6))
def test_decryption_continues_after_lost_packets(version: ssl.TLSVersion, seed: int) -> None:
    recording = record_tls_capture(version, count=30)
    whole = recording.read_rows()
    rng = random.Random(seed)
    first = len(record_tls_capture(version, count=1).packets)
    lost = set(rng.sample(range(first, len(recording.packets) - 4), 3))
    rows = recording.read_rows([each for index, each in enumerate(recording.packets) if index not in lost])

    good = [row for row in rows if row["status"] == "ok"]
    columns = ("correlation_id", "body_request", "body_response")
    known, found = ({tuple(row[name] for name in columns) for row in each} for each in (whole, good))
    assert found <= known
    assert len(good) >= 30 - 2 * len(lost)
    assert {"lost", "gap"} & collect_issue_kinds(rows)
    assert {row["status"] for row in rows} <= {"ok", "gap", "no_response", "no_request"}


def test_packets_out_of_order_are_reordered_before_decryption() -> None:
    recording = record_tls_capture(TLS_13, count=12)
    rng = random.Random(5)
    packets = sorted(each._replace(ts=each.ts + rng.randrange(3_000_000)) for each in recording.packets)

    assert sorted(names(recording.read_rows(packets))) == ["ApiVersions v3 ok"] + ["Metadata v12 ok"] * 11


def test_secrets_may_be_inside_a_pcapng_file_before_or_after_the_packets() -> None:
    recording = record_tls_capture(TLS_13)
    secrets = build_secrets(recording.key_log)
    packets = [build_packet_block(each.ts // 1000, each.data) for each in recording.packets]

    for blocks in ([secrets, *packets], [*packets[:8], secrets, *packets[8:]], [*packets, secrets]):
        rows = read_capture_rows(b"".join([build_section(), build_interface(), *blocks]))
        assert sorted(names(rows)) == EXPECTED
    assert names(read_capture_rows(build_pcapng(recording.packets))) == []


def test_a_connection_without_secrets_is_reported() -> None:
    recording, other = record_tls_capture(TLS_13), record_tls_capture(TLS_12)
    (row,) = other.read_rows(recording.packets)

    assert (row["status"], row["tls"], row["api_key"]) == ("undecodable", True, None)
    assert "no secrets are known for its client random" in details([row])
    size = sum(len(each.data) - 40 for each in recording.packets)
    assert f"; {size} bytes skipped" in details([row])
    (row,) = read_capture_rows(build_pcap(recording.packets))
    assert "the connection speaks TLS; its content cannot be read" in details([row])
    assert f"; {size} bytes skipped" in details([row])


def test_wrong_secrets_are_reported() -> None:
    for version in (TLS_12, TLS_13):
        recording = record_tls_capture(version)
        wrong = "\n".join(line[:-2] + ("00" if line[-2:] != "00" else "11") for line in recording.key_log.splitlines())
        (row,) = read_capture_rows(build_pcap(recording.packets), tls_keylog=wrong)
        assert "its records cannot be decrypted with the secrets that are known for it" in details([row])


def test_the_reason_for_failed_decryption_is_reported() -> None:
    recording, older = record_tls_capture(TLS_13), record_tls_capture(TLS_12)
    unanswered = recording.read_rows(recording.packets[:4])
    assert "no answer in TLS to its ClientHello was captured" in details(unanswered)
    assert "were not captured" in details(older.read_rows([*older.packets[:5], *older.packets[6:]]))
    version, old = b"\x00\x2b\x00\x02\x03\x04", b"\x00\x2b\x00\x02\x03\x02"
    packets = [each._replace(data=each.data.replace(version, old)) for each in recording.packets]
    assert "TLS 1.1 is not supported" in details(recording.read_rows(packets))


def test_a_handshake_without_data_is_reported() -> None:
    connection = TlsConnection(TLS_13)

    (row,) = read_capture_rows(build_pcap(connection.capture.packets), tls_keylog=connection.key_log)
    assert "it carries no data" in details([row])


def test_a_tls_client_on_a_plaintext_port_is_reported() -> None:
    recording = record_tls_capture(TLS_13)
    hello = next(each.data[40:] for each in recording.packets if len(each.data) > 100)
    (row,) = CapturedConnection().open().send_client_bytes(hello).close().read_rows()

    assert (row["status"], row["tls"]) == ("undecodable", True)
    assert "nothing answered in TLS, as where a TLS client speaks to a plaintext port" in details([row])


def test_a_plaintext_client_on_a_tls_port_is_reported() -> None:
    connection = CapturedConnection().open().send_requests(encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me"))
    rows = connection.send_server_bytes(b"\x15\x03\x03\x00\x02\x02\x46").close().read_rows()

    assert names(rows) == ["ApiVersions v3 no_response"]
    assert "tls" in collect_issue_kinds(rows)
    assert "the port speaks TLS, and the client does not" in details(rows)


def test_another_protocol_inside_tls_is_not_detected_as_kafka() -> None:
    connection = TlsConnection(TLS_13)
    connection.client.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.flush()

    assert read_capture_rows(build_pcap(connection.capture.packets), tls_keylog=connection.key_log) == []


def test_damaged_records_are_reported_and_the_others_decrypted() -> None:
    recording = record_tls_capture(TLS_13, count=12)
    rng = random.Random(3)
    first = len(record_tls_capture(TLS_13, count=1).packets)
    for _ in range(10):
        packets = list(recording.packets)
        index = rng.randrange(first, len(packets))
        packet = bytearray(packets[index].data)
        packet[rng.randrange(40, len(packet))] ^= 0xFF
        packets[index] = packets[index]._replace(data=bytes(packet))
        rows = recording.read_rows(packets)
        assert names(rows).count("Metadata v12 ok") >= 9
        assert {row["status"] for row in rows} <= {"ok", "gap", "no_response", "no_request", "undecodable"}
        assert collect_issue_kinds(rows) <= {"tls", "gap", "lost", "no_response"}


def test_the_search_for_a_record_has_a_limit() -> None:
    key = RecordKey(ciphers.tls13_cipher(0x1301, bytes(32)), bytes(32), is_traffic=True)
    connection = TlsConnection(TLS_13)
    exchange_messages(connection, 2)
    false_records = (b"\x17\x03\x03\x00\x40" + bytes(0x40)) * 20_000
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    assert key.cipher.overhead == 22
    assert conversation.open()
    connection.capture.send_client_bytes(false_records)

    rows = read_capture_rows(build_pcap(connection.capture.packets), tls_keylog=connection.key_log)
    assert names(rows)[:2] == EXPECTED[:2]


def test_a_key_log_has_lines_of_many_kinds() -> None:
    text = f"# comment\nCLIENT_RANDOM {'ab' * 32} {'cd' * 48}\r\nRSA 00 11\nEXPORTER_SECRET {'ab' * 32} {'ef' * 32}\nx"
    found = KeyLog(text)

    assert found.secrets_of(b"\xab" * 32) == {"CLIENT_RANDOM": b"\xcd" * 48}
    assert found.secrets_of(bytes(32)) == {}


def test_a_file_that_is_not_a_key_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no line of it is a TLS secret"):
        kwire.read_capture(REAL, tls_keylog=REAL)
    with pytest.raises(FileNotFoundError):
        kwire.read_capture(REAL, tls_keylog=tmp_path / "absent")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(MissingExtra, match=r"pip install .*\[tls\]"):
        read_capture_rows(REAL.read_bytes(), tls_keylog=REAL_KEYS.read_text())
    assert {row["status"] for row in read_rows(REAL)} == {"undecodable"}
