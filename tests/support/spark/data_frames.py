"""DataFrames of a few rows, for tests of analyses: columns that a row does not have are null."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa

from kwire.capture.rows.columns import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

START = datetime(2026, 11, 21, 10, 42, 3, tzinfo=UTC)
START_US = int(START.timestamp()) * 1_000_000

Row = dict[str, object]


def frame(spark: SparkSession, level: str, rows: Sequence[Row]) -> DataFrame:
    """A DataFrame of the level."""
    schema = arrow_schema(level)
    complete_rows = [{name: row.get(name) for name in schema.names} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(complete_rows, schema))


def at(seconds: float) -> datetime:
    """A time after the start."""
    return START + timedelta(seconds=seconds)


def message(api: str, key: int, seconds: float = 0.0, **more: object) -> Row:
    """One exchange that took a millisecond, on the first connection of a file."""
    connection = {"file": "a.pcap", "conn_id": "c>b", "stream_epoch": 0, "broker_ip": "b", "broker_port": 9092}
    request = {"api_name": api, "api_key": key, "api_version": 1, "client_id": "me", "correlation_id": 1}
    times = {"req_ts": at(seconds), "resp_ts": at(seconds + 0.001), "latency_us": 1_000}
    return {**connection, **request, **times, "in_flight": 0, "status": "ok", "order_ok": True, "issues": [], **more}


def acquired(first: int, last: int, count: int = 1, *, at_s: float = 0.0, **more: object) -> Row:
    """One acquired range."""
    row = {"group_id": "g", "topic": "t", "partition": 0, "first_offset": first, "last_offset": last}
    return {**row, "delivery_count": count, "ts": at(at_s), **more}


def acked(first: int, last: int, name: str, *, at_s: float = 1.0, error: int = 0, **more: object) -> Row:
    """One acknowledged range."""
    row = {"group_id": "g", "topic": "t", "partition": 0, "first_offset": first, "last_offset": last, "ack_name": name}
    key = {"member_id": "m", "client_id": "c", "correlation_id": int(at_s * 10)}
    return {**row, **key, "error_code": error, "ts": at(at_s), **more}
