"""Flows that began before the capture are clean once both sides are in step; their rows are those of the generators."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from kwire.capture import arrow, index
from kwire.capture.index.building import beginning
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import SPAN_SIZE
from kwire.capture.options import Options
from kwire.capture.pipeline import rows
from kwire.capture.schemas import columns
from tests.kwire.capture.index.kit import FILES, IMPAIRED
from tests.kwire.capture.wire import Talk, Wire, ip_packets, pcap

SMALL = [path for path in FILES if path.stem.startswith("small_")]
NAMES = [column.name for column in columns("messages") if not column.name.startswith("body_")]
HEADS = [name for name in NAMES if not name.startswith("session_")]
WAYS = [name for name in IMPAIRED if "snaplen" not in name]


def assert_same(
    capture: bytes, level: str = "messages", options: Options | None = None, names: Sequence[str] | None = None
) -> None:
    """The rows that the index helps to make are those of the generators, whatever their order."""
    options = options or Options(bodies=False)
    names = names or (NAMES if level == "messages" else arrow.names_of(level, None))
    found = pa.Table.from_batches(
        arrow.batches(capture, level, options, columns=names), schema=arrow.record_batch([], level, names).schema
    )
    expected = arrow.record_batch(list(rows(capture, level, options)), level, names)
    assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, expected.to_pylist()))


def whys(capture: bytes) -> list[str]:
    return [flow.why for flow in index.built(capture).flows]


def exchanges(count: int, size: int = 0) -> Talk:
    """A connection with so many exchanges; requests have client ids of `size` letters."""
    talk = Talk().open()
    for number in range(count):
        head = struct.pack(">hhih", 16, 0, number, size) + b"x" * size
        talk.asks(head).answers(struct.pack(">ihi", number, 0, 0))
    return talk


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.stem)
def test_captures_that_begin_at_any_packet_have_the_rows_of_the_generators(path: Path) -> None:
    wires = ip_packets(path)

    for cut in range(1, len(wires)):
        assert_same(pcap(wires[cut:]))


@pytest.mark.parametrize("level", ["messages", "partitions", "share_acks"])
@pytest.mark.parametrize("span_size", [SPAN_SIZE, 8_192])
@pytest.mark.parametrize("way", WAYS)
def test_impaired_captures_that_begin_anywhere(
    way: str, span_size: int, level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    chance = random.Random(f"{way} {span_size} {level}")

    for path in chance.sample(FILES, 4):
        wires = IMPAIRED[way](ip_packets(path)[:400])
        for _ in range(2):
            capture = pcap(wires[chance.randrange(len(wires)) :])
            # What is left of a session when its connection has ended, the generators tell later.
            assert_same(capture, level, names=HEADS if level == "messages" else None)


@pytest.mark.parametrize("port", [9092, 40_000])
def test_a_port_that_is_named_tells_the_client(port: int) -> None:
    capture = pcap(exchanges(30).wires[5:])

    assert whys(capture) == ["clean"]
    assert_same(capture, options=Options(ports=frozenset({port}), bodies=False))


def test_a_response_that_nobody_asked_for_is_told_where_its_connection_ends() -> None:
    capture = pcap(exchanges(30).close().wires[4:])

    assert whys(capture) == ["clean"]
    assert_same(capture)
    (first, *_) = [row for batch in arrow.batches(capture) for row in batch.to_pylist()]
    assert (first["status"], first["correlation_id"], first["req_ts"]) == ("no_request", 0, None)


def test_a_request_with_the_number_of_a_response_that_nobody_asked_for_leaves_the_flow_to_the_generators() -> None:
    talk = exchanges(30)
    talk.asks(struct.pack(">hhih", 16, 0, 0, -1)).answers(struct.pack(">ihi", 0, 0, 0))
    capture = pcap(talk.wires[4:])

    assert whys(capture) == ["pairing"]
    assert_same(capture)


@pytest.mark.parametrize("size", [30, 333, 2_000])
@pytest.mark.parametrize("cut", [3, 4, 5, 8, 11, 30])
def test_frames_in_pieces_are_found_from_the_first_whole_one_on(size: int, cut: int) -> None:
    talk = exchanges(2)
    for number in range(40):
        frame = struct.pack(">hhih", 16, 0, 100 + number, 900) + b"y" * 900
        data = struct.pack(">i", len(frame)) + frame
        for at in range(0, len(data), size):
            talk.client_bytes(data[at : at + size])
        talk.answers(struct.pack(">ihi", 100 + number, 0, 0))
    capture = pcap(talk.wires[cut:])

    assert whys(capture) == ["clean"]
    assert_same(capture)


def test_sequence_numbers_may_pass_their_end_in_the_beginning() -> None:
    for before in range(1, 1_000, 37):
        talk = Talk(isn=(2**32 - before, 2**32 - 1 - before // 2)).open()
        for number in range(30):
            talk.asks(struct.pack(">hhih", 16, 0, number, -1)).answers(struct.pack(">ihi", number, 0, 0))
        wires = talk.wires[3:]
        # The lowest number comes second.
        wires[0], wires[2] = wires[2]._replace(ts=wires[0].ts), wires[0]._replace(ts=wires[2].ts)

        assert whys(pcap(wires)) == ["clean"]
        assert_same(pcap(wires))


def test_a_syn_on_a_connection_that_began_before_the_capture_opens_another() -> None:
    first, second = exchanges(30).wires[3:], Talk(isn=(70_000_000, 90_000_000), start=1_700_000_900_000_000_000)
    second.open().asks(struct.pack(">hhih", 16, 0, 5, -1)).answers(struct.pack(">ihi", 5, 0, 0))
    capture = pcap([*first, *second.wires])

    assert whys(capture) == ["reuse"]
    assert_same(capture)


def test_a_connection_that_is_given_up_is_left_to_the_generators(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beginning, "PACKETS_MAX", 10)
    capture = pcap(exchanges(30).wires[3:])

    assert whys(capture) == ["midstream"]
    assert_same(capture)


def test_a_connection_of_one_direction_stays_with_the_generators() -> None:
    wires = exchanges(40).wires[3:]
    own = [each for each in wires if Wire(*each).packet[20:22] == struct.pack(">H", 40_000)]

    assert whys(pcap(own)) == ["midstream"]
    assert_same(pcap(own))


def test_beginnings_of_a_capture_read_from_its_sidecar(tmp_path: Path) -> None:
    wires = [piece for each in FILES[:4] for piece in ip_packets(each)[20:]]
    path = tmp_path / "mid.pcap"
    path.write_bytes(pcap(sorted(wires, key=lambda each: each.ts)))
    fresh = index.built(path)
    kept = index.of(path, cache=index.BESIDE)

    assert kept.sidecar is not None
    assert kept.lost == fresh.lost
    tables = [pa.Table.from_batches(arrow.flow_batches([each], None)) for each in (fresh, kept)]
    assert tables[0].equals(tables[1])
