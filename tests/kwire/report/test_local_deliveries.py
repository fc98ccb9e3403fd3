"""Deliveries, outcomes and lock times of records, without Spark."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from kwire.capture.rows.columns import arrow_schema
from kwire.report import local_deliveries, local_tables
from kwire.spark import analyses
from tests.support.captures.capture_files import CAPTURES
from tests.support.spark.data_frames import Row, acked, acquired

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ACKS = ("accept", "accept", "release", "reject", "renew", "renew", "gap", None)
LIMIT = 2**63 - 1


def level_table(level: str, rows: list[Row]) -> pa.Table:
    schema = arrow_schema(level)
    return pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)


def random_levels(seed: int, rows_max: int = 120) -> tuple[pa.Table, pa.Table]:
    """Random deliveries and acknowledgements at different times, with missing values and invalid ranges."""
    chance = random.Random(seed)
    moments = iter(chance.sample(range(100_000), 2 * rows_max))

    def common(number: int) -> Row:
        return {
            "group_id": chance.choice((*"gggggh", None)),
            "topic": chance.choice((*"ttttt", None)),
            "topic_id": chance.choice(("t", "id")),
            "partition": chance.choice((0, 0, 0, 0, 1, None)),
            "member_id": chance.choice((*"mmmmn", None)),
            "client_id": chance.choice(("c", None)),
            "file": chance.choice(("a", "b")),
            "correlation_id": number,
            "conn_id": chance.choice(("x>y", "z>y")),
            "resp_packet": number,
            "req_packet": number,
        }

    def offsets() -> tuple[int, int]:
        first = chance.randrange(12)
        valid = first, first + chance.randrange(5)
        return chance.choice((valid, valid, valid, (first, first - 1), (-1, 1), (0, LIMIT), (LIMIT, LIMIT)))

    rows, words = [], []
    for number in range(rows_max):
        lock_ms = chance.choice((0, 1_000, 30_000, None))
        count = chance.choice((1, 2, 5, 7))
        rows.append(
            acquired(*offsets(), count, at_s=next(moments) / 1000)
            | common(number)
            | {"lock_timeout_ms": lock_ms, "delivery_count": chance.choice((count, count, None))}
        )
        error = chance.choice((0, 0, 0, 121, None))
        words.append(
            acked(*offsets(), "accept", at_s=next(moments) / 1000)
            | common(number + rows_max)
            | {"ack_name": chance.choice(ACKS), "error_code": error, "error_name": "E" if error else None}
        )
    for row in (*rows, *words):
        row["ts"] = chance.choice((row["ts"],) * 9 + (None,))
    # Without a time, the order of several acknowledgements is not defined.
    words = [row for row in words if row["ts"] is not None or row["ack_name"] == "renew"]
    return level_table("share_acquired", rows), level_table("share_acks", words)


def assert_same_rows(found: pa.Table, expected: DataFrame, spark: SparkSession) -> None:
    rows = local_tables.to_data_frame(spark, found)
    assert [(field.name, field.dataType) for field in rows.schema] == [
        (field.name, field.dataType) for field in expected.schema
    ]
    assert sorted(map(str, rows.collect())) == sorted(map(str, expected.collect()))


def assert_same_tables(spark: SparkSession, given_out: pa.Table, words: pa.Table) -> local_deliveries.DeliveryTables:
    found = local_deliveries.compute_deliveries(given_out, words)
    frames = [local_tables.to_data_frame(spark, table) for table in (given_out, words)]
    attempts = analyses.attempts(*frames)
    assert_same_rows(found.attempts, attempts, spark)
    assert_same_rows(found.outcomes, analyses.outcomes(*frames), spark)
    assert_same_rows(found.lock_times, analyses.lock_times(attempts), spark)
    return found


@pytest.mark.spark
@pytest.mark.parametrize("name", ["small_share.pcap", "mock_share.pcapng", "small_aio.pcap"])
def test_tables_of_captures_are_those_of_the_analyses(spark: SparkSession, name: str) -> None:
    levels = [
        local_tables.read_table([str(CAPTURES / name)], {"level": level}) for level in ("share_acquired", "share_acks")
    ]

    found = assert_same_tables(spark, *levels)

    assert (found.attempts.num_rows > 0) == ("share" in name)


@pytest.mark.spark
@pytest.mark.parametrize("seed", range(3))
def test_tables_of_random_ranges_are_those_of_the_analyses(spark: SparkSession, seed: int) -> None:
    found = assert_same_tables(spark, *random_levels(seed))

    assert found.outcomes.num_rows > 5
    assert found.lock_times.num_rows > 5


def test_only_records_of_valid_ranges_are_counted() -> None:
    ranges = [acquired(5, 9), acquired(3, 3), acquired(4, 3), acquired(-1, 2), acquired(0, LIMIT), acquired(0, 100_000)]

    assert local_deliveries.count_records(level_table("share_acquired", ranges)) == 6
    assert local_deliveries.count_records(level_table("share_acquired", [])) == 0
