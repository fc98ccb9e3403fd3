"""The columnar reader returns the rows of the streaming pipeline, for all levels, columns and damaged captures."""

from __future__ import annotations

import struct
from bisect import bisect_right, insort
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest

from kwire.capture import index
from kwire.capture.columnar.header_columns import COLUMNS, HeaderColumns
from kwire.capture.columnar.reader import ColumnarReader
from kwire.capture.index.scan import scanner
from kwire.capture.index.scan.spans import SPAN_SIZE
from kwire.capture.kafka.exchange_pairing import PENDING_REQUESTS_MAX
from kwire.capture.model import Row
from kwire.capture.options import ExchangeCondition, ExchangeFilter, Options
from kwire.capture.reader import read_batches
from kwire.capture.rows.columns import LEVELS, level_columns
from kwire.capture.rows.record_batches import make_record_batch, selected_columns
from kwire.capture.rows.reorder_buffer import ORDER_WINDOW
from tests.support.capture_model.pipeline import read_rows
from tests.support.captures.capture_files import CapturedConnection, build_pcap
from tests.support.captures.index_captures import FILES, build_test_captures, copy_connections, lose_packets

pytestmark = pytest.mark.slow

MADE = build_test_captures()
HEADER_COLUMNS = [column.name for column in level_columns("messages") if column.name in COLUMNS]
NO_BODIES = [column.name for column in level_columns("messages") if not column.name.startswith(("body_", "session_"))]
CHOICES = {
    "headers": HEADER_COLUMNS,
    "all but JSON": NO_BODIES,
    "all": None,
    "few": ["error_code", "req_ts", "api_name"],
}


#: What `pipeline_rows` was called with before, and its results, the last one first; a test reads up to five captures.
_KEPT: list[tuple[object, list[Row]]] = []
_KEPT_MAX = 5


def pipeline_rows(source: Path | bytes, level: str, options: Options) -> list[Row]:
    """The rows of the streaming pipeline with all columns, kept for the next choice of columns."""
    key = source, level, options
    for known, rows in _KEPT:
        if known == key:
            return rows
    _KEPT.insert(0, (key, list(read_rows(source, level, options))))
    del _KEPT[_KEPT_MAX:]
    return _KEPT[0][1]


def streamed_rows(source: Path | bytes, level: str, options: Options, names: Sequence[str] | None) -> pa.Table:
    """The rows of the streaming pipeline."""
    chosen = selected_columns(level, names)
    return pa.Table.from_batches([make_record_batch(pipeline_rows(source, level, options), level, chosen)])


def columnar_rows(source: Path | bytes, level: str, options: Options, names: Sequence[str] | None) -> pa.Table:
    """The rows of the columnar reader."""
    found = list(read_batches(source, level, options, columns=names))
    schema = make_record_batch([], level, selected_columns(level, names)).schema
    return pa.Table.from_batches(found, schema=schema)


def check_columnar_rows(source: Path | bytes, level: str, options: Options, names: Sequence[str] | None) -> None:
    assert_same_rows(columnar_rows(source, level, options, names), streamed_rows(source, level, options, names))


def check_rows_in_order(path: Path, level: str, names: Sequence[str] | None) -> None:
    found, expected = (read(path, level, Options(), names) for read in (columnar_rows, streamed_rows))
    assert found.to_pylist() == expected.to_pylist()


def assert_same_rows(found: pa.Table, expected: pa.Table) -> None:
    """The rows are the same. Rows of one time may be in another order, and others only if the order is better."""
    assert found.schema == expected.schema
    found_rows, expected_rows = found.to_pylist(), expected.to_pylist()
    if found_rows != expected_rows:
        assert sorted(map(repr, found_rows)) == sorted(map(repr, expected_rows))
        if "req_ts" in found.column_names:
            assert lateness(found_rows) <= lateness(expected_rows)


def lateness(rows: Sequence[Row]) -> int:
    """The largest number of earlier rows that a row should have preceded."""
    times: list[datetime] = []
    highest = 0
    for row in rows:
        request_time = row["req_ts"]
        if isinstance(request_time, datetime):
            highest = max(highest, len(times) - bisect_right(times, request_time))
            insort(times, request_time)
    return highest


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("name", MADE)
def test_messages_of_made_captures(name: str, choice: str) -> None:
    check_columnar_rows(MADE[name], "messages", Options(), CHOICES[choice])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages_of_real_captures_come_in_the_same_order(path: Path, choice: str) -> None:
    check_rows_in_order(path, "messages", CHOICES[choice])


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "messages"])
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_other_levels_of_real_captures_come_in_the_same_order(path: Path, level: str) -> None:
    check_rows_in_order(path, level, None)


@pytest.mark.parametrize("level", [level for level in LEVELS if level != "messages"])
@pytest.mark.parametrize("name", MADE)
def test_other_levels_of_made_captures(name: str, level: str) -> None:
    check_columnar_rows(MADE[name], level, Options(), None)


@pytest.mark.parametrize("noise", [0, 0.05, 0.6])
@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem[6:] in {"aio", "share", "txn"}], ids=lambda path: path.stem
)
def test_many_similar_exchanges_are_decoded_together_as_one_by_one(path: Path, noise: float) -> None:
    check_columnar_rows(copy_connections(path, 13, noise=noise), "messages", Options(), NO_BODIES)


@pytest.mark.parametrize("choice", ["headers", "all but JSON"])
@pytest.mark.parametrize(("share", "snaplen"), [(0.01, 1 << 18), (0.1, 1 << 18), (0.0, 150)])
@pytest.mark.parametrize(
    "path", [path for path in FILES if path.stem[6:] in {"aio", "share", "txn", "ck"}], ids=lambda path: path.stem
)
def test_exchanges_of_flows_with_loss_are_decoded_together_as_one_by_one(
    path: Path, share: float, snaplen: int, choice: str
) -> None:
    capture = lose_packets(copy_connections(path, 13, noise=0.02), share, snaplen=snaplen)
    options = Options(sessions=False)

    check_columnar_rows(capture, "messages", options, CHOICES[choice])
    check_columnar_rows(capture, "messages", options, None)


def test_requests_without_responses_are_dropped_at_the_limit_as_in_the_pipeline() -> None:
    headers = [struct.pack(">hhih", 18, 0, number, -1) for number in range(PENDING_REQUESTS_MAX + 20)]
    capture = build_pcap(CapturedConnection().open().send_requests(*headers).packets)

    check_columnar_rows(capture, "messages", Options(), HEADER_COLUMNS)


@pytest.mark.parametrize("span_size", [SPAN_SIZE, 16_384])
@pytest.mark.parametrize("choice", ["headers", "all"])
def test_requests_without_a_response_have_the_position_where_their_connection_ended(
    choice: str, span_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scanner, "SPAN_SIZE", span_size)
    start, count = 1_700_000_000_000_000_000, 4 * ORDER_WINDOW
    unanswered = CapturedConnection(("127.0.0.1", 40_001), start=start).open()
    unanswered.send_requests(struct.pack(">hhih", 18, 0, 7, -1))
    other = CapturedConnection(start=start).open()
    for number in range(count):
        other.exchange(struct.pack(">hhih", 18, 0, number, -1), struct.pack(">ihi", number, 0, 0))
    # An outcome at the end of the capture would follow far more rows than the window.
    middle = 3 + ORDER_WINDOW
    end = unanswered.close().packets[4:]
    wires = sorted(unanswered.packets[:4] + other.packets[:middle], key=lambda packet: packet.ts)
    wires += [packet._replace(ts=other.packets[middle - 1].ts) for packet in end] + other.packets[middle:]
    capture = build_pcap(wires)

    found = columnar_rows(capture, "messages", Options(), CHOICES[choice])

    assert found.num_rows == count + 1
    assert_same_rows(found, streamed_rows(capture, "messages", Options(), CHOICES[choice]))


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
        check_columnar_rows(path, "messages", OPTIONS[name], CHOICES[choice])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("column", ["api_name", "api_key", "client_id"])
def test_a_condition_matches_requests_of_unknown_apis(column: str, choice: str) -> None:
    headers = [struct.pack(">hhih", key, 0, number, -1) for number, key in enumerate((18, 9999, -7, -1, 32_767, 18))]
    answers = [struct.pack(">ihih", number, 0, 0, 0) for number in range(len(headers))]
    capture = build_pcap(CapturedConnection().open().send_requests(*headers).send_responses(*answers).close().packets)
    tests = [ExchangeCondition(column, "null"), ExchangeCondition(column, "null", is_negated=True)]
    values = {"api_name": "ApiVersions", "api_key": 9999, "client_id": "me"}

    for condition in (*tests, ExchangeCondition(column, "=", values[column])):
        options = Options(exchange_filter=ExchangeFilter((condition,)))
        check_columnar_rows(capture, "messages", options, CHOICES[choice])


def test_header_columns_of_unknown_apis_are_null() -> None:
    headers = [struct.pack(">hhih", key, 0, number, -1) for number, key in enumerate((18, 9999, -7, -1, 32_767))]
    found = index.build_index(build_pcap(CapturedConnection().open().send_requests(*headers).close().packets))
    reader = ColumnarReader(found, None, Options())
    header_columns = HeaderColumns(found, "", lambda: reader.clients, reader.exchange_builder.build_flow)

    (exchanges,) = (exchanges for _, exchanges in reader.read_parts() if len(exchanges))
    assert header_columns.build_column("api_name", exchanges).to_pylist() == ["ApiVersions", None, None, None, None]
    assert header_columns.build_column("header_version", exchanges).to_pylist() == [1] * 5
