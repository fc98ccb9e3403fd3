"""The fast lane gives the rows of the generators, whatever level and columns are asked for, and whatever the damage."""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from kwire.capture import arrow, index
from kwire.capture.exchange import WAITING_MAX
from kwire.capture.index.walking import walk
from kwire.capture.index.walking.spans import SPAN_SIZE
from kwire.capture.lane.plain import COLUMNS, Plain
from kwire.capture.lane.reading import Lane
from kwire.capture.only import Condition, Only
from kwire.capture.options import Options
from kwire.capture.order import ORDER_WINDOW
from kwire.capture.pipeline import rows
from kwire.capture.rows import Row
from kwire.capture.schemas import LEVELS, columns
from tests.kwire.capture.index.kit import FILES, copies, made
from tests.kwire.capture.wire import Talk, pcap

MADE = made()
HEADS = [column.name for column in columns("messages") if column.name in COLUMNS]
NO_BODIES = [column.name for column in columns("messages") if not column.name.startswith(("body_", "session_"))]
CHOICES = {"heads": HEADS, "all but JSON": NO_BODIES, "all": None, "few": ["error_code", "req_ts", "api_name"]}


def plain(source: Path | bytes, level: str, options: Options, names: Sequence[str] | None) -> pa.Table:
    """The rows of the generators."""
    chosen = arrow.names_of(level, names)
    return pa.Table.from_batches([arrow.record_batch(list(rows(source, level, options)), level, chosen)])


def fast(source: Path | bytes, level: str, options: Options, names: Sequence[str] | None) -> pa.Table:
    """The rows of the fast lane, and of the generators where that cannot go."""
    found = list(arrow.batches(source, level, options, columns=names))
    schema = arrow.record_batch([], level, arrow.names_of(level, names)).schema
    return pa.Table.from_batches(found, schema=schema)


def same(found: pa.Table, expected: pa.Table) -> None:
    """Row for row; rows of one moment may have changed places, and others only so that they are in better order."""
    assert found.schema == expected.schema
    got, wanted = found.to_pylist(), expected.to_pylist()
    if got != wanted:
        assert sorted(map(repr, got)) == sorted(map(repr, wanted))
        if "req_ts" in found.column_names:
            assert lateness(got) <= lateness(wanted)


def lateness(found: Sequence[Row]) -> int:
    """In front of how many rows that came before it a row should have been, at most."""
    times: list[datetime] = []
    most = 0
    for row in found:
        when = row["req_ts"]
        if isinstance(when, datetime):
            most = max(most, len(times) - bisect_right(times, when))
            insort(times, when)
    return most


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", MADE)
def test_messages_of_made_captures(name: str, choice: str) -> None:
    options, names = Options(), CHOICES[choice]

    same(fast(MADE[name], "messages", options, names), plain(MADE[name], "messages", options, names))


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages_of_real_captures_come_in_the_same_order(path: Path, choice: str) -> None:
    options, names = Options(), CHOICES[choice]

    assert fast(path, "messages", options, names).to_pylist() == plain(path, "messages", options, names).to_pylist()


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "messages"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_levels_of_real_captures_come_in_the_same_order(path: Path, level: str) -> None:
    assert fast(path, level, Options(), None).to_pylist() == plain(path, level, Options(), None).to_pylist()


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "messages"])
@pytest.mark.parametrize("name", MADE)
def test_other_levels_of_made_captures(name: str, level: str) -> None:
    same(fast(MADE[name], level, Options(), None), plain(MADE[name], level, Options(), None))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_clean_captures_take_the_fast_lane(path: Path) -> None:
    why = {flow.why for flow in index.built(path).flows}

    assert why <= {"clean", "midstream", "not_kafka"}
    assert ("clean" in why) == (path.stem != "small_tlskey")


@pytest.mark.parametrize("noise", [0, 0.05, 0.6])
@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem[6:] in {"aio", "share", "txn"}], ids=lambda path: path.stem
)
def test_many_like_exchanges_are_decoded_side_by_side_as_one_by_one(path: Path, noise: float) -> None:
    capture = copies(path, 13, noise=noise)

    same(fast(capture, "messages", Options(), NO_BODIES), plain(capture, "messages", Options(), NO_BODIES))


def test_a_capture_of_requests_alone_gives_up_the_oldest_of_them() -> None:
    heads = [struct.pack(">hhih", 18, 0, number, -1) for number in range(WAITING_MAX + 20)]
    capture = pcap(Talk().open().asks(*heads).wires)

    assert {flow.why for flow in index.built(capture).flows} == {"waiting"}
    same(fast(capture, "messages", Options(), HEADS), plain(capture, "messages", Options(), HEADS))


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 16_384])
@pytest.mark.parametrize("choice", ["heads", "all"])
def test_requests_without_an_answer_come_where_their_connection_ended(
    choice: str, span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "SPAN_SIZE", span_size)
    start, many = 1_700_000_000_000_000_000, 4 * ORDER_WINDOW
    left = Talk(("127.0.0.1", 40_001), start=start).open().asks(struct.pack(">hhih", 18, 0, 7, -1))
    other = Talk(start=start).open()
    for number in range(many):
        other.asks(struct.pack(">hhih", 18, 0, number, -1)).answers(struct.pack(">ihi", number, 0, 0))
    # Whoever waits for the end of the capture comes behind far more rows than these.
    middle = 3 + ORDER_WINDOW
    end = left.close().wires[4:]
    wires = sorted(left.wires[:4] + other.wires[:middle], key=lambda each: each.ts)
    wires += [each._replace(ts=other.wires[middle - 1].ts) for each in end] + other.wires[middle:]
    capture = pcap(wires)

    found = fast(capture, "messages", Options(), CHOICES[choice])

    assert {flow.why for flow in index.built(capture).flows} == {"clean"}
    assert found.num_rows == many + 1
    same(found, plain(capture, "messages", Options(), CHOICES[choice]))


OPTIONS = {
    "ports": Options(ports=frozenset({9092})),
    "other ports": Options(ports=frozenset({1})),
    "the clients' ports": Options(ports=frozenset(range(30_000, 65_536))),
    "apis": Options(apis=frozenset({"Fetch", "ShareFetch"})),
    "early access": Options(edition="4.0-early-access"),
    "small frames": Options(frame_size_max=200),
    "name": Options(name="somewhere"),
    "secrets": Options(show_secrets=True, payload=True),
    "no bodies": Options(bodies=False),
    "no sessions": Options(sessions=False),
}


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", OPTIONS)
def test_options_mean_the_same(name: str, choice: str) -> None:
    for path in FILES[:5]:
        same(
            fast(path, "messages", OPTIONS[name], CHOICES[choice]),
            plain(path, "messages", OPTIONS[name], CHOICES[choice]),
        )


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("column", ["api_name", "api_key", "client_id"])
def test_a_condition_meets_requests_of_apis_that_nobody_knows(column: str, choice: str) -> None:
    names = CHOICES[choice]
    heads = [struct.pack(">hhih", key, 0, number, -1) for number, key in enumerate((18, 9999, -7, -1, 32_767, 18))]
    answers = [struct.pack(">ihih", number, 0, 0, 0) for number in range(len(heads))]
    capture = pcap(Talk().open().asks(*heads).answers(*answers).close().wires)
    tests = [Condition(column, "null"), Condition(column, "null", is_negated=True)]
    values = {"api_name": "ApiVersions", "api_key": 9999, "client_id": "me"}

    assert {flow.why for flow in index.built(capture).flows} == {"clean"}
    for condition in (*tests, Condition(column, "=", values[column])):
        options = Options(only=Only((condition,)))
        same(fast(capture, "messages", options, names), plain(capture, "messages", options, names))


def test_the_heads_of_apis_that_nobody_knows_are_unknown() -> None:
    heads = [struct.pack(">hhih", key, 0, number, -1) for number, key in enumerate((18, 9999, -7, -1, 32_767))]
    found = index.built(pcap(Talk().open().asks(*heads).close().wires))
    lane = Lane(found, None, Options())
    maker = Plain(found, "", lambda: lane.clients)

    ((_, exchanges),) = lane.parts()
    assert maker.column("api_name", exchanges).to_pylist() == ["ApiVersions", None, None, None, None]
    assert maker.column("header_version", exchanges).to_pylist() == [1] * 5
