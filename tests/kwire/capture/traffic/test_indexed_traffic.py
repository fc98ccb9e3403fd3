"""Columns have the rows of the streaming pipeline for the levels `flows` and `packets`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kwire.capture.index import build_index
from kwire.capture.index.scan import scanner
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_batches, read_flow_batches, read_rows
from kwire.capture.rows.columns import level_columns
from kwire.capture.rows.record_batches import make_record_batch
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW
from kwire.capture.traffic import packet_batches
from tests.support.capture_model import traffic_rows
from tests.support.capture_model.indexed_segments import read_segments
from tests.support.capture_model.pipeline import rows_from_segments
from tests.support.captures.capture_files import CAPTURES, CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import batch_rows, pipeline_rows
from tests.support.captures.mutated_captures import mutate_capture

pytestmark = pytest.mark.slow

LEVELS = ("flows", "packets")
KEYS = (CAPTURES / "small_tlskey.keys").read_text("latin-1")
OPTIONS = (
    Options(),
    Options(tls_keylog=KEYS),
    Options(ports=frozenset({9092})),
    Options(ports=frozenset({21_092})),
    Options(ports=frozenset(range(1, 65_536, 2))),
    Options(frame_size_max=200),
)
MUTATION_COUNT = 40
SECOND_NS = 1_000_000_000


def names(level: str) -> list[str]:
    return [column.name for column in level_columns(level)]


def assert_rows_of_tracker(capture: bytes, level: str, options: Options = OPTIONS[0]) -> list[Row]:
    """Columns return the rows of the pipeline, in the same order. Returns: these rows."""
    expected = pipeline_rows(capture, level, options)
    assert list(read_rows(capture, level, options)) == expected
    return expected


def syn_packets(count: int) -> list[CapturedPacket]:
    """SYNs of as many connections of the same endpoints, each with other numbers."""
    opened = [CapturedConnection(isn=(1_000 + number * 70_000, 5_000)).open().packets[0] for number in range(count)]
    return [packet._replace(ts=packet.ts + number * 1_000_000) for number, packet in enumerate(opened)]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("path", sorted(CAPTURES.glob("*.pcap*")), ids=lambda path: path.name)
def test_real_captures_have_the_rows_of_the_pipeline(path: Path, level: str) -> None:
    for options in OPTIONS[:2]:
        expected = pipeline_rows(str(path), level, options)

        assert list(read_rows(str(path), level, options)) == expected
        batch = make_record_batch(expected, level, names(level))
        assert batch_rows(read_batches(str(path), level, options)) == batch.to_pylist()


def test_damaged_captures_have_the_rows_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(MUTATION_COUNT):
        chance = random.Random(f"traffic {number}")
        capture = mutate_capture(chance)
        if not capture.is_comparable:
            continue
        monkeypatch.setattr(scanner, "SPAN_SIZE", chance.choice((2_048, 4_096, 16_384, 24 << 20)))
        options = chance.choice(OPTIONS)
        for level in LEVELS:
            assert_rows_of_tracker(capture.data, level, options)


@pytest.mark.parametrize("level", LEVELS)
def test_each_column_can_be_read_alone(level: str) -> None:
    path = CAPTURES / "small_ck.pcap"
    whole = batch_rows(read_batches(path, level))

    for name in names(level):
        found = batch_rows(read_batches(path, level, columns=[name]))
        assert found == [{name: row[name]} for row in whole]


@pytest.mark.parametrize("level", LEVELS)
def test_chosen_flows_have_the_rows_of_their_segments(level: str) -> None:
    index = build_index(CAPTURES / "kafka_scripts.pcap")
    chosen = frozenset(random.Random(3).sample(sorted(set(index.keys)), len(index.keys) // 2))
    segments = read_segments([index], chosen)
    expected = list(rows_from_segments(segments, level, index.file, Options(), index.key_log()))

    found = batch_rows(read_flow_batches([index], chosen, level))
    assert found == make_record_batch(expected, level, names(level)).to_pylist()


@pytest.mark.parametrize("span_size", [24 << 20, 256])
def test_connections_without_data_that_are_replaced_are_flows(span_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", span_size)
    capture = build_pcap(syn_packets(9))

    flows = assert_rows_of_tracker(capture, "flows")
    assert [(row["stream_epoch"], row["ended"]) for row in flows] == [(n, "reuse") for n in range(8)] + [(8, "end")]
    assert {(row["kind"], row["packets_client"]) for row in flows} == {("no_data", 1)}
    packets = assert_rows_of_tracker(capture, "packets")
    assert [row["stream_epoch"] for row in packets] == list(range(9))


def test_flows_leave_the_window_in_the_order_of_their_first_packets() -> None:
    first = CapturedConnection().open().packets
    packets = list(first)
    for number in range(ORDER_WINDOW + 5):
        connection = CapturedConnection(("127.0.0.1", 1_000 + number), start=first[0].ts + (number + 1) * SECOND_NS)
        packets += connection.open().close().packets
    packets.append(first[-1]._replace(ts=packets[-1].ts + 6 * SECOND_NS))

    flows = assert_rows_of_tracker(build_pcap(packets), "flows")
    # The first connection is open until the end, so some that began later have left the window.
    assert [row["client_port"] for row in flows].index(40_000) > 0


def test_packets_wait_for_their_client_up_to_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, answered = b"\0\x12\0\0\0\0\0\x01\0\x02me", b"\0\0\0\x01\0\0\0\0\0\0"
    late = CapturedConnection().open()
    for _ in range(9):
        late.exchange(asked, answered)
    other = CapturedConnection(("127.0.0.1", 41_000)).open()
    for _ in range(6):
        other.exchange(asked, answered)
    # The first packet with data is a response; the requests come after those of another connection.
    packets: Sequence[CapturedPacket] = [late.packets[4], *other.packets[:9], *late.packets[5:], *other.packets[9:]]
    # Its start is known at its 16th packet.
    packets = [packet._replace(ts=packets[0].ts + number * 1_000_000) for number, packet in enumerate(packets)]
    capture = build_pcap(packets)

    for limit, is_known in ((100, True), (24, True), (23, False), (0, False)):
        for module in (traffic_rows, packet_batches):
            monkeypatch.setattr(module, "PENDING_PACKETS_MAX", limit)
        rows = assert_rows_of_tracker(capture, "packets")
        assert (rows[0]["from_client"] is not None) is is_known
