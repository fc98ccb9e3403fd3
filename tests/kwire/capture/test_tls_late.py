"""TLS whose handshake was not captured, or not all of it: opened where a known secret fits, else named."""

from __future__ import annotations

import random
import ssl
import struct

import pytest

from kwire.capture import tls_ciphers, tls_late
from kwire.capture.keylog import TRAFFIC, KeyLog
from kwire.capture.looking import holds_tls
from kwire.capture.rows import Row
from kwire.headers import encode_request
from kwire.messages.metadata import MetadataRequest
from tests.kwire.capture.tls_wire import recorded
from tests.kwire.capture.wire import Talk, Wire, block, enhanced, interface, pcap, read, section

TLS_12, TLS_13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
# Packets of a handshake: three of TCP, then ClientHello, what the server says, Finished, tickets.
HANDSHAKE = 7


def details(rows: list[Row]) -> str:
    return str([row["issues"] for row in rows])


def answered(rows: list[Row]) -> list[object]:
    return [row["correlation_id"] for row in rows if row["status"] == "ok"]


def in_pieces(wires: list[Wire], size: int) -> list[Wire]:
    """The payload of a connection in packets of so many bytes, which are no records."""
    talk = Talk()
    for wire in wires:
        payload = wire.packet[40:]
        sends = talk.client_bytes if wire.packet[22:24] == struct.pack(">H", 9092) else talk.server_bytes
        for at in range(0, len(payload), size):
            sends(payload[at : at + size])
    return talk.wires


@pytest.mark.parametrize("start", range(HANDSHAKE, HANDSHAKE + 5))
def test_a_capture_that_begins_anywhere_behind_the_handshake_is_read_from_there(start: int) -> None:
    made = recorded(TLS_13, count=8)

    found = read(pcap(made.wires[start:]), tls_keylog=made.keys)
    first = max((start - HANDSHAKE + 1) // 2, 0)
    assert answered(found) == list(range(first, 8))
    assert {row["tls"] for row in found} == {True}
    assert {row["client_port"] for row in found} == {40_000}


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_capture_that_begins_inside_a_record_is_read_from_the_next(cut: int) -> None:
    made = recorded(TLS_13, count=8)
    pieces = in_pieces(made.wires[HANDSHAKE:], 1400)
    first = pieces[0].packet
    # The beginning of the first packet is gone.
    inside = first[:2] + struct.pack(">H", len(first) - cut) + first[4:24]
    inside += struct.pack(">I", struct.unpack(">I", first[24:28])[0] + cut) + first[28:40] + first[40 + cut :]

    found = read(pcap([Wire(pieces[0].ts, inside), *pieces[1:]]), tls_keylog=made.keys)
    assert answered(found) == list(range(1, 8))


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_packets_may_end_anywhere_inside_the_head_of_a_record(size: int) -> None:
    made = recorded(TLS_13, count=2)

    found = read(pcap(in_pieces(made.wires[HANDSHAKE:], size)), tls_keylog=made.keys)
    assert answered(found) == [0, 1]


@pytest.mark.parametrize("lost", [3, 4, 5, 6])
def test_a_handshake_of_which_a_packet_was_lost_is_no_hindrance(lost: int) -> None:
    made, other = recorded(TLS_13, count=8), recorded(TLS_13, count=1)

    # What is left of the handshake is tried with all secrets first, in vain.
    found = read(pcap([*made.wires[:lost], *made.wires[lost + 1 :]]), tls_keylog=made.keys + other.keys)
    assert answered(found)[-6:] == list(range(2, 8))


@pytest.mark.parametrize(("suite", "number"), [(0x1301, 0), (0x1301, 70_000), (0x1302, 3_000_000), (0x1303, 1_500)])
def test_the_number_of_the_first_record_is_found(suite: int, number: int) -> None:
    secret = bytes(range(48 if suite == 0x1302 else 32))
    keys = f"{TRAFFIC[0]} {'11' * 32} {secret.hex()}\n{TRAFFIC[1]} {'11' * 32} {secret[::-1].hex()}\n"
    frame = encode_request(MetadataRequest(topics=None), 12, 5, "me")
    talk = Talk()
    for each in (number, number + 1):
        talk.client_bytes(sealed(suite, secret, each, struct.pack(">i", len(frame)) + frame))

    found = read(pcap(talk.wires), tls_keylog=keys)
    assert [(row["api_name"], row["correlation_id"]) for row in found] == [("Metadata", 5)] * 2


def sealed(suite: int, secret: bytes, number: int, content: bytes) -> bytes:
    cipher = tls_ciphers.of_secret(suite, secret)
    head = struct.pack(">BHH", 23, 0x0303, len(content) + 17)
    nonce = (cipher._iv ^ number).to_bytes(12, "big")  # type: ignore[attr-defined]
    return head + bytes(cipher._aead.encrypt(nonce, content + b"\x17", head))  # type: ignore[attr-defined]


def test_the_right_secret_is_found_among_many() -> None:
    made = recorded(TLS_13, count=8)
    others, chance = "", random.Random(1)
    for _ in range(50):
        name = chance.randbytes(32).hex()
        others += "".join(f"{label} {name} {chance.randbytes(48).hex()}\n" for label in TRAFFIC)

    assert answered(read(pcap(made.wires[HANDSHAKE:]), tls_keylog=others + made.keys + others)) == list(range(8))


def test_tries_are_bounded_for_a_connection_and_for_a_capture() -> None:
    chance = random.Random(1)
    keys = KeyLog()
    for _ in range(1000):
        name = chance.randbytes(32).hex()
        keys.add("".join(f"{label} {name} {chance.randbytes(48).hex()}\n" for label in TRAFFIC))
    keys.chunks_left = 40
    late = tls_late.LateStart(keys)

    assert late.find(b"\x17\x03\x03\0\x20", bytes(32)) is None
    assert keys.chunks_left == 0
    assert late.why.endswith("no secret that is known opens its records")
    keys.chunks_left = 10_000
    tls_late.LateStart(keys).find(b"\x17\x03\x03\0\x20", bytes(32))
    assert keys.chunks_left == 10_000 - 2 * 1000 * (tls_late.CONNECTION_CHUNKS_MAX // 4000)


def test_secrets_of_connections_with_a_handshake_are_not_tried() -> None:
    made = recorded(TLS_13, count=2)
    keys = KeyLog(made.keys)
    (name,) = keys.randoms()
    keys.use(name)
    keys.use(bytes(32))
    late = tls_late.LateStart(keys)

    assert keys.used == {name}
    assert late.find(b"\x17\x03\x03\0\x20", bytes(32)) is None
    assert late.why.endswith("no secret of TLS 1.3 for it is known")


def test_tls_1_2_does_not_open_without_its_handshake_and_says_so() -> None:
    made = recorded(TLS_12, count=8)

    (row,) = read(pcap(made.wires[HANDSHAKE + 2 :]), tls_keylog=made.keys)
    assert "the capture began after its handshake, and no secret of TLS 1.3 for it is known" in details([row])
    size = sum(len(each.packet) - 40 for each in made.wires[HANDSHAKE + 2 :])
    assert f"; {size} bytes passed over" in details([row])


def test_secrets_that_come_behind_the_packets_open_what_waited() -> None:
    made = recorded(TLS_13, count=3)
    keys = made.keys.encode()
    secrets = block(10, struct.pack("<II", 0x544C534B, len(keys)) + keys)
    packets = [enhanced(each.ts // 1000, each.packet) for each in made.wires[HANDSHAKE:]]

    assert answered(read(b"".join([section(), interface(), *packets, secrets]))) == [0, 1, 2]
    (row,) = read(b"".join([section(), interface(), *packets]))
    assert "the capture began after its handshake, and no secret of TLS 1.3 for it is known" in details([row])


def test_tls_is_named_where_packets_and_records_never_begin_together() -> None:
    made = recorded(TLS_13, count=30)
    answers = [each for each in made.wires[HANDSHAKE:] if each.packet[22:24] != struct.pack(">H", 9092)]
    pieces = in_pieces([each for each in answers if len(each.packet) > 20_000], 700)[1:]

    (row,) = read(pcap(pieces))
    assert row["tls"]
    assert "the connection speaks TLS; its content cannot be read" in details([row])


def test_one_direction_is_enough() -> None:
    made = recorded(TLS_13, count=8)
    asked = [each for each in made.wires if each.packet[22:24] == struct.pack(">H", 9092)]
    answers = [each for each in made.wires if each.packet[22:24] != struct.pack(">H", 9092)]

    for start in (0, 5):
        found = read(pcap(asked[start:]), tls_keylog=made.keys)
        assert [row["status"] for row in found[-6:]] == ["no_response"] * 6
    found = read(pcap(answers[6:]), tls_keylog=made.keys, ports=frozenset({9092}))
    assert [row["status"] for row in found[-4:]] == ["no_request"] * 4


def test_noise_holds_no_tls() -> None:
    noise = random.Random(3).randbytes(1 << 20)

    assert not holds_tls(noise)
    assert not holds_tls(b"\x17\x03\x03\0\0" * 2)
    assert holds_tls(noise[:999] + b"\x17\x03\x03\0\x05hello" * 3)
    assert tls_late.record_at(noise) is None
    assert tls_late.record_at(b"\x17\x03\x03\0\x05hell") is None
    assert tls_late.record_at(b"x\x17\x03\x03\0\x05hello\x17\x03\x03") == (1, 11)
