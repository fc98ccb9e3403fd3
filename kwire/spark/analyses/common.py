"""Shared parts of the analyses: key columns, time bins, ranges of offsets."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own habit.

# Offsets come from the wire, and one row may claim 2^62 of them. Kafka acquires at most
# `group.share.partition.max.record.locks` (range up to 10,000) records of a partition at a time.
RANGE_RECORDS_MAX = 100_000

# Kafka's default of `group.share.delivery.count.limit`.
DELIVERY_COUNT_LIMIT = 5

RECORD = ("group_id", "topic", "partition", "offset")
CONNECTION = ("file", "conn_id", "stream_epoch")


def count_by_time_bin(rows: DataFrame, moment: Column, name: str, start_us: int, step_us: int) -> DataFrame:
    """Counts of rows by `name` and time bin: columns `name`, `bin` and `count`."""
    return rows.groupBy(F.col(name).alias("name"), time_bin(moment, start_us, step_us)).agg(F.count("*").alias("count"))


def time_bin(moment: Column, start_us: int, step_us: int) -> Column:
    """The time bin of a time as `bin`: bins of `step_us` start at `start_us`; null outside the range of an integer."""
    return F.floor((F.unix_micros(moment) - start_us) / step_us).try_cast("int").alias("bin")


def micros_between(start: Column, end: Column) -> Column:
    """Microseconds from one time to another."""
    return F.unix_micros(end) - F.unix_micros(start)


def is_refused() -> Column:
    """Whether the broker refused an acknowledgement."""
    return F.coalesce(F.col("error_code") != 0, F.lit(False))


def range_length() -> Column:
    """The number of records in a range of offsets; null where an invalid range exceeds 64 bits."""
    # `try_` returns null; the plain operators would fail the whole job.
    return F.try_add(F.try_subtract(F.col("last_offset"), F.col("first_offset")), F.lit(1))


def is_valid_range() -> Column:
    """Whether a range of offsets is one that a broker can send."""
    return (F.col("first_offset") >= 0) & range_length().between(1, RANGE_RECORDS_MAX)


def topic_or_id() -> Column:
    """The topic's name, or its id if the capture never names it."""
    return F.coalesce("topic", "topic_id")


def explode_offsets(ranges: DataFrame) -> DataFrame:
    """One row for each offset of the ranges."""
    return (
        ranges.filter(is_valid_range())
        .withColumn("offset", F.explode(F.sequence("first_offset", "last_offset")))
        .withColumn("topic", topic_or_id())
    )
