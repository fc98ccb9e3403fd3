"""Exchanges that were deferred are those of the message decoder when they are completed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kwire import registry
from kwire.capture.files.packet_reader import read_packets
from kwire.capture.kafka.deferred_decoder import DeferredDecoder, DeferredRequest, is_deferred
from kwire.capture.kafka.detection import extract_frames
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.kafka.exchange_pairing import pair_exchanges
from kwire.capture.kafka.message_decoder import MessageDecoder
from kwire.capture.model import Flow, Frame
from kwire.capture.network.packet_dissector import dissect_packets
from kwire.capture.options import Options
from kwire.capture.tcp.reassembly import reassemble_streams
from kwire.capture.tls.key_log import KeyLog
from kwire.headers import encode_request
from kwire.messages.api_versions import ApiVersionsRequest
from kwire.messages.metadata import MetadataRequest
from kwire.messages.produce import ProduceRequest
from tests.support.captures.index_captures import FILES, build_test_captures, copy_connections, lose_packets

OPTIONS = Options(sessions=False)
MADE = build_test_captures()
DECODER = MessageDecoder(registry.DEFAULT_EDITION)


def exchanges(source: Path | bytes, decoder: DeferredDecoder | None = None) -> list[Exchange]:
    keys = KeyLog("")
    frames = extract_frames(reassemble_streams(dissect_packets(read_packets(source, keys))), OPTIONS, keys)
    return [each for each in pair_exchanges(frames, OPTIONS, decoder) if isinstance(each, Exchange)]


def text_of(exchange: Exchange) -> str:
    """All fields of an exchange; the records are in its frames, too. Flows are equal only to themselves."""
    return re.sub(r"<memory at \w+>", "", repr(exchange))


def check_completed(source: Path | bytes) -> int:
    """Compare the completed exchanges with decoded ones; return how many were deferred."""
    decoder = DeferredDecoder(DECODER)
    found = exchanges(source, decoder)
    deferred = [each for each in found if is_deferred(each)]

    assert [text_of(decoder.complete(each)) for each in found] == list(map(text_of, exchanges(source)))
    assert all(each.request is not None and each.request.body is None for each in deferred)
    return len(deferred)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_captures_of_clients(path: Path) -> None:
    deferred = check_completed(path)

    assert deferred or path.stem == "small_tlskey"


def test_captures_with_loss() -> None:
    for path in FILES[:4]:
        lossy = lose_packets(copy_connections(path, 3, noise=0.2), 0.03)

        assert check_completed(lossy)


@pytest.mark.parametrize("name", MADE)
def test_captures_of_every_kind_and_damage(name: str) -> None:
    assert check_completed(MADE[name]) >= 0


def is_request_deferred(data: bytes, damage: str | None = None) -> bool:
    flow = Flow(((b"\x7f\0\0\1", 1), (b"\x7f\0\0\1", 2)), 0, "raw")
    frame = Frame(flow, True, 0, 0, 0, len(data), data, damage)
    return isinstance(DeferredDecoder(DECODER).decode_request(frame), DeferredRequest)


def test_only_complete_requests_of_the_usual_kind_are_deferred() -> None:
    usual = encode_request(MetadataRequest(), 12, 1, "me")
    with_tag = usual[:12] + b"\x01\x20\x00" + usual[13:]

    assert is_request_deferred(usual)
    assert not is_request_deferred(usual, "snaplen")
    assert not is_request_deferred(with_tag)
    assert not is_request_deferred(usual[:11])
    assert not is_request_deferred(b"\x7f\xff" + usual[2:])
    assert not is_request_deferred(usual[:2] + b"\x7f\xff" + usual[4:])
    assert not is_request_deferred(encode_request(ApiVersionsRequest(), 3, 1, "me"))


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_produce_requests_are_deferred_if_they_certainly_have_a_response(version: int) -> None:
    def produce(acks: int, transactional_id: str | None = None) -> bytes:
        return encode_request(ProduceRequest(acks=acks, transactional_id=transactional_id), version, 1, "me")

    assert is_request_deferred(produce(-1))
    assert is_request_deferred(produce(1))
    assert not is_request_deferred(produce(0))
    assert not is_request_deferred(produce(-1, "mine"))
