"""Rows of the level `records`: damaged batches, and times outside the calendar."""

from __future__ import annotations

import pytest

from kwire.capture.rows.dead_letter_headers import dead_letter_columns
from kwire.capture.rows.json_lines import format_json_line
from kwire.records import Record
from tests.support.captures.capture_files import CapturedConnection
from tests.support.captures.conversations import produce_request


def test_unreadable_records_are_a_row_with_the_reason() -> None:
    good, bad = produce_request(2), bytearray(produce_request(3))
    bad[bad.index(b"\x02k") - 1 :] = b"\x7f" * (len(bad) - bad.index(b"\x02k") + 1)
    broken = bad[:-3] + b"\0\0\0"
    rows = CapturedConnection().open().send_requests(good, bytes(broken)).read_rows("records")

    values = [(row["correlation_id"], row["value_size"], row["issue"] is None) for row in rows]
    assert values == [(2, 1, True), (3, None, False)]
    assert list(rows[0]) == list(rows[1])
    assert list(rows[0])[:3] == ["file", "conn_id", "stream_epoch"]


@pytest.mark.parametrize(
    ("timestamp", "shown"),
    [
        (0, 0),
        (253_402_300_799_999, 253_402_300_799_999_000_000),
        (253_402_300_800_000, None),
        (2**63 - 1, None),
        (-1, None),
        (-(2**63), None),
    ],
)
def test_a_time_outside_the_calendar_is_null(timestamp: int, shown: int | None) -> None:
    connection = CapturedConnection().open().send_requests(produce_request(2, timestamp=timestamp))

    assert [row["timestamp"] for row in connection.read_rows("records")] == [shown]
    assert format_json_line(connection.read_rows("records")[0], "records")


def test_a_dead_letter_names_its_record() -> None:
    headers = (
        ("__dlq.errors.topic", b"old"),
        ("__dlq.errors.topic", b"t"),
        ("__dlq.errors.partition", b"2"),
        ("__dlq.errors.offset", b"17"),
        ("__dlq.errors.group", b"g"),
        ("__dlq.errors.delivery.count", b"70000"),
        ("__dlq.errors.message", None),
    )

    assert dead_letter_columns(Record(headers=headers)) == {
        "dlq_group_id": "g",
        "dlq_topic": "t",
        "dlq_partition": 2,
        "dlq_offset": 17,
        "dlq_delivery_count": None,
        "dlq_reason": None,
    }
    assert set(dead_letter_columns(Record(headers=(("other", b"1"),))).values()) == {None}
