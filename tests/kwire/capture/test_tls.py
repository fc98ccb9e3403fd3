"""TLS connections are read where their secrets are known; where they are not, a row says why."""

from __future__ import annotations

import random
import ssl
import struct
from collections.abc import Iterable
from pathlib import Path

import pytest

import kwire
from kwire.capture import keylog, tls_ciphers
from kwire.capture.keylog import KeyLog
from kwire.capture.pcapng_write import TcpConversation
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.tls_side import Key
from kwire.errors import MissingExtra
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from tests.kwire.capture.tls_wire import Connection, kafka, recorded
from tests.kwire.capture.wire import CAPTURES, Talk, Wire, block, enhanced, interface, issue_kinds, pcap, read, section

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
REAL, REAL_KEYS = CAPTURES / "small_tlskey.pcap", CAPTURES / "small_tlskey.keys"


def names(found: Iterable[Row]) -> list[str]:
    return [f"{row['api_name']} v{row['api_version']} {row['status']}" for row in found if row["api_key"] is not None]


def details(found: Iterable[Row]) -> str:
    return str([row["issues"] for row in found])


EXPECTED = ["ApiVersions v3 ok"] + ["Metadata v12 ok"] * 4


def test_real_traffic_of_a_client_over_tls_is_what_the_client_asked() -> None:
    found = kwire.read_capture(REAL, tls_keylog=REAL_KEYS).to_pylist()

    assert names(found) == [
        "ApiVersions v4 ok",
        "Metadata v13 ok",
        "ApiVersions v4 ok",
        "InitProducerId v4 ok",
        "Metadata v13 ok",
        "Metadata v13 ok",
        "Produce v9 ok",
    ]
    assert {row["tls"] for row in found} == {True}
    assert issue_kinds(found) == set()
    assert all(0 < row["latency_us"] < 100_000 for row in found)
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
    made = recorded(TLS_12, suite, kind=kind)

    found = read(pcap(made.wires), tls_keylog=made.keys)
    assert names(found) == EXPECTED
    assert {row["tls"] for row in found} == {True}
    assert issue_kinds(found) == set()


def test_every_suite_with_aes_that_openssl_has_is_read_with_its_own_cipher() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.set_ciphers("ALL:@SECLEVEL=0")
    ways = ("PSK", "SRP", "CAMELLIA", "ARIA", "CHACHA20")
    found = [each for each in context.get_ciphers() if each["protocol"] != "TLSv1.3"]
    found = [each for each in found if not any(way in each["name"] for way in ways)]

    assert len(found) > 40
    for each in found:
        suite = tls_ciphers._SUITES_12[each["id"] & 0xFFFF]
        _, bits, mode = each["symmetric"].rsplit("-", 2)
        assert suite.key_size == int(bits) // 8
        assert suite.cipher.removesuffix("8") == mode
        assert suite.cipher.endswith("8") == each["name"].endswith("CCM8")
        assert suite.mac == (each["digest"] or "")
        assert suite.hash == ("sha384" if each["name"].endswith("SHA384") else "sha256")


def test_tls_1_3_is_read() -> None:
    made = recorded(TLS_13)

    assert names(read(pcap(made.wires), tls_keylog=made.keys)) == EXPECTED


@pytest.mark.parametrize("suite", [0x1301, 0x1302, 0x1303, 0x1304, 0x1305])
def test_each_cipher_of_tls_1_3_opens_what_it_closed(suite: int) -> None:
    cipher = tls_ciphers.of_secret(suite, bytes(48 if suite == 0x1302 else 32))
    body = seal(cipher, 7, 23, b"content", bytes(3))
    head = struct.pack(">BHH", 23, 0x0303, len(body))

    assert cipher.open(7, head, body) == (23, b"content")
    assert cipher.open(8, head, body) is None


def seal(cipher: object, number: int, kind: int, content: bytes, padding: bytes = b"") -> bytes:
    """The body of a TLS 1.3 record; kwire itself only opens."""
    aead, iv = cipher._aead, cipher._iv  # type: ignore[attr-defined]
    data = content + bytes([kind]) + padding
    size = len(data) + (8 if cipher.overhead == 14 else 16)  # type: ignore[attr-defined]
    sealed: bytes = aead.encrypt((iv ^ number).to_bytes(12, "big"), data, struct.pack(">BHH", 23, 0x0303, size))
    return sealed


class Continued:
    """Goes on with a real TLS 1.3 connection by sealing records here, as its own library would not do when asked."""

    def __init__(self, suite: int = 0x1302) -> None:
        self.connection = Connection(TLS_13)
        kafka(self.connection, 1)
        self.suite = suite
        (random_bytes,) = {line.split()[1] for line in self.connection.keys.splitlines() if not line.startswith("#")}
        self.secret = KeyLog(self.connection.keys).of(bytes.fromhex(random_bytes))[keylog.TRAFFIC[0]]
        self.number = 1

    def send(self, kind: int, content: bytes, padding: bytes = b"") -> None:
        body = seal(tls_ciphers.of_secret(self.suite, self.secret), self.number, kind, content, padding)
        self.connection.talk.client_bytes(struct.pack(">BHH", 23, 0x0303, len(body)) + body)
        self.number += 1

    def ask(self, correlation_id: int, padding: bytes = b"") -> None:
        frame = encode_request(ApiVersionsRequest("me", "1"), 3, correlation_id, "me")
        self.send(23, struct.pack(">i", len(frame)) + frame, padding)

    def update(self) -> None:
        self.send(22, b"\x18\0\0\1\0")
        self.secret, self.number = tls_ciphers.next_secret(self.suite, self.secret), 0

    def found(self, wires: list[Wire] | None = None) -> list[Row]:
        return read(pcap(wires or self.connection.talk.wires), tls_keylog=self.connection.keys)


def test_keys_that_are_updated_and_padding_are_followed() -> None:
    talk = Continued()
    talk.ask(1)
    talk.update()
    talk.ask(2, padding=bytes(100))
    talk.update()
    talk.update()
    talk.ask(3)

    found = talk.found()
    assert [row["correlation_id"] for row in found] == [0, 1, 2, 3]
    assert issue_kinds(found) == {"no_response"}


def test_a_lost_key_update_is_found_out() -> None:
    talk = Continued()
    talk.ask(1)
    talk.update()
    talk.ask(2)
    talk.ask(3)
    # The packet before the last two is the update.
    wires = talk.connection.talk.wires
    found = talk.found(wires[:-3] + wires[-2:])

    assert [row["correlation_id"] for row in found] == [0, 1, 2, 3]
    assert issue_kinds(found) == {"no_response"}
    found = talk.found(wires[:-4] + wires[-2:])
    assert [row["correlation_id"] for row in found if row["api_key"] is not None] == [0, 2, 3]
    assert "lost" in issue_kinds(found)


@pytest.mark.parametrize("version", [TLS_12, TLS_13])
@pytest.mark.parametrize("seed", range(6))
def test_after_lost_packets_reading_goes_on(version: ssl.TLSVersion, seed: int) -> None:
    made = recorded(version, count=30)
    whole = read(pcap(made.wires), tls_keylog=made.keys)
    chance = random.Random(seed)
    first = len(recorded(version, count=1).wires)
    lost = set(chance.sample(range(first, len(made.wires) - 4), 3))
    found = read(pcap([each for index, each in enumerate(made.wires) if index not in lost]), tls_keylog=made.keys)

    known = {(row["correlation_id"], row["body_request"], row["body_response"]) for row in whole}
    good = [row for row in found if row["status"] == "ok"]
    assert {(row["correlation_id"], row["body_request"], row["body_response"]) for row in good} <= known
    assert len(good) >= 30 - 2 * len(lost)
    assert {"lost", "gap"} & issue_kinds(found)
    assert {row["status"] for row in found} <= {"ok", "gap", "no_response", "no_request"}


def test_packets_out_of_order_are_put_in_order_first() -> None:
    made = recorded(TLS_13, count=12)
    chance = random.Random(5)
    wires = sorted(each._replace(ts=each.ts + chance.randrange(3_000_000)) for each in made.wires)

    found = read(pcap(wires), tls_keylog=made.keys)
    assert sorted(names(found)) == sorted(["ApiVersions v3 ok"] + ["Metadata v12 ok"] * 11)


def test_secrets_may_be_inside_a_pcapng_file_before_or_after_the_packets() -> None:
    made = recorded(TLS_13)
    keys = made.keys.encode()
    secrets = block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys)
    packets = [enhanced(each.ts // 1000, each.packet) for each in made.wires]

    for blocks in ([secrets, *packets], [*packets[:8], secrets, *packets[8:]], [*packets, secrets]):
        found = read(b"".join([section(), interface(), *blocks]))
        assert sorted(names(found)) == EXPECTED
    assert names(read(b"".join([section(), interface(), *packets]))) == []


def test_without_its_secrets_a_connection_is_a_row_that_says_so() -> None:
    made, other = recorded(TLS_13), recorded(TLS_12)
    (row,) = read(pcap(made.wires), tls_keylog=other.keys)

    assert (row["status"], row["tls"], row["api_key"]) == ("undecodable", True, None)
    assert "no secrets are known for its client random" in details([row])
    size = sum(len(each.packet) - 40 for each in made.wires)
    assert f"; {size} bytes passed over" in details([row])
    (row,) = read(pcap(made.wires))
    assert "the connection speaks TLS; its content cannot be read" in details([row])
    assert f"; {size} bytes passed over" in details([row])


def test_secrets_that_do_not_fit_are_told() -> None:
    for version in (TLS_12, TLS_13):
        made = recorded(version)
        wrong = "\n".join(line[:-2] + ("00" if line[-2:] != "00" else "11") for line in made.keys.splitlines())
        (row,) = read(pcap(made.wires), tls_keylog=wrong)
        assert "its records do not open with the secrets that are known for it" in details([row])


def test_what_cannot_be_opened_says_why() -> None:
    made = recorded(TLS_13)
    assert "no answer in TLS to its ClientHello was captured" in details(
        read(pcap(made.wires[:4]), tls_keylog=made.keys)
    )
    older = recorded(TLS_12)
    hole = [*older.wires[:5], *older.wires[6:]]
    assert "were not captured" in details(read(pcap(hole), tls_keylog=older.keys))
    old = [
        each._replace(packet=each.packet.replace(b"\x00\x2b\x00\x02\x03\x04", b"\x00\x2b\x00\x02\x03\x02"))
        for each in made.wires
    ]
    assert "TLS 1.1 is not read" in details(read(pcap(old), tls_keylog=made.keys))


def test_a_handshake_without_data_is_told() -> None:
    connection = Connection(TLS_13)

    (row,) = read(pcap(connection.talk.wires), tls_keylog=connection.keys)
    assert "it carries no data" in details([row])


def test_a_tls_client_on_a_plaintext_port_is_told_as_that() -> None:
    made = recorded(TLS_13)
    hello = next(each.packet[40:] for each in made.wires if len(each.packet) > 100)
    (row,) = Talk().open().client_bytes(hello).close().rows()

    assert (row["status"], row["tls"]) == ("undecodable", True)
    assert "nothing answered in TLS, as where a TLS client speaks to a plaintext port" in details([row])


def test_a_plaintext_client_on_a_tls_port_is_told_as_that() -> None:
    talk = Talk().open().asks(encode_request(ApiVersionsRequest("me", "1"), 3, 1, "me"))
    found = talk.server_bytes(b"\x15\x03\x03\x00\x02\x02\x46").close().rows()

    assert names(found) == ["ApiVersions v3 no_response"]
    assert "tls" in issue_kinds(found)
    assert "the port speaks TLS, and the client does not" in details(found)


def test_another_protocol_inside_tls_is_not_taken_for_kafka() -> None:
    connection = Connection(TLS_13)
    connection.client.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    connection.flush()

    assert read(pcap(connection.talk.wires), tls_keylog=connection.keys) == []


def test_damaged_records_are_told_and_the_others_are_read() -> None:
    made = recorded(TLS_13, count=12)
    chance = random.Random(3)
    first = len(recorded(TLS_13, count=1).wires)
    for _ in range(10):
        wires = list(made.wires)
        index = chance.randrange(first, len(wires))
        packet = bytearray(wires[index].packet)
        packet[chance.randrange(40, len(packet))] ^= 0xFF
        wires[index] = wires[index]._replace(packet=bytes(packet))
        found = read(pcap(wires), tls_keylog=made.keys)
        assert names(found).count("Metadata v12 ok") >= 9
        assert {row["status"] for row in found} <= {"ok", "gap", "no_response", "no_request", "undecodable"}
        assert issue_kinds(found) <= {"tls", "gap", "lost", "no_response"}


def test_a_record_that_is_found_by_trial_has_a_limit() -> None:
    key = Key(tls_ciphers.of_secret(0x1301, bytes(32)), bytes(32), is_traffic=True)
    connection = Connection(TLS_13)
    kafka(connection, 2)
    lies = (b"\x17\x03\x03\x00\x40" + bytes(0x40)) * 20_000
    conversation = TcpConversation(("127.0.0.1", 40_000), ("127.0.0.1", 9092))
    assert key.cipher.overhead == 22
    assert conversation.open()
    connection.talk.client_bytes(lies)

    found = read(pcap(connection.talk.wires), tls_keylog=connection.keys)
    assert names(found)[:2] == EXPECTED[:2]


def test_a_key_log_has_lines_of_many_kinds() -> None:
    text = f"# comment\nCLIENT_RANDOM {'ab' * 32} {'cd' * 48}\r\nRSA 00 11\nEXPORTER_SECRET {'ab' * 32} {'ef' * 32}\nx"
    found = KeyLog(text)

    assert found.of(b"\xab" * 32) == {"CLIENT_RANDOM": b"\xcd" * 48}
    assert found.of(bytes(32)) == {}


def test_a_file_that_is_no_key_log_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no line of it is a TLS secret"):
        kwire.read_capture(REAL, tls_keylog=REAL)
    with pytest.raises(FileNotFoundError):
        kwire.read_capture(REAL, tls_keylog=tmp_path / "absent")


def test_without_the_library_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives.ciphers.aead", None)

    with pytest.raises(MissingExtra, match=r"kwire\[tls\]"):
        read(REAL.read_bytes(), tls_keylog=REAL_KEYS.read_text())
    assert {row["status"] for row in rows(REAL)} == {"undecodable"}
