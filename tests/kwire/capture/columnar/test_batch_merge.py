"""The columnar reader buffers a bounded number of outcomes of the streaming pipeline, however many a capture has."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kwire.capture import index
from kwire.capture.columnar import batch_merge
from kwire.capture.columnar.message_batches import MessageBatches
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.kafka.exchange import Outcome
from kwire.capture.model import Row
from kwire.capture.options import Options
from kwire.capture.reader import read_rows
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW
from tests.support.captures.capture_files import CapturedConnection, CapturedPacket, build_pcap
from tests.support.captures.index_captures import connection_without_kafka

pytestmark = pytest.mark.slow

COLUMNS = ["conn_id", "req_ts", "correlation_id"]
# A quarter of what it is, so that the captures are small.
ROWS_MAX = batch_merge.ROWS_MAX // 4
COUNT = ROWS_MAX + 3_000
CLEAN_COUNT = 1_000
# The reorder window, and one row that is read ahead.
BUFFERED_MAX = ORDER_WINDOW + 1


def rows_with_counts(reader: ColumnarReader, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[list[Row], int]]:
    """The rows of each batch, and how many outcomes, of one row each, were taken from the streaming pipeline so far."""
    outcomes, taken = reader.ordered_outcomes(issues=True), 0

    def counted(*, issues: bool) -> Iterator[Outcome]:
        nonlocal taken
        assert issues
        for outcome in outcomes:
            taken += 1
            yield outcome

    monkeypatch.setattr(reader, "ordered_outcomes", counted)
    return ((batch.to_pylist(), taken) for batch in MessageBatches(reader, COLUMNS).read_batches(issues=True))


def connection(port: int, count: int, step: int, *, is_clean: bool) -> list[CapturedPacket]:
    """A connection with this many rows; each packet is `step` nanoseconds later than the one before.

    Args: is_clean: otherwise a connection of the same endpoints follows that is not Kafka: an outcome without a row.
    """
    captured = CapturedConnection(("127.0.0.1", port))
    captured.open()
    for number in range(count):
        # An empty list of groups.
        captured.exchange(struct.pack(">hhih", 16, 0, number, -1), struct.pack(">ihi", number, 0, 0))
    start = captured.packets[0].ts
    packets = [packet._replace(ts=start + place * step + port) for place, packet in enumerate(captured.packets)]
    if not is_clean:
        packets += connection_without_kafka(port, start=packets[-1].ts)
    return packets


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batch_merge, "ROWS_MAX", ROWS_MAX)


@pytest.fixture(scope="module")
def unclean() -> list[CapturedPacket]:
    return connection(40_000, COUNT, 1_000_000, is_clean=False)


def check_buffered_rows(capture: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that few outcomes are buffered at any time, of a capture whose outcomes are all of the pipeline."""
    row_count = taken = 0
    reader = ColumnarReader(index.build_index(capture), None, Options())
    for rows, taken in rows_with_counts(reader, monkeypatch):
        row_count += len(rows)
        assert taken <= row_count + BUFFERED_MAX
    assert (row_count, taken) == (COUNT, COUNT + 1)


def test_rows_of_the_pipeline_are_returned_before_all_of_them_are_built(
    unclean: list[CapturedPacket], monkeypatch: pytest.MonkeyPatch
) -> None:
    check_buffered_rows(build_pcap(unclean), monkeypatch)


def test_rows_among_those_of_clean_flows_are_returned_in_batches_and_in_order(
    unclean: list[CapturedPacket], monkeypatch: pytest.MonkeyPatch
) -> None:
    clean = connection(50_000, CLEAN_COUNT, 10_000_000, is_clean=True)
    capture = build_pcap(sorted(unclean + clean, key=lambda wire: wire.ts))
    reader = ColumnarReader(index.build_index(capture), None, Options())
    assert sorted(flow.unclean_reason for flow in reader.index.flows) == ["clean", "not_kafka", "not_kafka"]

    rows, taken = list[Row](), 0
    for some, taken in rows_with_counts(reader, monkeypatch):
        rows += some
        assert taken <= len(rows) + BUFFERED_MAX
    expected = [(row["conn_id"], row["correlation_id"]) for row in read_rows(capture, options=Options(bodies=False))]
    keys = [(row["conn_id"], row["correlation_id"]) for row in rows]
    assert keys == expected
    assert len(keys) == COUNT + CLEAN_COUNT
    assert taken == COUNT + 1


def test_rows_of_a_clock_that_runs_backwards_are_not_buffered(
    unclean: list[CapturedPacket], monkeypatch: pytest.MonkeyPatch
) -> None:
    last = unclean[-1].ts
    backwards = [wire._replace(ts=2 * unclean[0].ts - wire.ts + last) for wire in unclean]

    check_buffered_rows(build_pcap(backwards), monkeypatch)
