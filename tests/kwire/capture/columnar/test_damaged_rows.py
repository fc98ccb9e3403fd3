"""Rows of exchanges with an incomplete side have the issue of that side and the values of the other."""

from __future__ import annotations

import pytest

from kwire.capture.columnar.batch_merge import RowBatch
from kwire.capture.columnar.formats.arrow_formatter import ArrowFormatter
from kwire.capture.columnar.formats.exchange_rows import ExchangeRows
from kwire.capture.rows.columns import level_columns
from tests.support.captures.capture_files import CAPTURES
from tests.support.captures.index_captures import (
    assert_rows_of_pipeline,
    copy_connections,
    lose_packets,
)

NAMES = [column.name for column in level_columns("messages") if not column.name.startswith(("body_", "session_"))]


@pytest.mark.slow
@pytest.mark.parametrize("snaplen", [150, 250])
@pytest.mark.parametrize("columns", [NAMES, ["status", "issues"], ["error_code", "n_topics"], ["req_ts", "client_id"]])
def test_incomplete_exchanges_are_built_by_columns_as_one_by_one(
    columns: list[str], snaplen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[int] = []
    format_rows = ArrowFormatter.format_rows

    def count_rows(self: ArrowFormatter, rows: ExchangeRows) -> RowBatch:
        built.append(0 if rows.damaged is None else len(rows.exchanges))
        return format_rows(self, rows)

    monkeypatch.setattr(ArrowFormatter, "format_rows", count_rows)
    capture = lose_packets(copy_connections(CAPTURES / "small_share.pcap", 13), 0.0, snaplen=snaplen)

    assert_rows_of_pipeline(capture, names=columns)
    assert sum(built) > 100


@pytest.mark.slow
@pytest.mark.parametrize("snaplen", [60, 75, 100])
def test_requests_that_are_cut_inside_their_headers_have_the_rows_of_the_pipeline(snaplen: int) -> None:
    capture = lose_packets(copy_connections(CAPTURES / "small_share.pcap", 13), 0.0, snaplen=snaplen)

    assert_rows_of_pipeline(capture, names=NAMES)
