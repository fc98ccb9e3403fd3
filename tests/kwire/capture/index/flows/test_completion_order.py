"""Exchanges of flows with loss are complete in the order of the streaming pipeline, which sessions depend on."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index import build_index
from kwire.capture.index.scan import scanner
from kwire.capture.kafka.exchange import Exchange, Outcome
from kwire.capture.options import Options
from kwire.capture.reader import read_outcomes
from kwire.capture.tcp.stream_limits import LINGER_NS
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import request_bytes, response_bytes

SPAN_SIZES = (2_048, scanner.SPAN_SIZE)
Key = tuple[int, int | None, int | None]


def exchanges(port: int, count: int, *, is_closed: bool = False) -> list[CapturedPacket]:
    """A connection with exchanges of two packets each, after three packets of its handshake."""
    connection = CapturedConnection(("127.0.0.1", port)).open()
    for number in range(count):
        connection.exchange(request_bytes(number), response_bytes(number))
    return connection.close().packets if is_closed else connection.packets


def without(packets: list[CapturedPacket], place: int) -> list[CapturedPacket]:
    return packets[:place] + packets[place + 1 :]


def later(packets: list[CapturedPacket], start: int, step: int) -> list[CapturedPacket]:
    """The packets with other times, nanoseconds."""
    return [packet._replace(ts=start + place * step) for place, packet in enumerate(packets)]


def keys(outcomes: Iterable[Outcome]) -> list[Key]:
    """The client port, and the packets of the request and the response."""
    found: list[Key] = []
    for outcome in outcomes:
        if isinstance(outcome, Exchange):
            sides = outcome.request, outcome.response
            request, response = (None if side is None else side.frame.packet for side in sides)
            found.append((max(end[1] for end in outcome.flow.ends), request, response))
    return found


def check_order(packets: list[CapturedPacket]) -> list[Key]:
    """Check the order of exchanges. Returns: these exchanges."""
    capture = build_pcap(sorted(packets, key=lambda packet: packet.ts))
    reader = ColumnarReader(build_index(capture), None, Options())
    found = keys(reader.outcomes("messages", issues=True))

    assert found == keys(read_outcomes(capture, Options()))
    return found


@pytest.mark.parametrize("span_size", SPAN_SIZES)
def test_connections_are_closed_in_the_order_of_their_beginnings(
    span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", span_size)
    # Of each, a response and the last request but one are lost, so bytes are buffered and a request is not answered.
    first, second = (without(without(exchanges(port, 12), 23), 10) for port in (40_000, 40_001))
    found = check_order([*later(first, 1_000_000, 1_000_000), *later(second, 1_000_500, 1_000_000)])

    unanswered = [port for port, request, response in found if request is not None and response is None]
    assert unanswered == [40_000, 40_001]


@pytest.mark.parametrize("span_size", SPAN_SIZES)
@pytest.mark.parametrize("is_other_lossy", [False, True])
@pytest.mark.parametrize("step", [1_000_000, 200_000_000])
def test_what_is_buffered_is_complete_when_the_connection_receives_no_late_packets_anymore(
    step: int, is_other_lossy: bool, span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", span_size)
    # Two responses are lost shortly before the FIN: what follows is buffered.
    ended = [without(exchanges(port, 12, is_closed=True), 22) for port in (40_000, 40_001)]
    other = exchanges(40_002, 60)
    other = without(other, 20) if is_other_lossy else other
    packets = [*later(ended[0], 1_000, 1_000_000), *later(ended[1], 0, 1_000_000), *later(other, 500, step)]
    found = check_order(packets)

    places = [place for place, (port, _, _) in enumerate(found) if port != 40_002]
    is_closed_before_the_end = len(other) * step > 2 * LINGER_NS
    # The other connection has exchanges behind those of the two, unless the capture ends before.
    assert (places[-1] < len(found) - 10) == is_closed_before_the_end
