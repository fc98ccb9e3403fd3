"""The fast lane holds pieces of what generators make beside it, however many rows a capture has."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from kwire.capture import index
from kwire.capture.lane.placed import ROWS_MAX
from kwire.capture.lane.reading import Lane
from kwire.capture.options import Options
from kwire.capture.order import ORDER_WINDOW
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from tests.kwire.capture.wire import Talk, Wire, pcap

COLUMNS = ["conn_id", "req_ts", "correlation_id"]
COUNT = ROWS_MAX + 3_000
# Those that wait for their order, and the one that is seen to come next.
HELD_MAX = ORDER_WINDOW + 1


class Counting(Lane):
    """It counts the rows that generators have made for it."""

    made = 0

    def _slow_rows(self, *, troubles: bool) -> Iterator[Row]:
        for row in super()._slow_rows(troubles=troubles):
            self.made += 1
            yield row


def talk(port: int, count: int, step: int, *, is_clean: bool) -> list[Wire]:
    """A connection with so many rows, each as much later than the one before."""
    own = Talk(("127.0.0.1", port))
    own.open()
    for number in range(count if is_clean else count - 1):
        # A list of groups, of which there are none.
        own.asks(struct.pack(">hhih", 16, 0, number, -1)).answers(struct.pack(">ihi", number, 0, 0))
    if not is_clean:
        # Nobody has asked for it.
        own.answers(struct.pack(">ihi", -1, 0, 0))
    start = own.wires[0].ts
    return [wire._replace(ts=start + place * step + port) for place, wire in enumerate(own.wires)]


@pytest.fixture(scope="module")
def odd() -> list[Wire]:
    return talk(40_000, COUNT, 1_000_000, is_clean=False)


def test_rows_of_the_generators_come_before_all_of_them_are_made(odd: list[Wire]) -> None:
    lane = Counting(index.built(pcap(odd)), None, Options())
    found = lane.side_by_side(COLUMNS, troubles=True)

    told = 0
    for batch in found:
        told += batch.num_rows
        assert lane.made <= told + HELD_MAX
    assert told == lane.made == COUNT


def test_rows_among_those_of_clean_flows_come_in_pieces_and_in_order(odd: list[Wire]) -> None:
    clean = talk(50_000, 3_000, 10_000_000, is_clean=True)
    capture = pcap(sorted(odd + clean, key=lambda wire: wire.ts))
    found = index.built(capture)
    assert sorted(flow.why for flow in found.flows) == ["clean", "pairing"]
    lane = Counting(found, None, Options())

    told = []
    for batch in lane.side_by_side(COLUMNS, troubles=True):
        told += batch.to_pylist()
        assert lane.made <= len(told) + HELD_MAX
    expected = [(row["conn_id"], row["correlation_id"]) for row in rows(capture, options=Options(bodies=False))]
    found_rows = [(row["conn_id"], row["correlation_id"]) for row in told]
    # The generators tell what nobody has asked for only at the end.
    assert [each for each in found_rows if each[1] != -1] == [each for each in expected if each[1] != -1]
    assert len(found_rows) == len(expected) == COUNT + 3_000


def test_rows_of_a_clock_that_runs_backwards_are_not_held(odd: list[Wire]) -> None:
    last = odd[-1].ts
    backwards = [wire._replace(ts=2 * odd[0].ts - wire.ts + last) for wire in odd]
    lane = Counting(index.built(pcap(backwards)), None, Options())

    told = 0
    for batch in lane.side_by_side(COLUMNS, troubles=True):
        told += batch.num_rows
        assert lane.made <= told + HELD_MAX
    assert told == lane.made == COUNT
