"""TLS without a complete captured handshake: decrypted with a matching known secret, else reported."""

from __future__ import annotations

import random
import ssl
import struct

import pytest

from kwire.capture.kafka.heuristics import holds_tls
from kwire.capture.model import Row
from kwire.capture.tls import ciphers, midstream_search
from kwire.capture.tls.key_log import TRAFFIC_LABELS, KeyLog
from kwire.headers import encode_request
from kwire.messages.metadata import MetadataRequest
from tests.support.captures.capture_files import (
    CapturedConnection,
    CapturedPacket,
    build_pcap,
    build_pcapng,
    build_secrets,
    read_capture_rows,
)
from tests.support.captures.tls_captures import record_tls_capture

pytestmark = pytest.mark.slow

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
# Packets of a handshake: three of TCP, then ClientHello, the server's messages, Finished, tickets.
HANDSHAKE = 7


def details(rows: list[Row]) -> str:
    return str([row["issues"] for row in rows])


def complete_ids(rows: list[Row]) -> list[object]:
    return [row["correlation_id"] for row in rows if row["status"] == "ok"]


def is_request(packet: CapturedPacket) -> bool:
    """Whether the packet is sent to the broker."""
    return packet.data[22:24] == struct.pack(">H", 9092)


def resegment(packets: list[CapturedPacket], size: int) -> list[CapturedPacket]:
    """Split the payload of a connection into packets of `size` bytes, independent of records."""
    connection = CapturedConnection()
    for packet in packets:
        payload = packet.data[40:]
        send_bytes = connection.send_client_bytes if is_request(packet) else connection.send_server_bytes
        for at in range(0, len(payload), size):
            send_bytes(payload[at : at + size])
    return connection.packets


@pytest.mark.parametrize("start", range(HANDSHAKE, HANDSHAKE + 5))
def test_a_capture_that_begins_after_the_handshake_is_decrypted(start: int) -> None:
    recording = record_tls_capture(TLS_13, count=8)

    rows = recording.read_rows(recording.packets[start:])
    first = max((start - HANDSHAKE + 1) // 2, 0)
    assert complete_ids(rows) == list(range(first, 8))
    assert {row["tls"] for row in rows} == {True}
    assert {row["client_port"] for row in rows} == {40_000}


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_capture_that_begins_inside_a_record_is_decrypted_from_the_next_record(cut: int) -> None:
    recording = record_tls_capture(TLS_13, count=8)
    pieces = resegment(recording.packets[HANDSHAKE:], 1400)
    first = pieces[0].data
    # The beginning of the first packet is removed.
    inside = first[:2] + struct.pack(">H", len(first) - cut) + first[4:24]
    inside += struct.pack(">I", struct.unpack(">I", first[24:28])[0] + cut) + first[28:40] + first[40 + cut :]

    rows = recording.read_rows([CapturedPacket(pieces[0].ts, inside), *pieces[1:]])
    assert complete_ids(rows) == list(range(1, 8))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_packets_may_end_inside_a_record_header(size: int) -> None:
    recording = record_tls_capture(TLS_13, count=2)

    assert complete_ids(recording.read_rows(resegment(recording.packets[HANDSHAKE:], size))) == [0, 1]


@pytest.mark.parametrize("lost", [3, 4, 5, 6])
def test_a_handshake_with_a_lost_packet_is_decrypted(lost: int) -> None:
    recording, other = record_tls_capture(TLS_13, count=8), record_tls_capture(TLS_13, count=1)

    # The rest of the handshake is first tried with all secrets, without success.
    packets = [*recording.packets[:lost], *recording.packets[lost + 1 :]]
    rows = recording.read_rows(packets, more_keys=other.key_log)
    assert complete_ids(rows)[-6:] == list(range(2, 8))


@pytest.mark.parametrize(("suite", "number"), [(0x1301, 0), (0x1301, 70_000), (0x1302, 3_000_000), (0x1303, 1_500)])
def test_the_number_of_the_first_record_is_found(suite: int, number: int) -> None:
    secret = bytes(range(48 if suite == 0x1302 else 32))
    keys = f"{TRAFFIC_LABELS[0]} {'11' * 32} {secret.hex()}\n{TRAFFIC_LABELS[1]} {'11' * 32} {secret[::-1].hex()}\n"
    frame = encode_request(MetadataRequest(topics=None), 12, 5, "me")
    connection = CapturedConnection()
    for each in (number, number + 1):
        connection.send_client_bytes(encrypt_record(suite, secret, each, struct.pack(">i", len(frame)) + frame))

    rows = read_capture_rows(build_pcap(connection.packets), tls_keylog=keys)
    assert [(row["api_name"], row["correlation_id"]) for row in rows] == [("Metadata", 5)] * 2


def encrypt_record(suite: int, secret: bytes, number: int, content: bytes) -> bytes:
    cipher = ciphers.tls13_cipher(suite, secret)
    head = struct.pack(">BHH", 23, 0x0303, len(content) + 17)
    nonce = (cipher._iv ^ number).to_bytes(12, "big")  # type: ignore[attr-defined]
    return head + bytes(cipher._aead.encrypt(nonce, content + b"\x17", head))  # type: ignore[attr-defined]


def random_secrets(rng: random.Random) -> str:
    """The key log lines of a connection with random secrets."""
    name = rng.randbytes(32).hex()
    return "".join(f"{label} {name} {rng.randbytes(48).hex()}\n" for label in TRAFFIC_LABELS)


def test_the_right_secret_is_found_among_many() -> None:
    recording = record_tls_capture(TLS_13, count=8)
    rng = random.Random(1)
    others = "".join(random_secrets(rng) for _ in range(50))

    keys = others + recording.key_log + others
    rows = read_capture_rows(build_pcap(recording.packets[HANDSHAKE:]), tls_keylog=keys)
    assert complete_ids(rows) == list(range(8))


def test_tries_are_limited_for_a_connection_and_for_a_capture() -> None:
    rng = random.Random(1)
    keys = KeyLog("".join(random_secrets(rng) for _ in range(1000)))
    keys.chunks_left = 40
    search = midstream_search.MidstreamSearch(keys)

    assert search.find_secret(b"\x17\x03\x03\0\x20", bytes(32)) is None
    assert keys.chunks_left == 0
    assert search.failure_reason.endswith("no known secret decrypts its records")
    keys.chunks_left = 10_000
    midstream_search.MidstreamSearch(keys).find_secret(b"\x17\x03\x03\0\x20", bytes(32))
    assert keys.chunks_left == 10_000 - 2 * 1000 * (midstream_search.CONNECTION_CHUNKS_MAX // 4000)


def test_secrets_of_connections_with_a_handshake_are_not_tried() -> None:
    recording = record_tls_capture(TLS_13, count=2)
    keys = KeyLog(recording.key_log)
    (name,) = keys.client_randoms()
    keys.mark_used(name)
    keys.mark_used(bytes(32))
    search = midstream_search.MidstreamSearch(keys)

    assert keys.used_randoms == {name}
    assert search.find_secret(b"\x17\x03\x03\0\x20", bytes(32)) is None
    assert search.failure_reason.endswith("no TLS 1.3 secret for it is known")


def test_tls_1_2_without_its_handshake_is_reported() -> None:
    recording = record_tls_capture(TLS_12, count=8)

    (row,) = recording.read_rows(recording.packets[HANDSHAKE + 2 :])
    assert "the capture began after its handshake, and no TLS 1.3 secret for it is known" in details([row])
    size = sum(len(each.data) - 40 for each in recording.packets[HANDSHAKE + 2 :])
    assert f"; {size} bytes skipped" in details([row])


def test_secrets_after_the_packets_decrypt_the_buffered_data() -> None:
    recording = record_tls_capture(TLS_13, count=3)
    capture = build_pcapng(recording.packets[HANDSHAKE:])

    assert complete_ids(read_capture_rows(capture + build_secrets(recording.key_log))) == [0, 1, 2]
    (row,) = read_capture_rows(capture)
    assert "the capture began after its handshake, and no TLS 1.3 secret for it is known" in details([row])


def test_tls_is_detected_where_no_record_begins_with_a_packet() -> None:
    recording = record_tls_capture(TLS_13, count=30)
    answers = [each for each in recording.packets[HANDSHAKE:] if not is_request(each)]
    pieces = resegment([each for each in answers if len(each.data) > 20_000], 700)[1:]

    (row,) = read_capture_rows(build_pcap(pieces))
    assert row["tls"]
    assert "the connection speaks TLS; its content cannot be read" in details([row])


def test_one_direction_is_enough() -> None:
    recording = record_tls_capture(TLS_13, count=8)
    requests = [each for each in recording.packets if is_request(each)]
    answers = [each for each in recording.packets if not is_request(each)]

    for start in (0, 5):
        rows = recording.read_rows(requests[start:])
        assert [row["status"] for row in rows[-6:]] == ["no_response"] * 6
    rows = read_capture_rows(build_pcap(answers[6:]), tls_keylog=recording.key_log, ports=frozenset({9092}))
    assert [row["status"] for row in rows[-4:]] == ["no_request"] * 4


def test_noise_is_not_detected_as_tls() -> None:
    noise = random.Random(3).randbytes(1 << 20)

    assert not holds_tls(noise)
    assert not holds_tls(b"\x17\x03\x03\0\0" * 2)
    assert holds_tls(noise[:999] + b"\x17\x03\x03\0\x05hello" * 3)
    assert midstream_search.find_record(noise) is None
    assert midstream_search.find_record(b"\x17\x03\x03\0\x05hell") is None
    assert midstream_search.find_record(b"x\x17\x03\x03\0\x05hello\x17\x03\x03") == (1, 11)
