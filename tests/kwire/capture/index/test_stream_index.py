"""A capture that is read once, part by part, has the rows of the model."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterable, Iterator

import pytest

from kwire.capture.files.source import Source
from kwire.capture.index.stream_index import StreamIndex
from kwire.capture.kafka.exchange import Exchange
from kwire.capture.model import CaptureError, Packet, Row
from kwire.capture.options import Options
from kwire.capture.reader import read_outcomes, read_rows
from kwire.capture.rows.columns import LEVELS
from kwire.capture.tls.key_log import KeyLog
from tests.support.capture_model import pipeline as model
from tests.support.captures.capture_files import CAPTURES, CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.mutated_captures import mutate_capture
from tests.support.captures.piece_source import PieceSource

KEYS = (CAPTURES / "small_tlskey.keys").read_text("latin-1")
FILES = sorted(path.name for path in CAPTURES.glob("*.pcap*") if path.stat().st_size < 200_000)


ReadRows = Callable[[Source, str, Options], Iterator[Row]]


def rows_or_error(source: Source, level: str, options: Options, read: ReadRows) -> list[Row] | str:
    try:
        return list(read(source, level, options))
    except CaptureError as error:
        return str(error)


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FILES)
def test_parts_of_any_size_have_the_rows_of_the_model(name: str, level: str) -> None:
    data, options = (CAPTURES / name).read_bytes(), Options(tls_keylog=KEYS, name="it")
    expected = list(model.read_rows(data, level, options))
    for largest in (700, 20_000, 1 << 20):
        source = PieceSource(data, random.Random(largest), largest)
        assert list(read_rows(source, level, options)) == expected


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(40))
def test_damaged_captures_in_parts_have_the_rows_of_the_model(seed: int) -> None:
    chance = random.Random(f"stream {seed}")
    capture = mutate_capture(chance)
    if not capture.is_comparable:
        return
    options = chance.choice((Options(), Options(tls_keylog=KEYS), Options(ports=frozenset({9092, 21_092}))))
    for level in ("messages", chance.choice(list(LEVELS))):
        expected = rows_or_error(capture.data, level, options, model.read_rows)
        source = PieceSource(capture.data, chance, chance.choice((100, 2_000, 60_000)))
        assert rows_or_error(source, level, options, read_rows) == expected, (level, capture.label)


def request(number: int) -> bytes:
    """ApiVersions v0 without a client id."""
    return struct.pack(">hhih", 18, 0, number, -1)


def response(number: int) -> bytes:
    """The response to it, without APIs."""
    return struct.pack(">ihi", number, 0, 0)


def as_packets(packets: Iterable[CapturedPacket], first: int = 1) -> list[Packet]:
    """Packets of raw IP with their numbers."""
    return [Packet(number, each.ts, 101, each.data, len(each.data)) for number, each in enumerate(packets, first)]


def test_the_outcomes_of_a_stream_are_returned_before_it_waits() -> None:
    sizes: list[int] = []

    class Noted(PieceSource):
        """Notes when it is read."""

        def read(self, size: int = -1, /) -> bytes:
            sizes.append(size)
            return super().read(size)

    connection = CapturedConnection().open().exchange(request(1), response(1)).exchange(request(2), response(2))
    data = build_pcap(connection.packets)
    outcomes = read_outcomes(Noted(data, random.Random(1), 300))
    first = next(iter(outcomes))
    assert isinstance(first, Exchange)
    assert sizes
    assert len(sizes) * 300 < len(data) + 300


def test_only_the_bytes_of_requests_that_wait_are_held() -> None:
    connection = CapturedConnection().open().send_requests(request(1))
    for number in range(2, 40):
        connection.exchange(request(number), response(number))
    index = StreamIndex("it", (), Options(), KeyLog())
    for packet in as_packets(connection.packets):
        index.add_packets([packet])
    index.add_packets(as_packets(connection.close().packets[-1:], 100))
    assert index.held_size == len(request(1))


def test_packets_of_the_next_file_have_their_own_numbers() -> None:
    """A followed series counts the packets of each file from 1; the request is in the first one."""
    packets = CapturedConnection().send_requests(request(1)).send_responses(response(1)).packets

    class TwoFiles:
        """Two files with a connection."""

        def packets(self, keys: object) -> Iterator[Packet]:
            """The packets of both."""
            yield from as_packets([*packets[:1], packets[0]._replace(data=bytes(20))])
            yield from as_packets(packets[1:])

    (row,) = read_rows(TwoFiles())
    assert (row["req_packet"], row["resp_packet"]) == (1, 1)


def test_a_broken_packet_of_a_stream_is_reported_with_its_number() -> None:
    packets = [*as_packets(CapturedConnection().send_requests(request(1)).packets), Packet(2, 5, 101, b"E", 60)]
    index = StreamIndex("it", packets, Options(), KeyLog())
    assert list(index.parts()) == [0, -1]
    assert [issue.packet for _, issue in index.issues] == [2]
